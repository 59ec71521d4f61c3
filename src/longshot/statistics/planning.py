"""Enough tasks? The number for an interval of given width, and whether the ranking would hold on other tasks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from longshot.statistics.intervals import Floats, t_quantile

_BLOCK = 1 << 22


def tasks_needed(std: float, half: float, level: float = 0.95) -> int:
    """How many tasks an interval of mean ± ``half`` takes: the smallest n ≥ 2 with t_{n−1} · std / √n ≤ half.

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
        """Whether each method is above the next one in at least ``level`` of the resamples."""
        return all(float(self.above[i, j]) >= level for i, j in pairwise(self.order))


def ranking_stability(
    scores: ArrayLike, *, higher_is_better: bool = True, resamples: int = 2000, seed: int = 0
) -> Stability:
    """Whether the ranking of methods would hold on other tasks: a bootstrap over tasks.

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
    step = max(1, _BLOCK // max(tasks, methods * methods))
    same, first = 0, np.zeros(methods)
    places, above = np.zeros((methods, methods)), np.zeros((methods, methods))
    for done in range(0, resamples, step):
        rows = min(step, resamples - done)
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
    """Means that differ by rounding alone are equal."""
    rounded: Floats = np.round(means, 12)
    return rounded
