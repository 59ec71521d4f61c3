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
from longshot.core.ragged import offsets_of
from longshot.datasets.dataset import Dataset, ImageStore
from longshot.datasets.folder import taxonomy_of_ids
from longshot.datasets.stores import FileStore, RowsStore, escape_name
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
    nested: bool = False,
    left_out: tuple[str, ...] = (),
) -> Dataset:
    """Rows in any order → a class-major dataset; within a class the rows keep their order.

    Parameters
    ----------
    name, source : str
        What the dataset is called, and the text under which it opens again.
    classes : sequence [N] of str
        The class id of each row.
    keys : sequence [N] of str
        Stable names; row i of ``store`` and ``attributes`` is ``keys[i]``.
    store : ImageStore
        Where the images are read from.
    attributes, taxonomy, splits : optional
        As in :class:`Dataset`.
    nested : bool
        The taxonomy is what nested class ids (``Fruit/Apple``) spell out.
    left_out : tuple of str
        What else lies there and is no part of the dataset, in words; ``Scan.tell`` gives it.
    """
    ids, labels = np.unique(np.asarray(classes, dtype=np.str_), return_inverse=True)
    order = np.argsort(labels, kind="stable").astype(np.int64)
    in_order = bool((order == np.arange(len(order))).all())
    named = keys if isinstance(keys, pa.Array) else pa.array(keys, pa.string())
    if not in_order:
        named = named.take(pa.array(order))
        store = store.take(order) if isinstance(store, FileStore) else RowsStore(store, order)
        attributes = None if attributes is None else attributes.take(pa.array(order))
    return Dataset(
        name=name,
        class_ids=tuple(ids.tolist()),
        offsets=offsets_of(np.bincount(labels, minlength=len(ids))),
        keys=named,
        store=store,
        source=source,
        taxonomy=taxonomy_of_ids(ids.tolist()) if nested else taxonomy,
        attributes=attributes,
        splits=dict(splits or {}),
        left_out=left_out,
    )
