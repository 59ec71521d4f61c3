"""The numbers of the table: mean with its interval, and which series share the first place."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from longshot.base import Floats
from longshot.evaluation import SIGNIFICANCE, SeriesPair, compare_pairs, enough_resamples
from longshot.reports.report_data import COLUMNS, Cell, ReportData, ReportSeries, ReportTestbed
from longshot.statistics import widths_differ

if TYPE_CHECKING:
    from longshot.statistics import Comparison, Interval


@dataclass(frozen=True)
class SeriesEstimate:
    """One series on one testbed; accuracies are shares (0 … 1), the bounds are NaN for a single task."""

    bed: int
    series: int
    mean: float
    low: float
    high: float
    n: int
    std: float
    metrics: dict[str, float]  # mean of every recorded metric, NaN where there is none
    chance: float  # mean over the tasks of 1 / way
    mark: str  # "best": above all others; "tied": shares the first place; "judge": not ranked; "": none of these
    p: float  # against the best of its setting, corrected; NaN for the best itself and where nothing can be tested
    # the interval for other classes too; NaN without predictions or the testbed's copy
    class_low: float = math.nan
    class_high: float = math.nan

    @property
    def half(self) -> float:
        """Half the width of the 95 % interval; NaN for a single task."""
        return (self.high - self.low) / 2

    @property
    def class_half(self) -> float:
        """Half the width of the interval over classes; NaN where there is none."""
        return (self.class_high - self.class_low) / 2

    @property
    def notable_class_half(self) -> float | None:
        """``class_half`` where it differs from ``half`` by more than a fifth, else None."""
        return notable_half(self.half, self.class_half)


def notable_half(half: float | None, class_half: float | None) -> float | None:
    """Return ``class_half`` where it differs from ``half`` by more than a fifth, else None."""
    return class_half if widths_differ(half, class_half) else None


Estimates: TypeAlias = dict[tuple[int, int], SeriesEstimate]  # (bed, series) → its numbers


def summarise(data: ReportData, pairs: ComparedPairs | None = None) -> Estimates:
    """(bed, series) → entry, in the report's order of testbeds and series."""
    entries = {}
    pairs = compare_all(data) if pairs is None else pairs
    for bed in range(len(data.beds)):
        column = data.column(bed)
        marks, p_values = first_place(data, bed, pairs)
        for series, cell in column:
            mean, low, high = interval(cell.accuracy)
            class_low, class_high = _class_bounds(data.beds[bed], cell)
            entries[bed, series] = SeriesEstimate(
                bed=bed,
                series=series,
                mean=mean,
                low=low,
                high=high,
                n=len(cell.tasks),
                std=float(np.std(cell.accuracy, ddof=1)) if len(cell.tasks) > 1 else math.nan,
                metrics={name: _mean(cell.metrics[name]) for name in COLUMNS},
                chance=_mean(1 / cell.way),
                mark=marks[series],
                p=p_values[series],
                class_low=class_low,
                class_high=class_high,
            )
    return entries


def _class_bounds(bed: ReportTestbed, cell: Cell) -> tuple[float, float]:
    """The interval that holds for other classes too; NaN where predictions are not at hand."""
    from longshot.evaluation import ClassIntervals

    if cell.predictions is None:
        return math.nan, math.nan
    try:
        queries = ClassIntervals(bed.testbed, cell.tasks)
        estimate = queries.interval(queries.right(cell.predictions))
    except ValueError:  # predictions of other tasks; the section of pictures says so
        return math.nan, math.nan
    return _bounds(estimate)


def time_spent(cell: Cell) -> tuple[float, float]:
    """Median seconds per task and seconds of all tasks; NaN where some were not recorded."""
    seconds = cell.metrics["seconds"]
    if np.isnan(seconds).any():
        return math.nan, math.nan
    return float(np.median(seconds)), float(np.sum(seconds))


def interval(values: Floats) -> tuple[float, float, float]:
    """Mean and Student-t 95 % interval; the bounds are NaN for fewer than two values."""
    from longshot.statistics import mean_interval

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

    result: Comparison  # the second against the first
    p: float

    @property
    def tied(self) -> bool:
        """Whether the test does not tell them apart."""
        return self.p >= SIGNIFICANCE


def compare_all(data: ReportData) -> ComparedPairs:
    """Every pair of series on every testbed: sign-flip tests, p corrected by Holm over all of them.

    The same tests, correction and random signs as ``compare`` on one run. All pairs count, not those
    with the best alone: which series is best was seen in the same data. Pairs with fewer than two tasks in
    common are left out.
    """
    keys: list[tuple[int, int, int]] = []
    pairs: list[SeriesPair] = []
    for bed in range(len(data.beds)):
        for (a, cell_a), (b, cell_b) in combinations(data.column(bed), 2):
            tasks, rows_a, rows_b = np.intersect1d(cell_a.tasks, cell_b.tasks, return_indices=True)
            if len(tasks) >= 2:
                keys.append((bed, a, b))
                pairs.append(
                    SeriesPair((bed, tasks.tobytes()), cell_a.accuracy[rows_a], cell_b.accuracy[rows_b])
                )
    return {key: CorrectedComparison(*tested) for key, tested in zip(keys, compare_pairs(pairs), strict=True)}


