"""Tasks that occur twice, and how many different tasks there can be."""

from __future__ import annotations

from collections import Counter
from math import comb

import numpy as np
from numpy.typing import NDArray

from longshot.core.tasks import TaskRows
from longshot.testbeds.base import Classes, Instances, Pool, Shape
from longshot.testbeds.classes import SiblingClasses, UniformClasses
from longshot.testbeds.instances import UniformInstances
from longshot.testbeds.shapes import AnyShape, FixedShape
from longshot.testbeds.streams import hash_rows


def repeated(tasks: TaskRows) -> NDArray[np.int64]:
    """Positions of the tasks that equal an earlier one, ascending.

    Two tasks are equal when they have the same support images and the same query images, in whatever order.
    Sets are compared by 64-bit hashes: should two different tasks ever collide, one of them is redrawn, which
    harms nothing.
    """
    marks = hash_rows(tasks.support, 1) * np.uint64(3) + hash_rows(tasks.query, 2)
    _, first = np.unique(marks, return_index=True)
    again = np.ones(len(marks), dtype=bool)
    again[first] = False
    return np.flatnonzero(again)


def count_tasks(shape: Shape, classes: Classes, instances: Instances, pool: Pool, limit: int) -> int | None:
    """How many different tasks there are, counted up to ``limit``; None where there is no formula.

    A class of n images offers f = C(n, q) · C(n − q, k) pairs of query and support; the tasks of a group of
    classes are the coefficients of x^way in ∏(1 + f·x). A class below two super-classes is counted in both,
    so that the number is then an upper bound.
    """
    if (
        pool.restricted
        or not isinstance(instances, UniformInstances)
        or not isinstance(classes, UniformClasses | SiblingClasses)
    ):
        return None
    if isinstance(shape, FixedShape):
        ways, shots = (shape.way, shape.way), range(shape.shot, shape.shot + 1)
    elif isinstance(shape, AnyShape):
        ways = (shape.min_way, shape.max_way)
        shots = range(shape.min_shot, shape.shot_limit(pool) + 1)
    else:
        return None
    groups = classes.groups(shape, pool)
    different = {tuple(sorted(groups.row(i).tolist())) for i in range(len(groups))}
    total = 0
    for members in sorted(different):
        sizes = Counter(pool.sizes[list(members)].tolist())
        for shot in shots:
            total += _count_group(sizes, ways, shot, shape.query, limit)
            if total >= limit:
                return limit
    return total


def _count_group(sizes: Counter[int], ways: tuple[int, int], shot: int, query: int, limit: int) -> int:
    # Numbers are cut at ``limit``: all are non-negative, so what stays below it is exact, and nothing grows
    # huge.
    coefficients = [1] + [0] * ways[1]
    for size, count in sizes.items():
        choices = min(comb(size, query) * comb(size - query, shot), limit)
        for _ in range(count):
            for way in range(ways[1], 0, -1):
                coefficients[way] = min(coefficients[way] + coefficients[way - 1] * choices, limit)
    return min(sum(coefficients[ways[0] :]), limit)
