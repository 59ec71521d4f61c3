"""The digests of toybox's pictures, shipped for one version of the generator.

``digests-v2.bin`` holds 32 bytes per picture, in the order of the rows. Whoever draws toybox compares what was drawn
with it, once; the outcome lies beside the pictures with the stamp of their file, so that later nothing is read.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
from importlib.resources import files
from pathlib import Path

import numpy as np

from longshot.core.errors import UserError
from longshot.core.files import write_json
from longshot.core.wording import note
from longshot.datasets.digest_memory import Digests
from longshot.datasets.images import rows_bytes
from longshot.datasets.toybox.generate import IMAGES_FILE, VERSION

CHECKED_FILE = "checked.json"


def shipped_digests() -> Digests:
    """The digests [12000, 32] that come with this version of the generator."""
    data = (files(__package__) / f"digests-v{VERSION}.bin").read_bytes()
    digests: Digests = np.frombuffer(data, np.uint8).reshape(-1, 32)
    return digests


def drawn_digests(images: Path) -> Digests:
    """The digests [N, 32] of what was drawn into a file, read now."""
    pixels = np.load(images, mmap_mode="r")
    data = b"".join(hashlib.sha256(picture).digest() for picture in rows_bytes(pixels, range(len(pixels))))
    return np.frombuffer(data, np.uint8).reshape(-1, 32)


def check_drawn(folder: Path) -> bool:
    """Compare the pictures in ``folder`` with what is shipped and record the outcome; True when all agree."""
    images = folder / IMAGES_FILE
    stamp = _stamp(images)
    digests, shipped = drawn_digests(images), shipped_digests()
    differ = len(shipped)
    if digests.shape == shipped.shape:
        differ = int((digests != shipped).any(axis=1).sum())
    if differ:
        note(
            f"{differ:,} of {len(shipped):,} pictures of toybox differ from the published ones: this processor rounds "
            f"some pixels otherwise. Testbeds drawn here hold these pictures' own digests."
        )
    record = {"version": VERSION, "stamp": stamp, "differ": differ, "digest": _joined(digests)}
    with contextlib.suppress(UserError):  # where it cannot be written, it is found out again
        write_json(folder / CHECKED_FILE, record)
    return differ == 0


def agrees(images: Path) -> bool:
    """Whether the pictures in this file are the shipped ones.

    One look at the file, if it was checked before. A file that has changed since is not: its pictures are read like
    those of any dataset.
    """
    try:
        record = (images.parent / CHECKED_FILE).read_text(encoding="utf-8")
        return _holds(record, tuple(_stamp(images)))
    except (OSError, ValueError, KeyError, TypeError):
        return check_drawn(images.parent)  # drawn by an earlier version of Longshot, or damaged


@functools.lru_cache(maxsize=4)
def _holds(record: str, stamp: tuple[int, ...]) -> bool:
    """Whether the record of a check says that the file with this stamp has the shipped pictures."""
    checked = json.loads(record)
    same = tuple(checked["stamp"]) == stamp
    return bool(same and checked["digest"] == _joined(shipped_digests()))


def _stamp(images: Path) -> list[int]:
    """Size, time and inode of the file with the pictures; −1 three times where it is gone."""
    try:
        status = images.stat()
    except OSError:
        return [-1, -1, -1]
    return [status.st_size, status.st_mtime_ns, status.st_ino]


def _joined(digests: Digests) -> str:
    """One digest over all: a record of a check that was damaged cannot hold it by chance."""
    return hashlib.sha256(digests.tobytes()).hexdigest()
