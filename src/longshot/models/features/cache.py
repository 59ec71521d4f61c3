"""The features cache: content-addressed files, shards of unfinished work, arrays that grow, what the whole cache holds.

The folder of an array that grows as images are wanted holds a file for every finished piece of work, behind a checksum
of itself: the rows, the digests of their images and the vectors. A piece appears whole or not at all and is never
changed; a damaged one counts as missing.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import struct
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from longshot.base import (
    Bools,
    Ints,
    UserError,
    atomic,
    count,
    explain_disk_errors,
    file_lock,
    hash_text,
    is_locked,
    is_writable,
    note,
    own_cache,
    read_sealed,
    write_sealed,
    write_text,
)
from longshot.data import content_digest
from longshot.models.features.array_files import (
    Damaged,
    LastCheck,
    check_blocks,
    check_json,
    checksum,
    guarded_json,
    write_header,
    write_rows,
)


class Shards:
    """The finished pieces of an array, ``size`` rows each; every piece is written whole or not at all.

    They lie in a folder of their own per kind of device, since devices agree only up to rounding. The numbers of a
    shard are followed by their SHA-256: a damaged shard counts as missing.
    """

    def __init__(self, path: Path, kind: str, rows: int, size: int, dtype: str) -> None:
        self.path, self.folder = path, path.with_name(f"{path.stem}.parts-{kind}")
        self.rows, self.size, self.dtype = rows, size, np.dtype(dtype)

    def __len__(self) -> int:
        return -(-self.rows // self.size)

    def bounds(self, shard: int) -> range:
        """Return the rows of a shard."""
        return range(shard * self.size, min((shard + 1) * self.size, self.rows))

    def missing(self) -> list[int]:
        """List the shards that are missing or damaged."""
        return [shard for shard in range(len(self)) if self._open(shard) is None]

    def write(self, shard: int, values: NDArray[Any]) -> None:
        """Keep the values [n, d] of a shard."""
        stored = values.astype(self.dtype, copy=False)
        with atomic(self._file(shard)) as temporary, temporary.open("wb") as file:
            write_header(file, stored.shape, self.dtype)
            write_rows(file, stored)
            file.write(bytes.fromhex(checksum(stored)))

    def assemble(self, *, guard: bool = True) -> list[str]:
        """Join all shards into one .npy at ``path``; the file appears whole. Call ``remove`` afterwards.

        Returns the checksum of every shard. With ``guard`` they are written beside the array, for ``open_guarded``.
        """
        opened = [self._open(shard) for shard in range(len(self))]
        pieces = [piece for piece in opened if piece is not None]
        dims = {values.shape[1] for values, _ in pieces}
        if len(dims) != 1 or len(pieces) < len(self):
            self.remove()
            raise UserError(f"Unfinished work in {self.folder} was damaged and is gone", "run it again")
        joined = self.folder / "whole.npy"
        with atomic(joined) as temporary, temporary.open("wb") as file:
            write_header(file, (self.rows, dims.pop()), self.dtype)
            for values, _ in pieces:
                write_rows(file, values)
        with explain_disk_errors(self.path):
            joined.replace(self.path)
        sums = [recorded for _, recorded in pieces]
        if guard:
            write_text(sums_file(self.path), guarded_json({"block": self.size, "sums": sums}))
        return sums

    def remove(self) -> None:
        """Delete the shards."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _file(self, shard: int) -> Path:
        return self.folder / f"shard-{shard:06d}.npy"

    def _open(self, shard: int) -> tuple[NDArray[Any], str] | None:
        """Open the values of a shard and their checksum; None where they are missing or damaged."""
        file = self._file(shard)
        try:
            piece: NDArray[Any] = np.load(file, mmap_mode="r", allow_pickle=False)
            with file.open("rb") as stored:
                stored.seek(-32, os.SEEK_END)
                recorded = stored.read().hex()
        except (OSError, ValueError, EOFError):
            return None
        right = piece.ndim == 2 and piece.dtype == self.dtype and len(piece) == len(self.bounds(shard))
        return (piece, recorded) if right and checksum(piece) == recorded else None


def sums_file(path: Path) -> Path:
    """Return the path of the checksums of an array without another sidecar: ``a/b.npy`` → ``a/b.sums``."""
    return path.with_suffix(".sums")


def open_guarded(path: Path) -> NDArray[Any] | None:
    """Open the array [N, d] that ``Shards.assemble`` joined at ``path``, memory-mapped, and mark it as used.

    None where there is none, or where it is damaged: that is told, and it is to be made again.
    """
    if not path.exists() or not sums_file(path).exists():
        return None
    try:
        data = sums_file(path).read_bytes()
        mark = check_json(sums_file(path), data)
        array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
        last = LastCheck([path], mark)
        if not last.holds():
            facts = json.loads(data)
            check_blocks(path, array, facts["block"], facts["sums"])
            last.remember()
    except (Damaged, OSError, ValueError, EOFError) as error:
        damage = error.damage if isinstance(error, Damaged) else "it is truncated"
        note(f"the cache held a damaged array, which is made again ({path.name}: {damage})")
        with contextlib.suppress(OSError):  # so that this is told once
            sums_file(path).unlink()
        return None
    with contextlib.suppress(OSError):  # a cache on a read-only disk still serves
        os.utime(sums_file(path))
    return array


