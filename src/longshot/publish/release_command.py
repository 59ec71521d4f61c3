"""``longshot release``: publish testbeds with a card that others can check."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from longshot.base import count
from longshot.cli import PATH, PLACE, datasets_option, pairs_option, shared


@click.command()
@click.argument("testbeds", nargs=-1, required=True, metavar="TESTBED…", type=PLACE)
@click.option("-o", "--out", required=True, type=PATH, help="Folder to write; new or empty.")
@click.option("--title", required=True, help="What the benchmark is called.")
@click.option("--version", default="1.0", help="Its version.")
@click.option(
    "--run",
    "runs",
    multiple=True,
    type=PLACE,
    help="A run on these testbeds: its rows become the table of baselines; repeat for several.",
)
@click.option(
    "--licence", default="", show_default=False, help="Licence of the task lists, such as CC-BY-4.0."
)
@pairs_option(
    "--source-licence",
    "source_licences",
    "NAME=TEXT",
    "Licence of a source's images, for the card; repeat for several.",
)
@click.option("--citation", type=PATH, metavar="FILE", help="Text to cite, such as BibTeX.")
@click.option("--text", default="", show_default=False, help="A paragraph for the card.")
@click.option(
    "--author", "authors", multiple=True, help="Who publishes it, for croissant.json; repeat for several."
)
@click.option("--url", default="", show_default=False, help="Where it is published, for croissant.json.")
@click.option(
    "--published",
    default="",
    show_default=False,
    metavar="YYYY-MM-DD",
    help="On which day, for croissant.json.",
)
@datasets_option("Where a source lives, if not where it was before.")
@shared("json")
def command(
    testbeds: tuple[Path, ...], runs: tuple[Path, ...], citation: Path | None, as_json: bool, **settings: Any
) -> None:
    """Write a benchmark that others can use: the TESTBEDs, a card, hashes and a table of baselines.

    \b
    Example:
      longshot sample toybox --tasks 200 --instances difficult --backbone pixels -o hard.parquet
      longshot evaluate hard.parquet --backbone pixels --method protonet -o runs/hard
      longshot release hard.parquet --run runs/hard --title "Hard toybox" -o hard-toybox
      longshot verify hard-toybox

    The images themselves are not copied. 'longshot verify' tells others whether theirs are the same, 'longshot score'
    measures predictions from any code. datasets.load_dataset of Hugging Face opens the folder, mlcroissant its
    croissant.json.
    """
    import longshot

    folder = longshot.release(list(testbeds), runs=runs, citation=citation or "", **settings)
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    if as_json:
        click.echo(
            json.dumps({"folder": str(folder), "files": [str(path.relative_to(folder)) for path in files]})
        )
        return
    size = sum(path.stat().st_size for path in files) / 1e6
    tasks = sum(bed["tasks"] for bed in json.loads((folder / "release.json").read_text("utf-8"))["testbeds"])
    click.echo(
        f"{folder}: {count(testbeds, 'testbed')} with {tasks:,} tasks, {len(files)} files, {size:.2f} MB; card in "
        "README.md"
    )
    if not runs:
        click.echo("The card has no table of baselines; add one with --run RUN.")
