"""How a metric goes with another column: slope, correlations and rolling mean, or means over groups of tasks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from longshot.statistics.intervals import (
    Floats,
    checked,
    t_p_value,
    t_quantile,
)


@dataclass(frozen=True)
class Slope:
    """The least-squares line y = intercept + slope · x over n points; bounds NaN without a degree of freedom."""

    slope: float
    low: float
    high: float
    intercept: float
    r: float
    p: float
    n: int


@dataclass(frozen=True)
class Correlation:
    """A correlation with its interval; everything but n is NaN where it is not defined, and ``reason`` says why."""

    r: float
    low: float
    high: float
    p: float
    n: int
    kind: str
    reason: str = ""


@dataclass(frozen=True, eq=False)
class Rolling:
    """Means over a window that slides along sorted x; all arrays [n − window + 1]."""

    x: Floats  # mean of x in the window
    mean: Floats
    low: Floats
    high: Floats
    window: int


def pairs(x: ArrayLike, y: ArrayLike) -> tuple[Floats, Floats]:
    """Return two arrays as finite float64 of the same length; ValueError otherwise."""
    first, second = checked(x), checked(y)
    if len(first) != len(second):
        raise ValueError(f"{len(first)} and {len(second)} values are not pairs")
    return first, second


def slope(x: ArrayLike, y: ArrayLike, level: float = 0.95, groups: ArrayLike | None = None) -> Slope:
    """Fit y on x by ordinary least squares, with the t interval of the slope.

    b = S_xy / S_xx, se² = (S_yy − b S_xy) / ((n − 2) S_xx), b ± t_{n−2} · se. With ``groups`` each of G groups has a
    level of its own, y = a_g + b x: sums are taken within groups, and n − G − 1 degrees of freedom are left.

    Parameters
    ----------
    x : array [n]
        Such as the coarsity of each task; ValueError when all are equal.
    y : array [n]
        Such as the accuracy on each task.
    level : float
        Coverage, between 0 and 1.
    groups : array [n], optional
        Which points belong together, such as the sweep that a split was drawn in.

    Returns
    -------
    Slope
        ``low``, ``high`` and ``p`` are NaN where no degree of freedom is left, as for two points. With groups
        ``intercept`` is that of the line through the mean of all, ``r`` the correlation within groups.

    Examples
    --------
    >>> line = slope([0, 1, 2, 3], [1.0, 3.0, 5.0, 7.0])
    >>> line.slope, line.intercept, line.r
    (2.0, 1.0, 1.0)
    >>> slope([0, 1, 0, 1], [1.0, 3.0, 5.0, 7.0], groups=[0, 0, 1, 1]).slope
    2.0
    """
    a, b = pairs(x, y)
    names, group = np.unique(np.zeros(len(a)) if groups is None else np.asarray(groups), return_inverse=True)
    dx, dy = (values - _group_means(values, group) for values in (a, b))
    xx, xy, yy = float(dx @ dx), float(dx @ dy), float(dy @ dy)
    if _constant(dx, a):
        raise ValueError("a slope needs at least two different x")
    rise = xy / xx
    intercept = float(b.mean()) - rise * float(a.mean())
    r = 0.0 if _constant(dy, b) else float(np.clip(xy / math.sqrt(xx * yy), -1, 1))
    n, freedom = len(a), len(a) - len(names) - 1
    if freedom < 1:
        return Slope(rise, math.nan, math.nan, intercept, r, math.nan, n)
    residual = dy - rise * dx  # not S_yy − b S_xy, which cancels for a near-perfect fit
    error = math.sqrt(float(residual @ residual) / (freedom * xx))
    reach = t_quantile(freedom, level) * error
    p = t_p_value(rise / error, freedom) if error > 0 else (0.0 if rise else 1.0)
    return Slope(rise, rise - reach, rise + reach, intercept, r, p, n)


def correlation(
    x: ArrayLike,
    y: ArrayLike,
    kind: Literal["pearson", "spearman"] = "pearson",
    *,
    level: float = 0.95,
) -> Correlation:
    """Compute the correlation of two columns over the same tasks, with its interval.

    Fisher's interval: tanh(atanh r ± z · se), se = 1 / √(n − 3) for Pearson, √((1 + r²/2) / (n − 3)) for Spearman
    (Bonett and Wright). p from t = r √((n − 2) / (1 − r²)) with n − 2 degrees of freedom.

    Parameters
    ----------
    x, y : arrays [n]
        At least 3 pairs; 4 for an interval.
    kind : {"pearson", "spearman"}
        Spearman's is Pearson's r of the ranks; equal values share their mean rank.
    level : float
        Coverage, between 0 and 1.

    Returns
    -------
    Correlation
        All but ``n`` is NaN where it is not defined, and ``reason`` says why.

    Examples
    --------
    >>> relation = correlation([1, 2, 3, 4, 5], [1, 2, 3, 5, 4], "spearman")
    >>> round(relation.r, 4), round(relation.low, 4), round(relation.high, 4)
    (0.9, -0.1689, 0.9961)
    """
    a, b = pairs(x, y)
    n = len(a)
    if n < 3 or _constant(a) or _constant(b):
        why = f"a correlation needs at least 3 pairs, there are {n}" if n < 3 else "one side is constant"
        return Correlation(math.nan, math.nan, math.nan, math.nan, n, kind, why)
    pair = (ranks(a), ranks(b)) if kind == "spearman" else (a, b)
    dx, dy = (side - side.mean() for side in pair)
    r = float(dx @ dy) / math.sqrt(float(dx @ dx) * float(dy @ dy))
    unexplained = max(0.0, 1 - r * r)
    p = t_p_value(r * math.sqrt((n - 2) / unexplained), n - 2) if unexplained > 1e-15 else 0.0
    if n < 4:
        return Correlation(
            float(r), math.nan, math.nan, p, n, kind, "Fisher's interval needs at least 4 pairs"
        )
    error = math.sqrt((1 + r * r / 2 if kind == "spearman" else 1.0) / (n - 3))
    reach = NormalDist().inv_cdf((1 + level) / 2) * error
    middle = math.atanh(min(max(r, -1 + 1e-16), 1 - 1e-16))
    return Correlation(r, math.tanh(middle - reach), math.tanh(middle + reach), p, n, kind)


def rolling_mean(x: ArrayLike, y: ArrayLike, window: int = 200, level: float = 0.95) -> Rolling:
    """Mean of y over tasks that are neighbours in x, with the t band of each window.

    Tasks are sorted by x (equal x keep their order); window i holds tasks i … i + w − 1 and stands at their mean x;
    band: ȳ ± t_{w−1} · s / √w. Neighbouring windows share tasks, so the band holds at each x, not for the curve as a
    whole.

    Parameters
    ----------
    x, y : arrays [n]
        Such as coarsity and accuracy of each task.
    window : int
        Tasks in a window, 2 … n.
    level : float
        Coverage, between 0 and 1.

    Returns
    -------
    Rolling
        Arrays [n − window + 1].

    Examples
    --------
    >>> curve = rolling_mean([3, 1, 2], [0.6, 0.2, 0.4], window=2)
    >>> curve.x.tolist(), curve.mean.round(3).tolist()
    ([1.5, 2.5], [0.3, 0.5])
    """
    a, b = pairs(x, y)
    if not 2 <= window <= len(a):
        raise ValueError(f"the window is {window}, and must lie between 2 and the number of tasks, {len(a)}")
    order = np.argsort(a, kind="stable")
    windows_x, windows_y = (np.lib.stride_tricks.sliding_window_view(side[order], window) for side in (a, b))
    mean = windows_y.mean(axis=1)
    reach = t_quantile(window - 1, level) * windows_y.std(axis=1, ddof=1) / math.sqrt(window)
    return Rolling(windows_x.mean(axis=1), mean, mean - reach, mean + reach, window)


def _group_means(values: Floats, group: NDArray[np.int64]) -> Floats:
    """Return the mean of each value's group, [n]."""
    means: Floats = (np.bincount(group, values) / np.bincount(group))[group]
    return means


def _constant(values: Floats, scale: Floats | None = None) -> bool:
    """Tell whether values are equal beside rounding; ``scale`` is their size before means were taken off."""
    return bool(np.ptp(values) <= 1e-12 * (1 + np.abs(values if scale is None else scale).max()))


def ranks(values: Floats) -> Floats:
    """Rank values from 1 up; equal values share their mean rank."""
    _, group, count = np.unique(values, return_inverse=True, return_counts=True)
    mean_ranks: Floats = (np.cumsum(count) - (count - 1) / 2)[group]
    return mean_ranks


# ---- groups of tasks: by dataset, way, shot, coarsity quartile or any other column


def quantile_bins(
    x: ArrayLike, count: int = 4, *, ties: Literal["split", "together"] = "split"
) -> NDArray[np.int64]:
    """Return the group 0 … count − 1 of each value, from the smallest values to the largest.

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
