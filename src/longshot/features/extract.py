"""``embed``: run a backbone over a dataset, block by block, into the cache; ``embed_rows``: over some of its images.

Work is cut into shards of fixed rows, each written whole: a killed run goes on where it was. The numbers do
not depend on workers, batch size or the images that share a block (see ``engine``), nor do the bytes of the file.
"""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
from numpy.typing import NDArray

from longshot.core.arrays import Bools, Ints
from longshot.core.errors import UserError
from longshot.core.progress import Progress, progress
from longshot.core.wording import count, note
from longshot.datasets.dataset import Dataset
from longshot.features.arrays import not_finite
from longshot.features.backbones.base import Backbone, Precomputed
from longshot.features.backbones.objects import GivenFeatures
from longshot.features.cache import features_path, find_features, lock, salvage
from longshot.features.content import check_made_from, check_unchanged
from longshot.features.engine import Engine, probe_speed
from longshot.features.features import BLOCK, EmbedWork, Features, sidecar
from longshot.features.parts import (
    drop_contained,
    facts_of,
    find_embedded,
    growing_target,
    grown_lock,
    joined,
    make_features,
    partly_embedded,
    rows_without,
    take_over,
)
from longshot.features.request import EmbedOptions, Request, open_request, unreadable_images

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
    engine: str | None = None,
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
    engine : str, optional
        What computes the network: ``auto``, ``torch``, ``onnxruntime`` or ``openvino``; what LONGSHOT_ENGINE says, or
        auto, unless given. ``auto`` takes ONNX Runtime on a CPU and PyTorch elsewhere. A
        network that cannot be converted, or then differs from PyTorch by more than 1e-4, stays with PyTorch; a note
        says so. ``torch(autocast='bfloat16', channels_last=True, compile=True)`` gives PyTorch settings.

    Returns
    -------
    Features
        An array [N, d], memory-mapped, in the dataset's order; ``work`` says what was computed for it.

    Examples
    --------
    >>> embed("toybox", "pixels").dim
    3072
    """
    request = open_request(
        dataset, backbone, dtype, device, workers, batch_size, preprocessing, allow_download, identity, engine
    )
    return _embed_all(request, refresh=refresh)


def embed_rows(
    dataset: Dataset,
    backbone: BackboneLike,
    rows: Ints,
    *,
    device: str = "auto",
    preprocessing: str | None = None,
    engine: str | None = None,
) -> Features:
    """Only some images of a dataset seen through a backbone: what tasks touch.

    The numbers are those of ``embed``. What was embedded before serves, the rest is added to the cache.

    Parameters
    ----------
    dataset : Dataset
        N images.
    backbone : str, array, Tensor, nn.Module or Features
        As in ``embed``.
    rows : array of int
        Which images are wanted.
    device : str
        auto, cpu, cuda or mps.
    preprocessing : str, optional
        In place of the backbone's own.
    engine : str, optional
        What computes the network, as in ``embed``.

    Returns
    -------
    Features
        An array [N, d], memory-mapped, in the dataset's order, in which only the rows ``used`` may be read.

    Examples
    --------
    >>> from longshot import open_dataset
    >>> features = embed_rows(open_dataset("toybox"), "pixels", np.arange(50))
    >>> features.dim, len(features.used)
    (3072, 50)
    """
    request = open_request(
        dataset, backbone, device=device, preprocessing=preprocessing, engine=engine, rows=rows
    )
    return _embed_all(request) if request.rows is None else _embed_some(request)


def _embed_all(request: Request, *, refresh: bool = False) -> Features:
    """The whole dataset, from the cache when it was computed before."""
    started = time.monotonic()
    if isinstance(request.source, GivenFeatures):
        return _renamed(_given(request), request, started)
    stored = None if refresh else find_features(request.address, request.dataset)
    if isinstance(stored, Features):
        return _renamed(stored, request, started)
    request.source.settle(request.dataset, range(len(request.dataset)))
    address = request.address  # another one where the network stays with PyTorch
    path = features_path(address)
    with lock(path):
        shards = request.shards(path)
        stored = None if refresh else find_features(address, request.dataset)
        if isinstance(stored, Features):  # made by another process while we waited
            return _renamed(stored, request, started)
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
        opened, source = request.dataset, request.source
        pieces = [] if refresh else partly_embedded(request)
        units = [rows_without(pieces, request, np.array(shards.bounds(shard))) for shard in missing]
        images = sum(map(len, units))
        with progress(f"embed {opened.name} with {source.name}", len(opened), "images") as bar:
            bar.skip(len(opened) - images)
            for shard, values in zip(missing, _compute(request, units, bar), strict=True):
                shards.write(shard, joined(pieces, request, np.array(shards.bounds(shard)), values))
        sums = shards.assemble(guard=False)
        features = make_features(request, np.load(path, mmap_mode="r"), path)
        features.write_sidecar(path, sums=sums, keys_apart=True)
        shards.remove()
        drop_contained(pieces, request)
    if damage:
        _tell_damage(request, damage, images)
    work = EmbedWork(False, len(shards), 0 if damage else resumed, images, time.monotonic() - started)
    return dataclasses.replace(features, work=work)


def _embed_some(request: Request) -> Features:
    """The rows of the request: from features of the whole dataset, from what has grown so far, or computed now."""
    started = time.monotonic()
    if isinstance(request.source, GivenFeatures):
        return _renamed(_given(request), request, started)
    stored = find_embedded(request)
    if stored is not None:
        return _renamed(stored, request, started)
    request.source.settle(request.dataset, request.wanted_rows.tolist())
    with lock(grown_lock(request)):
        stored = find_embedded(request)
        if stored is not None:  # made by another process while we waited
            return _renamed(stored, request, started)
        pieces = partly_embedded(request)
        damage = next((piece.damage for piece in pieces if piece.damage), "")
        target = growing_target(request, pieces)
        rows = take_over(target, pieces, request)
        units = [rows[start : start + BLOCK] for start in range(0, len(rows), BLOCK)]
        total, opened = len(request.wanted_rows), request.dataset
        with progress(f"embed {opened.name} with {request.source.name}", total, "images") as bar:
            bar.skip(total - len(rows))
            for unit, values in zip(units, _compute(request, units, bar), strict=True):
                target.write(unit, values, request.content.short)
        features = make_features(request, target.array, target.path)
        target.describe(facts_of(features, int((target.sums != 0).sum())))
    if damage:
        _tell_damage(request, damage, len(rows))
    return dataclasses.replace(
        features, work=EmbedWork(False, len(units), 0, len(rows), time.monotonic() - started)
    )


def _given(request: Request) -> Features:
    """Features that the caller has, for the rows of the request; says what differs where they are of other images."""
    source = request.source
    assert isinstance(source, GivenFeatures)
    source.rows(request.dataset)
    features = source.features if request.rows is None else source.features.restricted(request.rows)
    check_made_from(features, request.dataset)
    return features


def _renamed(features: Features, request: Request, started: float) -> Features:
    """What was there already, under the names that dataset and backbone have today."""
    work = EmbedWork(seconds=time.monotonic() - started)
    return dataclasses.replace(
        features, dataset=request.dataset.name, backbone=request.source.label, work=work
    )


def _tell_damage(request: Request, damage: str, images: int) -> None:
    note(
        f"the cached features of '{request.dataset.name}' through '{request.source.label}' were damaged ({damage}); "
        f"they are whole again, {images:,} of {count(len(request.wanted_rows), 'image')} had to be embedded anew"
    )


def estimate(
    dataset: Dataset | str | Path, backbone: BackboneLike, **options: Unpack[EmbedOptions]
) -> dict[str, Any]:
    """What :func:`embed` would take, from a short measured probe: seconds, images/s, bytes; writes nothing."""
    request = open_request(dataset, backbone, **options)
    opened, source = request.dataset, request.source
    hit: Features | None
    if isinstance(source, GivenFeatures):
        hit = source.features
    elif request.rows is not None:
        hit = find_embedded(request)
    else:
        stored = find_features(request.address, request.dataset)
        hit = stored if isinstance(stored, Features) else None
    path = hit.path if hit is not None and hit.path is not None else features_path(request.address)
    shards = request.shards(path)
    missing = shards.missing() if hit is None and request.rows is None else []
    pieces = partly_embedded(request) if hit is None else []
    rows = request.wanted_rows[:0]
    if hit is None:
        unfinished = [np.array(shards.bounds(shard)) for shard in missing]
        rows = np.concatenate([rows, *unfinished]) if request.rows is None else request.rows
        rows = rows_without(pieces, request, rows)
    rate, dim = None, hit.dim if hit is not None else 0
    if not len(rows) and pieces:
        dim = int(pieces[0].array.shape[1])
    elif isinstance(source, Precomputed):
        dim = int(source.rows(opened)[0].shape[1])
    elif len(rows):
        source.settle(opened, rows.tolist(), keep=False)
        rate, dim = probe_speed(opened, source, rows)
    stored_rows = len(opened) if request.rows is None else len(rows)
    size = stored_rows * dim * np.dtype(request.dtype).itemsize
    return {
        "dataset": opened.name,
        "backbone": source.label,
        "preprocessing": source.preprocessing,
        "images": len(request.wanted_rows),
        "missing": len(rows),
        "dim": dim,
        "dtype": request.dtype,
        "identity": request.content.identity,
        "cached": hit is not None,
        "shards": len(shards),
        "finished_shards": len(shards) - len(missing),
        "images_per_second": rate,
        "seconds": len(rows) / rate if rate else 0.0,
        "bytes": 0 if hit is not None else size,
        "path": str(path),
    }


def _compute(request: Request, units: Sequence[Ints], bar: Progress) -> Iterator[NDArray[Any]]:
    """Values [n, d] of each unit of rows, checked."""
    values: Iterator[NDArray[Any]]
    if isinstance(request.source, Precomputed):
        values = _from_array(request.source, request.dataset, units, bar)
    else:
        values = _through_network(request, request.source, units, bar)
    for rows, block in zip(units, values, strict=True):
        if len(rows):
            _check(block, rows, request)
            check_unchanged(request.dataset, request.content, rows)
        yield block


def _from_array(
    source: Precomputed, dataset: Dataset, units: Sequence[Ints], bar: Progress
) -> Iterator[NDArray[Any]]:
    array, order = source.rows(dataset)
    for rows in units:
        bar.advance(len(rows))
        yield array[rows if order is None else order[rows]].astype(np.float32)


def _through_network(
    request: Request, backbone: Backbone, units: Sequence[Ints], bar: Progress
) -> Iterator[NDArray[Any]]:
    """Values of each unit; one without rows costs nothing."""
    step = -(-(request.batch_size or _BATCH) // backbone.block) * backbone.block
    if not any(map(len, units)):
        yield from (np.zeros((0, 0), np.float32) for _ in units)
        return
    bad: list[tuple[int, str]] = []
    with Engine(backbone, request.dataset, request.workers) as engine:
        jobs = [rows[start : start + step].tolist() for rows in units for start in range(0, len(rows), step)]
        answers = zip(jobs, engine.map(jobs), strict=True)
        for rows in units:
            parts: list[NDArray[np.float32]] = []
            for _ in range(0, len(rows), step):
                job, (values, unreadable) = next(answers)
                bar.advance(len(job))
                if unreadable:
                    bad += unreadable
                    engine.decode_only = True  # from here on only to find all the others
                if values is not None and not bad:
                    parts.append(values)
            if not bad:
                yield np.concatenate(parts) if parts else np.zeros((0, 0), np.float32)
    if bad:
        raise unreadable_images(request.dataset, bad)


def _check(values: NDArray[Any], rows: Ints, request: Request) -> None:
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
            f"images {rows[0]:,} to {rows[-1]:,}, first for '{_first_key(request, rows, bad)}'",
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


def _first_key(request: Request, rows: Ints, bad: Bools) -> str:
    return str(request.dataset.keys[int(rows[np.argmax(bad)])].as_py())
