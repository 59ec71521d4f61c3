"""The features cache: content-addressed files, shards of unfinished work, and what the whole cache holds."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longshot.core.errors import UserError
from longshot.core.files import atomic, cache_dir, explain_disk_errors
from longshot.core.locks import file_lock, is_held
from longshot.features.features import Features, sidecar, write_header, write_rows


def features_path(address: str) -> Path:
    """Where the features with this content-address lie, or will lie."""
    return cache_dir("features") / f"{address}.npy"


def cached(path: Path) -> Features | None:
    """The features at ``path`` if they are complete; marks them as used. A damaged pair counts as absent."""
    if not sidecar(path).exists() or not path.exists():
        return None
    try:
        features = Features.load(path, check=False)
    except UserError as error:
        print(f"the cache holds damaged features, which are made anew: {error}", file=sys.stderr)
        return None
    with contextlib.suppress(OSError):  # a cache on a read-only disk still serves
        os.utime(sidecar(path))
    return features


class Shards:
    """The finished pieces of an array, ``size`` rows each; every piece is written whole or not at all.

    They lie in a folder of their own per kind of device, since devices agree only up to rounding.
    """

    def __init__(self, path: Path, kind: str, rows: int, size: int, dtype: str) -> None:
        self.path, self.folder = path, path.with_name(f"{path.stem}.parts-{kind}")
        self.rows, self.size, self.dtype = rows, size, np.dtype(dtype)

    def __len__(self) -> int:
        return -(-self.rows // self.size)

    def bounds(self, shard: int) -> range:
        """The rows of a shard."""
        return range(shard * self.size, min((shard + 1) * self.size, self.rows))

    def missing(self) -> list[int]:
        """Shards that are not there, or not as they should be."""
        return [shard for shard in range(len(self)) if self._open(shard) is None]

    def write(self, shard: int, values: NDArray[Any]) -> None:
        """Keep the values [n, d] of a shard."""
        with atomic(self._file(shard)) as temporary, temporary.open("wb") as file:
            write_header(file, values.shape, self.dtype)
            write_rows(file, values.astype(self.dtype, copy=False))

    def assemble(self) -> None:
        """Join all shards into one .npy at ``path``; the file appears whole. Call ``remove`` afterwards."""
        pieces = [self._open(shard) for shard in range(len(self))]
        dims = {piece.shape[1] for piece in pieces if piece is not None}
        if len(dims) != 1 or any(piece is None for piece in pieces):
            self.remove()
            raise UserError(f"Unfinished work in {self.folder} was damaged and is gone", "run it again")
        joined = self.folder / "whole.npy"
        with atomic(joined) as temporary, temporary.open("wb") as file:
            write_header(file, (self.rows, dims.pop()), self.dtype)
            for piece in pieces:
                assert piece is not None
                write_rows(file, piece)
        with explain_disk_errors(self.path):
            joined.replace(self.path)

    def remove(self) -> None:
        """Delete the shards."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _file(self, shard: int) -> Path:
        return self.folder / f"shard-{shard:06d}.npy"

    def _open(self, shard: int) -> NDArray[Any] | None:
        try:
            piece: NDArray[Any] = np.load(self._file(shard), mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError, EOFError):
            return None
        right = piece.ndim == 2 and piece.dtype == self.dtype and len(piece) == len(self.bounds(shard))
        return piece if right else None


@contextlib.contextmanager
def lock(path: Path) -> Iterator[None]:
    """Hold ``path`` for this process; a second one waits, then finds the work done. A kill lets go of it."""
    name = path.with_suffix(".lock")
    with file_lock(name, waiting="another process is making these features; waiting for it"):
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


_FEATURES = re.compile(r"^\.?([0-9a-f]{64})\b")


def entries() -> list[CacheEntry]:
    """Everything in the cache, largest first; the kind is the first folder (``features``, ``scans``, …)."""
    root = cache_dir()
    groups: dict[tuple[str, str], list[Path]] = {}
    for file in root.rglob("*"):
        if file.is_file() and not file.is_symlink():
            parts = file.relative_to(root).parts
            kind = parts[0] if len(parts) > 1 else "registry"
            match = _FEATURES.match(parts[1]) if kind == "features" else None
            name = match.group(1) if match else (parts[1] if len(parts) > 1 else parts[0])
            groups.setdefault((kind, name), []).append(file)
    listed = []
    for (kind, name), files in groups.items():
        with contextlib.suppress(FileNotFoundError):  # another process may be tidying
            stats = [file.stat() for file in files]
            size, used = sum(s.st_size for s in stats), max(s.st_mtime for s in stats)
            listed.append(CacheEntry(kind, _title(kind, name, files), tuple(files), size, used))
    return sorted(listed, key=lambda entry: (-entry.bytes, entry.kind, entry.name))


def prune(chosen: list[CacheEntry]) -> int:
    """Delete entries and folders left empty; features that a process is making stay. Returns bytes freed."""
    freed = 0
    for entry in chosen:
        if any(file.suffix == ".lock" and is_held(file) for file in entry.files):
            print(f"kept {entry.name}: a process is making it", file=sys.stderr)
            continue
        # The sidecar goes first: without it the array counts as absent, so a reader never meets half a pair.
        for file in sorted(entry.files, key=lambda f: f.suffix != ".json"):
            with contextlib.suppress(FileNotFoundError):
                file.unlink()
        for folder in {file.parent for file in entry.files} - {cache_dir()}:
            with contextlib.suppress(OSError):
                folder.rmdir()
        freed += entry.bytes
    return freed


def older_than(listed: list[CacheEntry], days: float) -> list[CacheEntry]:
    """Entries that were last used more than ``days`` ago."""
    limit = time.time() - days * 86400
    return [entry for entry in listed if entry.used < limit]


def _title(kind: str, name: str, files: list[Path]) -> str:
    """What a person would call it: dataset and backbone of features, else the file's name."""
    if kind != "features":
        return name
    for file in files:
        if file.suffix == ".json":
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                meta = json.loads(file.read_text(encoding="utf-8"))
                return f"{meta['dataset']} × {meta['backbone']} ({meta['dtype']}, {name[:12]})"
    return f"unfinished ({name[:12]})"
