"""Hidden data for workers elsewhere, by the hash of their content: a worker fetches each once and can tell a fake.

Images of one size and the tasks of a run lie in ``data/blobs`` under their SHA-256; only workers may ask for them.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import threading
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from longshot.arena.data import CompetitionData, HiddenTask
from longshot.arena.settings import Competition, Phase
from longshot.base import UserError, hash_file, write_json, write_text

NAME = re.compile("[0-9a-f]{64}")
_ARRAYS = ("support", "support_label", "query", "query_label")


class Blob(NamedTuple):
    """A file by its content."""

    name: str  # what the worker calls it: index.json, tasks.json, or a dataset's
    sha256: str
    bytes: int


class RunFiles(NamedTuple):
    """All that a run reads beside the submission."""

    training: list[Blob]  # index.json and the images of the training datasets
    images: list[Blob]  # of the test datasets, by dataset
    tasks: Blob


class BlobStore:
    """The data of a competition as blobs; made on first use, which may take a while.

    Parameters
    ----------
    folder : Path
        The competition's folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "data" / "blobs"
        self._lock = threading.Lock()
        self._data: CompetitionData | None = None
        self._ready: set[tuple[Any, ...]] = set()
        self._preparing: threading.Thread | None = None
        self._failed: Exception | None = None

    def path(self, sha256: str) -> Path | None:
        """Where a blob lies; None where there is none of that name."""
        path = self.folder / sha256
        return path if NAME.fullmatch(sha256) and path.is_file() else None

    def ready(self, competition: Competition, phases: list[Phase]) -> bool:
        """Whether the images of some phases are decoded; where not, that begins, and nobody waits for it.

        UserError where it could not be done: the competition's own data are at fault.
        """
        keys = [(name, competition.datasets[name], competition.image_size) for name in _names(phases)]
        if self._ready.issuperset(keys):
            return True
        if self._preparing is None or not self._preparing.is_alive():
            if self._failed is not None:
                error, self._failed = self._failed, None
                raise error
            self._preparing = threading.Thread(
                target=self._prepare, args=(competition, phases, keys), name="longshot-data", daemon=True
            )
            self._preparing.start()
        return False

    def _prepare(self, competition: Competition, phases: list[Phase], keys: list[tuple[Any, ...]]) -> None:
        try:
            with self._lock:
                data = self._opened(competition)
                for phase in phases:
                    self._images(data, phase)
            self._ready.update(keys)
        except (UserError, OSError) as error:
            self._failed = error

    def _opened(self, competition: Competition) -> CompetitionData:
        if self._data is None or self._data.competition != competition:
            self._data = CompetitionData(competition)
        return self._data

    def files(self, competition: Competition, phase: Phase, seed: int, submission: int) -> RunFiles:
        """The blobs of a run."""
        with self._lock:
            data = self._opened(competition)
            images = self._images(data, phase)
            tasks = data.test_tasks(phase, seed, submission)
            text = self.folder / f".tasks-{os.getpid()}.json"
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_text(text, dump_tasks(tasks))
            try:
                return RunFiles(*images, self._keep("tasks.json", text))
            finally:
                text.unlink()

    def _images(self, data: CompetitionData, phase: Phase) -> tuple[list[Blob], list[Blob]]:
        """What a phase trains on, and what it tests on."""
        training = [self._keep(name, path) for name, path in data.training_files(phase).items()]
        files = {name: Path(str(data.pixels(name).filename)) for name in phase.test}  # type: ignore[attr-defined]
        return training, [self._keep(name, path) for name, path in files.items()]

    def _keep(self, name: str, path: Path) -> Blob:
        """A file as a blob: linked under its hash, which is computed once per state of the file."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        stat = path.stat()
        note = path.with_name(f".{path.name}.sha256")
        stamp = [stat.st_size, stat.st_mtime_ns]
        digest = None
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
            noted = json.loads(note.read_text(encoding="utf-8"))
            digest = noted["sha256"] if noted["stamp"] == stamp else None
        if digest is None:
            digest = hash_file(path)
            if not path.name.startswith("."):
                write_json(note, {"sha256": digest, "stamp": stamp})
        with contextlib.suppress(FileExistsError):
            (self.folder / digest).hardlink_to(path)
        return Blob(name, digest, stat.st_size)


def dump_tasks(tasks: list[HiddenTask]) -> str:
    """Tasks with their answers as JSON, for workers alone."""
    rows = [
        {
            **{name: getattr(task, name) for name in ("dataset", "ways", "shots", "seed", "number")},
            **{name: getattr(task, name).tolist() for name in _ARRAYS},
        }
        for task in tasks
    ]
    return json.dumps(rows, separators=(",", ":"))


def load_tasks(text: str) -> list[HiddenTask]:
    """Tasks as ``dump_tasks`` wrote them."""
    rows: list[dict[str, Any]] = json.loads(text)
    return [
        HiddenTask(**{**row, **{name: np.asarray(row[name], np.int64) for name in _ARRAYS}}) for row in rows
    ]


def _names(phases: list[Phase]) -> list[str]:
    return sorted({name for phase in phases for name in (*phase.train, *phase.test)})
