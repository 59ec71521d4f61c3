"""What the copies of files elsewhere take in the cache, URL by URL."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class RemoteEntry(NamedTuple):
    """All that is kept of one URL, or of work that no process does any more."""

    name: str
    files: tuple[Path, ...]
    bytes: int
    used: float  # time of last use, seconds since 1970


def remote_entries(root: Path) -> list[RemoteEntry]:
    """One entry per URL in the folder ``remote`` of a cache; files that two URLs share count for the first.

    Blobs and trees that no URL leads to any more, such as what was there before a change, are entries of their own.
    """
    if not root.is_dir():
        return []
    owners: dict[Path, str] = {}  # file or folder → the URL it belongs to
    groups: dict[str, dict[Path, None]] = {}
    for file in sorted((root / "urls").glob("*.json")):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
            record = json.loads(file.read_text(encoding="utf-8"))
            name = str(record["url"])
            groups.setdefault(name, {})[file] = None
            owners |= {file: name, file.with_suffix(".lock"): name}
            owners.setdefault(root / "trees" / str(record["tree"]), name)
            for facts in record["objects"].values():
                digest = str(facts["sha256"])
                owners.setdefault(root / "blobs" / digest[:2] / digest, name)
    for file in _files(root):
        parts = file.relative_to(root).parts
        depth = {"urls": 2, "trees": 2, "blobs": 3}.get(parts[0], 0)
        owner = owners.get(root.joinpath(*parts[:depth])) if depth else None
        if owner is None:
            owner = f"unfinished ({parts[1]})" if parts[0] == "work" else "former versions"
        groups.setdefault(owner, {})[file] = None
    return [entry for name, files in groups.items() if (entry := _entry(name, list(files))) is not None]


def _files(root: Path) -> Iterator[Path]:
    return (file for file in root.rglob("*") if file.is_file() and not file.is_symlink())


def _entry(name: str, files: list[Path]) -> RemoteEntry | None:
    try:
        stats = [file.stat() for file in files]
    except FileNotFoundError:  # another process may be tidying
        return None
    sizes = {status.st_ino: status.st_size for status in stats}  # a blob and its links are one
    return RemoteEntry(name, tuple(files), sum(sizes.values()), max(status.st_mtime for status in stats))
