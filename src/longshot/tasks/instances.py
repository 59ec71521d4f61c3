"""Instances: which images of its classes a task has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from longshot.base import Ragged, TaskPlan, TaskRows
from longshot.tasks.base import Pool
from longshot.tasks.streams import Streams


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
    features_hash: ClassVar[str | None] = None

    def draw(self, streams: Streams, pool: Pool, plan: TaskPlan) -> TaskRows:
        """Support and query rows of each task."""
        query = draw_queries(streams, pool, plan)
        taken = query if pool.support_mask is None else _ranks(query, pool, plan, pool.support_mask)
        sizes = pool.support_sizes[plan.classes.values]
        free = streams.slots("support", plan.classes).choose(sizes - taken.lengths, plan.shots.values)
        support = _places(skip_past(free, taken), pool, plan, pool.support_mask)
        support, query = to_rows(support, pool, plan), to_rows(query, pool, plan)
        return TaskRows.from_plan(plan, support, query, tasks=streams.tasks)


def draw_queries(streams: Streams, pool: Pool, plan: TaskPlan) -> Ragged:
    """Positions inside its class of the query images of every (task, class) slot, in random order.

    A function of seed, task, slot, which images may be queries and their number only. Every instance sampler
    takes its queries from here, so the testbeds of one seed (uniform, difficult, easy; shifted, matched; 1-shot,
    5-shot) ask the same questions.
    """
    sizes = pool.query_sizes[plan.classes.values]
    numbers = streams.slots("query", plan.classes).choose(sizes, plan.queries.values)
    return _places(numbers, pool, plan, pool.query_mask)


def _places(numbers: Ragged, pool: Pool, plan: TaskPlan, mask: NDArray[np.bool_] | None) -> Ragged:
    """Numbers among the images a mask [N] allows → positions inside the class, per (task, class) slot."""
    if mask is None:
        return numbers
    allowed = np.flatnonzero(mask)
    first = np.searchsorted(allowed, pool.starts)[plan.classes.values]
    start = pool.starts[plan.classes.values]
    places = allowed[np.repeat(first, numbers.lengths) + numbers.values] - np.repeat(start, numbers.lengths)
    return numbers.with_values(places)


def _ranks(places: Ragged, pool: Pool, plan: TaskPlan, mask: NDArray[np.bool_]) -> Ragged:
    """The inverse of ``_places``, without the positions that the mask does not allow."""
    rows = places.values + np.repeat(pool.starts[plan.classes.values], places.lengths)
    inside = mask[rows]
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


def to_rows(slots: Ragged, pool: Pool, plan: TaskPlan) -> Ragged:
    """Positions inside a class, per (task, class) slot → dataset rows, per task, class after class."""
    rows = slots.values + np.repeat(pool.starts[plan.classes.values], slots.lengths)
    return Ragged(rows, slots.offsets[plan.classes.offsets])
