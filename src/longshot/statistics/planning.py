"""Enough tasks? The number for a wanted interval, and whether the ranking would hold on other tasks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from longshot.statistics.intervals import Floats, t_quantile

_BLOCK = 1 << 22


def tasks_needed(std: float, half: float, level: float = 0.95) -> int:
    """The smallest n ≥ 2 with t_{n−1} · std / √n ≤ half: tasks for an interval of mean ± ``half``.

    ``std`` is the standard deviation over tasks of what will be averaged, from a first run: of the accuracy, or of
    the difference of two methods (much smaller, since hard tasks are hard for both).
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
    """Bootstrap over tasks of the ranking of methods; ``scores`` is [T, M], all methods on the same tasks.

    A resample draws T tasks with replacement, the same for all methods, and ranks by mean. Methods with equal
    means stand in the order given.
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
        for place in range(methods):
            places[:, place] += np.bincount(ranked[:, place], minlength=methods)
        top = means == means.max(axis=1, keepdims=True)
        first += (top / top.sum(axis=1, keepdims=True)).sum(axis=0)
        sign = np.sign(means[:, :, None] - means[:, None, :])
        above += ((sign + 1) / 2).sum(axis=0)
    share = above / resamples
    upper = np.triu_indices(methods, 1)
    # τ of one resample is the mean over pairs of +1 (kept), −1 (swapped), 0 (tied): averaging commutes.
    kept = share[np.ix_(order, order)][upper]
    agreement = float((2 * kept - 1).mean()) if methods > 1 else 1.0
    return Stability(
        order, same / resamples, first / resamples, places / resamples, share, agreement, resamples
    )


def _round(means: Floats) -> Floats:
    """Means that differ by rounding alone are equal."""
    found: Floats = np.round(means, 12)
    return found
