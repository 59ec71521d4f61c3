"""``longshot inspect`` and ``score``: describe and check a testbed, and score predictions made on it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from longshot.base import (
    COUNT,
    FILE,
    FILE_PLACE,
    PLACE,
    datasets_option,
    echo_json,
    print_table,
    print_written,
    shared,
)


@click.command()
@click.argument("testbed", metavar="FILE", type=PLACE)
@click.option(
    "--verify", is_flag=True, help="Check every class and image against the dataset; reads the images again."
)
@click.option("--sample", type=COUNT, help="With --verify: read only so many images of each dataset.")
@datasets_option("Where a dataset of the testbed lives; default: where it was last seen.")
@shared("taxonomy", "reduction")
@click.option(
    "--html", type=FILE_PLACE, metavar="FILE", help="Also write a page with plots and task pictures."
)
@shared("force")
@click.option(
    "--pictures",
    type=click.IntRange(min=0),
    help="With --html: how many tasks of each kind to show as pictures. [2]",
)
@shared("json")
def inspect_command(
    testbed: Path | str, verify: bool, html: Path | str | None, as_json: bool, **settings: Any
) -> None:
    """Describe a testbed: its origin, its classes, ways and shots, and what was measured.

    \b
    Examples:
      longshot sample toybox -o easy.parquet
      longshot inspect easy.parquet --verify
      longshot inspect easy.parquet --html easy.html
      longshot inspect easy.parquet --reduction shortest-paths

    The content hash is checked in any case; --verify also checks each image and class against the dataset, says how
    many images it compared by their bytes or by name only, and which changed or are missing. --html writes one
    self-contained page: the histograms as plots, and the finest and the coarsest tasks (with selected images the
    hardest and the easiest) and some random ones as pictures.

    \b
    Exit codes of --verify:
      0  every image that was checked has the bytes that the testbed was drawn from
      2  a mistake in the input
      3  images changed, or the testbed does not fit the dataset
      4  images are missing
      5  the dataset has new images
      7  as far as names tell: the testbed was drawn with --identity names
    """
    import longshot
    from longshot.base import is_stream
    from longshot.tasks import EXIT_CODES

    inspection = longshot.inspect(testbed, verify=verify, html=html, **settings)
    if as_json:
        here = html is not None and not (isinstance(html, str) or is_stream(html))
        page = {} if html is None else {"html": str(Path(html).resolve() if here else html)}
        echo_json({**inspection.facts, **page})
    else:
        click.echo(f"{inspection}\n")
        for check in inspection.images if verify else ():
            click.echo(f"{check.dataset}: {check}")
        if verify and not inspection.findings:
            click.echo("verified: content hash, fingerprints, and every class and image name of every task")
        if html is not None:
            print_written(html)
    for finding in inspection.findings or ():
        click.echo(f"differs: {finding}", err=True)
    if code := EXIT_CODES[inspection.outcome]:
        sys.exit(code)


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
def score_command(
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
