"""What is known of a dataset's images, a column per attribute: annotated, added by the user, measured from pixels."""

from __future__ import annotations

import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import torch
from numpy.typing import NDArray

from longshot.causes.measures import NUMBERS, SIDE, hue_names, measure
from longshot.core.errors import UserError
from longshot.core.files import atomic, cache_dir, cache_places, canonical_json, hash_text
from longshot.core.progress import progress
from longshot.datasets import as_dataset
from longshot.datasets.dataset import Dataset
from longshot.datasets.described import DIGEST, described, digest_column, without_digests
from longshot.datasets.images import ImageError
from longshot.datasets.sidecars import read_attributes
from longshot.features.cache import Shards, lock, open_guarded
from longshot.features.content import content_of
from longshot.features.request import unreadable_images

_SHARD = 4096  # images that a kill can cost
_STEP = 64  # images measured at a time


def measure_attributes(
    dataset: Dataset | str | Path,
    *,
    attributes: str | Path | None = None,
    out: str | Path | None = None,
) -> pa.Table:
    """The attributes of a dataset's images: annotated ones, and those measured from the pixels.

    Parameters
    ----------
    dataset : Dataset, str or path
        A dataset, its name or its path.
    attributes : path, optional
        A CSV with further attributes: a column ``path``, then one per attribute.
    out : path, optional
        Write all of them with the images' paths and short digests, as CSV (.csv) or Parquet (.parquet). Beside the
        images as attributes.csv, the file makes every attribute usable in rules such as
        ``query_where="brightness < 0.3"``.

    Returns
    -------
    pyarrow.Table
        One row per image, one column per attribute. A column of ``attributes`` comes before one of the dataset's of
        the same name, and both before a measured one.

    Examples
    --------
    >>> table = measure_attributes("toybox", out="attributes.csv")
    >>> {"viewpoint", "brightness"} <= set(table.column_names)
    True
    """
    path = None if out is None else Path(out)
    if path is not None and path.suffix.lower() not in (".csv", ".parquet"):
        raise UserError(
            f"Attributes are written as .csv or .parquet, not as '{path.name}'", "choose one of these endings"
        )
    opened = as_dataset(dataset)
    table = image_attributes(opened, attributes=attributes)
    if path is not None:
        write = pacsv.write_csv if path.suffix.lower() == ".csv" else pq.write_table
        content = content_of(opened)
        named = table.add_column(0, "path", opened.keys)
        meta = {"fingerprint": opened.fingerprint, "identity": content.identity}
        if content.short is not None:
            named = named.add_column(1, DIGEST, digest_column(content.short))
            meta["content"] = content.digest
        with atomic(path) as temporary:
            write(named.replace_schema_metadata({b"longshot": canonical_json(meta).encode()}), temporary)
    return table


def image_attributes(
    dataset: Dataset, *, attributes: str | Path | None = None, no_pixels: bool = False
) -> pa.Table:
    """The attributes of all images [N rows]: those of the CSV ``attributes``, the dataset's own, the measured ones."""
    tables = []
    if attributes is not None:
        path = Path(attributes)
        try:
            data = path.read_bytes()
        except OSError as error:
            raise UserError(
                f"Cannot read the attributes {path}: {(error.strerror or '').lower()}."
            ) from error
        tables.append(
            without_digests(
                read_attributes(data, dataset.keys, str(path)), dataset, f"The attributes in {path}"
            )
        )
    own = described(dataset).attributes
    if own is not None:
        tables.append(own)
    if not no_pixels:
        tables.append(pixel_attributes(dataset))
    columns: dict[str, pa.ChunkedArray | pa.Array] = {}
    for table in tables:
        for name in table.column_names:
            columns.setdefault(name, table.column(name))
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
    file = _file(dataset)
    for cached in cache_places("attributes", file):
        if (numbers := _open(cached, len(dataset))) is not None:
            return numbers
    path = cache_dir("attributes") / file
    with lock(path):
        if (numbers := _open(path, len(dataset))) is not None:
            return numbers
        shards = Shards(path, "measures", len(dataset), _SHARD, "float32")
        _measure(dataset, shards)
        shards.assemble()
        shards.remove()
    numbers = _open(path, len(dataset))
    assert numbers is not None
    return numbers


def _file(dataset: Dataset) -> str:
    marks = hash_text("longshot measures 2", dataset.fingerprint, content_of(dataset).digest, *NUMBERS)
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", dataset.name)[:40]
    return f"{name}-{marks[:32]}.npy"


def _open(path: Path, rows: int) -> NDArray[np.float32] | None:
    array = open_guarded(path)
    if array is None:
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
    for position, row in enumerate(rows):
        try:
            image = dataset.image(row)
        except ImageError as error:
            bad.append((row, error.reason))
            continue
        aspect[position] = image.width / image.height
        # Reducing first: a filter over every pixel of a large photo would cost more than all measures.
        pixels[position] = np.asarray(image.resize((SIDE, SIDE), Resampling.BILINEAR, reducing_gap=2.0))
    values = measure(pixels)
    values[:, NUMBERS.index("aspect")] = aspect
    return values, bad
