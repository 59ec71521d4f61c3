"""``toybox``, the embedded default dataset: 240 kinds of toys, photographed by ten owners, drawn on the spot.

A class is drawn into the cache when one of its pictures is first wanted, by several processes where there are many.
``digests-v2.bin`` holds 32 bytes per picture, in the order of the rows. Whoever draws a class puts a record beside its
file: one digest over its pictures, and the stamp of the file. So a damaged file is noticed and drawn again, and whether
this machine draws the published pictures is known without reading them.

>>> toybox = open_toybox()  # doctest: +SKIP
>>> len(toybox), len(toybox.class_ids)  # doctest: +SKIP
(12000, 240)
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from longshot.base import (
    Ints,
    Progress,
    UserError,
    atomic,
    cache_dir,
    cache_places,
    explain_disk_errors,
    file_lock,
    note,
    progress,
    read_parquet,
    usable_cores,
    write_json,
)
from longshot.data.dataset import Dataset
from longshot.data.file_readers import container_stamps, file_stamps
from longshot.data.identity import Digests
from longshot.data.stores import array_bytes, rows_bytes
from longshot.data.taxonomy import Taxonomy

if TYPE_CHECKING:
    from PIL.Image import Image

_drawing = threading.Lock()  # threads of one process wait here, where nothing is said of another process
VERSION = 2  # raise it whenever a pixel or an attribute changes: it names the folder in the cache
SEED = 20240
IMAGES = 50  # of a class
_SPLIT_OF_GENUS = ("train", "train", "validation", "test")  # within a family
FOLDER = f"classes-v{VERSION}"  # of the cache


@dataclass(frozen=True)
class ToyStore:
    """Row i is picture i mod 50 of class i // 50; the classes lie in files of their own, drawn on demand."""

    without_copies = True  # no two pictures are drawn from the same numbers: nobody needs to look for copies

    def read(self, row: int) -> Image:
        """Read one image, RGB."""
        from PIL import Image

        return Image.fromarray(np.ascontiguousarray(_picture(row)))

    def encoded(self, row: int) -> bytes:
        """Return type, shape and numbers of one image."""
        return array_bytes(_picture(row))

    def prepare(self, rows: Ints) -> None:
        """Draw the classes of some rows, all at once, where they are not drawn yet."""
        drawn_classes(np.unique(np.asarray(rows) // IMAGES).tolist())

    def stamps(self, rows: Ints) -> Ints:
        """Return the stamps of the classes' files: one look each; −1 for what is not drawn yet, [M, 3]."""
        classes, which = np.unique(np.asarray(rows) // IMAGES, return_inverse=True)
        paths = [str(path) if (path := _lies(index)) else "" for index in classes.tolist()]
        return container_stamps(paths, which.reshape(-1), rows)

    def shipped_digests(self, rows: Ints) -> Digests | None:
        """Return the digests of rows, from the package; None where this machine drew other pictures for one of them."""
        toys = drawn_classes(np.unique(np.asarray(rows) // IMAGES).tolist())
        return shipped_digests()[rows] if all(file.shipped for file in toys) else None


def _picture(row: int) -> NDArray[np.uint8]:
    index, number = divmod(int(row), IMAGES)
    toys = _find(index) or drawn_classes([index])[0]
    picture: NDArray[np.uint8] = _mapped(toys)[number]
    return picture


@functools.lru_cache(maxsize=256)
def _mapped(toys: Drawn) -> NDArray[np.uint8]:
    array: NDArray[np.uint8] = np.load(toys.file, mmap_mode="r")
    return array


@functools.cache
def species() -> dict[str, dict[str, Any]]:
    """Map the id ``family/genus/species`` of every class, sorted, to its body plan and traits.

    A genus, one of four in a family, is a plan and two traits that vary it: every pair of their variants is a species.
    """
    families = json.loads((files(__package__) / "species.json").read_text("utf-8"))
    settings = {
        f"{family}/{genus}/{first}-{second}": {
            "plan": entry["plan"],
            "traits": {**entry["first"][first], **entry["second"][second]},
            "split": split,
        }
        for family, genera in families.items()
        for split, (genus, entry) in zip(_SPLIT_OF_GENUS, genera.items(), strict=True)
        for first in entry["first"]
        for second in entry["second"]
    }
    return dict(sorted(settings.items()))


def open_toybox() -> Dataset:
    """Open toybox; nothing is drawn for it."""
    ids = tuple(species())
    with as_file(files(__package__) / f"attributes-v{VERSION}.parquet") as file:
        attributes = read_parquet(file)
    return Dataset(
        name="toybox",
        class_ids=ids,
        offsets=np.arange(len(ids) + 1, dtype=np.int64) * IMAGES,
        keys=pa.array([f"{class_id}/{n:02d}" for class_id in ids for n in range(IMAGES)]),
        store=ToyStore(),
        source="toybox",
        taxonomy=Taxonomy.from_class_ids(ids),
        attributes=attributes,
        splits={
            split: tuple(class_id for class_id in ids if species()[class_id]["split"] == split)
            for split in dict.fromkeys(_SPLIT_OF_GENUS)
        },
    )


def drawn_classes(indices: Sequence[int]) -> list[Drawn]:
    """Return the files of classes, drawn now where they are missing or damaged.

    One process draws at a time; others wait, then find what it drew. Every file appears whole, so that a killed process
    leaves whole classes.
    """
    missing = [index for index in indices if _find(index) is None]
    if missing:
        _draw(missing)
    return [_drawn(index) for index in indices]


def _draw(indices: Sequence[int]) -> None:
    folder = cache_dir("toybox", FOLDER)
    waiting = "another process is drawing toybox; waiting for it"
    with _drawing, file_lock(folder.parent / f".{FOLDER}.lock", waiting=waiting):
        missing = [index for index in indices if _find(index) is None]  # another may have drawn some
        if not missing:
            return
        if damaged := sum(_lies(index) is not None for index in missing):
            note(f"{damaged:,} of toybox's classes in the cache were damaged; they are drawn again")
        draw_classes(folder, missing)
        own = [index for index in missing if not _drawn(index).shipped]
    if own:
        differ = sum(_differing(index) for index in own)
        note(
            f"{differ:,} of {len(missing) * IMAGES:,} pictures of toybox differ from the published ones: this "
            f"processor rounds some pixels otherwise. Testbeds drawn here hold these pictures' own digests."
        )


def _differing(index: int) -> int:
    """Count the pictures of a class that are not the shipped ones."""
    shipped = shipped_digests()[index * IMAGES : (index + 1) * IMAGES]
    return int((array_digests(np.load(_drawn(index).file)) != shipped).any(axis=1).sum())


def _find(index: int) -> Drawn | None:
    """Find a class that was drawn, in the first place of the cache that has it whole."""
    for folder in cache_places("toybox", FOLDER):
        toys = find_drawn(class_file(folder, index), index)
        if toys is not None:
            return toys
    return None


def _drawn(index: int) -> Drawn:
    toys = _find(index)
    if toys is None:
        raise RuntimeError(f"class {index} of toybox was drawn, but its file is gone or damaged")
    return toys


def _lies(index: int) -> Path | None:
    """Find the file of a class, whole or not; None where there is none."""
    files_of_class = (class_file(folder, index) for folder in cache_places("toybox", FOLDER))
    return next((file for file in files_of_class if file.exists()), None)


def class_file(folder: Path, class_index: int) -> Path:
    """Return the file of one class's pictures, uint8 [50, 84, 84, 3]."""
    return folder / f"class-{class_index:03d}.npy"


def record_file(file: Path) -> Path:
    """Return the file that records what is known of the pictures in ``file``."""
    return file.with_suffix(".json")


@functools.cache
def shipped_digests() -> Digests:
    """Load the digests [12000, 32] that come with this version of the generator."""
    data = (files(__package__) / f"digests-v{VERSION}.bin").read_bytes()
    digests: Digests = np.frombuffer(data, np.uint8).reshape(-1, 32)
    return digests


def array_digests(images: NDArray[np.uint8]) -> Digests:
    """Hash pictures [n, 84, 84, 3] to digests [n, 32]."""
    data = b"".join(hashlib.sha256(picture).digest() for picture in rows_bytes(images, range(len(images))))
    return np.frombuffer(data, np.uint8).reshape(-1, 32)


class Drawn(NamedTuple):
    """A class that was drawn: its file and the stamp of it, and whether its pictures are the shipped ones."""

    file: Path
    stamp: tuple[int, ...]
    shipped: bool


def find_drawn(file: Path, class_index: int) -> Drawn | None:
    """Return what is known of a class's file; None where it is missing or not as it was drawn.

    One look at the file where it was checked before. Where it changed since then, or has no record, it is read.
    """
    stamp = _stamp(file)
    if stamp[0] < 0:
        return None
    return _checked(file, class_index, stamp)


@functools.lru_cache(maxsize=4096)
def _checked(file: Path, class_index: int, stamp: tuple[int, ...]) -> Drawn | None:
    """Check a file with this stamp, for ``find_drawn``."""
    shipped = joint_digest(shipped_digests()[class_index * IMAGES : (class_index + 1) * IMAGES])
    recorded_stamp, recorded = _record(file)
    if recorded_stamp == stamp and recorded == shipped:
        return Drawn(file, stamp, shipped=True)
    try:
        digests = array_digests(np.load(file, mmap_mode="r", allow_pickle=False))
    except (OSError, ValueError, EOFError, IndexError):
        return None
    now = joint_digest(digests)
    if now not in (shipped, recorded):  # damaged or without a record: drawing again settles it
        return None
    if recorded_stamp != stamp or recorded != now:
        write_record(file, digests)
    return Drawn(file, stamp, shipped=now == shipped)


def write_record(file: Path, digests: Digests) -> None:
    """Put on record what was drawn into a file."""
    record = {"version": VERSION, "stamp": list(_stamp(file)), "digest": joint_digest(digests)}
    with contextlib.suppress(UserError):  # where it cannot be written, it is found out again
        write_json(record_file(file), record)


def _record(file: Path) -> tuple[tuple[int, ...], str]:
    """Read (stamp, digest) on record; empty where there is none that can be read."""
    try:
        record = json.loads(record_file(file).read_text(encoding="utf-8"))
        return tuple(record["stamp"]), str(record["digest"])
    except (OSError, ValueError, KeyError, TypeError):
        return (), ""


def _stamp(file: Path) -> tuple[int, ...]:
    """Return size, time and inode of a file; −1 three times where it is gone."""
    return tuple(file_stamps([str(file)])[0].tolist())


def joint_digest(digests: Digests) -> str:
    """Hash several digests into one: a record that was damaged cannot hold it by chance."""
    return hashlib.sha256(digests.tobytes()).hexdigest()


_FEW = 3  # classes that this process draws itself: they take less time than starting others
_DRAW = "from longshot.data.toybox import draw_share; draw_share()"  # what another process does


def draw_class(class_index: int, class_id: str) -> NDArray[np.uint8]:
    """Draw all photographs of one class, uint8 [50, 84, 84, 3]: a function of the class alone."""
    from longshot.data.toybox.photographs import photograph, plan  # for drawing alone

    shots = plan(class_index, SEED)
    return np.stack([photograph(class_id, shot, (SEED, class_index, 1, n)) for n, shot in enumerate(shots)])


def save_class(folder: Path, class_index: int) -> None:
    """Draw one class into its file in ``folder``, which appears whole, and put its digest on record beside it."""
    images = draw_class(class_index, list(species())[class_index])
    file = class_file(folder, class_index)
    with atomic(file) as temporary, temporary.open("wb") as opened:
        np.save(opened, images)
    write_record(file, array_digests(images))


def draw_classes(folder: Path, indices: Sequence[int], workers: int | None = None) -> None:
    """Draw classes into ``folder``; their bytes do not depend on ``workers`` (default: the usable cores)."""
    workers = min(workers or usable_cores(), len(indices))
    with (
        explain_disk_errors(folder),
        progress("drawing toybox", total=len(indices) * IMAGES, unit="images") as bar,
    ):
        if workers > 1 and len(indices) > _FEW:
            _share_out(folder, [list(indices[share::workers]) for share in range(workers)], bar)
            return
        for index in indices:
            save_class(folder, index)
            bar.advance(IMAGES)


def _share_out(folder: Path, shares: Sequence[Sequence[int]], bar: Progress) -> None:
    """Let a process draw each share.

    Interpreters of their own rather than multiprocessing: a user's script need not guard its main module.
    """
    finished: SimpleQueue[int] = SimpleQueue()  # images drawn; 0 when a process has ended
    command = [sys.executable, "-c", _DRAW, str(folder)]
    # One thread each: the arrays are small, and the processes fill the cores.
    environment = os.environ | {
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }

    def listen(process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for _ in process.stdout:
            finished.put(IMAGES)
        finished.put(0)

    with ExitStack() as stack:
        processes = []
        for share in shares:
            process = subprocess.Popen(
                [*command, *map(str, share)], stdout=subprocess.PIPE, text=True, env=environment
            )
            stack.enter_context(process)
            stack.callback(process.kill)  # on Ctrl-C or an error; nothing to do after a normal end
            processes.append(process)
            threading.Thread(target=listen, args=(process,), daemon=True).start()
        running = len(shares)
        while running:
            count = finished.get()
            bar.advance(count)
            running -= count == 0
        codes = [process.wait() for process in processes]
    if any(codes):
        raise RuntimeError(f"drawing toybox failed: its processes ended with codes {codes}")


def draw_share() -> None:
    """Draw what the command line names, a folder and numbers of classes; print each number when it is done."""
    for number in sys.argv[2:]:
        save_class(Path(sys.argv[1]), int(number))
        print(number, flush=True)
