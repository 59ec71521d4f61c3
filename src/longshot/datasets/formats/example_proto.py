"""Reading ``tf.train.Example`` messages: just as much of protocol buffers as they need.

    Example {1: Features}   Features {1: map<string, Feature>}   map entry {1: key, 2: Feature}
    Feature {1: BytesList | 2: FloatList | 3: Int64List}, each list {1: repeated value}, numbers packed or not

As in every protobuf reader, unknown fields are skipped, parts given twice are merged, and of map entries with the
same key or of several kinds in one feature the last one counts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np
from numpy.typing import NDArray

Value = list[bytes] | NDArray[np.float32] | NDArray[np.int64]
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_KINDS = {1: "bytes", 2: "float", 3: "int64"}


class ProtoError(ValueError):
    """Bytes that are no message: the reason in a few words."""


def parse_example(data: bytes | memoryview, wanted: Collection[str] | None = None) -> dict[str, Value]:
    """Features by name: ``list[bytes]``, float32 [n] or int64 [n]; ``wanted`` leaves the others undecoded.

    A feature with no value of any kind is an empty list of bytes.
    """
    view = memoryview(data)
    found: dict[str, Value] = {}
    for number, wire, features, _ in _fields(view):
        if number != 1 or wire != _BYTES:
            continue
        for entry_number, entry_wire, entry, _ in _fields(features):
            if entry_number != 1 or entry_wire != _BYTES:
                continue
            key, feature = "", []
            for part_number, part_wire, part, _ in _fields(entry):
                if part_wire != _BYTES:
                    continue
                if part_number == 1:
                    key = _text(part)
                elif part_number == 2:
                    feature.append(part)
            if wanted is None or key in wanted:
                found[key] = _feature(feature)
    return found


def _feature(parts: list[memoryview]) -> Value:
    """The value of a Feature, whose parts (nearly always one) are merged."""
    kind, lists = 0, []
    for part in parts:
        for number, wire, content, _ in _fields(part):
            if number in _KINDS and wire == _BYTES:
                if number != kind:
                    kind, lists = number, []
                lists.append(content)
    if kind == 2:
        return _numbers(lists, _FIXED32)
    if kind == 3:
        return _numbers(lists, _VARINT)
    return [bytes(c) for part in lists for n, wire, c, _ in _fields(part) if n == 1 and wire == _BYTES]


def _numbers(lists: list[memoryview], wire_type: int) -> NDArray[np.float32] | NDArray[np.int64]:
    """Floats (four bytes each) or varints, packed into one field or in a field each."""
    floats: list[NDArray[np.float32]] = []
    integers: list[int] = []
    for part in lists:
        for number, wire, content, value in _fields(part):
            if number != 1:
                continue
            if wire_type == _FIXED32 and wire in (_BYTES, _FIXED32):
                if len(content) % 4:
                    raise ProtoError(f"a list of floats takes {len(content)} bytes, no multiple of four")
                floats.append(np.frombuffer(content, "<f4"))
            elif wire_type == _VARINT and wire == _VARINT:
                integers.append(value)
            elif wire_type == _VARINT and wire == _BYTES:
                place = 0
                while place < len(content):
                    value, place = _varint(content, place)
                    integers.append(value)
    if wire_type == _FIXED32:
        return np.concatenate(floats).astype(np.float32) if floats else np.empty(0, np.float32)
    return np.array(integers, np.uint64).view(np.int64)  # negative numbers are stored modulo 2⁶⁴


def _fields(view: memoryview) -> Iterator[tuple[int, int, memoryview, int]]:
    """(field number, wire type, content, value of a varint) of a message, in the order of its bytes."""
    place, end = 0, len(view)
    while place < end:
        tag, place = _varint(view, place)
        wire, value, start = tag & 7, 0, place
        if wire == _BYTES:
            length, start = _varint(view, place)
            place = start + length
        elif wire == _VARINT:
            value, place = _varint(view, place)
        elif wire == _FIXED64:
            place += 8
        elif wire == _FIXED32:
            place += 4
        else:
            raise ProtoError(f"a field of wire type {wire}, which Example does not have")
        if place > end:
            raise ProtoError("a field that reaches behind its end")
        yield tag >> 3, wire, view[start:place], value


def _varint(view: memoryview, place: int) -> tuple[int, int]:
    """(value modulo 2⁶⁴, place behind it)."""
    value, shift = 0, 0
    while place < len(view):
        byte = view[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, place
        shift += 7
        if shift > 63:
            raise ProtoError("a number of more than ten bytes")
    raise ProtoError("a number that is cut off")


def _text(view: memoryview) -> str:
    try:
        return str(view, "utf-8")
    except UnicodeDecodeError as error:
        raise ProtoError("a feature name that is not UTF-8") from error
