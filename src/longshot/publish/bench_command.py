"""``longshot bench``: one command, one card."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from longshot.cli import COUNT, PATH, datasets_option, echo_json, print_table, shared, sheet_rows


@click.command()
@click.argument("models", nargs=-1, metavar="[MODEL]…")
@click.option(
    "--suite",
    multiple=True,
    metavar="SUITE",
    help="A suite or release folder, or a testbed file; repeat for several testbeds.  [default: toybox-1]",
)
@click.option(
    "--method",
    "methods",
    multiple=True,
    metavar="METHOD",
    help="In place of the suite's methods; repeat for several.",
)
@click.option(
    "-o",
    "--out",
    type=PATH,
    help="Folder for the run, card.json, card.md, card.html and the leaderboard; nothing is kept without it.",
)
@click.option(
    "--board",
    type=PATH,
    metavar="FILE",
    help="The leaderboard to extend.  [default: leaderboard.json in the folder]",
)
@click.option(
    "--merge",
    multiple=True,
    type=PATH,
    metavar="FILE",
    help="Another leaderboard of the same suite, whose entries are taken over; repeat for several.",
)
@datasets_option()
@click.option("--workers", type=COUNT, help="Threads; they change no result.")
@shared("device", "engine", "on", "gpus_per_worker", "retry_failed", "json")
def command(
    models: tuple[str, ...], out: Path | None, board: Path | None, as_json: bool, **settings: Any
) -> None:
    """Measure MODELs (backbones, or NAME=BACKBONE) on a suite: a card, and a place on a leaderboard.

    \b
    Example:
      longshot bench pixels -o bench
      longshot bench efficientnet-lite0 --method tim -o bench
      longshot bench mine=runs/proto --suite hard-birds -o bench-birds
      longshot bench --merge theirs.json -o bench

    A suite is a versioned list of testbeds with their content hashes, and methods. The card tells uniform,
    fine-grained and difficult tasks apart, marks a network that chose a testbed's images, and says what it costs. A
    leaderboard keeps the accuracy of every task, so that boards of several people can be merged and tested.
    """
    import longshot

    card = longshot.bench(models, out=out, board=board, **settings)
    if as_json:
        echo_json(card.record())
        return
    if card.entries:
        print_table(card.rows(), title=f"{card.title}: accuracy in %")
    sheet = card.board_sheet()
    where = "Nothing was kept: name a folder with -o."
    if out is not None:
        where = f"{out}: card.html, card.md, card.json; board: {board or out / 'leaderboard.json'}"
    print_table(
        sheet_rows(sheet, _MARKS), title="leaderboard", footer=f"\n{sheet.note.replace('Bold', '*')}\n{where}"
    )


_MARKS = {"best": " *", "tied": " ="}  # a terminal has no bold in a pipe
