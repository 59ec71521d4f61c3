"""Shards that are copies of each other: a file copied over another can leave every count right and images wrong."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import combinations
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa

from longshot.core.errors import UserError
from longshot.core.files import hash_file
from longshot.core.wording import count, note
from longshot.datasets.formats.spans import read_span

_HEAD = 65_536  # bytes that are compared before whole files are
_Item = TypeVar("_Item")


def refuse_copied_files(files: Sequence[Path], parts: Sequence[str] | None = None) -> None:
    """UserError when two files hold the same bytes. Files of different sizes are not read.

    Parameters
    ----------
    files : sequence of path
        The files.
    parts : sequence of str, optional
        What each belongs to, such as train and test: copies in different parts may be meant, and are noted.
    """
    part_of = dict(zip(files, parts or [""] * len(files), strict=True))
    for twins in _groups(files, _size, _head, hash_file):
        _refuse(twins, [part_of[file] for file in twins], f"the same {count(_size(twins[0]), 'byte')}")


def refuse_copied_records(files: Sequence[Path], index: pa.Table, parts: Sequence[str] | None = None) -> None:
    """UserError when two files hold the same records, whatever lies between them.

    Parameters
    ----------
    files : sequence of path
        The files.
    index : pyarrow.Table [N rows]
        Where each record lies: the columns ``file``, ``offset`` and ``length``. Only files whose records have the same
        lengths are read; of those with a single record, nothing is said.
    parts : sequence of str, optional
        As in ``refuse_copied_files``.
    """
    file, offset, length = (index[name].to_numpy() for name in ("file", "offset", "length"))
    order = np.argsort(file, kind="stable")
    bounds = np.searchsorted(file[order], np.arange(len(files) + 1))
    spans = [order[bounds[number] : bounds[number + 1]] for number in range(len(files))]

    def digest(number: int, rows: Iterable[int]) -> bytes:
        hasher = hashlib.sha256()
        for row in rows:
            hasher.update(read_span(str(files[number]), int(offset[row]), int(length[row])))
        return hasher.digest()

    several = [number for number in range(len(files)) if len(spans[number]) > 1]
    for twins in _groups(
        several,
        lambda number: length[spans[number]].tobytes(),
        lambda number: digest(number, spans[number][:1]),
        lambda number: digest(number, spans[number]),
    ):
        named = [parts[number] if parts else "" for number in twins]
        _refuse(
            [files[number] for number in twins], named, f"the same {count(len(spans[twins[0]]), 'record')}"
        )


def _refuse(twins: Sequence[Path], parts: Sequence[str], shared: str) -> None:
    """UserError for copies within one part, a note for those in different parts."""
    pairs = list(combinations(zip(twins, parts, strict=True), 2))
    (before, part), (after, other_part) = next((pair for pair in pairs if pair[0][1] == pair[1][1]), pairs[0])
    called = after.name if after.parent == before.parent else after
    if part != other_part:
        note(f"{before} and {called} hold {shared}, although one is of '{part}' and one of '{other_part}'.")
        return
    raise UserError(
        f"{before} and {called} hold {shared}: one is a copy of the other, and what should be in its place is missing",
        "copy or download both again",
    )


def _groups(items: Sequence[_Item], *tests: Callable[[_Item], Hashable]) -> list[list[_Item]]:
    """Items that agree by every test, in groups of two or more; a later test is for those that agree so far."""
    groups = [list(items)]
    for test in tests:
        by_value: dict[tuple[int, Hashable], list[_Item]] = {}
        for number, group in enumerate(groups):
            if len(group) > 1:
                for item in group:
                    by_value.setdefault((number, test(item)), []).append(item)
        groups = list(by_value.values())
    return [group for group in groups if len(group) > 1]


def _size(file: Path) -> int:
    return file.stat().st_size


def _head(file: Path) -> bytes:
    with file.open("rb") as opened:
        return opened.read(_HEAD)
