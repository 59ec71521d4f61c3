"""The numbers of the table: mean with its interval, and which series share the first place."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from longshot.base import Floats
from longshot.evaluation import SIGNIFICANCE, ClassIntervals, SeriesPair, compare_pairs
from longshot.reports.marks import TOO_FEW, Placed, first_places
from longshot.reports.report_data import COLUMNS, Cell, ReportData, ReportSeries, ReportTestbed
from longshot.statistics import mean_interval, plus_minus, widths_differ

if TYPE_CHECKING:
    from longshot.statistics import Interval, PairedComparison


@dataclass(frozen=True)
class SeriesEstimate:
    """One series on one testbed; accuracies are shares (0 … 1), bounds that are not there are NaN."""

    bed: int
    series: int
    accuracy: Interval  # for other tasks of these classes
    over_classes: (
        Interval | None
    )  # for other classes like these; None without predictions or the testbed's copy
    std: float
    metrics: dict[str, float]  # mean of every recorded metric, NaN where there is none
    chance: float  # mean over the tasks of 1 / way
    placed: Placed

    @property
    def mean(self) -> float:
        """Return the mean over tasks."""
        return self.accuracy.mean

    @property
    def n(self) -> int:
        """Return the number of tasks."""
        return self.accuracy.n

    @property
    def mark(self) -> str:
        """Return "best", "tied", "judge" or nothing."""
        return self.placed.mark

    @property
    def p(self) -> float:
        """Return the corrected p against the best of its setting; NaN for the best and without a test."""
        return self.placed.p

    @property
    def bounds(self) -> tuple[float, float]:
        """Return the ends of the interval for other tasks."""
        return _bounds(self.accuracy)

    @property
    def class_bounds(self) -> tuple[float, float]:
        """Return the ends of the interval for other classes."""
        return (math.nan, math.nan) if self.over_classes is None else _bounds(self.over_classes)

    @property
    def half(self) -> float:
        """Return half the width of the interval for other tasks."""
        return math.nan if self.accuracy.half is None else self.accuracy.half

    @property
    def notable_class_half(self) -> float | None:
        """Return half the width of the interval over classes where it is not within a fifth of ``half``."""
        return notable_half(self.half, None if self.over_classes is None else self.over_classes.half)

    @property
    def text(self) -> str:
        """Format the mean as ``84.3 ± 0.6``, with ``(± 1.9)`` over classes where that differs."""
        return plus_minus(self.mean, self.half, over_classes=self.notable_class_half)


def notable_half(half: float | None, class_half: float | None) -> float | None:
    """Return ``class_half`` where it differs from ``half`` by more than a fifth, else None."""
    return class_half if widths_differ(half, class_half) else None


Estimates: TypeAlias = dict[tuple[int, int], SeriesEstimate]  # (bed, series) → its numbers


def summarise(data: ReportData, pairs: ComparedPairs | None = None, untested: str = TOO_FEW) -> Estimates:
    """Return (bed, series) → entry, in the report's order of testbeds and series.

    ``pairs`` are all comparisons, where they are at hand; ``untested`` says why some are missing.
    """
    entries = {}
    pairs = compare_all(data) if pairs is None else pairs
    for bed in range(len(data.beds)):
        placed = first_place(data, bed, pairs, untested)
        queries: dict[bytes, ClassIntervals] = {}  # of series with the same tasks
        for series, cell in data.column(bed):
            entries[bed, series] = SeriesEstimate(
                bed=bed,
                series=series,
                accuracy=mean_interval(cell.accuracy),
                over_classes=_over_classes(data.beds[bed], cell, queries),
                std=float(np.std(cell.accuracy, ddof=1)) if len(cell.tasks) > 1 else math.nan,
                metrics={name: _mean(cell.metrics[name]) for name in COLUMNS},
                chance=_mean(1 / cell.way),
                placed=placed[series],
            )
    return entries


def _over_classes(bed: ReportTestbed, cell: Cell, queries: dict[bytes, ClassIntervals]) -> Interval | None:
    """Return the interval that holds for other classes too; None where predictions are not at hand."""
    if cell.predictions is None:
        return None
    try:
        own = queries.get(key := cell.tasks.tobytes()) or ClassIntervals(bed.testbed, cell.tasks)
        queries[key] = own
        return own.interval(own.right(cell.predictions))
    except ValueError:  # predictions of other tasks; the section of pictures says so
        return None


def time_spent(cell: Cell) -> tuple[float, float]:
    """Return median seconds per task and seconds of all tasks; NaN where some were not recorded."""
    seconds = cell.metrics["seconds"]
    if np.isnan(seconds).any():
        return math.nan, math.nan
    return float(np.median(seconds)), float(np.sum(seconds))


def interval(values: Floats) -> tuple[float, float, float]:
    """Return mean and Student-t 95 % interval; the bounds are NaN for fewer than two values."""
    estimate = mean_interval(values)
    return float(estimate.mean), *_bounds(estimate)


def _bounds(estimate: Interval) -> tuple[float, float]:
    if estimate.low is None or estimate.high is None:
        return math.nan, math.nan
    return float(estimate.low), float(estimate.high)


# (bed, a, b) with series a before b → b against a
ComparedPairs: TypeAlias = dict[tuple[int, int, int], "CorrectedComparison"]


@dataclass(frozen=True)
class CorrectedComparison:
    """Two series on the tasks both have; p is corrected for all comparisons of the report."""

    result: PairedComparison  # the second against the first
    p: float

    @property
    def tied(self) -> bool:
        """Tell whether the test does not tell the two apart."""
        return self.p >= SIGNIFICANCE


def compare_all(data: ReportData) -> ComparedPairs:
    """Test every pair of series on every testbed by sign flips, p corrected by Holm over all of them.

    The same tests, correction and random signs as ``compare`` on one run. All pairs count, not those
    with the best alone: which series is best was seen in the same data. Pairs with fewer than two tasks in
    common are left out.
    """
    pairs: dict[tuple[int, int, int], SeriesPair] = {}
    for bed in range(len(data.beds)):
        for (a, cell_a), (b, cell_b) in combinations(data.column(bed), 2):
            tasks, rows_a, rows_b = np.intersect1d(cell_a.tasks, cell_b.tasks, return_indices=True)
            if len(tasks) >= 2:
                rows = cell_a.accuracy[rows_a], cell_b.accuracy[rows_b]
                pairs[bed, a, b] = SeriesPair((bed, tasks.tobytes()), *rows)
    compared = compare_pairs(list(pairs.values()))
    return {key: CorrectedComparison(*tested) for key, tested in zip(pairs, compared, strict=True)}


def first_place(
    data: ReportData, bed: int, pairs: ComparedPairs, untested: str = TOO_FEW
) -> dict[int, Placed]:
    """Return who leads a testbed by the rule of :func:`first_places`, with p corrected over all of ``pairs``.

    Inductive and transductive methods answer different questions, so each setting has its own first place.
    """

    def p_value(best: int, series: int) -> float | None:
        tested = pairs.get((bed, min(series, best), max(series, best)))
        return None if tested is None else tested.p

    column = data.column(bed)
    return first_places(
        {s: float(np.mean(cell.accuracy)) for s, cell in column},
        {s: data.series[s].setting for s, _ in column},
        p_value,
        judges=frozenset(s for s, _ in column if (bed, s) in data.judges),
        untested=untested,
    )


def columns_by_setting(data: ReportData, bed: int) -> dict[str, list[tuple[int, Cell]]]:
    """Return setting → its ranked series on a testbed, in the report's order; inductive methods first."""
    columns: dict[str, list[tuple[int, Cell]]] = {}
    for s, cell in sorted(data.ranked(bed), key=lambda pair: data.series[pair[0]].transductive):
        columns.setdefault(data.series[s].setting, []).append((s, cell))
    return columns


def highest(column: list[tuple[int, Cell]]) -> int:
    """Return the series with the highest mean; the first of equals."""
    return max(column, key=lambda pair: round(float(np.mean(pair[1].accuracy)), 12))[0]


class Leaders(NamedTuple):
    """The first place of a testbed in one setting."""

    setting: str
    series: list[ReportSeries]  # several when they tie
    top: SeriesEstimate  # the highest


def leaders(data: ReportData, entries: Estimates, bed: int) -> list[Leaders]:
    """List who is first on a testbed in each setting: transductive never stands above inductive."""
    first = []
    alone = {data.series[s].setting: [(s, cell)] for s, cell in data.column(bed)[:1]}  # where all are judges
    for setting, column in (columns_by_setting(data, bed) or alone).items():
        estimates = [entries[bed, s] for s, _ in column]
        top = max(estimates, key=lambda entry: entry.mean)
        marked = [data.series[entry.series] for entry in estimates if entry.mark in ("best", "tied")]
        first.append(Leaders(setting, marked or [data.series[top.series]], top))
    return first


def _mean(values: Floats) -> float:
    return math.nan if np.isnan(values).any() else float(np.mean(values))
