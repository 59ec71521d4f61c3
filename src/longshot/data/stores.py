"""Stores: how the row of a dataset becomes pixels. Each is small, picklable and opens files by itself.

A store also gives each row a ``stamp``, numbers that change when the file behind it does; checks and digests of
images are remembered by it. ``encoded`` is what the digest of an image is over.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa

from longshot.base import Ints, UserError
from longshot.data.dataset import EncodedStore, ImageStore
from longshot.data.files import (
    container_stamps,
    damage_of,
    file_stamp,
    file_stamps,
    need_stamp,
    reason_of,
)
from longshot.data.images import ImageError, array_bytes, decode, decode_reduced

if TYPE_CHECKING:
    from PIL.Image import Image

Enough: TypeAlias = Callable[[int, int], tuple[int, int]]  # size of an image → the smallest that will do
_ESCAPE = re.compile(r"[\\\udc80-\udcff]")
_ESCAPED = re.compile(r"\\x([0-9a-f]{2})")


def escape_name(name: str) -> str:
    """A file name as the system gives it (undecodable bytes as lone surrogates), as a valid string.

    Reversible: bytes that are not UTF-8 become ``\\xNN``, and so does the backslash itself; other names
    stay as they are.
    """
    if name.isascii() and "\\" not in name:  # nearly every name
        return name
    return _ESCAPE.sub(lambda m: f"\\x{ord(m[0]) & 0xFF:02x}", name)


def unescape_name(key: str) -> str:
    """The file name that ``escape_name`` was given."""
    if "\\" not in key:
        return key

    def byte(match: re.Match[str]) -> str:
        value = int(match[1], 16)
        return chr(value) if value < 0x80 else chr(0xDC00 + value)

    return _ESCAPED.sub(byte, key)


@dataclass(frozen=True, eq=False)
class FileStore:
    """Images in files: row i is ``root / keys[i]``. A key may be an absolute path (tables allow it)."""

    root: str
    keys: pa.Array

    def _path(self, row: int) -> str:
        return os.path.join(self.root, unescape_name(self.keys[row].as_py()))  # noqa: PTH118  Path is slower

    def where(self, row: int) -> str:
        """The words for a row in an error."""
        return escape_name(self.root) + "/" + str(self.keys[row].as_py())

    def encoded(self, row: int) -> bytes:
        """The bytes of one file."""
        try:
            with open(self._path(row), "rb", 0) as file:  # noqa: PTH123  Path is slower
                return file.read()
        except OSError as error:
            raise ImageError(self.where(row), reason_of(error)) from error

    def read(self, row: int) -> Image:
        """Decode one file."""
        return decode(self.encoded(row), self.where(row))

    def read_reduced(self, row: int, enough: Enough) -> tuple[Image, tuple[int, int]]:
        """Decode one file, a JPEG no larger than is enough; and its full size."""
        return decode_reduced(self.encoded(row), self.where(row), enough)

    def stamps(self, rows: Ints) -> Ints:
        """(size, time of change in ns, inode) of each file [M, 3]; −1 when it is gone."""
        keys = self.keys.take(pa.array(rows)).to_pylist()
        return file_stamps([os.path.join(self.root, unescape_name(key)) for key in keys])  # noqa: PTH118

    def stamp(self, row: int) -> tuple[int, int]:
        """(size, time of change in ns); (-1, -1) when the file is gone."""
        return file_stamp(self._path(row))

    def take(self, rows: Ints) -> FileStore:
        """A store of these rows."""
        return FileStore(self.root, self.keys.take(pa.array(rows)))


@dataclass(frozen=True, eq=False)
class ZipStore:
    """Images inside a zip, read member by member; the archive is opened once per process."""

    path: str
    keys: pa.Array
    prefix: str = ""  # the common top folder, which keys leave out

    def encoded(self, row: int) -> bytes:
        """The bytes of one member, as they were before the archive packed them."""
        key = self.prefix + self.keys[row].as_py()
        where = f"{self.path}/{key}"
        archive, members = open_zip(self.path)
        if key not in members:
            raise ImageError(where, "it is no longer in the archive")
        try:
            return archive.read(members[key])
        except Exception as error:  # bad CRC, damaged stream, unsupported or encrypted member
            raise ImageError(where, damage_of(error)) from error

    def read(self, row: int) -> Image:
        """Decode one member."""
        return decode(self.encoded(row), f"{self.path}/{self.prefix}{self.keys[row].as_py()}")

    def read_reduced(self, row: int, enough: Enough) -> tuple[Image, tuple[int, int]]:
        """Decode one member, a JPEG no larger than is enough; and its full size."""
        where = f"{self.path}/{self.prefix}{self.keys[row].as_py()}"
        return decode_reduced(self.encoded(row), where, enough)

    def stamp(self, row: int) -> tuple[int, int]:
        """(size, CRC) of the member; (-1, -1) when it is gone."""
        member = open_zip(self.path)[1].get(self.prefix + self.keys[row].as_py())
        return (member.file_size, member.CRC) if member is not None else (-1, -1)

    def stamps(self, rows: Ints) -> Ints:
        """Those of the archive: one look, whatever the number of images."""
        return container_stamps((self.path,), np.zeros(len(rows), np.int64))


@dataclass(frozen=True, eq=False)
class RowsStore:
    """Some rows of another store: row i is ``store``'s row ``rows[i]``."""

    store: ImageStore
    rows: Ints

    def read(self, row: int) -> Image:
        """Read from the store behind."""
        return self.store.read(int(self.rows[row]))

    def read_reduced(self, row: int, enough: Enough) -> tuple[Image, tuple[int, int]]:
        """Read from the store behind, reduced where that can."""
        return read_reduced(self.store, int(self.rows[row]), enough)

    def encoded(self, row: int) -> bytes:
        """What the store behind holds."""
        return encoded_of(self.store, int(self.rows[row]))

    def stamps(self, rows: Ints) -> Ints:
        """Those of the store behind."""
        return stamps_of(self.store, self.rows[rows])


