"""``longshot verify``: check a copy of a release against its hashes and one's own images."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from longshot.cli import COUNT, PATH, datasets_option, echo_json, print_table, shared


@click.command()
@click.argument("folder", type=PATH)
@datasets_option("Where a source lives; default: where this machine saw it last.")
@click.option(
    "--pixels",
    is_flag=True,
    help="Compare images whose bytes differ by their pixels: says which copies are only encoded anew.",
)
@click.option("--sample", type=COUNT, help="Read only so many images of each source.")
@shared("json")
def command(folder: Path, as_json: bool, **settings: Any) -> None:
    """Check a release: every file against its hash, every task against your images, which are read again.

    \b
    Example:
      longshot verify hard-toybox
      longshot verify hard-toybox --dataset birds=./birds --pixels

    It says how many images were the same by bytes, by pixels or by name only, and which changed, are missing or are
    new.

    \b
    Exit codes (of several the first):
      3  something changed: a file of the release, an image, or the class of one
      4  something is missing: a file, a source or an image
      5  something is new: a file or an image that the release does not name
      6  images are encoded anew, with the same pixels (--pixels)
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
