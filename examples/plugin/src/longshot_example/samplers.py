"""Samplers: classes whose names stand side by side, and the first images of a class."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from longshot.base import Ragged, TaskPlan, TaskRows, UserError
from longshot.tasks import Pool, Shape, Streams, draw_queries, draw_within, skip_past, slots_to_rows


@dataclass(frozen=True)
class NeighbouringNames:
    """Draw all classes of a task from ``span`` classes that stand side by side in alphabetical order."""

    span: int = 10
    name: ClassVar[str] = "neighbouring-names"

    def draw(self, streams: Streams, shape: Shape, pool: Pool) -> Ragged:
        """Return the class numbers of each task."""
        if not shape.min_way <= self.span <= len(pool.classes):
            raise UserError(
                f"The span is {self.span}, and it must be from {shape.min_way} (the ways) "
                f"to {len(pool.classes)} (the classes)"
            )
        windows = np.lib.stride_tricks.sliding_window_view(pool.classes, self.span)
        groups = Ragged.from_lists(list(windows))
        return draw_within(streams, shape, groups, streams.stage("group").below(len(groups)))


@dataclass(frozen=True)
class FirstImages:
    """Take the first images of each class as its support, the queries at random from all."""

    name: ClassVar[str] = "first-images"
    features_hash: ClassVar[str | None] = None

    def draw(self, streams: Streams, pool: Pool, plan: TaskPlan) -> TaskRows:
        """Return support and query rows of each task."""
        query = draw_queries(streams, pool, plan)
        shots = plan.shots.values
        first = Ragged.from_lengths(np.concatenate([np.arange(shot) for shot in shots]), shots)
        support = slots_to_rows(skip_past(first, query), pool, plan)
        return TaskRows.from_plan(plan, support, slots_to_rows(query, pool, plan), tasks=streams.tasks)
