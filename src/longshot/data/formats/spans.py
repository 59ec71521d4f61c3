"""Images inside a few large files: as runs of bytes (records, tar members, raw pixels), one read each, or in HDF5.

And what is wrong with such files where every count is right: copies of each other, gaps in their numbers, lists beside
them that say otherwise.
"""

from __future__ import annotations

import hashlib
import os
import re
import threading
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from longshot.base import Ints, UserError, count, first, hash_file, note
from longshot.data.file_readers import OpenFiles, container_stamps, reason_of
from longshot.data.stores import ImageError, array_bytes, decode, to_rgb

if TYPE_CHECKING:
    from PIL.Image import Image


Decode: TypeAlias = Callable[[bytes, str], "Image"]
_HEAD = 65_536  # bytes that are compared before whole files are
_Item = TypeVar("_Item")
_NUMBERED = re.compile(r"(?P<stem>.*?)(?P<number>\d+)(?P<ending>\.tar)")
_REMEDY = "copy the missing ones, or choose those that are there with webdataset(shards='…')"


@dataclass(frozen=True, eq=False)
class SpanStore:
    """Row i is ``length[i]`` bytes at ``offset[i]`` of ``files[file[i]]``, made an image by ``decoder(data, where)``.

    ``decoder`` must be picklable: a function of a module, or an instance of a small class with ``__call__``. Its method
    ``encoded(data, where)``, where it has one, gives the bytes that the image's digest is over.
    """

    files: tuple[str, ...]
    file: NDArray[np.integer]  # [N]
    offset: NDArray[np.int64]  # [N]
    length: NDArray[np.int64]  # [N]
    decoder: Decode = decode
    names: pa.Array | None = None  # [N] what errors call a row; file and offset where there is none
    # of each file that is a copy: makes it anew from its source
    unpack: tuple[Callable[[], str] | None, ...] = ()
    shown: tuple[str, ...] = ()  # what errors call the files, where these are copies

    def from_source(self) -> SpanStore:
        """Return a store of the same rows in files that are unpacked now; itself where none is an unpacked copy."""
        copies = dict(zip(self.files, self.unpack, strict=True)) if any(self.unpack) else {}
        made = {file: again() for file, again in copies.items() if again is not None}
        return replace(self, files=tuple(made.get(file, file) for file in self.files)) if made else self

    def where(self, row: int) -> str:
        """Name a row in an error."""
        path = (self.shown or self.files)[int(self.file[row])]
        return (
            f"{path}/{self.names[row].as_py()}" if self.names else f"{path} at byte {int(self.offset[row]):,}"
        )

    def data(self, row: int) -> bytes:
        """Read the bytes of a row, at once."""
        path, length = self.files[int(self.file[row])], int(self.length[row])
        data = read_span(path, int(self.offset[row]), length)
        if len(data) != length:
            raise ImageError(
                self.where(row),
                f"the file ends after {len(data):,} of its {length:,} bytes: it was cut short",
            )
        return data

    def read(self, row: int) -> Image:
        """Decode one row."""
        return self.decoder(self.data(row), self.where(row))

    def encoded(self, row: int) -> bytes:
        """Return the image inside the bytes of a row: all of them, unless the decoder knows where in them it lies."""
        data = self.data(row)
        inside = getattr(self.decoder, "encoded", None)
        return data if inside is None else inside(data, self.where(row))

    def stamps(self, rows: Ints) -> Ints:
        """Mix where a row lies into the stamp of its file: one look per file, [M, 3]."""
        return container_stamps(self.files, self.file[rows], self.offset[rows], self.length[rows])


_position = threading.Lock()


class _Handle:
    """An open file that is closed when the last reader lets go of it."""

    def __init__(self, path: str) -> None:
        self.number = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))

    def __del__(self) -> None:
        if hasattr(self, "number"):
            os.close(self.number)

    def read(self, offset: int, length: int) -> bytes:
        if hasattr(os, "pread"):
            return os.pread(self.number, length, offset)
        with _position:  # Windows has one per file
            os.lseek(self.number, offset, os.SEEK_SET)
            return os.read(self.number, length)


_handles = OpenFiles(_Handle)


def read_span(path: str, offset: int, length: int) -> bytes:
    """Read up to ``length`` bytes at ``offset`` of a file that stays open for later reads.

    Reads carry their own position, so threads share the file.
    """
    try:
        return _handles(path).read(offset, length)
    except OSError as error:
        raise UserError(f"Cannot read {path}: {reason_of(error)}.") from error


def refuse_copied_files(files: Sequence[Path], parts: Sequence[str] | None = None) -> None:
    """Raise UserError when two files hold the same bytes. Files of different sizes are not read.

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
    """Raise UserError when two files hold the same records, whatever lies between them.

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
    """Raise UserError for copies within one part, note those in different parts."""
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
    """Group items that agree by every test, in groups of two or more; a later test is for those that agree so far."""
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


