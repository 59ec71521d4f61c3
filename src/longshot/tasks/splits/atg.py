"""ATG's penalised clustering objective, its gradient in closed form, and what minimises it.

    p(c) = softmax_c(−T‖z_c − μ_train‖²),  q(c) = softmax_c(−T‖z_c − μ_test‖²)
    J(μ_train, μ_test) = −Σ_c log ½(p(c) + q(c)) + λ (D − R)²

The first sum is never below M ln M for M classes (the mixture is then uniform), so the code works with the
excess over that bound: J is about 7,000 at 1,000 classes, what an optimiser gains there is 0.001.

L-BFGS has the closed-form gradient, no step size to choose, float64. Centroids on the leading axis, the first principal
direction of the embeddings [M, d], are at the distance where D = R: among all directions it is the one along which a
given distance between the centroids makes the largest divergence. They stand at m ± (t/2)·u with m the mean embedding,
and t is found by bisection: D grows with t.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import eigh, solve_triangular

from longshot.base import Floats, UserError
from longshot.tasks.splits import embeddings as dv

if TYPE_CHECKING:
    pass


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
        """Return J as a function of coordinates w [2, r], where the centroids are start + w basisᵀ [2, d].

        Only for the KL divergences, which see the centroids through their logits alone.
        """
        logits = 2 * self.temperature * start @ self.embeddings.T + self._bias
        return dataclasses.replace(self, embeddings=self.embeddings @ basis, origin=logits)

    @cached_property
    def bound(self) -> float:
        """Return M ln M, which the clustering term reaches when the mixture is uniform."""
        return len(self.embeddings) * math.log(len(self.embeddings))

    @cached_property
    def _bias(self) -> Floats:
        """Return −T‖z_c‖² [M]: constant on the sphere, and kept for embeddings that are not on it."""
        lengths: Floats = np.einsum("cd,cd->c", self.embeddings, self.embeddings)
        return -self.temperature * lengths

    def evaluate(self, centroids: Floats) -> Terms:
        """Compute the terms of J at centroids [2, d]."""
        log_p, log_q = self._log_probabilities(centroids)
        divergence = dv.divergence(self.measure, self.embeddings, centroids, log_p, log_q)
        excess = -float(np.logaddexp(log_p, log_q).sum()) - len(log_p) * math.log(len(log_p) / 2)
        return Terms(
            excess, divergence, excess + self.penalty * (divergence - self.target) ** 2, log_p, log_q
        )

    def value(self, centroids: Floats) -> float:
        """Return J as published."""
        return self.bound + self.evaluate(centroids).penalised

    def value_and_gradient(self, centroids: Floats) -> tuple[float, Floats]:
        """Return J − M ln M and ∂J/∂μ [2, d].

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
    """Return ∂W₂/∂logits [2, M] for Gaussians with the moments of points under p and q.

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


_RANK = 1e-12  # eigenvalues of the Gram matrix below this share of the largest are rounding
_FAR = 2.0**40  # a distance at which every class distribution has long become a point
_FLAT = 1e-6  # relative growth per doubling below which a divergence counts as bounded


@dataclass(frozen=True)
class Minimum:
    """Where an optimiser stopped: centroids [2, d], the terms of J there, and steps taken."""

    centroids: Floats
    terms: Terms
    steps: int


def whitening(embeddings: Floats) -> Floats:
    """Return P [d, r] with P Pᵀ = (ZᵀZ)⁺ for embeddings Z [M, d] of rank r: the columns of Z P are orthonormal.

    In the coordinates w of μ = μ₀ + P w the clustering term is about as steep in every direction; in those of μ its
    steepness follows the squared singular values of Z, over many orders of magnitude.
    """
    rows, columns = embeddings.shape
    gram = embeddings @ embeddings.T if rows <= columns else embeddings.T @ embeddings
    values, vectors = eigh(gram, overwrite_a=True, check_finite=False)
    significant = values > _RANK * values[-1]
    values, vectors = values[significant], vectors[:, significant]
    basis: Floats = embeddings.T @ (vectors / values) if rows <= columns else vectors / np.sqrt(values)
    return basis


def minimise(
    objective: SplitObjective, start: Floats, basis: Floats | None = None, steps: int = 5_000
) -> Minimum:
    """Run L-BFGS from centroids ``start`` [2, d], in the coordinates of ``basis`` (``whitening``, made if not given).

    With as many dimensions as classes any class distribution can be had and the bound is reached within twenty
    steps to rounding. With fewer the end is a long flat valley, left when a step gains less than 10⁻⁹.
    """
    from scipy.optimize import minimize

    if basis is None:
        basis = whitening(objective.embeddings)
    shape, turned = (2, basis.shape[1]), np.ascontiguousarray(basis.T)
    by_logits = objective.measure in ("kl", "kl-symmetric")
    function = objective.moved(start, basis) if by_logits else objective

    def call(flat: Floats) -> tuple[float, Floats]:
        point = flat.reshape(shape)
        value, gradient = function.value_and_gradient(point if by_logits else start + point @ turned)
        return value, (gradient if by_logits else gradient @ basis).reshape(-1)

    least = 1e-12 if basis.shape[1] >= len(objective.embeddings) else 1e-9
    solution = minimize(
        call,
        np.zeros(2 * basis.shape[1]),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": steps, "maxfun": 2 * steps, "maxcor": 10, "ftol": least, "gtol": 1e-9},
    )
    centroids = start + solution.x.reshape(shape) @ basis.T
    return Minimum(centroids, objective.evaluate(centroids), int(solution.nit))


def random_start(dim: int, generator: np.random.Generator, *, unit: bool = True) -> Floats:
    """Draw centroids [2, d] with normal coordinates of variance 1/d, about as long as an embedding.

    Without ``unit`` the variance is 1, as ``torch.randn`` gives it to the authors' script. What of it lies outside the
    span of the embeddings moves no class, so it may be drawn inside.
    """
    start: Floats = generator.standard_normal((2, dim)) / (np.sqrt(dim) if unit else 1.0)
    return start


# ---- on the leading axis --------------------------------------------------------------------------


def principal_axis(embeddings: Floats) -> Floats:
    """Return the unit vector u [d] of the largest variance of embeddings [M, d].

    The eigenproblem is solved on the smaller side, so it costs min(M, d)² · max(M, d) once. The sign is chosen so
    that the classes with the lowest projections are the farther tail: their end becomes the test side, and a
    rotation of the feature space does not change that. A symmetrical cloud takes the first class as its anchor.
    """
    centred = embeddings - embeddings.mean(0)
    rows, columns = centred.shape
    size = min(rows, columns)
    gram = centred @ centred.T if rows <= columns else centred.T @ centred
    _, vectors = eigh(gram, subset_by_index=[size - 1, size - 1])
    axis = centred.T @ vectors[:, 0] if rows <= columns else vectors[:, 0]
    return oriented(axis / np.linalg.norm(axis), centred)


def oriented(axis: Floats, centred: Floats) -> Floats:
    """Return the axis or its reverse, whichever has the farther tail of ``centred`` [M, d] at its low end."""
    projections = centred @ axis
    skew = float((projections**3).sum()) / max(float((np.abs(projections) ** 3).sum()), 1e-300)
    turn = skew > 0 if abs(skew) > 1e-6 else projections[0] < 0
    turned: Floats = -axis if turn else axis
    return turned


def on_axis(objective: SplitObjective, axis: Floats | None = None) -> Minimum:
    """Find the centroids m ± (t/2)·u with D = R, by bisection to twelve digits; UserError when no t gives R."""
    embeddings = objective.embeddings
    if axis is None:
        axis = principal_axis(embeddings)
    middle = embeddings.mean(0)

    def centroids_at(distance: float) -> Floats:
        return np.stack([middle + distance / 2 * axis, middle - distance / 2 * axis])

    steps = 0
    if objective.target == 0:
        distance = 0.0
    else:
        from scipy.optimize import brentq

        # near t = 0 the symmetrised KL is (2T t)² var(u·z): a start within a factor of the answer
        spread = 2 * objective.temperature * float((embeddings @ axis).std())
        guess = float(np.sqrt(min(objective.target, 100.0))) / max(spread, 1e-9)
        near, far = _bracket(objective, centroids_at, guess)
        distance, report = brentq(
            lambda t: objective.evaluate(centroids_at(t)).divergence - objective.target,
            near,
            far,
            xtol=1e-300,
            rtol=1e-13,
            full_output=True,
        )
        steps = int(report.iterations)
    centroids = centroids_at(float(distance))
    return Minimum(centroids, objective.evaluate(centroids), steps)


class Unreachable(UserError):
    """No place on the axis has the divergence asked for; ``most`` is the largest there is."""

    def __init__(self, objective: SplitObjective, most: float) -> None:
        self.most = most
        super().__init__(
            f"A {objective.measure} divergence of {objective.target:g} cannot be reached along the leading "
            f"direction of these {len(objective.embeddings):,} class embeddings: at most {most:.4g} can",
            "ask for less",
        )


def _bracket(
    objective: SplitObjective, centroids_at: Callable[[float], Floats], guess: float
) -> tuple[float, float]:
    """Find two distances with D below and above R: double ``guess`` until D no longer grows."""
    near, far, before, most = 0.0, guess, 0.0, 0.0
    while far <= _FAR:
        here = objective.evaluate(centroids_at(far)).divergence
        most = max(most, here)
        if here >= objective.target:
            return near, far
        if here > 0 and far > 1 and here - before <= _FLAT * here:
            break
        near, far, before = far, 2 * far, here
    raise Unreachable(objective, most)
