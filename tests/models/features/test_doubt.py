"""Doubted labels: the odds against a plain discriminant, and planted errors."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

from longshot.models.features import suspects
from longshot.models.features.suspects import label_doubt


def clusters(
    classes: int, images: int, dim: int, seed: int = 0
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Class-major vectors around one centre per class, and offsets."""
    generator = np.random.default_rng(seed)
    centres = np.repeat(generator.normal(0, 1, (classes, dim)), images, axis=0)
    values = (centres + generator.normal(0, 0.8, centres.shape)).astype(np.float32)
    return values, np.arange(0, classes * images + 1, images)


def with_wrong_labels(
    values: NDArray[np.float32], offsets: NDArray[np.int64], share: float
) -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.bool_]]:
    """The vectors under new labels, class-major again, and which are wrong."""
    generator = np.random.default_rng(1)
    classes = len(offsets) - 1
    labels = np.repeat(np.arange(classes), np.diff(offsets))
    wrong = generator.random(len(labels)) < share
    changed = np.where(wrong, (labels + generator.integers(1, classes, len(labels))) % classes, labels)
    order = np.argsort(changed, kind="stable")
    counts = np.bincount(changed, minlength=classes)
    return values[order], np.concatenate([[0], np.cumsum(counts)]), wrong[order]


def test_odds_are_those_of_a_plain_discriminant() -> None:
    values, offsets = clusters(4, 12, 6)
    unit = values.astype(np.float64) / np.linalg.norm(values, axis=1, keepdims=True)
    labels = np.repeat(np.arange(4), 12)
    fold = suspects._deal(offsets, 3)
    scores = np.empty((48, 4))
    for number in range(3):
        seen = fold != number
        means = np.stack([unit[seen & (labels == c)].mean(0) for c in range(4)])
        residuals = unit[seen] - means[labels[seen]]
        covariance = residuals.T @ residuals / (seen.sum() - 4)
        covariance = 0.7 * covariance + 0.3 * np.trace(covariance) / 6 * np.eye(6)
        inverse = np.linalg.inv(covariance)
        scores[~seen] = unit[~seen] @ inverse @ means.T - 0.5 * np.einsum(
            "cd,de,ce->c", means, inverse, means
        )
    own = scores[np.arange(48), labels]

    def loss(log_scale: float) -> float:
        return float(logsumexp(np.exp(log_scale) * (scores - own[:, None]), axis=1).mean())

    best = np.exp(minimize_scalar(loss, bounds=(-9, 4.6), method="bounded").x)
    result = label_doubt(values, offsets, folds=3)
    scores[np.arange(48), labels] = -np.inf
    assert result.rival.tolist() == scores.argmax(1).tolist()
    # the scale is the nearest of a grid of steps of 26 %
    scale = np.log(result.odds) / (scores.max(1) - own)
    np.testing.assert_allclose(scale, scale[0], rtol=1e-3)
    assert best / 1.26 < scale[0] < best * 1.26


def test_planted_errors_are_found_and_little_else() -> None:
    values, offsets, wrong = with_wrong_labels(*clusters(20, 40, 32), share=0.05)
    suspected = label_doubt(values, offsets).odds >= 100
    assert suspected[wrong].mean() > 0.8
    assert wrong[suspected].mean() > 0.9


def test_long_features_are_judged_by_a_projection() -> None:
    values, offsets, wrong = with_wrong_labels(*clusters(10, 30, 700), share=0.05)
    suspected = label_doubt(values, offsets).odds >= 100
    assert (suspected == wrong).mean() > 0.97


def test_an_image_that_is_alone_in_its_class_is_not_judged() -> None:
    values, _ = clusters(3, 5, 4)
    result = label_doubt(values[:11], np.array([0, 5, 10, 11]))
    assert (result.rival[10], result.odds[10]) == (-1, 0)
    assert (result.rival[:10] >= 0).all()


def test_one_class_says_nothing() -> None:
    values, _ = clusters(1, 5, 4)
    assert label_doubt(values, np.array([0, 5])).odds.tolist() == [0] * 5
