"""A dataset without some of its images or classes, as a small file that opens like any other dataset.

``birds-deduplicated.view.json`` names the dataset it is a view of, and the keys and classes left out. Keys, classes,
splits, taxonomy and attributes of what remains are those of the whole, whatever kind of source it is.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from longshot.core.errors import UserError
from longshot.core.files import cache_dir, write_json
from longshot.datasets.dataset import Dataset, count, first
from longshot.datasets.formats.base import Format
from longshot.datasets.stores import RowsStore, escape_name

FORMAT = 1
ENDING = ".view.json"


def without(dataset: Dataset, keys: Collection[str], classes: Collection[str], name: str) -> Dataset:
    """The dataset without these images and classes; a class that loses all its images goes with them."""
    for class_id in classes:
        dataset.class_index(class_id)  # an unknown one is an error
    left = pc.is_in(dataset.keys, value_set=pa.array(sorted(keys), pa.string())).to_numpy(
        zero_copy_only=False
    )
    gone = np.isin(np.array(dataset.class_ids), np.array(sorted(classes), np.str_))
    rows = np.flatnonzero(~(left | gone[dataset.labels]))
    if not len(rows):
        raise UserError(
            f"Leaving out {count(len(keys), 'image')} and {count(len(classes), 'class', 'classes')} leaves nothing of "
            f"the {len(dataset):,} images of '{dataset.name}'; leave out less."
        )
    sizes = np.bincount(dataset.labels[rows], minlength=len(dataset.class_ids))
    kept = np.flatnonzero(sizes)
    ids = tuple(dataset.class_ids[c] for c in kept)
    chosen = set(ids)
    splits = {split: tuple(c for c in members if c in chosen) for split, members in dataset.splits.items()}
    return replace(
        dataset,
        name=name,
        class_ids=ids,
        offsets=np.concatenate([[0], np.cumsum(sizes[kept])]).astype(np.int64),
        keys=dataset.keys.take(pa.array(rows)),
        store=RowsStore(dataset.store, rows),
        taxonomy=dataset.taxonomy.restrict(ids) if dataset.taxonomy is not None else None,
        attributes=None if dataset.attributes is None else dataset.attributes.take(pa.array(rows)),
        splits={split: members for split, members in splits.items() if members},
    )


def write_view(
    path: str | Path, dataset: Dataset, keys: Collection[str], classes: Collection[str], why: dict[str, Any]
) -> Dataset:
    """Write the view file and return what it opens as; ``why`` tells how it came about."""
    path = Path(path)
    if not path.name.endswith(ENDING):
        raise UserError(f"A view of a dataset is a file that ends with {ENDING}; '{path}' does not.")
    name = path.name.removesuffix(ENDING)
    view = without(dataset, keys, classes, name)
    content = {
        "longshot": "view",
        "format": FORMAT,
        "source": dataset.source,
        "dataset": dataset.name,
        "of": dataset.fingerprint,
        "fingerprint": view.fingerprint,
        "without_keys": sorted(keys),
        "without_classes": sorted(classes),
        "why": why,
    }
    write_json(path, content)
    _remember(content)
    return replace(view, source=ViewFormat().source(path.absolute()))


class ViewFormat(Format):
    """The format of view files, found by their ending."""

    name: ClassVar[str] = "view"
    title: ClassVar[str] = "another dataset without some of its images or classes"
    origin: ClassVar[str] = "'longshot datasets without' writes it from an overlap file"
    layout: ClassVar[str] = f"one file that ends with {ENDING}"

    @classmethod
    def recognise(cls, path: Path) -> bool:
        return path.name.endswith(ENDING)

    def open(self, path: Path, name: str, *, refresh: bool = False) -> Dataset:
        return replace(open_view(path, name.removesuffix(".view")), source=self.source(path))


def open_view(path: Path, name: str) -> Dataset:
    """The dataset that a view file describes."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["longshot"] != "view" or content["format"] != FORMAT:
            raise KeyError("format")
        source, of = str(content["source"]), str(content["of"])
        keys, classes = list(content["without_keys"]), list(content["without_classes"])
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"{path} is no view that this Longshot reads ({error}); make it with 'longshot datasets without'."
        ) from error
    whole = _whole(source, of, str(content.get("dataset", source)), path)
    absent = set(keys) - set(whole.keys.to_pylist())
    if absent or whole.fingerprint != of:
        raise UserError(
            f"{path} is a view of a dataset with fingerprint {of[:12]}, but {source} has {whole.fingerprint[:12]}"
            f"{f' and lacks {first(sorted(absent))}' if absent else ''}; make the view again from its overlap file."
        )
    view = replace(without(whole, keys, classes, name), source=escape_name(str(path)))
    _remember({**content, "fingerprint": view.fingerprint})
    return view


def origin(fingerprint: str) -> tuple[str, frozenset[str]]:
    """(fingerprint of the whole, keys left out) when this is the fingerprint of a view, else (itself, nothing)."""
    keys: set[str] = set()
    while (file := _file(fingerprint)).is_file():
        content = json.loads(file.read_text(encoding="utf-8"))
        keys.update(content["without_keys"])
        fingerprint = content["of"]
    return fingerprint, frozenset(keys)


def _whole(source: str, fingerprint: str, name: str, path: Path) -> Dataset:
    """The dataset behind a view: where it was, or wherever it is known to be now."""
    from longshot.datasets import open_dataset, registry

    try:
        return open_dataset(source)
    except UserError as error:
        try:
            return registry.find(fingerprint, name)
        except UserError:
            raise UserError(f"{path} is a view of '{name}', which cannot be opened: {error}") from error


def _remember(content: dict[str, Any]) -> None:
    """Keep what a view leaves out where ``origin`` finds it by fingerprint; a view of nothing left out is the whole."""
    if content["fingerprint"] != content["of"]:
        write_json(_file(str(content["fingerprint"])), content)


def _file(fingerprint: str) -> Path:
    return cache_dir("overlap") / f"view-{fingerprint[:32]}.json"
