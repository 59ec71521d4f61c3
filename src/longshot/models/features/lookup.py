"""Are these features here, and are they of these bytes? What is asked for, the images as they are now, what is cached.

A request is addressed by a ``view`` (names of the images, network, preprocessing, dtype) and a mark of the images'
bytes. The cache holds features of a whole dataset under both, and under the view alone arrays that grow by the images
that are wanted, each row with the digest of its image.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from longshot.base import (
    Ints,
    LockBusy,
    UserError,
    cache_dir,
    cache_places,
    count,
    first,
    hash_text,
    is_writable,
    note,
)
from longshot.data import (
    Dataset,
    compare_content,
    content_digest,
    image_digests,
    short_digests,
    stamp_rows,
    stamps_of,
)
from longshot.models.backbones import open_backbone
from longshot.models.features import BLOCK, Features
from longshot.models.features.array_files import DTYPES, Damaged, open_array, sidecar
from longshot.models.features.cache import Shards, features_view, hold_lock, images_mark

if TYPE_CHECKING:
    from longshot.models.backbones import BackboneLike
    from longshot.models.backbones.base import Backbone, Precomputed
    from longshot.models.features.cache import GrowingArray


_PROBED = 16  # images that are read where names are to be enough

# content digests of datasets that are open: sorting a million keys takes longer than looking at their files
_digests: WeakKeyDictionary[Dataset, tuple[str, str]] = WeakKeyDictionary()


# ---- the images as they are now


@dataclass(frozen=True, eq=False)
class Content:
    """A dataset's images as they were when they were looked at."""

    identity: str  # "content" or "names"
    digest: str  # over keys and bytes of all images, or of a few where names are to be enough; "" where none was read
    short: NDArray[np.uint64] | None = None  # [N] of each image, by content; 0 where none was looked at
    stamps: Ints | None = None  # [N, 3] of the files behind them, by content


def content_of(dataset: Dataset, rows: Ints | None = None) -> Content:
    """Look at the images of a dataset as they are now.

    Parameters
    ----------
    dataset : Dataset
        Images whose digests are remembered cost a look at their files, others are read. Where the dataset's identity
        is "names" only a few images, evenly spread, are: they keep two folders apart that name their files alike.
    rows : array [M] of int, optional
        The images that matter; all by default. Others are not looked at.
    """
    if dataset.identity == "names":
        spread = np.unique(np.linspace(0, len(dataset) - 1, _PROBED).astype(np.int64))
        return Content("names", content_digest(_keys(dataset, spread), image_digests(dataset, spread)))
    chosen = np.arange(len(dataset)) if rows is None else rows
    look = stamp_rows(dataset.store, chosen)
    digests = image_digests(dataset, rows, look=look)
    short, stamps = np.zeros(len(dataset), np.uint64), np.full((len(dataset), 3), -1, np.int64)
    short[chosen], stamps[chosen] = short_digests(digests), look.stamps
    if rows is not None:
        return Content("content", content_digest(_keys(dataset, rows), digests), short, stamps)
    mark = hashlib.sha256(np.ascontiguousarray(digests).data).hexdigest()
    if _digests.get(dataset, ("", ""))[0] != mark:
        _digests[dataset] = (mark, content_digest(dataset.keys, digests))
    return Content("content", _digests[dataset][1], short, stamps)


def check_made_from(features: Features, dataset: Dataset) -> None:
    """Refuse features that were made from other images than a dataset of the same names holds now.

    Nothing can be told of features that vouch for names only, nor of a dataset that is looked at by names.
    """
    if features.digests is None or dataset.identity == "names" or features.fingerprint != dataset.fingerprint:
        return
    used = np.arange(len(dataset)) if features.used is None else features.used
    content = content_of(dataset, features.used)
    assert content.short is not None
    if np.array_equal(features.digests[used], content.short[used]):
        return
    before, now = (features.keys.take(pa.array(used)), features.digests[used]), _keys(dataset, used)
    raise UserError(
        f"The features '{features.backbone}' were made from other images than dataset '{dataset.name}' holds now: "
        f"{compare_content(*before, now, content.short[used])}",
        "embed it with the same backbone",
    )


def check_unchanged(dataset: Dataset, content: Content, rows: Iterable[int]) -> None:
    """Refuse rows whose files changed since ``content`` was looked at."""
    if content.stamps is None:
        return
    chosen = np.fromiter(rows, np.int64)
    changed = chosen[(stamps_of(dataset.store, chosen) != content.stamps[chosen]).any(axis=1)]
    if len(changed):
        keys = _keys(dataset, changed).to_pylist()
        raise UserError(
            f"{count(keys, 'image')} of dataset '{dataset.name}' changed while they were read ({first(keys)})",
            "do the same again",
        )


def _keys(dataset: Dataset, rows: Ints | None) -> pa.Array:
    return dataset.keys if rows is None else dataset.keys.take(pa.array(rows))


