"""What is known of a dataset's images, a column per attribute: annotated, added by the user, measured from pixels."""

from __future__ import annotations

import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray

from longshot.causes.measures import NUMBERS, SIDE, hue_names, measure
from longshot.core.errors import UserError
from longshot.core.files import cache_dir, hash_text
from longshot.core.preprocess import parse
from longshot.core.progress import progress
from longshot.datasets.dataset import Dataset
from longshot.datasets.images import ImageError
from longshot.datasets.sidecars import read_attributes
from longshot.features.cache import Shards, lock
from longshot.features.extract import probe, unreadable_images

_SHARD = 4096  # images that a kill can cost
_STEP = 64  # images measured at a time
_TRANSFORM = f"decode|resize({SIDE},{SIDE})"


def image_attributes(dataset: Dataset, *, added: str | Path | None = None, measured: bool = True) -> pa.Table:
    """The attributes of all images [N rows]: the dataset's own, those of the CSV ``added``, and the measured ones.

    A column of the user's comes before one of the dataset's of the same name, and both before a measured one.
    """
    columns: dict[str, pa.ChunkedArray | pa.Array] = {}
    if added is not None:
        path = Path(added)
        try:
            data = path.read_bytes()
        except OSError as error:
            raise UserError(
                f"Cannot read the attributes {path}: {(error.strerror or '').lower()}."
            ) from error
        own = read_attributes(data, dataset.keys, str(path))
        columns.update({name: own.column(name) for name in own.column_names})
    if dataset.attributes is not None:
        for name in dataset.attributes.column_names:
            columns.setdefault(name, dataset.attributes.column(name))
    if measured:
        values = pixel_attributes(dataset)
        for name in values.column_names:
            columns.setdefault(name, values.column(name))
    return pa.table(columns)


def pixel_attributes(dataset: Dataset) -> pa.Table:
    """The measured attributes of all images, from the cache when they were measured before."""
    numbers = _numbers(dataset)
    table = {name: pa.array(numbers[:, i], from_pandas=True) for i, name in enumerate(NUMBERS)}
    degrees = numbers[:, NUMBERS.index("hue_degrees")]
    del table["hue_degrees"]  # an angle has no order: its name is what can be compared
    return pa.table({**table, "hue": pa.array(hue_names(degrees), pa.string())})


def _numbers(dataset: Dataset) -> NDArray[np.float32]:
    """The measures [N, len(NUMBERS)] of all images; unfinished work is kept and gone on with."""
    path = _path(dataset)
    if (found := _open(path, len(dataset))) is not None:
        return found
    with lock(path):
        if (found := _open(path, len(dataset))) is not None:
            return found
        shards = Shards(path, "measures", len(dataset), _SHARD, "float32")
        _measure(dataset, shards)
        shards.assemble()
        shards.remove()
    found = _open(path, len(dataset))
    assert found is not None
    return found


def _path(dataset: Dataset) -> Path:
    marks = hash_text("longshot measures 1", dataset.fingerprint, probe(dataset, parse(_TRANSFORM)), *NUMBERS)
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", dataset.name)[:40]
    return cache_dir("attributes") / f"{name}-{marks[:32]}.npy"


def _open(path: Path, rows: int) -> NDArray[np.float32] | None:
    try:
        array: NDArray[np.float32] = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    return array if array.shape == (rows, len(NUMBERS)) and array.dtype == np.float32 else None


def _measure(dataset: Dataset, shards: Shards) -> None:
    missing = shards.missing()
    if len(missing) < len(shards):
        print(f"resuming: {len(shards) - len(missing)} of {len(shards)} parts are done", file=sys.stderr)
    bad: list[tuple[int, str]] = []
    with (
        ThreadPoolExecutor(torch.get_num_threads()) as pool,
        progress(f"measure {dataset.name}", len(dataset), "images") as bar,
    ):
        bar.skip(len(dataset) - sum(len(shards.bounds(shard)) for shard in missing))
        for shard in missing:
            rows = shards.bounds(shard)
            jobs = [range(s, min(s + _STEP, rows.stop)) for s in range(rows.start, rows.stop, _STEP)]
            parts = []
            for job, (values, wrong) in zip(jobs, pool.map(lambda j: _block(dataset, j), jobs), strict=True):
                parts.append(values)
                bad += wrong
                bar.advance(len(job))
            if not bad:  # from the first unreadable image on we go on only to find all the others
                shards.write(shard, np.concatenate(parts))
    if bad:
        raise unreadable_images(dataset, bad)


def _block(dataset: Dataset, rows: range) -> tuple[NDArray[np.float32], list[tuple[int, str]]]:
    from PIL.Image import Resampling

    pixels = np.zeros((len(rows), SIDE, SIDE, 3), np.uint8)
    aspect = np.ones(len(rows), np.float32)
    bad = []
    for place, row in enumerate(rows):
        try:
            image = dataset.image(row)
        except ImageError as error:
            bad.append((row, error.reason))
            continue
        aspect[place] = image.width / image.height
        # Reducing first: a filter over every pixel of a large photo would cost more than all measures.
        pixels[place] = np.asarray(image.resize((SIDE, SIDE), Resampling.BILINEAR, reducing_gap=2.0))
    values = measure(pixels)
    values[:, NUMBERS.index("aspect")] = aspect
    return values, bad
