"""What every format has in common: a call with settings, recognising its files, and putting rows class-major."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from longshot.core.calls import Called
from longshot.datasets.dataset import Dataset, ImageStore
from longshot.datasets.stores import RowsStore, escape_name
from longshot.taxonomy.dag import Taxonomy


class Format(Called):
    """One way in which a dataset lies on disk. Settings are keyword arguments of the constructor."""

    title: ClassVar[str]  # what it is, in a few words
    origin: ClassVar[str]  # where people get such data
    layout: ClassVar[str]  # the files that ``open`` looks for below the path

    @classmethod
    def recognise(cls, path: Path) -> bool:
        """Whether ``path`` surely is of this format, by the names of a few files; where not, the user says so."""
        return False

    @abstractmethod
    def open(self, path: Path, name: str, *, refresh: bool = False) -> Dataset:
        """The dataset at ``path``; UserError says what is missing. ``refresh`` ignores a remembered index."""

    def source(self, path: Path) -> str:
        """The text under which the dataset opens again: ``cifar-100(part='test'):/data/cifar``."""
        return f"{self.call}:{escape_name(str(path))}"


def assemble(
    name: str,
    source: str,
    classes: Sequence[str] | NDArray[np.str_],
    keys: Sequence[str] | pa.Array,
    store: ImageStore,
    *,
    attributes: pa.Table | None = None,
    taxonomy: Taxonomy | None = None,
    splits: Mapping[str, tuple[str, ...]] | None = None,
) -> Dataset:
    """Rows in any order → a class-major dataset; within a class the rows keep their order.

    ``classes`` [N] are class ids, ``keys`` [N] stable names; row i of ``store`` and ``attributes`` is ``keys[i]``.
    """
    ids, labels = np.unique(np.asarray(classes, dtype=np.str_), return_inverse=True)
    order = np.argsort(labels, kind="stable").astype(np.int64)
    sizes = np.bincount(labels, minlength=len(ids))
    in_order = bool((order == np.arange(len(order))).all())
    named = keys if isinstance(keys, pa.Array) else pa.array(keys, pa.string())
    return Dataset(
        name=name,
        class_ids=tuple(ids.tolist()),
        offsets=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        keys=named if in_order else named.take(pa.array(order)),
        store=store if in_order else RowsStore(store, order),
        source=source,
        taxonomy=taxonomy,
        attributes=attributes if attributes is None or in_order else attributes.take(pa.array(order)),
        splits=dict(splits or {}),
    )
