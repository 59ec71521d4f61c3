"""How hard: the drop from one testbed to another, and what part of a dataset's difficulty a better model can remove."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from longshot.statistics.intervals import Floats, Interval, checked, mean_interval, t_quantile


@dataclass(frozen=True)
class Drop:
    """From testbed A to testbed B; ``drop`` is A − B, positive when B is harder."""

    dataset: str | None  # None: all tasks together
    mean_a: float
    mean_b: float
    drop: Interval
    paired: bool
    tasks_a: int
    tasks_b: int


@dataclass(frozen=True)
class DatasetDifficulty:
    """A dataset seen through M methods on the same tasks."""

    dataset: str
    best: int  # the methods' positions
    worst: int
    intrinsic: Interval  # 1 − best: what no method at hand solves
    modelling: Interval  # best − worst: what the choice of method decides


def welch(a: ArrayLike, b: ArrayLike, level: float = 0.95) -> Interval:
    """Return the difference of two independent means, ā − b̄, with Welch's interval.

    se² = s_a²/n_a + s_b²/n_b; ± t_ν · se, ν = se⁴ / ((s_a²/n_a)²/(n_a − 1) + (s_b²/n_b)²/(n_b − 1)).

    Parameters
    ----------
    a : array [n_a]
        Values of one side.
    b : array [n_b]
        Values of the other side, of other tasks.
    level : float
        Coverage, between 0 and 1.

    Returns
    -------
    Interval
        ``n`` counts both sides; without an interval where a side has a single value.

    Examples
    --------
    >>> interval = welch([0.5, 0.7, 0.6], [0.2, 0.4, 0.3])
    >>> round(interval.mean, 3), round(interval.low, 3), round(interval.high, 3)
    (0.3, 0.073, 0.527)
    """
    side_a, side_b = checked(a), checked(b)
    difference, n = float(side_a.mean() - side_b.mean()), len(side_a) + len(side_b)
    if min(len(side_a), len(side_b)) < 2:
        return Interval(difference, None, None, n, "an interval needs at least 2 tasks on either side")
    part_a, part_b = (float(side.var(ddof=1)) / len(side) for side in (side_a, side_b))
    if part_a + part_b <= 1e-30:
        return Interval(difference, difference, difference, n)
    freedom = (part_a + part_b) ** 2 / (part_a**2 / (len(side_a) - 1) + part_b**2 / (len(side_b) - 1))
    reach = t_quantile(freedom, level) * math.sqrt(part_a + part_b)
    return Interval(difference, difference - reach, difference + reach, n)


def drops(
    a: ArrayLike,
    b: ArrayLike,
    datasets_a: Sequence[str] | NDArray[np.str_],
    datasets_b: Sequence[str] | NDArray[np.str_],
    *,
    paired: bool,
    level: float = 0.95,
) -> list[Drop]:
    """Measure the drop of one method's metric from testbed A to B, for each dataset both have, then overall.

    Paired: the mean of a_i − b_i with its t interval. Otherwise ā − b̄ with Welch's. Overall weighs every task
    alike and covers tasks of shared datasets only.

    Parameters
    ----------
    a : array [n_a]
        The metric on the tasks of A.
    b : array [n_b]
        The metric on the tasks of B.
    datasets_a, datasets_b : sequences [n_a], [n_b]
        The dataset of each task.
    paired : bool
        Task i of A and task i of B ask the same queries.
    level : float
        Coverage, between 0 and 1.

    Returns
    -------
    list of Drop
        In the order in which A has the datasets; ``dataset`` is None for the last, overall.

    Examples
    --------
    >>> birds = ["birds"] * 3
    >>> by_dataset = drops([0.9, 0.8, 0.7], [0.6, 0.5, 0.4], birds, birds, paired=True)
    >>> [(drop.dataset, round(drop.drop.mean, 3), drop.tasks_a) for drop in by_dataset]
    [('birds', 0.3, 3), (None, 0.3, 3)]
    """
    side_a, side_b = checked(a), checked(b)
    names_a, names_b = np.asarray(datasets_a, str), np.asarray(datasets_b, str)
    if len(names_a) != len(side_a) or len(names_b) != len(side_b):
        raise ValueError("every task needs its dataset")
    if paired and not np.array_equal(names_a, names_b):
        raise ValueError("paired tasks are of the same datasets")
    shared = [name for name in dict.fromkeys(names_a.tolist()) if name in set(names_b.tolist())]
    if not shared:
        raise ValueError("the two testbeds have no dataset in common")

    def drop(name: str | None, names: list[str]) -> Drop:
        values_a, values_b = side_a[np.isin(names_a, names)], side_b[np.isin(names_b, names)]
        interval = _difference(values_a, values_b, level, paired)
        means = float(values_a.mean()), float(values_b.mean())
        return Drop(name, *means, interval, paired, len(values_a), len(values_b))

    return [*(drop(name, [name]) for name in shared), drop(None, shared)]


def dataset_difficulty(
    scores: ArrayLike, datasets: Sequence[str] | NDArray[np.str_], level: float = 0.95
) -> list[DatasetDifficulty]:
    """Measure intrinsic (1 − best mean) and modelling (best − worst mean) difficulty of each dataset.

    The intervals are those of the chosen methods' mean and of their paired difference: they take the choice as
    given and do not cover that the best was picked among M.

    Parameters
    ----------
    scores : array [T, M]
        Shares 0 … 1 of M methods on the same T tasks.
    datasets : sequence [T]
        The dataset of each task.
    level : float
        Coverage, between 0 and 1.

    Returns
    -------
    list of DatasetDifficulty
        In the order in which the datasets come; the first method counts where several are equally good.

    Examples
    --------
    >>> (signs,) = dataset_difficulty([[0.5, 0.9], [0.7, 0.7]], ["signs", "signs"])
    >>> signs.best, signs.worst, round(signs.intrinsic.mean, 3), round(signs.modelling.mean, 3)
    (1, 0, 0.2, 0.2)
    """
    table = np.asarray(scores, np.float64)
    names = np.asarray(datasets, str)
    if table.ndim != 2 or len(names) != len(table) or not np.isfinite(table).all():
        raise ValueError("scores are [tasks, methods], finite, with the dataset of each task")

    rows = {name: table[names == name] for name in dict.fromkeys(names.tolist())}
    return [_difficulty(name, each.mean(axis=0), each.T, level, True) for name, each in rows.items()]


def unpaired_difficulty(
    scores: Sequence[ArrayLike], datasets: Sequence[Sequence[str]], level: float = 0.95
) -> list[DatasetDifficulty]:
    """Measure both difficulties where every method has its own tasks; modelling gets Welch's interval.

    Parameters
    ----------
    scores : M arrays [T_m]
        Shares of each method on its own tasks.
    datasets : M sequences [T_m]
        The dataset of each of them.
    level : float
        Coverage, between 0 and 1.

    Returns
    -------
    list of DatasetDifficulty
        For the datasets of the first method, in the order in which they come; all methods must have them.

    Examples
    --------
    >>> (signs,) = unpaired_difficulty([[0.5, 0.7], [0.9, 0.7, 0.8]], [["signs"] * 2, ["signs"] * 3])
    >>> signs.best, signs.worst, round(signs.intrinsic.mean, 3), round(signs.modelling.mean, 3)
    (1, 0, 0.2, 0.2)
    """
    values = [checked(of_method) for of_method in scores]
    names = [np.asarray(each, str) for each in datasets]
    if [len(each) for each in values] != [len(each) for each in names]:
        raise ValueError("every task needs its dataset")

    def difficulty(name: str) -> DatasetDifficulty:
        parts = [each[where == name] for each, where in zip(values, names, strict=True)]
        if not all(map(len, parts)):
            raise ValueError(f"every method needs tasks of {name!r}")
        return _difficulty(name, np.array([part.mean() for part in parts]), parts, level, False)

    return [difficulty(name) for name in dict.fromkeys(names[0].tolist())]


def _difficulty(
    name: str, means: Floats, parts: Sequence[Floats] | Floats, level: float, paired: bool
) -> DatasetDifficulty:
    """Judge a dataset by the means [M] of M methods and their values on its tasks."""
    best, worst = int(means.argmax()), int(means.argmin())
    decided = _difference(parts[best], parts[worst], level, paired)
    return DatasetDifficulty(name, best, worst, mean_interval(1 - parts[best], level), decided)


def _difference(a: Floats, b: Floats, level: float, paired: bool) -> Interval:
    return mean_interval(a - b, level) if paired else welch(a, b, level)
