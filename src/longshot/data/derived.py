"""Datasets made of others: without some images or classes, as a view file, or with another hierarchy of classes.

``birds-deduplicated.view.json`` names the dataset it is a view of, and the keys and classes left out. Keys, classes,
splits, taxonomy and attributes of what remains are those of the original, whatever kind of source it is. A file of
edges, a taxonomy or WordNet, for classes that are called by its ids, can stand in place of a dataset's own hierarchy.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from longshot.base import (
    LooseRecord,
    OutputKind,
    UserError,
    cache_dir,
    count,
    deliver_json,
    find_cached,
    first,
    has_json,
    hash_json,
    json_text,
    note,
    read_json,
    write_json,
)
from longshot.data.dataset import Dataset
from longshot.data.formats.base import Format, remembered
from longshot.data.opening import take_rows
from longshot.data.stores import escape_name
from longshot.data.taxonomy import Taxonomy
from longshot.data.taxonomy.distances import reduce_taxonomy
from longshot.data.taxonomy.readers import find_wordnet, read_taxonomy, read_wordnet

VIEW_ENDING = ".view.json"
VIEW_KIND = OutputKind("view of a dataset", {VIEW_ENDING: has_json(longshot="view")}, bare=False)


class ViewFile(LooseRecord):
    """What a view file holds."""

    longshot: Literal["view"] = "view"
    format: Literal[1] = 1
    source: str
    dataset: str = ""  # the original's name
    of: str  # the original's fingerprint
    fingerprint: str = ""
    without_keys: tuple[str, ...]
    without_classes: tuple[str, ...]
    why: dict[str, Any] = Field(default_factory=dict)

    def save(self, path: Path) -> None:
        """Write the file; what it leaves out is also kept where ``view_origin`` finds it."""
        deliver_json(path, self.model_dump())
        self.remember()

    def remember(self) -> None:
        """Keep what the view leaves out in the cache, by fingerprint, unless it leaves out nothing."""
        if self.fingerprint != self.of:
            folder, name = _record(self.fingerprint)
            earlier = find_cached(folder, name)
            if earlier is None or earlier.read_text("utf-8", "replace") != json_text(self.model_dump()):
                write_json(cache_dir(folder) / name, self.model_dump())


class ViewFormat(Format):
    """The format of view files, recognised by their ending."""

    name = "view"
    title = "another dataset without some of its images or classes"
    origin = "made from an overlap file, which tells what two datasets share"
    layout = f"one file that ends with {VIEW_ENDING}"

    @classmethod
    def recognise(cls, path: Path) -> bool:
        return path.name.endswith(VIEW_ENDING)

    def open(self, path: Path, name: str, *, refresh: bool = False) -> Dataset:
        return replace(open_view(path, name.removesuffix(".view")), source=self.source(path))


def open_view(path: Path, name: str) -> Dataset:
    """The dataset that a view file describes."""
    try:
        view_file = read_json(ViewFile, path, "the file")
    except UserError as error:
        raise UserError(
            f"{path} is no view that this Longshot reads ({error.template.rstrip('.')})",
            "make it with {audit.leave_out_overlap(DATASET, OVERLAP_FILE, out=FILE)}",
        ) from error
    original = _original(view_file, path)
    absent = set(view_file.without_keys) - set(original.keys.to_pylist())
    if absent or original.fingerprint != view_file.of:
        raise UserError(
            f"{path} is a view of a dataset with fingerprint {view_file.of[:12]}, but {view_file.source} has "
            f"{original.fingerprint[:12]}{f' and lacks {first(sorted(absent))}' if absent else ''}",
            "make the view again from its overlap file",
        )
    view = leave_out_images(original, view_file.without_keys, view_file.without_classes, name)
    view_file.model_copy(update={"fingerprint": view.fingerprint}).remember()
    return replace(view, source=escape_name(str(path)))


def leave_out_images(dataset: Dataset, keys: Collection[str], classes: Collection[str], name: str) -> Dataset:
    """The dataset without these images and classes; a class that loses all its images goes with them."""
    for class_id in classes:
        dataset.class_index(class_id)  # an unknown one is an error
    dropped_keys = pc.is_in(dataset.keys, value_set=pa.array(sorted(keys), pa.string()))
    dropped_classes = np.isin(np.array(dataset.class_ids), np.array(sorted(classes), np.str_))
    dropped = dropped_keys.to_numpy(zero_copy_only=False) | dropped_classes[dataset.labels]
    rows = np.flatnonzero(~dropped)
    if not len(rows):
        raise UserError(
            f"Leaving out {count(len(keys), 'image')} and {count(len(classes), 'class', 'classes')} leaves nothing of "
            f"the {len(dataset):,} images of '{dataset.name}'",
            "leave out less",
        )
    return take_rows(dataset, rows, name=name)


def view_origin(fingerprint: str) -> tuple[str, frozenset[str]]:
    """(fingerprint of the original, keys left out) when this is the fingerprint of a view, else (itself, nothing)."""
    keys: set[str] = set()
    while (file := find_cached(*_record(fingerprint))) is not None:
        view_file = read_json(ViewFile, file, "The record of a view")
        keys.update(view_file.without_keys)
        fingerprint = view_file.of
    return fingerprint, frozenset(keys)


def _original(view_file: ViewFile, path: Path) -> Dataset:
    """The dataset behind a view: where it was, or wherever it is known to be now."""
    from longshot.data import registry
    from longshot.data.opening import open_dataset

    name = view_file.dataset or view_file.source
    try:
        return open_dataset(view_file.source)
    except UserError as error:
        try:
            return registry.find(view_file.of, name)
        except UserError:
            raise UserError(
                f"{path} is a view of '{name}', which cannot be opened: {error.template}"
            ) from error


def _record(fingerprint: str) -> tuple[str, str]:
    """Folder and file of the cache in which a view is remembered."""
    return "overlap", f"view-{fingerprint[:32]}.json"


_ID = re.compile(r"n\d{8}")


def is_wordnet_id(text: str) -> bool:
    """``n01440764``: an ``n`` and the eight digits of a synset's offset."""
    return _ID.fullmatch(text) is not None


