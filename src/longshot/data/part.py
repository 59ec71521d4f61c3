"""Parts of a dataset: some of its rows, the classes under one branch of its class ids, what can be read of it."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from longshot.base import Ints, UserError, count, first, offsets_of, progress
from longshot.data.dataset import Dataset
from longshot.data.images import ImageError
from longshot.data.scan import load_table, save_table, scan_file, scan_files
from longshot.data.stores import RowsStore, prepare_rows, stamps_of

_BLOCK = 512  # images between two looks at the clock
_SAVE_EVERY = 15.0  # seconds of work that a kill can cost


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
    keys: list[str] = dataset.keys.to_pylist()
    # key, and size and time of the file behind it; −1 where that says nothing
    looks = list(zip(keys, *stamps_of(store, np.arange(len(rows)))[:, :2].T.tolist(), strict=True))
    earlier = {} if refresh else _load(dataset.source)
    # row -> reason, "" when it reads well
    outcome = {row: earlier[look] for row, look in enumerate(looks) if look[1] >= 0 and look in earlier}
    todo = [row for row in rows if row not in outcome]
    prepare_rows(store, np.array(todo, np.int64))

    def attempt(row: int) -> str:
        try:
            store.read(row)
        except ImageError as error:
            return error.reason
        return ""

    def save() -> None:
        done = [(*looks[row], outcome[row]) for row in sorted(outcome) if looks[row][1] >= 0]
        if done:
            _save(dataset.source, done)

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
    columns = zip(*entries, strict=True)
    table = pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)
    save_table(scan_file(source, "check"), table)