# ---- what is asked for


@dataclass(frozen=True)
class Request:
    """What is to be embedded, opened and checked."""

    dataset: Dataset
    source: Backbone | Precomputed
    dtype: str
    workers: int | None
    batch_size: int | None
    rows: Ints | None = None  # the images to embed, ascending; None: all

    @property
    def wanted_rows(self) -> Ints:
        """Return the rows to embed."""
        return np.arange(len(self.dataset)) if self.rows is None else self.rows

    @cached_property
    def content(self) -> Content:
        """Look at the dataset's images, once; given vectors are bound to images by name."""
        # here, so that a look at images needs no PyTorch
        from longshot.models.backbones.base import Precomputed

        if isinstance(self.source, Precomputed):
            return Content("names", "")
        return content_of(self.dataset, self.rows)

    @property
    def view(self) -> str:
        """Hash what features of any images of the dataset share: names, network, preprocessing and dtype.

        Another one once the network has settled for an engine.
        """
        probed = self.content.digest if self.content.identity == "names" else ""
        facts = (self.dataset.fingerprint, self.content.identity, probed, self.source.identity, self.dtype)
        return features_view(*facts)

    @property
    def address(self) -> str:
        """Return the hash of the features: of the view and of the images in use (by names: of the view alone)."""
        return self.view + (self._images or hash_text(self.view)[:32])

    @cached_property
    def _images(self) -> str:
        """Return the mark of the images in use; "" by names."""
        if self.content.short is None:
            return ""
        return images_mark(_keys(self.dataset, self.rows), self.content.short[self.wanted_rows])

    @property
    def path(self) -> Path:
        """Return where features of the whole dataset will lie; it is locked while those of some images grow."""
        return features_path(self.address if self.rows is None else self.view)

    def shards(self, path: Path) -> Shards:
        """Return the pieces of the array at ``path``."""
        return Shards(path, self.source.device.type, len(self.dataset), BLOCK, self.dtype)

    def find(self) -> Features | Damaged | None:
        """Find the rows of the request in the cache, all of them and made from the bytes that the images have now.

        For a whole dataset whose features are damaged in every place that has them: what is wrong in the last.
        """
        damaged: Damaged | None = None
        pattern = f"{self.address}.npy" if self.rows is None else f"{self.view}*.npy"
        for path in [path for folder in cache_places("features") for path in sorted(folder.glob(pattern))]:
            try:
                features = _open(path, self.dataset)
            except Damaged as error:
                damaged = error
                if self.rows is not None:
                    note(f"{error.fact.rstrip('.')}; embedding the whole dataset mends it")
                continue
            if features is not None and self._made(features):
                return features.restricted(self.wanted_rows)
        if self.rows is None:
            return damaged
        for piece in grown_arrays(self.view, len(self.dataset), self.dtype):
            if not piece.damage and piece.holds(self.rows, self.content.short).all():
                return self.features(piece.array, piece.path)
        return None

    def _made(self, features: Features) -> bool:
        """Tell whether features are of the images that the request looked at."""
        rows, now = self.wanted_rows, self.content.short
        if now is None or features.digests is None:
            return now is None and features.digests is None
        return bool(np.array_equal(features.digests[rows], now[rows]))

    def features(self, array: NDArray[Any], path: Path) -> Features:
        """Wrap an array [N, d] of the cache as the request's features."""
        import torch

        opened, source, content = self.dataset, self.source, self.content
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
            hash=self.address,
            path=path,
            story={"device": source.device.type, "torch": torch.__version__, "engine": source.engine},
            identity=content.identity,
            content=content.digest if content.identity == "content" else "",
            digests=content.short,
            backbone_identity=source.identity,
            used=self.rows,
        )


def open_request(
    dataset: Dataset | str | Path,
    backbone: BackboneLike,
    dtype: str = "float16",
    device: str = "auto",
    workers: int | None = None,
    batch_size: int | None = None,
    preprocessing: str | None = None,
    allow_download: bool = False,
    identity: str | None = None,
    engine: str | None = None,
    rows: Ints | None = None,
) -> Request:
    """Open and check what :func:`longshot.embed` is to do; ``rows`` are the images to embed, all by default."""
    if dtype not in DTYPES:
        raise UserError(f"{{dtype}} is {dtype!r}, but features are stored as {' or '.join(DTYPES)}.")
    check_workers(workers)
    if batch_size is not None and batch_size < 1:
        raise UserError(f"{{batch_size}} is {batch_size}, but a batch holds 1 or more images.")
    if not isinstance(dataset, Dataset):
        from longshot.data import open_dataset

        dataset = open_dataset(dataset)
    source = open_backbone(
        backbone, device, preprocessing=preprocessing, allow_download=allow_download, engine=engine
    )
    if rows is not None:
        rows = np.unique(np.asarray(rows, np.int64))
        rows = None if len(rows) == len(dataset) else rows
    return Request(dataset.with_identity(identity), source, dtype, workers, batch_size, rows)


