"""``longshot doctor`` and ``cache``: what is installed here and computes right, and what is kept on disk."""

from __future__ import annotations

import sys
import time
from typing import Any

import click

from longshot.base import UserError, dry_run_option, echo_json, json_option, print_table, verb_options


@click.command()
@verb_options("doctor", {"report": {"flags": ["-o", "--report"]}, "out": {"flags": ["--out"]}})
@json_option
def doctor_command(selftest: bool, on: str | None, as_json: bool, **settings: Any) -> None:
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


@click.group(invoke_without_command=True)
@json_option
@click.pass_context
def cache_command(context: click.Context, as_json: bool) -> None:
    """Show and prune what Longshot keeps on disk.

    \b
    Example:
      longshot cache
      longshot cache prune --features --older-than 30
    """
    if context.invoked_subcommand is None:
        context.invoke(show, as_json=as_json)


@cache_command.command()
@json_option
def show(as_json: bool) -> None:
    """Show sizes by kind, and the largest entries.

    \b
    Example:
      longshot cache show --json
    """
    from longshot.base import own_cache
    from longshot.models import cache_entries

    stored = cache_entries()
    totals: list[dict[str, Any]] = []
    for kind in sorted({entry.kind for entry in stored}):
        sizes = [entry.bytes for entry in stored if entry.kind == kind]
        totals.append({"kind": kind, "entries": len(sizes), "bytes": sum(sizes)})
    if as_json:
        listed = [{"kind": e.kind, "name": e.name, "bytes": e.bytes, "used": e.used} for e in stored]
        echo_json({"path": str(own_cache()), "kinds": totals, "entries": listed})
        return
    click.echo(f"{own_cache()}: {_size(sum(entry.bytes for entry in stored))}")
    if stored:
        print_table([{**row, "bytes": _size(row["bytes"])} for row in totals])
        click.echo()
        now = time.time()
        print_table(
            [
                {
                    "kind": entry.kind,
                    "size": _size(entry.bytes),
                    "last used": f"{max(now - entry.used, 0) / 86400:.0f} days ago",
                    "entry": entry.name,
                }
                for entry in stored[:20]
            ],
            title="largest entries",
        )


@cache_command.command()
@click.option(
    "--older-than", type=click.FloatRange(min=0), metavar="DAYS", help="Only what was not used for DAYS."
)
@click.option("--features", "chosen", flag_value="features", help="Features, finished and unfinished.")
@click.option("--scans", "chosen", flag_value="scans", help="Remembered scans of folders.")
@click.option("--remote", "chosen", flag_value="remote", help="Copies of what lies at URLs.")
@click.option("--all", "chosen", flag_value="all", help="Everything but the list of datasets.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@dry_run_option
@json_option
def prune(older_than: float | None, chosen: str | None, yes: bool, dry_run: bool, as_json: bool) -> None:
    """Delete entries; everything deleted can be made again by the command that made it.

    \b
    Example:
      longshot cache prune --features --older-than 30 --dry-run
    """
    from longshot.models import prunable_entries
    from longshot.models import prune_cache as delete

    if chosen is None and older_than is None:
        raise UserError("Say what to delete: --features, --scans, --remote, --all, or --older-than DAYS.")
    entries = prunable_entries(None if chosen == "all" else chosen, days=older_than or 0.0)
    total = sum(entry.bytes for entry in entries)
    if not as_json:
        print_table([{"kind": e.kind, "size": _size(e.bytes), "entry": e.name} for e in entries])
    if dry_run or not entries:
        freed, verb = 0, "would free"
    else:
        if not yes and not _agreed(f"Delete {len(entries)} entries, {_size(total)}?"):
            raise UserError("Nothing was deleted; answer y, or add --yes where no one can answer.")
        freed, verb = delete(entries), "freed"
    if as_json:
        echo_json({"entries": [e.name for e in entries], "bytes": total, "freed": freed, "dry_run": dry_run})
    else:
        click.echo(f"{verb} {_size(total if dry_run else freed)} in {len(entries)} entries")


def _agreed(question: str) -> bool:
    try:
        return click.confirm(question, err=True)
    except click.Abort:  # nobody is there, or Ctrl-C
        click.echo(err=True)
        return False


def _size(count: int) -> str:
    return f"{count / 1e9:,.2f} GB" if count >= 1e9 else f"{count / 1e6:,.1f} MB"
