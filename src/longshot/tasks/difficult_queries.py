"""Instances chosen by difficulty the other way round: for the support of a uniform task, the queries judges fail on.

A query's loss is the cross-entropy of a prototype classifier with the task's support, so each is chosen by itself and
exactly: no search is needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from longshot.base import TaskRows, UserError
from longshot.tasks.dial import replace_queries
from longshot.tasks.difficult import JudgedInstances
from longshot.tasks.drawing import dialled

if TYPE_CHECKING:
    from longshot.base import Floats, Ints
    from longshot.tasks.base import Pool
    from longshot.tasks.selection.feature_table import FeatureTable
    from longshot.tasks.selection.objectives import SelectionObjective
    from longshot.tasks.streams import Streams

_COMBINED: dict[str, Any] = {"mean": np.mean, "worst": np.max, "least": np.min}  # of several judges


@dataclass(frozen=True, eq=False)
class DifficultQueryInstances(JudgedInstances):
    """Queries on which the judges' loss is high, for the support that a uniform task has.

    Such tasks ask about the odd images of a class, and show what difficult supports do not: whether a method fails on
    images that few others resemble, or on references that were chosen against it.

    Parameters
    ----------
    judges, temperature, distance, normalize, judging, device, base, held_out, score
        As in :class:`DifficultInstances`; judges classify by prototypes.
    difficulty : float
        From 0 (uniform queries) to 1 (the hardest): which share of the images is exchanged.

    Examples
    --------
    >>> features = longshot.embed("toybox", "pixels")
    >>> chooser = DifficultQueryInstances(features)
    >>> testbed = longshot.sample("toybox", tasks=4, way=3, shot=2, query=4, instances=chooser)
    >>> all(task.measured["loss_after"] >= task.measured["loss_before"] for task in testbed)
    True
    """

    name: ClassVar[str] = "difficult-queries"
    about: ClassVar[str] = "the queries that a model fails on"
    not_settings: ClassVar[tuple[str, ...]] = ("distance", "objective", "fresh_queries")
    side: ClassVar[str] = "query"

    def __post_init__(self) -> None:
        super().__post_init__()
        by_ridge = [judge for judge in self.panel if judge.classifier[0] != "protonet"]
        if by_ridge or self.objective != "prototype" or self.fresh_queries:
            raise UserError(
                "Queries are chosen by prototypes, and by nothing else",
                "leave {objective} and {fresh_queries} out, and the method of {judge}",
            )

    def _chosen(
        self,
        table: FeatureTable,
        start: TaskRows,
        objective: SelectionObjective,
        streams: Streams,
        pool: Pool,
    ) -> tuple[TaskRows, Mapping[str, Any]]:
        from longshot.tasks.selection.objectives import logits, support_centres

        plan, support = start.plan, start.support.values
        tables: Sequence[FeatureTable] = getattr(table, "parts", (table,))  # one for each judge
        centres = [support_centres(each, start, support) for each in tables]
        distances = [judge.classifier[1] or self.distance for judge in self.panel]

        def hardest(task: int, slot: int, free: Ints, number: int) -> Ints:
            slots = slice(*plan.slots_of(task))
            scores = [
                logits(each.gather(free), own[slots], distance, self.temperature).log_softmax(-1)  # type: ignore[arg-type]
                for each, own, distance in zip(tables, centres, distances, strict=True)
            ]
            losses = [-score[:, slot - slots.start].cpu().numpy() for score in scores]
            combined: Floats = _COMBINED[self.judging](losses, axis=0)
            chosen: Ints = free[np.argsort(-combined, kind="stable")[:number]]
            return chosen

        selected, _ = replace_queries(start, pool, hardest)
        per_query = replace(plan, shots=plan.queries)  # what is exchanged are queries
        rows = dialled(per_query, start.query.values, selected.query.values, self.difficulty, streams)
        return replace(selected, query=start.query.with_values(rows)), {}
