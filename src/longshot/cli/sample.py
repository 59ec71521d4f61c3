"""``longshot sample``: draw tasks into a testbed file."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from longshot.cli.common import dry_run_option, json_option, seed_option
from longshot.errors import UserError

if TYPE_CHECKING:
    from longshot.testbeds.base import Classes, Shape

_COUNT = click.IntRange(min=1)


@click.command()
@click.argument("datasets", nargs=-1, required=True, metavar="DATASET…")
@click.option(
    "-o", "--out", type=click.Path(path_type=Path, dir_okay=False), help="Testbed file to write (Parquet)."
)
@click.option("--tasks", type=_COUNT, default=600, show_default=True, help="Tasks to draw from each dataset.")
@click.option(
    "--shape",
    type=click.Choice(["fixed", "any"]),
    default="fixed",
    show_default=True,
    help="fixed: --way, --shot and --query hold for every task. any: ways and shots vary from task to task.",
)
@click.option("--way", type=_COUNT, help="Classes per task; the most with --shape any. [5; any: 20]")
@click.option("--shot", type=_COUNT, help="Support images per class; the most with --shape any. [5; any: 20]")
@click.option("--query", type=_COUNT, help="Query images per class. [10; any: 20]")
@click.option(
    "--classes",
    type=click.Choice(["uniform", "siblings"]),
    default="uniform",
    show_default=True,
    help="uniform: any classes. siblings: all classes of a task from one super-class.",
)
@click.option(
    "--level",
    type=_COUNT,
    help="With siblings: super-classes are the taxonomy's nodes at this level (1: below the root). "
    "[the direct parents]",
)
@click.option("--split", help="Draw only from the classes of this split: train, validation or test.")
@click.option("--drop-small", is_flag=True, help="Leave out classes with too few images.")
@click.option("--allow-repeats", is_flag=True, help="Let the same task occur twice.")
@click.option("--workers", type=_COUNT, default=1, show_default=True, help="Threads; they change no task.")
@seed_option
@dry_run_option
@json_option
def command(
    datasets: tuple[str, ...],
    out: Path | None,
    tasks: int,
    shape: str,
    way: int | None,
    shot: int | None,
    query: int | None,
    classes: str,
    level: int | None,
    split: str | None,
    drop_small: bool,
    allow_repeats: bool,
    workers: int,
    seed: int,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Draw few-shot tasks from one or more datasets into a testbed file.

    \b
    Example:
      longshot sample toybox --tasks 600 --way 5 --shot 5 --query 10 --split test -o easy.parquet
      longshot sample toybox --classes siblings --level 1 --split test -o look-alikes.parquet

    A DATASET is toybox, a folder of class folders, a zip, a table, an .npz file or the name of a
    registered dataset. The same seed and settings always give the same file.
    """
    if out is None and not dry_run:
        raise UserError("No file to write to; name one with -o easy.parquet.")
    from longshot.datasets import open_dataset
    from longshot.testbeds.describe import summary
    from longshot.testbeds.sample import sample

    kind = _shape(shape, way, shot, query)
    opened = [open_dataset(spec) for spec in datasets]
    settings: dict[str, Any] = {
        "shape": kind,
        "classes": _classes(classes, level),
        "seed": seed,
        "split": split,
        "drop_small": drop_small,
        "allow_repeats": allow_repeats,
        "workers": workers,
    }
    start = time.monotonic()
    if dry_run:
        few = min(tasks, 256)
        trial = sample(opened, tasks=few, **{**settings, "allow_repeats": True})
        seconds = (time.monotonic() - start) * tasks / few
        size = int(trial.table.nbytes * tasks / few)
        count = tasks * len(opened)
        estimate = {"tasks": count, "seconds_at_most": round(seconds, 1), "bytes_at_most": size}
        click.echo(
            json.dumps(estimate)
            if as_json
            else f"would draw {count:,} tasks in at most {seconds:.1f} s into at most {_size(size)}"
        )
        return
    testbed = sample(opened, tasks=tasks, **settings)
    if out is not None:
        testbed.save(out)
    facts = summary(testbed)
    if as_json:
        click.echo(json.dumps({"path": str(out), **facts}, indent=2, ensure_ascii=False))
        return
    click.echo(
        f"{len(testbed):,} tasks from {', '.join(testbed.datasets)} ({facts['classes']:,} classes, "
        f"{facts['distinct_images']:,} images): {_span(facts['way'])}-way {_span(facts['shot'])}-shot, "
        f"{_span(facts['query_per_task'])} queries a task, in {time.monotonic() - start:.1f} s"
    )
    dropped = _dropped(testbed.meta["sampler"])
    if dropped:
        click.echo(f"left out {dropped} classes with fewer than {kind.min_images} images (--drop-small)")
    click.echo(f"{out}  content hash {testbed.content_hash[:16]}…")


def _shape(name: str, way: int | None, shot: int | None, query: int | None) -> Shape:
    from longshot.testbeds.shapes import AnyWayAnyShot, Fixed

    if name == "any":
        return AnyWayAnyShot(max_way=way or 20, max_shot=shot or 20, query=query or 20)
    return Fixed(way=way or 5, shot=shot or 5, query=query or 10)


def _classes(name: str, level: int | None) -> Classes:
    from longshot.testbeds.classes import Siblings, Uniform

    if name == "siblings":
        return Siblings(level=level)
    if level is not None:
        raise UserError(f"--level {level} goes with --classes siblings only; leave it out or add that.")
    return Uniform()


def _dropped(sampler: dict[str, Any]) -> int:
    parts = [part["sampler"] for part in sampler["concat"]] if "concat" in sampler else [sampler]
    return sum(int(part["dropped_classes"]) for part in parts)


def _span(facts: dict[str, Any]) -> str:
    return str(facts["min"]) if facts["min"] == facts["max"] else f"{facts['min']}–{facts['max']}"


def _size(count: int) -> str:
    return f"{count / 1e6:,.1f} MB" if count >= 1e5 else f"{count / 1e3:,.1f} kB"
