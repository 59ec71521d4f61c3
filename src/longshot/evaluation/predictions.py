"""Other people's predictions on a testbed: read, checked, scored and set against a run; none of their code is needed.

The file is Parquet with the testbed's content hash in its metadata and one row per task: ``task`` int, ``prediction``
list<int16> (for every query, in the order of the testbed, a position in the task's ``classes``). A CSV, TSV or
Parquet table with one row per query (``task``, ``query``, ``prediction``) is read too; it names no testbed, so only
counts can be checked.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
from numpy.typing import ArrayLike

from longshot.base import (
    Ints,
    LooseRecord,
    OutputKind,
    Ragged,
    UserError,
    canonical_json,
    claim_output,
    delivered,
    has_columns,
    has_parquet,
    load_target,
    local_copy,
    read_parquet,
)
from longshot.evaluation.metrics import METRICS
from longshot.evaluation.results import Results, cell_rows
from longshot.evaluation.verdicts import RunSeries
from longshot.statistics import compare_many, holm, mean_interval, percent, plus_minus
from longshot.tasks import Testbed

_META_KEY = b"longshot"
_KIND = OutputKind("file of predictions", {".parquet": has_parquet("longshot", testbed=..., name=...)})
SCORES = tuple(name for name, facts in METRICS.items() if facts.of_counts)
_SCORES_FILE = OutputKind(
    "table of scores",
    {".parquet": has_parquet("longshot_scores"), ".csv": has_columns("task", "dataset", "way", *SCORES)},
)


class PredictionsMeta(LooseRecord):
    """What a file of predictions says about itself."""

    testbed: str | None = None  # content hash
    name: str | None = None


@dataclass(frozen=True, eq=False)
class Predictions:
    """Predicted positions per task; ``testbed`` is the content hash they are for, None where the file names none."""

    tasks: Ints  # [T] task numbers
    labels: Ragged  # int64, one row per task
    testbed: str | None
    name: str  # what made them


def write_predictions(
    path: str | os.PathLike[str],
    testbed: Testbed,
    predictions: Sequence[ArrayLike],
    *,
    name: str = "predictions",
    tasks: ArrayLike | None = None,
    force: bool = False,
) -> None:
    """Write predictions as a file that ``score`` reads.

    Parameters
    ----------
    path : path
        The Parquet file to write.
    testbed : Testbed
        What was predicted; its content hash goes into the file.
    predictions : sequence of arrays [queries]
        For every task the predicted positions in its ``classes``, query by query.
    name : str
        What made the predictions.
    tasks : array [T], optional
        The task numbers; all tasks of the testbed in order unless given.
    force : bool
        Replace what is there, even if it is no file of predictions that Longshot wrote.
    """
    claim_output(path, _KIND, force=force)
    numbers = np.arange(len(testbed)) if tasks is None else np.asarray(tasks, np.int64)
    if len(numbers) != len(predictions):
        raise UserError(
            f"There are predictions for {len(predictions):,} tasks and {len(numbers):,} task numbers",
            "give one of each",
        )
    lists = [np.asarray(row, np.int16) for row in predictions]
    table = pa.table(
        {"task": pa.array(numbers, pa.int64()), "prediction": pa.array(lists, pa.list_(pa.int16()))}
    )
    meta = {"testbed": testbed.content_hash, "name": name}
    with delivered(path) as temporary:
        pq.write_table(table.replace_schema_metadata({_META_KEY: canonical_json(meta)}), temporary)


def read_predictions(path: str | os.PathLike[str]) -> Predictions:
    """Read a file of predictions in either form (see the module); UserError where it is neither.

    Parameters
    ----------
    path : path
        Parquet with a row per task, or Parquet, CSV or TSV with a row per query.

    Returns
    -------
    Predictions
        Checked for gaps and kinds of numbers; :func:`check_predictions` checks them against a testbed.
    """
    file = local_copy(path)
    table = _read(file)
    absent = [name for name in ("task", "prediction") if name not in table.column_names]
    if absent:
        raise UserError(
            f"{file} has no column '{absent[0]}' (found: {', '.join(table.column_names) or 'none'}); predictions "
            "need 'task' and 'prediction', and 'query' where a row is one query."
        )
    try:
        meta = PredictionsMeta.model_validate_json((table.schema.metadata or {}).get(_META_KEY, b"{}"))
    except ValueError as error:
        raise UserError(f"The metadata of {file} is damaged", "write the predictions again") from error
    tasks = _whole(table["task"], "task", file)
    column = table["prediction"].combine_chunks()
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        if column.null_count:
            raise UserError(
                f"{file} has no prediction in {column.null_count:,} of {len(column):,} rows", "fill them in"
            )
        offsets = column.offsets.to_numpy().astype(np.int64)
        labels = Ragged(_whole(column.flatten(), "prediction", file), offsets - offsets[0])
    else:
        tasks, labels = _by_query(table, tasks, file)
    return Predictions(tasks, labels, meta.testbed, meta.name or file.stem)


def check_predictions(predictions: Predictions, testbed: Testbed) -> Ragged:
    """Return the predictions in the order of the testbed's tasks; UserError naming the first misfit."""
    title = f"The predictions '{predictions.name}'"
    if predictions.testbed is not None and predictions.testbed != testbed.content_hash:
        raise UserError(
            f"{title} are for the testbed {predictions.testbed[:12]}…, not for this one "
            f"({testbed.content_hash[:12]}…)",
            "give the testbed they were made on",
        )
    numbers = testbed.table.column("task").to_numpy()
    repeated = len(predictions.tasks) - len(np.unique(predictions.tasks))
    if repeated:
        raise UserError(f"{title} name {repeated:,} tasks more than once", "keep one row per task")
    foreign = np.setdiff1d(predictions.tasks, numbers)
    if len(foreign):
        raise UserError(
            f"{title} are for {len(foreign):,} tasks that the testbed does not have, such as task {foreign[0]}; it has "
            f"{len(numbers):,} tasks, numbered {numbers.min()} to {numbers.max()}."
        )
    missing = np.setdiff1d(numbers, predictions.tasks)
    if len(missing):
        raise UserError(
            f"{title} lack {len(missing):,} of {len(numbers):,} tasks, such as task {missing[0]}; a mean over other "
            "tasks cannot stand beside the others."
        )
    order = np.argsort(predictions.tasks, kind="stable")[np.argsort(np.argsort(numbers, kind="stable"))]
    labels = predictions.labels.take(order)
    needed = testbed.column("query_label").lengths
    wrong = np.flatnonzero(labels.lengths != needed)
    if len(wrong):
        task = wrong[0]
        raise UserError(
            f"{title} have {labels.lengths[task]:,} for task {numbers[task]}, which has {needed[task]:,} queries "
            f"({len(wrong):,} tasks differ)",
            "give one prediction per query, in the testbed's order",
        )
    ways = testbed.table.column("way").to_numpy().astype(np.int64)
    outside = np.flatnonzero((labels.values < 0) | (labels.values >= ways[labels.owners]))
    if len(outside):
        task = int(labels.owners[outside[0]])
        raise UserError(
            f"{title} hold {len(outside):,} of {len(labels.values):,} labels outside their task's classes, such as "
            f"{labels.values[outside[0]]} in task {numbers[task]} of {ways[task]} ways; labels are positions 0 to "
            "way − 1 in the task's classes."
        )
    return labels


