"""Minimising ATG's objective with L-BFGS: the closed-form gradient, no step size to choose, float64."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh

from longshot.core.arrays import Floats
from longshot.splits.objective import SplitObjective, Terms

Call = Callable[[Floats], tuple[float, Floats]]
_RANK = 1e-12  # eigenvalues of the Gram matrix below this share of the largest are rounding


@dataclass(frozen=True)
class Minimum:
    """Where an optimiser stopped: centroids [2, d], the terms of J there, steps taken, name of the optimiser."""

    centroids: Floats
    terms: Terms
    steps: int
    optimiser: str


def whitening(embeddings: Floats) -> Floats:
    """P [d, r] with P Pᵀ = (ZᵀZ)⁺ for embeddings Z [M, d] of rank r: the columns of Z P are orthonormal.

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
    """L-BFGS from centroids ``start`` [2, d], in the coordinates of ``basis`` (``whitening``, made if not given).

    With as many dimensions as classes any class distribution can be had and the bound is reached within twenty
    steps to rounding. With fewer the end is a long flat valley, left when a step gains less than 10⁻⁹.
    """
    from scipy.optimize import minimize

    if basis is None:
        basis = whitening(objective.embeddings)
    shape = (2, basis.shape[1])
    least = 1e-12 if basis.shape[1] >= len(objective.embeddings) else 1e-9
    call = _through_logits if objective.measure in ("kl", "kl-symmetric") else _through_centroids
    solution = minimize(
        call(objective, start, basis),
        np.zeros(2 * basis.shape[1]),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": steps, "maxfun": 2 * steps, "maxcor": 10, "ftol": least, "gtol": 1e-9},
    )
    centroids = start + solution.x.reshape(shape) @ basis.T
    return Minimum(centroids, objective.evaluate(centroids), int(solution.nit), "lbfgs")


def _through_logits(objective: SplitObjective, start: Floats, basis: Floats) -> Call:
    moved = objective.moved(start, basis)

    def call(flat: Floats) -> tuple[float, Floats]:
        value, gradient = moved.value_and_gradient(flat.reshape(2, -1))
        return value, gradient.reshape(-1)

    return call


def _through_centroids(objective: SplitObjective, start: Floats, basis: Floats) -> Call:
    turned = np.ascontiguousarray(basis.T)

    def call(flat: Floats) -> tuple[float, Floats]:
        value, gradient = objective.value_and_gradient(start + flat.reshape(2, -1) @ turned)
        return value, (gradient @ basis).reshape(-1)

    return call


def random_start(dim: int, generator: np.random.Generator) -> Floats:
    """Centroids [2, d] with independent normal coordinates of variance 1/d: about as long as an embedding."""
    start: Floats = generator.standard_normal((2, dim)) / np.sqrt(dim)
    return start
