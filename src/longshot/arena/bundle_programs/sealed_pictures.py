"""The images of a bundle: each one compressed without loss, those of a dataset under a key of their own.

A file is the keystream of SHAKE-256 over (its records): the count, the ends of the records, the records. The key is in
the ingestion program of the runs that need the dataset, and nowhere else.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

THREADS = 4


def seal(data: bytes, key: bytes) -> bytes:
    """Encrypt ``data`` under ``key``, which serves for this one file; the same call decrypts it."""
    stream = hashlib.shake_256(b"longshot bundle" + key).digest(len(data))
    return (np.frombuffer(data, np.uint8) ^ np.frombuffer(stream, np.uint8)).tobytes()


def pack(records: Sequence[bytes]) -> bytes:
    """Join records of any length into one bytes object."""
    ends = np.cumsum([len(record) for record in records], dtype="<u8")
    return len(records).to_bytes(8, "little") + ends.tobytes() + b"".join(records)


class Pictures:
    """Images by row, decoded when they are asked for: ``pictures[rows]`` is uint8 [n, size, size, 3]."""

    def __init__(self, packed: bytes, size: int) -> None:
        count = int.from_bytes(packed[:8], "little")
        ends = np.frombuffer(packed, "<u8", count, 8).astype(np.int64)
        self._bounds = np.concatenate([[0], ends]) + 8 + 8 * count
        self._packed, self.size = packed, size

    def __len__(self) -> int:
        return len(self._bounds) - 1

    def __getitem__(self, rows: Any) -> np.ndarray[Any, Any]:
        made = np.empty((len(rows), self.size, self.size, 3), np.uint8)
        with ThreadPoolExecutor(THREADS) as pool:
            for position, image in enumerate(pool.map(self._image, rows, chunksize=16)):
                made[position] = image
        return made

    def _image(self, row: int) -> np.ndarray[Any, Any]:
        from PIL import Image

        record = self._packed[self._bounds[row] : self._bounds[row + 1]]
        with Image.open(io.BytesIO(record)) as image:
            picture = image.convert("RGB")
        if picture.size != (self.size, self.size):  # kept as it came, which is smaller
            picture = picture.resize((self.size, self.size), Image.Resampling.BILINEAR)
        return np.asarray(picture)
