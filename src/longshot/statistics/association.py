"""How a metric goes with a continuous difficulty: slope, correlations, rolling mean."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from longshot.statistics.intervals import Floats, bootstrap, checked, t_p_value, t_quantile


@dataclass(frozen=True)
class Slope:
    """The least-squares line y = intercept + slope · x over n tasks; bounds NaN for fewer than three."""

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
    """Two finite arrays of the same length; ValueError otherwise."""
    one, other = checked(x), checked(y)
    if len(one) != len(other):
        raise ValueError(f"{len(one)} and {len(other)} values are not pairs")
    return one, other


def slope(x: ArrayLike, y: ArrayLike, level: float = 0.95) -> Slope:
    """Ordinary least squares of y [n] on x [n], with the t interval of the slope.

    b = S_xy / S_xx, se² = (S_yy − b S_xy) / ((n − 2) S_xx), b ± t_{n−2} · se. ValueError when all x are equal.
    """
    a, b = pairs(x, y)
    dx, dy = a - a.mean(), b - b.mean()
    xx, xy, yy = float(dx @ dx), float(dx @ dy), float(dy @ dy)
    if _constant(a):
        raise ValueError("a slope needs at least two different x")
    rise = xy / xx
    intercept = float(b.mean()) - rise * float(a.mean())
    r = 0.0 if _constant(b) else float(np.clip(xy / math.sqrt(xx * yy), -1, 1))
    n = len(a)
    if n < 3:
        return Slope(rise, math.nan, math.nan, intercept, r, math.nan, n)
    residual = dy - rise * dx  # not S_yy − b S_xy, which cancels for a near-perfect fit
    error = math.sqrt(float(residual @ residual) / ((n - 2) * xx))
    reach = t_quantile(n - 2, level) * error
    p = t_p_value(rise / error, n - 2) if error > 0 else (0.0 if rise else 1.0)
    return Slope(rise, rise - reach, rise + reach, intercept, r, p, n)


def correlation(
    x: ArrayLike,
    y: ArrayLike,
    kind: Literal["pearson", "spearman"] = "pearson",
    *,
    interval: Literal["fisher", "bootstrap"] = "fisher",
    level: float = 0.95,
    resamples: int = 9999,
    seed: int = 0,
) -> Correlation:
    """Correlation of x [n] and y [n]; ``spearman`` is Pearson's r of the ranks (ties share their mean rank).

    ``fisher``: tanh(atanh r ± z · se), se = 1 / √(n − 3) for Pearson, √((1 + r²/2) / (n − 3)) for Spearman
    (Bonett and Wright), n ≥ 4. ``bootstrap``: percentiles over resampled pairs. p from
    t = r √((n − 2) / (1 − r²)) with n − 2 degrees of freedom.
    """
    a, b = pairs(x, y)
    n = len(a)
    if n < 3 or _constant(a) or _constant(b):
        why = f"a correlation needs at least 3 pairs, there are {n}" if n < 3 else "one side is constant"
        return Correlation(math.nan, math.nan, math.nan, math.nan, n, kind, why)
    one, other = (_ranks(a), _ranks(b)) if kind == "spearman" else (a, b)
    r = _pearson(one[None], other[None])[0]
    rest = max(0.0, 1 - r * r)
    p = t_p_value(r * math.sqrt((n - 2) / rest), n - 2) if rest > 1e-15 else 0.0
    if interval == "bootstrap":

        def resampled(rows: NDArray[np.int64]) -> Floats:
            left, right = a[rows], b[rows]
            if kind == "spearman":
                left, right = (np.stack([_ranks(row) for row in side]) for side in (left, right))
            return _pearson(left, right)

        found = bootstrap(n, resampled, method="percentile", level=level, resamples=resamples, seed=seed)
        low = math.nan if found.low is None else found.low
        high = math.nan if found.high is None else found.high
        return Correlation(float(r), low, high, p, n, kind)
    if n < 4:
        return Correlation(
            float(r), math.nan, math.nan, p, n, kind, "Fisher's interval needs at least 4 pairs"
        )
    from scipy.special import ndtri

    error = math.sqrt((1 + r * r / 2 if kind == "spearman" else 1.0) / (n - 3))
    reach = float(ndtri((1 + level) / 2)) * error
    middle = math.atanh(min(max(float(r), -1 + 1e-16), 1 - 1e-16))
    return Correlation(float(r), math.tanh(middle - reach), math.tanh(middle + reach), p, n, kind)


def rolling_mean(x: ArrayLike, y: ArrayLike, window: int = 200, level: float = 0.95) -> Rolling:
    """Mean of y over ``window`` tasks that are neighbours in x, with the t band of each window.

    Tasks are sorted by x (equal x keep their order); window i holds tasks i … i + w − 1 and stands at their mean x;
    band: ȳ ± t_{w−1} · s / √w. Neighbouring windows share tasks, so the band holds for each place, not for the
    curve as a whole. ValueError unless 2 ≤ window ≤ n.
    """
    a, b = pairs(x, y)
    if not 2 <= window <= len(a):
        raise ValueError(f"the window is {window}, and must lie between 2 and the number of tasks, {len(a)}")
    order = np.argsort(a, kind="stable")
    views = (np.lib.stride_tricks.sliding_window_view(side[order], window) for side in (a, b))
    places, values = views
    mean = values.mean(axis=1)
    reach = t_quantile(window - 1, level) * values.std(axis=1, ddof=1) / math.sqrt(window)
    return Rolling(places.mean(axis=1), mean, mean - reach, mean + reach, window)


def _constant(values: Floats) -> bool:
    return bool(np.ptp(values) <= 1e-12 * (1 + np.abs(values).max()))


def _pearson(x: Floats, y: Floats) -> Floats:
    """r along the last axis, [B, n] → [B]; a resample in which one side is constant has no relation: 0."""
    dx, dy = x - x.mean(-1, keepdims=True), y - y.mean(-1, keepdims=True)
    scale = np.sqrt((dx * dx).sum(-1) * (dy * dy).sum(-1))
    found: Floats = np.divide((dx * dy).sum(-1), scale, out=np.zeros(len(dx)), where=scale > 1e-300)
    return found


def _ranks(values: Floats) -> Floats:
    """Ranks from 1 up; equal values share their mean rank."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    found: Floats = (np.cumsum(count) - (count - 1) / 2)[place]
    return found
