"""Instances: which images of its classes a task has, uniform or curated.

Of curated tasks support and query differ in a stated way (shifted), or do not (matched). A *case* says which images may
be queries and which support, once with the shift and once without it. For each task one case is drawn uniformly and,
with ``same``, one value of that attribute (one owner) whose classes have enough images. A shifted and a matched testbed
of one seed have the same cases, classes and queries.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from keyword import iskeyword
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from longshot.base import Bools, Ragged, TaskPlan, TaskRows, UserError, count
from longshot.tasks.base import Pool
from longshot.tasks.pools import quoted, rule_mask
from longshot.tasks.streams import Streams

if TYPE_CHECKING:
    from longshot.data import Dataset


@dataclass(frozen=True)
class UniformInstances:
    """Every set of images of a class is equally likely: first the query, then the support from the rest.

    Examples
    --------
    >>> testbed = longshot.sample("toybox", tasks=3, way=3, shot=2, query=4, instances=UniformInstances())
    >>> task = testbed[0]
    >>> len(task.support), len(task.query), set(task.support) & set(task.query)
    (6, 12, set())
    """

    name: ClassVar[str] = "uniform"
    about: ClassVar[str] = "any"
    features_hash: ClassVar[str | None] = None

    def draw(self, streams: Streams, pool: Pool, plan: TaskPlan) -> TaskRows:
        """Draw support and query rows of each task."""
        query = draw_queries(streams, pool, plan)
        taken = query if pool.support_mask is None else _ranks(query, pool, plan, pool.support_mask)
        sizes = pool.support_sizes[plan.classes.values]
        free = streams.slots("support", plan.classes).choose(sizes - taken.lengths, plan.shots.values)
        support = _places(skip_past(free, taken), pool, plan, pool.support_mask)
        support, query = slots_to_rows(support, pool, plan), slots_to_rows(query, pool, plan)
        return TaskRows.from_plan(plan, support, query, tasks=streams.tasks)


def draw_queries(streams: Streams, pool: Pool, plan: TaskPlan) -> Ragged:
    """Draw the query images of every (task, class) slot, as positions inside the class in random order.

    A function of seed, task, slot, which images may be queries and their number only. Every instance sampler
    takes its queries from here, so the testbeds of one seed (uniform, difficult, easy; shifted, matched; 1-shot,
    5-shot) ask the same questions.
    """
    sizes = pool.query_sizes[plan.classes.values]
    numbers = streams.slots("query", plan.classes).choose(sizes, plan.queries.values)
    return _places(numbers, pool, plan, pool.query_mask)


def _places(numbers: Ragged, pool: Pool, plan: TaskPlan, mask: Bools | None) -> Ragged:
    """Turn numbers among the images a mask [N] allows into positions inside the class, per (task, class) slot."""
    if mask is None:
        return numbers
    allowed = np.flatnonzero(mask)
    first = np.searchsorted(allowed, pool.starts)[plan.classes.values]
    start = pool.starts[plan.classes.values]
    places = allowed[np.repeat(first, numbers.lengths) + numbers.values] - np.repeat(start, numbers.lengths)
    return numbers.with_values(places)


def _ranks(places: Ragged, pool: Pool, plan: TaskPlan, mask: Bools) -> Ragged:
    """Invert ``_places``: positions to numbers among allowed images, copies counting as the image they stand for."""
    rows = places.values + np.repeat(pool.starts[plan.classes.values], places.lengths)
    if pool.twins is not None:
        rows = pool.twins[rows]
    inside = (rows >= 0) & mask[rows]
    before = np.concatenate([[0], np.cumsum(mask)])
    ranks = before[rows] - np.repeat(before[pool.starts[plan.classes.values]], places.lengths)
    counts = np.bincount(places.owners[inside], minlength=len(places))
    return Ragged.from_lengths(ranks[inside], counts)


def skip_past(free: Ragged, taken: Ragged) -> Ragged:
    """Turn positions among what is left into positions in the whole, row by row.

    With ``taken`` sorted as t₀ < t₁ < …, position r among the others is r + #{i : tᵢ − i ≤ r} in the whole.
    """
    never = np.iinfo(np.int64).max
    order = np.sort(taken.padded(never), axis=1)
    values, lengths = free.values.copy(), free.lengths
    # Upwards, one taken place after the other: each pushes what lies at or above it one place up.
    for column in np.ascontiguousarray(order.T):
        values += values >= np.repeat(column, lengths)
    return free.with_values(values)


def slots_to_rows(slots: Ragged, pool: Pool, plan: TaskPlan) -> Ragged:
    """Turn positions inside a class, per (task, class) slot, into dataset rows, per task, class after class."""
    rows = slots.values + np.repeat(pool.starts[plan.classes.values], slots.lengths)
    return Ragged(rows, slots.offsets[plan.classes.offsets])


RULE_SETS = ("coco-objects", "orbit-clutter", "orbit-quality", "cure-or-viewpoint")
_OBJECTS = ("objects", "object_count", "num_objects", "n_objects", "clutter")
_OWNERS = ("owner", "user", "user_id", "collector")
_ISSUES = (
    "blur",
    "occlusion",
    "overexposure",
    "over_exposed",
    "underexposure",
    "under_exposed",
    "framing",
    "viewpoint",
    "viewpoint_issue",
)


@dataclass(frozen=True)
class Case:
    """Rules for the query, the shifted support and the matched support; None allows every image."""

    query: str | None
    shifted: str | None
    matched: str | None


@dataclass(frozen=True, eq=False)
class Curated:
    """What ShiftedInstances and MatchedInstances share: rules by name, or rules of one's own.

    ``rule`` names one of ``RULE_SETS``; its attributes are looked up in the dataset. Otherwise ``query_where`` and
    ``support_where`` are the rules of the shifted tasks, and matched tasks take their support from the query's rule.
    ``attribute`` is any column: queries have one value and the support another, in every order of two values.
    ``same`` keeps a task within one value of an attribute (ORBIT's rule sets: the owner unless said otherwise).
    """

    query_where: str | None = None
    support_where: str | None = None
    rule: str | None = None
    attribute: str | None = None
    same: str | None = None

    name: ClassVar[str] = "curated"
    shifts: ClassVar[bool] = True
    features_hash: ClassVar[str | None] = None

    def __post_init__(self) -> None:
        if self.rule is not None and self.rule not in RULE_SETS:
            raise UserError(f"There is no rule set '{self.rule}'; there are: {', '.join(RULE_SETS)}.")
        if self.rule is not None and (self.query_where or self.support_where):
            raise UserError(
                f"The rule set '{self.rule}' brings its own rules",
                "leave out {query_where} and {support_where}, or {rule}",
            )
        if self.attribute is not None and (self.rule or self.query_where or self.support_where):
            raise UserError(
                f"{{attribute:{self.attribute}}} makes the rules of its values itself",
                "leave out {rule}, {query_where} and {support_where}, or {attribute}",
            )
        if not (self.rule or self.attribute or (self.query_where and self.support_where)):
            raise UserError(
                f"{self.name.capitalize()} tasks need a rule for the query and one for the support",
                f"give {{attribute}} (any column), {{rule}} ({', '.join(RULE_SETS)}), or both {{query_where}} and "
                "{support_where}",
            )

    def draw(self, streams: Streams, pool: Pool, plan: TaskPlan) -> TaskRows:
        """Draw support and query rows, uniform among the images that the pool's rules allow."""
        return UniformInstances().draw(streams, pool, plan)

    def settings(self, pool: Pool) -> list[tuple[Pool, Pool]]:
        """Return the pools that tasks are drawn from, one of them for each task, each beside that of its twin.

        The twin is the task of the other kind, which must be possible too.
        """
        dataset = pool.dataset
        if self.attribute is not None:
            cases: tuple[Case, ...] = attribute_cases(self.attribute, dataset)
            same = self.same
        elif self.rule is None:
            own_case = Case(self.query_where, self.support_where, self.query_where)
            cases = (own_case,)
            same = self.same
        else:
            cases, usual = rule_set(self.rule, dataset)
            same = self.same or usual
        pools = []
        for case in cases:
            query, shifted, matched = (
                _mask(rule, dataset) for rule in (case.query, case.shifted, case.matched)
            )
            own, other = (shifted, matched) if self.shifts else (matched, shifted)
            label = f"query {case.query or 'any'}; support {(case.shifted if self.shifts else case.matched) or 'any'}"
            for value, members in _values(same, dataset).items():
                text = label if value is None else f"{label}; {same} {value}"
                limited = pool.restrict(members, members)
                own_pool = replace(limited.restrict(query, own), label=text)
                pools.append((own_pool, limited.restrict(query, other)))
        return pools

    @property
    def within(self) -> bool:
        """Tell whether tasks stay within one value of an attribute (each value then has classes of its own)."""
        return self.same is not None or (self.rule or "").startswith("orbit-")


@dataclass(frozen=True, eq=False)
class ShiftedInstances(Curated):
    """The support differs from the query as the rule says.

    Parameters
    ----------
    query_where, support_where : str, optional
        Rules of the shifted tasks, such as ``"viewpoint in (front, back)"``.
    rule : {"coco-objects", "orbit-clutter", "orbit-quality", "cure-or-viewpoint"}, optional
        A named set of rules in their place; its attributes are looked up in the dataset.
    attribute : str, optional
        Any column in their place: queries have one value, the support another; of numbers the lower and the upper half.
    same : str, optional
        Keep a task within one value of this attribute.

    Examples
    --------
    >>> chooser = ShiftedInstances(query_where="viewpoint == front", support_where="viewpoint == side")
    >>> testbed = longshot.sample("toybox", tasks=3, way=3, shot=1, query=2, instances=chooser, drop_small=True)
    >>> len(testbed)
    3
    """

    name: ClassVar[str] = "shifted"
    about: ClassVar[str] = "support unlike the queries"
    shifts: ClassVar[bool] = True


@dataclass(frozen=True, eq=False)
class MatchedInstances(Curated):
    """The support is like the query: the same questions as the shifted tasks of the same seed.

    Parameters
    ----------
    query_where, support_where : str, optional
        Rules of the shifted tasks, such as ``"viewpoint in (front, back)"``.
    rule : {"coco-objects", "orbit-clutter", "orbit-quality", "cure-or-viewpoint"}, optional
        A named set of rules in their place; its attributes are looked up in the dataset.
    attribute : str, optional
        Any column in their place: queries have one value, the support another; of numbers the lower and the upper half.
    same : str, optional
        Keep a task within one value of this attribute.

    Examples
    --------
    >>> chooser = MatchedInstances(query_where="viewpoint == front", support_where="viewpoint == side")
    >>> testbed = longshot.sample("toybox", tasks=3, way=3, shot=1, query=2, instances=chooser, drop_small=True)
    >>> len(testbed)
    3
    """

    name: ClassVar[str] = "matched"
    about: ClassVar[str] = "support like the queries"
    shifts: ClassVar[bool] = False


_MOST_VALUES = 16  # of a column that tasks shift by: every two of them are a pool in either order


def attribute_cases(name: str, dataset: Dataset) -> tuple[Case, ...]:
    """Return the rules of a shift by any column: every value against every other; of numbers the two halves.

    Parameters
    ----------
    name : str
        A column of the dataset's attributes. Numbers of more than 16 values are cut at their median.
    dataset : Dataset
        Whose attributes.
    """
    column = _columns(dataset).get(name)
    if column is None:
        have = ", ".join(_columns(dataset)) or "none"
        raise UserError(f"Dataset '{dataset.name}' has no attribute '{name}' to shift by; it has: {have}.")
    kind = _kind(dataset, name)
    values = sorted(value for value in pc.unique(column).to_pylist() if value is not None)
    column_name = name if name.isidentifier() and not iskeyword(name) else quoted(name)
    if kind == "flag":
        rules = [column_name, f"not {column_name}"]
    elif kind == "number" and len(values) > _MOST_VALUES:
        middle = float(np.median(pc.drop_null(column).to_numpy()))
        rules = [f"{column_name} <= {middle!r}", f"{column_name} > {middle!r}"]
    elif 2 <= len(values) <= _MOST_VALUES:
        written = repr if kind == "number" else quoted
        rules = [f"{column_name} == {written(value)}" for value in values]
    else:
        raise UserError(
            f"The attribute '{name}' of '{dataset.name}' has {count(len(values), 'value')}, and a shift takes 2 to "
            f"{_MOST_VALUES} of them",
            "choose another column, or give {query_where} and {support_where}",
        )
    return tuple(Case(a, b, a) for a in rules for b in rules if a != b)


def rule_set(name: str, dataset: Dataset) -> tuple[tuple[Case, ...], str | None]:
    """Return the cases of a named rule set in the words of this dataset's attributes, and what is the same in a task.

    - coco-objects: query one object; support more than three, matched one or two.
    - orbit-clutter: query clean; support cluttered, matched clean; one owner.
    - orbit-quality: query without an issue; support with at least one, matched any; one owner.
    - cure-or-viewpoint: query front or back, side, or top; support side; front or back; front, back or side;
      matched the same viewpoints as the query.
    """
    if name == "coco-objects":
        count = _attribute(dataset, name, _OBJECTS, "number")
        return (Case(f"{count} == 1", f"{count} > 3", f"{count} in (1, 2)"),), None
    if name == "cure-or-viewpoint":
        view = _attribute(dataset, name, ("viewpoint", "view"), "word")
        ends, side, top = f"{view} in (front, back)", f"{view} == side", f"{view} == top"
        return (
            Case(ends, side, ends),
            Case(side, ends, side),
            Case(top, f"{view} in (front, back, side)", top),
        ), None
    owner = _attribute(dataset, name, _OWNERS, "word")
    if name == "orbit-clutter":
        clutter = _attribute(dataset, name, ("clutter", "cluttered"), "number", "flag")
        flag = _kind(dataset, clutter) == "flag"
        clean = f"not {clutter}" if flag else f"{clutter} <= 1"
        return (Case(clean, clutter if flag else f"{clutter} > 1", clean),), owner
    if "quality_issues" in _columns(dataset):
        return (Case("quality_issues == 0", "quality_issues > 0", None),), owner
    issues = [issue for issue in _ISSUES if _kind(dataset, issue) == "flag"]
    if not issues:
        _attribute(dataset, name, ("quality_issues", *_ISSUES), "flag")
    some = " or ".join(issues)
    return (Case(f"not ({some})", some, None),), owner


def objects_attribute(dataset: Dataset) -> str | None:
    """Return the attribute that counts the objects of an image, None where there is none.

    >>> from longshot.data import open_dataset
    >>> objects_attribute(open_dataset("toybox"))
    'clutter'
    """
    return next((name for name in _OBJECTS if _kind(dataset, name) == "number"), None)


def _attribute(dataset: Dataset, rule: str, names: tuple[str, ...], *kinds: str) -> str:
    """Return the first of the names that is an attribute of one of the kinds."""
    for name in names:
        if _kind(dataset, name) in kinds:
            return name
    have = ", ".join(_columns(dataset)) or "none"
    raise UserError(
        f"The rule set '{rule}' needs an attribute called {' or '.join(names)} that holds {' or '.join(kinds)}s; "
        f"dataset '{dataset.name}' has: {have}."
    )


def _columns(dataset: Dataset) -> Mapping[str, Any]:
    table = dataset.attributes
    return {} if table is None else {name: table.column(name) for name in table.column_names}


def _kind(dataset: Dataset, name: str) -> str | None:
    column = _columns(dataset).get(name)
    if column is None:
        return None
    if pa.types.is_boolean(column.type):
        return "flag"
    return "number" if pa.types.is_integer(column.type) or pa.types.is_floating(column.type) else "word"


def _mask(rule: str | None, dataset: Dataset) -> Bools | None:
    return None if rule is None else rule_mask(rule, dataset.attributes, dataset.name)


def _values(same: str | None, dataset: Dataset) -> dict[Any, Bools | None]:
    """Return value → mask of its images, in order; {None: None} when nothing must stay the same."""
    if same is None:
        return {None: None}
    column = _columns(dataset).get(same)
    if column is None:
        have = ", ".join(_columns(dataset)) or "none"
        raise UserError(
            f"Dataset '{dataset.name}' has no attribute '{same}' to stay the same in a task; it has: {have}."
        )
    values = sorted(value for value in pc.unique(column).to_pylist() if value is not None)
    return {v: pc.fill_null(pc.equal(column, v), False).to_numpy(zero_copy_only=False) for v in values}