def innermost(store: ImageStore, rows: Ints) -> tuple[ImageStore, Ints]:
    """The store that parts and views stand on, and the rows there."""
    while isinstance(store, RowsStore):
        rows, store = store.rows[rows], store.store
    return store, rows


def prepare_rows(store: ImageStore, rows: Ints) -> None:
    """Tell a store which rows will be read: toybox draws their classes now, by all cores; others have nothing to do."""
    store, rows = innermost(store, rows)
    prepare = getattr(store, "prepare", None)
    if prepare is not None and len(rows):
        prepare(rows)


def read_reduced(store: ImageStore, row: int, enough: Enough) -> tuple[Image, tuple[int, int]]:
    """An image and its full size; a JPEG in a file or zip is decoded no larger than ``enough`` asks for."""
    reduced = getattr(store, "read_reduced", None)
    if reduced is not None:
        pair: tuple[Image, tuple[int, int]] = reduced(row, enough)
        return pair
    image = store.read(row)
    return image, image.size


def encoded_of(store: ImageStore, row: int) -> bytes:
    """What the digest of a row is over; of a store that only reads, the decoded pixels."""
    return store.encoded(row) if isinstance(store, EncodedStore) else array_bytes(np.asarray(store.read(row)))


def stamps_of(store: ImageStore, rows: Ints) -> Ints:
    """The stamps of rows [M, 3]; −1 for a store that has none, whose digests cannot be remembered."""
    return store.stamps(rows) if isinstance(store, EncodedStore) else np.full((len(rows), 3), -1, np.int64)


Members: TypeAlias = dict[str, zipfile.ZipInfo]
_zips: dict[tuple[str, int, int, int], tuple[zipfile.ZipFile, Members]] = {}
_zips_lock = threading.Lock()


def open_zip(path: str) -> tuple[zipfile.ZipFile, Members]:
    """An archive and its files by key, opened once per process and again when the file changed.

    The process id is part of what is remembered: a forked worker would share the parent's file position.
    """
    address = (path, os.getpid(), *need_stamp(path))
    with _zips_lock:
        if address not in _zips:
            for old in [other for other in _zips if other[:2] == address[:2]]:
                del _zips[old]
            _zips[address] = _read_directory(path)
        return _zips[address]


def _read_directory(path: str) -> tuple[zipfile.ZipFile, Members]:
    try:
        archive = zipfile.ZipFile(path)  # stays open for the life of the process
    except (zipfile.BadZipFile, UnicodeDecodeError, OSError, NotImplementedError) as error:
        raise UserError(
            f"{path} is not a whole zip archive ({damage_of(error)}); copy or download it again, or unpack it and give "
            f"the folder."
        ) from error
    return archive, {member_name(info): info for info in archive.infolist()}


def member_name(info: zipfile.ZipInfo) -> str:
    """The key form of a member's name: what a folder scan gives once the archive is unpacked.

    Archives from Unix hold raw bytes without saying so, and zipfile reads those as code page 437.
    """
    name = info.filename
    if not info.flag_bits & 0x800 and not name.isascii():
        raw = name.encode("cp437")
        if info.create_system == 0:  # made on Windows: the old code page is right unless it is plain UTF-8
            with contextlib.suppress(UnicodeDecodeError):
                name = raw.decode()
        else:
            name = raw.decode("utf-8", "surrogateescape")
    if info.create_system == 0:
        name = name.replace("\\", "/")
    return escape_name(name)
