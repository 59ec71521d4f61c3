"""``longshot sample``: draw tasks into a testbed file."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import click

from longshot.base import (
    COUNT,
    FILE,
    FILE_PLACE,
    Grouped,
    GroupedCommand,
    UserError,
    count,
    echo_json,
    plugged,
    shared,
    span,
    together,
)

F = TypeVar("F", bound=Callable[..., Any])

ROUNDS = click.IntRange(min=0)
POSITIVE = click.FloatRange(min=0, min_open=True)
INSTANCES = ("uniform", "difficult", "easy", "greedy", "filtered", "shifted", "matched")
CLASSES = ("uniform", "alike", "semantic", "hierarchical", "bilevel", "siblings")


_SHAPE, _KINDS, _IMAGES = "Shape (how many)", "Classes (which)", "Instances (which images)"
_HARD, _RULES, _FILTER = "Difficult, easy, greedy", "Rules over attributes", "Filtered"
_PUBLISHED = "Published tasks"
RARE = (_HARD, _RULES, _FILTER, _PUBLISHED)  # headings that 'longshot sample' shows on request
SAMPLER = (_SHAPE, _KINDS)  # headings that 'longshot train' shows on request


class SamplerWord(click.Choice[str]):
    """Longshot's own words, and those that plugins add, with settings as in a call: ``every-nth(n=3)``."""

    def __init__(self, kind: str, words: tuple[str, ...]) -> None:
        super().__init__(words)
        self.kind = kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value in self.choices:  # plugins are looked at for other words only
            return str(value)
        if str(value).partition("(")[0].strip() in plugged(self.kind):
            return str(value)
        return self._every_word().convert(value, param, ctx)

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str | None:
        return self._every_word().get_metavar(param, ctx)

    def _every_word(self) -> click.Choice[str]:
        return click.Choice((*self.choices, *plugged(self.kind)))


class ShapeOption(Grouped):
    """An option whose help lists the shapes that plugins add behind Longshot's own."""

    def make_metavar(self, ctx: click.Context) -> str:
        return "|".join((super().make_metavar(ctx), *plugged("shapes")))


def _under(heading: str) -> Callable[..., Callable[[F], F]]:
    return partial(click.option, cls=Grouped, group=heading)


_shape, _kinds, _images = map(_under, (_SHAPE, _KINDS, _IMAGES))
_hard, _rules, _filter, _published = map(_under, RARE)

