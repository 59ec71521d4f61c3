"""Datasets made of others: without some images or classes, as a view file.

``birds-deduplicated.view.json`` names the dataset it is a view of, and the keys and classes left out. Keys, classes,
splits, taxonomy and attributes of what remains are those of the original, whatever kind of source it is.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

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
    json_text,
    read_json,
    write_json,
)
from longshot.data.dataset import Dataset
from longshot.data.formats.base import Format
from longshot.data.opening import VIEW_ENDING, take_rows

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
    sign = r".*\.view\.json"
    rank = 1
    title = "another dataset without some of its images or classes"
    origin = "made from an overlap file, which tells what two datasets share"
    layout = f"one file that ends with {VIEW_ENDING}"

    @classmethod
    def recognise(cls, path: Path) -> bool:
        return path.name.endswith(VIEW_ENDING)

    def open(self, path: Path, name: str, *, refresh: bool = False) -> Dataset:
        return replace(open_view(path, name.removesuffix(".view")), source=self.source(path))


def open_view(path: Path, name: str) -> Dataset:
    """Open the dataset that a view file describes."""
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
    return view


def leave_out_images(dataset: Dataset, keys: Collection[str], classes: Collection[str], name: str) -> Dataset:
    """Return the dataset without these images and classes; a class that loses all its images goes with them."""
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
    """Return (fingerprint of the original, keys left out) for the fingerprint of a view, else (itself, nothing)."""
    keys: set[str] = set()
    while (file := find_cached(*_record(fingerprint))) is not None:
        view_file = read_json(ViewFile, file, "The record of a view")
        keys.update(view_file.without_keys)
        fingerprint = view_file.of
    return fingerprint, frozenset(keys)


def _original(view_file: ViewFile, path: Path) -> Dataset:
    """Open the dataset behind a view: where it was, or wherever it is known to be now."""
    from longshot.data import registry
    from longshot.data.opening import open_dataset

    name = view_file.dataset or view_file.source
    try:
        return open_dataset(view_file.source)
    except UserError as error:
        try:
            return registry.reopen_dataset(view_file.of, name)
        except UserError:
            raise UserError(
                f"{path} is a view of '{name}', which cannot be opened: {error.template}"
            ) from error


def _record(fingerprint: str) -> tuple[str, str]:
    """Return the folder and the file of the cache in which a view is remembered."""
    return "overlap", f"view-{fingerprint[:32]}.json"
