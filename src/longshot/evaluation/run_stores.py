"""Where the results of a run are kept: in a folder, at a URL, or in memory for as long as the program runs."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import uuid4

import pyarrow as pa

from longshot.base import (
    Location,
    LockBusy,
    UserError,
    add_missing,
    check_writable,
    explain_disk_errors,
    file_lock,
    is_url,
    lasting_work_folder,
    link_files,
    local_copy,
    note,
    put_file,
    remove_file,
    shown_location,
    url_inside,
)
from longshot.evaluation import units
from longshot.evaluation.run_record import merged, new_run, open_folder, read_run, write_run
from longshot.evaluation.units import Unit

if TYPE_CHECKING:
    from longshot.tasks import Testbed


_ANEW = "call {evaluate()} again as before, which writes it anew, or take an unchanged copy of the folder"


def testbed_path(folder: Path, content_hash: str) -> Path:
    """Return where a run keeps its copy of a testbed."""
    return folder / "testbeds" / f"{content_hash}.parquet"


class RunFolder:
    """A run on disk: run.json, one part file per unit, timings and testbeds beside them."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __str__(self) -> str:
        return str(self.path)

    def read(self) -> dict[str, Any]:
        """Read the record of the run; UserError when the folder holds none."""
        return read_run(self.path)

    def begin(self) -> dict[str, Any]:
        """Return the record to extend, or a new one."""
        return open_folder(self.path)

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Lock the folder while results are written: one evaluation at a time writes into it."""
        open_folder(self.path)  # refuse a foreign folder before anything is written into it
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(file_lock(self.path / ".lock", wait=False))
            except LockBusy as error:
                raise UserError(
                    f"Another evaluation is writing to {self.path}", "wait for it or choose another {out}"
                ) from error
            with explain_disk_errors(self.path):
                for stale in self.path.rglob(".*.tmp"):  # left by a killed run; nobody is writing now
                    stale.unlink(missing_ok=True)
            yield

    def save(self, run: Mapping[str, Any]) -> None:
        """Write the record."""
        write_run(self.path, run)

    def keep_testbed(self, testbed: Testbed) -> None:
        """Keep a copy of the testbed, so that reports need nothing but the folder; a damaged one is replaced."""
        path = testbed_path(self.path, testbed.content_hash)
        if path.is_file():
            try:
                self.testbed(testbed.content_hash)
                return
            except UserError:
                note(f"the copy of the testbed in {self} was damaged and is replaced")
        testbed.save(path, force=True)

    def testbed(self, content_hash: str) -> Testbed:
        """Read the run's own copy of a testbed; UserError when it is gone, damaged or another one."""
        from longshot.tasks import Testbed

        path = testbed_path(self.path, content_hash)
        if not path.is_file():
            raise UserError(f"The run's copy of its testbed is missing: {path}", _ANEW)
        try:
            testbed = Testbed.load(path)
        except UserError as error:
            raise UserError(
                f"The run's copy of its testbed is damaged: {error.fact.rstrip('.')}", _ANEW
            ) from error
        if testbed.content_hash != content_hash:
            raise UserError(f"{path} holds another testbed ({testbed.content_hash[:12]}…)", _ANEW)
        return testbed

    def state(self, unit: Unit, with_scores: bool) -> str:
        """Return 'done', 'missing', 'damaged' or 'no scores'."""
        return units.part_state(self.path, unit, with_scores)

    def has(self, unit_id: str) -> bool:
        """Tell whether the unit has been computed."""
        return units.part_path(self.path, unit_id).exists()

    def write(self, unit: Unit, columns: Mapping[str, Any]) -> None:
        """Keep the rows of a unit."""
        units.write_unit(self.path, unit, columns)

    def part(self, unit_id: str) -> pa.Table | None:
        """Read the rows of a unit with their ``seconds``; None when it has not been computed."""
        if not self.has(unit_id):
            return None
        try:
            rows = units.read_part(units.part_path(self.path, unit_id))
        except ValueError as error:
            raise UserError(str(error), "call {evaluate()} again as before to compute it anew") from error
        return rows.append_column("seconds", units.read_seconds(self.path, unit_id, rows.num_rows))


