"""ATG's objective: its value against a plain autograd version, its gradient against autograd and differences."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.optimize import check_grad
from torch.distributions import Categorical, kl_divergence

from benchmarks.splits import published_loss
from longshot.tasks.splits.atg import SplitObjective
from longshot.tasks.splits.embeddings import MEASURES


def sphere(classes: int, dim: int, seed: int = 0) -> np.ndarray:
    z = np.random.default_rng(seed).standard_normal((classes, dim)) + 0.4
    return z / np.linalg.norm(z, axis=1, keepdims=True)


def centroids(dim: int, scale: float = 1.0) -> np.ndarray:
    return scale * np.random.default_rng(5).standard_normal((2, dim))


def test_the_value_is_the_published_formula() -> None:
    z, mu = sphere(30, 7), centroids(7)
    logits = [-((torch.from_numpy(z) - torch.from_numpy(m)) ** 2).sum(1) for m in mu]
    p, q = (Categorical(logits=values) for values in logits)
    divergence = kl_divergence(p, q) + kl_divergence(q, p)
    expected = -torch.log((p.probs + q.probs) / 2).sum() + 1.5 * (divergence - 0.32) ** 2
    assert SplitObjective(z, 0.32, penalty=1.5).value(mu) == pytest.approx(float(expected), rel=1e-12)


@pytest.mark.parametrize("measure", ["kl-symmetric", "kl", "euclidean"])
@pytest.mark.parametrize("scale", [0.1, 1.0, 8.0])
def test_the_gradient_is_that_of_autograd(measure: str, scale: float) -> None:
    objective = SplitObjective(2 * sphere(30, 7), 0.64, measure, penalty=1.3, temperature=0.8)
    mu = torch.tensor(centroids(7, scale), requires_grad=True)
    loss = published_loss(objective, torch.from_numpy(objective.embeddings), mu)
    loss.backward()
    value, gradient = objective.value_and_gradient(centroids(7, scale))
    assert value + objective.bound == pytest.approx(float(loss.detach()), rel=1e-12)
    np.testing.assert_allclose(gradient, mu.grad.numpy(), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize(("classes", "dim"), [(12, 5), (6, 9)])
def test_the_gradient_is_that_of_finite_differences(measure: str, classes: int, dim: int) -> None:
    objective = SplitObjective(sphere(classes, dim), 0.5, measure)

    def value(flat: np.ndarray) -> float:
        return objective.value_and_gradient(flat.reshape(2, -1))[0]

    def gradient(flat: np.ndarray) -> np.ndarray:
        return objective.value_and_gradient(flat.reshape(2, -1))[1].reshape(-1)

    start = centroids(dim).reshape(-1)
    assert check_grad(value, gradient, start) < 2e-6 * max(1.0, float(np.linalg.norm(gradient(start))))


def test_moved_coordinates_are_the_same_function() -> None:
    objective, start, basis = (
        SplitObjective(sphere(20, 6), 0.3),
        centroids(6),
        np.random.default_rng(9).random((6, 4)),
    )
    w = np.random.default_rng(1).standard_normal((2, 4))
    value, gradient = objective.value_and_gradient(start + w @ basis.T)
    there, slope = objective.moved(start, basis).value_and_gradient(w)
    assert there == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(slope, gradient @ basis, atol=1e-12)


def test_the_clustering_term_has_its_bound_at_the_uniform_mixture() -> None:
    objective = SplitObjective(sphere(25, 6), 0.0)
    terms = objective.evaluate(np.zeros((2, 6)))
    assert terms.excess == pytest.approx(0, abs=1e-12)
    assert objective.bound == pytest.approx(25 * math.log(25))
    assert objective.evaluate(centroids(6)).excess > 0


def test_far_centroids_stay_finite() -> None:
    value, gradient = SplitObjective(sphere(10, 4), 0.5).value_and_gradient(centroids(4, 1e4))
    assert math.isfinite(value)
    assert np.isfinite(gradient).all()
