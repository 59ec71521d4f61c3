"""Small synthetic features and tasks of unequal ways, shots and queries."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from longshot.base import TaskRows
from longshot.tasks import query_tasks


@dataclass
class Case:
    array: np.ndarray
    offsets: np.ndarray
    tasks: TaskRows
    support: np.ndarray  # a random one, disjoint from the queries


def make_case(
    sizes: list[int], dim: int, count: int, *, ways: tuple[int, int], shots: tuple[int, int], seed: int = 0
) -> Case:
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    centres = rng.normal(size=(len(sizes), dim))
    array = np.repeat(centres, sizes, 0) * 0.6 + rng.normal(size=(offsets[-1], dim))
    classes, counts, queries, support = [], [], [], []
    for _ in range(count):
        chosen = rng.choice(len(sizes), rng.integers(ways[0], ways[1] + 1), replace=False)
        classes.append(chosen.tolist())
        counts.append([int(rng.integers(shots[0], shots[1] + 1)) for _ in chosen])
        own = []
        for c, k in zip(chosen, counts[-1], strict=True):
            rows = rng.permutation(np.arange(offsets[c], offsets[c + 1]))
            count_query = int(rng.integers(2, 5))
            own.append(rows[:count_query].tolist())
            support += rows[count_query : count_query + k].tolist()
        queries.append(own)
    return Case(array, offsets, query_tasks(classes, counts, queries), np.array(support))


@pytest.fixture(scope="session")
def case() -> Case:
    """12 tasks of 2 to 6 ways and 1 to 5 shots over 9 classes of 14 to 40 images, 16-d."""
    return make_case([14, 20, 25, 31, 40, 18, 22, 27, 33], 16, 12, ways=(2, 6), shots=(1, 5))
