"""How hard: the drop from one testbed to another, and what part of a dataset's difficulty a better model can remove."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from longshot.statistics.intervals import Floats, Interval, checked, mean_interval, t_quantile

if TYPE_CHECKING:
    from longshot.testbeds.testbed import Testbed


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
    """Difference of two independent means, ā − b̄, with Welch's interval; ``n`` counts both sides.

    se² = s_a²/n_a + s_b²/n_b; ± t_ν · se, ν = se⁴ / ((s_a²/n_a)²/(n_a − 1) + (s_b²/n_b)²/(n_b − 1)).
    """
    one, other = checked(a), checked(b)
    difference, n = float(one.mean() - other.mean()), len(one) + len(other)
    if min(len(one), len(other)) < 2:
        return Interval(difference, None, None, n, "an interval needs at least 2 tasks on either side")
    left, right = (float(x.var(ddof=1)) / len(x) for x in (one, other))
    if left + right <= 1e-30:
        return Interval(difference, difference, difference, n)
    freedom = (left + right) ** 2 / (left**2 / (len(one) - 1) + right**2 / (len(other) - 1))
    reach = t_quantile(freedom, level) * math.sqrt(left + right)
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
    """The drop of one method's metric from testbed A to testbed B, for each dataset both have, then overall.

    ``a`` [n_a] and ``b`` [n_b] are in task order with the dataset of each task. With ``paired`` (see
    :func:`shared_queries`) task i of A and task i of B ask the same queries, and the interval is that of the mean
    of a_i − b_i; otherwise it is Welch's. Overall weighs every task alike and covers tasks of shared datasets only.
    """
    one, other = checked(a), checked(b)
    names_a, names_b = np.asarray(datasets_a, str), np.asarray(datasets_b, str)
    if len(names_a) != len(one) or len(names_b) != len(other):
        raise ValueError("every task needs its dataset")
    if paired and not np.array_equal(names_a, names_b):
        raise ValueError("paired tasks are of the same datasets")
    shared = [name for name in dict.fromkeys(names_a.tolist()) if name in set(names_b.tolist())]
    if not shared:
        raise ValueError("the two testbeds have no dataset in common")
    wanted: list[tuple[str | None, NDArray[np.bool_], NDArray[np.bool_]]] = [
        (name, names_a == name, names_b == name) for name in shared
    ]
    wanted.append((None, np.isin(names_a, shared), np.isin(names_b, shared)))
    return [_drop(name, one[i], other[j], paired, level) for name, i, j in wanted]


def _drop(name: str | None, a: Floats, b: Floats, paired: bool, level: float) -> Drop:
    found = mean_interval(a - b, level) if paired else welch(a, b, level)
    return Drop(name, float(a.mean()), float(b.mean()), found, paired, len(a), len(b))


def shared_queries(a: Testbed, b: Testbed) -> NDArray[np.bool_]:
    """Which tasks 0 … min(len) − 1 ask the same: same dataset, same classes, same query images (in any order).

    Testbeds drawn with one seed that differ in how the support is chosen share the queries of all tasks; if every
    entry is true and the lengths agree, their results can be compared task by task.
    """
    from longshot.testbeds.columns import dictionary, ragged

    count = min(len(a), len(b))
    fingerprints = {name: [bed.datasets.get(name) for bed in (a, b)] for name in {*a.datasets, *b.datasets}}
    names = [bed.table.column("dataset").to_pylist()[:count] for bed in (a, b)]
    alike = [
        one == other and fingerprints[one][0] == fingerprints[one][1]
        for one, other in zip(*names, strict=True)
    ]
    same = np.array(alike, bool)
    for column in ("classes", "query"):
        rows = [ragged(bed.table, column) for bed in (a, b)]
        # Both sides in one numbering of the strings, then compared as sorted numbers.
        words = [dictionary(bed.table, column).to_pylist() for bed in (a, b)]
        number = {word: place for place, word in enumerate(dict.fromkeys([*words[0], *words[1]]))}
        codes = [np.array([number[word] for word in side], np.int64) for side in words]
        for task in np.flatnonzero(same):
            left, right = (np.sort(code[row.row(int(task))]) for code, row in zip(codes, rows, strict=True))
            same[task] = np.array_equal(left, right)
    return same


def dataset_difficulty(
    scores: ArrayLike, datasets: Sequence[str] | NDArray[np.str_], level: float = 0.95
) -> list[DatasetDifficulty]:
    """Intrinsic (1 − best mean) and modelling (best mean − worst mean) difficulty of each dataset.

    ``scores`` is [T, M], shares in 0 … 1 of M methods on the same T tasks; ``datasets`` [T]. The intervals are
    those of the chosen methods' mean and of their paired difference: given the choice, they do not cover that
    the best was picked among M.
    """
    table = np.asarray(scores, np.float64)
    names = np.asarray(datasets, str)
    if table.ndim != 2 or len(names) != len(table) or not np.isfinite(table).all():
        raise ValueError("scores are [tasks, methods], finite, with the dataset of each task")
    found = []
    for name in dict.fromkeys(names.tolist()):
        rows = table[names == name]
        means = rows.mean(axis=0)
        best, worst = int(means.argmax()), int(means.argmin())
        found.append(
            DatasetDifficulty(
                name,
                best,
                worst,
                mean_interval(1 - rows[:, best], level),
                mean_interval(rows[:, best] - rows[:, worst], level),
            )
        )
    return found
