"""What readers of files share: size and time of a file, JSON objects, and names that occur twice."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from longshot.core.errors import UserError


def reason_of(error: OSError) -> str:
    """Why the system refused, in lower case."""
    return (error.strerror or str(error)).lower()


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


def read_object(file: Path) -> dict[str, Any]:
    """The object in a JSON file; UserError when it is missing, damaged or something else."""
    try:
        content = json.loads(file.read_bytes())
    except OSError as error:
        raise UserError(f"Cannot open {file}: {reason_of(error)}.") from error
    except ValueError as error:
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
