"""Coarsity of tasks: how far apart their classes are in a taxonomy."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from longshot.core.ragged import Ragged

_BLOCK = 1 << 22  # pairs looked up at once: 32 MB of float64


def coarsity(distances: NDArray[np.float64], classes: Ragged | ArrayLike) -> NDArray[np.float64]:
    """Mean squared distance over the unordered pairs of classes of each task.

    κ(task) = mean over pairs a < b of d(a, b)², for T tasks at once: [T].

    ``distances`` is [C, C]; ``classes`` holds class indices, [T, way] or ragged when ways differ. A task of
    one class has no pair: NaN. The value of a task does not depend on the tasks beside it.
    """
    if not isinstance(classes, Ragged):
        return _same_way(distances, np.asarray(classes))
    result = np.full(len(classes), np.nan)
    for way in np.unique(classes.lengths).tolist():
        tasks = np.flatnonzero(classes.lengths == way)
        rows = classes.values[classes.offsets[tasks][:, None] + np.arange(way)]
        result[tasks] = _same_way(distances, rows)
    return result


def _same_way(distances: NDArray[np.float64], classes: NDArray[np.integer]) -> NDArray[np.float64]:
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
