"""``longshot verify``: check a copy of a release against its hashes and one's own images."""

from __future__ import annotations

import json
from pathlib import Path

import click

from longshot.cli.common import datasets_option, json_option, print_table
from longshot.core.errors import UserError


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@datasets_option("Where a source lives; default: where this machine saw it last.")
@json_option
def command(folder: Path, datasets: dict[str, str], as_json: bool) -> None:
    """Check a release: every file against its hash, every task against your images. Exit code 2 if something differs.

    \b
    Example:
      longshot verify hard-toybox
      longshot verify hard-toybox --dataset birds=./birds
    """
    import longshot

    checks = longshot.verify(folder, datasets=datasets)
    problems = [check for check in checks if check.template]
    rows = [(check.subject, check.problem) for check in checks]
    if as_json:
        click.echo(json.dumps([{"what": subject, "problem": problem} for subject, problem in rows], indent=2))
    else:
        print_table(
            [{"checked": subject, "found": problem or "as it should be"} for subject, problem in rows]
        )
    if problems:
        raise UserError(
            f"The release {folder} differs in {len(problems)} of {len(checks)} points, first: {problems[0].subject}: "
            f"{problems[0].template.rstrip('.')}."
        )
