"""Coarsity of tasks: how far apart their classes are in a taxonomy."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from longshot.base import Floats, Ragged

_BLOCK = 1 << 22  # pairs looked up at once: 32 MB of float64


def coarsity(distances: Floats, classes: Ragged | ArrayLike) -> Floats:
    """Mean squared distance over the unordered pairs of classes of each task.

    κ(task) = mean over pairs a < b of d(a, b)², for T tasks at once.

    Parameters
    ----------
    distances : array [C, C]
        As of :func:`class_distances`.
    classes : ints [T, way], or Ragged where ways differ
        Positions of each task's classes.

    Returns
    -------
    array [T]
        NaN for a task of one class, which has no pair. The value of a task does not depend on the tasks beside it.

    Examples
    --------
    >>> distances = np.array([[0.0, 1.0, 2.0], [1.0, 0.0, 3.0], [2.0, 3.0, 0.0]])
    >>> coarsity(distances, [[0, 1, 2], [0, 0, 1]]).round(3).tolist()
    [4.667, 0.667]
    """
    if not isinstance(classes, Ragged):
        return _same_way(distances, np.asarray(classes))
    result = np.full(len(classes), np.nan)
    for way in np.unique(classes.lengths).tolist():
        tasks = np.flatnonzero(classes.lengths == way)
        rows = classes.values[classes.offsets[tasks][:, None] + np.arange(way)]
        result[tasks] = _same_way(distances, rows)
    return result


def _same_way(distances: Floats, classes: NDArray[np.integer]) -> Floats:
    """Coarsity [T] of tasks [T, way] of one size, in blocks that bound the memory."""
    tasks, way = classes.shape
    result = np.full(tasks, np.nan)
    if way < 2:
        return result
    first, second = np.triu_indices(way, 1)
    step = max(1, _BLOCK // len(first))
    for low in range(0, tasks, step):
        block = classes[low : low + step]
        # Row by row in memory (indexing lays it out by columns): else the order of a sum depends on the block.
        pairs = np.ascontiguousarray(distances[block[:, first], block[:, second]])
        result[low : low + step] = np.square(pairs, out=pairs).mean(axis=1)
    return result
