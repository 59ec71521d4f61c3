"""What lies inside NumPy, HDF5 and LMDB files and lists of labels, by their headers: nothing is unpickled or linked to.

Sizes that a header claims are compared with the file before anything is read by them.
"""

from __future__ import annotations

import contextlib
import csv
import math
import mmap
import re
import shutil
import struct
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from longshot.base import UserError, first, progress
from longshot.data.file_readers import damage_of, find_column, read_npy_header
from longshot.data.formats.base import RawPart, UnpackedCopy
from longshot.data.formats.spans import need_h5py
from longshot.data.formats.tfrecord import ProtoError, message_fields

ENDINGS = (".npz", ".npy", ".h5", ".hdf5", ".hdf")
TEXTS = (".csv", ".txt")
LABELS = ("labels", "label", "y", "targets", "target", "ans")
_COLUMNS = (*LABELS, "class", "class_id", "category", "class_name")  # of a table of labels
_NUMPY = (".npz", ".npy")
_BLOCK = 1 << 24  # bytes that are read together
_SHRINKS = 1100  # times, at most, by deflate: who claims more is not believed
_DAMAGE = (
    *(ValueError, OSError, EOFError, LookupError, RuntimeError, TypeError, MemoryError, struct.error),
    zipfile.BadZipFile,
)


