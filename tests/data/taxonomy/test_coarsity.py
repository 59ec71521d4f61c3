from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from longshot.base import Ragged
from longshot.data import coarsity
from longshot.data.taxonomy import distances as module


def _distances(size: int) -> np.ndarray:
    matrix = np.random.default_rng(3).random((size, size)) * 10
    matrix = matrix + matrix.T
    np.fill_diagonal(matrix, 0)
    return matrix


def _naive(distances: np.ndarray, classes: np.ndarray) -> float:
    return float(np.mean([distances[a, b] ** 2 for a, b in combinations(classes, 2)]))


def test_mean_of_squared_distances_over_unordered_pairs() -> None:
    distances = _distances(30)
    tasks = np.array([np.random.default_rng(i).permutation(30)[:5] for i in range(50)])
    np.testing.assert_allclose(coarsity(distances, tasks), [_naive(distances, task) for task in tasks])


def test_tasks_of_different_ways() -> None:
    distances = _distances(30)
    rows = [np.random.default_rng(i).permutation(30)[: 2 + i % 7] for i in range(40)]
    measured = coarsity(distances, Ragged.from_lists(rows))
    np.testing.assert_allclose(measured, [_naive(distances, row) for row in rows])


def test_a_task_of_one_class_has_no_coarsity() -> None:
    measured = coarsity(_distances(4), Ragged.from_lists([[1], [0, 2]]))
    assert np.isnan(measured).tolist() == [True, False]


def test_no_task_gives_no_value() -> None:
    assert coarsity(_distances(4), np.empty((0, 5), np.int64)).shape == (0,)


def test_a_task_does_not_depend_on_its_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    distances = _distances(30)
    tasks = np.array([np.random.default_rng(i).permutation(30)[:9] for i in range(50)])
    at_once = coarsity(distances, tasks)
    monkeypatch.setattr(module, "_BLOCK", 100)
    np.testing.assert_array_equal(coarsity(distances, tasks), at_once)


def test_all_pairs_of_tiered_imagenet_as_one_task(wordnet, tiered) -> None:  # type: ignore[no-untyped-def]
    from longshot.data import class_distances

    distances = class_distances(wordnet, *tiered, reduction="shortest-paths")
    assert coarsity(distances, np.arange(160)[None])[0] == pytest.approx(83.125, abs=5e-4)


def test_the_value_of_a_task_does_not_depend_on_its_neighbours() -> None:
    rng = np.random.default_rng(0)
    distances = rng.random((30, 30))
    classes = np.argsort(rng.random((50, 30)), axis=1)[:, :9]
    alone = [coarsity(distances, classes[i : i + 1])[0] for i in range(50)]
    assert coarsity(distances, classes).tolist() == alone
