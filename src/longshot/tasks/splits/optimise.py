"""Minimising ATG's objective with L-BFGS, and centroids on the leading axis at the distance where D = R.

L-BFGS has the closed-form gradient, no step size to choose, float64. The axis is the first principal direction of the
embeddings [M, d]: among all directions the one along which a given distance between the centroids makes the largest
divergence. The centroids stand at m ± (t/2)·u with m the mean embedding, and t is found by bisection: D grows with t.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from scipy.linalg import eigh

from longshot.base import Floats, UserError
from longshot.tasks.splits.objective import SplitObjective, Terms

Call: TypeAlias = Callable[[Floats], tuple[float, Floats]]
_RANK = 1e-12  # eigenvalues of the Gram matrix below this share of the largest are rounding
_FAR = 2.0**40  # a distance at which every class distribution has long become a point
_FLAT = 1e-6  # relative growth per doubling below which a divergence counts as bounded


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


# ---- on the leading axis --------------------------------------------------------------------------


def principal_axis(embeddings: Floats) -> Floats:
    """The unit vector u [d] of the largest variance of embeddings [M, d].

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
    """The axis or its reverse, whichever has the farther tail of ``centred`` [M, d] at its low end."""
    projections = centred @ axis
    skew = float((projections**3).sum()) / max(float((np.abs(projections) ** 3).sum()), 1e-300)
    turn = skew > 0 if abs(skew) > 1e-6 else projections[0] < 0
    turned: Floats = -axis if turn else axis
    return turned


def on_axis(objective: SplitObjective, axis: Floats | None = None) -> Minimum:
    """The centroids m ± (t/2)·u with D = R, by bisection to twelve digits; UserError when no t gives R."""
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
    return Minimum(centroids, objective.evaluate(centroids), steps, "bisection")


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
    """Two distances with D below and above R; doubles ``guess``, and stops when D no longer grows."""
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