def score_predictions(predictions: Predictions, testbed: Testbed) -> pa.Table:
    """Score predictions task by task, as ``evaluate`` would.

    accuracy = share of right queries; balanced = mean recall over the classes that occur among the queries;
    normalised = (balanced − 1/N) / (1 − 1/N) for N ways, 0 for N = 1. All tasks at once: two counts per (task, class).

    Parameters
    ----------
    predictions : Predictions
        Of every task of the testbed.
    testbed : Testbed
        The tasks with their right answers.

    Returns
    -------
    pyarrow.Table
        ``task``, ``dataset``, ``way``, and every metric that needs no scores, such as ``accuracy``; a row per task.
    """
    labels = check_predictions(predictions, testbed)
    truth = testbed.column("query_label")
    ways = testbed.table.column("way").to_numpy().astype(np.int64)
    tasks, width = len(ways), int(ways.max())
    cell = truth.owners * width + truth.values.astype(np.int64)
    right = (labels.values == truth.values).astype(np.float64)
    total = np.bincount(cell, minlength=tasks * width).reshape(tasks, width)
    hits = np.bincount(cell, right, minlength=tasks * width).reshape(tasks, width)
    formulas = {name: load_target(METRICS[name].target)() for name in SCORES}
    return pa.table(
        {
            "task": testbed.table.column("task"),
            "dataset": testbed.table.column("dataset").cast(pa.string()),
            "way": testbed.table.column("way"),
            **{name: metric.of_counts(hits, total, ways) for name, metric in formulas.items()},
        }
    )


