"""``longshot sample``: draw tasks into a testbed file."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import click

from longshot.base import UserError, count, span
from longshot.cli.common import COUNT, FILE_PLACE, echo_json, shared
from longshot.cli.faces import GroupedCommand
from longshot.cli.sample_options import (
    RARE,
    class_options,
    instance_options,
    published_options,
    shape_options,
)


@click.command(cls=GroupedCommand, heading="Testbed", rare_groups=RARE)
@click.argument("datasets", nargs=-1, required=True, metavar="DATASET…")
@click.option("-o", "--out", type=FILE_PLACE, help="Testbed file or URL to write (Parquet).")
@shared("force")
@click.option("--tasks", type=COUNT, default=600, help="Tasks to draw from each dataset.")
@click.option("--split", help="Draw only from the classes of this split: train, validation or test.")
@shared("splits")
@click.option("--drop-small", is_flag=True, help="Leave out classes with too few images.")
@click.option("--allow-repeats", is_flag=True, help="Let the same task occur twice.")
@published_options
@shared("identity")
@shape_options
@class_options
@instance_options
@click.option("--workers", type=COUNT, default=1, help="Threads; they change no task.")
@shared("device", "engine", "on", "gpus_per_worker", "retry_failed", "seed", "dry_run", "json")
def command(
    datasets: tuple[str, ...],
    out: Path | None,
    published: Path | None,
    dry_run: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Draw few-shot tasks from one or more datasets into a testbed file.

    \b
    Examples:
      longshot sample toybox --tasks 600 --way 5 --shot 5 --query 10 --split test -o easy.parquet
      longshot sample toybox --classes siblings --level 1 --split test -o look-alikes.parquet
      longshot sample toybox --classes semantic --split test --tasks 200 -o fine.parquet
      longshot sample toybox --shape meta-dataset --split test -o varied.parquet
      longshot sample toybox --instances difficult --judge pixels --split test -o hard.parquet
      longshot sample toybox --instances shifted --rule cure-or-viewpoint --query 5 -o shifted.parquet

    A DATASET is toybox, a folder of class folders, a zip, a table, an .npz file, a URL of one or a
    registered name. The same seed and settings always give the same file.
    """
    if out is None and not dry_run:
        raise UserError("No file to write to; name one with -o easy.parquet.")
    import longshot
    from longshot.tasks import dropped_classes, is_network_column, say_drops, say_suspects, summary

    options = {name: value for name, value in options.items() if value != ()}  # repeatable, and not written
    start = time.monotonic()
    if dry_run:
        _estimate(datasets, {**options, "published": published}, as_json)
        return
    testbed = longshot.sample(datasets, published=published, out=out, **options)
    facts = summary(testbed)
    if as_json:
        echo_json({"path": str(out), **facts})
        return
    way, shot, query = (
        span([facts[name]["min"], facts[name]["max"]]) for name in ("way", "shot", "query_per_task")
    )
    click.echo(
        f"{count(len(testbed), 'task')} from {', '.join(testbed.datasets)} "
        f"({count(facts['classes'], 'class', 'classes')}, {count(facts['distinct_images'], 'image')}): "
        f"{way}-way {shot}-shot, {query} queries a task, in {time.monotonic() - start:.1f} s"
    )
    for name, values in facts.get("measured", {}).items():
        if values["min"] != values["max"] and not is_network_column(name):
            click.echo(f"{name} {values['min']:.4g} to {values['max']:.4g}, mean {values['mean']:.4g}")
    for line in say_drops(testbed.meta["sampler"], list(testbed.datasets)):
        click.echo(line)
    if sentence := say_suspects(testbed):
        click.echo(sentence)
    dropped = dropped_classes(testbed)
    if dropped:
        from longshot.tasks import make_shape

        least = make_shape(options["shape"], options).min_images
        click.echo(f"left out {dropped} classes with fewer than {least} images (--drop-small)")
    click.echo(f"{out}  content hash {testbed.content_hash[:16]}…  identity: {facts['identity']}")


def _estimate(datasets: tuple[str, ...], options: dict[str, Any], as_json: bool) -> None:
    import longshot

    (cost,) = longshot.estimate("sample", datasets, **options).steps
    if as_json:
        facts = {
            "tasks": cost["tasks"],
            "seconds_at_most": round(cost["seconds"], 1),
            "bytes_at_most": cost["bytes"],
        }
        click.echo(json.dumps({**facts, "without_features": cost["without_features"]}))
        return
    more = (
        "; embedding and selection come on top: see 'longshot embed --dry-run'"
        if cost["without_features"]
        else ""
    )
    click.echo(
        f"would draw {cost['tasks']:,} tasks in at most {cost['seconds']:.1f} s into at most "
        f"{_size(cost['bytes'])}{more}"
    )


def _size(count: int) -> str:
    return f"{count / 1e6:,.1f} MB" if count >= 1e5 else f"{count / 1e3:,.1f} kB"
