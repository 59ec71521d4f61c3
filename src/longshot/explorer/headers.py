"""What a file or folder says of itself in its first bytes, remembered in SQLite by path, time and size."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from longshot.base import UserError, cache_dir, read_json

VERSION = 1  # of what readers return; another one forgets all
_LONGEST = 64 << 20  # bytes of a JSON file that is read for its header


class HeaderMemory:
    """Headers of files by path, time of change and size; shared by servers, good to lose.

    Parameters
    ----------
    path : Path, optional
        The SQLite file; ``explorer/headers-1.sqlite`` in the cache unless given.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._lock = threading.Lock()
        self._near: dict[str, tuple[int, int, dict[str, Any]]] = {}
        target = path or cache_dir("explorer") / f"headers-{VERSION}.sqlite"
        self._base: sqlite3.Connection | None = None
        with contextlib.suppress(sqlite3.Error):
            self._base = sqlite3.connect(target, check_same_thread=False, timeout=2.0, isolation_level=None)
            self._base.execute("PRAGMA journal_mode=WAL")
            self._base.execute("PRAGMA synchronous=OFF")
            self._base.execute(
                "CREATE TABLE IF NOT EXISTS headers (path TEXT PRIMARY KEY, time INTEGER, size INTEGER, facts TEXT)"
            )
            for where, time, size, facts in self._base.execute("SELECT path, time, size, facts FROM headers"):
                self._near[where] = (time, size, json.loads(facts))

    def read(self, path: Path, reader: Callable[[Path], dict[str, Any]]) -> dict[str, Any]:
        """Return what ``reader`` says of a file, cached until it changes; ``problem`` if it fails."""
        try:
            stat = path.stat()
        except OSError as error:
            return {"problem": f"It cannot be read: {error.strerror}."}
        stamp = (stat.st_mtime_ns, stat.st_size)
        key = str(path).encode("utf-8", "backslashreplace").decode()
        held = self._near.get(key)
        if held is not None and held[:2] == stamp:
            return held[2]
        try:
            if path.suffix == ".json" and stat.st_size > _LONGEST:
                raise UserError(f"It has {stat.st_size:,} bytes, more than a header can have.")
            facts = reader(path)
        except (UserError, OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            facts = {
                "problem": str(error)[:500]
                if isinstance(error, UserError)
                else "It is damaged or of another kind."
            }
        self._near[key] = (*stamp, facts)
        if self._base is not None:
            row = (key, *stamp, json.dumps(facts, ensure_ascii=True))
            with self._lock, contextlib.suppress(sqlite3.Error):
                self._base.execute("INSERT OR REPLACE INTO headers VALUES (?, ?, ?, ?)", row)
        return facts


def run_header(path: Path) -> dict[str, Any]:
    """Read the facts of a run from its run.json; UserError for a damaged one."""
    from longshot.evaluation import read_run

    run = read_run(path.parent)
    sessions = [session for session in run["sessions"] if isinstance(session, dict)]
    return {
        "testbeds": {
            key: {"name": bed["name"], "tasks": bed.get("tasks")} for key, bed in run["testbeds"].items()
        },
        "backbones": list(dict.fromkeys(cell["backbone"] for cell in run["cells"])),
        "methods": list(dict.fromkeys(cell["method"] for cell in run["cells"])),
        "cells": len(run["cells"]),
        "units": sorted({unit for cell in run["cells"] for unit in cell["units"]}),
        "started": sessions[-1].get("started") if sessions else None,
    }


def testbed_header(path: Path) -> dict[str, Any]:
    """Read what a Parquet file says of its tasks; ``kind`` is "other" where it is no testbed."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from longshot.tasks import say_sampler

    try:
        metadata = pq.read_metadata(path)
    except (pa.ArrowException, OSError):
        return {"kind": "other"}
    raw = (metadata.metadata or {}).get(b"longshot")
    facts = json.loads(raw) if raw else None
    if not isinstance(facts, dict) or "content_hash" not in facts or "sampler" not in facts:
        return {"kind": "other"}
    return {
        "hash": str(facts["content_hash"]),
        "checksum": str(facts.get("checksum", facts["content_hash"])),
        "tasks": metadata.num_rows,
        "datasets": {str(name): str(value) for name, value in facts["datasets"].items()},
        "sampler": say_sampler(facts["sampler"])[:400],
        "seed": facts.get("seed"),
        "creator": facts.get("creator"),
    }


def training_header(path: Path) -> dict[str, Any]:
    """Read the facts of a training from training.json."""
    record = json.loads(path.read_text(encoding="utf-8"))
    settings = record["settings"]
    return {
        "settings": {str(key): value for key, value in settings.items()},
        "notes": list(record.get("notes", [])),
    }


def checkpoint_header(path: Path) -> dict[str, Any]:
    """Read from the head of a checkpoint whether the training is over; no tensor is read."""
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        if not 0 < size <= _LONGEST:
            raise ValueError("no checkpoint")
        head = json.loads(file.read(size))
    facts = json.loads(head["__metadata__"]["facts"])
    return {"finished": bool(facts["finished"]), "step": int(facts["step"])}


def plain_header(*names: str) -> Callable[[Path], dict[str, Any]]:
    """Make a reader that takes some entries of a JSON object."""

    def read(path: Path) -> dict[str, Any]:
        record = json.loads(path.read_text(encoding="utf-8"))
        return {name: record.get(name) for name in names}

    return read


def board_header(path: Path) -> dict[str, Any]:
    """Read what a leaderboard is about."""
    from longshot.publish import Leaderboard

    board = read_json(Leaderboard, path, "The leaderboard")
    return {
        "suite": board.suite,
        "version": board.version,
        "testbeds": dict(board.testbeds),
        "entries": len(board.entries),
    }


READERS: Mapping[str, Callable[[Path], dict[str, Any]]] = {
    "run": run_header,
    "testbed": testbed_header,
    "training": training_header,
    "checkpoint": checkpoint_header,
    "study": plain_header("study", "title", "recipe", "dataset", "verdicts", "notes", "paper", "tables"),
    "release": plain_header("title", "version", "testbeds", "sources", "licence", "made_with"),
    "suite": plain_header("name", "version", "about", "testbeds", "methods"),
    "board": board_header,
}
