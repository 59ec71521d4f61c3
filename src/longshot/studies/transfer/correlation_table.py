"""The paper's table 2: correlations of divergence and accuracy, the most negative told apart by a bootstrap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np

from longshot.base import Floats
from longshot.reports import Sheet, SheetCell, heads, row
from longshot.statistics import Correlation, correlation, holm
from longshot.studies.engine.claims import LEVEL, NotMeasured, of_resamples
from longshot.studies.engine.tables import Fact, TableFile, ratio
from longshot.studies.transfer.paper import correlations_records, printed_sheet
from longshot.studies.transfer.task_divergence import MEASURES, MODELS, Divergences

_NOTE = (
    "Pearson's r of divergence and accuracy over tasks, 95 % interval in brackets (Fisher). Bold: the most negative of "
    "its column; = where several share that place, because a bootstrap of the difference over tasks (5 %, Holm over "
    "all pairs of this table) does not separate them."
)
_RESAMPLES = 1000


def correlations_table(
    backbone: str, measured: Mapping[str, Divergences], accuracies: Mapping[str, Mapping[str, Floats]]
) -> TableFile:
    """The paper's table 2 for every method and both readings.

    ``measured`` has the divergences and ``accuracies`` the accuracy [T] of each method, both by testbed.
    """
    sheets: list[Sheet] = []
    records: list[Fact] = []
    lines: list[str] = []
    network = Path(backbone).name  # a trained network is a path
    for method in next(iter(accuracies.values())):
        for model, words in MODELS.items():
            by_testbed = {
                name: {
                    measure: correlation(divergence, accuracies[name][method])
                    for measure, divergence in models[model].items()
                }
                for name, models in measured.items()
            }
            marks = most_negative(
                {name: (models[model], accuracies[name][method]) for name, models in measured.items()}
            )
            block = [
                row(
                    label,
                    *(_cell(by_testbed[name][measure], marks[name].get(measure, "")) for name in measured),
                )
                for measure, label in MEASURES.items()
            ]
            title = f"{method}, {words}, {network}"
            sheets.append(Sheet(title, heads("divergence", *measured), [block], _NOTE, labels=1))
            for measure in MEASURES:
                for name in measured:
                    facts = {"source": "measured", "dataset": name, "method": method, "model": model}
                    records.append({**facts, "measure": measure, **_numbers(by_testbed[name][measure])})
            lines += [_finding(method, words, name, group) for name, group in by_testbed.items()]
    sheets.append(printed_sheet(2, MEASURES))
    return TableFile("correlations", sheets, [*records, *correlations_records()], lines)


def most_negative(
    columns: Mapping[str, tuple[Mapping[str, Sequence[float]], Floats]],
) -> dict[str, dict[str, str]]:
    """Marks by testbed and measure: "best" for the most negative r, "tied" where a bootstrap does not separate them.

    ``columns`` has the divergences by measure and the accuracies [T] of each testbed; Holm over all pairs of all.
    """
    tests: dict[tuple[str, str, str], float] = {}
    order: dict[str, list[str]] = {}  # testbed → measures with a correlation, the most negative first
    for testbed, (by_measure, accuracy) in columns.items():
        defined = {measure: values for measure, values in by_measure.items() if np.ptp(values) > 0}
        if not defined or np.ptp(accuracy) == 0:
            continue
        r, again = resampled(defined, accuracy)
        ranked = np.argsort(r, kind="stable").tolist()
        order[testbed] = [list(defined)[position] for position in ranked]
        for a, b in combinations(ranked, 2):
            gaps = of_resamples("", r[a] - r[b], again[:, a] - again[:, b], len(accuracy))
            tests[testbed, list(defined)[a], list(defined)[b]] = gaps.p
    corrected = dict(zip(tests, holm(list(tests.values())).tolist() if tests else [], strict=True))
    marks: dict[str, dict[str, str]] = {testbed: {} for testbed in columns}
    for testbed, (best, *further) in order.items():
        tied = [best, *(measure for measure in further if corrected[testbed, best, measure] >= LEVEL)]
        marks[testbed] = dict.fromkeys(tied, "tied" if len(tied) > 1 else "best")
    return marks


def _numbers(correlation: Correlation) -> Fact:
    """A correlation as columns of a CSV file; empty where it is not defined."""
    values = {key: getattr(correlation, key) for key in ("r", "low", "high", "p", "n")}
    values["tasks"] = values.pop("n")
    return {key: None if np.isnan(value) else value for key, value in values.items()}


def _cell(correlation: Correlation, mark: str) -> SheetCell:
    return SheetCell(ratio(correlation.r, correlation.low, correlation.high), mark)


def _finding(method: str, words: str, name: str, correlations: Mapping[str, Correlation]) -> str:
    defined = {key: value for key, value in correlations.items() if not np.isnan(value.r)}
    if not defined:
        return f"{name}, {method}, {words}: accuracy or divergence is the same for all tasks, no correlation."
    order = sorted(defined, key=lambda measure: defined[measure].r)
    below = [MEASURES[measure] for measure in order if defined[measure].high < 0]
    return (
        f"{name}, {method}, {words}: from most to least negative {', '.join(MEASURES[m] for m in order)}; "
        f"interval below 0: {', '.join(below) or 'none'}."
    )


def resampled(by_measure: Mapping[str, Sequence[float]], accuracy: Floats) -> tuple[Floats, Floats]:
    """r of every measure [M], and again on resampled tasks [R, M]; not measured where one is not defined."""
    x = np.array(list(by_measure.values()))  # [M, T]
    if float(np.ptp(accuracy)) == 0 or (np.ptp(x, axis=1) == 0).any():
        raise NotMeasured("accuracy or a divergence is the same for all tasks")
    rows = np.random.default_rng(0).integers(len(accuracy), size=(_RESAMPLES, len(accuracy)))
    again = np.stack([_pearson(x[:, own], accuracy[own]) for own in rows])
    return _pearson(x, accuracy), again[np.isfinite(again).all(axis=1)]


def _pearson(x: Floats, y: Floats) -> Floats:
    """Pearson's r of each row of x [M, T] with y [T]; NaN where one is constant."""
    dx, dy = x - x.mean(axis=1, keepdims=True), y - y.mean()
    with np.errstate(invalid="ignore", divide="ignore"):
        r: Floats = (dx @ dy) / np.sqrt((dx**2).sum(axis=1) * (dy @ dy))
    return r