def first_place(data: ReportData, bed: int, pairs: ComparedPairs) -> tuple[dict[int, str], dict[int, float]]:
    """Who leads a testbed: marks and corrected p against the highest mean of the same setting, by series.

    Inductive and transductive methods answer different questions, so each setting has its own first place. Every
    series that the corrected test does not separate from the highest mean shares it. A sole
    leader is "best"; several are all "tied". With one series, or where one cannot be tested (fewer than two
    shared tasks), nobody is marked: a mark always stands for a test that was made. A network that chose the testbed's
    images is marked as its judge and takes no place.
    """
    marks = {s: "judge" for s, _ in data.column(bed) if (bed, s) in data.judges}
    p_values = dict.fromkeys(marks, math.nan)
    for column in columns_by_setting(data, bed).values():
        setting_marks, setting_p = _first_of(column, bed, pairs)
        marks |= setting_marks
        p_values |= setting_p
    return marks, p_values


def columns_by_setting(data: ReportData, bed: int) -> dict[str, list[tuple[int, Cell]]]:
    """Setting → the ranked series of a testbed in it, in the report's order; inductive methods first."""
    columns: dict[str, list[tuple[int, Cell]]] = {}
    for s, cell in sorted(data.ranked(bed), key=lambda pair: data.series[pair[0]].transductive):
        columns.setdefault(data.series[s].setting, []).append((s, cell))
    return columns


def _first_of(
    column: list[tuple[int, Cell]], bed: int, pairs: ComparedPairs
) -> tuple[dict[int, str], dict[int, float]]:
    """Marks and corrected p of the series of one setting."""
    marks = dict.fromkeys((s for s, _ in column), "")
    p_values = dict.fromkeys(marks, math.nan)
    best = highest(column)
    for s in marks:
        tested = pairs.get((bed, min(s, best), max(s, best)))
        if s != best and tested is not None:
            p_values[s] = tested.p
    if len(marks) < 2 or any(math.isnan(p) for s, p in p_values.items() if s != best):
        return marks, p_values
    tied = [s for s, p in p_values.items() if s == best or p >= SIGNIFICANCE]
    for s in tied:
        marks[s] = "tied" if len(tied) > 1 else "best"
    return marks, p_values


def highest(column: list[tuple[int, Cell]]) -> int:
    """The series with the highest mean; the first of equals."""
    return max(column, key=lambda pair: round(float(np.mean(pair[1].accuracy)), 12))[0]


def column_marks(accuracy: Floats, settings: Sequence[str] | None = None) -> list[str]:
    """Marks of M series on the same T tasks alone, [T, M]: the same rule, corrected within these tasks.

    For parts of a testbed, such as a quartile. ``settings`` [M] are those of the series where there is more than one:
    each setting has its own first place.
    """
    from longshot.statistics import compare_many, holm

    tasks, count = accuracy.shape
    if count < 2 or tasks < 2:
        return [""] * count
    groups = list(settings) if settings is not None else [""] * count
    pairs = [(i, j) for i, j in combinations(range(count), 2) if groups[i] == groups[j]]
    if not pairs:
        return [""] * count
    before, after = (accuracy[:, [pair[side] for pair in pairs]] for side in (0, 1))
    p_values = holm([c.p for c in compare_many(before, after, resamples=enough_resamples(len(pairs)))])
    apart = {pair for pair, p in zip(pairs, p_values, strict=True) if p < SIGNIFICANCE}
    means = np.round(accuracy.mean(axis=0), 12)
    marks = [""] * count
    for setting in dict.fromkeys(groups):
        members = [i for i in range(count) if groups[i] == setting]
        best = max(members, key=lambda i: (means[i], -i))
        tied = [i for i in members if (min(i, best), max(i, best)) not in apart]
        for i in tied if len(members) > 1 else ():
            marks[i] = "tied" if len(tied) > 1 else "best"
    return marks


class Leaders(NamedTuple):
    """The first place of a testbed in one setting."""

    setting: str
    series: list[ReportSeries]  # several when they tie
    top: SeriesEstimate  # the highest


def leaders(data: ReportData, entries: Estimates, bed: int) -> list[Leaders]:
    """Who is first on a testbed, setting by setting: a transductive method never stands above an inductive one."""
    first = []
    alone = {data.series[s].setting: [(s, cell)] for s, cell in data.column(bed)[:1]}  # where all are judges
    for setting, column in (columns_by_setting(data, bed) or alone).items():
        estimates = [entries[bed, s] for s, _ in column]
        top = max(estimates, key=lambda entry: entry.mean)
        marked = [data.series[entry.series] for entry in estimates if entry.mark]
        first.append(Leaders(setting, marked or [data.series[top.series]], top))
    return first


def _mean(values: Floats) -> float:
    return math.nan if np.isnan(values).any() else float(np.mean(values))
