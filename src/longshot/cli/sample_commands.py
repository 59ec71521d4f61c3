"""``longshot backbones``, ``embed`` and ``sample``: from images to features to tasks."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from longshot.base import (
    FILE_PLACE,
    GroupedCommand,
    UserError,
    count,
    dry_run_option,
    echo_json,
    force_option,
    json_option,
    print_table,
    span,
    verb_options,
)
from longshot.tasks import GROUPS, sampler_words

_PYTHON_ONLY = "limits measures score block min_way max_way min_shot max_shot max_query max_support"
_PYTHON_ONLY += " max_contribution max_span oversample"  # of the samplers' objects
HEADINGS = {name: {"group": heading} for heading, names in GROUPS.items() for name in names.split()}


class SamplerWord(click.types.StringParamType):
    """A word of a sampler, with settings as in a call: ``every-nth(n=3)``; the verb refuses one that is none."""

    def __init__(self, choice: str) -> None:
        self.choice = choice

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        return f"[{'|'.join(sampler_words(self.choice))}]"


def word_option(choice: str) -> dict[str, Any]:
    """Return what the option of a choice ("shape", "classes", "instances") says: its words and what each means."""
    meanings = ". ".join(f"{word}: {about}" for word, about in sampler_words(choice, plugins=False).items())
    return {**HEADINGS[choice], "type": SamplerWord(choice), "metavar": None, "help": f"{meanings}."}


@click.command(cls=GroupedCommand, heading="Testbed", rare_groups=tuple(GROUPS)[3:])
@click.argument("datasets", nargs=-1, required=True, metavar="DATASET…")
@verb_options(
    "sample",
    {
        **HEADINGS,
        **{choice: word_option(choice) for choice in ("shape", "classes", "instances")},
        "published": {**HEADINGS["published"], "flags": ["--import"]},
        "ingredients": {**HEADINGS["ingredients"], "flags": ["--with"]},
        "judge": {**HEADINGS["judge"], "flags": ["-b", "--judge", "--backbone"]},
    },
    without=_PYTHON_ONLY,
)
@json_option
def sample_command(
    datasets: tuple[str, ...],
    out: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Draw few-shot tasks from one or more datasets into a testbed file.

    \b
    Examples:
      longshot sample toybox --tasks 600 --way 5 --shot 5 --query 10 --split test -o easy.parquet
      longshot sample toybox --classes alike --judge pixels --split test -o look-alikes.parquet
      longshot sample toybox --classes semantic --split test --tasks 200 -o fine.parquet
      longshot sample toybox --shape meta-dataset --split test -o varied.parquet
      longshot sample toybox --instances difficult --judge pixels --split test -o hard.parquet
      longshot sample toybox --target-accuracy 0.6 --split test -o chosen.parquet
      longshot sample toybox --instances shifted --rule cure-or-viewpoint --query 5 -o shifted.parquet

    A DATASET is toybox, a folder of class folders, a zip, a table, an .npz file, a URL of one or a
    registered name. The same seed and settings always give the same file.
    """
    if out is None:
        raise UserError("No file to write to; name one with -o easy.parquet.")
    import longshot
    from longshot.tasks import describe, is_network_column, say_drops, say_suspects

    options = {name: value for name, value in options.items() if value != ()}  # repeatable, and not written
    start = time.monotonic()
    testbed = longshot.sample(datasets, out=out, **options)
    facts = describe.summary(testbed)
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
    if testbed.meta["sampler"].get("target"):
        from longshot.tasks import say_target

        for line in say_target(testbed.meta["sampler"]):
            click.echo(line)
    for line in say_drops(testbed.meta["sampler"], list(testbed.datasets)):
        click.echo(line)
    for line in filter(None, [say_suspects(testbed), *describe.say_copies(testbed)]):
        click.echo(line)
    dropped = describe.dropped_classes(testbed)
    if dropped:
        from longshot.tasks import make_shape

        least = make_shape(options["shape"], options).min_images
        click.echo(f"left out {dropped} classes with fewer than {least} images (--drop-small)")
    click.echo(f"{out}  content hash {testbed.content_hash[:16]}…  identity: {facts['identity']}")


@click.command()
@click.argument("name", required=False)
@verb_options("list_backbones")
@json_option
def backbones_command(name: str | None, allow_download: bool, as_json: bool) -> None:
    """List the backbones that can embed images, their dimensions, and what is missing for the others.

    With NAME that backbone is opened: its vector (what pool=auto means), its pixels, its weights.

    \b
    Example:
      longshot backbones
      longshot backbones "hf:facebook/dinov2-small(pool=cls)"
      longshot embed toybox --backbone pixels
    """
    import longshot

    rows = longshot.list_backbones(name, allow_download=allow_download)
    if as_json:
        print_table(rows, as_json=True)
    elif name is not None:
        print_table(_facts(rows[0]))
    else:
        print_table(
            [
                {
                    "backbone": row["name"],
                    "dim": "" if row["dim"] is None else f"{row['dim']:,}",
                    "installed": _installed(row),
                    "about": row["about"],
                }
                for row in rows
            ]
        )


