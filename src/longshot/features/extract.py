"""``embed``: run a backbone over a dataset, block by block, into the cache.

Work is cut into shards of fixed rows, each written whole: a killed run goes on where it was. The numbers do
not depend on workers or batch size (see ``engine``), so neither do the bytes of the file.
"""

from __future__ import annotations

import dataclasses
import hashlib
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from longshot.core.errors import UserError
from longshot.core.files import hash_text
from longshot.core.preprocess import Preprocessing
from longshot.core.progress import Progress, progress
from longshot.datasets.dataset import Dataset
from longshot.features.backbones import load_backbone
from longshot.features.backbones.base import Backbone, Precomputed
from longshot.features.cache import Shards, cached, features_path, lock
from longshot.features.decode import decode_rows
from longshot.features.engine import Engine, block_size, probe_speed
from longshot.features.features import DTYPES, Features, not_finite, sidecar

SHARD = 512  # rows per piece of finished work: what a kill can cost
_BATCH = 64  # images decoded and moved to the device at a time
_PROBED = 16  # images whose pixels take part in the content-address
_LARGEST_HALF = 65504.0  # beyond it float16 becomes infinite


@dataclasses.dataclass(frozen=True)
class Extraction:
    """Features, and what it took to have them."""

    features: Features
    cached: bool  # nothing was computed
    shards: int
    resumed: int  # shards that an earlier run had finished
    images: int  # images computed in this run
    seconds: float


def embed(
    dataset: Dataset | str | Path,
    backbone: str | Backbone | Precomputed,
    *,
    dtype: str = "float16",
    device: str = "auto",
    workers: int | None = None,
    batch_size: int | None = None,
    preprocessing: str | None = None,
    allow_download: bool = False,
    refresh: bool = False,
) -> Features:
    """The dataset seen through the backbone, from the cache when it was computed before.

    ``workers`` processes decode images (0: the computing threads do; None: whatever pays). ``batch_size``
    images are decoded at a time. Neither changes the numbers. ``refresh`` computes anew.
    """
    return run(
        dataset,
        backbone,
        dtype=dtype,
        device=device,
        workers=workers,
        batch_size=batch_size,
        preprocessing=preprocessing,
        allow_download=allow_download,
        refresh=refresh,
    ).features


def run(
    dataset: Dataset | str | Path,
    backbone: str | Backbone | Precomputed,
    *,
    dtype: str = "float16",
    device: str = "auto",
    workers: int | None = None,
    batch_size: int | None = None,
    preprocessing: str | None = None,
    allow_download: bool = False,
    refresh: bool = False,
) -> Extraction:
    """As :func:`embed`, with an account of the work."""
    started = time.monotonic()
    dataset, source = _open(
        dataset, backbone, dtype, device, workers, batch_size, preprocessing, allow_download
    )
    address = content_address(dataset, source, dtype)
    path = features_path(address)
    if refresh:
        sidecar(path).unlink(missing_ok=True)
    elif (found := cached(path)) is not None:
        return Extraction(_named(found, dataset, source), True, 0, 0, 0, time.monotonic() - started)
    with lock(path):
        if not refresh and (found := cached(path)) is not None:  # made by another process while we waited
            return Extraction(_named(found, dataset, source), True, 0, 0, 0, time.monotonic() - started)
        shards = _shards(path, source, len(dataset), dtype)
        if refresh:
            shards.remove()
        missing = shards.missing()
        resumed = len(shards) - len(missing)
        if resumed:
            print(f"resuming: {resumed} of {len(shards)} shards were finished earlier", file=sys.stderr)
        images = sum(len(shards.bounds(shard)) for shard in missing)
        with progress(f"embed {dataset.name} with {source.name}", len(dataset), "images") as bar:
            bar.skip(len(dataset) - images)
            for shard, values in _compute(dataset, source, shards, missing, workers, batch_size, bar):
                _check(values, shards.bounds(shard), dataset, source, dtype)
                shards.write(shard, values)
        shards.assemble()
        features = Features(
            array=np.load(path, mmap_mode="r"),
            keys=dataset.keys,
            class_ids=dataset.class_ids,
            offsets=dataset.offsets,
            dataset=dataset.name,
            fingerprint=dataset.fingerprint,
            backbone=source.name,
            weights_hash=source.weights_hash,
            preprocessing=source.preprocessing,
            hash=address,
            path=path,
            story={"device": _kind(source), "torch": torch.__version__},
        )
        features.write_sidecar(path)
        shards.remove()
    return Extraction(features, False, len(shards), resumed, images, time.monotonic() - started)


