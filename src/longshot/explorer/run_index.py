"""The index of a run: a table per testbed with one row per task, and the answers of each series as one flat array.

It is built once from the run's part files, keyed by their names, times and sizes, lies in the cache, and is read
through memory maps: reopening costs nothing, whatever its size.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from longshot.base import Floats, Ints, UserError, cache_dir
from longshot.evaluation import part_path
from longshot.explorer.run_index_build import SeriesColumn, build_beside, open_table

FORMAT = 7
_OPEN = 6  # indexes held open
_SCORES = 64 << 20  # bytes of a part whose scores are read at once


class BedIndex:
    """One testbed of a run: the table of its tasks, the series, and their answers."""

    def __init__(self, folder: Path, facts: Mapping[str, Any]) -> None:
        self.hash, self.name = str(facts["hash"]), str(facts["name"])
        self.series = [SeriesColumn(**each) for each in facts["series"]]
        self.units: list[list[str]] = list(facts["units"])  # of each series
        self.problem = str(facts["problem"])  # why there are no answers, or what is missing
        self._folder = folder
        self._answers: dict[int, NDArray[np.int16]] = {}  # memory maps
        self.table = open_table(folder / "tasks.arrow")

    def answers(self, series: int) -> NDArray[np.int16] | None:
        """Return the class predicted for every query, task by task (−1: none); None without the testbed."""
        if series not in self._answers:
            path = self._folder / f"answers-{series}.npy"
            if not path.is_file():
                return None
            self._answers[series] = np.load(path, mmap_mode="r", allow_pickle=False)
        return self._answers[series]

    def answer_lists(self, series: int, tasks: Ints) -> pa.Array | None:
        """Return the answers to some tasks, a list each: of all tasks a view of the file; None without the testbed."""
        flat = self.answers(series)
        if flat is None or "queries" not in self.table.column_names:
            return None
        offsets = np.append(0, np.cumsum(self.table["queries"].to_numpy()))
        lists = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(np.asarray(flat)))
        return lists if len(tasks) == len(lists) else lists.take(pa.array(tasks))

    def finished(self, series: int) -> Ints:
        """List the tasks that have a result of a series."""
        return np.flatnonzero(np.isfinite(self.accuracies(series)))

    @cached_property
    def varied(self) -> list[str]:
        """List the columns about the tasks themselves that are not the same for all."""
        names = [
            name
            for name in ("dataset", "way", "shot", "queries", "coarsity")
            if name in self.table.column_names
        ]
        return [name for name in names if len(self.table[name].combine_chunks().unique().drop_null()) > 1]

    def accuracies(self, series: int) -> Floats:
        """Return accuracies, NaN where there is no result; [T]."""
        values: Floats = self.table[self.series[series].column].to_numpy()
        return values

    def mean(self, series: int) -> float:
        """Return the mean accuracy of a series, −1 without a result."""
        values = self.accuracies(series)
        return float(np.nanmean(values)) if np.isfinite(values).any() else -1.0

    def answered(self) -> list[int]:
        """List the series whose answers are on record."""
        return [number for number in range(len(self.series)) if self.answers(number) is not None]


class RunIndex:
    """All testbeds of a run."""

    def __init__(self, folder: Path) -> None:
        facts = json.loads((folder / "index.json").read_text(encoding="utf-8"))
        self.folder, self.stamp, self.rows = folder, str(facts["stamp"]), int(facts["rows"])
        self.notes: list[str] = list(facts["notes"])
        self.features: dict[str, dict[str, str]] = facts[
            "features"
        ]  # backbone → fingerprint → content-address
        self.judges = {(content_hash, backbone) for content_hash, backbone in facts["judges"]}
        # (testbed, backbone) → mark and footnote of what training saw
        self.leaks = {(bed, name): (mark, note) for bed, name, mark, note in facts["leaks"]}
        self._facts = {bed["hash"]: (number, bed) for number, bed in enumerate(facts["beds"])}
        self._beds: dict[str, BedIndex] = {}

    @property
    def hashes(self) -> list[str]:
        """List the content hashes of its testbeds."""
        return list(self._facts)

    def bed(self, content_hash: str) -> BedIndex:
        """Return the index of one testbed; KeyError for one that the run has not."""
        if content_hash not in self._beds:
            number, facts = self._facts[content_hash]
            self._beds[content_hash] = BedIndex(self.folder / str(number), facts)
        return self._beds[content_hash]

    def beds(self) -> list[BedIndex]:
        """List all testbeds, in the run's order."""
        return [self.bed(content_hash) for content_hash in self._facts]


