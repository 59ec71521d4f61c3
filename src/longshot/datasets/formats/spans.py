"""Images that lie as runs of bytes inside a few large files: records, tar members, raw pixels. One read each."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from longshot.core.arrays import Ints
from longshot.core.errors import UserError
from longshot.datasets.files import container_stamps, file_stamp, need_stamp, reason_of
from longshot.datasets.images import ImageError, decode

if TYPE_CHECKING:
    from PIL.Image import Image

Decode = Callable[[bytes, str], "Image"]


@dataclass(frozen=True, eq=False)
class SpanStore:
    """Row i is ``length[i]`` bytes at ``offset[i]`` of ``files[file[i]]``, made an image by ``decoder(data, where)``.

    ``decoder`` must be picklable: a function of a module, or an instance of a small class with ``__call__``. Its method
    ``encoded(data, where)``, where it has one, gives the bytes that the image's digest is over.
    """

    files: tuple[str, ...]
    file: NDArray[np.integer]  # [N]
    offset: NDArray[np.int64]  # [N]
    length: NDArray[np.int64]  # [N]
    decoder: Decode = decode
    names: pa.Array | None = None  # [N] what errors call a row; file and offset where there is none
    unpack: tuple[
        Callable[[], str] | None, ...
    ] = ()  # of each file that is a copy: makes it anew from its source

    def from_source(self) -> SpanStore:
        """The same rows in files that were unpacked now; itself where none is an unpacked copy."""
        if not self.unpack:
            return self
        pairs = zip(self.files, self.unpack, strict=True)
        return replace(self, files=tuple(file if again is None else again() for file, again in pairs))

    def where(self, row: int) -> str:
        """The words for a row in an error."""
        path = self.files[int(self.file[row])]
        return (
            f"{path}/{self.names[row].as_py()}" if self.names else f"{path} at byte {int(self.offset[row]):,}"
        )

    def data(self, row: int) -> bytes:
        """The bytes of a row: one read."""
        path, length = self.files[int(self.file[row])], int(self.length[row])
        data = read_span(path, int(self.offset[row]), length)
        if len(data) != length:
            raise ImageError(
                self.where(row),
                f"the file ends after {len(data):,} of its {length:,} bytes: it was cut short",
            )
        return data

    def read(self, row: int) -> Image:
        """Decode one row."""
        return self.decoder(self.data(row), self.where(row))

    def encoded(self, row: int) -> bytes:
        """The image inside the bytes of a row: all of them, unless the decoder knows where in them it lies."""
        data = self.data(row)
        inside = getattr(self.decoder, "encoded", None)
        return data if inside is None else inside(data, self.where(row))

    def stamps(self, rows: Ints) -> Ints:
        """Those of the file, mixed with where in it a row lies: one look per file."""
        return container_stamps(self.files, self.file[rows], self.offset[rows], self.length[rows])

    def stamp(self, row: int) -> tuple[int, int]:
        """(length, time of change of the file in ns); (-1, -1) when the file is gone."""
        _, changed = file_stamp(self.files[int(self.file[row])])
        return (int(self.length[row]) if changed >= 0 else -1), changed


class _Handle:
    """An open file that is closed when the last reader lets go of it."""

    def __init__(self, path: str) -> None:
        self.number = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))

    def __del__(self) -> None:
        if hasattr(self, "number"):
            os.close(self.number)

    def read(self, offset: int, length: int) -> bytes:
        if hasattr(os, "pread"):
            return os.pread(self.number, length, offset)
        with _lock:  # Windows has one position per file
            os.lseek(self.number, offset, os.SEEK_SET)
            return os.read(self.number, length)


_open: dict[
    tuple[str, int, int, int], _Handle
] = {}  # by path, process and stamp; the one used last comes last
_lock = threading.Lock()
_MOST_OPEN = 256  # well below the 1,024 that systems usually allow


def read_span(path: str, offset: int, length: int) -> bytes:
    """Up to ``length`` bytes at ``offset`` of a file that stays open for later reads, until it changes on disk.

    Reads carry their own position, so threads share the file; the process id is part of what is remembered, so that
    a forked worker opens its own.
    """
    address = (path, os.getpid(), *need_stamp(path))
    try:
        with _lock:
            handle = _open.pop(address, None) or _Handle(path)
            while len(_open) >= _MOST_OPEN:
                del _open[next(iter(_open))]
            _open[address] = handle
        return handle.read(offset, length)
    except OSError as error:
        raise UserError(f"Cannot read {path}: {reason_of(error)}.") from error
