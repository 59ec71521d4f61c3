"""Means over tasks and their intervals: Student's t, normal, bootstrap, clustered by dataset."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from longshot.statistics.estimate_text import TASKS, Unit, bounds_text, plus_minus


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

    def text(self, unit: Unit = "percent", digits: int = 1) -> str:
        """Return the estimate with half its interval, as ``84.3 ± 0.6``."""
        return plus_minus(self.mean, self.half, unit, digits)

    def with_bounds(self, unit: Unit = "points", digits: int = 1) -> str:
        """Return the estimate with the ends of its interval, as ``+1.2 [+0.8, +1.6]``."""
        return bounds_text(self.mean, self.low, self.high, unit, digits)

    def excludes(self, value: float) -> bool:
        """Tell whether the interval exists and ``value`` lies outside it."""
        return self.low is not None and self.high is not None and not self.low <= value <= self.high

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


def spread(values: ArrayLike) -> float:
    """Return the standard deviation over tasks: s² = Σ (x_i − x̄)² / (n − 1).

    Parameters
    ----------
    values : array [n]
        One number per task.

    Returns
    -------
    float
        NaN for a single task.

    Examples
    --------
    >>> round(spread([1, 2, 3, 4]), 4)
    1.291
    """
    data = checked(values)
    return float(data.std(ddof=1)) if len(data) > 1 else math.nan


def worst_mean(values: NDArray[Any], share: float = 0.1) -> Any:
    """Mean of the lowest ``share`` of the values: the k = ⌈share · n⌉ smallest, at least one.

    Parameters
    ----------
    values : array [..., n]
        The metric on n tasks along the last axis, so that it can be bootstrapped:
        ``bootstrap_interval(values, worst_mean)``.
    share : float
        Above 0 and up to 1.

    Returns
    -------
    array [...]
        A number for values [n].

    Examples
    --------
    >>> float(worst_mean(np.array([0.9, 0.2, 0.8, 0.4]), share=0.5).round(3))
    0.3
    """
    data = np.asarray(values, np.float64)
    # A hair less, so that 0.1 · 70 = 7.000000000000001 counts as seven.
    count = max(1, math.ceil(share * data.shape[-1] - 1e-9))
    return np.partition(data, count - 1, axis=-1)[..., :count].mean(axis=-1)


def clustered_interval(values: ArrayLike, clusters: ArrayLike, level: float = 0.95) -> Interval:
    """Mean over all values when they are nested in clusters (tasks in datasets), which need not be independent inside.

    se² = G / (G − 1) · Σ_g (Σ_{i∈g} (x_i − x̄))² / n², for G clusters and n values, and x̄ ± t_{G−1} · se
    (the sandwich estimate with the usual small-sample factor).

    Parameters
    ----------
    values : array [n]
        One number per task.
    clusters : array [n]
        The cluster of each, as numbers or text.
    level : float
        Coverage, between 0 and 1.

    Returns
    -------
    Interval
        With fewer than two clusters there is no interval and ``reason`` says so.

    Examples
    --------
    >>> interval = clustered_interval([1.0, 3.0, 5.0, 7.0], ["a", "a", "b", "b"])
    >>> interval.mean, round(interval.half, 3)
    (4.0, 25.412)
    """
    data = checked(values)
    _, group = np.unique(np.asarray(clusters), return_inverse=True)
    if len(group) != len(data):
        raise ValueError(f"{len(data)} values need as many clusters, not {len(group)}")
    mean, n, count = float(data.mean()), len(data), int(group.max()) + 1
    if count < 2:
        return Interval(
            mean, None, None, n, f"a clustered interval needs at least 2 clusters, there is {count}"
        )
    error = math.sqrt(cluster_variance(data - mean, group.reshape(-1))) / n
    reach = t_quantile(count - 1, level) * error
    return Interval(mean, mean - reach, mean + reach, n)


def cluster_variance(deviations: Floats, groups: NDArray[np.int64]) -> float:
    """Return G / (G − 1) · Σ_g (Σ_{i∈g} e_i)² of deviations e [n] in groups 0 … G − 1."""
    sums = np.bincount(groups, weights=deviations)
    return len(sums) / (len(sums) - 1) * float((sums**2).sum())


def bootstrap_interval(
    values: ArrayLike,
    statistic: Callable[[Floats], Any] | None = None,
    *,
    method: str = "bca",
    level: float = 0.95,
    resamples: int = 9999,
    seed: int = 0,
) -> Interval:
    """Return a statistic of values with its bootstrap interval.

    Parameters
    ----------
    values : array [n]
        One number per task.
    statistic : callable, optional
        Maps [..., n] to [...] along the last axis; the mean where it is left out.
    method : {"bca", "percentile"}
        As in :func:`bootstrap`, with the formulas.
    level : float
        Coverage, between 0 and 1.
    resamples, seed : int
        The same seed gives the same interval.

    Returns
    -------
    Interval
        ``mean`` is the statistic of all values.

    Examples
    --------
    >>> interval = bootstrap_interval([0.2, 0.4, 0.6, 0.8], method="percentile")
    >>> round(interval.mean, 3), round(interval.low, 3), round(interval.high, 3)
    (0.5, 0.3, 0.7)
    """
    data = checked(values)

    def over_rows(rows: NDArray[np.int64]) -> Floats:
        taken = data[rows]
        return np.asarray(taken.mean(axis=-1) if statistic is None else statistic(taken), np.float64)

    # Leaving x_i out moves a mean by (x̄ − x_i) / (n − 1), so u_i is known up to 1 / (n − 1).
    influence = data - data.mean() if statistic is None else None
    return bootstrap(
        len(data),
        over_rows,
        method=method,
        level=level,
        resamples=resamples,
        seed=seed,
        influence=influence,
    )


def bootstrap(
    n: int,
    statistic: Callable[[NDArray[np.int64]], Floats],
    *,
    method: str = "bca",
    level: float = 0.95,
    resamples: int = 9999,
    seed: int = 0,
    influence: Floats | None = None,
) -> Interval:
    """Return the bootstrap interval of a statistic over n rows of any kind.

    ``percentile``: the (1 ± level) / 2 quantiles of the resampled θ*. ``bca`` (bias-corrected and accelerated)
    moves those quantiles to Φ(z₀ + (z₀ + z) / (1 − a (z₀ + z))), where z₀ = Φ⁻¹(share of θ* below θ̂, ties half)
    and a = Σ u_i³ / (6 (Σ u_i²)^{3/2}) with u_i = mean of the leave-one-out estimates − the i-th.

    Parameters
    ----------
    n : int
        Number of rows.
    statistic : callable
        Maps row numbers [B, m] to values [B].
    method : {"bca", "percentile"}
        See above.
    level : float
        Coverage, between 0 and 1.
    resamples, seed : int
        The same seed gives the same interval.
    influence : array [n], optional
        u up to a positive factor, where there is a closed form; it saves n estimates.

    Returns
    -------
    Interval
        Where BCa is not defined, as when all θ* lie on one side, the percentile interval, and ``reason`` says so.

    Examples
    --------
    The ratio of two sums over the same tasks:

    >>> right, asked = np.array([3, 4, 5, 2]), np.array([5, 5, 5, 5])
    >>> ratio = bootstrap(4, lambda rows: right[rows].sum(1) / asked[rows].sum(1), method="percentile")
    >>> ratio.mean, round(ratio.low, 2), round(ratio.high, 2)
    (0.7, 0.5, 0.9)
    """
    if method not in ("bca", "percentile"):
        raise ValueError(f"method is 'bca' or 'percentile', not '{method}'")
    estimate = float(statistic(np.arange(n)[None])[0])
    if n == 1:
        return Interval(estimate, None, None, 1, "one value has no interval")
    rng = np.random.default_rng(seed)
    draws = np.concatenate([statistic(rng.integers(0, n, (rows, n))) for rows in blocks_of(resamples, n)])
    if np.ptp(draws) <= 1e-12 * (1 + abs(estimate)):  # equal up to rounding: nothing varies
        return Interval(estimate, estimate, estimate, n)
    tails = np.array([(1 - level) / 2, (1 + level) / 2])
    reason = ""
    if method == "bca":
        from scipy.special import ndtr, ndtri

        shift = ndtri(((draws < estimate).mean() + (draws <= estimate).mean()) / 2)
        left_out = _influence(n, statistic) if influence is None else influence
        squares = float((left_out**2).sum())
        moved = None
        if squares > 0 and np.isfinite(shift):
            skew = float((left_out**3).sum()) / (6 * squares**1.5)
            z = shift + ndtri(tails)
            moved = ndtr(shift + z / (1 - skew * z))
        if moved is not None and np.isfinite(moved).all():
            tails = moved
        else:
            reason = "the BCa correction is not defined here; this is the percentile interval"
    low, high = np.quantile(draws, tails)
    return Interval(estimate, float(low), float(high), n, reason)


def blocks_of(resamples: int, width: int) -> Iterator[int]:
    """Yield how many resamples of ``width`` numbers to compute at a time, until there are ``resamples``."""
    step = max(1, _BLOCK // width)
    for done in range(0, resamples, step):
        yield min(step, resamples - done)


def _influence(n: int, statistic: Callable[[NDArray[np.int64]], Floats]) -> Floats:
    """Return the mean of the leave-one-out estimates minus each of them, [n]."""
    rows = np.arange(n - 1)
    parts: list[Floats] = []
    for size in blocks_of(n, n):
        skipped = sum(map(len, parts)) + np.arange(size)[:, None]
        parts.append(statistic(rows + (rows >= skipped)))
    estimates = np.concatenate(parts)
    influence: Floats = estimates.mean() - estimates
    return influence