class Indexes:
    """Indexes of runs by their folders, built where they are missing or the run has changed."""

    def __init__(self, base: Path | None = None) -> None:
        self._base = base or cache_dir("explorer", "runs")
        self._open: OrderedDict[Path, tuple[RunIndex, float, float]] = OrderedDict()
        self._locks: dict[Path, threading.Lock] = {}
        self._lock = threading.Lock()

    def open(self, run: Path, *, live: bool = False) -> RunIndex:
        """Open the index of the run in a folder; while the run is written, it may be some seconds old."""
        stamp = run_stamp(run)
        with self._lock:
            held = self._open.get(run)
            if held is not None:
                index, built, took = held
                if index.stamp == stamp or (live and time.monotonic() - built < max(3.0, 5 * took)):
                    self._open.move_to_end(run)
                    return index
            lock = self._locks.setdefault(run, threading.Lock())
        with lock:
            folder = self._base / hashlib.sha256(os.fsencode(run)).hexdigest()[:16] / stamp
            began = time.monotonic()
            if not (folder / "index.json").is_file():
                build_beside(run, stamp, folder)
            index = RunIndex(folder)
            with self._lock:
                self._open[run] = (index, time.monotonic(), time.monotonic() - began)
                self._open.move_to_end(run)
                while len(self._open) > _OPEN:
                    self._open.popitem(last=False)
            return index


def read_scores(run: Path, units: Sequence[str], task: int) -> Floats | None:
    """Read the scores of a task's queries, one behind the other, where the run kept them."""
    for unit in units:
        try:
            file = pq.ParquetFile(part_path(run, unit))
            if "scores" not in file.schema_arrow.names:
                return None
            places = np.flatnonzero(file.read(columns=["task"])["task"].to_numpy() == task)
            if len(places):  # only then the scores, which are most of the file
                values = file.read(columns=["scores"])["scores"][int(places[0])].as_py()
                return None if values is None else np.asarray(values, np.float64)
        except (OSError, pa.ArrowException):
            continue
    return None


def read_all_scores(run: Path, units: Sequence[str]) -> dict[int, Floats]:
    """Read the scores of all tasks of a series; nothing where the run did not keep them, or they are very many."""
    held: dict[int, Floats] = {}
    for unit in units:
        try:
            file = pq.ParquetFile(part_path(run, unit))
            if "scores" not in file.schema_arrow.names or part_path(run, unit).stat().st_size > _SCORES:
                return {}
            table = file.read(columns=["task", "scores"])
        except (OSError, pa.ArrowException):
            continue
        for task, values in zip(table["task"].to_pylist(), table["scores"], strict=True):
            if values.is_valid:
                held[task] = values.values.to_numpy(zero_copy_only=False)
    return held


def run_stamp(run: Path) -> str:
    """Digest the names, times and sizes of a run's files; UserError where it is gone."""
    entries: list[tuple[str, int, int]] = []
    try:
        for folder in (run, run / "seconds", run / "testbeds"):
            if folder is not run and not folder.is_dir():
                continue
            with os.scandir(folder) as listed:
                for entry in listed:
                    if entry.name.endswith(".parquet") or entry.name == "run.json":
                        stat = entry.stat()
                        entries.append((f"{folder.name}/{entry.name}", stat.st_mtime_ns, stat.st_size))
    except OSError as error:
        raise UserError(f"The run {run.name} cannot be read any more: {error.strerror}.") from error
    return hashlib.sha256(json.dumps([FORMAT, sorted(entries)]).encode("utf-8", "replace")).hexdigest()[:20]
