"""``longshot score``: validate and score predictions that other people's code made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from longshot.cli.common import FILE, PLACE, echo_json, print_table, shared


@click.command()
@click.argument("predictions", metavar="FILE", type=PLACE)
@click.argument("testbed", type=PLACE)
@click.option(
    "--against",
    type=PLACE,
    metavar="RUN",
    help="Also compare, task by task, with what this run holds on the same testbed.",
)
@click.option("-o", "--out", type=FILE, help="Write the scores per task (.parquet or .csv).")
@shared("force", "json")
def command(
    predictions: Path, testbed: Path, against: Path | None, out: Path | None, force: bool, as_json: bool
) -> None:
    """Score the predictions in FILE on TESTBED: a testbed file, or the folder of a release or run that holds it.

    \b
    Example:
      longshot score predictions.parquet my-benchmark/
      longshot score predictions.parquet difficult.parquet --against runs/first

    Nothing but the predictions is needed: every task and every query is checked first, then means come with their
    95 % intervals, overall and per dataset. docs/howto/releases.md says how to write FILE in three lines.
    """
    import longshot

    scores = longshot.score(predictions, testbed, against=against, out=out, force=force)
    if as_json:
        echo_json(scores.record())
        return
    print_table([_mean_row(row) for row in scores.means])
    if scores.paired:
        click.echo()
        print_table(
            [_pair_row(row) for row in scores.paired], title=f"'{scores.name}' minus what {against} holds"
        )
    if not scores.checked:
        click.echo(
            "\nThe file names no testbed: only the numbers of tasks and queries could be checked against it."
        )


def _mean_row(row: dict[str, Any]) -> dict[str, Any]:
    from longshot.evaluation import SCORES

    shown = {key: row[key] for key in ("predictions", "dataset", "tasks")}
    for metric, title in zip(SCORES, ("accuracy %", "balanced %", "normalized %"), strict=True):
        half = row[f"{metric}_half"]
        shown[title] = f"{100 * row[metric]:.2f}" + ("" if half is None else f" ± {100 * half:.2f}")
    return shown


def _pair_row(row: dict[str, Any]) -> dict[str, Any]:
    half = row["half"]
    return {
        "against": row["against"],
        "its accuracy %": f"{100 * row['its_accuracy']:.2f}",
        "difference": f"{100 * row['difference']:+.2f}" + ("" if half is None else f" ± {100 * half:.2f}"),
        "wins %": f"{100 * row['wins']:.0f}",
        "losses %": f"{100 * row['losses']:.0f}",
        "p (Holm)": f"{row['p_holm']:.3g}",
    }
