"""TFRecord files and their ``tf.train.Example`` messages: found in one pass, each read with one read.

record = length (8 bytes) · masked CRC-32C of the length (4) · data (length bytes) · masked CRC-32C of the data (4)

Of protocol buffers there is just as much as these messages need:

    Example {1: Features}   Features {1: map<string, Feature>}   map entry {1: key, 2: Feature}
    Feature {1: BytesList | 2: FloatList | 3: Int64List}, each list {1: repeated value}, numbers packed or not

As in every protobuf reader, unknown fields are skipped, parts given twice are merged, and of map entries with the
same key or of several kinds in one feature the last one counts.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from longshot.base import UserError, progress
from longshot.data.file_readers import explain_refusal
from longshot.data.formats.spans import SpanStore
from longshot.data.stores import ImageError, decode

if TYPE_CHECKING:
    from PIL.Image import Image


Span: TypeAlias = tuple[int, int]  # start and stop in the bytes of the whole message
FeatureValue: TypeAlias = list[bytes] | NDArray[np.float32] | NDArray[np.int64]
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_KINDS = (1, 2, 3)  # bytes, floats, integers


class ProtoError(ValueError):
    """Bytes that are no message: the reason in a few words."""


def parse_example(data: bytes, names: Collection[str] | None = None) -> dict[str, FeatureValue]:
    """Parse features by name: ``list[bytes]``, float32 [n] or int64 [n]; ``names`` leaves the others undecoded.

    A feature with no value of any kind is an empty list of bytes.
    """
    features: dict[str, FeatureValue] = {}
    for number, wire, start, stop, _ in message_fields(data, 0, len(data)):
        if number != 1 or wire != _BYTES:
            continue
        for entry_number, entry_wire, entry, entry_stop, _ in message_fields(data, start, stop):
            if entry_number != 1 or entry_wire != _BYTES:
                continue
            key, parts = "", []
            for part_number, part_wire, part, part_stop, _ in message_fields(data, entry, entry_stop):
                if part_wire != _BYTES:
                    continue
                if part_number == 1:
                    key = _text(data[part:part_stop])
                elif part_number == 2:
                    parts.append((part, part_stop))
            if names is None or key in names:
                features[key] = _feature(data, parts)
    return features


def _feature(data: bytes, parts: list[Span]) -> FeatureValue:
    """Return the value of a Feature, whose parts (nearly always one) are merged."""
    kind = 0
    lists: list[Span] = []
    for part in parts:
        for number, wire, start, stop, _ in message_fields(data, *part):
            if number in _KINDS and wire == _BYTES:
                if number != kind:
                    kind, lists = number, []
                lists.append((start, stop))
    if kind == 2:
        return _floats(data, lists)
    if kind == 3:
        return _integers(data, lists)
    return [
        data[start:stop]
        for part in lists
        for number, wire, start, stop, _ in message_fields(data, *part)
        if number == 1 and wire == _BYTES
    ]


def _floats(data: bytes, lists: list[Span]) -> NDArray[np.float32]:
    """Read floats of four bytes each, packed into one field or in a field each."""
    packed = []
    for part in lists:
        for number, wire, start, stop, _ in message_fields(data, *part):
            if number == 1 and wire in (_BYTES, _FIXED32):
                if (stop - start) % 4:
                    raise ProtoError(f"a list of floats in {stop - start} bytes, no multiple of four")
                packed.append(data[start:stop])
    return np.frombuffer(b"".join(packed), "<f4").astype(np.float32)


def _integers(data: bytes, lists: list[Span]) -> NDArray[np.int64]:
    """Read varints, packed into one field or in a field each; negative numbers are stored modulo 2⁶⁴."""
    integers = []
    for part in lists:
        for number, wire, start, stop, value in message_fields(data, *part):
            if number == 1 and wire == _VARINT:
                integers.append(value)
            elif number == 1 and wire == _BYTES:
                while start < stop:
                    value, start = _varint(data, start, stop)
                    integers.append(value)
    return np.array(integers, np.uint64).view(np.int64)


def message_fields(
    data: bytes | mmap.mmap, position: int, end: int
) -> Iterator[tuple[int, int, int, int, int]]:
    """Yield (field number, wire type, start and stop of the content, value of a varint) of a message in ``data``.

    Nothing is copied: an image lies five messages deep.
    """
    while position < end:
        tag, position = (
            _varint(data, position, end) if data[position] > 0x7F else (data[position], position + 1)
        )
        wire, value, start = tag & 7, 0, position
        if wire == _BYTES:
            length, start = _varint(data, position, end)
            position = start + length
        elif wire == _VARINT:
            value, position = _varint(data, position, end)
        elif wire == _FIXED64:
            position += 8
        elif wire == _FIXED32:
            position += 4
        else:
            raise ProtoError(f"a field of wire type {wire}, which Example does not have")
        if position > end:
            raise ProtoError("a field that reaches behind its end")
        yield tag >> 3, wire, start, position, value


def _varint(data: bytes | mmap.mmap, position: int, end: int) -> tuple[int, int]:
    """Read (value modulo 2⁶⁴, position behind it)."""
    value, shift = 0, 0
    while position < end:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, position
        shift += 7
        if shift > 63:
            raise ProtoError("a number of more than ten bytes")
    raise ProtoError("a number that is cut off")


def _text(name: bytes) -> str:
    try:
        return name.decode()
    except UnicodeDecodeError as error:
        raise ProtoError("a feature name that is not UTF-8") from error


HEAD, FOOT = 12, 4  # bytes around the data of a record
Visit: TypeAlias = Callable[[bytes], None]
_LENGTH, _CRC = struct.Struct("<Q"), struct.Struct("<I")
_MASK = 0xA282EAD8


@cache
def _checksums() -> Any:
    try:
        return import_module("google_crc32c")
    except ImportError as error:
        raise UserError(
            "TFRecord files need the package google-crc32c; run: pip install 'longshot[records]'."
        ) from error


def crc32c(data: bytes) -> int:
    """Compute the CRC-32C (Castagnoli) of ``data``."""
    return int(_checksums().value(data))


def masked(crc: int) -> int:
    """Mask a checksum as TFRecord stores it: rotated right by 15 bits, plus a constant, modulo 2³²."""
    return (((crc >> 15) | (crc << 17)) + _MASK) & 0xFFFFFFFF


@dataclass(frozen=True, eq=False)
class RecordIndex:
    """Where the records of a file begin, and how many bytes each takes with its frame, both [N]."""

    offsets: NDArray[np.int64]
    lengths: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.offsets)


def index_file(path: Path, visit: Visit | None = None) -> RecordIndex:
    """Find the records of a file by hopping from length to length; the checksums of all lengths are compared.

    With ``visit`` all data is read and its checksums are compared, too; it is given the data of every record and may
    raise ProtoError. UserError with file, byte and what is wrong.
    """
    with explain_refusal("open", path), path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size == 0:
            return RecordIndex(np.empty(0, np.int64), np.empty(0, np.int64))
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            if hasattr(mmap, "MADV_SEQUENTIAL"):
                mapped.madvise(mmap.MADV_SEQUENTIAL)
            index = _hop(path, mapped, size)
            if visit is not None:
                _verify(path, mapped, index, visit)
    return index


def index_files(files: Sequence[Path], description: str, visit: Visit | None = None) -> list[RecordIndex]:
    """Index every file as ``index_file`` does, with a progress bar over their bytes."""
    sizes = [file.stat().st_size for file in files]
    with progress(description, total=sum(sizes) // 1_000_000, unit="MB") as bar:
        indexes, done, shown = [], 0, 0
        for file, size in zip(files, sizes, strict=True):
            indexes.append(index_file(file, visit))
            done += size
            bar.advance(done // 1_000_000 - shown)
            shown = done // 1_000_000
    return indexes


def span_columns(indexes: Sequence[RecordIndex]) -> dict[str, NDArray[Any]]:
    """Return the columns ``file``, ``offset`` and ``length`` of all records [N], for ``store_of``."""
    return {
        "file": np.repeat(np.arange(len(indexes), dtype=np.int32), [len(index) for index in indexes]),
        "offset": np.concatenate([index.offsets for index in indexes]),
        "length": np.concatenate([index.lengths for index in indexes]),
    }


def unframe(raw: bytes, where: str) -> bytes:
    """Return the data of one whole record; ImageError when a checksum fails or it is not the record that was indexed.

    The length was checked when the file was indexed, so its checksum is looked at when it is another one now.
    """
    length = len(raw) - HEAD - FOOT
    if _LENGTH.unpack_from(raw)[0] != length:
        flipped = _CRC.unpack_from(raw, 8)[0] != masked(crc32c(raw[:8]))
        wrong = "the checksum of the record's length is wrong (CRC failed), so bits were flipped"
        raise ImageError(where, wrong if flipped else "the file has changed since it was indexed")
    data = raw[HEAD:-FOOT]
    if _CRC.unpack_from(raw, HEAD + length)[0] != masked(crc32c(data)):
        raise ImageError(
            where, "the checksum of the record's data is wrong (CRC failed), so bits were flipped"
        )
    return data


def parse_record(raw: bytes, where: str, names: Sequence[str] | None = None) -> dict[str, FeatureValue]:
    """Parse the features of the ``tf.train.Example`` in one whole record."""
    try:
        return parse_example(unframe(raw, where), names)
    except ProtoError as error:
        raise ImageError(where, f"the record is no tf.train.Example, but has {error}") from error


@dataclass(frozen=True)
class RecordDecoder:
    """A whole record with an Example → the encoded image in its feature ``image``.

    ``scale`` multiplies pixel values (dSprites stores 0 and 1).
    """

    image: str = "image"
    scale: int = 1

    def encoded(self, raw: bytes, where: str) -> bytes:
        """Return the image in the record, as it is encoded."""
        values = parse_record(raw, where, (self.image,)).get(self.image)
        if not isinstance(values, list) or len(values) != 1:
            raise ImageError(where, f"the record has no image in the feature '{self.image}'")
        return values[0]

    def __call__(self, raw: bytes, where: str) -> Image:
        picture = decode(self.encoded(raw, where), where)
        return (
            picture if self.scale == 1 else picture.point([min(255, v * self.scale) for v in range(256)] * 3)
        )


def store_of(files: Sequence[Path], index: pa.Table, decoder: RecordDecoder) -> SpanStore:
    """Return a store of the records in a table with the columns ``file``, ``offset`` and ``length``."""
    file, offset, length = (index[name].to_numpy() for name in ("file", "offset", "length"))
    return SpanStore(tuple(str(f) for f in files), file, offset, length, decoder)


def _hop(path: Path, mapped: mmap.mmap, size: int) -> RecordIndex:
    starts: list[int] = []
    unpack, start = _LENGTH.unpack_from, 0
    cut: str | None = None
    while start < size:
        starts.append(start)
        remaining = size - start - HEAD - FOOT
        if remaining < 0:
            cut = f"{HEAD + FOOT} bytes around its data needed, {size - start} are left"
            break
        (length,) = unpack(mapped, start)
        if length > remaining:
            cut = f"{length + HEAD + FOOT:,} bytes needed, {size - start:,} are left"
            break
        start += HEAD + FOOT + length
    offsets = np.array(starts, np.int64)
    with_head = offsets if cut is None or size - starts[-1] >= HEAD else offsets[:-1]
    lengths, stored = _heads(mapped, with_head)
    expected = [masked(crc32c(_LENGTH.pack(length))) for length in lengths.tolist()]
    wrong = np.flatnonzero(stored != np.array(expected, np.uint32))
    if len(wrong):
        first = int(wrong[0])
        raise _damaged(path, first, starts[first], "the checksum of its length is wrong (CRC failed)")
    if cut is not None:
        raise _damaged(path, len(starts) - 1, starts[-1], f"it is cut off, {cut}")
    return RecordIndex(offsets, lengths.astype(np.int64) + HEAD + FOOT)


def _heads(mapped: mmap.mmap, offsets: NDArray[np.int64]) -> tuple[NDArray[np.uint64], NDArray[np.uint32]]:
    """Read length [N] and stored checksum of it [N]. Copies: nothing may point into the map when it is closed."""
    heads = np.frombuffer(mapped, np.uint8)[offsets[:, None] + np.arange(HEAD)]
    return heads[:, :8].copy().view("<u8").reshape(-1), heads[:, 8:].copy().view("<u4").reshape(-1)


def _verify(path: Path, mapped: mmap.mmap, index: RecordIndex, visit: Visit) -> None:
    for number, (offset, length) in enumerate(
        zip(index.offsets.tolist(), index.lengths.tolist(), strict=True)
    ):
        end = offset + length - FOOT
        data = mapped[offset + HEAD : end]
        if _CRC.unpack_from(mapped, end)[0] != masked(crc32c(data)):
            raise _damaged(path, number, offset, "the checksum of its data is wrong (CRC failed)")
        try:
            visit(data)
        except ProtoError as error:
            raise _damaged(path, number, offset, f"it is no tf.train.Example, but has {error}") from error


def _damaged(path: Path, number: int, offset: int, reason: str) -> UserError:
    return UserError(
        f"{path} is damaged: record {number}, at byte {offset:,}: {reason}", "get or convert this file again"
    )
