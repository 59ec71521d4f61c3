"""The options of ``longshot sample``, in groups."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import click

from longshot.base import plugged
from longshot.cli.common import COUNT, FILE, FILE_PLACE, together
from longshot.cli.faces import Grouped

F = TypeVar("F", bound=Callable[..., Any])

ROUNDS = click.IntRange(min=0)
POSITIVE = click.FloatRange(min=0, min_open=True)
INSTANCES = ("uniform", "difficult", "easy", "greedy", "filtered", "shifted", "matched")
CLASSES = ("uniform", "semantic", "hierarchical", "bilevel", "siblings")


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
        help="uniform: any. semantic: close in meaning, every class about equally often. hierarchical: all below a "
        "node of the taxonomy. bilevel, siblings: all from one super-class.",
    ),
    _kinds(
        "--level",
        type=COUNT,
        help="With siblings and bilevel: super-classes are the taxonomy's nodes at this level (1: below the root). "
        "[the direct parents]",
    ),
    _kinds("--alpha", type=float, help="Semantic: how close in meaning. [0.383]"),
    _kinds("--beta", type=float, help="Semantic: how evenly classes appear. [100]"),
    _kinds("--coarsity", metavar="LO:HI", help="Only tasks whose coarsity lies in this band."),
    _kinds(
        "--distance",
        type=click.Choice(["jiang-conrath", "lin", "wu-palmer", "path"]),
        help="Semantic, --coarsity: distance between classes. [jiang-conrath]",
    ),
    _kinds(
        "--reduction",
        type=click.Choice(["shortest-paths"]),
        help="Coarsity by one shortest path per class, as published. [the whole taxonomy]",
    ),
    _kinds(
        "--taxonomy",
        metavar="FILE|wordnet",
        help="Hierarchy above the classes: a taxonomy file, or wordnet where they are called by WordNet ids. "
        "[that of the dataset]",
    ),
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
        help="Who judges difficulty; may be repeated.",
    ),
    _images("--held-out", multiple=True, metavar="BACKBONE[:METHOD]", help="Measures only; may be repeated."),
    _images("--difficulty", type=float, metavar="SHARE", help="From 0 (uniform) to 1 (the hardest). [1]"),
    _images(
        "--disjoint-pools",
        is_flag=True,
        help="An image that is support in one task is never a query in another.",
    ),
    _hard("--features", type=FILE_PLACE, help="Features FILE.npy in place of --judge."),
    _hard(
        "--exclude-suspects",
        is_flag=True,
        help="Draw no image whose label looks wrong to a judge, and no copies.",
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
