"""Digests of images that were read before, kept in the cache per dataset source.

A file holds key, stamp and digest of every image, behind a checksum of itself: a damaged one counts as absent, since
reading the images again is always right. Writers hold a lock and add to what is there, so two lose nothing.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from longshot.core.arrays import Bools, Ints
from longshot.core.errors import UserError
from longshot.core.files import cache_dir, cache_places, hash_text, read_sealed, write_sealed
from longshot.core.locks import file_lock
from longshot.core.wording import note

Digests = NDArray[np.uint8]  # [M, 32]

_SCHEMA = pa.schema(
    [
        ("key", pa.string()),
        *((name, pa.int64()) for name in ("size", "time", "inode")),
        ("digest", pa.binary(32)),
    ]
)
_TICK = (
    50_000_000  # ns: a file that changed a moment ago can change again within one tick of its clock, unseen
)
_WHOLE_SECONDS = 2_000_000_000  # the same where the clock counts seconds, as on FAT and some network drives
_unwritable: set[str] = set()  # what was noted once


class Recalled(NamedTuple):
    """Digests [M, 32] of some images, true where ``fresh`` [M]."""

    digests: Digests
    fresh: Bools


def memory_file(source: str) -> Path:
    """Where the digests of a source are written."""
    return cache_dir("digests") / _name(source)


def _name(source: str) -> str:
    return f"{hash_text(source)[:32]}.digests"


def recall(source: str, keys: pa.Array, stamps: Ints) -> Recalled:
    """What is remembered of some images of a source whose files have these stamps [M, 3] now."""
    digests, fresh = np.zeros((len(keys), 32), np.uint8), np.zeros(len(keys), np.bool_)
    for file in cache_places("digests", _name(source)):
        table = _load(file)
        if table is not None and len(table) and not fresh.all():
            _fill(digests, fresh, table, keys, stamps)
    return Recalled(digests, fresh)


def _fill(digests: Digests, fresh: Bools, table: pa.Table, keys: pa.Array, stamps: Ints) -> None:
    """Take over what ``table`` holds of images that are not ``fresh`` yet."""
    if keys.equals(table["key"].combine_chunks()):  # nearly always: the same images as the last time
        rows, remembered = np.arange(len(keys)), np.ones(len(keys), np.bool_)
    else:
        indices = pc.index_in(keys, value_set=table["key"].combine_chunks())
        remembered = indices.is_valid().to_numpy(zero_copy_only=False)
        rows = indices.fill_null(0).to_numpy(zero_copy_only=False)
    same = remembered & (stamps[:, 0] >= 0) & ~fresh
    for position, name in enumerate(("size", "time", "inode")):
        same &= table[name].to_numpy()[rows] == stamps[:, position]
    digests[same] = _matrix(table["digest"].combine_chunks())[rows[same]]
    fresh |= same


def remember(source: str, keys: pa.Array, stamps: Ints, digests: Digests, *, looked: int) -> None:
    """Add digests to what is remembered of a source.

    Parameters
    ----------
    source : str
        ``Dataset.source``.
    keys : pyarrow.Array [M]
        The images' keys.
    stamps : array [M, 3] of int64
        Their stamps, taken before the images were read.
    digests : array [M, 32] of uint8
        Their digests.
    looked : int
        ``time.time_ns()`` from before the stamps were taken. A file that had changed only a moment before is left
        out: it may change again unseen.
    """
    tick = np.where(stamps[:, 1] % 1_000_000_000 == 0, _WHOLE_SECONDS, _TICK)
    settled = np.flatnonzero((stamps[:, 0] >= 0) & (looked - stamps[:, 1] > tick))
    if not len(settled):
        return
    rows = pa.array(settled)
    binary = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(32), len(settled), [None, pa.py_buffer(np.ascontiguousarray(digests[settled]))]
    )
    added = pa.table([keys.take(rows), *stamps[settled].T.copy(), binary], schema=_SCHEMA)
    try:
        file = memory_file(source)
        with file_lock(file.with_suffix(".lock")):
            earlier = _load(file)
            if earlier is not None:
                unchanged = pc.invert(pc.is_in(earlier["key"], value_set=added["key"].combine_chunks()))
                added = pa.concat_tables([earlier.filter(unchanged), added])
            _save(file, added.combine_chunks())
    except UserError as error:  # a full or read-only disk costs time, not truth
        if source not in _unwritable:
            _unwritable.add(source)
            note(f"the digests of {source} are not remembered: {error.template}")


def forget(source: str) -> None:
    """Drop what is remembered of a source."""
    file = memory_file(source)
    for path in (file, file.with_suffix(".lock")):
        path.unlink(missing_ok=True)


def _save(file: Path, table: pa.Table) -> None:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    write_sealed(file, memoryview(sink.getvalue()))


def _load(file: Path) -> pa.Table | None:
    """The table in a memory file; None when there is none, or when it is not exactly what was written."""
    content = read_sealed(file)
    if content is None:
        return None
    try:
        table = pa.ipc.open_stream(pa.py_buffer(content)).read_all()
    except pa.ArrowException:
        return None
    return table if table.schema == _SCHEMA else None


def _matrix(values: pa.FixedSizeBinaryArray) -> Digests:
    """A column of digests as numbers [N, 32]."""
    buffer = values.buffers()[1]
    start = values.offset * 32
    matrix: Digests = np.frombuffer(buffer, np.uint8)[start : start + len(values) * 32].reshape(-1, 32)
    return matrix


def now() -> int:
    """The time to hand to ``remember``."""
    return time.time_ns()
