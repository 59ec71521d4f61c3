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
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import numpy as np
import torch
from numpy.typing import NDArray

from longshot.core.arrays import Bools
from longshot.core.errors import UserError
from longshot.core.files import hash_text
from longshot.core.preprocess import Preprocessing
from longshot.core.progress import Progress, progress
from longshot.datasets.dataset import Dataset
from longshot.features.backbones import open_backbone
from longshot.features.backbones.base import Backbone, Precomputed
from longshot.features.backbones.objects import GivenFeatures
from longshot.features.cache import Shards, cached, features_path, lock
from longshot.features.decode import decode_rows
from longshot.features.engine import Engine, block_size, probe_speed
from longshot.features.features import DTYPES, Features, not_finite, sidecar

if TYPE_CHECKING:
    from longshot.features.backbones import BackboneLike

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


class EmbedOptions(TypedDict, total=False):
    """What :func:`embed` may be told; see there."""

    dtype: str
    device: str
    workers: int | None
    batch_size: int | None
    preprocessing: str | None
    allow_download: bool


@dataclasses.dataclass(frozen=True)
class _Request:
    """What is to be embedded, opened and checked."""

    dataset: Dataset
    source: Backbone | Precomputed
    dtype: str
    workers: int | None
    batch_size: int | None

    @property
    def address(self) -> str:
        """Where in the cache the features belong."""
        return content_address(self.dataset, self.source, self.dtype)

    def shards(self, path: Path) -> Shards:
        """The pieces of the array at ``path``."""
        return Shards(path, _device_kind(self.source), len(self.dataset), SHARD, self.dtype)


