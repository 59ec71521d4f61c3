"""The Dataset: classes, stable example keys and a lazy store of images, class-major."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from longshot.base import Floats, Ints, UserError, count, first, hash_file, hash_json

if TYPE_CHECKING:
    from PIL.Image import Image

    from longshot.data.taxonomy import Taxonomy

SPLITS = ("train", "validation", "test")
TaxonomyLike: TypeAlias = "str | os.PathLike[str] | Taxonomy"
# what a file made by Longshot vouches for: the images' bytes, or only their names
IDENTITIES = ("content", "names")
IDENTITY_VARIABLE = "LONGSHOT_IDENTITY"
_SPLIT_ALIASES = {
    "train": "train",
    "training": "train",
    "val": "validation",
    "valid": "validation",
    "validation": "validation",
    "dev": "validation",
    "test": "test",
    "testing": "test",
}


def canonical_split(name: str) -> str | None:
    """Return ``train``, ``validation`` or ``test`` for the spellings in use (``val``, ``dev`` …), else None.

    >>> canonical_split("Val"), canonical_split("extra")
    ('validation', None)
    """
    return _SPLIT_ALIASES.get(name.strip().lower())


def check_identity(identity: str) -> str:
    """Return the identity as it is; UserError for one that does not exist."""
    if identity not in IDENTITIES:
        raise UserError(f"{{identity}} is {identity!r}, but it must be {' or '.join(IDENTITIES)}.")
    return identity


def default_identity() -> str:
    """Return what LONGSHOT_IDENTITY says; "content" where it is not set."""
    identity = os.environ.get(IDENTITY_VARIABLE) or "content"
    if identity not in IDENTITIES:
        raise UserError(f"{IDENTITY_VARIABLE} is '{identity}', but it must be {' or '.join(IDENTITIES)}.")
    return identity


class ImageStore(Protocol):
    """Where pixels come from. Picklable and cheap to pickle: worker processes open the files themselves."""

    def read(self, row: int) -> Image:
        """Read the image of one row: mode RGB, upright; ``ImageError`` (a ``UserError``) when unreadable."""
        ...


@runtime_checkable
class EncodedStore(ImageStore, Protocol):
    """A store that gives an image's bytes before they are decoded: what the image's digest is over."""

    def encoded(self, row: int) -> bytes:
        """Return the stored bytes of a row, or ``array_bytes`` of its pixels where they are not encoded."""
        ...

    def stamps(self, rows: Ints) -> Ints:
        """Return three numbers per row that change when the file behind it does; −1 where none can tell, [M, 3]."""
        ...


@runtime_checkable
class UnpackedStore(ImageStore, Protocol):
    """A store that reads copies of packed files, which lie in the cache."""

    def from_source(self) -> ImageStore:
        """Return a store of the same rows, unpacked anew from the files that the user has."""
        ...


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """N images in C classes, class-major: the rows of class c are ``offsets[c]:offsets[c + 1]``.

    Parameters
    ----------
    name : str
        What the dataset is called.
    class_ids : tuple [C] of str
        Sorted; nested ids (``Fruit/Apple``) have parts joined by slashes.
    offsets : array [C + 1] of int64
        Where the rows of each class begin and end.
    keys : pyarrow.Array [N] of str
        The examples' names for good: testbeds hold keys, never rows.
    store : ImageStore
        Reads the image of a row.
    source : str
        The text under which the dataset opens again.
    taxonomy : Taxonomy, optional
        A hierarchy above the classes.
    attributes : pyarrow.Table [N rows], optional
        One column per attribute of the images.
    splits : mapping
        train, validation and test → class ids, where the classes are divided.
    splits_from : str, optional
        The split that was put in place of the dataset's own.
    taxonomy_from : str, optional
        The taxonomy that was put in place of the dataset's own.
    distances : array [C, C], optional
        Distances between classes from a file, which go before those in the taxonomy; NaN for classes it lacks.
    distances_from : str, optional
        The file and its digest.
    skipped : tuple of str
        Keys of unreadable images that were left out on request.
    left_out : tuple of str
        What else was left out when the dataset was opened, in words: empty class folders, files of other kinds.
    identity : {"content", "names"}
        What is made of the dataset vouches for: the bytes of its images, or only their names.
    taken_for : str
        What lay at the path, in words, where it was looked at before it was opened.
    or_as : tuple of str
        What it could have been as well: words, a colon, and the text that opens it so.

    Examples
    --------
    >>> toybox = longshot.open_dataset("toybox")
    >>> toybox.rows(0)
    slice(0, 16, None)
    >>> toybox.class_index(toybox.class_ids[3])
    3
    >>> toybox.image(0).mode
    'RGB'
    >>> toybox.find_rows(toybox.keys[2:4]).tolist()
    [2, 3]
    >>> len(toybox.split_classes("test"))
    32
    >>> toybox.with_identity("names").identity
    'names'
    """

    name: str
    class_ids: tuple[str, ...]
    offsets: Ints
    keys: pa.Array
    store: ImageStore
    source: str
    taxonomy: Taxonomy | None = None
    attributes: pa.Table | None = None
    splits: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    splits_from: str | None = None
    taxonomy_from: str | None = None
    distances: Floats | None = field(default=None, repr=False)
    distances_from: str | None = None
    skipped: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    identity: str = "content"
    taken_for: str = ""
    or_as: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if isinstance(self.keys, pa.ChunkedArray):
            object.__setattr__(self, "keys", self.keys.combine_chunks())
        object.__setattr__(self, "offsets", np.asarray(self.offsets, dtype=np.int64))
        if list(self.class_ids) != sorted(set(self.class_ids)):
            raise ValueError("class ids must be sorted and unique")
        if self.offsets.shape != (len(self.class_ids) + 1,) or self.offsets[0] != 0:
            raise ValueError(f"offsets must be [C+1] = [{len(self.class_ids) + 1}] and start at 0")
        if self.offsets[-1] != len(self.keys):
            raise ValueError(f"offsets end at {self.offsets[-1]}, there are {len(self.keys)} keys")
        if self.keys.null_count or pc.count_distinct(self.keys).as_py() != len(self.keys):
            raise ValueError("keys must be unique and not null")
        if self.attributes is not None and self.attributes.num_rows != len(self.keys):
            raise ValueError(
                f"attributes have {self.attributes.num_rows} rows, there are {len(self.keys)} keys"
            )
        if not self.class_ids:
            raise UserError(
                f"Dataset '{self.name}' has no classes; at least one class with images is needed."
            )
        empty = [c for c, size in zip(self.class_ids, self.sizes, strict=True) if size <= 0]
        if empty:
            raise UserError(
                f"Dataset '{self.name}' has {count(empty, 'class', 'classes')} without images "
                f"({first(empty)}); add images or remove them."
            )

    def with_identity(self, identity: str | None) -> Dataset:
        """Return the same dataset, identified by the bytes of its images or by their names only.

        Parameters
        ----------
        identity : {"content", "names"} or None
            None leaves it as it is.

        Returns
        -------
        Dataset
        """
        if identity is None or identity == self.identity:
            return self
        return replace(self, identity=check_identity(identity))

    def __repr__(self) -> str:
        from longshot.data.catalogue import as_text

        return as_text(self)

    def _repr_html_(self) -> str:
        from longshot.data.catalogue import as_html

        return as_html(self)

    @cached_property
    def fingerprint(self) -> str:
        """Hash class ids and the keys of each class, and nothing else: SHA-256 in hex.

        Pixels, attributes and taxonomy do not take part: columns can be added later, and a copy of the
        dataset elsewhere (say, in a zip) has the same fingerprint.
        """
        digest = hashlib.sha256(b"longshot dataset 1\n")
        for strings in (list(self.class_ids), self.keys.to_pylist()):
            encoded = [s.encode() for s in strings]
            digest.update(np.array([len(e) for e in encoded], dtype="<i8").tobytes())
            digest.update(b"".join(encoded))
        digest.update(self.offsets.astype("<i8").tobytes())
        return digest.hexdigest()

    @cached_property
    def class_names(self) -> tuple[str, ...]:
        """Return the last path part of each class id, [C]."""
        return tuple(class_id.rsplit("/", 1)[-1] for class_id in self.class_ids)

    @property
    def sizes(self) -> Ints:
        """Count the images of each class, [C]."""
        return np.diff(self.offsets)

    def __len__(self) -> int:
        return len(self.keys)

    @cached_property
    def labels(self) -> NDArray[np.int32]:
        """Return the class index of each row, [N]."""
        return np.repeat(np.arange(len(self.class_ids), dtype=np.int32), self.sizes)

    def rows(self, class_index: int) -> slice:
        """Return the rows of a class as a slice.

        Parameters
        ----------
        class_index : int
            Position in ``class_ids``.
        """
        return slice(int(self.offsets[class_index]), int(self.offsets[class_index + 1]))

    @cached_property
    def _index(self) -> dict[str, int]:
        return {class_id: i for i, class_id in enumerate(self.class_ids)}

    def class_index(self, class_id: str) -> int:
        """Return the position of a class id in ``class_ids``.

        Parameters
        ----------
        class_id : str
            A class; UserError with the nearest name where there is none.
        """
        index = self._index.get(class_id)
        if index is None:
            same_name = [c for c in self.class_ids if c.rsplit("/", 1)[-1] == class_id]
            near = same_name or get_close_matches(class_id, self.class_ids, n=1)
            hint = f"did you mean '{near[0]}'?" if near else f"see {{data.describe_dataset({self.source})}}."
            raise UserError(
                f"Dataset '{self.name}' has no class '{class_id}' among its {len(self.class_ids):,}; {hint}"
            )
        return index

    def image(self, row: int) -> Image:
        """Read one image: RGB, upright.

        Parameters
        ----------
        row : int
            Which image, 0 to N − 1.

        Returns
        -------
        PIL.Image.Image
            Mode RGB.
        """
        return self.store.read(int(row))

    def find_rows(self, keys: pa.Array) -> Ints:
        """Find the rows of some ``keys``; those that are not in the dataset are named in the error, [M].

        Parameters
        ----------
        keys : pyarrow.Array [M] of str
            Names of images.

        Returns
        -------
        array [M] of int
        """
        indices = pc.index_in(keys, value_set=self.keys)
        if isinstance(indices, pa.ChunkedArray):
            indices = indices.combine_chunks()
        if indices.null_count:
            missing = pc.unique(pc.filter(keys, pc.is_null(indices))).to_pylist()
            raise UserError(
                f"Dataset '{self.name}' lacks {count(missing, 'image')} of {len(keys):,} asked for "
                f"({first(missing)}); open the copy that has them or draw the tasks again."
            )
        rows: Ints = indices.to_numpy(zero_copy_only=False).astype(np.int64)
        return rows

    def split_classes(self, split: str | None) -> Ints:
        """Return the class indices of a split (``train``, ``validation``, ``test``), or of all classes when ``None``.

        Parameters
        ----------
        split : str or None
            train, validation or test, in any usual spelling.

        Returns
        -------
        array of int, ascending
        """
        if split is None:
            return np.arange(len(self.class_ids), dtype=np.int64)
        members = self.splits.get(canonical_split(split) or split)
        if members is None:
            have = ", ".join(self.splits) or "none"
            raise UserError(
                f"Dataset '{self.name}' has no split '{split}' (splits found: {have})",
                "leave {split} out to use all classes, or add a split.json beside the images",
            )
        return np.array(sorted(self.class_index(c) for c in members), dtype=np.int64)


# ---- the hierarchy above its classes

_ID = re.compile(r"n\d{8}")


def is_wordnet_id(text: str) -> bool:
    """Tell whether a text is a WordNet id such as ``n01440764``: an ``n`` and the eight digits of a synset's offset."""
    return _ID.fullmatch(text) is not None


