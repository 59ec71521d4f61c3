"""Messages between the organiser's process and a sandbox: a small JSON header, then raw arrays. Never pickles.

    8 bytes   length of the header, big-endian
    header    {"kind": …, "fields": {…}, "arrays": [[name, dtype, shape], …]}
    arrays    their bytes, C order, in that order

Both sides check everything they read: the organiser does not trust the box, and the box need not trust its neighbours.
"""

from __future__ import annotations

import json
import math
import os
import select
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

DTYPES = ("uint8", "int64", "float32", "float64")
MAX_HEADER = 1 << 20
CHUNK = 1 << 20


class WireError(Exception):
    """What came through the pipe is not a message: cut off, too large or malformed."""


class Timeout(WireError):
    """Nothing whole came in time."""


class Message(NamedTuple):
    """One message: what it is, small values, arrays by name."""

    kind: str
    fields: dict[str, Any]
    arrays: dict[str, np.ndarray[Any, Any]]


def send(
    fd: int,
    kind: str,
    fields: Mapping[str, Any] | None = None,
    deadline: float | None = None,
    **arrays: np.ndarray[Any, Any],
) -> None:
    """Write one message.

    A ``deadline`` (time.monotonic) counts on a non-blocking end: a reader that does not read ends in Timeout.
    """
    laid = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    described = [[name, array.dtype.name, list(array.shape)] for name, array in laid.items()]
    header = json.dumps({"kind": kind, "fields": dict(fields or {}), "arrays": described}).encode()
    _write(fd, len(header).to_bytes(8, "big") + header, deadline)
    for array in laid.values():
        _write(fd, array.data.cast("B") if array.size else b"", deadline)


def receive(fd: int, max_bytes: int, deadline: float | None = None) -> Message:
    """Read one message of at most ``max_bytes`` of arrays; WireError for anything else, Timeout when it is late."""
    size = int.from_bytes(_read(fd, 8, deadline), "big")
    if not 0 < size <= MAX_HEADER:
        raise WireError(f"a header of {size:,} bytes was announced, at most {MAX_HEADER:,} are allowed")
    try:
        header = json.loads(_read(fd, size, deadline))
        kind, fields, described = str(header["kind"]), dict(header["fields"]), list(header["arrays"])
        plan = [(str(name), str(dtype), tuple(int(n) for n in shape)) for name, dtype, shape in described]
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise WireError("the header of a message is malformed") from error
    budget = max_bytes
    arrays = {}
    for name, dtype, shape in plan:
        if dtype not in DTYPES or len(shape) > 8 or min(shape, default=0) < 0:
            raise WireError(f"an array of the type {dtype[:40]!r} and {len(shape)} dimensions is not allowed")
        needed = math.prod(shape) * np.dtype(dtype).itemsize
        budget -= needed
        if budget < 0:
            raise WireError(f"more than the {max_bytes:,} bytes allowed were announced")
        try:
            array = np.empty(shape, dtype)
        except (ValueError, MemoryError) as error:  # dimensions beyond all bounds, and one of 0
            raise WireError(f"an array of the shape {list(shape)} cannot be made") from error
        if needed:
            _fill(fd, array.data.cast("B"), deadline)
        arrays[name] = array
    return Message(kind, fields, arrays)


def _wait(fd: int, write: bool, deadline: float | None) -> None:
    """Until the pipe is ready; only non-blocking ends come here."""
    ready = select.poll()
    ready.register(fd, select.POLLOUT if write else select.POLLIN)
    milliseconds = None if deadline is None else max(deadline - time.monotonic(), 0) * 1000
    if not ready.poll(milliseconds):
        raise Timeout("the time is over")


def _read(fd: int, size: int, deadline: float | None) -> bytearray:
    data = bytearray(size)
    _fill(fd, memoryview(data), deadline)
    return data


def _fill(fd: int, view: memoryview, deadline: float | None) -> None:
    """Read until ``view`` is full, straight into it."""
    done = 0
    while done < len(view):
        try:
            count = os.readv(fd, [view[done : done + CHUNK]])
        except BlockingIOError:
            _wait(fd, False, deadline)
            continue
        if not count:
            raise WireError("the other side closed the pipe")
        done += count
        if deadline is not None and time.monotonic() > deadline:  # a drip of bytes must not outlast it
            raise Timeout("the time is over")


def _write(fd: int, data: bytes | memoryview, deadline: float | None) -> None:
    view, done = memoryview(data), 0
    while done < len(view):
        try:
            done += os.write(fd, view[done : done + CHUNK])
        except BlockingIOError:
            _wait(fd, True, deadline)
        except BrokenPipeError as error:
            raise WireError("the other side closed the pipe") from error
