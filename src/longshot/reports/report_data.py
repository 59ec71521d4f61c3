"""The results of one or several runs, arranged for a report: testbeds × series, a cell of rows each."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from longshot.base import Floats, Ints, UserError
from longshot.evaluation import METRICS, ClassIntervals
from longshot.reports.marks import Placed, place_column

if TYPE_CHECKING:
    from longshot.evaluation import Leak, Results
    from longshot.statistics import TaskClasses
    from longshot.tasks import Testbed


Runs: TypeAlias = "str | Path | Results | Sequence[str | Path | Results]"
CellKey: TypeAlias = tuple[str, str, str, str, int]  # testbed hash, backbone, method, setting, seed
COLUMNS = (*METRICS, "seconds")


@dataclass(frozen=True)
class ReportSeries:
    """What was measured: a backbone with a method; ``note`` tells apart what would read the same.

    ``kind`` says what becomes of the network: "frozen", "adapted" to every task, or "meta-trained".
    """

    backbone: str
    method: str
    setting: str
    note: str = ""
    kind: str = "frozen"

    @property
    def label(self) -> str:
        """Return one line for legends and plots."""
        return f"{self.method} · {self.backbone}" + (f" · {self.note}" if self.note else "")

    @property
    def title(self) -> str:
        """Return the method with its note, for tables."""
        return self.method + (f" ({self.note})" if self.note else "")

    @property
    def transductive(self) -> bool:
        """Tell whether the method looks at all queries of its task together."""
        return self.setting == "transductive"


@dataclass(frozen=True, eq=False)
class Cell:
    """The task rows of one series on one testbed, sorted by task; every array has length T."""

    tasks: Ints
    metrics: Mapping[str, Floats]  # NaN where a metric was not recorded
    way: Floats
    shot: Floats
    predictions: pa.Array | None  # list<int16> [T], positions in the task's classes
    datasets: tuple[str, ...] = ()  # [T]; empty where the results do not say
    coarsity: Floats | None = None  # NaN where it was not measured
    scores: pa.Array | None = None  # list<float> [T], query by query, where they were kept

    @property
    def accuracy(self) -> Floats:
        """Share of right answers per task, in 0 … 1."""
        return self.metrics["accuracy"]


@dataclass(frozen=True, eq=False)
class ReportTestbed:
    """A testbed as the report shows it; ``name`` is unique in the report."""

    hash: str
    name: str
    testbed: Testbed  # the run folder's copy

    def classes_of(self, tasks: Ints) -> TaskClasses:
        """Return which classes some tasks [T] have, for intervals that hold for other classes."""
        return ClassIntervals(self.testbed, tasks).task_classes


@dataclass(frozen=True, eq=False)
class Shared:
    """M series of a testbed on the T tasks that all of them have."""

    series: tuple[int, ...]  # [M] places in the report
    tasks: Ints  # [T]
    accuracy: Floats  # [T, M]
    datasets: tuple[str, ...]  # [T]


@dataclass(frozen=True, eq=False)
class ReportData:
    """Everything a page or a table is made of."""

    runs: tuple[dict[str, Any], ...]  # the run.json of each run
    names: tuple[str, ...]  # what the runs are called: the folder's name
    missing: tuple[int, ...]  # units of work each run still lacks: not 0 while it is not finished
    beds: tuple[ReportTestbed, ...]
    series: tuple[ReportSeries, ...]
    cells: Mapping[tuple[int, int], Cell]  # (bed, series) → rows
    judges: frozenset[tuple[int, int]] = frozenset()  # (bed, series) whose network chose the testbed's images
    leaks: Mapping[tuple[int, int], Leak] = field(
        default_factory=dict
    )  # (bed, series) of which training saw something

    def column(self, bed: int) -> list[tuple[int, Cell]]:
        """List the series that were measured on one testbed, in the report's order."""
        return [(s, self.cells[bed, s]) for s in range(len(self.series)) if (bed, s) in self.cells]

    def first_beds(self, number: int) -> ReportData:
        """Return the same report of its first testbeds alone."""
        cells = {(b, s): cell for (b, s), cell in self.cells.items() if b < number}
        leaks = {cell: leak for cell, leak in self.leaks.items() if cell in cells}
        return replace(self, beds=self.beds[:number], cells=cells, judges=self.judges & {*cells}, leaks=leaks)

    def fingerprints(self) -> dict[str, tuple[str, ...]]:
        """Return dataset name → fingerprints in the testbeds; one name can stand for several datasets."""
        by_name: dict[str, tuple[str, ...]] = {}
        for bed in self.beds:
            for name, fingerprint in sorted(bed.testbed.datasets.items()):
                by_name[name] = tuple(dict.fromkeys((*by_name.get(name, ()), fingerprint)))
        return by_name

    def leak_notes(self) -> list[str]:
        """List the footnotes of what training saw, each once."""
        return list(dict.fromkeys(leak.note for _, leak in sorted(self.leaks.items())))

    def ranked(self, bed: int) -> list[tuple[int, Cell]]:
        """List the series measured on a testbed without judges of it: these are shown and not ranked."""
        return [(s, cell) for s, cell in self.column(bed) if (bed, s) not in self.judges]

    def placed(self, bed: int, shared: Sequence[int], accuracy: Floats) -> list[Placed]:
        """Place series of a testbed by a part of its tasks, or by another metric, [T, M]; judges take no place."""
        settings = [self.series[s].setting for s in shared]
        return place_column(accuracy, settings, [(bed, s) in self.judges for s in shared])

    def shared(self, bed: int, setting: str | None = None) -> Shared:
        """Return the tasks that every series of a testbed has, and their accuracies side by side.

        With ``setting`` those of one setting, without judges.
        """
        listed = self.column(bed) if setting is None else self.ranked(bed)
        column = [(s, cell) for s, cell in listed if setting in (None, self.series[s].setting)]
        if not column:
            return Shared((), np.zeros(0, np.int64), np.zeros((0, 0)), ())
        tasks = column[0][1].tasks
        for _, cell in column[1:]:
            tasks = np.intersect1d(tasks, cell.tasks)
        rows = [np.searchsorted(cell.tasks, tasks) for _, cell in column]
        values = [cell.accuracy[row] for (_, cell), row in zip(column, rows, strict=True)]
        names = column[0][1].datasets
        return Shared(
            tuple(s for s, _ in column),
            tasks,
            np.stack(values, axis=1),
            tuple(names[row] for row in rows[0]) if names else ("",) * len(tasks),
        )


