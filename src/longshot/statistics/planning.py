"""Enough tasks? For an interval of given width, for the sign-flip test to decide, for a ranking to hold."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

from longshot.statistics.intervals import Floats, blocks_of, t_quantile
from longshot.statistics.paired import smallest_p


def tasks_needed(std: float, half: float, level: float = 0.95) -> int:
    """Return how many tasks mean ± ``half`` takes: the smallest n ≥ 2 with t_{n−1} · std / √n ≤ half.

    Parameters
    ----------
    std : float
        Standard deviation over tasks of what will be averaged, from a first run: of the accuracy, or of the difference
        of two methods (much smaller, since hard tasks are hard for both).
    half : float
        Half the width of the interval, above 0.
    level : float
        Coverage, between 0 and 1.

    Returns
    -------
    int
        Number of tasks.

    Examples
    --------
    >>> tasks_needed(std=0.1, half=0.02)
    99
    """
    if not (std >= 0 and half > 0 and math.isfinite(std)):
        raise ValueError(
            f"the number of tasks needs a finite std ≥ 0 and a half width > 0, not {std} and {half}"
        )

    def reach(n: int) -> float:
        return t_quantile(n - 1, level) * std / math.sqrt(n)

    high = 2
    while reach(high) > half:
        high *= 2
    low = max(2, high // 2)
    while low < high:  # t_{n−1} / √n falls with n
        middle = (low + high) // 2
        low, high = (low, middle) if reach(middle) <= half else (middle + 1, high)
    return low


def fewest_tasks(comparisons: int = 1, level: float = 0.05) -> int:
    """Return the fewest tasks with which the sign-flip test can decide: the smallest n with m · 2/2ⁿ < level.

    Parameters
    ----------
    comparisons : int
        m, how many are made together on n tasks each and corrected by Holm's method.
    level : float
        Below which a corrected p decides, between 0 and 1.

    Returns
    -------
    int
        Number of tasks. With fewer, even a loss on every task stays undecided.

    Examples
    --------
    2/32 is above 0.05, and 2/64 below:

    >>> fewest_tasks(), fewest_tasks(comparisons=3)
    (6, 7)
    """
    if not (comparisons >= 1 and 0 < level < 1):
        raise ValueError(
            f"a test needs 1 comparison or more and a level between 0 and 1, not {comparisons} and {level}"
        )
    tasks = 1
    while comparisons * smallest_p(tasks) >= level:
        tasks += 1
    return tasks


def tasks_to_decide(
    mean: float, std: float, *, comparisons: int = 1, level: float = 0.05, power: float = 0.8
) -> int:
    """Estimate how many tasks the sign-flip test needs to decide, if differences go on as those seen so far.

    Under random signs Σ ±dᵢ has the variance Σ dᵢ² ≈ n (d̄² + s²), so n differences decide where
    √n |d̄| > z_{1−α/2} √(d̄² + s²), α = level / m. Over draws of tasks the left side varies by s, hence
    n = ((z_{1−α/2} √(d̄² + s²) + z_power · s) / d̄)², and at least :func:`fewest_tasks`.

    Parameters
    ----------
    mean, std : float
        Of the paired differences; the mean is not 0.
    comparisons : int
        m, how many are made together and corrected.
    level : float
        Below which a corrected p decides, between 0 and 1.
    power : float
        The chance with which so many tasks decide, from 0.5 to below 1.

    Returns
    -------
    int
        Number of tasks.

    Examples
    --------
    >>> tasks_to_decide(mean=-0.02, std=0.1)
    202
    >>> tasks_to_decide(mean=-0.46, std=0.05)
    6
    """
    if not (math.isfinite(mean) and mean and math.isfinite(std) and std >= 0 and 0.5 <= power < 1):
        raise ValueError(
            f"a test needs a mean that is not 0, a std ≥ 0 and a power from 0.5 to 1, not {mean}, {std} and {power}"
        )
    fewest = fewest_tasks(comparisons, level)
    beyond_signs = NormalDist().inv_cdf(1 - level / comparisons / 2)
    beyond_draws = NormalDist().inv_cdf(power)
    ratio = std / abs(mean)
    return max(fewest, math.ceil((beyond_signs * math.hypot(1.0, ratio) + beyond_draws * ratio) ** 2))


@dataclass(frozen=True, eq=False)
class Stability:
    """The ranking of M methods by mean, under resampling of the tasks."""

    order: NDArray[np.int64]  # [M] from the best to the worst on all tasks
    same: float  # share of the resamples with this very order
    first: Floats  # [M] share of the resamples in which a method is first (ties are split)
    places: Floats  # [M, M] share of the resamples in which method i is at place j
    above: Floats  # [M, M] share of the resamples in which i is above j (ties count half)
    agreement: float  # mean Kendall τ between the ranking on all tasks and on a resample
    resamples: int

    def settled(self, level: float = 0.95) -> bool:
        """Tell whether each method is above the next one in at least ``level`` of the resamples."""
        return all(float(self.above[i, j]) >= level for i, j in pairwise(self.order))


def ranking_stability(
    scores: ArrayLike, *, higher_is_better: bool = True, resamples: int = 2000, seed: int = 0
) -> Stability:
    """Estimate whether the ranking of methods would hold on other tasks, by a bootstrap over tasks.

    A resample draws T tasks with replacement, the same for all methods, and ranks by mean. Methods with equal
    means stand in the order given. Kendall's τ of a resample is the mean over pairs of +1 (same order), −1
    (exchanged) and 0 (tied).

    Parameters
    ----------
    scores : array [T, M]
        All methods on the same tasks.
    higher_is_better : bool
        False for a loss.
    resamples, seed : int
        The same seed gives the same shares.

    Returns
    -------
    Stability
        Shares of the resamples.

    Examples
    --------
    The first method is better on every task:

    >>> stability = ranking_stability([[0.9, 0.5], [0.8, 0.6], [0.7, 0.1]], resamples=50)
    >>> stability.order.tolist(), stability.same, stability.agreement, stability.settled()
    ([0, 1], 1.0, 1.0, True)
    """
    table = np.asarray(scores, np.float64)
    if table.ndim != 2 or not np.isfinite(table).all() or table.shape[0] < 1 or table.shape[1] < 1:
        raise ValueError("scores are [tasks, methods], finite")
    table = table if higher_is_better else -table
    tasks, methods = table.shape
    order = np.argsort(-_round(table.mean(axis=0)), kind="stable").astype(np.int64)
    rng = np.random.default_rng(seed)
    same, first = 0, np.zeros(methods)
    places, above = np.zeros((methods, methods)), np.zeros((methods, methods))
    for rows in blocks_of(resamples, max(tasks, methods * methods)):
        weight = rng.multinomial(tasks, np.full(tasks, 1 / tasks), size=rows)
        means = _round(weight @ table / tasks)  # [rows, M]
        ranked = np.argsort(-means, axis=1, kind="stable")
        same += int((ranked == order).all(axis=1).sum())
        for rank in range(methods):
            places[:, rank] += np.bincount(ranked[:, rank], minlength=methods)
        top = means == means.max(axis=1, keepdims=True)
        first += (top / top.sum(axis=1, keepdims=True)).sum(axis=0)
        sign = np.sign(means[:, :, None] - means[:, None, :])
        above += ((sign + 1) / 2).sum(axis=0)
    share = above / resamples
    upper = np.triu_indices(methods, 1)
    # τ of one resample is a mean over pairs, so the mean τ is one over pairs of shares.
    same_order = share[np.ix_(order, order)][upper]
    agreement = float((2 * same_order - 1).mean()) if methods > 1 else 1.0
    return Stability(
        order, same / resamples, first / resamples, places / resamples, share, agreement, resamples
    )


def _round(means: Floats) -> Floats:
    """Round means so that those that differ by rounding alone are equal."""
    rounded: Floats = np.round(means, 12)
    return rounded
