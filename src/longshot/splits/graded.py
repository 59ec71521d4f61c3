"""Splits between random and farthest: a share of the divergence that the leading direction gives.

ATG sorts classes by log p_train − log p_test, which is 2T z·(μ_train − μ_test) up to a constant when embeddings have
unit length: the order depends on the direction of μ_train − μ_test alone. R sets how far the centroids stand apart on
it, so along one direction every R gives the same classes. What a split at a chosen distance needs is another
direction, and that is chosen here:

    score_c(θ) = cos θ · a_c + sin θ · b_c

with a the places of the classes on the leading axis and b random, both of mean 0 and variance 1. At θ = 0 the split is
the farthest along the axis, at θ = π/2 a random one; between them θ is chosen so that the divergence of the class
means of train and test is the wanted share of that at θ = 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from longshot.errors import UserError
from longshot.splits.assign import Parts, assign
from longshot.splits.compare import flatten
from longshot.splits.divergences import between
from longshot.splits.principal import principal_axis

Floats = NDArray[np.float64]
_ANGLES = 1025  # a split is one of finitely many: a fine enough net of angles finds all that matter


@dataclass(frozen=True, eq=False)
class Graded:
    """Class positions of train, validation and test; ``reached`` and ``farthest`` are divergences of class means."""

    parts: Parts
    angle: float  # θ in radians
    reached: float
    farthest: float


def graded(
    embeddings: Floats,
    sizes: tuple[int, int, int],
    share: float,
    *,
    measure: str = "kl-symmetric",
    seed: int = 0,
) -> Graded:
    """The split of unit class embeddings [M, d] at ``share`` (0 … 1) of the farthest divergence of class means.

    Of all angles the one is taken whose divergence is nearest to the target, the smaller angle of equals. The same seed
    gives the same b for every share, so that a sweep moves few classes from one share to the next.
    """
    if not 0 <= share <= 1:
        raise UserError(
            f"A share of {share:g} was asked for, but it must lie between 0 (random) and 1 (farthest)."
        )
    points = flatten(embeddings)
    on_axis = _standard(points @ principal_axis(points))
    noise = _standard(np.random.default_rng(seed).standard_normal(len(points)))
    best: Graded | None = None
    farthest = 0.0
    known: dict[bytes, float] = {}  # neighbouring angles mostly give the same classes
    for angle in np.linspace(0, np.pi / 2, _ANGLES):
        parts = assign(np.cos(angle) * on_axis + np.sin(angle) * noise, sizes, seed)
        name = parts[0].tobytes() + parts[2].tobytes()
        if name not in known:
            known[name] = between(measure, points, points[parts[0]].mean(0), points[parts[2]].mean(0))
        reached = known[name]
        farthest = farthest or reached
        if best is None or abs(reached - share * farthest) < abs(best.reached - share * farthest):
            best = Graded(parts, float(angle), reached, farthest)
    assert best is not None
    return best


def _standard(values: Floats) -> Floats:
    found: Floats = (values - values.mean()) / values.std()
    return found
