"""Centroids on the leading axis of the class embeddings, at the distance where D = R.

The axis is the first principal direction of the embeddings [M, d]: among all directions the one along which a
given distance between the centroids makes the largest divergence. The centroids stand at m ± (t/2)·u with m
the mean embedding, and t is found by bisection: D grows with t.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
from scipy.linalg import eigh

from longshot.core.arrays import Floats
from longshot.core.errors import UserError
from longshot.splits.objective import SplitObjective
from longshot.splits.optimise import Minimum

_FAR = 2.0**40  # a distance at which every class distribution has long become a point
_FLAT = 1e-6  # relative growth per doubling below which a divergence counts as bounded


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


def reachable(objective: SplitObjective, axis: Floats | None = None) -> float:
    """The largest divergence on the axis: infinite for the KL divergences and the Euclidean distance."""
    if objective.measure != "wasserstein":
        return float("inf")
    try:
        on_axis(dataclasses.replace(objective, target=float("inf")), axis)
    except Unreachable as limit:
        return limit.most
    return float("inf")


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
