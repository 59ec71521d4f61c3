"""``longshot doctor``: what is installed here, what that lets you do, and whether it computes right."""

from __future__ import annotations

import sys
from typing import Any

import click

from longshot.cli.common import FILE, PATH, print_table, shared


@click.command()
@click.option(
    "--selftest",
    is_flag=True,
    help="Let every method, selection, engine and training step compute on the device, and compare with the CPU.",
)
@shared("device")
@click.option(
    "-o",
    "--report",
    type=FILE,
    help="Where the self-test writes its report, to be sent.  [default: longshot-selftest.json]",
)
@shared("force")
@click.option(
    "--on",
    metavar="ray|ray://HOST:PORT",
    help="Look at a Ray cluster instead: nodes, resources, versions, processors, what they can read.",
)
@click.option("--dataset", metavar="DATASET", help="With --on: whether every node can read its images.")
@click.option("--out", type=PATH, metavar="FOLDER", help="With --on: whether results can be written there.")
@shared("json")
def command(selftest: bool, on: str | None, as_json: bool, **settings: Any) -> None:
    """Show what is installed, which extras work, the device, the cache and the sandbox.

    With --selftest: whether the device gives the numbers of the CPU in double precision. The exit code is 1 where not.

    \b
    Examples:
      longshot doctor
      longshot doctor --selftest --device cuda
      longshot doctor --on ray://head:10001 --dataset ./my_photos

    With --on the exit code is 1 where a node would compute other bytes, or nothing can be written.
    """
    import longshot

    rows = longshot.doctor(selftest=selftest, on=on, **settings)
    print_table(rows, as_json=as_json)
    if (selftest and rows[-1]["state"] != "ok") or (on and any(row["state"] == "refused" for row in rows)):
        sys.exit(1)
