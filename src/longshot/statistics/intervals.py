"""Means over tasks and their intervals: Student's t, normal, bootstrap, clustered by dataset."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
_BLOCK = 1 << 22  # numbers gathered at a time: bounds memory, changes no result


@dataclass(frozen=True)
class Interval:
    """An estimate (a mean unless said otherwise) with its interval.

    ``low`` and ``high`` are None where there is no interval, as for one value alone; ``reason`` then says why.
    """

    mean: float
    low: float | None
    high: float | None
    n: int
    reason: str = ""

    @property
    def half(self) -> float | None:
        """Half the interval's width: the number behind ±."""
        return None if self.low is None or self.high is None else (self.high - self.low) / 2

    def excludes(self, value: float) -> bool:
        """Whether the interval exists and ``value`` lies outside it."""
        return self.low is not None and self.high is not None and not self.low <= value <= self.high

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        found = {"mean": self.mean, "low": self.low, "high": self.high, "n": self.n}
        return {**found, "reason": self.reason} if self.reason else found


def checked(values: ArrayLike) -> Floats:
    """``values`` as finite float64 [n], n ≥ 1; ValueError otherwise."""
    data = np.asarray(values, np.float64).reshape(-1)
    if not len(data):
        raise ValueError("the mean of no values is not defined")
    if not np.isfinite(data).all():
        raise ValueError(f"{int((~np.isfinite(data)).sum())} of {len(data)} values are NaN or infinite")
    return data


def t_quantile(freedom: float, level: float) -> float:
    """The two-sided Student-t factor: P(|T| ≤ t) = ``level``."""
    from scipy.special import stdtrit  # scipy.stats takes a second to import

    return float(stdtrit(freedom, (1 + level) / 2))


def t_p_value(t: float, freedom: float) -> float:
    """Two-sided p of a t statistic."""
    from scipy.special import stdtr

    return float(2 * stdtr(freedom, -abs(t)))


def mean_interval(values: ArrayLike, level: float = 0.95) -> Interval:
    """Mean of independent values with its Student-t interval: x̄ ± t_{n−1} · s / √n, s² with n − 1.

    ``values`` is [n], n ≥ 1, without NaN.
    """
    data = checked(values)
    mean, n = float(data.mean()), len(data)
    if n == 1:
        return Interval(mean, None, None, 1, "one value has no interval")
    reach = t_quantile(n - 1, level) * float(data.std(ddof=1)) / math.sqrt(n)
    return Interval(mean, mean - reach, mean + reach, n)


def normal_interval(values: ArrayLike) -> Interval:
    """Meta-Dataset's interval: x̄ ± 1.96 · σ / √n, σ² with n; needed where its ranks are to be reproduced."""
    data = checked(values)
    mean, n = float(data.mean()), len(data)
    if n == 1:
        return Interval(mean, None, None, 1, "one value has no interval")
    reach = 1.96 * float(data.std()) / math.sqrt(n)
    return Interval(mean, mean - reach, mean + reach, n)


def spread(values: ArrayLike) -> float:
    """Standard deviation over tasks, with n − 1; NaN for a single task."""
    data = checked(values)
    return float(data.std(ddof=1)) if len(data) > 1 else math.nan


def worst_mean(values: NDArray[Any], share: float = 0.1) -> Any:
    """Mean of the lowest ``share`` of the values along the last axis: the k = ⌈share · n⌉ smallest, at least one.

    [..., n] → [...], so it can be bootstrapped: ``bootstrap_interval(values, worst_mean)``.
    """
    data = np.asarray(values, np.float64)
    # A hair less, so that 0.1 · 70 = 7.000000000000001 counts as seven.
    count = max(1, math.ceil(share * data.shape[-1] - 1e-9))
    return np.partition(data, count - 1, axis=-1)[..., :count].mean(axis=-1)


def clustered_interval(values: ArrayLike, clusters: ArrayLike, level: float = 0.95) -> Interval:
    """Mean over all values when they are nested in clusters (tasks in datasets), which need not be independent inside.

    se² = G / (G − 1) · Σ_g (Σ_{i∈g} (x_i − x̄))² / n², for G clusters and n values, and x̄ ± t_{G−1} · se
    (the sandwich estimate with the usual small-sample factor). With fewer than two clusters there is nothing to
    estimate it from and no interval; ``reason`` says so.
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
    sums = np.bincount(group.reshape(-1), weights=data - mean)
    error = math.sqrt(count / (count - 1) * float((sums**2).sum())) / n
    reach = t_quantile(count - 1, level) * error
    return Interval(mean, mean - reach, mean + reach, n)


def bootstrap_interval(
    values: ArrayLike,
    statistic: Callable[[Floats], Any] | None = None,
    *,
    method: str = "bca",
    level: float = 0.95,
    resamples: int = 9999,
    seed: int = 0,
) -> Interval:
    """A statistic of values [n] with its bootstrap interval; the mean unless another ``statistic`` is given.

    ``statistic`` maps [..., n] to [...] along the last axis. ``method`` as in :func:`bootstrap`.
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
    """Bootstrap over n rows; ``statistic`` maps row numbers [B, m] to values [B].

    ``percentile``: the (1 ± level) / 2 quantiles of the resampled θ*. ``bca`` (bias-corrected and accelerated)
    moves those quantiles to Φ(z₀ + (z₀ + z) / (1 − a (z₀ + z))), where z₀ = Φ⁻¹(share of θ* below θ̂, ties half)
    and a = Σ u_i³ / (6 (Σ u_i²)^{3/2}) with u_i = mean of the leave-one-out estimates − the i-th. ``influence`` [n]
    gives u up to a positive factor where it is known. Where BCa is not defined, as when all θ* lie on one side,
    the percentile interval is returned and ``reason`` says so.
    """
    if method not in ("bca", "percentile"):
        raise ValueError(f"method is 'bca' or 'percentile', not '{method}'")
    estimate = float(statistic(np.arange(n)[None])[0])
    if n == 1:
        return Interval(estimate, None, None, 1, "one value has no interval")
    rng = np.random.default_rng(seed)
    step = max(1, _BLOCK // n)
    draws = np.concatenate(
        [
            statistic(rng.integers(0, n, (min(step, resamples - done), n)))
            for done in range(0, resamples, step)
        ]
    )
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


def _influence(n: int, statistic: Callable[[NDArray[np.int64]], Floats]) -> Floats:
    """[n] mean of the leave-one-out estimates minus each."""
    step = max(1, _BLOCK // n)
    places = np.arange(n - 1)
    parts = []
    for start in range(0, n, step):
        left = np.arange(start, min(start + step, n))[:, None]
        parts.append(statistic(places + (places >= left)))
    estimates = np.concatenate(parts)
    found: Floats = estimates.mean() - estimates
    return found
