"""``longshot demo``: run everything once on generated images."""

from __future__ import annotations

import shlex
import time
from pathlib import Path

import click

from longshot.base import FOLDER, echo_json, json_option, verb_options

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
    from longshot.base import claim_folder
    from longshot.evaluation import used_rows
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
