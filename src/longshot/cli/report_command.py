"""``longshot report``: a page or a table from the results of runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from longshot.cli.common import FILE_PLACE, PATH, PLACE, datasets_option, print_written, shared


@click.command()
@click.argument("runs", nargs=-1, required=True, type=PLACE, metavar="RUN...")
@click.option(
    "-o",
    "--out",
    type=FILE_PLACE,
    help="File or URL to write, - for the screen. [default: report.html; the screen for the other formats]",
)
@shared("force")
@click.option(
    "--format",
    type=click.Choice(["html", "md", "csv", "latex", "json"]),
    help="A whole page, or the table alone. [default: by the file's ending, else html]",
)
@click.option(
    "--pictures",
    type=click.IntRange(min=0),
    default=2,
    help="How many of the hardest and of the easiest tasks to show per testbed.",
)
@click.option(
    "--focus", metavar="TEXT", help="Choose and mark those tasks by the series with TEXT in its name."
)
@datasets_option("Where the images of a dataset are now.")
@click.option(
    "--layout",
    type=click.Choice(["plain", "quartiles", "ways", "cost"]),
    default="plain",
    help="Of md and latex tables. As in the semantic-sampling paper, quartiles: by coarsity (its tables 1 and 2), "
    "ways: by the number of classes, top-1 and top-5 (its table 3). cost: time per task beside accuracy.",
)
@click.option(
    "--published", metavar="PAPER", help="Put a paper's own numbers beside, marked as published: semantic."
)
@click.option(
    "--training",
    multiple=True,
    type=PATH,
    metavar="FOLDER",
    help="Folder of 'longshot train' whose learning curves to show; may be given several times.",
)
@click.option("--title", help="Heading of the page.")
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
def command(
    runs: tuple[Path, ...], out: Path | None, format: str | None, as_json: bool, **settings: Any
) -> None:
    """Write one self-contained page, or the table alone, from the results of one or several runs.

    \b
    Example:
      longshot sample toybox --tasks 100 --way 5 --shot 5 --query 10 -o easy.parquet
      longshot evaluate easy.parquet --backbone pixels --method protonet -o runs/first
      longshot report runs/first -o report.html
      longshot report runs/first --format latex
      longshot report runs/first --format md --layout quartiles --published semantic

    A RUN is a folder, or the URL of one, such as s3://bucket/runs/first.
    """
    import longshot

    format = "json" if as_json else format
    target: Path | str = out or ("report.html" if format in (None, "html") else "-")
    written = longshot.report(runs, target, format=format, **settings)
    if str(target) != "-":
        print_written(written)