@contextlib.contextmanager
def hold_lock(path: Path, *, wait: bool = True) -> Iterator[None]:
    """Hold ``path`` for this process; a second one waits, then finds the work done. A kill lets go of it.

    Without ``wait`` a second one gets ``Busy``.
    """
    name = path.with_suffix(".lock")
    with file_lock(name, waiting="another process is making these features; waiting for it", wait=wait):
        try:
            yield
        finally:
            name.unlink(missing_ok=True)


@dataclass(frozen=True)
class CacheEntry:
    """One thing in the cache: a file, or a features array with all that belongs to it."""

    kind: str
    name: str
    files: tuple[Path, ...]
    bytes: int
    used: float  # time of last use, seconds since 1970


_FEATURES = re.compile(r"^\.?([0-9a-f]{64}|[0-9a-f]{32})\b")


def cache_entries() -> list[CacheEntry]:
    """List what the cache holds, largest first; the kind is the first folder (``features``, ``scans``, …).

    Of several places, the one that is written to.
    """
    root = own_cache()
    groups: dict[tuple[str, str], list[Path]] = {}
    for file in root.rglob("*"):
        if file.is_file() and not file.is_symlink():
            parts = file.relative_to(root).parts
            kind = parts[0] if len(parts) > 1 else "registry"
            if kind == "remote":
                continue
            match = _FEATURES.match(parts[1]) if kind == "features" else None
            name = match.group(1) if match else (parts[1] if len(parts) > 1 else parts[0])
            if Path(name).suffix in (".sums", ".lock") and (root / kind / name).with_suffix(".npy").exists():
                name = f"{Path(name).stem}.npy"
            groups.setdefault((kind, name), []).append(file)
    listed = []
    for (kind, name), files in groups.items():
        with contextlib.suppress(FileNotFoundError):  # another process may be tidying
            stats = [file.stat() for file in files]
            size, used = sum(s.st_size for s in stats), max(s.st_mtime for s in stats)
            listed.append(CacheEntry(kind, _title(kind, name, files), tuple(files), size, used))
    from longshot.base import remote_entries  # with all that fetches, which features do without

    listed += [CacheEntry("remote", *entry) for entry in remote_entries(root / "remote")]
    return sorted(listed, key=lambda entry: (-entry.bytes, entry.kind, entry.name))


def prune_cache(chosen: list[CacheEntry]) -> int:
    """Delete entries and folders left empty; features that a process is making stay. Returns bytes freed."""
    if chosen and not is_writable(own_cache()):
        raise UserError(
            f"The cache {own_cache()} cannot be written, so nothing in it can be deleted",
            "set LONGSHOT_CACHE to a folder that you may write to",
        )
    freed = 0
    for entry in chosen:
        if any(file.suffix == ".lock" and is_locked(file) for file in entry.files):
            print(f"kept {entry.name}: a process is making it", file=sys.stderr)
            continue
        # The sidecar goes first: without it the array counts as absent, so a reader never meets half a pair.
        for file in sorted(entry.files, key=lambda f: f.suffix != ".json"):
            with contextlib.suppress(FileNotFoundError):
                file.unlink()
        folders = {folder for file in entry.files for folder in file.parents if own_cache() in folder.parents}
        for folder in sorted(folders, key=lambda folder: -len(folder.parts)):  # the deepest first
            with contextlib.suppress(OSError):
                folder.rmdir()
        freed += entry.bytes
    return freed


def prunable_entries(kind: str | None = None, *, days: float = 0.0) -> list[CacheEntry]:
    """List the entries of a kind (None: of all) that were last used more than ``days`` ago.

    The registry says where datasets live, which no command can find out again: it is none of them.
    """
    limit = time.time() - days * 86400
    return [
        entry
        for entry in cache_entries()
        if entry.kind != "registry" and kind in (None, entry.kind) and (not days or entry.used < limit)
    ]


def _title(kind: str, name: str, files: list[Path]) -> str:
    """Name an entry for people: dataset and backbone of features, else the file's name."""
    if kind != "features":
        return name
    for file in files:
        if file.suffix == ".json":
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                meta = json.loads(file.read_text(encoding="utf-8"))
                part = f", {meta['embedded']:,} of {meta['images']:,} images" if "embedded" in meta else ""
                return f"{meta['dataset']} × {meta['backbone']} ({meta['dtype']}, {name[:12]}{part})"
    return f"unfinished ({name[:12]})"


