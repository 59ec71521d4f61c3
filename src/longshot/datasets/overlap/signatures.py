"""What is remembered of each image: the hash of its pixels and a thumbnail, from which its descriptor follows.

The table of a dataset is made once, in shards, and kept in the cache: an interrupted run goes on where it was.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from longshot.core.files import cache_dir, cache_places, hash_text
from longshot.core.progress import progress
from longshot.datasets.dataset import Dataset
from longshot.datasets.images import ImageError
from longshot.features.cache import Shards, lock, open_guarded
from longshot.features.content import content_of
from longshot.features.request import unreadable_images

if TYPE_CHECKING:
    from PIL.Image import Image

SIDE = 32  # of a thumbnail
LUMINANCE, CHROMA = 8, 6  # low frequencies kept per axis
_DIGEST = 32
_SHARD = 2048  # rows: 6 MB, what a kill can cost


@dataclass(frozen=True, eq=False)
class Signatures:
    """Of N images: ``digests`` [N, 32] (SHA-256 of size and pixels), ``thumbnails`` [N, 32, 32, 3], memory-mapped."""

    digests: NDArray[np.uint8]
    thumbnails: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.digests)

    def descriptors(self) -> NDArray[np.float32]:
        """[N, 133], made in blocks."""
        values = np.empty((len(self), descriptor_size()), np.float32)
        for start in range(0, len(self), 4096):
            block = torch.from_numpy(np.array(self.thumbnails[start : start + 4096]))
            values[start : start + len(block)] = descriptor(block).numpy()
        return values


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


def descriptor(thumbnails: torch.Tensor) -> torch.Tensor:
    """uint8 [P, 32, 32, 3] → [P, 133]: low frequencies of luminance (8 × 8) and of two colour differences (6 × 6).

    These are the cosine-transform coefficients that a perceptual hash takes the signs of. They are kept as numbers,
    square-rooted with their sign: a crop by 5 % turns a fifth of the signs over, but moves the numbers little.
    """
    pixels = thumbnails.float().permute(0, 3, 1, 2)
    bright = (pixels * torch.tensor([0.299, 0.587, 0.114]).view(3, 1, 1)).sum(1)
    planes = ((bright, LUMINANCE), (pixels[:, 0] - bright, CHROMA), (pixels[:, 2] - bright, CHROMA))
    parts: list[torch.Tensor] = []
    for plane, count in planes:
        waves = _cosines(count)
        # The constant part is left out: brightness alone says nothing.
        parts.append((waves @ plane @ waves.T).flatten(1)[:, 1:])
    values = torch.cat(parts, 1)
    rooted: torch.Tensor = values.sign() * values.abs().sqrt()
    return rooted


def mirrored(descriptors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Descriptors of the mirrored images: waves that are odd along a row change their sign."""
    signs = [[(-1.0) ** (i % n) for i in range(1, n * n)] for n in (LUMINANCE, CHROMA, CHROMA)]
    return descriptors * np.concatenate(signs).astype(np.float32)


def descriptor_size() -> int:
    """Numbers per descriptor."""
    return LUMINANCE**2 + 2 * CHROMA**2 - 3


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


@cache
def _cosines(count: int) -> torch.Tensor:
    """The first ``count`` rows of the orthonormal cosine transform [count, 32]."""
    angle = (torch.arange(SIDE) + 0.5) * torch.pi / SIDE
    waves: torch.Tensor = torch.cos(torch.arange(count)[:, None] * angle) * (2 / SIDE) ** 0.5
    waves[0] /= 2**0.5
    return waves


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
    bad: list[tuple[int, str]] = []

    def signature(row: int) -> NDArray[np.uint8]:
        try:
            image = dataset.store.read(row)
        except ImageError as error:
            bad.append((row, error.reason))
            return np.zeros(_DIGEST + 3 * SIDE * SIDE, np.uint8)
        digest = np.frombuffer(pixel_hash(image), np.uint8)
        return np.concatenate((digest, thumbnail(image).ravel()))

    with (
        ThreadPoolExecutor(workers or os.cpu_count() or 1) as pool,
        progress(f"read images of {dataset.name}", total=len(dataset), unit="images") as bar,
    ):
        bar.skip(len(dataset) - sum(len(shards.bounds(shard)) for shard in missing))
        for shard in missing:
            rows: Sequence[int] = shards.bounds(shard)
            values = []
            for value in pool.map(signature, rows):
                values.append(value)
                bar.advance()
            if not bad:  # from the first unreadable image on we go on only to find all the others
                shards.write(shard, np.stack(values))
    if bad:
        raise unreadable_images(dataset, sorted(bad))
