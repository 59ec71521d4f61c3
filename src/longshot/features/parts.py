"""What the cache holds of part of a dataset through a backbone, and how it grows by the images that are wanted."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longshot.core.arrays import Ints
from longshot.core.files import cache_dir, cache_places, is_writable
from longshot.core.locks import Busy
from longshot.core.wording import note
from longshot.features.backbones.base import Backbone
from longshot.features.cache import cached, lock
from longshot.features.features import Features
from longshot.features.growing import GrowingArray, grown_arrays, grown_folder, is_of_kind
from longshot.features.guard import Damaged
from longshot.features.request import Request, device_kind


def grown_lock(request: Request) -> Path:
    """What is locked while an array of the request's view grows."""
    return cache_dir("features") / f"{request.view}.npy"


def find_embedded(request: Request) -> Features | None:
    """The request's rows where the cache has all of them: in features of the whole dataset, or in what grew."""
    rows, digests = request.wanted_rows, request.content.short
    features = _whole_features(request)
    if features is not None:
        return features
    for piece in grown_arrays(request.view, len(request.dataset), request.dtype):
        if not piece.damage and piece.holds(rows, digests).all():
            return make_features(request, piece.array, piece.path)
    return None


def _whole_features(request: Request) -> Features | None:
    """Features of the whole dataset in which the request's images have the bytes they have now."""
    for cache in cache_places("features"):
        for path in sorted(cache.glob(f"{request.view}*.npy")):
            try:
                features = cached(path, request.dataset)
            except Damaged as error:
                note(f"{error.fact.rstrip('.')}; embedding the whole dataset mends it")
                continue
            if features is not None and _made_from(features, request):
                return features.restricted(request.wanted_rows)
    return None


def _made_from(features: Features, request: Request) -> bool:
    """Whether features are of the images that the request looked at."""
    rows, now = request.wanted_rows, request.content.short
    if now is None or features.digests is None:
        return now is None and features.digests is None
    return bool(np.array_equal(features.digests[rows], now[rows]))


def partly_embedded(request: Request) -> list[GrowingArray]:
    """What grew so far on this kind of device, in all places of the cache."""
    pieces = grown_arrays(request.view, len(request.dataset), request.dtype)
    return [piece for piece in pieces if is_of_kind(piece, device_kind(request.source))]


def growing_target(request: Request, pieces: list[GrowingArray]) -> GrowingArray:
    """The array to add the request's rows to: one in which no row was made from another image, or a new one."""
    rows, digests = request.wanted_rows, request.content.short
    writable = [piece for piece in pieces if is_writable(piece.folder)]
    for piece in writable:
        if piece.damage:
            piece.mend()
    for piece in writable:
        if piece.fits(rows, digests):
            return piece
    folder = grown_folder(request.view, device_kind(request.source), request.address[32:40])
    return GrowingArray(folder, len(request.dataset), request.dtype)


def rows_without(pieces: list[GrowingArray], request: Request, rows: Ints) -> Ints:
    """Those of some rows that no piece holds."""
    for piece in pieces:
        rows = rows[~piece.holds(rows, request.content.short)]
    return rows


def take_over(target: GrowingArray, pieces: list[GrowingArray], request: Request) -> Ints:
    """Copy the request's rows that other pieces hold into ``target``; the rows that none of them holds."""
    rows = rows_without([target], request, request.wanted_rows)
    for piece in pieces:
        if piece is target or not len(rows):
            continue
        held = rows[piece.holds(rows, request.content.short)]
        if len(held):
            target.write(held, piece.array[held], request.content.short)
            rows = rows_without([target], request, rows)
    return rows


def joined(pieces: list[GrowingArray], request: Request, rows: Ints, computed: NDArray[Any]) -> NDArray[Any]:
    """Values [n, d] of rows: those that pieces hold, and ``computed`` for the others, in their order."""
    if len(computed) == len(rows):
        return computed
    parts = [(rows_without(pieces, request, rows), computed.astype(request.dtype))]
    for number, piece in enumerate(pieces):
        unclaimed = rows_without(pieces[:number], request, rows)
        held = unclaimed[piece.holds(unclaimed, request.content.short)]
        parts.append((held, piece.array[held] if len(held) else computed[:0]))
    filled = [(where, values) for where, values in parts if len(where)]
    order = np.argsort(np.concatenate([where for where, _ in filled]))
    return np.concatenate([values for _, values in filled])[order]


def drop_contained(pieces: list[GrowingArray], request: Request) -> None:
    """Delete pieces whose every row is among features that were made of the whole dataset now."""
    writable = [piece for piece in pieces if is_writable(piece.folder)]
    if not writable:
        return
    with contextlib.suppress(Busy), lock(grown_lock(request), wait=False):  # what grows just now stays
        for piece in writable:
            if piece.fits(np.flatnonzero(piece.sums), request.content.short):
                piece.remove()


def make_features(request: Request, array: NDArray[Any], path: Path) -> Features:
    """The request's features in an array [N, d] of the cache."""
    import torch

    opened, source, content = request.dataset, request.source, request.content
    return Features(
        array=array,
        keys=opened.keys,
        class_ids=opened.class_ids,
        offsets=opened.offsets,
        dataset=opened.name,
        fingerprint=opened.fingerprint,
        backbone=source.label,
        weights_hash=source.weights_hash,
        preprocessing=source.preprocessing,
        hash=request.address,
        path=path,
        story={
            "device": device_kind(source),
            "torch": torch.__version__,
            "engine": source.engine if isinstance(source, Backbone) else "",
        },
        identity=content.identity,
        content=content.digest if content.identity == "content" else "",
        digests=content.short,
        backbone_identity=source.identity,
        used=request.rows,
    )


def facts_of(features: Features, embedded: int) -> dict[str, Any]:
    """What ``longshot cache`` says of features that grow: ``embedded`` images so far."""
    return {
        "dataset": features.dataset,
        "backbone": features.backbone,
        "dtype": features.array.dtype.name,
        "images": len(features),
        "embedded": embedded,
    }