def estimate(
    dataset: Dataset | str | Path,
    backbone: str | Backbone | Precomputed,
    *,
    dtype: str = "float16",
    device: str = "auto",
    workers: int | None = None,
    batch_size: int | None = None,
    preprocessing: str | None = None,
    allow_download: bool = False,
) -> dict[str, Any]:
    """What :func:`embed` would take, from a short measured probe: seconds, images/s, bytes; writes nothing."""
    dataset, source = _open(
        dataset, backbone, dtype, device, workers, batch_size, preprocessing, allow_download
    )
    path = features_path(content_address(dataset, source, dtype))
    hit = cached(path)
    shards = _shards(path, source, len(dataset), dtype)
    missing = [] if hit is not None else shards.missing()
    left = sum(len(shards.bounds(shard)) for shard in missing)
    rate, dim = None, hit.dim if hit is not None else 0
    if isinstance(source, Precomputed):
        dim = int(source.rows(dataset)[0].shape[1])
    elif missing:
        rate, dim = probe_speed(dataset, source)
    size = len(dataset) * dim * np.dtype(dtype).itemsize
    return {
        "dataset": dataset.name,
        "backbone": source.name,
        "preprocessing": source.preprocessing,
        "images": len(dataset),
        "dim": dim,
        "dtype": dtype,
        "cached": hit is not None,
        "shards": len(shards),
        "finished_shards": len(shards) - len(missing),
        "images_per_second": rate,
        "seconds": left / rate if rate else 0.0,
        "bytes": 0 if hit is not None else size,
        "path": str(path),
    }


def content_address(dataset: Dataset, source: Backbone | Precomputed, dtype: str) -> str:
    """Hex SHA-256 over the dataset's fingerprint, backbone, weights, preprocessing, dtype and a few images.

    The fingerprint covers names only. The pixels of some images, evenly spread, keep two folders apart that
    merely name their files alike.
    """
    looked = (
        probe(dataset, source.transform) if isinstance(source, Backbone) else hashlib.sha256().hexdigest()
    )
    return hash_text(
        "longshot features 1",
        dataset.fingerprint,
        source.name,
        source.weights_hash,
        source.preprocessing,
        dtype,
        looked,
    )


def probe(dataset: Dataset, transform: Preprocessing) -> str:
    """Hex SHA-256 over the pixels of a few images, evenly spread."""
    digest = hashlib.sha256()
    for row in sorted({int(r) for r in np.linspace(0, len(dataset) - 1, _PROBED)}):
        decoded = decode_rows(dataset.store, transform, range(row, row + 1))
        digest.update(b"bad" if decoded.bad else decoded.pixels.data)
    return digest.hexdigest()


def _open(
    dataset: Dataset | str | Path,
    backbone: str | Backbone | Precomputed,
    dtype: str,
    device: str,
    workers: int | None,
    batch_size: int | None,
    preprocessing: str | None,
    allow_download: bool,
) -> tuple[Dataset, Backbone | Precomputed]:
    if dtype not in DTYPES:
        raise UserError(f"Features are stored as {' or '.join(DTYPES)}, not as '{dtype}'.")
    if workers is not None and workers < 0:
        raise UserError(f"Decoding takes 0 or more worker processes, not {workers}.")
    if batch_size is not None and batch_size < 1:
        raise UserError(f"A batch holds 1 or more images, not {batch_size}.")
    if not isinstance(dataset, Dataset):
        from longshot.datasets import open_dataset

        dataset = open_dataset(dataset)
    if isinstance(backbone, str):
        backbone = load_backbone(backbone, device, preprocessing=preprocessing, allow_download=allow_download)
    return dataset, backbone


def _named(features: Features, dataset: Dataset, source: Backbone | Precomputed) -> Features:
    """The same content under the name the dataset has today."""
    return dataclasses.replace(features, dataset=dataset.name, backbone=source.name)