def with_taxonomy(dataset: Dataset, taxonomy: TaxonomyLike | None) -> Dataset:
    """Put a hierarchy above the classes of a dataset, in place of its own.

    Parameters
    ----------
    dataset : Dataset
        Any dataset.
    taxonomy : str, Path or Taxonomy, optional
        A taxonomy file (see ``read_taxonomy``), ``"wordnet"`` for classes that are called by WordNet ids, or a
        taxonomy; None leaves the dataset as it is. UserError where it lacks a class.

    Returns
    -------
    Dataset
        ``taxonomy_from`` says what it was put in place from.

    Examples
    --------
    >>> from longshot.data import Taxonomy, open_dataset
    >>> toybox = open_dataset("toybox")
    >>> flat = Taxonomy.from_edges([("toys", class_id) for class_id in toybox.class_ids])
    >>> len(with_taxonomy(toybox, flat).taxonomy) == len(toybox.class_ids) + 1
    True
    """
    if taxonomy is None:
        return dataset
    from longshot.data.taxonomy.readers import taxonomy_for

    tree, name = taxonomy_for(dataset, taxonomy)
    missing = [class_id for class_id in dataset.class_ids if class_id not in tree]
    if missing:
        raise UserError(
            f"The taxonomy {name} lacks {len(missing):,} of the {len(dataset.class_ids):,} classes of '{dataset.name}' "
            f"({first(missing)})",
            "add an edge 'parent,child' for each, or give another {taxonomy}",
        )
    tree = tree.restrict(dataset.class_ids)
    return replace(dataset, taxonomy=tree, taxonomy_from=f"{name} {hash_json(tree.to_json())[:12]}")


