"""Filtered testbeds: draw many tasks, keep the hardest or the easiest by a score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from longshot.base import UserError, hash_text
from longshot.tasks.drops import unpaired_drop
from longshot.tasks.judges import Judge, TaskScorer, check_features, no_scorer
from longshot.tasks.testbed import Testbed

if TYPE_CHECKING:
    from longshot.base import Floats, TaskRows
    from longshot.data import Dataset

CANDIDATES = 10_000  # the paper's number of random tasks


def filtered(
    testbed: Testbed,
    scores: ArrayLike,
    keep: int,
    *,
    hardest: bool = True,
    judge: str,
    features: str | None = None,
    facts: Mapping[str, Any] | None = None,
) -> Testbed:
    """The ``keep`` tasks with the lowest scores (highest with ``hardest=False``), in their old order.

    ``scores`` [T] are accuracies of a judge on the tasks; samplers do not know evaluation, so they are handed in.
    ``judge`` says in the metadata what they are, ``features`` is the hash of the features it looked at, ``facts`` are
    further facts. Ties go to the earlier task. The score becomes the column ``accuracy_judged``.
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
    how: dict[str, Any] = {
        "name": "filtered",
        "candidates": len(testbed),
        "keep": "hardest" if hardest else "easiest",
        "judge": judge,
        **(facts or {}),
    }
    sampler = {**testbed.meta["sampler"], "tasks": keep, "filter": how}
    return testbed.changed(table, sampler=sampler, features=features)


def filter_tasks(
    testbed: Testbed,
    dataset: Dataset,
    judges: Sequence[Judge],
    held_out: Sequence[Judge],
    tasks: int,
    settings: Mapping[str, Any],
    score: TaskScorer | None,
    device: str,
) -> Testbed:
    """The hardest (or easiest) tasks by the accuracy of the judges' methods, and how hard they are for others.

    Held-out networks are measured on the chosen tasks, and on as many of all: the first.
    """
    if score is None:
        raise no_scorer("{instances:filtered} judges tasks")

    def accuracies(judge: Judge, rows: TaskRows) -> tuple[Judge, Floats]:
        check_features(judge, dataset.fingerprint, dataset.name, len(dataset.class_ids))
        call, values = score(judge.method, rows, judge.features, device)
        return replace(judge, method=call), values

    rows = testbed.bind(dataset.name, dataset.keys, dataset.fingerprint)
    panel = [accuracies(judge, rows) for judge in judges]
    judging = settings.get("judging") or "mean"
    every = np.stack([values for _, values in panel])
    # the largest loss goes with the lowest accuracy
    combined = {"mean": every.mean(0), "worst": every.min(0), "least": every.max(0)}[judging]
    hashes = [judge.features.hash for judge in judges]
    chosen = filtered(
        testbed,
        combined,
        tasks,
        hardest=settings.get("keep") != "easiest",
        judge=" and ".join(f"{judge.method} on {judge.features.backbone}" for judge, _ in panel),
        features=hashes[0] if len(hashes) == 1 else hash_text(*hashes),
        facts={
            "judged_by": [judge.facts() for judge, _ in panel],
            **({"judging": judging} if len(panel) > 1 else {}),
        },
    )
    kept_rows = chosen.bind(dataset.name, dataset.keys, dataset.fingerprint)
    drops = [
        unpaired_drop("judge", judge, values, accuracies(judge, kept_rows)[1]) for judge, values in panel
    ]
    first = rows.take(np.arange(min(tasks, len(testbed))))
    for network in held_out:
        named, before = accuracies(network, first)
        drops.append(unpaired_drop("held out", named, before, accuracies(network, kept_rows)[1]))
    return chosen.changed(chosen.table, sampler={**chosen.meta["sampler"], "drops": drops})
