"""Parts of a dataset: some of its rows, or the classes under one branch of its class ids."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from longshot.core.arrays import Ints
from longshot.core.errors import UserError
from longshot.core.ragged import offsets_of
from longshot.core.wording import count, first
from longshot.datasets.dataset import Dataset
from longshot.datasets.stores import RowsStore


def take_rows(dataset: Dataset, rows: Ints, **changes: Any) -> Dataset:
    """The dataset with these rows only.

    Parameters
    ----------
    dataset : Dataset
        What to take a part of.
    rows : array [M] of int
        Row numbers, ascending. A class without any of them goes, from splits and taxonomy too.
    **changes
        Other fields of the new dataset, such as ``name``.
    """
    sizes = np.bincount(dataset.labels[rows], minlength=len(dataset.class_ids))
    present = np.flatnonzero(sizes)
    class_ids = tuple(dataset.class_ids[index] for index in present)
    members = set(class_ids)
    splits = {split: tuple(c for c in ids if c in members) for split, ids in dataset.splits.items()}
    part = replace(
        dataset,
        class_ids=class_ids,
        offsets=offsets_of(sizes[present]),
        keys=dataset.keys.take(pa.array(rows)),
        store=RowsStore(dataset.store, rows),
        taxonomy=None if dataset.taxonomy is None else dataset.taxonomy.restrict(class_ids),
        attributes=None if dataset.attributes is None else dataset.attributes.take(pa.array(rows)),
        splits={split: ids for split, ids in splits.items() if ids},
    )
    return replace(part, **changes)


def branches(dataset: Dataset) -> list[str]:
    """First parts of the class ids that have something below them, in order: ``Fruit`` of ``Fruit/Apple``."""
    return list(dict.fromkeys(c.split("/", 1)[0] for c in dataset.class_ids if "/" in c))


def under(dataset: Dataset, branch: str) -> Dataset:
    """The classes below one branch of the class ids, such as all species of one family, as a dataset.

    Parameters
    ----------
    dataset : Dataset
        What to take a part of.
    branch : str
        The first parts of class ids: ``Fruit`` takes ``Fruit/Apple`` and ``Fruit/Pear``.

    Returns
    -------
    Dataset
        Called ``NAME-BRANCH``; keys, splits, taxonomy and attributes are those of the dataset.
    """
    inside = np.array([class_id.startswith(f"{branch}/") for class_id in dataset.class_ids])
    if not inside.any():
        all_branches = branches(dataset)
        raise UserError(
            f"Dataset '{dataset.name}' has no classes under '{branch}'; it has "
            f"{count(all_branches, 'branch', 'branches')}: {first(all_branches, 10)}."
        )
    rows = np.flatnonzero(inside[dataset.labels])
    return take_rows(dataset, rows, name=f"{dataset.name}-{branch.replace('/', '-')}", skipped=())
