"""``longshot check``: from a folder of images to a verdict."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from longshot.base import echo_json, json_option, verb_options

if TYPE_CHECKING:
    from longshot.diagnosis.folder_check import Verdict

EXIT_CODES: dict[Verdict | None, int] = {None: 0, "passed": 0, "failed": 1, "undecided": 3}


@click.command()
@click.argument("dataset", metavar="FOLDER")
@verb_options("check", {"judge": {"flags": ["--judge"]}})  # -b is the network that is measured
@json_option
def check_command(dataset: str, out: Path | None, as_json: bool, **settings: Any) -> None:
    """Say how well a network tells the classes of FOLDER apart, and which it mixes up.

    \b
    Examples:
      longshot check toybox
      longshot check ./my_photos --need 0.9
      longshot check ./my_photos -b efficientnet-lite0 -b efficientnet-lite2 --shot 3

    Measured are random tasks, tasks of look-alike classes, tasks with difficult references, and all classes at once,
    each at the network's own resolution. The method that serves best is chosen on other tasks than those shown.

    \b
    Exit codes:
      0  what is needed is reached, or nothing was asked for
      1  it is not reached
      2  a mistake in the input
      3  undecided: the interval holds what is needed
    """
    import longshot
    from longshot.diagnosis.folder_check import PAGE_NAME

    folder = out or Path(f"{Path(dataset.rstrip('/')).stem or 'folder'}-check")
    checked = longshot.check(dataset, out=folder, **settings)
    page = folder / PAGE_NAME
    if as_json:
        echo_json({**checked.record(), "page": str(page)})
    else:
        click.echo(checked)
        click.echo(f"\n{page.resolve()}")
    if code := EXIT_CODES[checked.verdict]:
        sys.exit(code)
