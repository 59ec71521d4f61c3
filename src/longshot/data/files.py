"""What readers of files share: size, time and inode, JSON objects, headers of arrays, and names that occur twice."""

from __future__ import annotations

import errno
import json
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from longshot.base import Ints, UserError


def reason_of(error: OSError) -> str:
    """Why the system refused, in lower case."""
    return (error.strerror or str(error)).lower()


def damage_of(error: Exception) -> str:
    """What is wrong with an archive, from the exception of the library that reads it.

    An offset outside the file makes the system say "Invalid argument", which tells a reader nothing.

    >>> damage_of(OSError(22, "Invalid argument"))
    'it points outside its own file: it was cut short or damaged'
    """
    if isinstance(error, OSError):
        if error.errno == errno.EINVAL:
            return "it points outside its own file: it was cut short or damaged"
        return reason_of(error)
    return str(error).strip().rstrip(".") or type(error).__name__


def file_stamp(path: str | Path) -> tuple[int, int]:
    """(size, time of change in ns) of a file, which tell whether it is still the same; (-1, -1) when it is gone."""
    try:
        status = os.stat(path)  # noqa: PTH116  called for every file
    except OSError:
        return -1, -1
    return status.st_size, status.st_mtime_ns


def need_stamp(path: str | Path) -> tuple[int, int]:
    """The stamp of a file that must be there; UserError when it is not."""
    try:
        status = os.stat(path)  # noqa: PTH116
    except OSError as error:
        raise UserError(f"Cannot open {path}: {reason_of(error)}.") from error
    return status.st_size, status.st_mtime_ns


def file_stamps(paths: Sequence[str]) -> Ints:
    """(size, time of change in ns, inode) of each file [M, 3]; −1 three times for a file that is gone.

    The third number also depends on the time at which the system last saw the file change (ctime): a copy over a file
    of the same size that brings its own time along (``cp -p``) keeps the other three.
    """
    numbers: list[int] = []
    stat, extend = os.stat, numbers.extend
    for path in paths:
        try:
            status = stat(path)
        except (OSError, ValueError):
            extend((-1, -1, -1))
        else:
            inode = status.st_ino * 1_000_003 + status.st_ctime_ns & 0x7FFFFFFFFFFFFFFF
            extend((status.st_size, status.st_mtime_ns, inode))
    return np.array(numbers, np.int64).reshape(-1, 3)


def container_stamps(
    files: Sequence[str], file: NDArray[np.integer], *numbers: NDArray[np.integer] | int
) -> Ints:
    """The stamp [M, 3] of rows that lie inside a few files: one look at each file that is used.

    Parameters
    ----------
    files : sequence of str
        Their paths.
    file : array [M] of int
        Which of them a row lies in.
    *numbers : array [M] of int, or int
        Where in it a row lies: mixed into the third number, so that another place is another stamp.
    """
    used, position = np.unique(file, return_inverse=True)
    stamps = file_stamps([files[int(number)] for number in used])[position.reshape(-1)]
    return mixed(stamps, *numbers)


def mixed(stamps: Ints, *numbers: NDArray[np.integer] | int) -> Ints:
    """Stamps whose third number also depends on ``numbers``; a file that is gone stays gone."""
    mark = stamps[:, 2].copy()
    for values in numbers:
        mark = mark * np.int64(1_000_003) + np.asarray(values).astype(np.int64)  # overflow wraps around
    return np.column_stack([stamps[:, :2], np.where(stamps[:, 0] < 0, -1, mark)])


def read_object(file: Path) -> dict[str, Any]:
    """The object in a JSON file; UserError when it is missing, damaged or something else."""
    try:
        content = json.loads(file.read_bytes())
    except OSError as error:
        raise UserError(f"Cannot open {file}: {reason_of(error)}.") from error
    except (ValueError, RecursionError) as error:
        raise UserError(f"{file} is not valid JSON ({error})", "copy or unpack it again") from error
    if not isinstance(content, dict):
        raise UserError(
            f"{file} holds a {type(content).__name__} where a JSON object is needed", "unpack it again"
        )
    return content


def repeated(names: Iterable[str]) -> list[str]:
    """The names that occur more than once, sorted.

    >>> repeated(["b", "a", "b"])
    ['b']
    """
    return sorted(name for name, number in Counter(names).items() if number > 1)


def read_npy_header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """(shape, Fortran order, dtype) of the array that begins here; the stream then stands at its numbers."""
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    return read(stream)
