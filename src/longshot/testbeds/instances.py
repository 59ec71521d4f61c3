"""Instances: which images of its classes a task has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from longshot.ragged import Ragged, offsets_of
from longshot.testbeds.base import Drawn, Plan, Pool
from longshot.testbeds.streams import Streams


@dataclass(frozen=True)
class UniformInstances:
    """Every set of images of a class is equally likely: first the query, then the support from the rest."""

    name: ClassVar[str] = "uniform"
    features: ClassVar[str | None] = None

    def draw(self, streams: Streams, pool: Pool, plan: Plan) -> Drawn:
        """Support and query rows of each task."""
        query = draw_queries(streams, pool, plan)
        sizes = pool.sizes[plan.classes.values]
        rest = streams.slots("support", plan.classes).choose(sizes - plan.queries.values, plan.shots.values)
        support = skip_past(rest, query)
        return Drawn(to_rows(support, pool, plan), to_rows(query, pool, plan))


def draw_queries(streams: Streams, pool: Pool, plan: Plan) -> Ragged:
    """Positions inside its class of the query images of every (task, class) slot, in random order.

    A function of seed, task, slot, class size and number of queries only. Every instance sampler takes its
    queries from here, so the testbeds of one seed (uniform, difficult, easy; 1-shot, 5-shot) ask the same
    questions.
    """
    return streams.slots("query", plan.classes).choose(pool.sizes[plan.classes.values], plan.queries.values)


def skip_past(rest: Ragged, taken: Ragged) -> Ragged:
    """Turn positions among what is left into positions in the whole, row by row.

    With ``taken`` sorted as t₀ < t₁ < …, position r among the others is r + #{i : tᵢ − i ≤ r} in the whole.
    """
    never = np.iinfo(np.int64).max
    order = np.sort(taken.padded(never), axis=1)
    values, lengths = rest.values.copy(), rest.lengths
    # Upwards, one taken place after the other: each pushes what lies at or above it one place up.
    for column in np.ascontiguousarray(order.T):
        values += values >= np.repeat(column, lengths)
    return rest.with_values(values)


def to_rows(slots: Ragged, pool: Pool, plan: Plan) -> Ragged:
    """Positions inside a class, per (task, class) slot → dataset rows, per task, class after class."""
    rows = slots.values + np.repeat(pool.starts[plan.classes.values], slots.lengths)
    return Ragged(rows, slots.offsets[plan.classes.offsets])


def labels_of(plan: Plan, counts: Ragged) -> Ragged:
    """The int16 label of every image: its class's position in the task, ``counts`` images of each class."""
    labels = np.repeat(plan.classes.positions.astype(np.int16), counts.values)
    return Ragged(labels, offsets_of(counts.values)[counts.offsets])
