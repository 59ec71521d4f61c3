"""Many methods at once: Meta-Dataset's rule, average ranks, Friedman's test, critical difference, adjusted p values."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from longshot.statistics.association import ranks
from longshot.statistics.intervals import Floats


def meta_dataset_ranks(means: ArrayLike, halves: ArrayLike) -> Floats:
    """Rank methods on one source by Meta-Dataset's rule; 1 is the best, tied methods share the mean rank.

    Take the best mean among the methods without a rank; every such method with |difference| ≤ √(ci₁² + ci₂²) ties with
    it; the tied share the mean of the ranks they take up; repeat with the others.

    Parameters
    ----------
    means : array [M], or [S, M] for S sources
        Mean accuracy of each method.
    halves : array of the same shape
        Half widths of the 95 % intervals.

    Returns
    -------
    array of the same shape
        Ranks within each source; average over the first axis for the leaderboard.

    Examples
    --------
    >>> meta_dataset_ranks([0.9, 0.95, 0.7], [0.05, 0.05, 0.05]).tolist()
    [1.5, 1.5, 3.0]
    """
    mean, half = (np.asarray(x, np.float64) for x in (means, halves))
    if mean.shape != half.shape or not (np.isfinite(mean).all() and np.isfinite(half).all()):
        raise ValueError(
            f"ranks need a mean and a half width for each method, finite: {mean.shape}, {half.shape}"
        )
    if mean.ndim == 2:
        return np.stack([meta_dataset_ranks(m, h) for m, h in zip(mean, half, strict=True)])
    ranked = np.zeros(len(mean))
    unranked = np.arange(len(mean))
    while len(unranked):
        best = unranked[np.argmax(mean[unranked])]
        # Published means and halves have two digits: a difference that equals its bound must not fail by rounding.
        bound = np.sqrt(half[best] ** 2 + half[unranked] ** 2) + 1e-9
        tied = mean[best] - mean[unranked] <= bound
        ranked[unranked[tied]] = len(mean) - len(unranked) + (int(tied.sum()) + 1) / 2
        unranked = unranked[~tied]
    return ranked


def block_ranks(scores: ArrayLike, *, higher_is_better: bool = True) -> Floats:
    """Rank methods within each block: 1 is the best, equal scores share the mean of their ranks.

    Parameters
    ----------
    scores : array [N, M]
        M methods on N blocks. A block is what all methods were measured on: a dataset (its mean), or a task.
    higher_is_better : bool
        False for a loss.

    Returns
    -------
    array [N, M]
        Ranks in each row.

    Examples
    --------
    >>> block_ranks([[0.9, 0.5, 0.9]]).tolist()
    [[1.5, 3.0, 1.5]]
    """
    table = np.asarray(scores, np.float64)
    if table.ndim != 2 or not np.isfinite(table).all():
        raise ValueError("scores are [blocks, methods], finite")
    table = np.round(-table if higher_is_better else table, 12)  # equal up to rounding is equal
    return np.array([ranks(row) for row in table]).reshape(table.shape)


@dataclass(frozen=True, eq=False)
class CriticalDifference:
    """What a critical-difference plot shows: M methods over N blocks."""

    ranks: Floats  # [M] average ranks, 1 is the best
    order: NDArray[np.int64]  # [M] methods from the best to the worst
    blocks: int
    difference: float  # two methods whose average ranks differ by less are not told apart
    groups: tuple[tuple[int, ...], ...]  # maximal sets of methods that are not told apart, in plot order
    chi_square: float  # Friedman
    p: float
    f: float  # Iman and Davenport's less conservative form
    p_f: float


def critical_difference(
    scores: ArrayLike, *, alpha: float = 0.05, higher_is_better: bool = True
) -> CriticalDifference:
    """Compute Friedman's test and Nemenyi's critical difference.

    χ² = 12 / (N M (M + 1)) · Σ_j R_j² − 3 N (M + 1), divided by 1 − Σ (t³ − t) / (N M (M² − 1)) for ties of size t
    (R_j: sum of ranks), with M − 1 degrees of freedom; F = (N − 1) χ² / (N (M − 1) − χ²) with M − 1 and
    (M − 1)(N − 1). CD = q_α / √2 · √(M (M + 1) / (6 N)), q_α of the studentized range with M means and ∞ degrees.

    Parameters
    ----------
    scores : array [N, M]
        M ≥ 2 methods on N ≥ 2 blocks that are independent: datasets, or the tasks of one dataset.
    alpha : float
        Chance of telling apart what is equal.
    higher_is_better : bool
        False for a loss.

    Returns
    -------
    CriticalDifference
        Average ranks, the critical difference, groups that are not told apart, and the tests.

    Examples
    --------
    >>> compared = critical_difference([[0.9, 0.5, 0.1]] * 4)
    >>> compared.ranks.tolist(), round(compared.chi_square, 3), round(compared.difference, 3)
    ([1.0, 2.0, 3.0], 8.0, 1.657)
    """
    from scipy.special import chdtrc, fdtrc
    from scipy.stats import studentized_range

    ranked = block_ranks(scores, higher_is_better=higher_is_better)
    blocks, methods = ranked.shape
    if blocks < 2 or methods < 2:
        raise ValueError(f"ranks need at least 2 blocks and 2 methods, not {blocks} and {methods}")
    average = ranked.mean(axis=0)
    tied = sum(int((t**3 - t).sum()) for t in (np.unique(row, return_counts=True)[1] for row in ranked))
    free = 1 - tied / (blocks * methods * (methods**2 - 1))
    if free <= 1e-12:  # every block ties all methods: nothing tells them apart
        chi, p, f, p_f = 0.0, 1.0, 0.0, 1.0
    else:
        sums = ranked.sum(axis=0)
        chi = 12 / (blocks * methods * (methods + 1)) * float((sums**2).sum()) - 3 * blocks * (methods + 1)
        chi = max(0.0, chi / free)
        p = float(chdtrc(methods - 1, chi))
        below = blocks * (methods - 1) - chi
        f = (blocks - 1) * chi / below if below > 1e-9 else math.inf
        p_f = float(fdtrc(methods - 1, (methods - 1) * (blocks - 1), f)) if math.isfinite(f) else 0.0
    quantile = float(studentized_range.ppf(1 - alpha, methods, np.inf))
    reach = quantile / math.sqrt(2) * math.sqrt(methods * (methods + 1) / (6 * blocks))
    order = np.argsort(average, kind="stable").astype(np.int64)
    return CriticalDifference(average, order, blocks, reach, _groups(average, order, reach), chi, p, f, p_f)


def _groups(average: Floats, order: NDArray[np.int64], reach: float) -> tuple[tuple[int, ...], ...]:
    """List the runs in rank order that span at most ``reach``, without those inside a longer one."""
    groups: list[tuple[int, ...]] = []
    last = -1
    for start in range(len(order)):
        span = average[order[start:]] - average[order[start]] <= reach
        stop = start + int(span.sum())
        if stop - start > 1 and stop > last:
            groups.append(tuple(int(i) for i in order[start:stop]))
            last = stop
    return tuple(groups)


# ---- p values that allow for how many tests there are


def holm(p_values: ArrayLike) -> Floats:
    """Adjust p values by Holm's step-down rule: p₍ᵢ₎ ← max_{j ≤ i} min(1, (m − j + 1) · p₍ⱼ₎), p ascending.

    Rejecting where the result is below α keeps the chance of even one false claim below α, whatever the dependence
    between the tests.

    Parameters
    ----------
    p_values : array [m]
        Between 0 and 1.

    Returns
    -------
    array [m]
        In the order of ``p_values``.

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03]).round(3).tolist()
    [0.03, 0.06, 0.06]
    """
    p, places = _sorted(p_values)
    steps = np.arange(len(p), 0, -1)
    adjusted: Floats = np.maximum.accumulate(np.minimum(1, steps * p))
    return adjusted[places]


def benjamini_hochberg(p_values: ArrayLike) -> Floats:
    """Adjust p values by Benjamini and Hochberg's step-up rule: p₍ᵢ₎ ← min_{j ≥ i} m / j · p₍ⱼ₎, p ascending.

    Rejecting where the result is below α keeps the expected share of false claims among all claims below α.

    Parameters
    ----------
    p_values : array [m]
        Between 0 and 1.

    Returns
    -------
    array [m]
        In the order of ``p_values``.

    Examples
    --------
    >>> benjamini_hochberg([0.01, 0.04, 0.03]).round(3).tolist()
    [0.03, 0.04, 0.04]
    """
    p, places = _sorted(p_values)
    scaled = len(p) / np.arange(1, len(p) + 1) * p  # the last is p itself, so none ends above 1
    adjusted: Floats = np.minimum.accumulate(scaled[::-1])[::-1]
    return adjusted[places]


def _sorted(p_values: ArrayLike) -> tuple[Floats, NDArray[np.intp]]:
    """Sort p values upwards; return them and the place of each among them."""
    p = np.asarray(p_values, np.float64).reshape(-1)
    if not ((p >= 0) & (p <= 1)).all():
        raise ValueError("p values lie between 0 and 1")
    order = np.argsort(p, kind="stable")
    return p[order], np.argsort(order)