def read_runs(runs: Runs) -> ReportData:
    """Read runs and arrange them.

    The same testbed in several runs is one testbed (its content hash says so). A series that occurs in
    several runs is shown once when the rows agree and once per run, named after the run, when they do not.

    Parameters
    ----------
    runs : path, Results, or list of those
        At least one run with at least one result.

    Returns
    -------
    ReportData
        Testbeds and series in the order of the runs, a cell of rows for each pair that was measured.
    """
    from longshot.evaluation import Results, judges_in, leaks_in

    listed = [runs] if isinstance(runs, str | Path | Results) else list(runs)
    if not listed:
        raise UserError("A report needs at least 1 run folder, 0 were given", "make one with {evaluate()}")
    opened = [run if isinstance(run, Results) else Results(run) for run in listed]
    names = unique_names([Path(run.name).resolve().name or "run" for run in opened])
    parts: dict[CellKey, list[tuple[str, Cell]]] = {}
    bed_names: dict[str, str] = {}
    copies: dict[str, Testbed] = {}
    for name, run in zip(names, opened, strict=True):
        table = run.table()
        if table.num_rows == 0:
            raise UserError(
                f"The run {run.name} holds 0 result rows and a report needs at least 1",
                "call {evaluate()} again",
            )
        for key, cell in _cells(run, table):
            parts.setdefault(key, []).append((name, cell))
            bed_names.setdefault(key[0], str(run.run["testbeds"][key[0]]["name"]))
            if key[0] not in copies:
                copies[key[0]] = run.testbed(key[0])
    records = [run.run for run in opened]
    return arrange(
        parts,
        {content_hash: (name, copies[content_hash]) for content_hash, name in bed_names.items()},
        judging={pair for record in records for pair in judges_in(record)},
        leaking={pair: leak for record in reversed(records) for pair, leak in leaks_in(record).items()},
        kinds={
            method: str(facts.get("kind", "frozen"))
            for record in reversed(records)
            for method, facts in record.get("methods", {}).items()
        },
        runs=records,
        names=names,
        missing=[len(run.missing()) for run in opened],
    )