def wordnet_above(class_ids: Sequence[str], instead: Taxonomy | None = None) -> Taxonomy | None:
    """The part of WordNet above the classes; ``instead`` (with a note) where WordNet is missing or lacks a class."""
    if not all(map(is_wordnet_id, class_ids)):
        return instead
    lacking = (
        "the classes have no WordNet hierarchy"
        if instead is None
        else "only the split's own hierarchy is used"
    )
    try:
        return wordnet_part(class_ids)
    except UserError as error:
        note(f"{lacking}: {error.template}")
        return instead


def wordnet_part(class_ids: Sequence[str]) -> Taxonomy:
    """The part of WordNet above the classes; UserError where WordNet is missing or lacks a class.

    Reading all of WordNet takes over a second, so the part is remembered.
    """
    table = remembered(
        f"wordnet above {hash_json(sorted(class_ids))}", [find_wordnet()], lambda: _as_table(class_ids)
    )
    labels = dict(zip(table["child"].to_pylist(), table["label"].to_pylist(), strict=True))
    edges = [
        (parent, child)
        for parent, child in zip(table["parent"].to_pylist(), table["child"].to_pylist(), strict=True)
        if parent is not None
    ]
    return Taxonomy.from_edges(edges, labels)


def _as_table(class_ids: Sequence[str]) -> pa.Table:
    """Edges in WordNet's order with the label of the child; the root has no parent."""
    wordnet = read_wordnet()
    missing = [class_id for class_id in class_ids if class_id not in wordnet]
    if missing:
        raise UserError(
            f"WordNet 3.0 lacks {count(missing, 'class', 'classes')} of {len(class_ids):,} ({first(missing)}); are the "
            f"folders called by ImageNet's ids?"
        )
    part = wordnet.restrict(class_ids)
    edges = [(None, part.root), *part.edges]
    return pa.table(
        {
            "parent": pa.array([parent for parent, _ in edges], pa.string()),
            "child": pa.array([child for _, child in edges], pa.string()),
            "label": pa.array([part.label(child) for _, child in edges], pa.string()),
        }
    )