def check_workers(workers: int | None) -> None:
    """Refuse a negative number of decoding processes."""
    if workers is not None and workers < 0:
        raise UserError(f"{{workers}} is {workers}, but decoding takes 0 or more worker processes.")


# ---- features of the whole dataset


def features_path(address: str) -> Path:
    """Return where features with this content-address will lie, in the first writable place of the cache."""
    return cache_dir("features") / f"{address}.npy"


def _open(path: Path, dataset: Dataset) -> Features | None:
    """Open the features of a dataset at ``path`` where they are complete, and mark them as used.

    ``Damaged`` where they are not as they were written.
    """
    if not sidecar(path).exists() or not path.exists():
        return None
    try:
        features = Features.load(path, check=False)
    except Damaged:
        raise
    except UserError as error:
        raise Damaged(path, error.fact.rstrip(".")) from error
    if not features.keys.equals(dataset.keys) or features.fingerprint != dataset.fingerprint:
        raise Damaged(path, f"its keys are not those of dataset '{dataset.name}'")
    with contextlib.suppress(OSError):  # a cache on a read-only disk still serves
        os.utime(sidecar(path))
    return features


def salvage(damaged: Damaged, shards: Shards) -> None:
    """Take what is whole of damaged features apart into shards, and the rest out of the way."""
    path = damaged.path.with_suffix(".npy")
    with contextlib.suppress(OSError):  # a cache that cannot be written keeps what it has
        sidecar(path).unlink(missing_ok=True)
    if damaged.intact is None:
        shards.remove()
        return
    array = open_array(path)
    for shard in np.flatnonzero(damaged.intact).tolist():
        rows = shards.bounds(shard)
        shards.write(shard, array[rows.start : rows.stop])


# ---- what grew by the images that were wanted


def grown_arrays(view: str, rows: int, dtype: str) -> list[GrowingArray]:
    """Open what all places of the cache hold of a view (32 hex digits), in their order."""
    folders = [
        folder for cache in cache_places("features") for folder in sorted(cache.glob(f"{view}.grown-*"))
    ]
    if not folders:
        return []
    from longshot.models.features.cache import GrowingArray

    return [GrowingArray(folder, rows, dtype).read() for folder in folders]


class Pieces:
    """What grew of a request's view so far on this kind of device (kinds agree only up to rounding), in all places."""

    def __init__(self, request: Request, *, ignore: bool = False) -> None:
        self.request, self.digests = request, request.content.short
        grown = [] if ignore else grown_arrays(request.view, len(request.dataset), request.dtype)
        kind = f".grown-{request.source.device.type}-"
        self.arrays = [array for array in grown if kind in array.folder.name]
        self.writable = [array for array in self.arrays if is_writable(array.folder)]

    def lacking(self, rows: Ints) -> Ints:
        """Return those of some rows that no piece holds."""
        for array in self.arrays:
            rows = rows[~array.holds(rows, self.digests)]
        return rows

    def joined(self, rows: Ints, computed: NDArray[Any]) -> NDArray[Any]:
        """Join values [n, d] of rows, in their order: those that pieces hold, and ``computed`` for the others."""
        if len(computed) == len(rows):
            return computed
        stored = computed.astype(self.request.dtype)
        values = dict(zip(self.lacking(rows).tolist(), stored, strict=True))
        for array in self.arrays:
            for row in rows[array.holds(rows, self.digests)].tolist():
                values.setdefault(row, array.array[row])
        return np.stack([values[row] for row in rows.tolist()])

    def target(self) -> tuple[GrowingArray, Ints]:
        """Choose the array to add the request's rows to; return also those it lacks after taking other pieces' rows.

        One in which no row was made from another image, or a new one.
        """
        from longshot.models.features.cache import GrowingArray

        request, rows = self.request, self.request.wanted_rows
        for array in self.writable:
            array.mend()
        name = f"{request.view}.grown-{request.source.device.type}-{request.address[32:40]}"
        new = GrowingArray(cache_dir("features") / name, len(request.dataset), request.dtype)
        target = next((array for array in self.writable if array.fits(rows, self.digests)), new)
        for array in [target, *self.arrays]:
            held = rows[array.holds(rows, self.digests)]
            if array is not target and len(held):
                target.write(held, array.array[held], self.digests)
            rows = rows[~target.holds(rows, self.digests)]
        return target, rows

    def drop_contained(self) -> None:
        """Delete pieces whose every row is among features that were made of the whole dataset now."""
        if not self.writable:
            return
        path = features_path(self.request.view)
        with contextlib.suppress(LockBusy), hold_lock(path, wait=False):  # what grows just now stays
            for array in self.writable:
                if array.fits(np.flatnonzero(array.held), self.digests):
                    array.remove()
