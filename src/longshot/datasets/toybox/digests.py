"""The digests of toybox's pictures, shipped for one version of the generator.

``digests-v2.bin`` holds 32 bytes per picture, in the order of the rows. Whoever draws a class puts a record beside its
file: one digest over its pictures, and the stamp of the file. So a damaged file is noticed and drawn again, and whether
this machine draws the published pictures is known without reading them.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from longshot.core.errors import UserError
from longshot.core.files import write_json
from longshot.datasets.digest_memory import Digests
from longshot.datasets.files import file_stamps
from longshot.datasets.images import rows_bytes
from longshot.datasets.toybox.attributes import IMAGES

VERSION = 2  # raise it whenever a pixel or an attribute changes: it names the folder in the cache
SEED = 20240
FOLDER = f"classes-v{VERSION}"  # of the cache


def class_file(folder: Path, class_index: int) -> Path:
    """The pictures of one class, uint8 [50, 84, 84, 3]."""
    return folder / f"class-{class_index:03d}.npy"


def record_file(file: Path) -> Path:
    """What is known of the pictures in ``file``."""
    return file.with_suffix(".json")


@functools.cache
def shipped_digests() -> Digests:
    """The digests [12000, 32] that come with this version of the generator."""
    data = (files(__package__) / f"digests-v{VERSION}.bin").read_bytes()
    digests: Digests = np.frombuffer(data, np.uint8).reshape(-1, 32)
    return digests


def array_digests(images: NDArray[np.uint8]) -> Digests:
    """The digests [n, 32] of pictures [n, 84, 84, 3]."""
    data = b"".join(hashlib.sha256(picture).digest() for picture in rows_bytes(images, range(len(images))))
    return np.frombuffer(data, np.uint8).reshape(-1, 32)


class Drawn(NamedTuple):
    """A class that was drawn: its file and the stamp of it, and whether its pictures are the shipped ones."""

    file: Path
    stamp: tuple[int, ...]
    shipped: bool


def find_drawn(file: Path, class_index: int) -> Drawn | None:
    """What is known of a class's file; None where it is missing or not as it was drawn.

    One look at the file where it was checked before. Where it changed since then, or has no record, it is read.
    """
    stamp = _stamp(file)
    if stamp[0] < 0:
        return None
    return _checked(file, class_index, stamp)


@functools.lru_cache(maxsize=4096)
def _checked(file: Path, class_index: int, stamp: tuple[int, ...]) -> Drawn | None:
    """``find_drawn`` of a file with this stamp."""
    shipped = joined(shipped_digests()[class_index * IMAGES : (class_index + 1) * IMAGES])
    recorded_stamp, recorded = _record(file)
    if recorded_stamp == stamp and recorded == shipped:
        return Drawn(file, stamp, shipped=True)
    try:
        digests = array_digests(np.load(file, mmap_mode="r", allow_pickle=False))
    except (OSError, ValueError, EOFError, IndexError):
        return None
    now = joined(digests)
    if now not in (shipped, recorded):  # damaged or without a record: drawing again settles it
        return None
    if recorded_stamp != stamp or recorded != now:
        write_record(file, digests)
    return Drawn(file, stamp, shipped=now == shipped)


def write_record(file: Path, digests: Digests) -> None:
    """Put on record what was drawn into a file."""
    record = {"version": VERSION, "stamp": list(_stamp(file)), "digest": joined(digests)}
    with contextlib.suppress(UserError):  # where it cannot be written, it is found out again
        write_json(record_file(file), record)


def _record(file: Path) -> tuple[tuple[int, ...], str]:
    """(stamp, digest) on record; empty where there is none that can be read."""
    try:
        record = json.loads(record_file(file).read_text(encoding="utf-8"))
        return tuple(record["stamp"]), str(record["digest"])
    except (OSError, ValueError, KeyError, TypeError):
        return (), ""


def _stamp(file: Path) -> tuple[int, ...]:
    """Size, time and inode of a file; −1 three times where it is gone."""
    return tuple(file_stamps([str(file)])[0].tolist())


def joined(digests: Digests) -> str:
    """One digest over several: a record that was damaged cannot hold it by chance."""
    return hashlib.sha256(digests.tobytes()).hexdigest()
