"""``longshot sample``: draw tasks into a testbed file."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from longshot.base import (
    GroupedCommand,
    UserError,
    count,
    echo_json,
    json_option,
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
def command(
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