TaxonomyLike: TypeAlias = "str | os.PathLike[str] | Taxonomy"
WORDNET = "wordnet"


def with_taxonomy(dataset: Dataset, taxonomy: TaxonomyLike | None) -> Dataset:
    """The dataset with a hierarchy above its classes in place of its own.

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
    >>> from longshot.data import open_dataset
    >>> toybox = open_dataset("toybox")
    >>> flat = Taxonomy.from_edges([("toys", class_id) for class_id in toybox.class_ids])
    >>> len(with_taxonomy(toybox, flat).taxonomy) == len(toybox.class_ids) + 1
    True
    """
    if taxonomy is None:
        return dataset
    tree, name = _open(taxonomy, dataset)
    missing = [class_id for class_id in dataset.class_ids if class_id not in tree]
    if missing:
        raise UserError(
            f"The taxonomy {name} lacks {len(missing):,} of the {len(dataset.class_ids):,} classes of '{dataset.name}' "
            f"({first(missing)})",
            "add an edge 'parent,child' for each, or give another {taxonomy}",
        )
    tree = tree.restrict(dataset.class_ids)
    return replace(dataset, taxonomy=tree, taxonomy_from=f"{name} {hash_json(tree.to_json())[:12]}")


def reduced(dataset: Dataset, reduction: str | None) -> Dataset:
    """The dataset with its taxonomy reduced for all of its classes; itself where there is nothing to reduce."""
    if reduction is None or dataset.taxonomy is None:
        return dataset
    return replace(dataset, taxonomy=reduce_taxonomy(dataset.taxonomy, dataset.class_ids, reduction))


def class_labels(dataset: Dataset) -> dict[str, str]:
    """Class → what the taxonomy calls it, for the classes whose own name does not say it already."""
    labels = {} if dataset.taxonomy is None else dataset.taxonomy.labels
    names = zip(dataset.class_ids, dataset.class_names, strict=True)
    return {class_id: labels[class_id] for class_id, name in names if labels.get(class_id, name) != name}


def taxonomy_facts(dataset: Dataset, reduction: str | None) -> dict[str, str]:
    """What a file tells of the taxonomy that it was made by; nothing where it is the dataset's own and whole."""
    if dataset.taxonomy is None:
        return {}
    facts = {"taxonomy": dataset.taxonomy_from, "reduction": reduction}
    return {name: value for name, value in facts.items() if value is not None}


def has_wordnet_ids(dataset: Dataset) -> bool:
    """Whether every class is called by a WordNet id, as ImageNet's are (n01440764)."""
    return all(map(is_wordnet_id, dataset.class_ids))


def no_taxonomy(dataset: Dataset, consequence: str, remedy: str = "") -> UserError:
    """The error for a dataset whose classes have no hierarchy where one is needed.

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


def _open(taxonomy: TaxonomyLike, dataset: Dataset) -> tuple[Taxonomy, str]:
    """The taxonomy and what it is called."""
    if isinstance(taxonomy, Taxonomy):
        return taxonomy, "that was given"
    if taxonomy != WORDNET:
        return read_taxonomy(taxonomy), Path(taxonomy).name
    other = [class_id for class_id in dataset.class_ids if not is_wordnet_id(class_id)]
    if other:
        raise UserError(
            f"{{taxonomy:wordnet}} needs classes that are called by WordNet ids, such as n01440764, and "
            f"{len(other):,} of the {len(dataset.class_ids):,} classes of '{dataset.name}' are not ({first(other)})",
            "give {taxonomy:FILE}",
        )
    return wordnet_part(dataset.class_ids), "WordNet 3.0"