def embed(
    dataset: Dataset | str | Path,
    backbone: BackboneLike,
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

    Parameters
    ----------
    dataset : Dataset, str or Path
        N images, or what ``open_dataset`` opens.
    backbone : str, array, Tensor, nn.Module or Features
        A name as in ``list_backbones``; the folder of a trained network; features [N, d] that you have already; a
        module from images [B, 3, H, W] to [B, d] or [B, d, h, w] (averaged over h, w). See ``open_backbone``.
    dtype : {"float16", "float32"}
        How numbers are stored.
    device : str
        auto, cpu, cuda or mps.
    workers : int, optional
        Processes that decode images (0: the computing threads do). Whatever pays unless given; changes no number.
    batch_size : int, optional
        Images decoded at a time; changes no number.
    preprocessing : str, optional
        In place of the backbone's own: ``decode|resize(146)|central_crop(128)|normalize(imagenet)``.
    allow_download : bool
        Let ``timm:`` and ``hf:`` backbones fetch their weights.
    refresh : bool
        Compute anew what is in the cache.

    Returns
    -------
    Features
        An array [N, d], memory-mapped, in the dataset's order.

    Examples
    --------
    >>> embed("toybox", "pixels").dim
    3072
    """
    return run(
        dataset,
        backbone,
        refresh=refresh,
        dtype=dtype,
        device=device,
        workers=workers,
        batch_size=batch_size,
        preprocessing=preprocessing,
        allow_download=allow_download,
    ).features


def run(
    dataset: Dataset | str | Path,
    backbone: BackboneLike,
    *,
    refresh: bool = False,
    **options: Unpack[EmbedOptions],
) -> Extraction:
    """As :func:`embed`, with an account of the work."""
    started = time.monotonic()
    request = _open(dataset, backbone, **options)
    address = request.address
    path = features_path(address)

    def from_cache(features: Features) -> Extraction:
        return Extraction(_named(features, request), True, 0, 0, 0, time.monotonic() - started)

    if isinstance(request.source, GivenFeatures):
        request.source.rows(request.dataset)
        return from_cache(request.source.features)
    if refresh:
        sidecar(path).unlink(missing_ok=True)
    elif (features := cached(path)) is not None:
        return from_cache(features)
    with lock(path):
        if not refresh and (features := cached(path)) is not None:  # made by another process while we waited
            return from_cache(features)
        shards = request.shards(path)
        if refresh:
            shards.remove()
        missing = shards.missing()
        resumed = len(shards) - len(missing)
        if resumed:
            print(f"resuming: {resumed} of {len(shards)} shards were finished earlier", file=sys.stderr)
        images = sum(len(shards.bounds(shard)) for shard in missing)
        opened, source = request.dataset, request.source
        with progress(f"embed {opened.name} with {source.name}", len(opened), "images") as bar:
            bar.skip(len(opened) - images)
            for shard, values in _compute(request, shards, missing, bar):
                _check(values, shards.bounds(shard), request)
                shards.write(shard, values)
        shards.assemble()
        features = Features(
            array=np.load(path, mmap_mode="r"),
            keys=opened.keys,
            class_ids=opened.class_ids,
            offsets=opened.offsets,
            dataset=opened.name,
            fingerprint=opened.fingerprint,
            backbone=source.name,
            weights_hash=source.weights_hash,
            preprocessing=source.preprocessing,
            hash=address,
            path=path,
            story={"device": _device_kind(source), "torch": torch.__version__},
        )
        features.write_sidecar(path)
        shards.remove()
    return Extraction(features, False, len(shards), resumed, images, time.monotonic() - started)


def estimate(
    dataset: Dataset | str | Path, backbone: BackboneLike, **options: Unpack[EmbedOptions]
) -> dict[str, Any]:
    """What :func:`embed` would take, from a short measured probe: seconds, images/s, bytes; writes nothing."""
    request = _open(dataset, backbone, **options)
    opened, source = request.dataset, request.source
    path = features_path(request.address)
    hit = source.features if isinstance(source, GivenFeatures) else cached(path)
    shards = request.shards(path)
    missing = [] if hit is not None else shards.missing()
    images = sum(len(shards.bounds(shard)) for shard in missing)
    rate, dim = None, hit.dim if hit is not None else 0
    if isinstance(source, Precomputed):
        dim = int(source.rows(opened)[0].shape[1])
    elif missing:
        rate, dim = probe_speed(opened, source)
    size = len(opened) * dim * np.dtype(request.dtype).itemsize
    return {
        "dataset": opened.name,
        "backbone": source.name,
        "preprocessing": source.preprocessing,
        "images": len(opened),
        "dim": dim,
        "dtype": request.dtype,
        "cached": hit is not None,
        "shards": len(shards),
        "finished_shards": len(shards) - len(missing),
        "images_per_second": rate,
        "seconds": images / rate if rate else 0.0,
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
    backbone: BackboneLike,
    dtype: str = "float16",
    device: str = "auto",
    workers: int | None = None,
    batch_size: int | None = None,
    preprocessing: str | None = None,
    allow_download: bool = False,
) -> _Request:
    if dtype not in DTYPES:
        raise UserError(f"{{dtype}} is {dtype!r}, but features are stored as {' or '.join(DTYPES)}.")
    check_workers(workers)
    if batch_size is not None and batch_size < 1:
        raise UserError(f"{{batch_size}} is {batch_size}, but a batch holds 1 or more images.")
    if not isinstance(dataset, Dataset):
        from longshot.datasets import open_dataset

        dataset = open_dataset(dataset)
    source = open_backbone(backbone, device, preprocessing=preprocessing, allow_download=allow_download)
    return _Request(dataset, source, dtype, workers, batch_size)


def check_workers(workers: int | None) -> None:
    """UserError for a negative number of decoding processes."""
    if workers is not None and workers < 0:
        raise UserError(f"{{workers}} is {workers}, but decoding takes 0 or more worker processes.")


def _named(features: Features, request: _Request) -> Features:
    """The same content under the name the dataset has today."""
    return dataclasses.replace(features, dataset=request.dataset.name, backbone=request.source.name)


def _device_kind(source: Backbone | Precomputed) -> str:
    return source.device.type if isinstance(source, Backbone) else "cpu"


def _compute(
    request: _Request, shards: Shards, missing: list[int], bar: Progress
) -> Iterator[tuple[int, NDArray[Any]]]:
    """(shard, values [n, d]) of each missing shard."""
    if isinstance(request.source, Precomputed):
        array, order = request.source.rows(request.dataset)
        for shard in missing:
            rows = shards.bounds(shard)
            picked = array[rows.start : rows.stop] if order is None else array[order[rows.start : rows.stop]]
            bar.advance(len(rows))
            yield shard, picked.astype(np.float32)
    elif missing:
        yield from _through_network(request, request.source, shards, missing, bar)


def _through_network(
    request: _Request, backbone: Backbone, shards: Shards, missing: list[int], bar: Progress
) -> Iterator[tuple[int, NDArray[Any]]]:
    step = -(-(request.batch_size or _BATCH) // block_size(backbone)) * block_size(backbone)
    bad: list[tuple[int, str]] = []
    with Engine(backbone, request.dataset, request.workers) as engine:
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
        raise unreadable_images(request.dataset, bad)


def unreadable_images(dataset: Dataset, bad: list[tuple[int, str]]) -> UserError:
    """All of (row, reason) in one sentence."""
    keys = [dataset.keys[row].as_py() for row, _ in bad[:5]]
    shown = "; ".join(f"{key}: {reason}" for key, (_, reason) in zip(keys, bad[:5], strict=True))
    more = f"; and {len(bad) - 5:,} more" if len(bad) > 5 else ""
    return UserError(
        f"{len(bad):,} of {len(dataset):,} images of dataset '{dataset.name}' cannot be used ({shown}{more})",
        "mend or remove them, or leave them out with {skip_bad:True}",
    )


def _check(values: NDArray[Any], rows: range, request: _Request) -> None:
    """Refuse values [n, d] that are not finite, or would not be in the wanted type; names the first image."""
    source = request.source
    bad = not_finite(values)
    if bad.any():
        remedy = (
            f"check its weights and the preprocessing '{source.preprocessing}'"
            if isinstance(source, Backbone)
            else "mend those rows"
        )
        raise UserError(
            f"Backbone '{source.name}' gave NaN or infinite features for {int(bad.sum()):,} of the {len(rows):,} "
            f"images {rows.start:,} to {rows.stop - 1:,}, first for '{_first_key(request, rows, bad)}'",
            remedy,
        )
    if request.dtype == "float16":
        large = (np.abs(values) > _LARGEST_HALF).any(axis=1)
        if large.any():
            raise UserError(
                f"Backbone '{source.name}' gave features up to {np.abs(values).max():.3g}, beyond float16's "
                f"{_LARGEST_HALF:,.0f}, for {int(large.sum()):,} of {len(rows):,} images, first for "
                f"'{_first_key(request, rows, large)}'",
                "use {dtype:float32}",
            )


def _first_key(request: _Request, rows: range, bad: Bools) -> str:
    return str(request.dataset.keys[rows.start + int(np.argmax(bad))].as_py())
