"""``embed``: run a backbone over a dataset, block by block, into the cache; ``embed_rows``: over some of its images.

Work is cut into shards of fixed rows, each written whole: a killed run goes on where it was. The numbers do
not depend on workers, batch size or the images that share a block (see ``engine``), nor do the bytes of the file.
"""

from __future__ import annotations

import dataclasses
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from longshot.core.arrays import Ints
from longshot.core.progress import progress
from longshot.core.wording import count, note
from longshot.datasets.dataset import Dataset
from longshot.features.backbones.base import Precomputed
from longshot.features.backbones.objects import GivenFeatures
from longshot.features.cache import features_path, find_features, lock, salvage
from longshot.features.computing import compute, failures_file
from longshot.features.content import check_made_from
from longshot.features.engine import probe_speed
from longshot.features.features import BLOCK, EmbedWork, Features
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
from longshot.features.request import EmbedOptions, Request, open_request
from longshot.features.sidecar import sidecar
from longshot.scale import FailureList, with_executor

if TYPE_CHECKING:
    from longshot.features.backbones import BackboneLike


@with_executor
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
    on: str | None = None,
    gpus_per_worker: float | None = None,
    retry_failed: bool | None = None,
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
        In place of the backbone's own, and then part of its name: ``decode|resize(256)|central_crop(224)|…``. Another
        size alone is written behind the name: ``efficientnet-lite0(size=128)``.
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
    on : str, optional
        Where the work runs: "local" (threads here), "ray" (the Ray cluster of this machine, or one that is started) or
        "ray://HOST:PORT"; what LONGSHOT_ON says, or local, unless given. Changes no byte.
    gpus_per_worker : float, optional
        GPUs that each worker of a cluster has.
    retry_failed : bool, optional
        Try images again on which workers of a cluster failed three times; they are left out otherwise.

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
            with closing(compute(request, units, bar, FailureList(failures_file(path)))) as computed:
                for number, values in computed:
                    shard = missing[number]
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
            with closing(compute(request, units, bar, FailureList(failures_file(target.path)))) as computed:
                for number, values in computed:
                    target.write(units[number], values, request.content.short)
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
