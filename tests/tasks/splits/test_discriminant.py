"""The linear map that learns from classes, against scikit-learn's discriminant analysis."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from longshot.tasks.splits.proxy import discriminant_map


def _world(classes: int, images: int, dim: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows of classes that differ from each other, with a within-class covariance that is no sphere."""
    rng = np.random.default_rng(seed)
    mixing = rng.standard_normal((dim, dim))
    labels = np.repeat(np.arange(classes), images)
    rows = 2 * rng.standard_normal((classes, dim))[labels] + rng.standard_normal((len(labels), dim)) @ mixing
    return rows, labels


def _moments(rows: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    means = np.stack([rows[labels == c].mean(0) for c in np.unique(labels)])
    inner = rows - means[labels]
    return means, inner.T @ inner / len(inner)


@pytest.mark.parametrize(("classes", "dim"), [(5, 12), (20, 6)])
def test_distances_are_those_of_scikit_learns_discriminants(classes: int, dim: int) -> None:
    """Fewer and more classes than dimensions; without shrinkage scikit-learn keeps the same C − 1 directions."""
    rows, labels = _world(classes, 30, dim)
    ours = rows @ discriminant_map(*_moments(rows, labels), shrinkage=0)
    peer = LinearDiscriminantAnalysis(solver="svd").fit(rows, labels)
    theirs = peer.transform(rows)[:, : min(classes - 1, dim)]
    assert ours.shape == theirs.shape
    np.testing.assert_allclose(cdist(ours, ours), cdist(theirs, theirs), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("shrinkage", [0.1, 0.5, 0.9])
def test_nearest_means_are_scikit_learns_answers_with_shrinkage(shrinkage: float) -> None:
    rows, labels = _world(8, 25, 10, seed=1)
    fresh, _ = _world(8, 25, 10, seed=2)
    means, within = _moments(rows, labels)
    learnt = discriminant_map(means, within, shrinkage)
    nearest = cdist(fresh @ learnt, means @ learnt).argmin(1)
    # it shrinks each class's covariance and takes their mean: with equal priors that is the mean one, shrunk
    peer = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=shrinkage, priors=np.full(8, 1 / 8))
    np.testing.assert_array_equal(nearest, peer.fit(rows, labels).predict(fresh))


def test_directions_in_which_classes_do_not_differ_are_dropped() -> None:
    means = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [2.0, 0.0, 0.0]])
    learnt = discriminant_map(means, np.diag([1.0, 4.0, 9.0]), shrinkage=0)
    np.testing.assert_allclose(np.abs(learnt), [[1.0], [0.0], [0.0]], atol=1e-12)


def test_full_shrinkage_is_a_sphere_of_the_same_trace() -> None:
    means = np.array([[0.0, 0.0], [3.0, 4.0]])
    learnt = discriminant_map(means, np.diag([1.0, 3.0]), shrinkage=1)
    np.testing.assert_allclose(np.abs(learnt[:, 0]), np.array([0.6, 0.8]) / np.sqrt(2.0))
