"""Tasks as numbers, from plan to rows: what samplers make and selection, methods and training read.

TaskPlan     classes and counts, before images are chosen
TaskRows     row numbers and labels of support and query
TaskBatch    padded tensors on a device (``base/batches.py``, which needs torch)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from longshot.base.arrays import Ints
from longshot.base.ragged import Ragged, offsets_of

_IMAGES = ("support", "support_label", "query", "query_label")  # ragged columns of TaskRows


@dataclass(frozen=True, eq=False)
class TaskPlan:
    """T tasks before their images are chosen: classes and counts. All three share offsets.

    A *slot* is one class of one task. Slots lie task after task, so everything per slot is a flat array.
    """

    classes: Ragged  # class numbers
    shots: Ragged  # support images per class
    queries: Ragged  # query images per class

    @classmethod
    def concat(cls, plans: Sequence[TaskPlan]) -> TaskPlan:
        """The tasks of all plans, one plan behind the other."""
        parts = zip(*((plan.classes, plan.shots, plan.queries) for plan in plans), strict=True)
        return cls(*(Ragged.concat(part) for part in parts))

    def __len__(self) -> int:
        return len(self.classes)

    @property
    def slots(self) -> int:
        """S, the number of slots."""
        return len(self.classes.values)

    @property
    def support_offsets(self) -> Ints:
        """Bounds of each slot's rows in a flat support [S + 1]."""
        return offsets_of(self.shots.values)

    def slots_of(self, task: int) -> tuple[int, int]:
        """First slot of a task, and the slot behind its last."""
        return int(self.classes.offsets[task]), int(self.classes.offsets[task + 1])

    def take(self, positions: ArrayLike) -> TaskPlan:
        """The tasks at the given positions, in that order."""
        return TaskPlan(*(part.take(positions) for part in (self.classes, self.shots, self.queries)))

    def slice(self, start: int, stop: int) -> TaskPlan:
        """Tasks ``start`` to ``stop``."""
        return TaskPlan(*(part.slice(start, stop) for part in (self.classes, self.shots, self.queries)))


@dataclass(frozen=True, eq=False)
class TaskRows:
    """T tasks of one dataset, as integers only: what methods and feature code work on.

    Rows count in the order of the keys the testbed was bound to (a dataset's or a feature array's rows).

    Examples
    --------
    >>> plan = TaskPlan(*(Ragged.from_lists([row]) for row in ([7, 3], [1, 2], [1, 1])))
    >>> rows = TaskRows.from_plan(plan, Ragged.from_lists([[70, 30, 31]]), Ragged.from_lists([[71, 32]]))
    >>> rows.support_label.row(0).tolist(), rows.query_label.row(0).tolist()
    ([0, 1, 1], [0, 1])
    """

    tasks: Ints  # [T] task numbers in the testbed
    ways: Ints  # [T]
    support: Ragged  # int64 rows
    support_label: Ragged  # int16, positions in the task's classes
    query: Ragged  # int64 rows
    query_label: Ragged  # int16
    measured: Mapping[str, NDArray[Any]] = field(default_factory=dict, kw_only=True)  # column name → [T]
    planned: TaskPlan | None = field(
        default=None, kw_only=True
    )  # what the images were chosen for, where drawn

    @classmethod
    def from_plan(
        cls,
        plan: TaskPlan,
        support: Ragged,
        query: Ragged,
        *,
        tasks: Ints | None = None,
    ) -> TaskRows:
        """The images chosen for a plan.

        Parameters
        ----------
        plan : TaskPlan
            T tasks.
        support, query : Ragged
            Rows of each task, class after class in the order of the plan: shots[0] rows of its first class, then
            shots[1] of the second …
        tasks : array [T], optional
            Task numbers; 0 … T − 1 by default.
        """
        return cls(
            tasks=np.arange(len(plan)) if tasks is None else tasks,
            ways=plan.classes.lengths,
            support=support,
            support_label=_labels(plan.classes, plan.shots),
            query=query,
            query_label=_labels(plan.classes, plan.queries),
            planned=plan,
        )

    @classmethod
    def concat(cls, parts: Sequence[TaskRows]) -> TaskRows:
        """The tasks of all parts, one part behind the other; all have measured the same."""
        return cls(
            np.concatenate([part.tasks for part in parts]),
            np.concatenate([part.ways for part in parts]),
            *(Ragged.concat([getattr(part, name) for part in parts]) for name in _IMAGES),
            measured={
                name: np.concatenate([part.measured[name] for part in parts]) for name in parts[0].measured
            },
            planned=None if parts[0].planned is None else TaskPlan.concat([part.plan for part in parts]),
        )

    @property
    def plan(self) -> TaskPlan:
        """Classes and counts of tasks that were drawn; those of a file have none."""
        if self.planned is None:
            raise ValueError("tasks that were not drawn here have no plan")
        return self.planned

    @cached_property
    def slot_query(self) -> Ragged:
        """The query rows of each slot of the plan."""
        return Ragged.from_lengths(self.query.values, self.plan.queries.values)

    def __len__(self) -> int:
        return len(self.tasks)

    def take(self, positions: ArrayLike) -> TaskRows:
        """The tasks at the given positions (0 … T − 1, not task numbers), in that order."""
        order = np.asarray(positions, dtype=np.int64)
        return self._picked(order, lambda part: part.take(order))

    def slice(self, start: int, stop: int) -> TaskRows:
        """Tasks ``start`` to ``stop`` without copying the rows."""
        return self._picked(slice(start, stop), lambda part: part.slice(start, stop))

    def _picked(self, index: Any, pick: Callable[[Any], Any]) -> TaskRows:
        return TaskRows(
            self.tasks[index],
            self.ways[index],
            *(pick(getattr(self, name)) for name in _IMAGES),
            measured={name: values[index] for name, values in self.measured.items()},
            planned=None if self.planned is None else pick(self.planned),
        )

    def by_label(self) -> TaskRows:
        """The same tasks with the support of each sorted by label; equal labels keep their order."""
        labels, owners = self.support_label.values, self.support_label.owners
        if not ((labels[1:] < labels[:-1]) & (owners[1:] == owners[:-1])).any():
            return self
        order = np.lexsort((labels, owners))
        return replace(
            self,
            support=self.support.with_values(self.support.values[order]),
            support_label=self.support_label.with_values(labels[order]),
        )

    def with_measured(self, columns: Mapping[str, NDArray[Any]]) -> TaskRows:
        """The same tasks with further measured columns."""
        return replace(self, measured={**self.measured, **columns})


def task_seeds(seed: int, tasks: Ints) -> Ints:
    """[T] one seed per task number in 0 … 2⁶³−1: the SplitMix64 finaliser over (seed, task)."""
    with np.errstate(over="ignore"):
        start = np.uint64(seed % 2**64) * np.uint64(0xD1342543DE82EF95)
        state = start + (tasks.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        state ^= state >> np.uint64(31)
    return (state >> np.uint64(1)).astype(np.int64)


def _labels(classes: Ragged, counts: Ragged) -> Ragged:
    """The int16 label of every image: its class's position in the task, ``counts`` images of each class."""
    labels = np.repeat(classes.positions.astype(np.int16), counts.values)
    return Ragged(labels, offsets_of(counts.values)[counts.offsets])