def _read(file: Path) -> pa.Table:
    if not file.is_file():
        raise UserError(
            f"There is no file of predictions at {file}", "write one as docs/howto/releases.md shows"
        )
    try:
        if file.suffix.lower() in (".csv", ".tsv"):
            parse = pacsv.ParseOptions(delimiter="\t" if file.suffix.lower() == ".tsv" else ",")
            return pacsv.read_csv(file, parse_options=parse)
        table = read_parquet(file)
        table.validate(full=True)
    except (pa.ArrowException, OSError) as error:
        reason = str(error).split("\n")[0].rstrip(".")
        raise UserError(f"{file} cannot be read as a table of predictions: {reason}.") from error
    return table


def _whole(values: pa.Array | pa.ChunkedArray, column: str, file: Path) -> Ints:
    """Return a column of whole numbers without gaps, [N]."""
    if not pa.types.is_integer(values.type):
        raise UserError(
            f"Column '{column}' of {file} holds {values.type}; it must hold whole numbers, or lists of them for "
            f"predictions."
        )
    if values.null_count:
        raise UserError(
            f"Column '{column}' of {file} is empty in {values.null_count:,} of {len(values):,} places",
            "fill them in",
        )
    numbers: Ints = values.to_numpy().astype(np.int64)
    return numbers


def _by_query(table: pa.Table, tasks: Ints, file: Path) -> tuple[Ints, Ragged]:
    """Gather rows of single queries into one row per task; query numbers run from 0 within a task."""
    labels = _whole(table["prediction"], "prediction", file)
    if "query" not in table.column_names:
        raise UserError(
            f"Column 'prediction' of {file} holds single numbers, so each row needs its 'query' (0, 1, … within "
            f"the task)."
        )
    queries = _whole(table["query"], "query", file)
    order = np.lexsort((queries, tasks))
    numbers, lengths = np.unique(tasks, return_counts=True)
    rows = Ragged.from_lengths(queries[order], lengths)
    wrong = np.flatnonzero(rows.values != rows.positions)
    if len(wrong):
        task = numbers[rows.owners[wrong[0]]]
        raise UserError(
            f"{file} has query {rows.values[wrong[0]]} in task {task} where query {rows.positions[wrong[0]]} is "
            "expected",
            "number the queries of a task 0, 1, 2 … without gaps or repeats",
        )
    return numbers.astype(np.int64), Ragged.from_lengths(labels[order], lengths)


@dataclass(frozen=True, eq=False)
class PredictionScores:
    """Scores of predictions: per task, as means, and against the series of a run."""

    name: str  # what made the predictions
    testbed: str  # content hash
    checked: bool  # whether the file names the testbed, so that more than counts could be checked
    table: pa.Table  # one row per task
    means: list[dict[str, Any]]  # over all tasks, then per dataset where there are several
    paired: list[dict[str, Any]]  # against every series of a run on the same testbed

    def record(self) -> dict[str, Any]:
        """Return all but the rows per task as plain values, for JSON."""
        return {"testbed": self.testbed, "checked": self.checked, "scores": self.means, "paired": self.paired}

    def mean_rows(self) -> list[dict[str, str]]:
        """Write the means as rows of a table, with half their intervals."""
        return [
            {key: row[key] for key in ("predictions", "dataset", "tasks")}
            | {METRICS[name].title: plus_minus(row[name], row[f"{name}_half"], digits=2) for name in SCORES}
            for row in self.means
        ]

    def pair_rows(self) -> list[dict[str, str]]:
        """Write what they are against every series as rows of a table."""
        return [
            {
                "against": row["against"],
                "its accuracy %": percent(row["its_accuracy"], 2),
                "difference": plus_minus(row["difference"], row["half"], "points", 2),
                "wins %": percent(row["wins"], 0),
                "losses %": percent(row["losses"], 0),
                "p (Holm)": f"{row['p_holm']:.3g}",
            }
            for row in self.paired
        ]


