"""Means over tasks that share classes and images: the interval for other tasks *and* other classes."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from longshot.statistics.intervals import Interval, checked, cluster_variance, t_quantile

NOTICEABLE = 0.2  # two intervals whose widths differ by more than a fifth tell different stories


def crossed_interval(
    values: ArrayLike, tasks: ArrayLike, classes: ArrayLike, level: float = 0.95
) -> Interval:
    """Mean over tasks when their queries come from the same classes again and again.

    Every task counts the same: x̄ = Σ_q w_q x_q with w_q = 1 / (T · queries of its task). With e_q = w_q (x_q − x̄),

        se² = V(tasks) + V(classes) − V(tasks × classes),   V(g) = G / (G − 1) · Σ_g (Σ_{q∈g} e_q)²,

    for the G groups of a factor: the two-way clustered variance. V(tasks) alone is s² / T, the interval over tasks.
    V of a factor is what a bootstrap over its groups converges to; the last term counts once what lies in a group of
    both. An image belongs to one class, so V(classes) also covers images that occur in several tasks. se² is never
    taken below V(tasks) or V(classes). The interval is x̄ ± t · se, t with the smaller number of groups less one.

    Parameters
    ----------
    values : array [Q]
        One number per query, such as 1 for right and 0 for wrong, or the difference of two methods.
    tasks, classes : array [Q]
        The task and the true class of each query, as numbers.
    level : float
        Coverage, between 0 and 1.

    Returns
    -------
    Interval
        ``n`` is the number of classes. No interval for fewer than two tasks or two classes; ``reason`` says so.

    Examples
    --------
    Two tasks over the same two classes; one class is always right, the other never.

    >>> interval = crossed_interval([1, 0, 1, 0], tasks=[0, 0, 1, 1], classes=[0, 1, 0, 1])
    >>> interval.mean, round(interval.half, 2), interval.n
    (0.5, 6.35, 2)
    """
    return Crossing(tasks, classes).interval(values, level)


class Crossing:
    """The tasks and classes of Q queries, numbered once for many intervals; see :func:`crossed_interval`."""

    def __init__(self, tasks: ArrayLike, classes: ArrayLike) -> None:
        self.task, self.query_class = _numbered(tasks), _numbered(classes)
        if len(self.task) != len(self.query_class):
            raise ValueError(f"{len(self.task)} tasks need as many classes, not {len(self.query_class)}")
        self.task_count, self.class_count = (
            int(numbers.max(initial=-1)) + 1 for numbers in (self.task, self.query_class)
        )
        self.cell = _numbered(self.task * self.class_count + self.query_class)
        self.weights = 1 / (self.task_count * np.bincount(self.task)[self.task])

    def interval(self, values: ArrayLike, level: float = 0.95) -> Interval:
        """The mean of ``values`` [Q] over tasks, with its interval."""
        data = checked(values)
        if len(data) != len(self.task):
            raise ValueError(f"{len(data)} values need as many tasks, not {len(self.task)}")
        mean = float((self.weights * data).sum())
        groups = min(self.task_count, self.class_count)
        if groups < 2:
            reason = (
                "an interval over classes needs at least 2 tasks and 2 classes, there are "
                f"{self.task_count} and {self.class_count}"
            )
            return Interval(mean, None, None, self.class_count, reason)
        deviations = self.weights * (data - mean)
        over_tasks = cluster_variance(deviations, self.task)
        over_classes = cluster_variance(deviations, self.query_class)
        variance = over_tasks + over_classes - cluster_variance(deviations, self.cell)
        reach = t_quantile(groups - 1, level) * math.sqrt(max(variance, over_tasks, over_classes))
        return Interval(mean, mean - reach, mean + reach, self.class_count)


def widths_differ(half: float | None, other: float | None) -> bool:
    """Whether two half-widths of intervals differ by more than a fifth of the first.

    Parameters
    ----------
    half, other : float or None
        Of the interval that is shown, and of the one that might have to stand beside it.

    Returns
    -------
    bool
        False where one of them does not exist (None or NaN).

    Examples
    --------
    >>> widths_differ(0.1, 0.13), widths_differ(0.1, 0.11), widths_differ(0.1, None)
    (True, False, False)
    """
    return half is not None and other is not None and abs(other - half) > NOTICEABLE * half


def _numbered(groups: ArrayLike) -> NDArray[np.int64]:
    """[Q] groups as numbers 0 … G − 1."""
    return np.unique(np.asarray(groups), return_inverse=True)[1].reshape(-1).astype(np.int64)
