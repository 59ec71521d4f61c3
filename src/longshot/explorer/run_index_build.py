"""Building the index of a run from its part files: a row per task, and the answers of each series as one flat array."""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from longshot.base import Floats, Ints, Ragged, UserError, parse_call
from longshot.evaluation import METRICS, Results, judges_in, leaks_in, part_path, read_columns, testbed_path
from longshot.tasks import STANDARD, ragged, read_outline

# column of results → how the list calls it before a series
PREFIXES = {name: "" if name == "accuracy" else f"{facts.short}:" for name, facts in METRICS.items()}
PREFIXES["seconds"] = "seconds:"
_READERS = (
    4  # threads that read part files: most of it is reading and hashing, outside the interpreter's lock
)


@dataclass(frozen=True)
class SeriesColumn:
    """A backbone with a method, and the column of the list that holds its accuracies."""

    column: str
    backbone: str
    method: str
    setting: str
    seed: int
    kind: str

    @property
    def label(self) -> str:
        """Return the label for legends."""
        return f"{self.method} · {self.backbone}"

    @property
    def transductive(self) -> bool:
        """Tell whether the method looks at all queries of a task together."""
        return self.setting == "transductive"


def build_beside(run: Path, stamp: str, folder: Path) -> None:
    """Build the index in a folder of its own and move it into place; older ones of the same run are removed."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=".new-", dir=folder.parent))
    try:
        build_index(run, stamp, temporary)
        with contextlib.suppress(OSError):  # another server was faster
            temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    stamps = sorted(folder.parent.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
    for old in [path for path in stamps if path != folder][1:]:
        shutil.rmtree(old, ignore_errors=True)


def build_index(run: Path, stamp: str, folder: Path) -> None:
    """Write the index of a run into a folder."""
    results = Results(run)
    notes: list[str] = []
    beds, rows = [], 0
    for number, (content_hash, facts) in enumerate(results.run["testbeds"].items()):
        cells = [cell for cell in results.run["cells"] if cell["testbed"] == content_hash]
        target = folder / str(number)
        target.mkdir(parents=True)
        series, problem, count = _build_bed(results, content_hash, cells, target, notes)
        rows += count
        beds.append(
            {
                "hash": content_hash,
                "name": facts["name"],
                "series": [asdict(each) for each in series],
                "units": [list(cell["units"]) for cell in cells],
                "problem": problem,
            }
        )
    features = {
        backbone: {fingerprint: str(entry.get("hash", "")) for fingerprint, entry in by_dataset.items()}
        for backbone, by_dataset in results.run["backbones"].items()
    }
    record = {
        "stamp": stamp,
        "beds": beds,
        "rows": rows,
        "notes": notes,
        "features": features,
        "judges": sorted(judges_in(results.run)),
        "leaks": [(*cell, leak.mark, leak.note) for cell, leak in leaks_in(results.run).items()],
    }
    (folder / "index.json").write_text(json.dumps(record), encoding="utf-8")


def _build_bed(
    results: Results, content_hash: str, cells: list[dict[str, Any]], folder: Path, notes: list[str]
) -> tuple[list[SeriesColumn], str, int]:
    """Write the table and answers of one testbed; return series, why answers are missing, and rows read."""
    problem, outline = "", None
    copy = testbed_path(results.path, content_hash)
    if copy.is_symlink() or not copy.is_file():
        problem = "The run folder holds no copy of this testbed, so its tasks have no pictures."
    else:
        try:
            outline, claimed = read_outline(copy)
            if claimed != content_hash:
                outline, problem = None, f"{copy.name} holds another testbed, so its tasks have no pictures."
        except UserError as error:
            problem = str(error)
    series = _series(results, cells)
    names = ["task", *(name for name in PREFIXES if name != "seconds"), "prediction"]
    names += [] if outline is not None else ["dataset", "way", "mean_shot", "coarsity"]
    with ThreadPoolExecutor(_READERS, "index") as pool:
        parts = list(pool.map(partial(_parts, results.path, names, notes), cells))
    size = (
        outline.num_rows
        if outline is not None
        else 1 + max((int(p["task"].to_numpy().max()) for p in parts if p), default=-1)
    )
    if outline is not None:
        base = task_columns(outline)
    else:
        base = _columns_of_rows([part for part in parts if part is not None], size)
    wide: dict[str, Floats] = {}
    for each, part in zip(series, parts, strict=True):
        for metric, prefix in PREFIXES.items():
            values = np.full(size, np.nan)
            if part is not None and metric in part.column_names:
                tasks = part["task"].to_numpy()
                fits = (tasks >= 0) & (tasks < size)
                values[tasks[fits]] = part[metric].cast(pa.float64()).to_numpy(zero_copy_only=False)[fits]
            wide[f"{prefix}{each.column}"] = values
    accuracies = np.stack([wide[each.column] for each in series]) if series else np.full((1, size), np.nan)
    with np.errstate(all="ignore"):
        counted = np.isfinite(accuracies).sum(axis=0)
        mean = np.where(counted > 0, np.nansum(accuracies, axis=0) / np.maximum(counted, 1), np.nan)
        spread = np.where(
            counted > 1,
            np.where(np.isfinite(accuracies), accuracies, -np.inf).max(axis=0)
            - np.where(np.isfinite(accuracies), accuracies, np.inf).min(axis=0),
            np.nan,
        )
    ordered = {"task": base.pop("task"), "accuracy": mean, "spread": spread, **base}
    for prefix in PREFIXES.values():
        ordered |= {f"{prefix}{each.column}": wide[f"{prefix}{each.column}"] for each in series}
    write_table(folder / "tasks.arrow", pa.table(ordered))
    if outline is not None:
        queries = ragged(outline, "query_label")
        for number, part in enumerate(parts):
            if part is not None and not _write_answers(queries, part, folder / f"answers-{number}.npy"):
                problem = (
                    "Its predictions do not fit the copy of the testbed in the run folder; evaluate it again."
                )
    return series, problem, sum(part.num_rows for part in parts if part is not None)


def _parts(run: Path, names: Sequence[str], notes: list[str], cell: Mapping[str, Any]) -> pa.Table | None:
    """Read the rows of a cell that are there; a damaged part is noted and left out."""
    tables = []
    for unit in cell["units"]:
        if part_path(run, unit).is_symlink():
            notes.append(f"part-{unit}.parquet is a link, and links are not followed.")
            continue
        try:
            table = read_columns(run, unit, names)
        except ValueError as error:
            notes.append(f"{error}; evaluate again as before to compute it anew.")
            continue
        if table is not None:
            tables.append(table)
    return pa.concat_tables(tables, promote_options="default") if tables else None


def _write_answers(queries: Ragged, part: pa.Table, path: Path) -> bool:
    """Write the predictions of a cell as one array over all queries; False if they do not fit the testbed."""
    tasks: Ints = part["task"].to_numpy()
    lists = part["prediction"].combine_chunks()
    lengths = lists.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    if len(tasks) and (tasks.min() < 0 or tasks.max() >= len(queries)):
        return False
    if not np.array_equal(lengths, queries.lengths[tasks]):
        return False
    flat = np.full(len(queries.values), -1, np.int16)
    flat[queries.indices(tasks)] = lists.flatten().to_numpy(zero_copy_only=False)
    np.save(path, flat, allow_pickle=False)
    return True


def _series(results: Results, cells: list[dict[str, Any]]) -> list[SeriesColumn]:
    """List the series of a testbed, each with a short name of its own: method, ``@``, backbone."""
    shorts: dict[str, int] = {}
    series = []
    for cell in cells:
        short = f"{_word(_method(cell['method']))}@{_word(cell['backbone'])}"
        shorts[short] = shorts.get(short, 0) + 1
        name = short if shorts[short] == 1 else f"{short}.{shorts[short]}"
        facts = results.run["methods"][cell["method"]]
        series.append(
            SeriesColumn(
                name,
                cell["backbone"],
                cell["method"],
                str(facts["setting"]),
                int(cell["seed"]),
                str(facts.get("kind", "frozen")),
            )
        )
    return series


def _method(call: str) -> str:
    try:
        return parse_call(call)[0]
    except UserError:
        return call


def _word(text: str) -> str:
    """Turn text into a name that a filter can mention without quotes."""
    plain = "".join(letter if letter.isalnum() or letter in "-_./+" else "-" for letter in text)
    return plain.strip("-")[-40:] or "unnamed"


def task_columns(table: pa.Table) -> dict[str, Any]:
    """Extract the columns for a list of tasks: dataset, way, shot, queries, what was measured."""
    shots, queries = ragged(table, "shots"), ragged(table, "query_label")
    sums = np.add.reduceat(np.append(shots.values, 0), shots.offsets[:-1])[: len(shots)]
    columns: dict[str, Any] = {
        "task": table["task"].to_numpy(),
        "dataset": table["dataset"].combine_chunks().cast(pa.string()),
        "way": table["way"].to_numpy().astype(np.int64),
        "shot": sums / np.maximum(shots.lengths, 1),
        "queries": queries.lengths,
    }
    for name in table.column_names:
        kind = table.schema.field(name).type
        if name in columns or name in STANDARD:
            continue
        if pa.types.is_integer(kind) or pa.types.is_floating(kind):
            columns[name] = table[name].cast(pa.float64()).fill_null(float("nan")).to_numpy()
        elif pa.types.is_string(kind) or pa.types.is_boolean(kind):
            columns[name] = table[name].cast(pa.string())
    return columns


def _columns_of_rows(parts: list[pa.Table], size: int) -> dict[str, Any]:
    """Derive the same columns from result rows alone, where the testbed is gone."""
    columns: dict[str, Any] = {"task": np.arange(size)}
    names: NDArray[Any] = np.full(size, "", object)
    numbers = {"way": np.full(size, np.nan), "shot": np.full(size, np.nan), "coarsity": np.full(size, np.nan)}
    for part in parts:
        tasks = part["task"].to_numpy()
        names[tasks] = part["dataset"].to_pylist()
        for name, source in (("way", "way"), ("shot", "mean_shot"), ("coarsity", "coarsity")):
            numbers[name][tasks] = part[source].cast(pa.float64()).to_numpy(zero_copy_only=False)
    return {**columns, "dataset": pa.array(names.tolist(), pa.string()), **numbers}


def write_table(path: Path, table: pa.Table) -> None:
    """Write a table so that it can be read through a memory map."""
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


def open_table(path: Path) -> pa.Table:
    """Open a table that ``write_table`` wrote, without a copy in memory."""
    with pa.memory_map(str(path)) as source:
        return pa.ipc.open_file(source).read_all()
