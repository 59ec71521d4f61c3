"""``score``: means of other people's predictions on a testbed, and how they stand against a run."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from longshot.base import Kind, UserError, claim_output, delivered, has_columns, has_parquet, local_copy
from longshot.evaluation.predictions import SCORES, Predictions, read_predictions, score_predictions
from longshot.evaluation.results import Results, cell_rows
from longshot.evaluation.verdicts import RunSeries
from longshot.statistics import compare_many, holm, mean_interval
from longshot.tasks import Testbed


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
        """All but the rows per task as plain values, for JSON."""
        return {"testbed": self.testbed, "checked": self.checked, "scores": self.means, "paired": self.paired}


_KIND = Kind(
    "table of scores",
    {".parquet": has_parquet("longshot_scores"), ".csv": has_columns("task", "dataset", "way", *SCORES)},
)


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
    against : path or URL, or Results, optional
        Compare with what this run holds on the same testbed, task by task.
    out : path, optional
        Write the scores per task (.parquet or .csv); ``"-"`` is the screen.
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
    ending = None if out is None else claim_output(out, _KIND, force=force)
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


def find_testbed(path: Path, predictions: Predictions) -> Testbed:
    """The testbed in the file ``path``, or the one in the folder ``path`` that the predictions name."""
    if not path.is_dir():
        return Testbed.load(path)
    files = sorted((path / "testbeds").glob("*.parquet"))
    if not files:
        raise UserError(
            f"{path} holds no testbeds/*.parquet", "give a testbed file, or the folder of a release or a run"
        )
    beds = [Testbed.load(file) for file in files]
    if predictions.testbed is None:
        if len(beds) > 1:
            raise UserError(
                f"{path} holds {len(beds)} testbeds and the predictions '{predictions.name}' name none",
                f"give one of {', '.join(file.name for file in files[:5])}",
            )
        return beds[0]
    for bed in beds:
        if bed.content_hash == predictions.testbed:
            return bed
    raise UserError(
        f"The predictions '{predictions.name}' are for the testbed {predictions.testbed[:12]}…, which is none of the "
        f"{len(beds)} in {path}",
        "give the folder they were made on",
    )


def _means(predictions: Predictions, table: pa.Table) -> list[dict[str, Any]]:
    """Means with intervals over all tasks, then per dataset where there are several."""
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
    """The predictions against every series of a run on the same testbed, paired by task, Holm-corrected."""
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
    import pyarrow.csv as pacsv
    import pyarrow.parquet as pq

    with delivered(out) as temporary:
        if ending == ".parquet":
            marked = table.replace_schema_metadata({"longshot_scores": "{}"})
            pq.write_table(marked, temporary)
        else:
            pacsv.write_csv(table, temporary)
