"""Many tests at once: p values that allow for how many there are."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from longshot.statistics.intervals import Floats


def holm(p_values: ArrayLike) -> Floats:
    """Holm's step-down adjustment: p₍ᵢ₎ ← max_{j ≤ i} min(1, (m − j + 1) · p₍ⱼ₎), sorted upwards.

    Rejecting where the result is below α keeps the chance of even one false claim below α, whatever the dependence
    between the tests.

    Parameters
    ----------
    p_values : array [m]
        Between 0 and 1.

    Returns
    -------
    array [m]
        In the order of ``p_values``.

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03]).round(3).tolist()
    [0.03, 0.06, 0.06]
    """
    p, order = _sorted(p_values)
    steps = np.arange(len(p), 0, -1)
    return _back(np.maximum.accumulate(np.minimum(1, steps * p)), order)


def benjamini_hochberg(p_values: ArrayLike) -> Floats:
    """Benjamini and Hochberg's step-up adjustment: p₍ᵢ₎ ← min_{j ≥ i} m / j · p₍ⱼ₎, sorted upwards.

    Rejecting where the result is below α keeps the expected share of false claims among all claims below α.

    Parameters
    ----------
    p_values : array [m]
        Between 0 and 1.

    Returns
    -------
    array [m]
        In the order of ``p_values``.

    Examples
    --------
    >>> benjamini_hochberg([0.01, 0.04, 0.03]).round(3).tolist()
    [0.03, 0.04, 0.04]
    """
    p, order = _sorted(p_values)
    scaled = len(p) / np.arange(1, len(p) + 1) * p  # the last is p itself, so none ends above 1
    return _back(np.minimum.accumulate(scaled[::-1])[::-1], order)


def _sorted(p_values: ArrayLike) -> tuple[Floats, NDArray[np.intp]]:
    p = np.asarray(p_values, np.float64).reshape(-1)
    if not ((p >= 0) & (p <= 1)).all():
        raise ValueError("p values lie between 0 and 1")
    order = np.argsort(p, kind="stable")
    return p[order], order


def _back(adjusted: Floats, order: NDArray[np.intp]) -> Floats:
    """Sorted values in the order they had before."""
    unsorted = np.empty_like(adjusted)
    unsorted[order] = adjusted
    return unsorted
