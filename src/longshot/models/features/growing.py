"""Features of part of a dataset: an array that grows as images are wanted, and a journal of what it holds.

A folder holds ``array.npy``, as large as that of the whole dataset but with holes where nothing was computed (they take
no room on disk), and ``journal``, to which every finished piece of work adds an entry: rows, digests of the images,
checksums of the vectors. Vectors are written first, so a killed process leaves rows that no entry names: they count as
missing. Rows that an entry names are never changed, so that whoever has the array open may go on reading.
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

from longshot.base import Bools, Ints, UserError, atomic, count, explain_disk_errors, write_text
from longshot.models.features.array_files import CHUNK, LastCheck, open_array, write_header, write_rows

Marks: TypeAlias = NDArray[np.uint64]  # the first 64 bits of a digest each

_ENTRY = b"longshot rows 1\n"  # opens an entry of a journal; behind a damaged one the next is looked for


class GrowingArray:
    """Some rows of an array [N, d]: ``sums`` [N] are their checksums, 0 where a row is missing.

    Parameters
    ----------
    folder : Path
        Where it lies, or will.
    rows : int
        N, the images of the whole dataset.
    dtype : str
        float16 or float32.
    """

    def __init__(self, folder: Path, rows: int, dtype: str) -> None:
        self.folder, self.dtype = folder, np.dtype(dtype)
        self.sums, self.digests = np.zeros(rows, np.uint64), np.zeros(rows, np.uint64)
        self.damage = ""  # what is not as it was written
        self._torn = False  # the journal ends in an entry that was never finished
        self._array: NDArray[Any] | None = None

    @property
    def path(self) -> Path:
        """Return the path of the array."""
        return self.folder / "array.npy"

    @property
    def journal(self) -> Path:
        """Return the path of the file that names the rows."""
        return self.folder / "journal"

    @property
    def array(self) -> NDArray[Any]:
        """Open the array [N, d], memory-mapped; holes read as zeros."""
        if self._array is None:
            self._array = open_array(self.path)
        return self._array

    def holds(self, rows: Ints, digests: Marks | None) -> Bools:
        """Mark the rows that are there, made from images with these digests [N] (None: from any)."""
        present: Bools = self.sums[rows] != 0
        return present if digests is None else present & (self.digests[rows] == digests[rows])

    def fits(self, rows: Ints, digests: Marks | None) -> bool:
        """Tell whether none of the rows was made from another image of the same name."""
        return bool(np.array_equal(self.sums[rows] != 0, self.holds(rows, digests)))

    def read(self) -> GrowingArray:
        """Take in what lies in the folder; rows that are not as they were written count as missing."""
        try:
            data = self.journal.read_bytes()
            mapped = open_array(self.path)
        except FileNotFoundError:
            return self
        except UserError as error:
            self.damage = error.fact.rstrip(".")
            return self
        if len(mapped) != len(self.sums) or mapped.dtype != self.dtype:
            self.damage = "its array has another shape than the dataset"
            return self
        self._array = mapped
        entries, self._torn, spoiled = _entries(data, len(self.sums))
        for rows, digests, sums in entries:
            self.digests[rows.astype(np.int64)], self.sums[rows.astype(np.int64)] = digests, sums
        if spoiled:
            self.damage = "its journal does not have the checksums that were recorded"
        last = LastCheck([self.path, self.journal], "rows 1")
        if not last.holds():
            self._check()
            if not self.damage:
                last.remember()
        with contextlib.suppress(OSError):  # a cache on a read-only disk still serves
            os.utime(self.folder / "about.json")
        return self

    def write(self, rows: Ints, values: NDArray[Any], digests: Marks | None) -> None:
        """Add rows [n] with their values [n, d], then name them in the journal.

        Parameters
        ----------
        rows, values
            Ascending rows, and what they hold.
        digests : array [N], optional
            Of the images of the whole dataset.
        """
        stored = np.ascontiguousarray(values.astype(self.dtype, copy=False))
        if self._torn:
            self.mend()
        if self._array is None:
            self._create(stored.shape[1])
        offset, width = getattr(self.array, "offset", 0), stored.shape[1] * self.dtype.itemsize
        starts = np.flatnonzero(np.diff(rows, prepend=-2) != 1)
        with explain_disk_errors(self.path):
            with self.path.open("r+b", 0) as file:
                for start, stop in zip(starts, [*starts[1:], len(rows)], strict=True):
                    file.seek(offset + int(rows[start]) * width)
                    write_rows(file, stored[start:stop])
            sums, marks = _row_sums(stored), np.zeros(len(rows), np.uint64)
            if digests is not None:
                marks = digests[rows]
            with self.journal.open("ab", 0) as file:
                file.write(_entry(rows, marks, sums))
        self.sums[rows], self.digests[rows] = sums, marks

    def mend(self) -> None:
        """Write the journal anew with the rows that are as they were written; without any, everything goes."""
        rows = np.flatnonzero(self.sums)
        if self._array is None or not len(rows):
            self.remove()
            self._array, self._torn = None, False
            return
        with atomic(self.journal) as temporary:
            temporary.write_bytes(_entry(rows, self.digests[rows], self.sums[rows]))
        self._torn = False

    def describe(self, dataset: str, backbone: str) -> None:
        """Write what people call it, for ``longshot cache``."""
        facts = {
            "dataset": dataset,
            "backbone": backbone,
            "dtype": self.dtype.name,
            "images": len(self.sums),
            "embedded": int((self.sums != 0).sum()),
        }
        with contextlib.suppress(UserError):  # a full disk is told where it matters
            write_text(self.folder / "about.json", json.dumps(facts))

    def remove(self) -> None:
        """Delete the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _create(self, dim: int) -> None:
        """Create an array of holes without a journal; whatever lay there was damaged."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.journal.unlink(missing_ok=True)
        with atomic(self.path) as temporary, temporary.open("wb") as file:
            write_header(file, (len(self.sums), dim), self.dtype)
            file.truncate(file.tell() + len(self.sums) * dim * self.dtype.itemsize)
        self._array = open_array(self.path)

    def _check(self) -> None:
        """Forget the rows whose numbers do not have their checksum."""
        width = int(self.array.shape[1]) * self.dtype.itemsize
        offset, step = getattr(self.array, "offset", 0), max(1, CHUNK // max(1, width))
        present, wrong = int((self.sums != 0).sum()), 0
        # read(), not the map: pages of a map count as this process's memory
        with self.path.open("rb") as file:
            for start in range(0, len(self.sums), step):
                rows = start + np.flatnonzero(self.sums[start : start + step])
                if not len(rows):
                    continue
                file.seek(offset + int(rows[0]) * width)
                read = np.frombuffer(file.read(int(rows[-1] - rows[0] + 1) * width), self.dtype)
                values = read.reshape(-1, self.array.shape[1])[rows - rows[0]]
                bad = rows[_row_sums(values) != self.sums[rows]]
                self.sums[bad] = 0
                wrong += len(bad)
        if wrong:
            verb = "do" if wrong > 1 else "does"
            self.damage = (
                f"{wrong:,} of {count(present, 'vector')} {verb} not have the checksum that was recorded"
            )


def _row_sums(values: NDArray[Any]) -> Marks:
    """Return the first 64 bits of the SHA-256 of each row of values [n, d], never 0."""
    first = b"".join(hashlib.sha256(row.data).digest()[:8] for row in np.ascontiguousarray(values))
    sums = np.frombuffer(first, "<u8").astype(np.uint64)
    sums[sums == 0] = 1
    return sums


def _entry(rows: Ints, digests: Marks, sums: Marks) -> bytes:
    columns = np.stack([rows.astype("<u8"), digests.astype("<u8"), sums.astype("<u8")])
    body = _ENTRY + struct.pack("<Q", len(rows)) + columns.tobytes()
    return body + hashlib.sha256(body).digest()


def _entries(data: bytes, rows: int) -> tuple[list[Marks], bool, bool]:
    """Parse a journal into (rows, digests, sums) [3, n] per entry, whether it ends unfinished, and is damaged.

    An entry that breaks off at the end was being written when its process was killed: it is none.
    """
    entries: list[Marks] = []
    start, opening, damaged = 0, len(_ENTRY) + 8, False
    while start < len(data):
        body, stop = data[start : start + opening], len(data)
        if len(body) == opening:
            stop = start + opening + 24 * int.from_bytes(body[-8:], "little")
            body = data[start:stop]
        if body.startswith(_ENTRY) and hashlib.sha256(body).digest() == data[stop : stop + 32]:
            columns = np.frombuffer(body, "<u8", offset=opening).reshape(3, -1).astype(np.uint64)
            if (columns[0] < rows).all():
                entries.append(columns)
            else:
                damaged = True
            start = stop + 32
            continue
        following = data.find(_ENTRY, start + 1)
        if following < 0:
            return entries, True, damaged or not body.startswith(_ENTRY[: len(body)])
        start, damaged = following, True
    return entries, False, damaged
