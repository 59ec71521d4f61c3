"""Scores against scikit-learn and SciPy."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn import metrics

from longshot.competition.inside.scoring import (
    METRICS,
    TaskScore,
    labels_from,
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
    found = score_task(predicted, truth, ways)
    kept = {"labels": np.arange(ways), "average": "macro", "zero_division": 0.0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert found["macro_f1"] == pytest.approx(metrics.f1_score(truth, predicted, **kept))
        assert found["macro_precision"] == pytest.approx(metrics.precision_score(truth, predicted, **kept))
        assert found["macro_recall"] == pytest.approx(metrics.recall_score(truth, predicted, **kept))
        assert found["accuracy"] == pytest.approx(metrics.accuracy_score(truth, predicted))
        adjusted = metrics.balanced_accuracy_score(truth, predicted, adjusted=True)
    assert found["normalized_accuracy"] == pytest.approx(adjusted)


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
    found = summarize(tasks, student(factors))
    low, high = stats.t.interval(0.95, 11, values.mean(), stats.sem(values))
    assert found["overall"]["accuracy_ci95"] == pytest.approx((high - low) / 2)
    assert found["by_dataset"]["b"]["accuracy_ci95"] is None
    assert found["by_ways"]["3"]["tasks"] == 4
    assert found["seconds"] == pytest.approx(6.0)
