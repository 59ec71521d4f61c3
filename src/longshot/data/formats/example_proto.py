"""Reading ``tf.train.Example`` messages: just as much of protocol buffers as they need.

    Example {1: Features}   Features {1: map<string, Feature>}   map entry {1: key, 2: Feature}
    Feature {1: BytesList | 2: FloatList | 3: Int64List}, each list {1: repeated value}, numbers packed or not

As in every protobuf reader, unknown fields are skipped, parts given twice are merged, and of map entries with the
same key or of several kinds in one feature the last one counts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Span: TypeAlias = tuple[int, int]  # start and stop in the bytes of the whole message
FeatureValue: TypeAlias = list[bytes] | NDArray[np.float32] | NDArray[np.int64]
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_KINDS = (1, 2, 3)  # bytes, floats, integers


class ProtoError(ValueError):
    """Bytes that are no message: the reason in a few words."""


def parse_example(data: bytes, names: Collection[str] | None = None) -> dict[str, FeatureValue]:
    """Features by name: ``list[bytes]``, float32 [n] or int64 [n]; ``names`` leaves the others undecoded.

    A feature with no value of any kind is an empty list of bytes.
    """
    features: dict[str, FeatureValue] = {}
    for number, wire, start, stop, _ in _fields(data, 0, len(data)):
        if number != 1 or wire != _BYTES:
            continue
        for entry_number, entry_wire, entry, entry_stop, _ in _fields(data, start, stop):
            if entry_number != 1 or entry_wire != _BYTES:
                continue
            key, parts = "", []
            for part_number, part_wire, part, part_stop, _ in _fields(data, entry, entry_stop):
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
    """The value of a Feature, whose parts (nearly always one) are merged."""
    kind = 0
    lists: list[Span] = []
    for part in parts:
        for number, wire, start, stop, _ in _fields(data, *part):
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
        for number, wire, start, stop, _ in _fields(data, *part)
        if number == 1 and wire == _BYTES
    ]


def _floats(data: bytes, lists: list[Span]) -> NDArray[np.float32]:
    """Four bytes each, packed into one field or in a field each."""
    packed = []
    for part in lists:
        for number, wire, start, stop, _ in _fields(data, *part):
            if number == 1 and wire in (_BYTES, _FIXED32):
                if (stop - start) % 4:
                    raise ProtoError(f"a list of floats in {stop - start} bytes, no multiple of four")
                packed.append(data[start:stop])
    return np.frombuffer(b"".join(packed), "<f4").astype(np.float32)


def _integers(data: bytes, lists: list[Span]) -> NDArray[np.int64]:
    """Varints, packed into one field or in a field each; negative numbers are stored modulo 2⁶⁴."""
    integers = []
    for part in lists:
        for number, wire, start, stop, value in _fields(data, *part):
            if number == 1 and wire == _VARINT:
                integers.append(value)
            elif number == 1 and wire == _BYTES:
                while start < stop:
                    value, start = _varint(data, start, stop)
                    integers.append(value)
    return np.array(integers, np.uint64).view(np.int64)


def _fields(data: bytes, position: int, end: int) -> Iterator[tuple[int, int, int, int, int]]:
    """(field number, wire type, start and stop of the content, value of a varint) of the message in data[position:end].

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


def _varint(data: bytes, position: int, end: int) -> tuple[int, int]:
    """(value modulo 2⁶⁴, position behind it)."""
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
