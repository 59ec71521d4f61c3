"""The rows of a run as arrays: one entry per testbed and method, tasks in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from longshot.studies.engine.tables import points

if TYPE_CHECKING:
    from longshot.evaluation.results import Results
    from longshot.testbeds.testbed import Testbed

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class MethodScores:
    """One method on one testbed; all arrays [T] by task, shares in 0 … 1."""

    method: str
    setting: str
    accuracy: Floats
    top5: Floats
    coarsity: Floats | None  # None where the dataset has no taxonomy


def measured(
    results: Results, testbeds: Mapping[str, Testbed], backbone: str, methods: Sequence[str], seed: int
) -> dict[str, list[MethodScores]]:
    """Testbed name → methods, inductive ones first, else in the order asked for."""
    table = results.table()
    table = table.filter(pc.and_(pc.equal(table["backbone"], backbone), pc.equal(table["seed"], seed)))
    found: dict[str, list[MethodScores]] = {}
    for name, testbed in testbeds.items():
        rows = table.filter(pc.equal(table["testbed"], testbed.content_hash))
        entries = []
        for method in methods:
            mine = rows.filter(pc.equal(rows["method"], method)).sort_by("task")
            coarsity = (
                mine["coarsity"].to_numpy().astype(np.float64) if not mine["coarsity"].null_count else None
            )
            entries.append(
                MethodScores(
                    method,
                    str(mine["setting"][0]),
                    mine["accuracy"].to_numpy().astype(np.float64),
                    mine["top5"].to_numpy().astype(np.float64),
                    coarsity,
                )
            )
        found[name] = sorted(entries, key=lambda entry: entry.setting)
    return found


def leader(entries: Sequence[MethodScores], setting: str) -> MethodScores | None:
    """The method of a setting with the highest mean accuracy."""
    those = [entry for entry in entries if entry.setting == setting]
    return max(those, key=lambda entry: float(entry.accuracy.mean())) if those else None


def transduction(entries: Sequence[MethodScores]) -> tuple[str, dict[str, Any]] | None:
    """The best transductive method against the best inductive one, paired by task; None without both."""
    from longshot.statistics import mean_interval

    inside, across = leader(entries, "inductive"), leader(entries, "transductive")
    if inside is None or across is None:
        return None
    found = mean_interval(across.accuracy - inside.accuracy)
    sentence = (
        f"best transductive ({across.method}) minus best inductive ({inside.method}): {points(found)} points"
    )
    facts = {
        "what": f"{across.method} - {inside.method}",
        "value": found.mean,
        "low": found.low,
        "high": found.high,
    }
    return sentence, facts