def check_runs(shards: Sequence[Path], *, chosen: bool) -> None:
    """Raise UserError when numbers are missing within a run of shards, or where a list beside them names more.

    Parameters
    ----------
    shards : sequence of path
        ``train-000000.tar``, ``train-000001.tar`` …, of any number of runs and folders.
    chosen : bool
        The user chose these among others: gaps are then noted, and lists of all shards are not asked.
    """
    runs: dict[tuple[Path, str, int], list[int]] = {}
    for shard in shards:
        match = _NUMBERED.fullmatch(shard.name)
        if match:
            width = len(match["number"]) if match["number"].startswith("0") else 0
            runs.setdefault((shard.parent, match["stem"], width), []).append(int(match["number"]))
    for (folder, stem, _), numbers in _joined(runs).items():
        absent = sorted(set(range(min(numbers), max(numbers) + 1)) - set(numbers))
        called = f"{folder}/{stem}*.tar"
        if absent:
            verb, listed = "is" if len(absent) == 1 else "are", ", ".join(map(str, absent[:3]))
            fact = (
                f"{called} are {count(numbers, 'shard')} numbered {min(numbers)} to {max(numbers)}, and "
                f"{count(absent, 'number')} between {verb} missing ({listed})"
            )
            if not chosen:
                raise UserError(fact, _REMEDY)
            note(f"{fact}.")
        elif min(numbers) > 0 and len(numbers) > 1 and not chosen:
            note(
                f"the shards {called} begin with number {min(numbers)}: where there is a number 0, it is missing."
            )


def _joined(runs: dict[tuple[Path, str, int], list[int]]) -> dict[tuple[Path, str, int], list[int]]:
    """Join runs without leading zeros to those with them where a number outgrew its zeros: 99, then 100."""
    joined = dict(runs)
    for folder, stem, width in runs:
        padded = next((key for key in joined if key[:2] == (folder, stem) and key[2] > 0), None)
        if width == 0 and padded is not None:
            joined[padded] = [*joined[padded], *joined.pop((folder, stem, width))]
    return joined


_hdf5_lock = threading.Lock()  # HDF5 reads one at a time


@dataclass(frozen=True, eq=False)
class Hdf5Store:
    """Row i is the group ``numbers[i]`` of ``files[file[i]]``."""

    files: tuple[str, ...]
    file: Ints  # [N]
    numbers: Ints  # [N]

    def read(self, row: int) -> Image:
        """Read one image, from an array of bytes [H, W], [H, W, 1], [H, W, 3] or [H, W, 4]."""
        from PIL import Image

        where, pixels = self._pixels(row)
        if pixels.ndim == 3 and pixels.shape[2] == 1:
            pixels = pixels[:, :, 0]
        if (
            pixels.dtype != np.uint8
            or pixels.ndim not in (2, 3)
            or (pixels.ndim == 3 and pixels.shape[2] not in (3, 4))
        ):
            raise ImageError(where, f"it holds {pixels.dtype} {list(pixels.shape)}, no image of bytes")
        return to_rgb(Image.fromarray(np.ascontiguousarray(pixels)))

    def encoded(self, row: int) -> bytes:
        """Return type, shape and numbers of one image."""
        return array_bytes(self._pixels(row)[1])

    def _pixels(self, row: int) -> tuple[str, NDArray[Any]]:
        """Return (the words for a row in an error, its array)."""
        path, number = self.files[int(self.file[row])], int(self.numbers[row])
        where = f"{path}, group {number}"
        try:
            with _hdf5_lock:
                return where, np.asarray(_open_hdf5(path)[f"{number}/image"])
        except (UserError, OSError, KeyError, ValueError, TypeError) as error:
            raise ImageError(where, str(error).strip("'\" .") or "it cannot be read") from error

    def stamps(self, rows: Ints) -> Ints:
        """Mix the number of a row into the stamp of its file: one look per file, [M, 3]."""
        return container_stamps(self.files, self.file[rows], self.numbers[rows])


def need_h5py() -> Any:
    try:
        return import_module("h5py")
    except ImportError as error:
        raise UserError("HDF5 files need the package h5py; run: pip install 'longshot[hdf5]'.") from error


_open_hdf5: OpenFiles[Any] = OpenFiles(lambda path: need_h5py().File(path, "r"), 64)


def count_hdf5(path: Path) -> int:
    """Count the images of a class; UserError when its groups are not numbered 0, 1, … or hold no image."""
    try:
        with need_h5py().File(path, "r") as file:
            names = set(file.keys())
            missing = [n for n in range(len(names)) if str(n) not in names]
            if missing:
                raise UserError(
                    f"{path} has {len(names):,} groups but none called '{missing[0]}'; groups are numbered from 0."
                )
            inside = list(file["0"].keys()) if names and hasattr(file["0"], "keys") else []
    except OSError as error:
        raise UserError(f"{path} is not a whole HDF5 file ({error}); copy or convert it again.") from error
    if names and "image" not in inside:
        raise UserError(
            f"{path} has no '0/image' (found in '0': {first(inside) or 'nothing'}); convert it again."
        )
    return len(names)


def hdf5_labels(path: Path, images: int) -> set[int]:
    """Read the labels of the first, middle and last groups, where they have whole numbers for labels."""
    labels: set[int] = set()
    with need_h5py().File(path, "r") as file:
        for number in sorted({0, images // 2, images - 1} & set(range(images))):
            group = file[str(number)]
            label = np.asarray(group["label"]).reshape(-1) if "label" in group else np.empty(0)
            if label.size == 1 and label.dtype.kind in "iu":
                labels.add(int(label[0]))
    return labels
