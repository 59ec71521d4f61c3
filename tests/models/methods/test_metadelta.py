"""MetaDelta++'s decoder against NumPy with a linear programme, written out task by task, and what it promises."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.optimize import linprog

from longshot.base import TaskBatch
from longshot.models import get_method
from longshot.models.methods.transport import exact_transport

Floats = NDArray[np.float64]


def programme(cost: Floats) -> Floats:
    """The cheapest plan [Q, W], uniform over queries and classes, whose rows sum to 1."""
    queries, way = cost.shape
    rows = [np.kron(np.eye(queries)[q], np.ones(way)) for q in range(queries)]
    columns = [np.kron(np.ones(queries), np.eye(way)[w]) for w in range(way)]
    sums = [1 / queries] * queries + [1 / way] * way
    solved = linprog(cost.ravel(), A_eq=np.array(rows + columns), b_eq=sums)
    return np.asarray(solved.x).reshape(queries, way) * queries


def decoded(support: Floats, labels: NDArray[np.int64], query: Floats, way: int, rounds: int) -> Floats:
    """[Q, W] shares by the words of the specification."""

    def whiten(rows: Floats) -> Floats:
        centred = rows - rows.mean(axis=0)
        return np.asarray(centred / np.sqrt((centred**2).sum(axis=1, keepdims=True)))

    def share(means: Floats) -> Floats:
        lengths = np.outer(np.linalg.norm(query, axis=1), np.linalg.norm(means, axis=1))
        return programme(1 - query @ means.T / lengths)

    support, query = whiten(support), whiten(query)
    means = np.stack([support[labels == w].mean(axis=0) for w in range(way)])
    plan = share(means)
    for _ in range(rounds):
        for w in range(way):
            total = support[labels == w].sum(axis=0) + (plan[:, w : w + 1] * query).sum(axis=0)
            means[w] += 0.2 * (total / ((labels == w).sum() + plan[:, w].sum()) - means[w])
        plan = share(means)
    return plan


def batch(support: Floats, labels: NDArray[np.int64], query: Floats, way: int) -> TaskBatch:
    return TaskBatch(
        support=torch.tensor(support, dtype=torch.float32)[None],
        support_label=torch.tensor(labels)[None],
        query=torch.tensor(query, dtype=torch.float32)[None],
        query_mask=torch.ones(1, len(query), dtype=torch.bool),
        ways=torch.tensor([way]),
        way=way,
        seeds=torch.zeros(1, dtype=torch.int64),
        blocks=(support.shape[1],),
    )


@pytest.mark.parametrize(
    ("way", "shots", "queries"),
    [(5, [1] * 5, [4] * 5), (3, [1, 4, 2], [9, 2, 4]), (4, [2] * 4, [3, 1, 2, 4])],
)
def test_scores_are_those_of_numpy(way: int, shots: list[int], queries: list[int]) -> None:
    """Equal shots, unequal ones, and ten queries for four classes, where some are shared."""
    rng = np.random.default_rng(len(shots) + 7)
    centres = rng.normal(size=(way, 8)) * 0.8 + 2
    labels = np.repeat(np.arange(way), shots)
    support = centres[labels] + 1.5 * rng.normal(size=(len(labels), 8))
    truth = np.repeat(np.arange(way), queries)
    query = centres[truth] + 1.5 * rng.normal(size=(len(truth), 8))
    scores = get_method("metadelta").scores(batch(support, labels, query, way))[0]  # type: ignore[union-attr,arg-type]
    expected = decoded(support, labels, query, way, rounds=20)
    np.testing.assert_allclose(scores.exp().numpy(), np.clip(expected, 1e-6, 1), atol=1e-5)


def test_rounds_correct_a_single_shot() -> None:
    """Over 20 one-shot tasks the queries say better where their classes lie than the shot does."""
    rng, truth = np.random.default_rng(0), np.repeat(np.arange(5), 8)
    right = {"metadelta(rounds=0)": 0, "metadelta": 0}
    for _ in range(20):
        centres = rng.normal(size=(5, 16))
        support, query = (
            centres[labels] + rng.normal(size=(len(labels), 16)) for labels in (np.arange(5), truth)
        )
        for call in right:
            scores = get_method(call).scores(batch(support, np.arange(5), query, 5))[0]  # type: ignore[union-attr,arg-type]
            right[call] += int((scores.argmax(1).numpy() == truth).sum())
    assert right["metadelta"] > right["metadelta(rounds=0)"] + 30  # of 800


@pytest.mark.parametrize(("way", "queries"), [(5, 20), (5, 18), (7, 3)])
def test_a_plan_is_that_of_pot(way: int, queries: int) -> None:
    ot = pytest.importorskip("ot", reason="needs POT: pip install POT")
    cost = np.random.default_rng(way).random((way, queries))
    expected = ot.emd(np.full(way, 1 / way), np.full(queries, 1 / queries), cost) * queries
    np.testing.assert_allclose(exact_transport(cost), expected, atol=1e-9)


def test_a_large_assignment_is_solved_as_a_programme(monkeypatch: pytest.MonkeyPatch) -> None:
    cost = np.random.default_rng(0).random((3, 12))
    assigned = exact_transport(cost)
    monkeypatch.setattr("longshot.models.methods.transport._SQUARE", 100)
    np.testing.assert_allclose(exact_transport(cost), assigned, atol=1e-9)


def test_queries_are_taken_to_be_balanced() -> None:
    """Six queries beside the first class and none beside the second: half of them are given to the second."""
    support = np.array([[1.0, 0.0], [0.0, 1.0]])
    query = np.array([[1.0, 0.1 * number] for number in range(6)])
    scores = get_method("metadelta").scores(batch(support, np.arange(2), query, 2))[0]  # type: ignore[union-attr,arg-type]
    assert scores.argmax(1).tolist() == [0, 0, 0, 1, 1, 1]
