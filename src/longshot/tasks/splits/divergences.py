"""How far two class distributions are apart: between categoricals over classes, and between Gaussians.

ATG's class distribution of a centroid μ over embeddings z [C, d] is p(c) = softmax_c(−T‖z_c − μ‖²). Measures:

    kl             KL(p‖q) = Σ p (log p − log q)
    kl-symmetric   KL(p‖q) + KL(q‖p)
    euclidean      ‖μ_p − μ_q‖
    wasserstein    W₂ between the Gaussians that have the mean and the covariance of z under p and under q

For the paper's correlation study the same four are taken between Gaussians fitted to two sets of embeddings.
Covariances are damped by 0.001 on the diagonal, as in the paper.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular, svdvals
from scipy.special import logsumexp

from longshot.base import Floats, Ints, UserError

MEASURES = ("kl-symmetric", "kl", "wasserstein", "euclidean")
DAMPING = 0.001


def check_measure(measure: str) -> str:
    """The measure's name, or an error that names those there are."""
    if measure not in MEASURES:
        raise UserError(f"There is no divergence '{measure}'; there are {', '.join(MEASURES)}.")
    return measure


# ---- categoricals over classes ----------------------------------------------------------------------


def log_class_probabilities(embeddings: Floats, centroid: Floats, temperature: float = 1.0) -> Floats:
    """log p [C] of embeddings [C, d] and a centroid [d]: log softmax_c(−T‖z_c − μ‖²).

    ‖μ‖² is the same for every class and drops out of the softmax.
    """
    logits = temperature * (2 * embeddings @ centroid - np.einsum("cd,cd->c", embeddings, embeddings))
    return np.asarray(logits - logsumexp(logits))


def kl(log_p: Floats, log_q: Floats) -> float:
    """KL(p‖q) = Σ p (log p − log q) of two log-distributions [C]."""
    return float(np.exp(log_p) @ (log_p - log_q))


def symmetric_kl(log_p: Floats, log_q: Floats) -> float:
    """KL(p‖q) + KL(q‖p) = Σ (p − q)(log p − log q)."""
    return float((np.exp(log_p) - np.exp(log_q)) @ (log_p - log_q))


def between(
    measure: str, embeddings: Floats, train_centroid: Floats, test_centroid: Floats, temperature: float = 1.0
) -> float:
    """The divergence ``measure`` of the class distributions of two centroids [d] over embeddings [C, d]."""
    centroids = np.stack([train_centroid, test_centroid])
    logs = (log_class_probabilities(embeddings, centroid, temperature) for centroid in centroids)
    return divergence(check_measure(measure), embeddings, centroids, *logs)


def divergence(measure: str, embeddings: Floats, centroids: Floats, log_p: Floats, log_q: Floats) -> float:
    """``between`` where the log-distributions [C] of the two centroids [2, d] are known."""
    if measure == "euclidean":
        return float(np.linalg.norm(centroids[0] - centroids[1]))
    if measure == "wasserstein":
        return wasserstein(weighted_gaussian(embeddings, log_p), weighted_gaussian(embeddings, log_q))
    return kl(log_p, log_q) if measure == "kl" else symmetric_kl(log_p, log_q)


def gap(embeddings: Floats, train: Ints, test: Ints) -> float:
    """‖mean of the train classes − mean of the test classes‖ in embedding space."""
    return float(np.linalg.norm(embeddings[train].mean(0) - embeddings[test].mean(0)))


# ---- Gaussians --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Gaussian:
    """A mean [d] and a covariance [d, d] that is positive definite."""

    mean: Floats
    covariance: Floats


def fit_gaussian(points: Floats, damping: float = DAMPING) -> Gaussian:
    """Mean and unbiased covariance of points [n, d], plus ``damping`` on the diagonal; n = 1 has only that."""
    if len(points) == 0:
        raise UserError("A Gaussian needs at least one embedding to be fitted to; none was given.")
    centred = points - points.mean(0)
    covariance = centred.T @ centred / max(1, len(points) - 1)
    return Gaussian(points.mean(0), covariance + damping * np.eye(points.shape[1]))


def weighted_gaussian(points: Floats, log_weights: Floats) -> Gaussian:
    """Mean and covariance of points [C, d] under weights [C] that sum to 1, damped."""
    weights = np.exp(log_weights)
    mean = weights @ points
    centred = points - mean
    return Gaussian(mean, (centred * weights[:, None]).T @ centred + DAMPING * np.eye(points.shape[1]))


def gaussian_kl(a: Gaussian, b: Gaussian) -> float:
    """½ [tr(B⁻¹A) + (m_b − m_a)ᵀ B⁻¹ (m_b − m_a) − d + ln|B| − ln|A|]."""
    lower_a, lower_b = np.linalg.cholesky(a.covariance), np.linalg.cholesky(b.covariance)
    spread = solve_triangular(lower_b, lower_a, lower=True)
    shift = solve_triangular(lower_b, b.mean - a.mean, lower=True)
    logs = 2 * float(np.log(np.diag(lower_b)).sum() - np.log(np.diag(lower_a)).sum())
    return 0.5 * (float((spread**2).sum() + (shift**2).sum()) - len(a.mean) + logs)


def wasserstein(a: Gaussian, b: Gaussian) -> float:
    """W₂ = √(‖m_a − m_b‖² + tr A + tr B − 2 tr (A^½ B A^½)^½).

    The last trace is the sum of the singular values of L_aᵀ L_b for any A = L_a L_aᵀ, B = L_b L_bᵀ.
    """
    lower_a, lower_b = np.linalg.cholesky(a.covariance), np.linalg.cholesky(b.covariance)
    common = float(svdvals(lower_a.T @ lower_b).sum())
    shift = float(((a.mean - b.mean) ** 2).sum())
    squared = shift + float(np.trace(a.covariance) + np.trace(b.covariance)) - 2 * common
    return float(np.sqrt(max(squared, 0.0)))


def gaussian_divergence(measure: str, a: Gaussian, b: Gaussian) -> float:
    """The divergence ``measure`` from Gaussian ``a`` to Gaussian ``b``; euclidean compares the means."""
    if check_measure(measure) == "euclidean":
        return float(np.linalg.norm(a.mean - b.mean))
    if measure == "wasserstein":
        return wasserstein(a, b)
    return gaussian_kl(a, b) + (gaussian_kl(b, a) if measure == "kl-symmetric" else 0.0)
