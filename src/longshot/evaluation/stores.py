"""Where the results of a run are kept: in a folder, or in memory for as long as the program runs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from longshot.base import Busy, UserError, explain_disk_errors, file_lock, note
from longshot.evaluation import units
from longshot.evaluation.run_record import new_run, open_folder, read_run, write_run
from longshot.evaluation.units import Unit

if TYPE_CHECKING:
    from longshot.tasks import Testbed


def testbed_path(folder: Path, content_hash: str) -> Path:
    """Where a run keeps its copy of a testbed."""
    return folder / "testbeds" / f"{content_hash}.parquet"


class RunFolder:
    """A run on disk: run.json, one part file per unit, timings and testbeds beside them."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __str__(self) -> str:
        return str(self.path)

    def read(self) -> dict[str, Any]:
        """The record of the run; UserError when the folder holds none."""
        return read_run(self.path)

    def begin(self) -> dict[str, Any]:
        """The record to extend, or a new one."""
        return open_folder(self.path)

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Held while results are written: one evaluation at a time writes into a folder."""
        open_folder(self.path)  # refuse a foreign folder before anything is written into it
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(file_lock(self.path / ".lock", wait=False))
            except Busy as error:
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
        """The run's own copy of a testbed; UserError when it is gone, damaged or another one."""
        from longshot.tasks import Testbed

        path = testbed_path(self.path, content_hash)
        remedy = (
            "call {evaluate()} again as before, which writes it anew, or take an unchanged copy of the folder"
        )
        if not path.is_file():
            raise UserError(f"The run's copy of its testbed is missing: {path}", remedy)
        try:
            testbed = Testbed.load(path)
        except UserError as error:
            raise UserError(
                f"The run's copy of its testbed is damaged: {error.fact.rstrip('.')}", remedy
            ) from error
        if testbed.content_hash != content_hash:
            raise UserError(f"{path} holds another testbed ({testbed.content_hash[:12]}…)", remedy)
        return testbed

    def state(self, unit: Unit, with_scores: bool) -> str:
        """'done', 'missing', 'damaged' or 'no scores'."""
        return units.part_state(self.path, unit, with_scores)

    def has(self, unit_id: str) -> bool:
        """Whether the unit has been computed."""
        return units.part_path(self.path, unit_id).exists()

    def write(self, unit: Unit, columns: Mapping[str, Any]) -> None:
        """Keep the rows of a unit."""
        units.write_unit(self.path, unit, columns)

    def part(self, unit_id: str) -> pa.Table | None:
        """The rows of a unit with their ``seconds``; None when it has not been computed."""
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
        """The record of the run."""
        return self._run

    begin = read

    def lock(self) -> contextlib.AbstractContextManager[None]:
        """Nothing to hold: nobody else sees these results."""
        return contextlib.nullcontext()

    def save(self, run: Mapping[str, Any]) -> None:
        """Nothing to write: the record is the one that ``begin`` handed out."""

    def keep_testbed(self, testbed: Testbed) -> None:
        """Hold on to the testbed."""
        self._testbeds[testbed.content_hash] = testbed

    def testbed(self, content_hash: str) -> Testbed:
        """The testbed with this content hash; UserError when the run has no such one."""
        if content_hash not in self._testbeds:
            raise UserError(f"{self} have no testbed {content_hash[:12]}…")
        return self._testbeds[content_hash]

    def state(self, unit: Unit, with_scores: bool) -> str:
        """'done' or 'missing'."""
        return "done" if self.has(unit.id) else "missing"

    def has(self, unit_id: str) -> bool:
        """Whether the unit has been computed."""
        return unit_id in self._parts

    def write(self, unit: Unit, columns: Mapping[str, Any]) -> None:
        """Keep the rows of a unit."""
        self._parts[unit.id] = units.unit_rows(unit, columns)

    def part(self, unit_id: str) -> pa.Table | None:
        """The rows of a unit with their ``seconds``; None when it has not been computed."""
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