def features_view(fingerprint: str, identity: str, probed: str, backbone: str, dtype: str) -> str:
    """Hash what decides features, except the content of the images; 32 hex digits.

    Parameters
    ----------
    fingerprint : str
        Of the dataset: classes and keys.
    identity, probed : str
        "content" or "names"; by names, the digest of the few images that were looked at.
    backbone : str
        Its identity.
    dtype : str
        How numbers are stored.
    """
    return hash_text("longshot features 3", fingerprint, identity, probed, backbone, dtype)[:32]


def images_mark(keys: pa.Array, digests: NDArray[np.uint64]) -> str:
    """Hash keys and short digests of images; 32 hex digits."""
    marks = np.ascontiguousarray(digests.astype("<u8")).view(np.uint8).reshape(-1, 8)
    return content_digest(keys, marks)[:32]


Marks: TypeAlias = NDArray[np.uint64]  # the first 64 bits of a digest each
_HEAD = struct.Struct("<QQQ")  # rows, numbers of a vector, bytes of a number


class GrowingArray:
    """Some rows of an array [N, d]; ``held`` [N] marks them, ``digests`` [N] are those of the images they are of.

    Parameters
    ----------
    folder : Path
        Where the pieces lie, or will.
    rows : int
        Rows of the array (N).
    dtype : str
        ``float16`` or ``float32``.
    """

    def __init__(self, folder: Path, rows: int, dtype: str) -> None:
        self.folder, self.dtype = folder, np.dtype(dtype)
        self.held, self.digests = np.zeros(rows, np.bool_), np.zeros(rows, np.uint64)
        self.array: NDArray[Any] = np.zeros(
            (rows, 0), self.dtype
        )  # zeros take no memory until they are written to
        self.damaged: list[Path] = []

    @property
    def path(self) -> Path:
        """Return the path of what describes it, which is there once anything is."""
        return self.folder / "about.json"

    @property
    def damage(self) -> str:
        """Say what is not as it was written."""
        verb = "does" if len(self.damaged) == 1 else "do"
        pieces = count(self.damaged, "piece")
        return f"{pieces} {verb} not have the checksum that was recorded" if self.damaged else ""

    def holds(self, rows: Ints, digests: Marks | None) -> Bools:
        """Mark the rows that are there, made from images with these digests [N] (None: from any)."""
        present = self.held[rows]
        return present if digests is None else present & (self.digests[rows] == digests[rows])

    def fits(self, rows: Ints, digests: Marks | None) -> bool:
        """Tell whether none of the rows was made from another image of the same name."""
        return bool(np.array_equal(self.held[rows], self.holds(rows, digests)))

    def read(self) -> GrowingArray:
        """Take in what lies in the folder."""
        for file in sorted(self.folder.glob("*.rows")):
            content = read_sealed(file)
            if content is None:
                self.damaged.append(file)
                continue
            number, dim, size = _HEAD.unpack_from(content)
            if size == self.dtype.itemsize:
                rows, digests = np.frombuffer(content, "<u8", 2 * number, _HEAD.size).reshape(2, -1)
                values = np.frombuffer(content, self.dtype, offset=_HEAD.size + 16 * number)
                self._take(rows.astype(np.int64), digests, values.reshape(number, dim))
        with contextlib.suppress(OSError):  # a cache on a read-only disk still serves
            os.utime(self.path)
        return self

    def write(self, rows: Ints, values: NDArray[Any], digests: Marks | None) -> None:
        """Add rows [n] with their values [n, d]."""
        stored = values.astype(self.dtype, copy=False)
        marks = np.zeros(len(rows), np.uint64) if digests is None else digests[rows]
        numbers = np.stack([rows.astype("<u8"), marks.astype("<u8")]).tobytes()
        file = self.folder / f"{hashlib.sha256(numbers).hexdigest()[:32]}.rows"
        write_sealed(file, _HEAD.pack(*stored.shape, self.dtype.itemsize), numbers, stored.tobytes())
        self._take(rows, marks, stored)

    def mend(self) -> None:
        """Delete the pieces that are damaged."""
        for file in self.damaged:
            file.unlink(missing_ok=True)

    def describe(self, dataset: str, backbone: str) -> None:
        """Write what people call it, for ``longshot cache``."""
        facts = {
            "dataset": dataset,
            "backbone": backbone,
            "dtype": self.dtype.name,
            "images": len(self.held),
            "embedded": int(self.held.sum()),
        }
        with contextlib.suppress(UserError):  # a full disk is told where it matters
            write_text(self.path, json.dumps(facts))

    def remove(self) -> None:
        """Delete the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _take(self, rows: Ints, digests: Marks, values: NDArray[Any]) -> None:
        if not self.held.any():
            self.array = np.zeros((len(self.held), values.shape[1]), self.dtype)
        self.array[rows], self.held[rows], self.digests[rows] = values, True, digests
