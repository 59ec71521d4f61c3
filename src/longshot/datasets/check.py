"""Decoding every image once, to know which cannot be read, and leaving those out."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, runtime_checkable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from longshot.core.errors import UserError
from longshot.core.progress import progress
from longshot.core.wording import count, first
from longshot.datasets.dataset import Dataset
from longshot.datasets.images import ImageError
from longshot.datasets.part import take_rows
from longshot.datasets.scan import load_table, save_table, scan_file, scan_files
from longshot.datasets.stores import prepare_rows

_BLOCK = 512  # images between two looks at the clock
_SAVE_EVERY = 15.0  # seconds of work that a kill can cost


@runtime_checkable
class Stamped(Protocol):
    """A store that says when the file behind a row changed."""

    def stamp(self, row: int) -> tuple[int, int]: ...


def find_bad(dataset: Dataset, workers: int | None = None, *, refresh: bool = False) -> list[tuple[str, str]]:
    """Decode every image and list those that cannot be read.

    Each image is decoded once and the outcome remembered: a later call decodes only files that are new or
    changed, and a call that was interrupted goes on where it stopped. Threads do the work, since Pillow
    decodes outside Python's lock.

    Parameters
    ----------
    dataset : Dataset
        With every image it has, as ``load`` opens it.
    workers : int, optional
        Threads that decode; all cores by default.
    refresh : bool
        Decode every image again.

    Returns
    -------
    list of (str, str)
        Key and reason of each, in the order of the dataset.
    """
    rows = range(len(dataset))
    store = dataset.store
    stamped = isinstance(store, Stamped)
    stamps = [store.stamp(row) for row in rows] if isinstance(store, Stamped) else []
    keys: list[str] = dataset.keys.to_pylist()
    earlier = {} if refresh or not stamped else _load(dataset.source)
    outcome: dict[int, str] = {}  # row -> reason, "" when it reads well
    for row in rows:
        if stamped and (before := earlier.get((keys[row], *stamps[row]))) is not None:
            outcome[row] = before
    todo = [row for row in rows if row not in outcome]
    prepare_rows(store, np.array(todo, np.int64))

    def attempt(row: int) -> str:
        try:
            store.read(row)
        except ImageError as error:
            return error.reason
        return ""

    def save() -> None:
        if stamped:
            done = sorted(outcome)
            _save(dataset.source, [(keys[r], *stamps[r], outcome[r]) for r in done])

    if todo:
        saved = time.monotonic()
        with (
            progress(f"check images of {dataset.name}", total=len(keys), unit="images") as bar,
            ThreadPoolExecutor(workers or os.cpu_count() or 1) as pool,
        ):
            bar.skip(len(outcome))
            for start in range(0, len(todo), _BLOCK):
                block = todo[start : start + _BLOCK]
                outcome.update(zip(block, pool.map(attempt, block), strict=True))
                bar.advance(len(block))
                if time.monotonic() - saved > _SAVE_EVERY:
                    save()
                    saved = time.monotonic()
        save()
    return [(keys[row], outcome[row]) for row in rows if outcome[row]]


def leave_out(dataset: Dataset, bad: Mapping[str, str]) -> Dataset:
    """The dataset without the images in ``bad`` (key → reason); they are listed in ``skipped``.

    A class that loses all its images is an error, because leaving it out would change what is measured.
    """
    drop = pc.is_in(dataset.keys, value_set=pa.array(list(bad), pa.string()))
    mask = drop.to_numpy(zero_copy_only=False)
    if not mask.any():
        return dataset
    rows = np.flatnonzero(~mask)
    sizes = np.bincount(dataset.labels[rows], minlength=len(dataset.class_ids))
    empty = np.flatnonzero(sizes == 0)
    if len(empty):
        key = dataset.keys[int(dataset.offsets[empty[0]])].as_py()
        raise UserError(
            f"Dataset '{dataset.name}' has {count(len(empty), 'class', 'classes')} without one readable "
            f"image ({first([dataset.class_ids[i] for i in empty])}; '{key}': {bad[key]}); mend the images "
            f"or remove the class."
        )
    skipped = tuple(dataset.keys.filter(drop).to_pylist())
    return take_rows(dataset, rows, skipped=skipped, taxonomy=dataset.taxonomy, splits=dataset.splits)


def _load(source: str) -> dict[tuple[str, int, int], str]:
    outcomes: dict[tuple[str, int, int], str] = {}
    for file in reversed(scan_files(source, "check")):  # the best place has the last word
        table = load_table(file)
        if table is not None and table.column_names == ["key", "size", "stamp", "reason"]:
            columns = table.to_pydict()
            for key, size, stamp, reason in zip(*columns.values(), strict=True):
                outcomes[key, size, stamp] = reason
    return outcomes


def _save(source: str, entries: Sequence[tuple[str, int, int, str]]) -> None:
    schema = pa.schema(
        [("key", pa.string()), ("size", pa.int64()), ("stamp", pa.int64()), ("reason", pa.string())]
    )
    columns = list(zip(*entries, strict=True)) or [(), (), (), ()]
    table = pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)
    save_table(scan_file(source, "check"), table)
