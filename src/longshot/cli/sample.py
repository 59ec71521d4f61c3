"""``longshot sample``: draw tasks into a testbed file."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from longshot.cli.common import device_option, dry_run_option, json_option, seed_option
from longshot.cli.help import GroupedCommand
from longshot.cli.sample_options import (
    COUNT,
    FEATURE_INSTANCES,
    RARE,
    check_belongs,
    class_options,
    instance_options,
    shape_options,
)
from longshot.cli.split_option import apply_splits, splits_option
from longshot.core.errors import UserError

if TYPE_CHECKING:
    from longshot.datasets.dataset import Dataset
    from longshot.testbeds.testbed import Testbed


@click.command(cls=GroupedCommand, heading="Testbed", rare_groups=RARE)
@click.argument("datasets", nargs=-1, required=True, metavar="DATASET…")
@click.option(
    "-o", "--out", type=click.Path(path_type=Path, dir_okay=False), help="Testbed file to write (Parquet)."
)
@click.option("--tasks", type=COUNT, default=600, show_default=True, help="Tasks to draw from each dataset.")
@click.option("--split", help="Draw only from the classes of this split: train, validation or test.")
@splits_option
@click.option("--drop-small", is_flag=True, help="Leave out classes with too few images.")
@click.option("--allow-repeats", is_flag=True, help="Let the same task occur twice.")
@click.option(
    "--import",
    "published",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Draw nothing: read a published task list (CSV: task, labels, image_id, support).",
)
@shape_options
@class_options
@instance_options
@click.option("--workers", type=COUNT, default=1, show_default=True, help="Threads; they change no task.")
@device_option
@seed_option
@dry_run_option
@json_option
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
      longshot sample toybox --instances difficult --backbone pixels --split test -o hard.parquet
      longshot sample toybox --instances shifted --rule cure-or-viewpoint --query 5 -o shifted.parquet

    A DATASET is toybox, a folder of class folders, a zip, a table, an .npz file or the name of a
    registered dataset. The same seed and settings always give the same file.
    """
    if out is None and not dry_run:
        raise UserError("No file to write to; name one with -o easy.parquet.")
    check_belongs(options)
    from longshot.datasets import open_dataset
    from longshot.testbeds.describe import summary

    start = time.monotonic()
    splits = options.pop("splits")
    if splits and not options["split"]:
        raise UserError(
            f"--splits {splits} says which classes are which; say which to draw from with --split test."
        )
    opened = [apply_splits(open_dataset(spec), splits) for spec in datasets]
    if dry_run:
        _estimate(opened, options, as_json)
        return
    testbed = _import(published, opened) if published else _draw(opened, options)
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
    for name, values in facts.get("measured", {}).items():
        if values["min"] != values["max"]:
            click.echo(f"{name} {values['min']:.4g} to {values['max']:.4g}, mean {values['mean']:.4g}")
    dropped = _dropped(testbed.meta["sampler"])
    if dropped:
        from longshot.cli.sample_choices import make_shape

        least = make_shape(options).min_images
        click.echo(f"left out {dropped} classes with fewer than {least} images (--drop-small)")
    click.echo(f"{out}  content hash {testbed.content_hash[:16]}…")


def _draw(opened: list[Dataset], options: dict[str, Any]) -> Testbed:
    from longshot.cli.sample_choices import judge_tasks, make_instances, needed_features
    from longshot.testbeds.filtered import CANDIDATES
    from longshot.testbeds.sample import sample
    from longshot.testbeds.testbed import Testbed

    settings = _settings(options)
    device = options["device"]
    if options["instances"] not in FEATURE_INSTANCES:
        return sample(
            opened, tasks=options["tasks"], instances=make_instances(options, None, device), **settings
        )
    tasks = options["tasks"]
    if options["instances"] == "filtered":
        tasks = options["candidates"] or max(CANDIDATES, tasks)
    beds = []
    for dataset in opened:  # features belong to one dataset
        features = needed_features(options, dataset, device)
        assert features is not None
        bed = sample(dataset, tasks=tasks, instances=make_instances(options, features, device), **settings)
        if options["instances"] == "filtered":
            bed = judge_tasks(bed, dataset, features, options, device)
        beds.append(bed)
    return Testbed.concat(beds)


def _settings(options: dict[str, Any]) -> dict[str, Any]:
    """What all draws of a command share."""
    from longshot.cli.sample_choices import make_classes, make_limits, make_shape

    same = ("seed", "split", "drop_small", "allow_repeats", "workers")
    return {
        "shape": make_shape(options),
        "classes": make_classes(options),
        "limits": make_limits(options),
        **{name: options[name] for name in same},
    }


def _import(file: Path, opened: list[Dataset]) -> Testbed:
    from longshot.testbeds.published import read_published

    if len(opened) != 1:
        raise UserError(f"--import reads a task list of one dataset, but {len(opened)} were given; name one.")
    return read_published(file, opened[0])


def _estimate(opened: list[Dataset], options: dict[str, Any], as_json: bool) -> None:
    """Draw a few tasks, without looking at features, and multiply."""
    from longshot.cli.sample_choices import make_instances
    from longshot.testbeds.sample import sample

    looks = options["instances"] in FEATURE_INSTANCES
    plain = {**options, "instances": "uniform"} if looks else options
    start = time.monotonic()
    few = min(options["tasks"], 256)
    settings = {**_settings({**options, "allow_repeats": True}), "allow_repeats": True}
    trial = sample(opened, tasks=few, instances=make_instances(plain, None, "cpu"), **settings)
    seconds = (time.monotonic() - start) * options["tasks"] / few
    size = int(trial.table.nbytes * options["tasks"] / few)
    count = options["tasks"] * len(opened)
    if as_json:
        told = {"tasks": count, "seconds_at_most": round(seconds, 1), "bytes_at_most": size}
        click.echo(json.dumps({**told, "without_features": looks}))
        return
    more = "; embedding and selection come on top: see 'longshot embed --dry-run'" if looks else ""
    click.echo(f"would draw {count:,} tasks in at most {seconds:.1f} s into at most {_size(size)}{more}")


def _dropped(sampler: dict[str, Any]) -> int:
    parts = [part["sampler"] for part in sampler["concat"]] if "concat" in sampler else [sampler]
    return sum(int(part.get("dropped_classes", 0)) for part in parts)


def _span(facts: dict[str, Any]) -> str:
    return str(facts["min"]) if facts["min"] == facts["max"] else f"{facts['min']}–{facts['max']}"


def _size(count: int) -> str:
    return f"{count / 1e6:,.1f} MB" if count >= 1e5 else f"{count / 1e3:,.1f} kB"
