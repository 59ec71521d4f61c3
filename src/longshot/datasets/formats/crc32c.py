"""CRC-32C (Castagnoli), the checksum of TFRecord: by google-crc32c where it is installed, else with NumPy.

A checksum is linear over bits: it is the exclusive or of what every byte contributes, and a byte's contribution depends
on its value and its distance from the end only. A table of [distance, value] turns a block into one gather and one
reduction; the state after a block enters the next one through its first four bytes.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

_POLYNOMIAL = 0x82F63B78  # reflected
_BLOCK = 2048  # bytes per gather: the table takes 2 MB
_MASK = 0xA282EAD8
Buffer = bytes | bytearray | memoryview


@cache
def _package() -> Any:
    """The module ``google_crc32c``, or None; its own slow fallback without C code is no gain."""
    try:
        module = import_module("google_crc32c")
    except ImportError:
        return None
    return module if getattr(module, "implementation", "python") == "c" else None


def crc32c(data: Buffer) -> int:
    """The CRC-32C of ``data``."""
    package = _package()
    return int(package.value(bytes(data))) if package is not None else crc32c_numpy(data)


def masked(crc: int) -> int:
    """As TFRecord stores a checksum: rotated right by 15 bits, plus a constant, modulo 2³²."""
    return (((crc >> 15) | (crc << 17)) + _MASK) & 0xFFFFFFFF


def crc32c_numpy(data: Buffer) -> int:
    """CRC-32C without a package."""
    values = np.frombuffer(data, np.uint8)
    table = _table()
    state = 0xFFFFFFFF
    for start in range(0, len(values), _BLOCK):
        block = values[start : start + _BLOCK].copy()
        if len(block) < 4:
            for byte in block.tolist():
                state = (state >> 8) ^ int(table[0, (state ^ byte) & 0xFF])
            break
        block[:4] ^= np.frombuffer(state.to_bytes(4, "little"), np.uint8)
        state = int(np.bitwise_xor.reduce(_gather(table, block)))
    return state ^ 0xFFFFFFFF


def masked_of_lengths(lengths: NDArray[np.uint64]) -> NDArray[np.uint32]:
    """The masked checksums [N] of N lengths, each of them eight bytes, all at once."""
    raw = np.ascontiguousarray(lengths, "<u8").view(np.uint8).reshape(-1, 8).copy()
    raw[:, :4] ^= 0xFF
    state: NDArray[np.uint32] = np.bitwise_xor.reduce(_gather(_table(), raw), axis=1)
    crc = state.astype(np.uint64) ^ np.uint64(0xFFFFFFFF)
    rotated = ((crc >> np.uint64(15)) | (crc << np.uint64(17))) + np.uint64(_MASK)
    return (rotated & np.uint64(0xFFFFFFFF)).astype(np.uint32)


def _gather(table: NDArray[np.uint32], rows: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """What each byte [..., n] contributes, by its distance from the end of its row."""
    return table.reshape(-1).take(_starts()[-rows.shape[-1] :] + rows)


@cache
def _starts() -> NDArray[np.int64]:
    """Where the table's row for each byte of a whole block begins, the farthest from the end first."""
    return np.arange(_BLOCK - 1, -1, -1, dtype=np.int64) * 256


@cache
def _table() -> NDArray[np.uint32]:
    """[distance, value]: the state after a byte of that value and ``distance`` zero bytes."""
    first = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        first = np.where(first & 1, (first >> 1) ^ np.uint32(_POLYNOMIAL), first >> 1).astype(np.uint32)
    table = np.empty((_BLOCK, 256), np.uint32)
    table[0] = first
    for distance in range(1, _BLOCK):
        before = table[distance - 1]
        table[distance] = (before >> 8) ^ first[before & 0xFF]
    return table
