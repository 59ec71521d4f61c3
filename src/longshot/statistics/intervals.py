"""Means over tasks and their intervals: Student's t, and Meta-Dataset's."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from longshot.statistics.estimate_text import TASKS, NumberUnit, bounds_text, plus_minus


def t_p_value(t: float, freedom: float) -> float:
    """Return the two-sided p of a t statistic: P(|T| ≥ |t|).

    Parameters
    ----------
    t : float
        The statistic.
    freedom : float
        Degrees of freedom ν > 0, whole or not.

    Examples
    --------
    >>> round(t_p_value(12.706, 1), 4)
    0.05
    """
    from scipy.special import stdtr  # here, since whoever imports this room may compute no interval

    return float(2 * stdtr(freedom, -abs(t)))


def t_quantile(freedom: float, level: float) -> float:
    """Return the two-sided Student-t factor t with P(|T| ≤ t) = ``level``.

    Parameters
    ----------
    freedom : float
        Degrees of freedom ν > 0, whole or not.
    level : float
        Between 0 and 1.

    Examples
    --------
    >>> round(t_quantile(1, 0.95), 3), round(t_quantile(599, 0.95), 3)
    (12.706, 1.964)
    """
    from scipy.special import stdtrit

    # The lower tail: (1 + level) / 2 would have lost the digits of a level near 1.
    return float(abs(stdtrit(freedom, (1 - level) / 2)))


Floats: TypeAlias = NDArray[np.float64]
_BLOCK = 1 << 22  # numbers gathered at a time: bounds memory, changes no result


Verdict: TypeAlias = Literal["passed", "failed", "undecided"]


@dataclass(frozen=True)
class Interval:
    """An estimate (a mean unless said otherwise) with its interval.

    ``low`` and ``high`` are None where there is no interval, as for one value alone; ``reason`` then says why.
    ``about`` says in words which population the interval is for.
    """

    mean: float
    low: float | None
    high: float | None
    n: int
    reason: str = ""
    about: str = TASKS

    @property
    def half(self) -> float | None:
        """Return half the interval's width: the number behind ±."""
        return None if self.low is None or self.high is None else (self.high - self.low) / 2

    def text(self, unit: NumberUnit = "percent", digits: int = 1) -> str:
        """Return the estimate with half its interval, as ``84.3 ± 0.6``."""
        return plus_minus(self.mean, self.half, unit, digits)

    def with_bounds(self, unit: NumberUnit = "points", digits: int = 1) -> str:
        """Return the estimate with the ends of its interval, as ``+1.2 [+0.8, +1.6]``."""
        return bounds_text(self.mean, self.low, self.high, unit, digits)

    def excludes(self, value: float) -> bool:
        """Tell whether the interval exists and ``value`` lies outside it."""
        return self.low is not None and self.high is not None and not self.low <= value <= self.high

    def verdict(self, need: float | None) -> Verdict | None:
        """Tell whether a gate is passed: the interval lies at or above ``need``, below it (failed), or around it.

        None without a need; the mean stands for an end that is missing.
        """
        if need is None:
            return None
        low, high = (self.mean if end is None else end for end in (self.low, self.high))
        return "passed" if low >= need else "failed" if high < need else "undecided"

    def as_dict(self) -> dict[str, Any]:
        """Return the interval as plain values for JSON."""
        ends = {"mean": self.mean, "low": self.low, "high": self.high, "n": self.n}
        return {**ends, "reason": self.reason} if self.reason else ends


def checked(values: ArrayLike) -> Floats:
    """Return ``values`` as finite float64 [n], n ≥ 1; ValueError otherwise."""
    data = np.asarray(values, np.float64).reshape(-1)
    if not len(data):
        raise ValueError("the mean of no values is not defined")
    if not np.isfinite(data).all():
        raise ValueError(f"{int((~np.isfinite(data)).sum())} of {len(data)} values are NaN or infinite")
    return data


def mean_interval(values: ArrayLike, level: float = 0.95) -> Interval:
    """Mean of independent values with its Student-t interval: x̄ ± t_{n−1} · s / √n, s² with n − 1.

    Parameters
    ----------
    values : array [n]
        One number per task, n ≥ 1; NaN is refused.
    level : float
        Coverage, between 0 and 1.

    Returns
    -------
    Interval
        ``mean``, ``low``, ``high``, ``n``; ``low`` and ``high`` are None for n = 1.

    Examples
    --------
    >>> interval = mean_interval([0.5, 0.7, 0.6])
    >>> round(interval.mean, 3), round(interval.half, 3)
    (0.6, 0.248)
    """
    data = checked(values)
    if len(data) == 1:
        return _no_interval(data)
    return _around(data, t_quantile(len(data) - 1, level) * float(data.std(ddof=1)))


def normal_interval(values: ArrayLike) -> Interval:
    """Return Meta-Dataset's interval, which its ranks need: x̄ ± 1.96 · σ / √n, σ² with n.

    Parameters
    ----------
    values : array [n]
        One number per task, n ≥ 1; NaN is refused.

    Returns
    -------
    Interval
        ``low`` and ``high`` are None for n = 1.

    Examples
    --------
    >>> round(normal_interval([0.5, 0.7]).half, 4)
    0.1386
    """
    data = checked(values)
    return _no_interval(data) if len(data) == 1 else _around(data, 1.96 * float(data.std()))


def _no_interval(data: Floats) -> Interval:
    return Interval(float(data.mean()), None, None, 1, "one value has no interval")


def _around(data: Floats, width: float) -> Interval:
    """Return the interval x̄ ± width / √n."""
    mean, reach = float(data.mean()), width / math.sqrt(len(data))
    return Interval(mean, mean - reach, mean + reach, len(data))


def bootstrap(
    n: int,
    statistic: Callable[[NDArray[np.int64]], Floats],
    *,
    level: float = 0.95,
    resamples: int = 9999,
    seed: int = 0,
) -> Interval:
    """Return a statistic over n rows of any kind with its interval: the (1 ± level) / 2 quantiles of resamples.

    Parameters
    ----------
    n : int
        Number of rows.
    statistic : callable
        Maps row numbers [B, m] to values [B].
    level : float
        Coverage, between 0 and 1.
    resamples, seed : int
        The same seed gives the same interval.

    Examples
    --------
    The ratio of two sums over the same tasks:

    >>> right, asked = np.array([3, 4, 5, 2]), np.array([5, 5, 5, 5])
    >>> ratio = bootstrap(4, lambda rows: right[rows].sum(1) / asked[rows].sum(1))
    >>> ratio.mean, round(ratio.low, 2), round(ratio.high, 2)
    (0.7, 0.5, 0.9)
    """
    estimate = float(statistic(np.arange(n)[None])[0])
    if n == 1:
        return Interval(estimate, None, None, 1, "one value has no interval")
    rng = np.random.default_rng(seed)
    draws = np.concatenate([statistic(rng.integers(0, n, (rows, n))) for rows in blocks_of(resamples, n)])
    if np.ptp(draws) <= 1e-12 * (1 + abs(estimate)):  # equal up to rounding: nothing varies
        return Interval(estimate, estimate, estimate, n)
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2])
    return Interval(estimate, float(low), float(high), n)


def blocks_of(resamples: int, width: int) -> Iterator[int]:
    """Yield how many resamples of ``width`` numbers to compute at a time, until there are ``resamples``."""
    step = max(1, _BLOCK // width)
    for done in range(0, resamples, step):
        yield min(step, resamples - done)
