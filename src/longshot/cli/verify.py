"""``longshot verify``: check a copy of a release against its hashes and one's own images."""

from __future__ import annotations

import json
from pathlib import Path

import click

from longshot.cli.common import json_option, print_table
from longshot.core.errors import UserError


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--dataset",
    "datasets",
    multiple=True,
    metavar="NAME=PATH",
    help="Where a source lives; default: where this machine saw it last.",
)
@json_option
def command(folder: Path, datasets: tuple[str, ...], as_json: bool) -> None:
    """Check a release: every file against its hash, every task against your images. Exit code 2 when something
    differs.

    \b
    Example:
      longshot verify hard-toybox
      longshot verify hard-toybox --dataset birds=./birds
    """
    from longshot.datasets.registry import parse_dataset_options
    from longshot.releases.verify import verify_release

    findings = verify_release(folder, parse_dataset_options(datasets))
    problems = [one for one in findings if one.problem]
    if as_json:
        click.echo(json.dumps([{"what": one.what, "problem": one.problem} for one in findings], indent=2))
    else:
        print_table([{"checked": one.what, "found": one.problem or "as it should be"} for one in findings])
    if problems:
        raise UserError(
            f"The release {folder} differs in {len(problems)} of {len(findings)} points, first: {problems[0].what}: "
            f"{problems[0].problem.rstrip('.')}."
        )
