"""A part of a dataset: the classes under one branch of its class ids, such as all species of one family."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from longshot.core.errors import UserError
from longshot.datasets.dataset import Dataset, ImageStore, count, first

if TYPE_CHECKING:
    from PIL.Image import Image


@dataclass(frozen=True)
class _Shifted:
    """The rows of a store from ``start`` on."""

    store: ImageStore
    start: int

    def read(self, row: int) -> Image:
        return self.store.read(self.start + row)


def branches(dataset: Dataset) -> list[str]:
    """First parts of the class ids that have something below them, in order: ``Fruit`` of ``Fruit/Apple``."""
    return list(dict.fromkeys(c.split("/", 1)[0] for c in dataset.class_ids if "/" in c))


def under(dataset: Dataset, branch: str) -> Dataset:
    """The classes whose id begins with ``branch/``: neighbours in the sorted order, so their rows are one slice."""
    inside = [i for i, class_id in enumerate(dataset.class_ids) if class_id.startswith(f"{branch}/")]
    if not inside:
        known = branches(dataset)
        raise UserError(
            f"Dataset '{dataset.name}' has no classes under '{branch}'; it has {count(known, 'branch', 'branches')}: "
            f"{first(known, 10)}."
        )
    low, high = inside[0], inside[-1] + 1
    start, stop = int(dataset.offsets[low]), int(dataset.offsets[high])
    ids = dataset.class_ids[low:high]
    chosen = set(ids)
    splits = {name: tuple(c for c in members if c in chosen) for name, members in dataset.splits.items()}
    return replace(
        dataset,
        name=f"{dataset.name}-{branch.replace('/', '-')}",
        class_ids=ids,
        offsets=np.asarray(dataset.offsets[low : high + 1] - start, np.int64),
        keys=dataset.keys.slice(start, stop - start),
        store=_Shifted(dataset.store, start),
        taxonomy=dataset.taxonomy.restrict(ids) if dataset.taxonomy is not None else None,
        attributes=dataset.attributes.slice(start, stop - start) if dataset.attributes is not None else None,
        splits={name: members for name, members in splits.items() if members},
        skipped=(),
    )
