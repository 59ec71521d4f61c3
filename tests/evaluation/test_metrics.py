"""Metrics against scikit-learn, task by task."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn import metrics as sk

from longshot.evaluation.compute import Metrics, task_metrics
from longshot.evaluation.metrics.base import WORST_LOSS


def softmax(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    powers = np.exp(scores - scores.max(1, keepdims=True))
    return np.asarray(powers / powers.sum(1, keepdims=True))


def padded(
    tasks: list[tuple[NDArray[np.float64], NDArray[np.int64]]],
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    ways = [scores.shape[1] for scores, _ in tasks]
    queries = max(len(labels) for _, labels in tasks)
    scores = torch.full((len(tasks), queries, max(ways)), float("-inf"))
    labels = torch.full((len(tasks), queries), -1)
    for t, (s, y) in enumerate(tasks):
        scores[t, :, : ways[t]] = float("nan")  # padded rows may hold anything
        scores[t, : len(y), : ways[t]] = torch.from_numpy(s).float()
        labels[t, : len(y)] = torch.from_numpy(y)
    return scores, labels, torch.tensor(ways)


def make(count: int = 40) -> list[tuple[NDArray[np.float64], NDArray[np.int64]]]:
    rng = np.random.default_rng(0)
    tasks = []
    for _ in range(count):
        way, queries = int(rng.integers(2, 13)), int(rng.integers(1, 60))
        labels = rng.integers(0, way, queries)  # some classes may have no query
        scores = rng.standard_normal((queries, way)) + 2.0 * np.eye(way)[labels]
        tasks.append((scores.astype(np.float32).astype(np.float64), labels))
    return tasks


@pytest.fixture(scope="module")
def tasks() -> list[tuple[NDArray[np.float64], NDArray[np.int64]]]:
    return make()


def test_accuracy(tasks: list[tuple[NDArray[np.float64], NDArray[np.int64]]]) -> None:
    expected = [sk.accuracy_score(y, s.argmax(1)) for s, y in tasks]
    assert task_metrics(*padded(tasks))["accuracy"].tolist() == pytest.approx(expected, abs=1e-12)


@pytest.mark.filterwarnings("ignore:y_pred contains classes", "ignore:A single label was found")
def test_balanced_accuracy(tasks: list[tuple[NDArray[np.float64], NDArray[np.int64]]]) -> None:
    expected = [sk.balanced_accuracy_score(y, s.argmax(1)) for s, y in tasks]
    assert task_metrics(*padded(tasks))["balanced_accuracy"].tolist() == pytest.approx(expected, abs=1e-12)


def test_normalized_accuracy(tasks: list[tuple[NDArray[np.float64], NDArray[np.int64]]]) -> None:
    metrics = task_metrics(*padded(tasks))
    expected = [
        (b - 1 / s.shape[1]) / (1 - 1 / s.shape[1])
        for b, (s, _) in zip(metrics["balanced_accuracy"], tasks, strict=True)
    ]
    assert metrics["normalized_accuracy"].tolist() == pytest.approx([float(e) for e in expected], abs=1e-12)


def test_top5(tasks: list[tuple[NDArray[np.float64], NDArray[np.int64]]]) -> None:
    expected = [
        1.0 if s.shape[1] <= 5 else sk.top_k_accuracy_score(y, s, k=5, labels=np.arange(s.shape[1]))
        for s, y in tasks
    ]
    assert task_metrics(*padded(tasks))["top5"].tolist() == pytest.approx(expected, abs=1e-12)


def test_loss(tasks: list[tuple[NDArray[np.float64], NDArray[np.int64]]]) -> None:
    expected = [sk.log_loss(y, softmax(s), labels=np.arange(s.shape[1])) for s, y in tasks]
    assert task_metrics(*padded(tasks))["loss"].tolist() == pytest.approx(expected, rel=1e-5)


def test_predictions_are_minus_one_at_padding(
    tasks: list[tuple[NDArray[np.float64], NDArray[np.int64]]],
) -> None:
    predictions = task_metrics(*padded(tasks)).prediction
    for row, (s, y) in zip(predictions.tolist(), tasks, strict=True):
        assert row == [*s.argmax(1).tolist(), *[-1] * (len(row) - len(y))]


def test_a_class_that_was_ruled_out_costs_a_finite_loss() -> None:
    scores = torch.tensor([[[0.0, float("-inf")]]])
    assert task_metrics(scores, torch.tensor([[1]]), torch.tensor([2]))["loss"].item() == WORST_LOSS


def test_one_class_is_always_right_and_no_better_than_chance() -> None:
    metrics = task_metrics(torch.zeros(1, 3, 1), torch.zeros(1, 3, dtype=torch.int64), torch.tensor([1]))
    assert (metrics["accuracy"].item(), metrics["normalized_accuracy"].item()) == (1.0, 0.0)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_invalid_scores_are_noticed_outside_padding_only(value: float) -> None:
    scores = torch.zeros(2, 2, 3)
    scores[0, 1, 2] = scores[1, 1, 2] = value
    labels = torch.tensor([[0, 1], [0, -1]])
    assert task_metrics(scores, labels, torch.tensor([3, 3])).invalid.tolist() == [True, False]


def one_task(scores: list[list[float]], labels: list[int], ways: int) -> Metrics:
    return task_metrics(torch.tensor([scores]), torch.tensor([labels]), torch.tensor([ways]))


def test_by_hand() -> None:
    """Four queries of three classes: two of class 0 (one right), one of class 1 (right), one of class 2 (wrong)."""
    right, wrong = [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]
    metrics = one_task([right, wrong, wrong, right], [0, 0, 1, 2], 3)
    assert metrics["accuracy"].item() == 0.5
    assert metrics["balanced_accuracy"].item() == 0.5  # (1/2 + 1 + 0) / 3
    assert metrics["normalized_accuracy"].item() == pytest.approx(0.25, abs=1e-15)  # (1/2 − 1/3) / (2/3)
    assert metrics["top5"].item() == 1.0
    nats = math.log(math.e + 2)
    assert metrics["loss"].item() == pytest.approx((2 * (nats - 1) + 2 * nats) / 4, rel=1e-6)
    assert metrics.prediction.tolist() == [[0, 1, 1, 0]]


def test_a_class_without_queries_does_not_count() -> None:
    metrics = one_task([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]], [0, 1], 3)
    assert metrics["balanced_accuracy"].item() == 0.5


def test_ties_go_to_the_first_class() -> None:
    metrics = one_task([[0.0, 0.0]] * 2, [0, 1], 2)
    assert metrics.prediction.tolist() == [[0, 0]] and metrics["accuracy"].item() == 0.5


@pytest.mark.parametrize(("label", "share"), [(4, 1.0), (5, 0.0)])
def test_the_fifth_score_counts_and_the_sixth_does_not(label: int, share: float) -> None:
    assert one_task([[5.0, 4.0, 3.0, 2.0, 1.0, 0.0]], [label], 6)["top5"].item() == share
    assert (
        one_task([[0.0] * 6], [label], 6)["top5"].item() == share
    )  # among equals the first classes come first


def test_five_ways_beside_six_are_always_among_the_five() -> None:
    scores = torch.tensor([[[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]], [[0.0, 1.0, 2.0, 3.0, 4.0, 9.0]]])
    metrics = task_metrics(scores, torch.zeros(2, 1, dtype=torch.int64), torch.tensor([6, 5]))
    assert metrics["top5"].tolist() == [0.0, 1.0]


def test_two_ways_at_chance_are_zero() -> None:
    assert one_task([[1.0, 0.0], [1.0, 0.0]], [0, 1], 2)["normalized_accuracy"].item() == 0.0
    assert one_task([[1.0, 0.0], [1.0, 0.0]], [1, 1], 2)["normalized_accuracy"].item() == -1.0


def test_the_worst_loss_is_a_hundred_nats() -> None:
    assert WORST_LOSS == 100
    assert one_task([[99.0, 0.0]], [1], 2)["loss"].item() == pytest.approx(99.0)
    assert one_task([[101.0, 0.0]], [1], 2)["loss"].item() == 100.0
