"""``embed``: run a backbone over a dataset, block by block, into the cache.

Work is cut into shards of fixed rows, each written whole: a killed run goes on where it was. The numbers do
not depend on workers or batch size (see ``engine``), so neither do the bytes of the file.
"""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import torch
from numpy.typing import NDArray

from longshot.core.arrays import Bools
from longshot.core.errors import UserError
from longshot.core.progress import Progress, progress
from longshot.core.wording import count, note
from longshot.datasets.dataset import Dataset
from longshot.features.arrays import not_finite
from longshot.features.backbones.base import Backbone, Precomputed
from longshot.features.backbones.objects import GivenFeatures
from longshot.features.cache import Shards, features_path, find_features, lock, salvage
from longshot.features.content import check_made_from, check_unchanged
from longshot.features.engine import Engine, block_size, probe_speed
from longshot.features.features import EmbedWork, Features, sidecar
from longshot.features.request import EmbedOptions, Request, device_kind, open_request, unreadable_images

if TYPE_CHECKING:
    from longshot.features.backbones import BackboneLike

_BATCH = 64  # images decoded and moved to the device at a time
_LARGEST_HALF = 65504.0  # beyond it float16 becomes infinite


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
    identity: str | None = None,
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
    identity : {"content", "names"}, optional
        What the features vouch for: the bytes of the images, which are read once for it, or only their names, where a
        drive is too large or slow. By names, an image that is changed in place goes unnoticed. That of the dataset
        unless given.

    Returns
    -------
    Features
        An array [N, d], memory-mapped, in the dataset's order; ``work`` says what was computed for it.

    Examples
    --------
    >>> embed("toybox", "pixels").dim
    3072
    """
    started = time.monotonic()
    request = open_request(
        dataset, backbone, dtype, device, workers, batch_size, preprocessing, allow_download, identity
    )

    def from_cache(features: Features) -> Features:
        """The same content under the names that dataset and backbone have today."""
        work = EmbedWork(seconds=time.monotonic() - started)
        return dataclasses.replace(
            features, dataset=request.dataset.name, backbone=request.source.label, work=work
        )

    if isinstance(request.source, GivenFeatures):
        request.source.rows(request.dataset)  # says what differs where they are of another dataset
        check_made_from(request.source.features, request.dataset)
        return from_cache(request.source.features)
    address = request.address
    stored = None if refresh else find_features(address, request.dataset)
    if isinstance(stored, Features):
        return from_cache(stored)
    path = features_path(address)
    with lock(path):
        shards = request.shards(path)
        stored = None if refresh else find_features(address, request.dataset)
        if isinstance(stored, Features):  # made by another process while we waited
            return from_cache(stored)
        if refresh:
            sidecar(path).unlink(missing_ok=True)
            shards.remove()
        damage = ""
        if stored is not None:
            damage = stored.damage
            salvage(stored, shards)
        missing = shards.missing()
        resumed = len(shards) - len(missing)
        if resumed and not damage:
            print(f"resuming: {resumed} of {len(shards)} shards were finished earlier", file=sys.stderr)
        images = sum(len(shards.bounds(shard)) for shard in missing)
        opened, source = request.dataset, request.source
        with progress(f"embed {opened.name} with {source.name}", len(opened), "images") as bar:
            bar.skip(len(opened) - images)
            for shard, values in _compute(request, shards, missing, bar):
                _check(values, shards.bounds(shard), request)
                check_unchanged(opened, request.content, shards.bounds(shard))
                shards.write(shard, values)
        sums = shards.assemble(guard=False)
        features = Features(
            array=np.load(path, mmap_mode="r"),
            keys=opened.keys,
            class_ids=opened.class_ids,
            offsets=opened.offsets,
            dataset=opened.name,
            fingerprint=opened.fingerprint,
            backbone=source.label,
            weights_hash=source.weights_hash,
            preprocessing=source.preprocessing,
            hash=address,
            path=path,
            story={"device": device_kind(source), "torch": torch.__version__},
            identity=request.content.identity,
            content=request.content.digest if request.content.identity == "content" else "",
            digests=request.content.short,
            backbone_identity=source.identity,
        )
        features.write_sidecar(path, sums=sums, keys_apart=True)
        shards.remove()
    if damage:
        note(
            f"the cached features of '{opened.name}' through '{source.label}' were damaged ({damage}); they are whole "
            f"again, {images:,} of {count(len(opened), 'image')} had to be embedded anew"
        )
    work = EmbedWork(False, len(shards), 0 if damage else resumed, images, time.monotonic() - started)
    return dataclasses.replace(features, work=work)


def estimate(
    dataset: Dataset | str | Path, backbone: BackboneLike, **options: Unpack[EmbedOptions]
) -> dict[str, Any]:
    """What :func:`embed` would take, from a short measured probe: seconds, images/s, bytes; writes nothing."""
    request = open_request(dataset, backbone, **options)
    opened, source = request.dataset, request.source
    stored = (
        source.features
        if isinstance(source, GivenFeatures)
        else find_features(request.address, request.dataset)
    )
    hit = stored if isinstance(stored, Features) else None
    path = hit.path if hit is not None and hit.path is not None else features_path(request.address)
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
        "backbone": source.label,
        "preprocessing": source.preprocessing,
        "images": len(opened),
        "dim": dim,
        "dtype": request.dtype,
        "identity": request.content.identity,
        "cached": hit is not None,
        "shards": len(shards),
        "finished_shards": len(shards) - len(missing),
        "images_per_second": rate,
        "seconds": images / rate if rate else 0.0,
        "bytes": 0 if hit is not None else size,
        "path": str(path),
    }


def _compute(
    request: Request, shards: Shards, missing: list[int], bar: Progress
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
    request: Request, backbone: Backbone, shards: Shards, missing: list[int], bar: Progress
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


def _check(values: NDArray[Any], rows: range, request: Request) -> None:
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


def _first_key(request: Request, rows: range, bad: Bools) -> str:
    return str(request.dataset.keys[rows.start + int(np.argmax(bad))].as_py())