@dataclass(frozen=True, eq=False)
class Array:
    """An array in a file, by its header. ``start`` is the byte at which its numbers lie in order, −1 where they do not.

    ``damage`` says why it cannot be used. ``values`` are those of a text file, which is read at once.
    """

    file: Path
    member: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    start: int = -1
    damage: str = ""
    values: NDArray[Any] | None = None

    @property
    def shown(self) -> str:
        """Name the array in an error."""
        return f"Array '{self.member}' of {self.file}" if self.member else str(self.file)

    def refuse_damage(self) -> None:
        """Raise UserError where the array cannot be used."""
        if self.damage:
            raise UserError(f"{self.shown} {self.damage}.")

    def load(self) -> NDArray[Any]:
        """Load all of the array into memory; text as str."""
        self.refuse_damage()
        if self.values is not None:
            return self.values
        with explained(self.file):
            if self.file.suffix.lower() in _NUMPY:
                loaded = np.load(self.file, allow_pickle=False)
                values: NDArray[Any] = loaded[self.member] if self.member else loaded
            else:
                with need_h5py().File(self.file, "r") as opened:
                    item = opened[self.member]
                    text = need_h5py().check_string_dtype(item.dtype) is not None
                    values = np.asarray(item.asstr()[()].tolist() if text else item[()])
            return np.char.decode(values, "utf-8") if values.dtype.kind == "S" else values

    def in_place(self, split: str, refresh: bool) -> RawPart:
        """Return where its rows can be read one by one: where they lie, or in a copy in the cache."""
        if self.start >= 0:
            return RawPart(split, self.file, self.start, self.shape[0])
        copy = UnpackedCopy(self.file, partial(_write, self.member), self.member)
        return RawPart(split, copy.path(refresh=refresh), 0, self.shape[0], copy)

    def extremes(self, part: RawPart, most: int | None = None) -> tuple[float, float]:
        """Return the smallest and the largest finite value of all rows, or of the first ``most``."""
        low, high = math.inf, -math.inf
        with explained(self.file), progress(f"look at values of {self.file.name}", unit="images") as bar:
            rows = np.memmap(part.file, self.dtype, "r", part.start, self.shape)[:most]
            for start in range(0, len(rows), self.step):
                block = np.asarray(rows[start : start + self.step])
                finite = block[np.isfinite(block)]
                if finite.size:
                    low, high = min(low, float(finite.min())), max(high, float(finite.max()))
                bar.advance(len(block))
        if low > high:
            raise UserError(f"{self.shown} holds no finite value; save it again.")
        return low, high

    @property
    def step(self) -> int:
        """Count the rows that are read together."""
        return max(1, _BLOCK // max(1, math.prod(self.shape[1:]) * self.dtype.itemsize))


@contextlib.contextmanager
def explained(file: Path) -> Iterator[None]:
    """Turn what the readers of a damaged file raise into one sentence."""
    try:
        yield
    except _DAMAGE as error:
        raise UserError(f"Cannot read {file}: {damage_of(error)}", "copy or save it again") from error


def read_headers(file: Path) -> list[Array]:
    """Read the arrays in one file: names, shapes and types, no numbers; UserError for a damaged file."""
    kind = file.suffix.lower()
    with explained(file):
        if kind in TEXTS:
            return [_text_array(file)]
        if kind == ".npy":
            with file.open("rb") as stream:
                return [_numpy_array(file, "", stream, file.stat().st_size, 0)]
        if kind == ".npz":
            return list(_npz_arrays(file))
        with need_h5py().File(file, "r") as opened:
            return list(_hdf5_arrays(file, opened, "", 4))


def _npz_arrays(file: Path) -> Iterator[Array]:
    with zipfile.ZipFile(file) as archive, file.open("rb") as plain:
        for info in archive.infolist():
            if not info.filename.endswith(".npy"):
                continue
            start, size = -1, min(info.file_size, info.compress_size * _SHRINKS)
            if info.compress_type == zipfile.ZIP_STORED:  # behind a local header, whose length varies
                plain.seek(info.header_offset + 26)
                start = info.header_offset + 30 + int(np.frombuffer(plain.read(4), "<u2").sum())
                size = min(size, file.stat().st_size - start)
            with archive.open(info) as stream:
                yield _numpy_array(file, info.filename[:-4], stream, size, start)


def _numpy_array(file: Path, member: str, stream: IO[bytes], size: int, base: int) -> Array:
    """Read the header of an array in ``size`` bytes, from byte ``base`` of the file on (−1 where it is compressed)."""
    shape, fortran, dtype = read_npy_header(stream)
    inner, needed, damage = stream.tell(), math.prod(shape) * dtype.itemsize, ""
    if dtype.hasobject:
        damage = "holds Python objects, which are never unpickled; save it as numbers or str"
    elif size - inner < needed:
        damage = _short(size - inner, needed, dtype, shape)
    return Array(file, member, shape, dtype, -1 if base < 0 or fortran else base + inner, damage)


def _short(size: int, needed: int, dtype: np.dtype[Any], shape: Sequence[int]) -> str:
    return f"has {size:,} bytes where {dtype} {list(shape)} needs {needed:,}: it was cut short; copy or save it again"


def _hdf5_arrays(file: Path, group: Any, prefix: str, levels: int) -> Iterator[Array]:
    h5py = need_h5py()
    for key in group:
        name, link = f"{prefix}{key}", group.get(key, getlink=True)
        if not isinstance(link, h5py.HardLink):
            target = f"{getattr(link, 'filename', '')}:{link.path}".lstrip(":")
            damage = f"is a link to {target}, and links are not followed; copy the array itself into the file"
            yield Array(file, name, (), np.dtype("V1"), damage=damage)
        elif isinstance(group[key], h5py.Dataset):
            yield _hdf5_array(file, name, group[key])
        elif isinstance(group[key], h5py.Group) and levels:
            yield from _hdf5_arrays(file, group[key], f"{name}/", levels - 1)


def _hdf5_array(file: Path, name: str, item: Any) -> Array:
    shape, dtype, stored, start = item.shape or (), item.dtype, item.id.get_storage_size(), -1
    needed, damage = math.prod(shape) * dtype.itemsize, ""
    text = need_h5py().check_string_dtype(dtype) is not None
    if item.external or item.is_virtual:
        damage = "keeps its numbers in other files, and links are not followed; save it in one file"
    elif dtype.hasobject and not text:
        damage = "holds lists of different lengths; save it as numbers or text"
    elif item.chunks:
        written = item.id.get_num_chunks()
        chunks = math.prod(-(-side // chunk) for side, chunk in zip(shape, item.chunks, strict=True))
        if written < chunks or stored * _SHRINKS < needed > 1 << 30:
            damage = (
                f"has only {written:,} of its {chunks:,} chunks ({stored:,} bytes); copy or save it again"
            )
    elif stored < needed or (item.id.get_offset() or 0) + needed > file.stat().st_size:
        damage = _short(stored, needed, dtype, shape)
    elif dtype.kind in "uif" and item.id.get_type().get_precision() == 8 * dtype.itemsize:
        start = -1 if item.id.get_offset() is None else item.id.get_offset()
    return Array(file, name, shape, np.dtype("U1") if text else dtype, start, damage)


def _text_array(file: Path) -> Array:
    """Read one label a line, or the column of labels of a table; whole numbers where all are."""
    lines = [line.strip() for line in file.read_text("utf-8-sig").splitlines() if line.strip()]
    rows = list(csv.reader(lines)) if file.suffix.lower() == ".csv" else [[line] for line in lines]
    header, damage = rows[0] if rows else [""], ""
    column = find_column(header, _COLUMNS)
    at = 0 if column is None else header.index(column)
    if any(len(row) != len(header) for row in rows) or (column is None and len(header) > 1):
        damage = f"has several columns ({first(header)}), and none is called label; keep one, or name it so"
    rows = [] if damage else rows if column is None else rows[1:]
    numbers = [int(row[0]) for row in rows if at and row[0].isdecimal()]
    if numbers != sorted(numbers):
        damage = f"numbers its lines in another order ({first(numbers)}); sort them as the images are"
    texts = np.array([row[at].strip() for row in rows], np.str_)
    values: NDArray[Any] = texts
    if not any(re.match(r"-?0\d", text) for text in texts.tolist()):
        with contextlib.suppress(ValueError):
            floats = texts.astype(np.float64)
            values = floats.astype(np.int64) if (floats == np.rint(floats)).all() else texts
    return Array(file, "", values.shape, values.dtype, damage=damage, values=values)


def _write(member: str, file: Path, target: Path) -> None:
    """Write the numbers of an array, in order, as a plain file."""
    array = next(array for array in read_headers(file) if array.member == member)
    size, free = math.prod(array.shape) * array.dtype.itemsize, shutil.disk_usage(target.parent).free
    if size > free:
        raise UserError(
            f"{array.shown} unpacks to {size / 1e9:,.1f} GB, and {target.parent} has {free / 1e9:,.1f} GB free",
            "make room there, or set LONGSHOT_CACHE to a folder on another disk",
        )
    with (
        explained(file),
        target.open("wb") as out,
        progress(f"unpack {file.name}", total=size // 1_000_000, unit="MB") as bar,
    ):
        for data in _blocks(array):
            out.write(data)
            bar.advance(len(data) // 1_000_000)


def _blocks(array: Array) -> Iterator[bytes]:
    """Yield the numbers of an array in order, some megabytes at a time."""
    starts, kind = range(0, array.shape[0], array.step), array.file.suffix.lower()
    if kind not in _NUMPY:
        with need_h5py().File(array.file, "r") as opened:
            yield from (opened[array.member][at : at + array.step].tobytes() for at in starts)
        return
    if kind == ".npz":
        with zipfile.ZipFile(array.file) as archive, archive.open(f"{array.member}.npy") as stream:
            if not read_npy_header(stream)[1]:
                while data := stream.read(_BLOCK):
                    yield data
                return
    rows = array.load()  # of the order of Fortran
    yield from (rows[at : at + array.step].tobytes() for at in starts)


_META, _PAGE, _NODE = struct.Struct("<Q8xQ"), struct.Struct("<10xHH"), struct.Struct("<HHHH")
_BRANCH, _LEAF, _OVERFLOWS = 1, 2, 1  # kinds of pages; a node whose data has pages of its own
_ENCODED = (b"\xff\xd8\xff", b"\x89PNG", b"GIF8", b"BM", b"RIFF", b"II*\0", b"MM\0*")  # how images begin


def lmdb_index(file: Path) -> pa.Table:
    """Index an LMDB file, a row per image: class, number, key, offset, length, shape of pixels ("" of a file)."""
    rows: list[tuple[str, int, str, int, int, str]] = []
    with (
        explained(file),
        file.open("rb") as stream,
        mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data,
    ):
        records = {key.decode(errors="backslashreplace"): span for key, *span in _lmdb_records(data)}
        numbered = [key for key in records if key.startswith("image-")]
        absent = [key for key in numbered if f"label-{key[6:]}" not in records]
        if absent or not records:
            raise UserError(
                f"{file} lacks labels of {len(absent):,} of {len(records):,} records ({first(absent)})."
            )
        for key in numbered or records:
            at, length = records[key]
            shape, label = "", key.rpartition("/")[0]
            if numbered:
                start, size = records[f"label-{key[6:]}"]
                label = data[start : start + size].decode().strip()
            if data[at : at + 1] == b"\x80" and data[at + length - 1 : at + length] == b".":
                raise UserError(
                    f"The records of {file} are pickled ('{key}'), and unpickling runs whatever a file says",
                    "write images as files and labels as text: image-000000001, label-000000001",
                )
            if not data[at : at + 4].startswith(_ENCODED):
                label, at, length, shape = _datum(data, at, at + length, key)
            if not label:
                raise UserError(
                    f"{file} has no label for '{key}': keys are class/name, or labels are label-…."
                )
            rows.append((label, len(rows), key, at, length, shape))
    names = ("class", "number", "key", "offset", "length", "shape")
    return pa.table(dict(zip(names, zip(*rows, strict=True), strict=True)))


def _datum(data: Any, start: int, stop: int, key: str) -> tuple[str, int, int, str]:
    """Read (label, offset and length of the image, shape of pixels) of Caffe's message Datum."""
    wrong = f"the record '{key}' is neither an image nor Caffe's Datum"
    try:
        fields = {number: (at, end, value) for number, _, at, end, value in message_fields(data, start, stop)}
        (at, end, _), label = fields[4], str(np.uint64(fields[5][2]).astype(np.int64))
        shape = () if fields.get(7, (0, 0, 0))[2] else tuple(fields[number][2] for number in (1, 2, 3))
    except (ProtoError, KeyError) as error:
        raise ValueError(wrong) from error
    if shape and (shape[0] not in (1, 3) or math.prod(shape) != end - at):
        raise ValueError(f"{wrong} of bytes")
    return label, at, end - at, ",".join(map(str, shape))


def _lmdb_records(data: mmap.mmap) -> Iterator[tuple[bytes, int, int]]:
    """Yield (key, offset, length) of every record of an LMDB file of data version 1, in the order of the keys.

    The pages of the tree are walked here: LMDB's own library trusts them, and a damaged one would end the process.
    """
    size = struct.unpack_from("<I", data, 40)[0]
    if any(struct.unpack_from("<II", data, at + 16) != (0xBEEFC0DE, 1) for at in (0, size)):
        raise ValueError("it is no LMDB file of data version 1")
    root, _ = max((_META.unpack_from(data, at + 128) for at in (0, size)), key=lambda meta: meta[1])
    stack, seen = [root] if root < 2**64 - 1 else [], set()
    while stack:
        page = stack.pop()
        if page in seen or (page + 1) * size > len(data):
            raise ValueError(f"its page {page:,} lies outside the file or in a circle: it was cut short")
        seen.add(page)
        kind, lower = _PAGE.unpack_from(data, page * size)
        if not kind & (_BRANCH | _LEAF) or not 16 <= lower <= size:
            raise ValueError(f"its page {page:,} is damaged")
        places = [
            page * size + at for at in struct.unpack_from(f"<{lower // 2 - 8}H", data, page * size + 16)
        ]
        nodes = [(at, *_NODE.unpack_from(data, at)) for at in places]
        if kind & _BRANCH:
            stack += [low | high << 16 | flags << 32 for _, low, high, flags, _ in reversed(nodes)]
            continue
        for at, low, high, flags, key_size in nodes:
            start, length = at + 8 + key_size, low | high << 16
            key = data[at + 8 : start]
            if flags & ~_OVERFLOWS:
                raise ValueError("it holds databases within the database, or several values per key")
            if flags:
                start = struct.unpack_from("<Q", data, start)[0] * size + 16
            if start + length > len(data):
                raise ValueError(f"its record {key!r} reaches behind the end: it was cut short")
            yield key, start, length
