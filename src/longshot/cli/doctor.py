"""``longshot doctor``: what is installed here, what that lets you do, and whether it computes right."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from longshot.cli.common import FILE, device_option, json_option, print_table


@click.command()
@click.option(
    "--selftest",
    is_flag=True,
    help="Let every method, selection, engine and training step compute on the device, and compare with the CPU.",
)
@device_option
@click.option(
    "-o",
    "--report",
    type=FILE,
    help="Where the self-test writes its report, to be sent.  [default: longshot-selftest.json]",
)
@json_option
def command(selftest: bool, device: str, report: Path | None, as_json: bool) -> None:
    """Show what is installed, which extras work, the device, the cache and the sandbox.

    With --selftest: whether the device gives the numbers of the CPU in double precision. The exit code is 1 where not.

    \b
    Examples:
      longshot doctor
      longshot doctor --selftest --device cuda
    """
    import longshot

    rows = longshot.doctor(selftest=selftest, device=device, report=report)
    print_table(rows, as_json=as_json)
    if selftest and rows[-1]["state"] != "ok":
        sys.exit(1)
