"""The cheapest thing that learns from train classes: their linear discriminants, in closed form."""

from __future__ import annotations

import numpy as np
from scipy.linalg import cholesky, qr, solve_triangular

from longshot.core.arrays import Floats

SHRINKAGE = 0.5  # the within-class covariance, half-way to a sphere of the same trace
_SMALL = 1e-9  # of the longest: directions of class means shorter than this are rounding


def discriminant_map(means: Floats, within: Floats, shrinkage: float = SHRINKAGE) -> Floats:
    """The linear discriminant map of classes: x ↦ x V, in which distances are those of Fisher's analysis.

    With the shrunk within-class covariance W = (1 − s) Σ + s · tr(Σ)/d · I, the map whitens W and keeps the directions
    in which the class means m_c differ:

        V Vᵀ = W⁻¹ M (Mᵀ W⁻¹ M)⁺ Mᵀ W⁻¹,   M = [m_c − m̄]

    These are all C − 1 discriminants (d at most), each of within-class variance 1; only their rotation is left open,
    which changes no distance. Computed from W = L Lᵀ and an orthonormal basis Q of L⁻¹ M as V = L⁻ᵀ Q.

    Parameters
    ----------
    means : array [C, d]
        Mean of each class, C ≥ 2.
    within : array [d, d]
        Σ: covariance of the images around the means of their classes.
    shrinkage : float
        s, from 0 (Σ must then be positive definite) to 1 (a sphere: only directions are chosen).

    Returns
    -------
    array [d, k]
        k ≤ min(C − 1, d).

    Examples
    --------
    >>> two = np.array([[0.0, 0.0], [4.0, 0.0]])
    >>> np.abs(discriminant_map(two, np.diag([4.0, 1.0]), shrinkage=0)).round(3)
    array([[0.5],
           [0. ]])
    """
    size = len(within)
    shrunk = (1 - shrinkage) * within
    shrunk[np.diag_indices(size)] += shrinkage * np.trace(within) / size
    lower = cholesky(shrunk, lower=True)
    apart = solve_triangular(lower, (means - means.mean(0)).T, lower=True)
    basis, triangle, _ = qr(apart, mode="economic", pivoting=True)
    lengths = np.abs(np.diag(triangle))  # falling, by the pivoting
    rank = min(int((lengths > _SMALL * lengths[0]).sum()), len(means) - 1)
    discriminants: Floats = solve_triangular(lower, basis[:, :rank], lower=True, trans="T")
    return discriminants