def with_distances(
    dataset: Dataset, path: str | os.PathLike[str] | None, order: Sequence[str] | None = None
) -> Dataset:
    """Put distances from a CSV or ``.npy`` file between the classes; see ``read_distances``."""
    if path is None:
        return dataset
    from longshot.data.taxonomy.distances import read_distances

    matrix = read_distances(path, dataset.class_ids, order)
    return replace(dataset, distances=matrix, distances_from=f"{Path(path).name} {hash_file(path)[:12]}")


def distances_among(dataset: Dataset, classes: Ints) -> Floats:
    """Return the distances from a file between classes [P], [P, P]; UserError where it lacks some."""
    assert dataset.distances is not None
    own: Floats = dataset.distances[np.ix_(classes, classes)]
    missing = [dataset.class_ids[classes[at]] for at in np.flatnonzero(np.isnan(np.diag(own)))]
    if missing:
        raise UserError(
            f"The distances of {dataset.distances_from} lack {count(missing, 'class', 'classes')} of {len(classes):,} "
            f"({first(missing)})",
            "add a row and a column for each",
        )
    return own


def with_reduction(dataset: Dataset, reduction: str | None) -> Dataset:
    """Reduce the taxonomy of a dataset for all of its classes; without one, return the dataset as it is."""
    if reduction is None or dataset.taxonomy is None:
        return dataset
    from longshot.data.taxonomy.distances import reduce_taxonomy

    return replace(dataset, taxonomy=reduce_taxonomy(dataset.taxonomy, dataset.class_ids, reduction))


