"""The coarsity of a testbed's tasks by another taxonomy, or by another reduction of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from longshot.core.arrays import Floats, Ints
from longshot.core.ragged import Ragged
from longshot.datasets.dataset import Dataset
from longshot.datasets.hierarchy import TaxonomyLike, taxonomy_facts, with_taxonomy
from longshot.taxonomy.coarsity import coarsity
from longshot.testbeds.base import Pool
from longshot.testbeds.measures import pool_distances
from longshot.testbeds.testbed import Testbed


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
        values = _coarsities(testbed, name, data, reduction)
        low, mean, high = (round(float(value), 4) for value in (values.min(), values.mean(), values.max()))
        measured[name] = {**taxonomy_facts(data, reduction), "min": low, "mean": mean, "max": high}
    return measured


def _coarsities(testbed: Testbed, name: str, dataset: Dataset, reduction: str | None) -> Floats:
    owners = testbed.table.column("dataset").to_pylist()
    lists = testbed.table.column("classes").to_pylist()
    rows = [
        [dataset.class_index(c) for c in own]
        for own, owner in zip(lists, owners, strict=True)
        if owner == name
    ]
    classes = Ragged.from_lists(rows)
    pool = Pool(dataset, _pool(testbed, dataset, np.unique(classes.values)))
    number = np.full(len(dataset.class_ids), -1)
    number[pool.classes] = np.arange(len(pool.classes))
    distances = pool_distances(pool, "jiang-conrath", reduction)
    return coarsity(distances, classes.with_values(number[classes.values]))


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
