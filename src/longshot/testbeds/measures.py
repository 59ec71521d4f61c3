"""What is measured on every task, beside what its sampler measures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from longshot.core.tasks import TaskPlan, TaskRows
from longshot.datasets.dataset import Dataset
from longshot.datasets.hierarchy import no_taxonomy
from longshot.taxonomy.coarsity import coarsity
from longshot.taxonomy.distances import class_distances
from longshot.testbeds.base import Classes, Pool

Measure = Callable[[Pool, TaskPlan, TaskRows], Mapping[str, NDArray[Any]]]  # column name → one value per task

MOST_CLASSES = 8000  # above this the matrix of distances takes over half a gigabyte: not by default
_known: WeakKeyDictionary[Dataset, dict[tuple[bytes, str, str | None], NDArray[np.float64]]] = (
    WeakKeyDictionary()
)


def pool_distances(pool: Pool, distance: str, reduction: str | None) -> NDArray[np.float64]:
    """[P, P] distances between the pool's classes, from the dataset's taxonomy and its image counts.

    Counts are those of the pool's own classes: N(v) counts images of classes that can be drawn. Computed once per
    dataset, classes, distance and reduction.
    """
    dataset = pool.dataset
    if dataset.taxonomy is None:
        raise no_taxonomy(dataset, ", so its classes have no distances")
    matrices = _known.setdefault(dataset, {})
    key = (pool.classes.tobytes(), distance, reduction)
    if key not in matrices:
        counts = pool.sizes[pool.classes]
        matrices[key] = class_distances(
            dataset.taxonomy, pool.class_ids, counts, kind=distance, reduction=reduction
        )
        matrices[key].flags.writeable = False
    return matrices[key]


def coarsity_measure(pool: Pool, classes: Classes, reduction: str | None = None) -> Measure | None:
    """Coarsity of each task by the distance that the classes were drawn by, else by the default one.

    ``reduction`` is for classes that were not drawn by a distance. None where the dataset has no taxonomy, or more than
    ``MOST_CLASSES`` classes and no need of distances.
    """
    if pool.dataset.taxonomy is None and reduction is not None:
        raise no_taxonomy(pool.dataset, " to reduce")
    uses_distances = hasattr(classes, "distance") or reduction is not None
    if pool.dataset.taxonomy is None or (len(pool.classes) > MOST_CLASSES and not uses_distances):
        return None
    distances = pool_distances(
        pool, getattr(classes, "distance", "jiang-conrath"), getattr(classes, "reduction", reduction)
    )
    number = np.full(len(pool.sizes), -1)
    number[pool.classes] = np.arange(len(pool.classes))

    def measure(_: Pool, plan: TaskPlan, rows: TaskRows) -> Mapping[str, NDArray[Any]]:
        return {"coarsity": coarsity(distances, plan.classes.with_values(number[plan.classes.values]))}

    return measure