def _installed(row: dict[str, Any]) -> str:
    if row["installed"]:
        return "yes"
    remedy = str(row["install"])
    return f"no: {remedy}" if remedy.startswith("pip ") else f"no: see longshot backbones {row['name']}"


def _facts(row: dict[str, Any]) -> list[dict[str, str]]:
    """Make one line per fact about a backbone; what is not known is left out."""
    size, parameters = row["size"], row["parameters"]
    facts = {
        "backbone": row["name"],
        "opens": row["opens"] if row["opens"] != row["name"] else "",
        "about": row["about"],
        "vector": row["pooling"],
        "numbers": f"{row['dim']:,}" if row["dim"] else "",
        "image": f"{size[0]} × {size[1]}" if size else "",
        "preprocessing": row["preprocessing"],
        "parameters": f"{parameters:,}" if parameters is not None else "",
        "weights": row["weights"],
        "problem": row["problem"],
    }
    return [{"fact": fact, "value": value} for fact, value in facts.items() if value]


@click.command()
@click.argument("dataset")
@verb_options("embed", {"backbone": {"multiple": True, "required": True}})
@verb_options("open_dataset", only="skip_bad")
@click.option("-o", "--out", type=FILE_PLACE, help="Also write a copy: FILE.npy and FILE.json, or URLs.")
@force_option
@dry_run_option
@json_option
def embed_command(
    dataset: str,
    backbone: tuple[str, ...],
    skip_bad: bool,
    out: Path | str | None,
    force: bool,
    dry_run: bool,
    as_json: bool,
    **settings: Any,
) -> None:
    """Turn every image of DATASET into numbers, once: a later call finds them in the cache.

    \b
    Example:
      longshot embed toybox --backbone pixels
      longshot embed ./my_photos --backbone efficientnet-lite0 --backbone pixels

    DATASET is a folder of class folders, a zip of one, a table, an .npz, the URL of one (s3://bucket/photos/), a
    name you added, or toybox. A run that was interrupted goes on where it was.
    """
    import longshot
    from longshot.base import UserError
    from longshot.models import claim_features

    if out is not None and len(backbone) > 1:
        raise UserError(
            f"-o names one file, but {len(backbone)} backbones were given; export them one by one."
        )
    if out is not None and not dry_run:
        claim_features(out, force=force)
    opened = longshot.open_dataset(dataset, skip_bad=skip_bad)
    rows: list[dict[str, Any]] = []
    for name in backbone:
        if dry_run:
            rows += longshot.estimate("embed", opened, name, **settings).steps
            continue
        features = longshot.embed(opened, name, **settings)
        work = features.work
        written = features.path if out is None else out if isinstance(out, str) else out.resolve()
        if out is not None:
            features.save(out, force=force)
        rows.append(
            {
                "dataset": features.dataset,
                "backbone": features.backbone,
                "preprocessing": features.preprocessing,
                "images": len(features),
                "dim": features.dim,
                "dtype": features.array.dtype.name,
                "identity": features.identity,
                "content": features.content,
                "backbone_identity": features.backbone_identity,
                "skipped": len(opened.skipped),
                "cached": work.cached,
                "resumed_shards": work.resumed,
                "computed_images": work.images,
                "seconds": round(work.seconds, 2),
                "images_per_second": round(work.images / work.seconds, 1)
                if work.images and work.seconds
                else None,
                "hash": features.hash,
                "path": str(written),
            }
        )
    if as_json:
        echo_json(rows)
    elif dry_run:
        print_table([_planned(row) for row in rows])
    else:
        print_table([_done(row) for row in rows])
        for row in rows:
            click.echo(f"{row['backbone']}: {row['path']}")


def _done(row: dict[str, Any]) -> dict[str, Any]:
    work = "from the cache" if row["cached"] else f"{row['seconds']:.1f} s"
    if row["resumed_shards"]:
        work += f", {row['resumed_shards']} shards resumed"
    rate = row["images_per_second"]
    return {
        "backbone": row["backbone"],
        "images": f"{row['images']:,}",
        "dim": row["dim"],
        "stored as": row["dtype"],
        "images by": row["identity"],
        "work": work,
        "images/s": f"{rate:,.0f}" if rate else "",
        "skipped": row["skipped"],
        "preprocessing": row["preprocessing"],
    }


def _planned(row: dict[str, Any]) -> dict[str, Any]:
    rate = row["images_per_second"]
    return {
        "backbone": row["backbone"],
        "images": f"{row['images']:,}",
        "dim": row["dim"],
        "time": "none, it is in the cache" if row["cached"] else f"about {row['seconds']:,.0f} s",
        "images/s": f"{rate:,.0f}" if rate else "",
        # While shards are joined they and the whole lie on the disk together.
        "disk": f"{row['bytes'] / 1e6:,.1f} MB ({2 * row['bytes'] / 1e6:,.1f} MB for a moment)",
        "shards": f"{row['finished_shards']} of {row['shards']} done",
        "preprocessing": row["preprocessing"],
    }
