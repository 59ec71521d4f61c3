"""What is measured on every task, beside what its sampler measures; of drawn tasks again by another taxonomy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from longshot.base import Floats, Ints, Ragged, TaskPlan, TaskRows
from longshot.data import (
    Dataset,
    TaxonomyLike,
    class_distances,
    coarsity,
    no_taxonomy,
    taxonomy_facts,
    with_taxonomy,
)
from longshot.tasks import columns
from longshot.tasks.base import Classes, Pool
from longshot.tasks.testbed import Testbed

Measure: TypeAlias = Callable[
    [Pool, TaskPlan, TaskRows], Mapping[str, NDArray[Any]]
]  # column name → one value per task

MOST_CLASSES = 8000  # above this the matrix of distances takes over half a gigabyte: not by default
_known: WeakKeyDictionary[Dataset, dict[tuple[bytes, str, str | None], Floats]] = WeakKeyDictionary()


def pool_distances(pool: Pool, distance: str, reduction: str | None) -> Floats:
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
    distance = getattr(classes, "distance", "jiang-conrath")
    distances = pool_distances(pool, distance, getattr(classes, "reduction", reduction))

    def measure(_: Pool, plan: TaskPlan, rows: TaskRows) -> Mapping[str, NDArray[Any]]:
        return {"coarsity": _coarsities(pool, plan.classes, distances)}

    return measure


def _coarsities(pool: Pool, classes: Ragged, distances: Floats) -> Floats:
    """Of tasks with these class numbers, by the distances [P, P] among the classes of the pool."""
    number = np.full(len(pool.sizes), -1)
    number[pool.classes] = np.arange(len(pool.classes))
    return coarsity(distances, classes.with_values(number[classes.values]))


def measure_again(
    testbed: Testbed, datasets: Mapping[str, Dataset], taxonomy: TaxonomyLike | None, reduction: str | None
) -> dict[str, dict[str, Any]]:
    """Dataset → its taxonomy, and the lowest, mean and highest coarsity of its tasks by it.

    The distances are those among the classes that tasks were drawn from: of the recorded split, or all of the dataset;
    those that occur where classes were left out or the tasks come from a list.

    Parameters
    ----------
    testbed : Testbed
        Any testbed.
    datasets : mapping
        Name → the dataset that is here.
    taxonomy : str, Path or Taxonomy, optional
        In place of the datasets' own.
    reduction : str, optional
        Which paths of the taxonomy count; see ``class_distances``.
    """
    measured = {}
    for name, dataset in datasets.items():
        data = with_taxonomy(dataset, taxonomy)
        own_tasks = testbed.table.filter(pa.array(columns.of_dataset(testbed.table, name)))
        names = pa.array(data.class_ids, pa.string())
        classes = columns.ragged(own_tasks, "classes")
        classes = classes.with_values(columns.places_among(own_tasks, "classes", names)[classes.values])
        pool = Pool(data, _pool(testbed, data, np.unique(classes.values)))
        values = _coarsities(pool, classes, pool_distances(pool, "jiang-conrath", reduction))
        low, mean, high = (round(float(value), 4) for value in (values.min(), values.mean(), values.max()))
        measured[name] = {**taxonomy_facts(data, reduction), "min": low, "mean": mean, "max": high}
    return measured


def _pool(testbed: Testbed, dataset: Dataset, occurring: Ints) -> Ints:
    """The classes that tasks were drawn from, as far as the testbed says."""
    sampler = testbed.meta["sampler"]
    if "classes" not in sampler or sampler.get("dropped_classes") or sampler.get("splits_from"):
        return occurring
    split = sampler.get("split")
    if split is not None and split not in dataset.splits:
        return occurring
    candidates = dataset.split_classes(split)
    return candidates if np.isin(occurring, candidates).all() else occurring
