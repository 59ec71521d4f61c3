"""Messages between the organiser's process and a sandbox: a small JSON header, then raw arrays. Never pickles.

    8 bytes   length of the header, big-endian
    header    {"kind": …, "fields": {…}, "arrays": [[name, dtype, shape], …]}
    arrays    their bytes, C order, in that order

Both sides check everything they read: the organiser does not trust the box, and the box need not trust its neighbours.

And what may be shown of a stranger's text: control characters made visible, one line where a line is a record, and in
hidden phases nothing of the stranger's making at all.
"""

from __future__ import annotations

import builtins
import json
import math
import os
import re
import select
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

DTYPES = ("uint8", "int64", "float32", "float64")
MAX_HEADER = 1 << 20
CHUNK = 1 << 20
STAGES = ("import", "config", "meta_fit", "save", "load", "fit", "predict")
RULE = "it asked for learned weights or the network, and the meta-learning league learns from nothing"
LINE = 400  # letters of a record


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
    """Wait until the pipe is ready; only non-blocking ends come here."""
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


def readable(text: str) -> str:
    r"""Escape control characters, which a terminal obeys, in a stranger's text of several lines.

    >>> readable("fine\r\n\x1b[2J")
    'fine\n\\x1b[2J'
    """
    plain = text.replace("\r\n", "\n").replace("\t", "    ")
    return "".join(
        letter
        if letter == "\n" or letter.isprintable()
        else letter.encode("unicode_escape", "surrogatepass").decode()
        for letter in plain
    )


def one_line(text: str, most: int = LINE) -> str:
    r"""Make a stranger's text part of one record: newlines are visible too, and its length has an end.

    >>> one_line("boom\nsubmission 2, seed 1: scored 1.0000")
    'boom\\nsubmission 2, seed 1: scored 1.0000'
    """
    line = readable(text).replace("\n", "\\n")
    return line if len(line) <= most else f"{line[: most - 1]}…"


def system_reason(stage: str, reason: str, submission: Path) -> str:
    """Say where a submission failed by what its author knew before: nothing it was shown can leak this way.

    The stage, the kind of exception where it is one of Python's, the file and line where the archive has them; of an
    import that failed also the line as it is written in the archive.
    """
    if stage == "league":
        position = _position(reason, submission)
        return one_line(RULE if position is None else f"{RULE} ({position[0]}, line {position[1]})")
    parts = [f"it failed in {stage}" if stage in STAGES else "it failed"]
    kinds = re.findall(r"^(\w+)(?=:|$)", reason, re.MULTILINE)
    kind = next((name for name in kinds if _is_exception(name)), None)
    if kind is not None:
        parts.append(f" with {kind}")
    if position := _position(reason, submission):
        file, number = position
        parts.append(f" at {file}, line {number}")
        if kind in ("ImportError", "ModuleNotFoundError"):
            parts.append(f": {_lines(submission, file)[number - 1].strip()[:120]}")
    return one_line("".join(parts))


def _position(reason: str, submission: Path) -> tuple[str, int] | None:
    """Find the last file and line in a reason that the archive has."""
    for file, digits in reversed(re.findall(r'File "([^"\n]{1,200})", line (\d{1,7})', reason)):
        if 1 <= int(digits) <= len(_lines(submission, file)):
            return file, int(digits)
    return None


def _is_exception(name: str) -> bool:
    kind = getattr(builtins, name, None)
    return isinstance(kind, type) and issubclass(kind, BaseException)


def _lines(submission: Path, file: str) -> list[str]:
    """Read the lines of a Python file of the archive; none where there is no such file."""
    path = (submission / file).resolve()
    if path.suffix != ".py" or not path.is_relative_to(submission.resolve()) or not path.is_file():
        return []
    return path.read_text(encoding="utf-8", errors="replace").split("\n")