def _cells(run: Results, table: pa.Table) -> Iterator[tuple[CellKey, Cell]]:
    """Yield the cells of a run that have rows; keys are (testbed hash, backbone, method, setting, seed)."""
    from longshot.evaluation import cell_rows

    for facts in run.run["cells"]:
        rows = cell_rows(table, facts).combine_chunks()
        if rows.num_rows:
            setting = run.run["methods"][facts["method"]]["setting"]
            yield (
                (facts["testbed"], facts["backbone"], facts["method"], setting, int(facts["seed"])),
                Cell(
                    tasks=rows["task"].to_numpy(),
                    metrics={name: _floats(rows, name) for name in COLUMNS},
                    way=_floats(rows, "way"),
                    shot=_floats(rows, "mean_shot"),
                    predictions=rows["prediction"].combine_chunks(),
                    datasets=tuple(rows["dataset"].to_pylist()),
                    coarsity=_floats(rows, "coarsity"),
                    scores=_scores(rows),
                ),
            )


def _scores(table: pa.Table) -> pa.Array | None:
    """Return the scores of all tasks, or None unless every row has them."""
    if "scores" not in table.column_names or table["scores"].null_count:
        return None
    return table["scores"].combine_chunks()


def _floats(table: pa.Table, name: str) -> Floats:
    """Return a numeric column as float64, NaN for null."""
    values: Floats = pc.fill_null(pc.cast(table[name], pa.float64()), float("nan")).to_numpy()
    return values


def arrange(
    parts: Mapping[CellKey, Sequence[tuple[str, Cell]]],
    beds: Mapping[str, tuple[str, Testbed]],
    *,
    judging: Collection[tuple[str, str]] = (),
    leaking: Mapping[tuple[str, str], Leak] | None = None,
    kinds: Mapping[str, str] | None = None,
    runs: Sequence[dict[str, Any]] = (),
    names: Sequence[str] = (),
    missing: Sequence[int] = (),
) -> ReportData:
    """Give every testbed a unique name and every distinct series one place.

    Parameters
    ----------
    parts : mapping
        (testbed hash, backbone, method, setting, seed) → the cell of each run that has it, with the run's name.
    beds : mapping
        Testbed hash → name and tasks.
    judging, leaking : collection, mapping
        (testbed hash, backbone) that chose its images, and what training saw of it.
    kinds : mapping
        Method → what becomes of the network.
    runs, names, missing : sequences
        The records of the runs, their names, and the units that each lacks.
    """
    hashes, plain = list(beds), [name for name, _ in beds.values()]
    shown = tuple(
        ReportTestbed(h, name if plain.count(name) == 1 else f"{name} ({h[:8]})", testbed)
        for h, (name, testbed) in beds.items()
    )
    seeds: dict[tuple[str, str, str], set[int]] = {}
    clashing: set[tuple[str, str, str, int]] = set()
    for (_, backbone, method, setting, seed), by_run in parts.items():
        seeds.setdefault((backbone, method, setting), set()).add(seed)
        if not all(_same(by_run[0][1], cell) for _, cell in by_run[1:]):
            clashing.add((backbone, method, setting, seed))
    series: dict[ReportSeries, int] = {}
    cells: dict[tuple[int, int], Cell] = {}
    for (bed, backbone, method, setting, seed), by_run in parts.items():
        for name, cell in by_run if (backbone, method, setting, seed) in clashing else by_run[:1]:
            notes = [f"seed {seed}"] if len(seeds[backbone, method, setting]) > 1 else []
            notes += [name] if (backbone, method, setting, seed) in clashing else []
            kind = (kinds or {}).get(method, "frozen")
            measured = ReportSeries(backbone, method, setting, ", ".join(notes), kind)
            cells[hashes.index(bed), series.setdefault(measured, len(series))] = cell
    networks = {
        (b, s): (hashes[b], each.backbone)
        for each, s in series.items()
        for b in range(len(hashes))
        if (b, s) in cells
    }
    judges = frozenset(cell for cell, network in networks.items() if network in judging)
    leaks = {cell: (leaking or {})[pair] for cell, pair in networks.items() if pair in (leaking or {})}
    return ReportData(tuple(runs), tuple(names), tuple(missing), shown, tuple(series), cells, judges, leaks)


def _same(a: Cell, b: Cell) -> bool:
    return np.array_equal(a.tasks, b.tasks) and np.array_equal(a.accuracy, b.accuracy)


def unique_names(names: list[str]) -> list[str]:
    """Number what would read the same: run, run → run, run (2)."""
    seen: dict[str, int] = {}
    unique = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        unique.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return unique
