"""What is remembered of each image: the hash of its pixels and a thumbnail, from which its descriptors follow.

The table of a dataset is made once, in shards, and kept in the cache: an interrupted run goes on where it was.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from longshot.core.files import cache_dir, cache_places, hash_text
from longshot.core.progress import progress
from longshot.datasets.dataset import Dataset, ImageStore
from longshot.datasets.images import ImageError
from longshot.datasets.overlap.descriptors import SIDE
from longshot.features.cache import Shards, lock, open_guarded
from longshot.features.content import content_of
from longshot.features.reading import read_shards

if TYPE_CHECKING:
    from PIL.Image import Image

_DIGEST = 32
_SHARD = 2048  # rows: 6 MB, what a kill can cost
_STEP = 16  # rows read together


@dataclass(frozen=True, eq=False)
class Signatures:
    """Of N images: ``digests`` [N, 32] (SHA-256 of size and pixels), ``thumbnails`` [N, 32, 32, 3], memory-mapped."""

    digests: NDArray[np.uint8]
    thumbnails: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.digests)


def signatures(dataset: Dataset, workers: int | None = None) -> Signatures:
    """The table of a dataset, from the cache when it was made before; threads decode."""
    address = hash_text("longshot signatures 2", dataset.fingerprint, content_of(dataset).digest)
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", dataset.name)[:40]
    file = f"{name}-{address[:32]}.npy"
    tables = (_open(cached, len(dataset)) for cached in cache_places("overlap", file))
    table = next((table for table in tables if table is not None), None)
    if table is None:
        path = cache_dir("overlap") / file
        with lock(path):
            table = _open(path, len(dataset))  # made by another process while we waited
            if table is None:
                shards = Shards(path, "signatures", len(dataset), _SHARD, "uint8")
                _fill(dataset, shards, workers)
                shards.assemble()
                shards.remove()
                table = _open(path, len(dataset))
    assert table is not None
    return Signatures(table[:, :_DIGEST], table[:, _DIGEST:].reshape(-1, SIDE, SIDE, 3))


def thumbnail(image: Image, side: int = SIDE) -> NDArray[np.uint8]:
    """The whole image as bytes [side, side, 3]."""
    from PIL.Image import Resampling

    small = image if image.mode == "RGB" else image.convert("RGB")
    return np.array(small.resize((side, side), Resampling.BILINEAR), np.uint8)


def pixel_hash(image: Image) -> bytes:
    """SHA-256 of width, height and RGB bytes; a file stored twice has the same pixels, so files need no hash."""
    digest = hashlib.sha256(f"{image.width}x{image.height}\n".encode())
    digest.update((image if image.mode == "RGB" else image.convert("RGB")).tobytes())
    return digest.digest()


def _open(path: Path, rows: int) -> NDArray[np.uint8] | None:
    array = open_guarded(path)
    if array is None:
        return None
    right = array.dtype == np.uint8 and array.shape == (rows, _DIGEST + 3 * SIDE * SIDE)
    return array if right else None


def _fill(dataset: Dataset, shards: Shards, workers: int | None) -> None:
    """Read every image of the missing shards; all unreadable ones are named in one error."""
    missing = shards.missing()
    if len(missing) < len(shards):
        print(
            f"resuming: {len(shards) - len(missing)} of {len(shards)} parts were read earlier",
            file=sys.stderr,
        )
    with progress(f"read images of {dataset.name}", total=len(dataset), unit="images") as bar:
        read_shards(dataset, shards, describe_rows, bar, step=_STEP, workers=workers or os.cpu_count() or 1)


def describe_rows(store: ImageStore, rows: range) -> tuple[NDArray[np.uint8], list[tuple[int, str]]]:
    """Hash and thumbnail of some rows [n, 32 + 3 · 32 · 32], and those that cannot be read."""
    values = np.zeros((len(rows), _DIGEST + 3 * SIDE * SIDE), np.uint8)
    bad = []
    for position, row in enumerate(rows):
        try:
            image = store.read(row)
        except ImageError as error:
            bad.append((row, error.reason))
            continue
        values[position, :_DIGEST] = np.frombuffer(pixel_hash(image), np.uint8)
        values[position, _DIGEST:] = thumbnail(image).ravel()
    return values, bad
