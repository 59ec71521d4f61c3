"""Every image of a dataset read once, shard by shard: its pixels at one size, or numbers read off it.

Pixels are bytes in one memory-mapped file, of which training reads episodes as slices.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from longshot.base import (
    PREPROCESSING_RULES,
    Crew,
    Ints,
    Preprocessing,
    Progress,
    Tick,
    cache_dir,
    cache_places,
    executor,
    hash_text,
    parse_preprocessing,
    progress,
)
from longshot.data import Dataset, ImageStore, plan_shipment
from longshot.models.features.cache import Shards, hold_lock, open_guarded
from longshot.models.features.decode import decode_rows, unreadable_images
from longshot.models.features.lookup import content_of

_SHARD_BYTES = 32 << 20  # a piece of finished work: what a kill can cost, and what is held in memory
_STEP = 64  # images decoded at a time


def cached_pixels(
    dataset: Dataset,
    preprocessing: str | Preprocessing,
    *,
    rows: Ints | None = None,
) -> NDArray[np.uint8]:
    """Return the bytes [N, H, W, 3] of all images in the dataset's order, from the cache where it has them.

    Parameters
    ----------
    dataset : Dataset
        N images.
    preprocessing : str or Preprocessing
        Its geometry (all but value_range and normalize) is applied.
    rows : array [n] of int, optional
        Only these images, in this order: the others are not read. [n, H, W, 3] comes back.
    """
    transform = geometry(preprocessing)
    file = pixels_name(dataset, transform, rows)
    shape = (len(dataset) if rows is None else len(rows), *transform.size, 3)
    for cached in cache_places("pixels", file):
        if (array := _open(cached, shape)) is not None:
            return array
    path = cache_dir("pixels") / file
    with hold_lock(path):
        if (array := _open(path, shape)) is not None:  # made by another process while we waited
            return array
        row_bytes = int(np.prod(shape[1:]))
        shards = Shards(path, "pixels", shape[0], max(_STEP, _SHARD_BYTES // row_bytes), "uint8")
        every = np.arange(len(dataset)) if rows is None else rows
        with progress(f"decode {dataset.name}", shape[0], "images") as bar:
            describe = partial(_bytes_of, transform, every)
            read_shards(dataset, shards, describe, bar, step=_STEP, workers=os.cpu_count() or 1, rows=every)
        shards.assemble()
        shards.remove()
    array = _open(path, shape)
    assert array is not None
    return array


def geometry(preprocessing: str | Preprocessing) -> Preprocessing:
    """Keep the steps that move pixels, without those that only scale values."""
    text = preprocessing if isinstance(preprocessing, str) else preprocessing.text
    steps = parse_preprocessing(text).text.split("|")
    return parse_preprocessing(
        "|".join(step for step in steps if not step.startswith(("value_range", "normalize")))
    )


def pixels_name(dataset: Dataset, transform: Preprocessing, rows: Ints | None = None) -> str:
    """Name the file: the name of the dataset for people, the hash of content and geometry for us."""
    content = content_of(dataset, rows).digest
    part = "" if rows is None else hashlib.sha256(np.ascontiguousarray(rows, np.int64).data).hexdigest()
    facts = (PREPROCESSING_RULES, dataset.fingerprint, transform.text, content, *([part] if part else []))
    address = hash_text("longshot pixels 2", *facts)
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", dataset.name)[:40]
    height, width = transform.size
    return f"{name}-{height}x{width}-{address[:32]}.npy"


def _open(path: Path, shape: tuple[int, ...]) -> NDArray[np.uint8] | None:
    """Open the array where it is complete, and mark it as used."""
    array = open_guarded(path)
    if array is None or array.dtype != np.uint8 or array.shape != (shape[0], int(np.prod(shape[1:]))):
        return None
    return array.reshape(shape)


def _bytes_of(transform: Preprocessing, rows: Ints, store: ImageStore, positions: range) -> Reading:
    """Decode the images at some positions of ``rows``."""
    decoded = decode_rows(store, transform, rows[positions.start : positions.stop].tolist())
    return decoded.pixels.reshape(len(positions), -1), decoded.bad


def row_positions(rows: Ints, total: int) -> Ints:
    """Map each row of a dataset to its position among ``rows``, −1 where it is not there; [total]."""
    where = np.full(total, -1, np.int64)
    where[rows] = np.arange(len(rows))
    return where


# values [n, d], (row, reason) of unreadable images
Reading: TypeAlias = tuple[NDArray[Any], list[tuple[int, str]]]
# Images and positions of a shard → their values; other machines find it by its name.
Describe: TypeAlias = Callable[[ImageStore, range], Reading]


class Reader:
    """A worker: it holds the images, or gets those of its positions with them."""

    def __init__(self, describe: Describe, store: ImageStore) -> None:
        self.describe, self.store = describe, store

    def __call__(self, payload: tuple[range, ImageStore | None], tick: Tick) -> Reading:
        """Read the values of some positions."""
        positions, images = payload
        answer = self.describe(self.store if images is None else images, positions)
        tick(len(positions))
        return answer


def read_shards(
    dataset: Dataset,
    shards: Shards,
    describe: Describe,
    bar: Progress,
    *,
    step: int,
    workers: int,
    rows: Ints | None = None,
) -> None:
    """Fill the shards that are missing, ``step`` positions at a time; every unreadable image is named in one error.

    ``rows`` [positions] says which image a position is of; by default its own number.
    """
    missing = shards.missing()
    if len(missing) < len(shards):
        print(
            f"resuming: {len(shards) - len(missing)} of {len(shards)} parts were read earlier",
            file=sys.stderr,
        )
    bar.skip(shards.rows - sum(len(shards.bounds(shard)) for shard in missing))
    cuts = [
        (shard, range(start, min(start + step, shards.bounds(shard).stop)))
        for shard in missing
        for start in range(shards.bounds(shard).start, shards.bounds(shard).stop, step)
    ]
    pool = executor()
    every = np.arange(shards.rows) if rows is None else rows
    sent = plan_shipment(pool, dataset.store, np.unique(every), dataset.name)

    def payloads() -> Iterator[tuple[tuple[int, range], tuple[range, ImageStore | None]]]:
        for shard, positions in cuts:
            used = np.unique(every[positions.start : positions.stop])
            yield (shard, positions), (positions, sent.for_rows(used))

    bad: list[tuple[int, str]] = []
    parts: dict[int, dict[int, NDArray[Any]]] = {}
    crew = Crew(Reader, (describe, sent.store), torch.get_num_threads())
    with closing(pool.map(crew, payloads(), bar, count=len(cuts), workers=workers, chunk=16)) as readings:
        for (shard, positions), (values, wrong) in readings:
            bad += wrong
            pieces = parts.setdefault(shard, {})
            pieces[positions.start] = values
            if sum(map(len, pieces.values())) == len(shards.bounds(shard)):
                if not bad:  # from the first unreadable image on we go on only to find all the others
                    shards.write(shard, np.concatenate([pieces[start] for start in sorted(pieces)]))
                del parts[shard]
    if bad:
        raise unreadable_images(dataset, sorted(bad))
