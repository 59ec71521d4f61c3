"""Divergences against torch.distributions, SciPy and POT."""

from __future__ import annotations

import numpy as np
import ot
import pytest
import torch
from scipy.linalg import sqrtm
from scipy.stats import entropy
from torch.distributions import Categorical, MultivariateNormal, kl_divergence

from longshot.base import UserError
from longshot.tasks.splits import embeddings as dv


@pytest.fixture
def points() -> np.ndarray:
    z = np.random.default_rng(0).standard_normal((40, 6))
    return z / np.linalg.norm(z, axis=1, keepdims=True)


@pytest.fixture
def centroids() -> tuple[np.ndarray, np.ndarray]:
    mu = np.random.default_rng(1).standard_normal((2, 6))
    return mu[0], mu[1]


def gaussians() -> tuple[dv.Gaussian, dv.Gaussian]:
    rng = np.random.default_rng(2)
    return dv.fit_gaussian(rng.standard_normal((5, 6))), dv.fit_gaussian(rng.standard_normal((30, 6)) + 0.3)


def test_class_probabilities_are_the_softmax_of_squared_distances(points, centroids) -> None:  # type: ignore[no-untyped-def]
    z, mu = torch.from_numpy(points), torch.from_numpy(centroids[0])
    expected = torch.log_softmax(-0.7 * torch.cdist(z, mu[None])[:, 0] ** 2, 0).numpy()
    np.testing.assert_allclose(dv.log_class_probabilities(points, centroids[0], 0.7), expected, atol=1e-12)


def test_categorical_kl_is_that_of_torch_and_scipy(points, centroids) -> None:  # type: ignore[no-untyped-def]
    log_p, log_q = (dv.log_class_probabilities(points, mu) for mu in centroids)
    p, q = (Categorical(logits=torch.from_numpy(log)) for log in (log_p, log_q))
    there, back = float(kl_divergence(p, q)), float(kl_divergence(q, p))
    assert dv.between("kl", points, *centroids) == pytest.approx(there, rel=1e-12)
    assert dv.kl(log_q, log_p) == pytest.approx(float(entropy(np.exp(log_q), np.exp(log_p))), rel=1e-12)
    assert dv.between("kl-symmetric", points, *centroids) == pytest.approx(there + back, rel=1e-12)


def test_euclidean_is_the_distance_of_the_centroids(points, centroids) -> None:  # type: ignore[no-untyped-def]
    expected = float(np.sqrt(((centroids[0] - centroids[1]) ** 2).sum()))
    assert dv.between("euclidean", points, *centroids) == pytest.approx(expected, rel=1e-14)


def test_wasserstein_of_class_distributions_is_that_of_their_moments(points, centroids) -> None:  # type: ignore[no-untyped-def]
    moments = []
    for mu in centroids:
        p = np.exp(dv.log_class_probabilities(points, mu))
        cov = np.cov(points.T, aweights=p, ddof=0) + 0.001 * np.eye(6)
        moments.append((np.average(points, axis=0, weights=p), cov))
    (m, a), (n, b) = moments
    expected = ot.gaussian.bures_wasserstein_distance(m, n, a, b)
    assert dv.between("wasserstein", points, *centroids) == pytest.approx(float(expected), rel=1e-9)


def test_gaussian_kl_is_that_of_torch() -> None:
    a, b = gaussians()
    normal = [MultivariateNormal(torch.from_numpy(g.mean), torch.from_numpy(g.covariance)) for g in (a, b)]
    there, back = float(kl_divergence(*normal)), float(kl_divergence(*normal[::-1]))
    assert dv.gaussian_divergence("kl", a, b) == pytest.approx(there, rel=1e-9)
    assert dv.gaussian_divergence("kl-symmetric", a, b) == pytest.approx(there + back, rel=1e-9)


def test_gaussian_wasserstein_is_that_of_pot_and_of_the_written_out_formula() -> None:
    a, b = gaussians()
    root = sqrtm(a.covariance)
    middle = np.trace(sqrtm(root @ b.covariance @ root)).real
    squared = ((a.mean - b.mean) ** 2).sum() + np.trace(a.covariance + b.covariance) - 2 * middle
    peer = float(ot.gaussian.bures_wasserstein_distance(a.mean, b.mean, a.covariance, b.covariance))
    assert dv.gaussian_divergence("wasserstein", a, b) == pytest.approx(float(np.sqrt(squared)), rel=1e-8)
    assert dv.gaussian_divergence("wasserstein", a, b) == pytest.approx(peer, rel=1e-8)


def test_gaussians_are_fitted_as_numpy_does_with_damping() -> None:
    points = np.random.default_rng(3).standard_normal((9, 4))
    fitted = dv.fit_gaussian(points)
    np.testing.assert_allclose(fitted.covariance, np.cov(points.T) + 0.001 * np.eye(4), atol=1e-14)
    assert dv.gaussian_divergence("euclidean", fitted, dv.Gaussian(points[0], np.eye(4))) == pytest.approx(
        float(np.linalg.norm(points.mean(0) - points[0]))
    )
    np.testing.assert_array_equal(dv.fit_gaussian(points[:1]).covariance, 0.001 * np.eye(4))


def test_an_unknown_divergence_is_refused() -> None:
    with pytest.raises(UserError, match="no divergence 'hellinger'; there are kl-symmetric"):
        dv.check_measure("hellinger")
