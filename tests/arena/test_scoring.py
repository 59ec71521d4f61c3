"""Scores against scikit-learn and SciPy."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn import metrics

from longshot.arena.inside.blind_tasks import (
    METRICS,
    TaskScore,
    Truth,
    labels_from,
    score_answers,
    score_task,
    student,
    summarize,
)


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 20), st.integers(1, 20), st.integers(0, 2**31), st.booleans())
def test_metrics_equal_scikit_learn(ways, each, seed, outside):
    rng = np.random.default_rng(seed)
    truth = rng.permutation(np.repeat(np.arange(ways), each))
    predicted = rng.integers(0, ways, len(truth))
    if outside:  # scikit-learn is told the classes there are, and -1 is none of them
        predicted[rng.random(len(truth)) < 0.2] = -1
    scores = score_task(predicted, truth, ways)
    options = {"labels": np.arange(ways), "average": "macro", "zero_division": 0.0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert scores["macro_f1"] == pytest.approx(metrics.f1_score(truth, predicted, **options))
        assert scores["macro_precision"] == pytest.approx(
            metrics.precision_score(truth, predicted, **options)
        )
        assert scores["macro_recall"] == pytest.approx(metrics.recall_score(truth, predicted, **options))
        assert scores["accuracy"] == pytest.approx(metrics.accuracy_score(truth, predicted))
        adjusted = metrics.balanced_accuracy_score(truth, predicted, adjusted=True)
    assert scores["normalized_accuracy"] == pytest.approx(adjusted)


def test_a_label_outside_is_one_mistake():
    truth = np.array([0, 0, 1, 1])
    assert score_task(np.array([0, 0, 1, 7]), truth, 2) == score_task(np.array([0, 0, 1, -1]), truth, 2)
    assert score_task(np.array([0, 0, 1, 7]), truth, 2)["accuracy"] == 0.75


def test_probabilities_and_labels_are_told_apart_when_both_fit():
    assert labels_from(np.array([[0.1, 0.9], [0.8, 0.2]], np.float32), 2, 2).tolist() == [1, 0]
    assert labels_from(np.array([1.0, 0.0], np.float32), 2, 2).tolist() == [1, 0]
    assert labels_from(np.array([1, 0]), 2, 2).tolist() == [1, 0]


@pytest.mark.parametrize(
    "predicted",
    [
        np.zeros((2, 3)),
        np.zeros(3),
        np.array([np.nan, 0.0]),
        np.array([0.5, 0.0]),
        np.full((2, 2), np.inf),
        np.zeros(()),
    ],
)
def test_what_is_no_prediction_is_refused(predicted):
    with pytest.raises(ValueError):
        labels_from(predicted, 2, 2)


def test_intervals_equal_scipy_and_one_task_has_none():
    rng = np.random.default_rng(0)
    values = rng.random(12)
    tasks = [
        TaskScore("a" if i < 11 else "b", 2 + i % 3, 1, 0.5, dict.fromkeys(METRICS, float(value)))
        for i, value in enumerate(values)
    ]
    factors = {n: float(stats.t.ppf(0.975, n - 1)) for n in range(2, 13)}
    summary = summarize(tasks, student(factors))
    low, high = stats.t.interval(0.95, 11, values.mean(), stats.sem(values))
    assert summary["overall"]["accuracy_ci95"] == pytest.approx((high - low) / 2)
    assert summary["by_dataset"]["b"]["accuracy_ci95"] is None
    assert summary["by_ways"]["3"]["tasks"] == 4
    assert summary["seconds"] == pytest.approx(6.0)


def test_metrics_of_a_table_known_by_heart():
    """Recalls 1/2, 1, 1/2; precisions 1, 2/3, 1; one answer outside, which no class claims."""
    scores = score_task(np.array([0, 1, 1, 1, 2, 3]), np.array([0, 0, 1, 1, 2, 2]), 3)
    assert scores == {
        "normalized_accuracy": pytest.approx(0.5),  # (2/3 − 1/3) / (1 − 1/3)
        "accuracy": pytest.approx(4 / 6),
        "macro_f1": pytest.approx((2 / 3 + 4 / 5 + 2 / 3) / 3),
        "macro_precision": pytest.approx(8 / 9),
        "macro_recall": pytest.approx(2 / 3),
    }
    assert list(scores) == list(METRICS)


def test_a_class_that_is_never_predicted_has_precision_and_f1_zero():
    scores = score_task(np.zeros(4, np.int64), np.array([0, 0, 1, 1]), 2)
    assert (scores["macro_precision"], scores["macro_f1"]) == (0.25, pytest.approx(1 / 3))
    assert scores["normalized_accuracy"] == 0.0


def test_labels_far_outside_stay_outside():
    assert labels_from(np.array([-5.0, 7.0, 1.0, 0.0]), 4, 3).tolist() == [-1, 3, 1, 0]
    assert labels_from(np.array([-5, 7, 1, 0]), 4, 3).tolist() == [-5, 7, 1, 0]


def test_reasons_count_what_is_wrong():
    with pytest.raises(ValueError, match=r"^2 of its 6 probabilities are NaN or infinite$"):
        labels_from(np.array([[0.1, np.nan, 0.2], [np.inf, 0.3, 0.4]]), 2, 3)
    with pytest.raises(ValueError, match=r"shape \[4\], \[2\] labels or \[2, 3\] probabilities are needed$"):
        labels_from(np.zeros(4), 2, 3)


def test_two_tasks_have_an_interval_and_groups_are_sorted():
    def task(dataset: str, ways: int, shots: int, score: float) -> TaskScore:
        return TaskScore(dataset, ways, shots, 0.25, dict.fromkeys(METRICS, score))

    tasks = [task("b", 10, 1, 0.0), task("a", 2, 1, 1.0)]
    summary = summarize(tasks, student({2: 10.0}))
    # s = √½ and n = 2: 10 · √½ / √2
    assert summary["overall"] == {
        "tasks": 2,
        **dict.fromkeys(METRICS, 0.5),
        **dict.fromkeys([f"{metric}_ci95" for metric in METRICS], pytest.approx(5.0)),
    }
    assert list(summary["by_dataset"]) == ["a", "b"] and list(summary["by_ways"]) == ["2", "10"]
    assert [group["accuracy"] for group in summary["by_ways"].values()] == [1.0, 0.0]
    assert summary["by_shots"] == {"1": summary["overall"]}
    assert summary["seconds"] == 0.5


def test_answers_are_scored_in_the_order_of_their_tasks():
    truths = [Truth("a", 2, 1, np.array([0, 1])), Truth("b", 2, 3, np.array([1, 0]))]
    answers = [{"predicted": [0, 1], "seconds": 2}, {"predicted": [0, 1], "seconds": 3}]
    first, second = score_answers(truths, answers)
    assert (first.dataset, first.ways, first.shots, first.seconds) == ("a", 2, 1, 2.0)
    assert (second.dataset, second.shots, second.seconds) == ("b", 3, 3.0)
    assert (first.scores["normalized_accuracy"], second.scores["normalized_accuracy"]) == (1.0, -1.0)
    with pytest.raises(ValueError):
        score_answers(truths, answers[:1])