class RunMemory:
    """A run that is written nowhere."""

    path = None

    def __init__(self) -> None:
        self._run = new_run()
        self._parts: dict[str, pa.Table] = {}
        self._testbeds: dict[str, Testbed] = {}

    def __str__(self) -> str:
        return "results in memory"

    def read(self) -> dict[str, Any]:
        """Return the record of the run."""
        return self._run

    begin = read

    def lock(self) -> contextlib.AbstractContextManager[None]:
        """Lock nothing: nobody else sees these results."""
        return contextlib.nullcontext()

    def save(self, run: Mapping[str, Any]) -> None:
        """Write nothing: the record is the one that ``begin`` handed out."""

    def keep_testbed(self, testbed: Testbed) -> None:
        """Hold on to the testbed."""
        self._testbeds[testbed.content_hash] = testbed

    def testbed(self, content_hash: str) -> Testbed:
        """Return the testbed with this content hash; UserError when the run has no such one."""
        if content_hash not in self._testbeds:
            raise UserError(f"{self} have no testbed {content_hash[:12]}…")
        return self._testbeds[content_hash]

    def state(self, unit: Unit, with_scores: bool) -> str:
        """Return 'done' or 'missing'."""
        return "done" if self.has(unit.id) else "missing"

    def has(self, unit_id: str) -> bool:
        """Tell whether the unit has been computed."""
        return unit_id in self._parts

    def write(self, unit: Unit, columns: Mapping[str, Any]) -> None:
        """Keep the rows of a unit."""
        self._parts[unit.id] = units.unit_rows(unit, columns)

    def part(self, unit_id: str) -> pa.Table | None:
        """Return the rows of a unit with their ``seconds``; None when it has not been computed."""
        return self._parts.get(unit_id)


RunStore: TypeAlias = RunFolder | RunMemory


def write_folder(store: RunMemory, folder: Path) -> Path:
    """Write results that are held in memory as the folder of a run, where there is none yet."""
    run = store.read()
    for content_hash in run["testbeds"]:
        store.testbed(content_hash).save(testbed_path(folder, content_hash), force=True)
    for unit in dict.fromkeys(unit for cell in run["cells"] for unit in cell["units"]):
        rows = store.part(unit)
        if rows is not None:
            units.write_rows(folder, unit, rows)
    write_run(folder, run)
    return folder


# A run at a URL: every unit is an object of its own, every evaluation that writes there has a record of its
# own. Nobody overwrites what another wrote. Part files have the name of their unit, and two evaluations
# that compute the same unit put the same rows. Records lie at ``writers/ID/run.json``, one per evaluation;
# ``run.json`` is what they say together, as its last writer saw them, and whoever reads a run adds the
# records up. So no lock is needed, which object storage does not have.

_CLAIM = "claim"  # a record that has not been compared with those of others yet


def open_store(location: Location, *, new: bool = False, writes: bool = False) -> RunFolder:
    """Open the run in a folder or at a URL.

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
        return shown_location(self.url)

    def read(self) -> dict[str, Any]:
        """Read the record of the run; UserError when the URL holds none."""
        with self._named():
            return super().read()

    def begin(self) -> dict[str, Any]:
        """Return the record to extend, or a new one."""
        with self._named():
            return super().begin()

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Lock nobody out; what others write in the meantime is brought here at the end."""
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
            remove_file(url_inside(self.url, f"{name}/{_CLAIM}/run.json"))
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
            remove_file(url_inside(self.url, f"{name}/run.json"))
            raise

    def _look_around(self) -> None:
        """Bring the records and claims that others have by now."""
        shutil.rmtree(self.path / "writers")
        link_files(local_copy(url_inside(self.url, "writers"), grows=True), self.path / "writers")

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
        put_file(self.path / name, url_inside(self.url, name))

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        """Name the URL in place of the local copy in errors raised in the block."""
        try:
            yield
        except UserError as error:
            texts = (text.replace(str(self.path), str(self)) for text in (error.fact, error.remedy))
            raise UserError(*texts) from error


def _stamp(path: Path) -> tuple[int, int] | None:
    return (path.stat().st_ino, path.stat().st_mtime_ns) if path.exists() else None
