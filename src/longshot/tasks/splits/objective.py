"""ATG's penalised clustering objective and its gradient in closed form.

    p(c) = softmax_c(−T‖z_c − μ_train‖²),  q(c) = softmax_c(−T‖z_c − μ_test‖²)
    J(μ_train, μ_test) = −Σ_c log ½(p(c) + q(c)) + λ (D − R)²

The first sum is never below M ln M for M classes (the mixture is then uniform), so the code works with the
excess over that bound: J is about 7,000 at 1,000 classes, what an optimiser gains there is 0.001.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import eigh, solve_triangular

from longshot.base import Floats
from longshot.tasks.splits import divergences as dv


@dataclass(frozen=True)
class Terms:
    """The objective at one place: ``excess`` is the clustering term above M ln M, ``log_p``/``log_q`` are [M]."""

    excess: float
    divergence: float
    penalised: float  # excess + λ (D − R)²
    log_p: Floats
    log_q: Floats

    @property
    def scores(self) -> Floats:
        """log p_train − log p_test [M]: what classes are sorted by."""
        return self.log_p - self.log_q


@dataclass(frozen=True, eq=False)
class SplitObjective:
    """J over centroids [2, d] (train, test) for embeddings [M, d]; see the module for the formula."""

    embeddings: Floats
    target: float
    measure: str = "kl-symmetric"
    penalty: float = 1.0
    temperature: float = 1.0
    origin: Floats | None = None  # logits [2, M] to which those of the centroids are added

    def moved(self, start: Floats, basis: Floats) -> SplitObjective:
        """The same J as a function of coordinates w [2, r], where the centroids are start + w basisᵀ [2, d].

        Only for the KL divergences, which see the centroids through their logits alone.
        """
        logits = 2 * self.temperature * start @ self.embeddings.T + self._bias
        return dataclasses.replace(self, embeddings=self.embeddings @ basis, origin=logits)

    @cached_property
    def bound(self) -> float:
        """M ln M, which the clustering term reaches when the mixture is uniform."""
        return len(self.embeddings) * math.log(len(self.embeddings))

    @cached_property
    def _bias(self) -> Floats:
        """−T‖z_c‖² [M]: constant on the sphere, and kept for embeddings that are not on it."""
        lengths: Floats = np.einsum("cd,cd->c", self.embeddings, self.embeddings)
        return -self.temperature * lengths

    def evaluate(self, centroids: Floats) -> Terms:
        """The terms of J at centroids [2, d]."""
        log_p, log_q = self._log_probabilities(centroids)
        divergence = dv.divergence(self.measure, self.embeddings, centroids, log_p, log_q)
        excess = -float(np.logaddexp(log_p, log_q).sum()) - len(log_p) * math.log(len(log_p) / 2)
        return Terms(
            excess, divergence, excess + self.penalty * (divergence - self.target) ** 2, log_p, log_q
        )

    def value(self, centroids: Floats) -> float:
        """J as published."""
        return self.bound + self.evaluate(centroids).penalised

    def value_and_gradient(self, centroids: Floats) -> tuple[float, Floats]:
        """J − M ln M and ∂J/∂μ [2, d].

        With logits a, r = p/(p + q) and s = log p − log q:  ∂(−Σ log mixture)/∂a = p Σr − r;
        ∂KL/∂a = p (s − KL(p‖q)), ∂KL/∂b = q − p; the symmetrised one adds the same with p and q exchanged.
        Logit gradients sum to zero, so ∂a/∂μ = 2T(z − μ) leaves 2T Zᵀ g.
        """
        terms = self.evaluate(centroids)
        p, q, s = np.exp(terms.log_p), np.exp(terms.log_q), terms.scores
        share = 1 / (1 + np.exp(-np.clip(s, -700, 700)))
        logits = np.stack([p * share.sum() - share, q * (1 - share).sum() - (1 - share)])
        pull = 2 * self.penalty * (terms.divergence - self.target)
        direct = np.zeros_like(centroids)
        if self.measure == "euclidean":
            apart = centroids[0] - centroids[1]
            unit = apart / max(terms.divergence, 1e-300)
            direct = pull * np.stack([unit, -unit])
        elif self.measure == "wasserstein":
            logits = logits + pull * _wasserstein_gradient(self.embeddings, p, q, terms.divergence)
        else:
            there = float(p @ s)
            logits = logits + pull * np.stack([p * (s - there), q - p])
            if self.measure == "kl-symmetric":
                back = float(q @ -s)
                logits = logits + pull * np.stack([p - q, q * (-s - back)])
        slope = np.stack([logits[0] @ self.embeddings, logits[1] @ self.embeddings])
        return terms.penalised, 2 * self.temperature * slope + direct

    def _log_probabilities(self, centroids: Floats) -> tuple[Floats, Floats]:
        # two products with a vector: BLAS is half as fast with a matrix of two rows
        logits = np.stack([self.embeddings @ centroids[0], self.embeddings @ centroids[1]])
        logits *= 2 * self.temperature
        logits += self._bias if self.origin is None else self.origin
        top = logits.max(1, keepdims=True)
        logits = logits - (top + np.log(np.exp(logits - top).sum(1, keepdims=True)))
        return logits[0], logits[1]


def _wasserstein_gradient(points: Floats, p: Floats, q: Floats, distance: float) -> Floats:
    """∂W₂/∂logits [2, M] for Gaussians with the moments of points under p and q.

    ∂W₂²/∂A = I − F with F = L⁻ᵀ (Lᵀ B L)^½ L⁻¹ and A = L Lᵀ, the matrix that carries A to B; the covariance
    depends on p through z zᵀ − z mᵀ − m zᵀ.
    """
    a, b = (dv.weighted_gaussian(points, np.log(np.maximum(w, 1e-300))) for w in (p, q))
    rows = []
    for weights, here, there in ((p, a, b), (q, b, a)):
        factor = np.linalg.cholesky(here.covariance)
        values, vectors = eigh(factor.T @ there.covariance @ factor)
        root = solve_triangular(factor, vectors, lower=True, trans="T") * np.maximum(values, 0) ** 0.25
        carried = points @ root  # F = root rootᵀ
        about = here.mean @ root
        spread = np.einsum("cd,cd->c", points, points - 2 * here.mean)
        spread -= np.einsum("cr,cr->c", carried, carried - 2 * about)
        slope = 2 * points @ (here.mean - there.mean) + spread
        rows.append(weights * (slope - weights @ slope))
    return np.stack(rows) / (2 * max(distance, 1e-300))
