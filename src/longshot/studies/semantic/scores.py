"""The rows of a run as arrays: one entry per testbed and method, tasks in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from longshot.core.arrays import Floats
from longshot.statistics import mean_interval
from longshot.studies.engine.rows import numbers, select_rows
from longshot.studies.engine.tables import points

if TYPE_CHECKING:
    from longshot.evaluation.results import Results
    from longshot.testbeds.testbed import Testbed


@dataclass(frozen=True, eq=False)
class MethodScores:
    """One method on one testbed; all arrays [T] by task, shares in 0 … 1."""

    method: str
    setting: str
    accuracy: Floats
    top5: Floats
    coarsity: Floats | None  # None where the dataset has no taxonomy


def read_scores(
    results: Results, testbeds: Mapping[str, Testbed], backbone: str, methods: Sequence[str]
) -> dict[str, list[MethodScores]]:
    """Testbed name → methods, inductive ones first, else in the order asked for."""
    table = results.table()
    scores: dict[str, list[MethodScores]] = {}
    for name, testbed in testbeds.items():
        entries = []
        for method in methods:
            rows = select_rows(table, testbed, backbone, method)
            coarsity = None if rows["coarsity"].null_count else numbers(rows, "coarsity")
            setting = str(rows["setting"][0])
            entries.append(MethodScores(method, setting, numbers(rows), numbers(rows, "top5"), coarsity))
        scores[name] = sorted(entries, key=lambda entry: entry.setting)
    return scores


def leader(entries: Sequence[MethodScores], setting: str) -> MethodScores | None:
    """The method of a setting with the highest mean accuracy."""
    candidates = [entry for entry in entries if entry.setting == setting]
    return max(candidates, key=lambda entry: float(entry.accuracy.mean()), default=None)


def transduction(entries: Sequence[MethodScores]) -> tuple[str, dict[str, Any]] | None:
    """The best transductive method against the best inductive one, paired by task; None without both."""
    inductive, transductive = leader(entries, "inductive"), leader(entries, "transductive")
    if inductive is None or transductive is None:
        return None
    gain = mean_interval(transductive.accuracy - inductive.accuracy)
    sentence = (
        f"best transductive ({transductive.method}) minus best inductive ({inductive.method}): "
        f"{points(gain)} points"
    )
    pair = f"{transductive.method} - {inductive.method}"
    return sentence, {"what": pair, "value": gain.mean, "low": gain.low, "high": gain.high}
