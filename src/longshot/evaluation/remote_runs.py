"""A run at a URL: every unit is an object of its own, every evaluation that writes there has a record of its own.

Nobody overwrites what another wrote. Part files have the name of their unit, and two evaluations that compute the same
unit put the same rows. Records lie at ``writers/ID/run.json``, one per evaluation; ``run.json`` is what they say
together, as its last writer saw them, and whoever reads a run adds the records up. So no lock is needed, which object
storage does not have.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from longshot.base import (
    Location,
    UserError,
    add_missing,
    check_writable,
    inside,
    is_url,
    lasting_work_folder,
    link_files,
    local_copy,
    put,
    remove,
    shown,
)
from longshot.evaluation import units
from longshot.evaluation.run_record import merged, open_folder, read_run, write_run
from longshot.evaluation.stores import RunFolder, testbed_path
from longshot.evaluation.units import Unit

if TYPE_CHECKING:
    from longshot.tasks import Testbed

_CLAIM = "claim"  # a record that has not been compared with those of others yet


def open_store(location: Location, *, new: bool = False, writes: bool = False) -> RunFolder:
    """The run in a folder or at a URL.

    Parameters
    ----------
    location : path or URL
        Where it is.
    new : bool
        Whether it may be that nothing is there yet.
    writes : bool
        Whether results are to be written: a URL where that cannot be is told before anything is computed.
    """
    if not is_url(location):
        return RunFolder(local_copy(location))
    if writes:
        check_writable(str(location), folder=True)
    return RemoteRun(str(location), new=new)


class RemoteRun(RunFolder):
    """A run at a URL, read from its copy in the cache; what is written goes to a folder of this process, then there."""

    def __init__(self, url: str, *, new: bool = False) -> None:
        super().__init__(local_copy(url, or_nothing=new, grows=True))
        self.url = url
        self._writer = ""
        self._waiting: list[str] = []  # names of testbeds that are not there yet
        self._entered = False

    def __str__(self) -> str:
        return shown(self.url)

    def read(self) -> dict[str, Any]:
        """The record of the run; UserError when the URL holds none."""
        with self._named():
            return super().read()

    def begin(self) -> dict[str, Any]:
        """The record to extend, or a new one."""
        with self._named():
            return super().begin()

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Nobody is locked out; what others write in the meantime is brought here at the end."""
        self.begin()  # refuse a foreign folder
        folder = lasting_work_folder()
        link_files(local_copy(self.url, or_nothing=True, grows=True), folder)
        self.path, self._writer = folder, uuid4().hex[:12]
        yield
        add_missing(self.url, self.path)

    def save(self, run: Mapping[str, Any]) -> None:
        """Put this evaluation's record, then the sum of all records.

        The first time it is only a claim until it has been compared with the records and claims of others. UserError
        where another evaluation, at the same time, gave one of the names to something else: the claim is taken back.
        """
        run["sessions"][-1].setdefault("writer", self._writer)
        name = f"writers/{self._writer}"
        if not self._entered:
            self._claim(f"{name}/{_CLAIM}", run)
        write_run(self.path / name, run)
        self._put(f"{name}/run.json")
        if not self._entered:
            remove(inside(self.url, f"{name}/{_CLAIM}/run.json"))
            self._entered = True
        while self._waiting:
            self._put(self._waiting.pop())
        self._look_around()
        with self._named():
            write_run(self.path, open_folder(self.path))
        self._put("run.json")

    def _claim(self, name: str, run: Mapping[str, Any]) -> None:
        write_run(self.path / name, run)
        self._put(f"{name}/run.json")
        self._look_around()
        try:
            with self._named():
                total = merged(open_folder(self.path), run)
                for claim in (self.path / "writers").glob(f"*/{_CLAIM}"):
                    total = merged(total, read_run(claim))
        except UserError:
            remove(inside(self.url, f"{name}/run.json"))
            raise

    def _look_around(self) -> None:
        """Bring the records and claims that others have by now."""
        shutil.rmtree(self.path / "writers")
        link_files(local_copy(inside(self.url, "writers"), grows=True), self.path / "writers")

    def keep_testbed(self, testbed: Testbed) -> None:
        """Keep a copy of the testbed; it is put when the run has been entered."""
        path = testbed_path(self.path, testbed.content_hash)
        before = _stamp(path)
        super().keep_testbed(testbed)
        if _stamp(path) != before:
            self._waiting.append(path.relative_to(self.path).as_posix())

    def write(self, unit: Unit, columns: Mapping[str, Any]) -> None:
        """Put the rows of a unit; the part comes last and marks the unit as done."""
        super().write(unit, columns)
        for path in (units.seconds_path(self.path, unit.id), units.part_path(self.path, unit.id)):
            self._put(path.relative_to(self.path).as_posix())

    def _put(self, name: str) -> None:
        put(self.path / name, inside(self.url, name))

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        """Sentences about the copy are about the URL."""
        try:
            yield
        except UserError as error:
            texts = (text.replace(str(self.path), str(self)) for text in (error.fact, error.remedy))
            raise UserError(*texts) from error


def _stamp(path: Path) -> tuple[int, int] | None:
    return (path.stat().st_ino, path.stat().st_mtime_ns) if path.exists() else None
