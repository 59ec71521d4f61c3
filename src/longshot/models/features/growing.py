"""Features of part of a dataset: an array that grows as images are wanted.

A folder holds a file for every finished piece of work, behind a checksum of itself: the rows, the digests of their
images and the vectors. A piece appears whole or not at all and is never changed; a damaged one counts as missing.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import struct
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from longshot.base import Bools, Ints, UserError, count, read_sealed, write_sealed, write_text

Marks: TypeAlias = NDArray[np.uint64]  # the first 64 bits of a digest each
_HEAD = struct.Struct("<QQQ")  # rows, numbers of a vector, bytes of a number


class GrowingArray:
    """Some rows of an array [N, d]; ``held`` [N] marks them, ``digests`` [N] are those of the images they are of.

    Parameters
    ----------
    folder : Path
        Where the pieces lie, or will.
    rows : int
        Rows of the array (N).
    dtype : str
        ``float16`` or ``float32``.
    """

    def __init__(self, folder: Path, rows: int, dtype: str) -> None:
        self.folder, self.dtype = folder, np.dtype(dtype)
        self.held, self.digests = np.zeros(rows, np.bool_), np.zeros(rows, np.uint64)
        self.array: NDArray[Any] = np.zeros(
            (rows, 0), self.dtype
        )  # zeros take no memory until they are written to
        self.damaged: list[Path] = []

    @property
    def path(self) -> Path:
        """Return the path of what describes it, which is there once anything is."""
        return self.folder / "about.json"

    @property
    def damage(self) -> str:
        """Say what is not as it was written."""
        verb = "does" if len(self.damaged) == 1 else "do"
        pieces = count(self.damaged, "piece")
        return f"{pieces} {verb} not have the checksum that was recorded" if self.damaged else ""

    def holds(self, rows: Ints, digests: Marks | None) -> Bools:
        """Mark the rows that are there, made from images with these digests [N] (None: from any)."""
        present = self.held[rows]
        return present if digests is None else present & (self.digests[rows] == digests[rows])

    def fits(self, rows: Ints, digests: Marks | None) -> bool:
        """Tell whether none of the rows was made from another image of the same name."""
        return bool(np.array_equal(self.held[rows], self.holds(rows, digests)))

    def read(self) -> GrowingArray:
        """Take in what lies in the folder."""
        for file in sorted(self.folder.glob("*.rows")):
            content = read_sealed(file)
            if content is None:
                self.damaged.append(file)
                continue
            number, dim, size = _HEAD.unpack_from(content)
            if size == self.dtype.itemsize:
                rows, digests = np.frombuffer(content, "<u8", 2 * number, _HEAD.size).reshape(2, -1)
                values = np.frombuffer(content, self.dtype, offset=_HEAD.size + 16 * number)
                self._take(rows.astype(np.int64), digests, values.reshape(number, dim))
        with contextlib.suppress(OSError):  # a cache on a read-only disk still serves
            os.utime(self.path)
        return self

    def write(self, rows: Ints, values: NDArray[Any], digests: Marks | None) -> None:
        """Add rows [n] with their values [n, d]."""
        stored = values.astype(self.dtype, copy=False)
        marks = np.zeros(len(rows), np.uint64) if digests is None else digests[rows]
        numbers = np.stack([rows.astype("<u8"), marks.astype("<u8")]).tobytes()
        file = self.folder / f"{hashlib.sha256(numbers).hexdigest()[:32]}.rows"
        write_sealed(file, _HEAD.pack(*stored.shape, self.dtype.itemsize), numbers, stored.tobytes())
        self._take(rows, marks, stored)

    def mend(self) -> None:
        """Delete the pieces that are damaged."""
        for file in self.damaged:
            file.unlink(missing_ok=True)

    def describe(self, dataset: str, backbone: str) -> None:
        """Write what people call it, for ``longshot cache``."""
        facts = {
            "dataset": dataset,
            "backbone": backbone,
            "dtype": self.dtype.name,
            "images": len(self.held),
            "embedded": int(self.held.sum()),
        }
        with contextlib.suppress(UserError):  # a full disk is told where it matters
            write_text(self.path, json.dumps(facts))

    def remove(self) -> None:
        """Delete the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _take(self, rows: Ints, digests: Marks, values: NDArray[Any]) -> None:
        if not self.held.any():
            self.array = np.zeros((len(self.held), values.shape[1]), self.dtype)
        self.array[rows], self.held[rows], self.digests[rows] = values, True, digests
