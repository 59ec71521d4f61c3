"""``longshot score``: validate and score predictions that other people's code made."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from longshot.cli.common import json_option, print_table
from longshot.core.errors import UserError

if TYPE_CHECKING:
    import pyarrow as pa

    from longshot.evaluation.predictions import Predictions
    from longshot.testbeds.testbed import Testbed


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.argument("testbed", type=click.Path(path_type=Path))
@click.option(
    "--against",
    type=click.Path(path_type=Path),
    metavar="RUN",
    help="Also compare, task by task, with what this run holds on the same testbed.",
)
@click.option(
    "-o", "--out", type=click.Path(path_type=Path), help="Write the scores per task (.parquet or .csv)."
)
@json_option
def command(file: Path, testbed: Path, against: Path | None, out: Path | None, as_json: bool) -> None:
    """Score the predictions in FILE on TESTBED: a testbed file, or the folder of a release or run that holds it.

    \b
    Example:
      longshot score predictions.parquet my-benchmark/
      longshot score predictions.parquet difficult.parquet --against runs/first

    Nothing but the predictions is needed: every task and every query is checked first, then means come with their
    95 %
    intervals, overall and per dataset. docs/releases.md says how to write FILE in three lines.
    """
    from longshot.evaluation.predictions import read_predictions, score_predictions

    found = read_predictions(file)
    bed = _testbed(testbed, found)
    scores = score_predictions(found, bed)
    if out is not None:
        _write(scores, out)
    rows = _rows(found, scores)
    compared = [] if against is None else _compare(found, scores, bed, against)
    if as_json:
        shown = {
            "testbed": bed.content_hash,
            "checked": found.testbed is not None,
            "scores": rows,
            "paired": compared,
        }
        click.echo(json.dumps(shown, indent=2, ensure_ascii=False))
        return
    print_table([_shown(row) for row in rows])
    if compared:
        click.echo()
        print_table(
            [_shown_pair(row) for row in compared], title=f"'{found.name}' minus what {against} holds"
        )
    if found.testbed is None:
        click.echo(
            "\nThe file names no testbed: only the numbers of tasks and queries could be checked against it."
        )


def _testbed(place: Path, found: Predictions) -> Testbed:
    """The testbed itself, or the one in a folder that the predictions name."""
    from longshot.testbeds.testbed import Testbed

    if not place.is_dir():
        return Testbed.load(place)
    files = sorted((place / "testbeds").glob("*.parquet"))
    if not files:
        raise UserError(
            f"{place} holds no testbeds/*.parquet; give a testbed file, or the folder of a release or a run."
        )
    beds = [Testbed.load(path) for path in files]
    if found.testbed is None:
        if len(beds) > 1:
            raise UserError(
                f"{place} holds {len(beds)} testbeds and the predictions '{found.name}' name none; give one of "
                f"{', '.join(path.name for path in files[:5])}."
            )
        return beds[0]
    for bed in beds:
        if bed.content_hash == found.testbed:
            return bed
    raise UserError(
        f"The predictions '{found.name}' are for the testbed {found.testbed[:12]}…, which is none of the "
        f"{len(beds)} in "
        f"{place}; give the folder they were made on."
    )


def _rows(found: Predictions, scores: pa.Table) -> list[dict[str, Any]]:
    """Means with intervals over all tasks, then per dataset where there are several."""
    import pyarrow.compute as pc

    from longshot.evaluation.predictions import SCORES
    from longshot.statistics import mean_interval

    names = sorted(scores["dataset"].unique().to_pylist())
    parts = [("all", scores)]
    if len(names) > 1:
        parts += [(name, scores.filter(pc.equal(scores["dataset"], name))) for name in names]
    rows = []
    for name, part in parts:
        row: dict[str, Any] = {"predictions": found.name, "dataset": name, "tasks": part.num_rows}
        for metric in SCORES:
            interval = mean_interval(part[metric].to_numpy())
            row[metric], row[f"{metric}_half"] = interval.mean, interval.half
        rows.append(row)
    return rows


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    from longshot.evaluation.predictions import SCORES

    said = {key: row[key] for key in ("predictions", "dataset", "tasks")}
    for metric, title in zip(SCORES, ("accuracy %", "balanced %", "normalized %"), strict=True):
        half = row[f"{metric}_half"]
        said[title] = f"{100 * row[metric]:.2f}" + ("" if half is None else f" ± {100 * half:.2f}")
    return said


def _compare(found: Predictions, scores: pa.Table, testbed: Testbed, run: Path) -> list[dict[str, Any]]:
    """The predictions against every series of a run on the same testbed, paired by task, Holm-corrected."""
    import numpy as np
    import pyarrow.compute as pc

    from longshot.evaluation.results import Results
    from longshot.statistics import compare_many, holm

    results = Results(run)
    table = results.table().filter(pc.equal(results.table()["testbed"], testbed.content_hash))
    mine = scores.sort_by("task")
    series: dict[str, Any] = {}
    for backbone, method, seed in sorted(
        {tuple(r.values()) for r in table.select(["backbone", "method", "seed"]).to_pylist()}
    ):
        mask = pc.and_(pc.equal(table["backbone"], backbone), pc.equal(table["method"], method))
        rows = table.filter(pc.and_(mask, pc.equal(table["seed"], seed))).sort_by("task")
        if rows["task"].equals(mine["task"].cast(rows["task"].type)):
            named = f"{method} on {backbone}" + (f", seed {seed}" if seed else "")
            series[named] = rows["accuracy"].to_numpy()
    if not series:
        raise UserError(
            f"The run {run} holds no finished results on the testbed {testbed.content_hash[:12]}…; evaluate a "
            f"method on it "
            f"first, or leave --against out."
        )
    own = mine["accuracy"].to_numpy()
    compared = compare_many(np.stack(list(series.values()), 1), np.repeat(own[:, None], len(series), 1))
    corrected = holm([one.p for one in compared])
    return [
        {
            "against": named,
            "its_accuracy": one.mean_a,
            "difference": one.difference.mean,
            "half": one.difference.half,
            "wins": one.wins,
            "losses": one.losses,
            "p_holm": float(p),
        }
        for named, one, p in zip(series, compared, corrected, strict=True)
    ]


def _shown_pair(row: dict[str, Any]) -> dict[str, Any]:
    half = row["half"]
    return {
        "against": row["against"],
        "its accuracy %": f"{100 * row['its_accuracy']:.2f}",
        "difference": f"{100 * row['difference']:+.2f}" + ("" if half is None else f" ± {100 * half:.2f}"),
        "wins %": f"{100 * row['wins']:.0f}",
        "losses %": f"{100 * row['losses']:.0f}",
        "p (Holm)": f"{row['p_holm']:.3g}",
    }


def _write(scores: pa.Table, out: Path) -> None:
    import pyarrow.csv as pacsv
    import pyarrow.parquet as pq

    from longshot.core.files import atomic

    kind = out.suffix.lower()
    if kind not in (".parquet", ".csv"):
        raise UserError(
            f"Scores are written as .parquet or .csv, not as '{out.name}'; choose one of these endings."
        )
    with atomic(out) as temporary:
        (pq.write_table if kind == ".parquet" else pacsv.write_csv)(scores, temporary)
