"""Filtered testbeds: draw many tasks, keep the hardest or the easiest by a score."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from longshot.core.errors import UserError
from longshot.testbeds.testbed import Testbed

CANDIDATES = 10_000  # the paper's number of random tasks


def filtered(
    testbed: Testbed,
    scores: ArrayLike,
    keep: int,
    *,
    hardest: bool = True,
    judge: str,
    features: str | None = None,
) -> Testbed:
    """The ``keep`` tasks with the lowest scores (highest with ``hardest=False``), in their old order.

    ``scores`` [T] are accuracies of a judge on the tasks; samplers do not know evaluation, so they are handed in.
    ``judge`` says in the metadata what they are, ``features`` is the hash of the features it looked at. Ties go to
    the earlier task. The score becomes the column ``accuracy_judged``.
    """
    values = np.asarray(scores, dtype=np.float64)
    if values.shape != (len(testbed),):
        raise UserError(f"There are {values.size:,} scores for {len(testbed):,} tasks; give one for each.")
    if np.isnan(values).any():
        raise UserError(f"The score of task {int(np.flatnonzero(np.isnan(values))[0])} is not a number.")
    if not 1 <= keep <= len(testbed):
        raise UserError(
            f"{keep:,} tasks were asked for out of {len(testbed):,} candidates", "raise {candidates}"
        )
    order = np.argsort(values if hardest else -values, kind="stable")
    positions = np.sort(order[:keep])
    table = testbed.table.take(pa.array(positions))
    table = table.set_column(0, "task", pa.array(np.arange(keep)))
    table = table.append_column("accuracy_judged", pa.array(values[positions]))
    facts: dict[str, Any] = {
        "name": "filtered",
        "candidates": len(testbed),
        "keep": "hardest" if hardest else "easiest",
        "judge": judge,
    }
    sampler = {**testbed.meta["sampler"], "tasks": keep, "filter": facts}
    return testbed.changed(table, sampler=sampler, features=features)