def score(
    predictions: str | os.PathLike[str] | Predictions,
    testbed: str | os.PathLike[str] | Testbed,
    *,
    against: str | os.PathLike[str] | Results | None = None,
    out: str | os.PathLike[str] | None = None,
    force: bool = False,
) -> PredictionScores:
    """Check and score predictions that other people's code made; nothing else of theirs is needed.

    Parameters
    ----------
    predictions : path or URL, or Predictions
        A file as ``write_predictions`` makes it, or a table with a row per query.
    testbed : path or URL, or Testbed
        A testbed, its file, or the folder of a release or run that holds it.
    against : RUN, path or URL, or Results, optional
        Also compare, task by task, with what this run holds on the same testbed.
    out : file, optional
        Write the scores per task (.parquet or .csv). ``"-"`` is the screen.
    force : bool
        Replace what is there, even if Longshot did not write it.

    Returns
    -------
    PredictionScores
        Accuracy, balanced and normalised accuracy with their 95 % intervals, overall and per dataset.

    Examples
    --------
    >>> score("predictions.parquet", "easy.parquet").means[0]["accuracy"]
    1.0
    """
    from longshot.evaluation.run_inputs import find_testbed

    ending = None if out is None else claim_output(out, _SCORES_FILE, force=force)
    read = predictions if isinstance(predictions, Predictions) else read_predictions(predictions)
    bed = testbed if isinstance(testbed, Testbed) else find_testbed(local_copy(testbed), read)
    table = score_predictions(read, bed)
    if out is not None:
        _write(table, out, ending)
    paired = []
    if against is not None:
        run = against if isinstance(against, Results) else Results(against)
        paired = _compare(table, bed, run)
    return PredictionScores(
        read.name, bed.content_hash, read.testbed is not None, table, _means(read, table), paired
    )


def _means(predictions: Predictions, table: pa.Table) -> list[dict[str, Any]]:
    """Compute means with intervals over all tasks, then per dataset where there are several."""
    names = sorted(table["dataset"].unique().to_pylist())
    parts = [("all", table)]
    if len(names) > 1:
        parts += [(name, table.filter(pc.equal(table["dataset"], name))) for name in names]
    rows = []
    for name, part in parts:
        row: dict[str, Any] = {"predictions": predictions.name, "dataset": name, "tasks": part.num_rows}
        for metric in SCORES:
            interval = mean_interval(part[metric].to_numpy())
            row[metric], row[f"{metric}_half"] = interval.mean, interval.half
        rows.append(row)
    return rows


def _compare(table: pa.Table, testbed: Testbed, run: Results) -> list[dict[str, Any]]:
    """Compare the predictions with every series of a run on the testbed: paired by task, Holm-corrected."""
    by_task = table.sort_by("task")
    measured = run.table()
    cells = [cell for cell in run.run["cells"] if cell["testbed"] == testbed.content_hash]
    series: dict[str, Any] = {}
    for cell in sorted(cells, key=lambda cell: (cell["backbone"], cell["method"], cell["seed"])):
        rows = cell_rows(measured, cell).sort_by("task")
        if rows["task"].equals(by_task["task"].cast(rows["task"].type)):
            name = str(RunSeries(cell["backbone"], cell["method"], cell["seed"]))
            series[name] = rows["accuracy"].to_numpy()
    if not series:
        raise UserError(
            f"The run {run.name} holds no finished results on the testbed {testbed.content_hash[:12]}…",
            "evaluate a method on it first, or leave {against} out",
        )
    own = by_task["accuracy"].to_numpy()
    compared = compare_many(np.stack(list(series.values()), 1), np.repeat(own[:, None], len(series), 1))
    corrected = holm([comparison.p for comparison in compared])
    return [
        {
            "against": name,
            "its_accuracy": comparison.mean_a,
            "difference": comparison.difference.mean,
            "half": comparison.difference.half,
            "wins": comparison.wins,
            "losses": comparison.losses,
            "p_holm": float(p),
        }
        for name, comparison, p in zip(series, compared, corrected, strict=True)
    ]


def _write(table: pa.Table, out: str | os.PathLike[str], ending: str | None) -> None:
    with delivered(out) as temporary:
        if ending == ".parquet":
            pq.write_table(table.replace_schema_metadata({"longshot_scores": "{}"}), temporary)
        else:
            pacsv.write_csv(table, temporary)
