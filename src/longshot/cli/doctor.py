"""``longshot doctor``: what is installed here, what that lets you do, and whether it computes right."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from longshot.cli.common import FILE, PATH, device_option, force_option, json_option, print_table


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
@force_option
@click.option(
    "--on",
    metavar="ray|ray://HOST:PORT",
    help="Look at a Ray cluster instead: nodes, resources, versions, processors, what they can read.",
)
@click.option("--dataset", metavar="DATASET", help="With --on: whether every node can read its images.")
@click.option("--out", type=PATH, metavar="FOLDER", help="With --on: whether results can be written there.")
@json_option
def command(
    selftest: bool,
    device: str,
    report: Path | None,
    force: bool,
    on: str | None,
    dataset: str | None,
    out: Path | None,
    as_json: bool,
) -> None:
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

    rows = longshot.doctor(
        selftest=selftest, device=device, report=report, force=force, on=on, dataset=dataset, out=out
    )
    print_table(rows, as_json=as_json)
    if (selftest and rows[-1]["state"] != "ok") or (on and any(row["state"] == "refused" for row in rows)):
        sys.exit(1)
