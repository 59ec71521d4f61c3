"""``embed``: run a backbone over a dataset, block by block, into the cache; ``embed_rows``: over some of its images.

Work is cut into shards of fixed rows, each written whole: a killed run goes on where it was. The numbers do
not depend on workers, batch size or the images that share a block (see ``engine``), nor do the bytes of the file.
"""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from longshot.base import FailureList, Ints, count, note, progress, with_executor
from longshot.data import Dataset
from longshot.models.backbones.base import GivenFeatures, Precomputed
from longshot.models.features import BLOCK, EmbedWork, Features
from longshot.models.features.array_files import Damaged, sidecar
from longshot.models.features.cache import hold_lock
from longshot.models.features.lookup import (
    Pieces,
    Request,
    check_made_from,
    features_path,
    open_request,
    salvage,
)

if TYPE_CHECKING:
    from longshot.models.backbones import BackboneLike


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
    """Compute the features of a dataset through a backbone, or read them from the cache.

    Parameters
    ----------
    dataset : Dataset, str or Path
        N images, or what ``open_dataset`` opens.
    backbone : str, array, Tensor, nn.Module or Features
        What turns an image into numbers; repeat for several (see 'longshot backbones'). A name as in
        ``list_backbones``; the folder of a trained network; features [N, d] that you have already; a module
        from images [B, 3, H, W] to [B, d] or [B, d, h, w] (averaged over h, w). See ``open_backbone``.
    dtype : {"float16", "float32"}
        How the numbers are stored.
    device : {"auto", "cpu", "cuda", "mps"}
        Where to compute; auto: an accelerator if any.
    workers : int, at least 0, optional
        Processes that decode images; 0 decodes in the computing threads. They change no number. Default: what
        is fastest.
    batch_size : int, at least 1, optional
        Images decoded at a time; changes memory and speed, not the numbers. Default: 64.
    preprocessing : str, optional
        In place of the network's own, and then part of its name:
        'decode|resize(96)|central_crop(84)|normalize(imagenet)'; for another size alone write it behind the
        name: 'efficientnet-lite0(size=128)'.
    allow_download : bool
        Let hf: and timm: backbones fetch weights.
    refresh : bool
        Compute anew even if the cache has it.
    identity : {"content", "names"}, optional
        How results identify images: by their bytes, or by their names alone (for huge, slow drives). The bytes are
        read once for it. By names, an image that is changed in place goes unnoticed, and every result says so.
        Where a dataset says nothing, LONGSHOT_IDENTITY holds, or content. Default: as the dataset.
    engine : auto|torch|onnxruntime|openvino, str, optional
        Library that runs networks on a CPU; torch takes settings: 'torch(autocast=bfloat16)'. ``auto`` takes ONNX
        Runtime on a CPU and PyTorch elsewhere. A network that cannot be converted, or then differs from PyTorch
        by more than 1e-4, stays with PyTorch; a note says so. ``torch(autocast='bfloat16', channels_last=True,
        compile=True)`` gives PyTorch settings. Default: what LONGSHOT_ENGINE says, or auto.
    on : local|ray|ray://HOST:PORT, str, optional
        Where the work runs: in threads here, or on a Ray cluster, with the same result. ``"ray"`` is the cluster of
        this machine, or one that is started. Default: what LONGSHOT_ON says, or local.
    gpus_per_worker : float, at least 0, optional
        GPUs that each worker of a cluster has.
    retry_failed : bool, optional
        Try units again that failed three times on a cluster. They are left out otherwise.

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
    return _embed(request, refresh=refresh)


def embed_rows(
    dataset: Dataset,
    backbone: BackboneLike,
    rows: Ints,
    *,
    device: str = "auto",
    preprocessing: str | None = None,
    engine: str | None = None,
) -> Features:
    """Compute the features of some images of a dataset, such as those that tasks use.

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
    return _embed(request)


def _embed(request: Request, *, refresh: bool = False) -> Features:
    """Return the request's features, from the cache where they were computed before."""
    started = time.monotonic()
    if isinstance(request.source, GivenFeatures):
        return _renamed(_given(request, request.source), request, started)
    stored = None if refresh else request.find()
    if isinstance(stored, Features):
        return _renamed(stored, request, started)
    request.source.settle(request.dataset, request.wanted_rows.tolist())
    with hold_lock(request.path):  # known now: it is another one where the network stays with PyTorch
        stored = None if refresh else request.find()
        if isinstance(stored, Features):  # made by another process while we waited
            return _renamed(stored, request, started)
        pieces = Pieces(request, ignore=refresh)
        if request.rows is None:
            features, damage = _embed_all(request, pieces, stored, refresh=refresh)
        else:
            features, damage = _embed_some(request, pieces)
    if damage:
        note(
            f"the cached features of '{request.dataset.name}' through '{request.source.label}' were damaged "
            f"({damage}); they are whole again, {features.work.images:,} of "
            f"{count(len(request.wanted_rows), 'image')} had to be embedded anew"
        )
    work = dataclasses.replace(features.work, seconds=time.monotonic() - started)
    return dataclasses.replace(features, work=work)


