"""``longshot demo``, ``doctor`` and ``cache``: everything once, what is installed here, and what is kept on disk."""

from __future__ import annotations

import shlex
import sys
import time
from pathlib import Path
from typing import Any

import click

from longshot.base import FOLDER, UserError, dry_run_option, echo_json, json_option, print_table, verb_options


@click.command()
@verb_options("doctor", {"report": {"flags": ["-o", "--report"]}})
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


# ---- the demo


# Toybox's pictures are 84 pixels wide: at the network's own 224 they would cost seven times the time and tell it
# nothing new.
BACKBONES = ("pixels", "efficientnet-lite0(size=84)")


@click.command()
@click.option(
    "-o",
    "--out",
    type=FOLDER,
    default=Path("longshot-demo"),
    help="Folder for the testbeds, the results and the report.",
)
@click.option("-t", "--tasks", type=click.IntRange(min=2), default=600, help="Tasks per testbed.")
@verb_options("embed", only="device engine")
@json_option
def demo_command(out: Path, tasks: int, device: str, engine: str | None, as_json: bool) -> None:
    """Generate toybox, draw an easy and a look-alike testbed, measure two backbones, write a report.

    \b
    Example:
      longshot demo
    """
    import longshot
    from longshot.base import claim_folder, used_rows
    from longshot.models import embed_rows
    from longshot.reports import read_runs, screen_sheet, terminal

    claim_folder(out, "demo", ("mixed.parquet",))
    start = time.monotonic()

    def say(text: str) -> None:
        click.echo(f"[{time.monotonic() - start:5.1f} s] {text}", err=as_json)

    say("toybox: 84×84 pictures of things in ten families, generated on first use")
    dataset = longshot.open_dataset("toybox")
    say(f"toybox: {len(dataset.class_ids)} classes, {len(dataset):,} images; testing on its test classes")

    testbeds = {
        "mixed": longshot.sample(dataset, tasks=tasks, split="test"),
        "look-alikes": longshot.sample(
            dataset, tasks=tasks, classes=longshot.SiblingClasses(level=1), split="test"
        ),
    }
    paths = []
    for name, testbed in testbeds.items():
        paths.append(out / f"{name}.parquet")
        testbed.save(paths[-1])
        say(f"testbed {name}: {len(testbed)} tasks, 5-way 5-shot, 10 queries a class → {paths[-1]}")

    # What evaluate would do by itself; here one by one, so that each step is told.
    rows = used_rows(bed.bind(dataset.name, dataset.keys, dataset.fingerprint) for bed in testbeds.values())
    views = []
    for backbone in BACKBONES:
        views.append(embed_rows(dataset, backbone, rows, device=device, engine=engine))
        say(f"features: {backbone}, {views[-1].dim} numbers for each of {len(rows):,} images in use")

    results = longshot.evaluate(
        paths, backbones=views, methods=["protonet"], out=out / "run", device=device, engine=engine
    )
    say(f"evaluated protonet on {len(testbeds)} testbeds × {len(BACKBONES)} backbones → {out / 'run'}")
    page = out / "report.html"
    longshot.report(results, page)
    click.echo(err=as_json)
    if as_json:
        echo_json(results.summary())
    else:
        click.echo(terminal(screen_sheet(read_runs(results))))
    click.echo(err=as_json)
    say(f"report: {page.resolve()}")
    click.echo("\nNext:", err=as_json)
    for line, purpose in next_commands(out):
        click.echo(f"  {line}   # {purpose}", err=as_json)


def next_commands(out: Path) -> list[tuple[str, str]]:
    """Return commands to run after the demo, as they can be pasted, and what each is for."""
    from longshot.cli.main import commands

    folder = shlex.quote(str(out))
    hard = shlex.quote(str(out / "hard.parquet"))
    lines = [
        (f"longshot serve {folder} --browser", "every task and mistake in the browser; Ctrl-C ends it"),
        (
            f"longshot sample toybox --split test --instances difficult --judge pixels --tasks 100 -o {hard}",
            "tasks that are hard on purpose; a folder of your own images in place of toybox",
        ),
        (
            f"longshot explain {shlex.quote(str(out / 'look-alikes.parquet'))} --run {shlex.quote(str(out / 'run'))} "
            "--no-pixels",
            "why tasks are hard",
        ),
    ]
    return [line for line in lines if line[0].split()[1] in commands()]  # a wing may not be installed
