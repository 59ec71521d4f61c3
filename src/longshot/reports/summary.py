"""The numbers of the table: mean with its interval, and which series share the first place."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from longshot.reports.data import METRICS, Cell, ReportData, Series

SIGNIFICANCE = 0.05


@dataclass(frozen=True)
class Entry:
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
    mark: str  # "best": significantly above all others; "tied": shares the first place; "": neither
    p: float  # of the paired t test against the best; NaN for the best itself and where nothing can be tested

    @property
    def half(self) -> float:
        """Half the width of the 95 % interval; NaN for a single task."""
        return (self.high - self.low) / 2


def summarise(data: ReportData) -> dict[tuple[int, int], Entry]:
    """(bed, series) → entry, in the report's order of testbeds and series."""
    entries = {}
    for bed in range(len(data.beds)):
        column = data.column(bed)
        marks, p_values = first_place([cell for _, cell in column])
        for (series, cell), mark, p in zip(column, marks, p_values, strict=True):
            mean, low, high = interval(cell.accuracy)
            entries[bed, series] = Entry(
                bed=bed,
                series=series,
                mean=mean,
                low=low,
                high=high,
                n=len(cell.tasks),
                std=float(np.std(cell.accuracy, ddof=1)) if len(cell.tasks) > 1 else math.nan,
                metrics={name: _mean(cell.metrics[name]) for name in METRICS},
                chance=_mean(1 / cell.way),
                mark=mark,
                p=p,
            )
    return entries


def interval(values: NDArray[np.float64]) -> tuple[float, float, float]:
    """Mean and Student-t 95 % interval; the bounds are NaN for fewer than two values."""
    from longshot.evaluation.statistics import mean_interval

    found = mean_interval(values)
    if len(values) < 2 or found.low is None or found.high is None:
        return float(found.mean), math.nan, math.nan
    return float(found.mean), float(found.low), float(found.high)


def first_place(cells: list[Cell]) -> tuple[list[str], list[float]]:
    """Who leads a testbed: every series that the paired t test does not separate from the highest mean.

    A sole leader is "best"; several are all "tied". With one series, or where nothing can be tested
    (fewer than two shared tasks), nobody is marked: a mark always stands for a test that was made.
    """
    marks, p_values = [""] * len(cells), [math.nan] * len(cells)
    if len(cells) < 2:
        return marks, p_values
    best = max(range(len(cells)), key=lambda i: float(np.mean(cells[i].accuracy)))
    for i, cell in enumerate(cells):
        if i != best:
            p_values[i] = paired_p(cells[best], cell)
    if any(math.isnan(p) for i, p in enumerate(p_values) if i != best):
        return marks, p_values
    tied = [i for i, p in enumerate(p_values) if i == best or p >= SIGNIFICANCE]
    for i in tied:
        marks[i] = "tied" if len(tied) > 1 else "best"
    return marks, p_values


def paired_p(one: Cell, other: Cell) -> float:
    """Two-sided p of the paired t test over the tasks both series have.

    t = mean(d) / (std(d) / √n) with n − 1 degrees of freedom; equal rows give 1, a constant non-zero
    difference 0, fewer than two shared tasks NaN.
    """
    from scipy.special import stdtr  # a tenth of the import time of scipy.stats

    _, i, j = np.intersect1d(one.tasks, other.tasks, return_indices=True)
    difference = one.accuracy[i] - other.accuracy[j]
    n = len(difference)
    if n < 2:
        return math.nan
    mean, spread = float(np.mean(difference)), float(np.std(difference, ddof=1))
    if spread <= 1e-12:
        return 1.0 if abs(mean) <= 1e-12 else 0.0
    return float(2 * stdtr(n - 1, -abs(mean) / (spread / math.sqrt(n))))


def leaders(data: ReportData, entries: dict[tuple[int, int], Entry], bed: int) -> tuple[list[Series], Entry]:
    """The series at the first place of a testbed (several when they tie), and the highest entry."""
    column = [entries[bed, s] for s, _ in data.column(bed)]
    top = max(column, key=lambda entry: entry.mean)
    marked = [data.series[entry.series] for entry in column if entry.mark]
    return marked or [data.series[top.series]], top


def _mean(values: NDArray[np.float64]) -> float:
    return math.nan if np.isnan(values).any() else float(np.mean(values))