def _embed_all(
    request: Request, pieces: Pieces, damaged: Damaged | None, *, refresh: bool
) -> tuple[Features, str]:
    """Embed the whole dataset, shard by shard; return also what was wrong with features that were there."""
    path = request.path
    shards = request.shards(path)
    if refresh:
        sidecar(path).unlink(missing_ok=True)
        shards.remove()
    if damaged is not None:
        salvage(damaged, shards)
    missing = shards.missing()
    resumed = 0 if damaged is not None else len(shards) - len(missing)
    if resumed:
        print(f"resuming: {resumed} of {len(shards)} shards were finished earlier", file=sys.stderr)
    units = [pieces.lacking(np.array(shards.bounds(shard))) for shard in missing]

    def write(number: int, values: NDArray[Any]) -> None:
        shards.write(missing[number], pieces.joined(np.array(shards.bounds(missing[number])), values))

    _compute(request, units, path, write)
    sums = shards.assemble(guard=False)
    work = EmbedWork(False, len(shards), resumed, sum(map(len, units)))
    features = dataclasses.replace(request.features(np.load(path, mmap_mode="r"), path), work=work)
    features.write_sidecar(path, sums=sums, keys_apart=True)
    shards.remove()
    pieces.drop_contained()
    return features, "" if damaged is None else damaged.damage


def _embed_some(request: Request, pieces: Pieces) -> tuple[Features, str]:
    """Embed the rows of the request in an array that grows; return also what was wrong with an earlier one."""
    damage = next((array.damage for array in pieces.arrays if array.damage), "")
    target, rows = pieces.target()
    units = [rows[start : start + BLOCK] for start in range(0, len(rows), BLOCK)]

    def write(number: int, values: NDArray[Any]) -> None:
        target.write(units[number], values, request.content.short)

    _compute(request, units, target.path, write)
    work = EmbedWork(False, len(units), 0, len(rows))
    features = dataclasses.replace(request.features(target.array, target.path), work=work)
    target.describe(features.dataset, features.backbone)
    return features, damage


def _compute(
    request: Request, units: list[Ints], path: Path, write: Callable[[int, NDArray[Any]], None]
) -> None:
    """Write each unit of rows, by its number, as it is finished; ``path`` is that of the array."""
    from longshot.models.features.engine import compute  # here, so that a cache hit stays cheap

    total, name = len(request.wanted_rows), f"embed {request.dataset.name} with {request.source.name}"
    with progress(name, total, "images") as bar:
        bar.skip(total - sum(map(len, units)))
        failures = FailureList(path.with_suffix(".failed.json"))  # images that made workers fail
        with closing(compute(request, units, bar, failures)) as computed:
            for number, values in computed:
                write(number, values)


def _given(request: Request, source: GivenFeatures) -> Features:
    """Return the caller's features for the rows of the request; say what differs where they are of other images."""
    source.rows(request.dataset)
    features = source.features if request.rows is None else source.features.restricted(request.rows)
    check_made_from(features, request.dataset)
    return features


def _renamed(features: Features, request: Request, started: float) -> Features:
    """Return cached features under the names that dataset and backbone have today."""
    work = EmbedWork(seconds=time.monotonic() - started)
    return dataclasses.replace(
        features, dataset=request.dataset.name, backbone=request.source.label, work=work
    )


def estimate_embedding(
    dataset: Dataset | str | Path, backbone: BackboneLike, **options: Any
) -> dict[str, Any]:
    """Estimate what :func:`embed` would take, by a short probe: seconds, images/s, bytes; nothing is written.

    ``options`` are those of ``embed``, and ``rows`` where only some images are to be embedded.
    """
    from longshot.models.features.engine import probe_speed

    request = open_request(dataset, backbone, **options)
    opened, source = request.dataset, request.source
    stored = source.features if isinstance(source, GivenFeatures) else request.find()
    hit = stored if isinstance(stored, Features) else None
    path = hit.path if hit is not None and hit.path is not None else features_path(request.address)
    shards = request.shards(path)
    missing = shards.missing() if hit is None and request.rows is None else []
    pieces = Pieces(request, ignore=hit is not None)
    rows = request.wanted_rows[:0]
    if hit is None:
        unfinished = [np.array(shards.bounds(shard)) for shard in missing]
        rows = pieces.lacking(np.concatenate([rows, *unfinished]) if request.rows is None else request.rows)
    rate, dim = None, hit.dim if hit is not None else 0
    if not len(rows) and pieces.arrays:
        dim = int(pieces.arrays[0].array.shape[1])
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