def _kind(source: Backbone | Precomputed) -> str:
    return source.device.type if isinstance(source, Backbone) else "cpu"


def _shards(path: Path, source: Backbone | Precomputed, rows: int, dtype: str) -> Shards:
    return Shards(path, _kind(source), rows, SHARD, dtype)


def _compute(
    dataset: Dataset,
    source: Backbone | Precomputed,
    shards: Shards,
    missing: list[int],
    workers: int | None,
    batch_size: int | None,
    bar: Progress,
) -> Iterator[tuple[int, NDArray[Any]]]:
    """(shard, values [n, d]) of each missing shard."""
    if isinstance(source, Precomputed):
        array, order = source.rows(dataset)
        for shard in missing:
            rows = shards.bounds(shard)
            picked = array[rows.start : rows.stop] if order is None else array[order[rows.start : rows.stop]]
            bar.advance(len(rows))
            yield shard, picked.astype(np.float32)
    elif missing:
        yield from _through_network(dataset, source, shards, missing, workers, batch_size, bar)


def _through_network(
    dataset: Dataset,
    backbone: Backbone,
    shards: Shards,
    missing: list[int],
    workers: int | None,
    batch_size: int | None,
    bar: Progress,
) -> Iterator[tuple[int, NDArray[Any]]]:
    step = -(-(batch_size or _BATCH) // block_size(backbone)) * block_size(backbone)
    bad: list[tuple[int, str]] = []
    with Engine(backbone, dataset, workers) as engine:
        jobs = [
            (shard, range(start, min(start + step, shards.bounds(shard).stop)))
            for shard in missing
            for start in range(shards.bounds(shard).start, shards.bounds(shard).stop, step)
        ]
        parts: list[NDArray[np.float32]] = []
        for (shard, rows), (values, unreadable) in zip(jobs, engine.map(r for _, r in jobs), strict=True):
            bar.advance(len(rows))
            if unreadable:
                bad += unreadable
                engine.decode_only = True  # from here on only to find all the others
            if bad:
                continue
            assert values is not None
            parts.append(values)
            if rows.stop == shards.bounds(shard).stop:
                yield shard, np.concatenate(parts)
                parts = []
    if bad:
        raise unreadable_images(dataset, bad)


def unreadable_images(dataset: Dataset, bad: list[tuple[int, str]]) -> UserError:
    """All of (row, reason) in one sentence."""
    keys = [dataset.keys[row].as_py() for row, _ in bad[:5]]
    shown = "; ".join(f"{key}: {reason}" for key, (_, reason) in zip(keys, bad[:5], strict=True))
    more = f"; and {len(bad) - 5:,} more" if len(bad) > 5 else ""
    return UserError(
        f"{len(bad):,} of {len(dataset):,} images of dataset '{dataset.name}' cannot be used ({shown}{more}); "
        f"mend or remove them, or leave them out with --skip-bad."
    )


def _check(
    values: NDArray[Any], rows: range, dataset: Dataset, source: Backbone | Precomputed, dtype: str
) -> None:
    """Refuse values [n, d] that are not finite, or would not be in ``dtype``; names the first image."""
    bad = not_finite(values)
    if bad.any():
        remedy = (
            f"check its weights and the preprocessing '{source.preprocessing}'"
            if isinstance(source, Backbone)
            else "mend those rows of the file"
        )
        raise UserError(
            f"Backbone '{source.name}' gave NaN or infinite features for {int(bad.sum()):,} of the {len(rows):,} "
            f"images {rows.start:,} to {rows.stop - 1:,}, first for '{_first(dataset, rows, bad)}'; {remedy}."
        )
    if dtype == "float16":
        large = (np.abs(values) > _LARGEST_HALF).any(axis=1)
        if large.any():
            raise UserError(
                f"Backbone '{source.name}' gave features up to {np.abs(values).max():.3g}, beyond float16's "
                f"{_LARGEST_HALF:,.0f}, for {int(large.sum()):,} of {len(rows):,} images, first for "
                f"'{_first(dataset, rows, large)}'; use --dtype float32."
            )


def _first(dataset: Dataset, rows: range, bad: NDArray[np.bool_]) -> str:
    return str(dataset.keys[rows.start + int(np.argmax(bad))].as_py())