def class_labels(dataset: Dataset) -> dict[str, str]:
    """Map classes to what the taxonomy calls them, where their own name does not say it already."""
    labels = {} if dataset.taxonomy is None else dataset.taxonomy.labels
    names = zip(dataset.class_ids, dataset.class_names, strict=True)
    return {class_id: labels[class_id] for class_id, name in names if labels.get(class_id, name) != name}


def taxonomy_facts(dataset: Dataset, reduction: str | None) -> dict[str, str]:
    """Return what a file records of taxonomy and distances; nothing where they are the dataset's own, unreduced."""
    facts = {"taxonomy": dataset.taxonomy_from, "distances": dataset.distances_from}
    facts["reduction"] = None if dataset.taxonomy is None else reduction
    return {name: value for name, value in facts.items() if value is not None}


def has_wordnet_ids(dataset: Dataset) -> bool:
    """Tell whether every class is called by a WordNet id, as ImageNet's are (n01440764)."""
    return all(map(is_wordnet_id, dataset.class_ids))


def no_taxonomy(dataset: Dataset, consequence: str, remedy: str = "") -> UserError:
    """Return the error for a dataset whose classes have no hierarchy where one is needed.

    Parameters
    ----------
    dataset : Dataset
        One without a taxonomy.
    consequence : str
        What follows, behind "has no taxonomy": ", so no super-classes", " to compare with".
    remedy : str
        What else could be done, behind the usual ways to bring a taxonomy.
    """
    ways = "nest its class folders (Fruit/Apple, Fruit/Pear …), add a taxonomy.csv or give {taxonomy:FILE}"
    if has_wordnet_ids(dataset):
        ways = "its classes are called by WordNet ids: give {taxonomy:wordnet}, or {taxonomy:FILE}"
    return UserError(f"Dataset '{dataset.name}' has no taxonomy{consequence}", ways + remedy)
