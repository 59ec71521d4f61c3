"""Pools: which classes and images of a dataset tasks are drawn from, by split, by size and by rules over attributes.

    rule       := and-rule ("or" and-rule)*
    and-rule   := not-rule ("and" not-rule)*
    not-rule   := "not" not-rule | "(" rule ")" | test
    test       := name                                   an attribute that holds true or false
                | name ("==" | "!=" | "<" | "<=" | ">" | ">=") value
                | name ["not"] "in" "(" value ("," value)* ")"
    value      := number | true | false | word | "text in quotes"

A rule, as ``viewpoint in (front, back) and not blur``, is read by Python's own grammar and never executed as code. An
image whose attribute is missing fulfils neither a test nor its opposite.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from longshot.audit import CopyGroups
from longshot.base import Bools, Ints, TaskRows, UserError, count
from longshot.data import Dataset, with_checked_attributes
from longshot.tasks.base import Instances, Pool, Shape
from longshot.tasks.streams import Streams

if TYPE_CHECKING:
    from longshot.tasks.instance_samplers import Curated

_TOKEN = re.compile(
    r"""(?P<text>"[^"]*"|'[^']*')
       |(?P<sign><=|>=|==|!=|=|<|>|\(|\)|,)
       |(?P<word>[^\s<>=!(),"']+)""",
    re.VERBOSE,
)
_WORDLIKE = re.compile(r"""[^\s<>=!(),]$""")  # the end of a word or a text: the next one is another
_TESTS: dict[type[ast.cmpop], tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Eq: ("==", pc.equal),
    ast.NotEq: ("!=", pc.not_equal),
    ast.Lt: ("<", pc.less),
    ast.LtE: ("<=", pc.less_equal),
    ast.Gt: (">", pc.greater),
    ast.GtE: (">=", pc.greater_equal),
}
_KEYWORDS = ("and", "or", "not", "in")
_SHOWN = 12  # values listed in a message


def rows_mask(text: str, table: pa.Table, noun: str, example: str) -> Bools:
    """Mark the rows of any table that fulfil a rule over its columns, [N]; ``noun`` says what a row is, as "task"."""
    return _Rule(text, table, f"The list of {noun}s", "column", noun, example).mask()


def rule_mask(text: str, attributes: pa.Table | None, dataset: str) -> Bools:
    """Mark the images that fulfil the rule, [N]. ``dataset`` is the name that messages use."""
    if attributes is None or not attributes.num_columns:
        raise UserError(
            f"Dataset '{dataset}' has no attributes, so the rule '{text}' cannot choose among its images; add "
            "columns to its table or an attributes file beside it."
        )
    example = "viewpoint in (front, back) and clutter > 3"
    return _Rule(text, attributes, f"Dataset '{dataset}'", "attribute", "image", example).mask()


def quoted(text: str) -> str:
    """Write a name or a value as a rule takes it, in the quotes that it has not itself."""
    if '"' in text and "'" in text:
        raise UserError(f"{text!r} has both kinds of quotes, which no rule can write", "rename it")
    return f"'{text}'" if '"' in text else f'"{text}"'


class _Rule:
    """A rule over the columns of a table: Python's grammar reads it, and arrays [N] of true, false and null come out.

    Nothing is executed. Every word and text of the rule stands in the syntax tree as a name of no meaning.
    """

    def __init__(
        self, text: str, attributes: pa.Table, owner: str, column_word: str, noun: str, example: str
    ) -> None:
        self.text, self.attributes, self.owner = text, attributes, owner
        self.column_word, self.noun, self.example = column_word, noun, example
        self.words: dict[str, str] = {}  # name in the syntax tree → word of the rule

    def mask(self) -> Bools:
        """Evaluate the whole rule; a row where it is neither true nor false does not fulfil it."""
        source = _TOKEN.sub(self._named, self.text).strip()
        try:
            tree = ast.parse(source, mode="eval").body
        except (SyntaxError, ValueError) as error:
            after = source[(getattr(error, "offset", None) or 1) - 1 :]
            behind = re.sub(r"\bw\d+\b", lambda match: self.words[match.group()], after).strip()
            raise self._wrong(f"it breaks off before '{behind}'" if behind else "it breaks off") from None
        mask: Bools = pc.fill_null(self._evaluate(tree), False).to_numpy(zero_copy_only=False)
        return mask

    def _named(self, token: re.Match[str]) -> str:
        """Write a token as Python's grammar has it, with a name in place of each word that is no keyword."""
        text = token.group()
        if token["sign"] or text in _KEYWORDS:
            return "==" if text == "=" else text
        name = f"w{len(self.words)}"
        self.words[name] = text[1:-1] if token["text"] else text
        before = token.string[: token.start()]
        return f" {name}" if before and _WORDLIKE.search(before) else name

    def _evaluate(self, node: ast.expr) -> Any:
        match node:
            case ast.BoolOp(op, values):
                join = pc.and_kleene if isinstance(op, ast.And) else pc.or_kleene
                return reduce(join, [self._evaluate(value) for value in values])
            case ast.UnaryOp(ast.Not(), operand):
                return pc.invert(self._evaluate(operand))
            case ast.Compare(ast.Name(name), [ast.In() | ast.NotIn() as sign], [listed]):
                column = self._column(name)
                values = listed.elts if isinstance(listed, ast.Tuple) else [listed]
                mask = reduce(pc.or_kleene, [pc.equal(column, self._value(name, column, v)) for v in values])
                return mask if isinstance(sign, ast.In) else pc.invert(mask)
            case ast.Compare(ast.Name(name), [sign], [compared]) if type(sign) in _TESTS:
                column, (shown, test) = self._column(name), _TESTS[type(sign)]
                value = self._value(name, column, compared)
                if shown not in ("==", "!=") and not _is_number(column):
                    raise self._wrong(
                        f"'{self.words[name]}' holds {_kind(column)}, which '{shown}' cannot order: use == or in (…)"
                    )
                return test(column, value)
            case ast.Name(name):
                column = self._column(name)
                if not pa.types.is_boolean(column.type):
                    raise self._wrong(
                        f"'{self.words[name]}' is not true or false but {_kind(column)}: compare it with something"
                    )
                return column
        raise self._wrong("it must be tests of one column each, joined by and, or, not")

    def _value(self, name: str, column: Any, node: ast.expr) -> pa.Scalar:
        """Return the word at a node as a value of the column's type."""
        if not isinstance(node, ast.Name):
            raise self._wrong(f"'{self.words[name]}' is compared with something that is no value")
        name, text = self.words[name], self.words[node.id]
        if pa.types.is_boolean(column.type):
            if text.lower() not in ("true", "false"):
                raise self._wrong(f"'{name}' is true or false, and '{text}' is neither")
            return pa.scalar(text.lower() == "true")
        if _is_number(column):
            try:
                return pa.scalar(float(text))
            except ValueError:
                raise self._wrong(f"'{name}' holds numbers, and '{text}' is none") from None
        words = sorted(value for value in pc.unique(column).to_pylist() if value is not None)
        if text not in words:
            near = get_close_matches(text, words, n=1)
            more = f" and {len(words) - _SHOWN} more" if len(words) > _SHOWN else ""
            hint = f"did you mean '{near[0]}'" if near else f"it holds {', '.join(words[:_SHOWN])}{more}"
            raise self._wrong(f"no {self.noun} has the {name} '{text}': {hint}")
        return pa.scalar(text)

    def _column(self, name: str) -> Any:
        if self.words[name] not in self.attributes.column_names:
            raise UserError(
                f"{self.owner} has no {self.column_word} '{self.words[name]}' (in the rule '{self.text}'); it has: "
                f"{', '.join(self.attributes.column_names)}."
            )
        column = self.attributes.column(self.words[name])
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        return column if _is_number(column) or pa.types.is_boolean(column.type) else column.cast(pa.string())

    def _wrong(self, why: str) -> UserError:
        return UserError(
            f"The rule '{self.text}' cannot be used: {why}. A rule looks like \"{self.example}\"."
        )


def _is_number(column: Any) -> bool:
    return bool(pa.types.is_integer(column.type) or pa.types.is_floating(column.type))


def _kind(column: Any) -> str:
    return (
        "numbers" if _is_number(column) else "true or false" if pa.types.is_boolean(column.type) else "words"
    )


@dataclass(frozen=True)
class ImageLimits:
    """What limits the images of all tasks, whatever draws them.

    ``query_where`` and ``support_where`` are rules over attributes. With ``disjoint`` an image that is support in one
    task is never a query in another: each class is cut in two once, in the ratio of queries to shots (the largest
    number, where it varies).

    Parameters
    ----------
    query_where, support_where : str, optional
        Which images may be queries, and which support.
    disjoint : bool
        Cut each class in two.
    cut_seed : int, optional
        Seed of the cut, so that testbeds of the same shape with other seeds share it; the testbed's own unless given.

    Examples
    --------
    >>> limits = ImageLimits(disjoint=True)
    >>> testbed = longshot.sample("toybox", tasks=10, way=3, shot=2, query=2, limits=limits, split="test")
    >>> support = {key for task in testbed for key in task.support}
    >>> any(key in support for task in testbed for key in task.query)
    False
    >>> limits.settings()
    {'disjoint_pools': True}
    """

    query_where: str | None = None
    support_where: str | None = None
    disjoint: bool = False
    cut_seed: int | None = None  # None: the testbed's own seed

    def settings(self) -> dict[str, Any]:
        """Return what is limited, for the metadata; nothing when nothing is."""
        rules = {"query_where": self.query_where, "support_where": self.support_where}
        limits: dict[str, Any] = {name: rule for name, rule in rules.items() if rule is not None}
        if self.disjoint:
            limits["disjoint_pools"] = True
            if self.cut_seed is not None:
                limits["cut_seed"] = self.cut_seed
        return limits


def make_pools(
    dataset: Dataset,
    shape: Shape,
    instances: Instances,
    streams: Streams,
    *,
    limits: ImageLimits,
    split: str | None = None,
    drop_small: bool = False,
    allowed: Bools | None = None,
    copies: CopyGroups | None = None,
) -> tuple[Pool, list[Pool], int]:
    """Return all that may be drawn, the pools of which one is drawn per task, and how many small classes are left out.

    ``allowed`` [N] says which images may be drawn at all; None: every one. Images of one group of ``copies`` are never
    on both sides of a task nor in two classes.
    """
    curated = _curated(instances)
    if curated is not None or limits.query_where is not None or limits.support_where is not None:
        dataset = with_checked_attributes(dataset)
    masks = [
        None if rule is None else rule_mask(rule, dataset.attributes, dataset.name)
        for rule in (limits.query_where, limits.support_where)
    ]
    everything = Pool(dataset, dataset.split_classes(split)).restrict(*masks)
    if allowed is not None:
        everything = everything.restrict(allowed, allowed)
    group, drawable = np.arange(len(dataset)), None
    if copies is not None and len(copies.later):
        group, drawable = unmixed(copies, everything.classes, dataset, allowed)
        everything = replace(everything.restrict(drawable, drawable), distinct_mask=drawable)
    if limits.disjoint:
        seed = streams.seed if limits.cut_seed is None else limits.cut_seed
        everything = _cut(everything, shape, replace(streams, seed=seed), group)
    turn = streams.generator("copies").permutation(len(dataset)) if drawable is not None else group

    def apart(pool: Pool) -> Pool:
        return pool if drawable is None else pool.keep_apart(group, turn)

    if curated is None:
        everything = _checked([apart(everything)], shape, split, drop_small)
        return everything, [everything], len(dataset.split_classes(split)) - len(everything.classes)
    pools = []
    for pool, twin in (map(apart, pair) for pair in curated.settings(everything)):
        if not curated.within:
            pools.append(_checked([pool, twin], shape, split, drop_small))
            continue
        # Each owner has classes of their own, and owners with too few are passed over.
        enough = _enough(pool, shape) & _enough(twin, shape)
        pools.append(pool.take_classes(pool.classes[enough]))
    fitting = [pool for pool in pools if len(pool.classes) >= shape.min_way]
    if not fitting:
        best = max(pools, key=lambda pool: len(pool.classes))
        query, shot = shape.min_counts
        raise UserError(
            f"No task of '{dataset.name}' is possible under the rule: the best of {len(pools)} settings ({best.label}) "
            f"has {len(best.classes)} classes with {query} query and {shot} support images, but a task needs "
            f"{shape.min_way}",
            "lower {way}, {shot} or {query}",
        )
    if len(fitting) == 1 and not curated.within:
        fitting = [replace(fitting[0], label="")]
    used = np.unique(np.concatenate([pool.classes for pool in fitting]))
    return everything.take_classes(used), fitting, len(everything.classes) - len(used)


def unmixed(
    copies: CopyGroups, classes: Ints, dataset: Dataset, allowed: Bools | None = None
) -> tuple[Ints, Bools]:
    """Return groups of copies [N] within one class each, and which images [N] of some classes may be drawn for that.

    Of equal images with different labels none may be drawn: they contradict each other. Of near copies in several
    classes those in the class of the first may. Images that are not ``allowed`` [N] contradict nobody.
    """
    inside = (
        np.isin(dataset.labels, classes) if allowed is None else allowed & np.isin(dataset.labels, classes)
    )
    drawable = ~copies.among(inside).clashes(dataset.labels)
    drawable &= ~copies.among(inside & drawable).strays(dataset.labels)
    return copies.among(inside & drawable).group, drawable


def copy_facts(rule: str, copies: CopyGroups | None, dataset: Dataset, classes: Ints) -> dict[str, Any]:
    """Return what a testbed records about copies in the classes it was drawn from: the rule, and what it met.

    ``equal`` and ``near`` count images beyond the first of a group, ``contradicting`` equal images with several labels.
    """
    if copies is None or not len(copies.later):
        return {"name": rule}
    counts = copies.among(np.isin(dataset.labels, classes)).counts(dataset.labels)
    return {"name": rule, **{kind: number for kind, number in counts.items() if number}}


def straddle_facts(copies: CopyGroups | None, tasks: TaskRows) -> dict[str, Any]:
    """Count, for tasks that are taken as they are, how many have copies on both sides or in two classes."""
    measured = {} if copies is None else {"straddling": int(copies.straddling(tasks).sum())}
    return {"name": "allow", **measured}


def _curated(instances: Instances) -> Curated | None:
    """Return the rule set of the instances, or that of the sampler whose queries they take."""
    from longshot.tasks.instance_samplers import Curated  # which reads rules by this module

    for sampler in (instances, getattr(instances, "base", None)):
        if isinstance(sampler, Curated):
            return sampler
    return None


def _enough(pool: Pool, shape: Shape) -> Bools:
    """Mark the pool's classes that have enough images for a task, [P]."""
    if not pool.restricted:
        return np.asarray(pool.sizes[pool.classes] >= shape.min_images)
    query, shot = shape.min_counts
    fits: Bools = (pool.query_sizes[pool.classes] >= query) & (pool.left(pool.classes, query) >= shot)
    return fits


def _checked(pools: list[Pool], shape: Shape, split: str | None, drop_small: bool) -> Pool:
    """Keep the first pool's classes that have enough images in all pools; UserError when some have not."""
    classes, dataset = pools[0].classes, pools[0].dataset
    fits = [_enough(pool, shape) for pool in pools]
    enough = np.logical_and.reduce(fits)
    where = f"'{dataset.name}'" if split is None else f"the {split} split of '{dataset.name}'"
    remedy = "lower {way} or add classes"
    if len(classes) < shape.min_way:
        raise UserError(
            f"There are {len(classes)} classes in {where}, but a task needs {shape.min_way}", remedy
        )
    if not enough.all() and not (drop_small and enough.any()):
        short = next(pool for pool, fit in zip(pools, fits, strict=True) if not fit.all())
        raise _too_few(short, shape, where, enough)
    large = classes[enough]
    if len(large) < shape.min_way:
        raise UserError(
            f"There are {len(large)} classes in {where} with at least {count(shape.min_images, 'image')} "
            f"({len(classes) - len(large)} smaller ones left out), but a task needs {shape.min_way}",
            remedy,
        )
    return pools[0].take_classes(large)


def _too_few(pool: Pool, shape: Shape, where: str, enough: Bools) -> UserError:
    """Build the error that names the class with too few images, how many have enough, and what to do."""
    classes = pool.classes
    summary = f"{int(enough.sum())} of {len(classes)} classes have enough"
    drop = "leave the small ones out with {drop_small:True}, or " if enough.any() else ""
    query, shot = shape.min_counts
    missing = np.maximum(query - pool.query_sizes[classes], 0) + np.maximum(
        shot - pool.left(classes, query), 0
    )
    worst = int(classes[np.argmax(missing)])
    copies = int(pool.sizes[worst] - pool.distinct_sizes[worst])
    more = f", {copies:,} of {int(pool.sizes[worst]):,} being left out as copies" if copies else ""
    remedy = f"{drop}lower {{shot}} or {{query}}" + (", or draw copies with {copies:allow}" if copies else "")
    images = count(int(pool.query_sizes[worst]), "image")
    subject = f"Class '{pool.dataset.class_ids[worst]}' of {where} has {images}"
    if pool.alike:
        needed = f"{shape.min_images} of each class (shots + queries)"
        return UserError(f"{subject}{more}, but a task needs {needed}, and {summary}", remedy)
    available = max(int(pool.left(np.array([worst]), query)[0]), 0)
    return UserError(
        f"{subject} for the query under the rules and {available} left for the support{more}, but a task needs {query} "
        f"and {shot}, and {summary}",
        f"{remedy}, or loosen the rule",
    )


def _cut(pool: Pool, shape: Shape, streams: Streams, group: Ints) -> Pool:
    """Give each group [N] that may be both to the queries or to the support, in the ratio that a task needs."""
    dataset = pool.dataset
    everything = np.ones(len(dataset), dtype=bool)
    query = everything.copy() if pool.query_mask is None else pool.query_mask.copy()
    support = everything if pool.support_mask is None else pool.support_mask.copy()
    order = streams.generator("disjoint-pools").permutation(len(dataset))
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    (queries, shots), ratio = shape.min_counts, shape.pool_counts
    for c in pool.classes:
        rows = np.arange(dataset.offsets[c], dataset.offsets[c + 1])
        asks, helps = (np.unique(group[rows[mask[rows]]]) for mask in (query, support))
        shared = np.intersect1d(asks, helps)
        shared = shared[np.argsort(rank[shared])]
        only_query, only_support = len(asks) - len(shared), len(helps) - len(shared)
        share = round(len(shared) * ratio[0] / sum(ratio))
        # Not fewer than a task needs on either side; where both cannot be had, the check of sizes says so.
        share = min(max(share, queries - only_query), len(shared) - max(shots - only_support, 0))
        share = min(max(share, 0), len(shared))
        support[rows[np.isin(group[rows], shared[:share])]] = False
        query[rows[np.isin(group[rows], shared[share:])]] = False
    return pool.restrict(query, support)