shape_options = together(
    _shape(
        "--shape",
        cls=ShapeOption,
        default="fixed",
        metavar="fixed|any|meta-dataset|like:FILE",
        help="fixed: --way, --shot, --query hold for every task. any: ways and shots vary from task to task. "
        "meta-dataset: ways, and shots per class, vary as in Meta-Dataset. like:FILE: shapes of another testbed.",
    ),
    _shape("--way", type=COUNT, help="Classes per task; elsewhere the most. [5; any: 20; meta-dataset: 50]"),
    _shape("--shot", type=COUNT, help="Support images per class; with any the most. [5; any: 20]"),
    _shape("--query", type=COUNT, help="Query images per class; with meta-dataset the most. [10; any: 20]"),
)
class_options = together(
    _kinds(
        "--classes",
        type=SamplerWord("classes", CLASSES),
        default="uniform",
        help="uniform: any. alike: some of the nearest by the looks (--judge). semantic: close in meaning. "
        "hierarchical: all below a node of the taxonomy. bilevel, siblings: all from one super-class.",
    ),
    _kinds(
        "--level",
        type=COUNT,
        help="Siblings, bilevel: level of the super-classes (1: below the root). [the direct parents]",
    ),
    _kinds("--alpha", type=float, help="Semantic: how close in meaning. [0.383]"),
    _kinds("--beta", type=float, help="Semantic, alike: how evenly. [100]"),
    _kinds("--nearest", type=COUNT, help="Alike: candidates. [7 for 5 ways]"),
    _kinds("--coarsity", metavar="LO:HI", help="Only tasks whose coarsity lies in this band."),
    _kinds(
        "--distance",
        type=click.Choice(["jiang-conrath", "lin", "wu-palmer", "path"]),
        help="Semantic, --coarsity: distance between classes. [jiang-conrath]",
    ),
    _kinds(
        "--reduction",
        type=click.Choice(["shortest-paths"]),
        help="Coarsity by one path per class. [all]",
    ),
    _kinds(
        "--taxonomy",
        metavar="FILE|wordnet",
        help="Hierarchy above the classes: a file, or wordnet for its ids. [that of the dataset]",
    ),
)
class_judge_option = _kinds(
    "--judge", multiple=True, metavar="BACKBONE", help="Alike: who says which classes are; may be repeated."
)
instance_options = together(
    _images(
        "--instances",
        type=SamplerWord("instances", INSTANCES),
        default="uniform",
        help="difficult, easy: for the queries of the uniform task the support a model fails on, or not. greedy: "
        "the same by greedy search. filtered: the hardest of many uniform tasks. shifted, matched: by rules.",
    ),
    _images(
        "--judge",
        "--backbone",
        "judge",
        multiple=True,
        metavar="BACKBONE[:METHOD]",
        help="Who judges; may be repeated.",
    ),
    _images("--held-out", multiple=True, metavar="BACKBONE[:METHOD]", help="Measures only; may be repeated."),
    _images("--difficulty", type=float, metavar="SHARE", help="From 0 (uniform) to 1 (the hardest). [1]"),
    _images(
        "--disjoint-pools",
        is_flag=True,
        help="An image that is support in one task is never a query in another.",
    ),
    _images(
        "--copies",
        type=click.Choice(["apart", "equal", "allow"]),
        help="Equal images and near copies in a task. apart: never; equal: near ones may; "
        "allow: all may. [apart; over 50,000 images: equal]",
    ),
    _hard("--features", type=FILE_PLACE, help="Features FILE.npy in place of --judge."),
    _hard(
        "--exclude-suspects",
        is_flag=True,
        help="Draw no image whose label looks wrong to a judge.",
    ),
    _hard(
        "--judging",
        type=click.Choice(["mean", "worst", "least"]),
        help="Of several judges: their mean loss, the largest, or the smallest, which spares none. [mean]",
    ),
    _hard(
        "--target-accuracy",
        type=float,
        help="Find the difficulty at which the held-out networks have this accuracy, such as 0.55.",
    ),
    _hard(
        "--objective",
        type=click.Choice(["error", "prototype", "ridge", "task2vec"]),
        help="What to raise. [error; greedy: prototype]",
    ),
    _hard("--temperature", type=POSITIVE, help="Of the classifier. [0.1]"),
    _hard(
        "--distance-metric",
        type=click.Choice(["euclidean", "cosine"]),
        help="Between features (squared Euclidean). [euclidean]",
    ),
    _hard("--raw-features", is_flag=True, help="Do not scale features to unit length."),
    _hard("--refine", type=ROUNDS, help="Frank–Wolfe rounds on top, at most. [5; easy: 0]"),
    _hard("--greedy", type=ROUNDS, help="Exact greedy rounds after that. [0; easy: 1]"),
    _hard("--rounds", type=COUNT, help="Rounds of --instances greedy. [3]"),
    _hard("--start", type=click.Choice(["uniform", "random"]), help="Initial weights. [uniform]"),
    _hard("--steps", type=COUNT, help="Gradient steps. [1]"),
    _hard("--step-size", type=POSITIVE, help="Of a gradient step. [200]"),
    _hard("--projection", type=click.Choice(["l1", "simplex", "none"]), help="After a step. [l1]"),
    _rules(
        "--rule", help="Shifted, matched: coco-objects, orbit-clutter, orbit-quality or cure-or-viewpoint."
    ),
    _rules("--query-where", metavar="RULE", help='Queries only from "viewpoint in (front, back)".'),
    _rules("--support-where", metavar="RULE", help='Support only from "clutter > 3 and not blur".'),
    _rules("--same", metavar="ATTRIBUTE", help="Shifted, matched: one owner (say) for a whole task."),
    _filter("--candidates", type=COUNT, help="Uniform tasks to choose from. [10,000]"),
    _filter("--keep", type=click.Choice(["hardest", "easiest"]), help="[hardest]"),
)
published_options = together(
    _published(
        "--import",
        "published",
        type=FILE,
        help="Draw nothing: read a published task list (CSV: task, labels, image_id, support); --query N draws "
        "queries for a list without any.",
    ),
    _published(
        "--class-order",
        metavar="FILE",
        help="With --import: the classes in the order its numbers count in: one a line, JSON, or FILE.csv:COLUMN.",
    ),
    _published(
        "--replay",
        type=FILE,
        metavar="SPEC",
        help="Repeat Meta-Dataset's own episodes of a source: its dataset_spec.json. Goes with --split and --seed.",
    ),
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
      longshot sample toybox --classes alike --judge pixels --split test -o look-alikes.parquet
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
    from longshot.tasks import describe, is_network_column, say_drops, say_suspects

    options = {name: value for name, value in options.items() if value != ()}  # repeatable, and not written
    start = time.monotonic()
    if dry_run:
        _estimate(datasets, {**options, "published": published}, as_json)
        return
    testbed = longshot.sample(datasets, published=published, out=out, **options)
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
