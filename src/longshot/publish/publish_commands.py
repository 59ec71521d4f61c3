"""``longshot release`` and ``longshot verify``: publish testbeds, and check a copy of them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from longshot.base import PATH, PLACE, count, echo_json, json_option, print_table, verb_options
from longshot.reports import terminal


@click.command()
@click.argument("testbeds", nargs=-1, required=True, metavar="TESTBED…", type=PLACE)
@verb_options("release", {"citation": {"default": None}})
@json_option
def release_command(
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


@click.command()
@click.argument("folder", type=PATH)
@verb_options("verify")
@json_option
def verify_command(folder: Path, as_json: bool, **settings: Any) -> None:
    """Check a release: every file against its hash, every task against your images, which are read again.

    \b
    Example:
      longshot verify hard-toybox
      longshot verify hard-toybox --dataset birds=./birds

    It says how many images were the same by bytes, by pixels or by name only, and which changed, are missing or are
    new. Images may have other names and lie in another layout: they are found by content.

    \b
    Exit codes (of several the first):
      3  something changed: a file of the release, an image, or the class of one
      4  something is missing: a file, a source or an image
      5  something is new: a file or an image that the release does not name
      6  images are encoded anew, with the same pixels
      7  as far as names tell: the release vouches for the names of images only
      0  all is as it was
      2  a mistake in the input
    """
    import longshot
    from longshot.tasks import EXIT_CODES, worst_outcome

    checks = longshot.verify(folder, **settings)
    problems = [check for check in checks if check.template]
    if as_json:
        echo_json(
            [
                {
                    "what": check.subject,
                    "problem": check.problem,
                    "outcome": check.outcome,
                    **({"images": check.images.record()} if check.images else {}),
                }
                for check in checks
            ]
        )
    else:
        print_table(
            [{"checked": check.subject, "found": check.problem or "as it should be"} for check in checks]
        )
        for check in checks:
            if check.images is not None:
                click.echo(f"{check.images.dataset}: {check.images}")
    if problems:
        worst_problem = next(
            check for check in problems if check.outcome == worst_outcome(other.outcome for other in problems)
        )
        click.echo(
            f"The release {folder} differs in {len(problems)} of {len(checks)} points, first: "
            f"{worst_problem.subject}: {worst_problem.problem.rstrip('.')}.",
            err=True,
        )
    if code := EXIT_CODES[worst_outcome(check.outcome for check in checks)]:
        sys.exit(code)


# ``longshot bench``: one command, one card.


@click.command()
@click.argument("models", nargs=-1, metavar="[MODEL]…")
@verb_options("bench", {"suite": {"type": None}})
@json_option
def command(
    models: tuple[str, ...], out: Path | None, leaderboard: Path | None, as_json: bool, **settings: Any
) -> None:
    """Measure MODELs (backbones, or NAME=BACKBONE) on a suite: a card, and a place on a leaderboard.

    \b
    Example:
      longshot bench pixels -o bench
      longshot bench efficientnet-lite0 --method tim -o bench
      longshot bench mine=runs/proto --suite hard-birds -o bench-birds
      longshot bench efficientnet-lite0 --suite hard-photos-1 -o bench
      longshot bench --suite hard-photos-1 --board
      longshot bench --merge theirs -o bench

    A suite is a versioned list of testbeds with their content hashes, and methods. The card tells uniform,
    fine-grained and difficult tasks apart, marks a network that chose a testbed's images, and says what it costs. A
    leaderboard keeps the accuracy of every task, so that boards of several people can be merged and tested.
    """
    import longshot

    card = longshot.bench(models, out=out, leaderboard=leaderboard, **settings)
    if settings["export"] is not None:
        click.echo(f"{settings['export']}: CSV, Parquet, croissant.json, load_suite.py; card in README.md")
        return
    if as_json:
        echo_json(card.record())
        return
    shown = card.summary()
    if card.entries:
        click.echo(f"{terminal(shown.sheet())}\n")
    where = "Nothing was kept: name a folder with -o."
    if out is not None:
        where = f"{out}: card.html, card.md, card.json; board: {leaderboard or out / card.board_file}"
    for sheet in (shown.board_sheet, *([] if card.entries else card.agreements)):
        click.echo(f"{terminal(sheet)}\n")
    click.echo(where)
