"""Means over groups of tasks: by dataset, way, shot, coarsity quartile or any other column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from longshot.statistics.intervals import Interval, checked, mean_interval

NO_VALUE = "(none)"


@dataclass(frozen=True, eq=False)
class Group:
    """The tasks that share a value, or a range of values, of some column."""

    label: str
    value: Any  # the shared value, or (lowest, highest) of a range; None where the column is empty
    rows: NDArray[np.int64]  # which tasks
    interval: Interval  # of the metric's mean


def quantile_bins(
    x: ArrayLike, count: int = 4, *, ties: Literal["split", "together"] = "split"
) -> NDArray[np.int64]:
    """The group 0 … count − 1 of each value, from the smallest values to the largest.

    Parameters
    ----------
    x : array [n]
        What to sort by.
    count : int
        How many groups; 4 are quartiles.
    ties : {"split", "together"}
        ``split``: sort (equal values keep their order) and cut into groups whose sizes differ by at most one, as the
        semantic-sampling paper does with coarsity. ``together``: cut at the quantiles, so that equal values share a
        group; then groups can be of very different size or empty.

    Returns
    -------
    ints [n]
        The group of each value.

    Examples
    --------
    >>> quantile_bins([5, 1, 9, 3]).tolist()
    [2, 0, 3, 1]
    """
    data = checked(x)
    if ties == "together":
        cuts = np.quantile(data, np.arange(1, count) / count)
        return np.searchsorted(cuts, data, side="left").astype(np.int64)
    bins = np.empty(len(data), np.int64)
    for number, rows in enumerate(np.array_split(np.argsort(data, kind="stable"), count)):
        bins[rows] = number
    return bins


def breakdown(
    values: ArrayLike,
    column: Sequence[Any] | NDArray[Any],
    *,
    bins: int = 4,
    limit: int = 12,
    ties: Literal["split", "together"] = "split",
    level: float = 0.95,
) -> list[Group]:
    """The mean of a metric with its t interval for each value of a column.

    Parameters
    ----------
    values : array [n]
        The metric on each task.
    column : sequence [n]
        Text, numbers or true/false of each task; None or NaN where there is none.
    bins : int
        Groups for a column of many numbers, by :func:`quantile_bins`.
    limit : int
        A column of numbers with more different values than this is cut into ``bins`` groups; 0 always cuts numbers.
    ties : {"split", "together"}
        As in :func:`quantile_bins`.
    level : float
        Coverage of the intervals, between 0 and 1.

    Returns
    -------
    list of Group
        In the order of their values; tasks without a value come last, as a group of their own.

    Examples
    --------
    >>> groups = breakdown([0.1, 0.2, 0.3, 0.4], ["b", "a", "b", "a"])
    >>> [(group.label, round(group.interval.mean, 3)) for group in groups]
    [('a', 0.3), ('b', 0.2)]
    """
    data = checked(values)
    entries = [_plain(value) for value in column]
    if len(entries) != len(data):
        raise ValueError(f"{len(data)} values and a column of {len(entries)} entries do not fit")
    rows = np.array([row for row, value in enumerate(entries) if value is not None], np.int64)
    present = [value for value in entries if value is not None]
    numeric = bool(present) and all(
        isinstance(value, int | float) and not isinstance(value, bool) for value in present
    )
    parts: list[tuple[str, Any, NDArray[np.int64]]] = []
    if numeric and len(set(present)) > limit:
        numbers = np.array(present, np.float64)
        group = quantile_bins(numbers, bins, ties=ties)
        for number in np.unique(group):
            members = group == number
            low, high = float(numbers[members].min()), float(numbers[members].max())
            label = f"{_ordinal(int(number) + 1, bins)} ({low:.4g} – {high:.4g})"
            parts.append((label, (low, high), rows[members]))
    else:
        rows_of: dict[Any, list[int]] = {}
        for row, value in zip(rows.tolist(), present, strict=True):
            rows_of.setdefault(value, []).append(row)
        for value in sorted(rows_of) if numeric else sorted(rows_of, key=str):
            label = f"{value:g}" if numeric else str(value)
            parts.append((label, value, np.array(rows_of[value], np.int64)))
    if len(rows) < len(data):
        parts.append((NO_VALUE, None, np.setdiff1d(np.arange(len(data)), rows)))
    return [Group(label, value, where, mean_interval(data[where], level)) for label, value, where in parts]


def _plain(value: Any) -> Any:
    """NumPy and Arrow scalars as Python values; NaN as None."""
    value = value.as_py() if hasattr(value, "as_py") else value
    value = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(value, float) and value != value else value


def _ordinal(number: int, bins: int) -> str:
    names = {2: "half", 4: "quartile", 5: "quintile", 10: "decile"}
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number if number < 20 else number % 10, "th")
    return f"{number}{ending} {names.get(bins, f'of {bins}')}"
