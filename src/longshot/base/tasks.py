"""Tasks as numbers, from plan to rows: what samplers make and selection, methods and training read.

Ragged       rows of unequal length in one flat array
TaskPlan     classes and counts, before images are chosen
TaskRows     row numbers and labels of support and query
TaskBatch    padded tensors on a device (``base/batches.py``, which needs torch)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

Ints: TypeAlias = NDArray[np.int64]  # row numbers, class numbers, counts, offsets
Floats: TypeAlias = NDArray[np.float64]  # measured numbers
Bools: TypeAlias = NDArray[np.bool_]  # masks


@dataclass(frozen=True, eq=False)
class Ragged:
    """T rows of unequal length: row i is ``values[offsets[i] : offsets[i + 1]]``.

    ``values`` has shape [M], ``offsets`` has shape [T + 1], starts at 0 and ends at M.
    """

    values: NDArray[Any]
    offsets: NDArray[np.int64]

    def __post_init__(self) -> None:
        if self.values.ndim != 1 or self.offsets.ndim != 1 or len(self.offsets) == 0:
            raise ValueError("a Ragged needs flat values and at least one offset")
        if self.offsets[0] != 0 or self.offsets[-1] != len(self.values):
            raise ValueError(
                f"offsets run from {self.offsets[0]} to {self.offsets[-1]}, not 0 to {len(self.values)}"
            )

    @classmethod
    def from_lengths(cls, values: NDArray[Any], lengths: ArrayLike) -> Ragged:
        """Cut flat ``values`` [M] into consecutive rows of the given lengths [T], which sum to M."""
        return cls(values, offsets_of(lengths))

    @classmethod
    def from_lists(cls, rows: Iterable[ArrayLike], dtype: DTypeLike = np.int64) -> Ragged:
        """Put the given rows one behind the other.

        >>> Ragged.from_lists([[3, 1], [], [2]]).lengths
        array([2, 0, 1])
        """
        arrays = [np.asarray(row, dtype=dtype).reshape(-1) for row in rows]
        values = np.concatenate(arrays) if arrays else np.empty(0, dtype=dtype)
        return cls.from_lengths(values, [len(array) for array in arrays])

    @classmethod
    def concat(cls, parts: Sequence[Ragged]) -> Ragged:
        """Join all rows of the first part, then all rows of the second, and so on (at least one part)."""
        values = np.concatenate([part.values for part in parts])
        return cls.from_lengths(values, np.concatenate([part.lengths for part in parts]))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Number of values in each row, [T]."""
        return np.diff(self.offsets)

    @property
    def owners(self) -> NDArray[np.int64]:
        """Return the row each value belongs to, [M]."""
        return np.repeat(np.arange(len(self)), self.lengths)

    @property
    def positions(self) -> NDArray[np.int64]:
        """Return the place of each value inside its row, [M]."""
        return np.arange(len(self.values)) - np.repeat(self.offsets[:-1], self.lengths)

    def row(self, index: int) -> NDArray[Any]:
        """Return row ``index`` as a view."""
        return self.values[self.offsets[index] : self.offsets[index + 1]]

    def take(self, rows: ArrayLike) -> Ragged:
        """Return the given rows, in the given order; rows may repeat."""
        order = np.asarray(rows, dtype=np.int64)
        return Ragged.from_lengths(self.values[self.indices(order)], self.lengths[order])

    def indices(self, rows: ArrayLike) -> NDArray[np.int64]:
        """Return where the values of the given rows stand in ``values``, row after row.

        >>> Ragged.from_lists([[3, 1], [], [2]]).indices([2, 0])
        array([2, 0, 1])
        """
        order = np.asarray(rows, dtype=np.int64)
        lengths = self.lengths[order]
        offsets = offsets_of(lengths)
        return np.arange(offsets[-1]) + np.repeat(self.offsets[:-1][order] - offsets[:-1], lengths)

    def slice(self, start: int, stop: int) -> Ragged:
        """Return the rows ``start`` to ``stop`` without copying the values."""
        offsets = self.offsets[start : stop + 1]
        return Ragged(self.values[offsets[0] : offsets[-1]], offsets - offsets[0])

    def with_values(self, values: NDArray[Any]) -> Ragged:
        """Return the same row lengths around other values [M]."""
        return Ragged(values, self.offsets)

    def padded(self, fill: Any, width: int | None = None) -> NDArray[Any]:
        """Return a rectangle with ``fill`` behind the end of each row (default: the longest row wide) [T, width]."""
        lengths = self.lengths
        longest = int(lengths.max(initial=0))
        columns = longest if width is None else width
        if columns < longest:
            raise ValueError(f"a row of {longest} values does not fit into width {columns}")
        if len(self) and columns and np.all(lengths == columns):
            return self.values.reshape(len(self), columns)
        out = np.full((len(self), columns), fill, dtype=self.values.dtype)
        out[np.arange(columns) < lengths[:, None]] = self.values
        return out


def offsets_of(lengths: ArrayLike) -> NDArray[np.int64]:
    """Return where rows of the given lengths [T] start and end when laid one behind the other, [T + 1]."""
    sizes = np.asarray(lengths, dtype=np.int64)
    offsets = np.zeros(len(sizes) + 1, dtype=np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return offsets


def rows_of_classes(offsets: NDArray[np.int64], classes: ArrayLike) -> NDArray[np.int64]:
    """Return all rows of some classes, class by class, where class c is the rows offsets[c]:offsets[c + 1].

    >>> rows_of_classes(np.array([0, 2, 5, 6]), [0, 2])
    array([0, 1, 5])
    """
    return Ragged(np.arange(offsets[-1]), offsets).indices(classes)


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
        """Join the tasks of all plans, one plan behind the other."""
        parts = zip(*((plan.classes, plan.shots, plan.queries) for plan in plans), strict=True)
        return cls(*(Ragged.concat(part) for part in parts))

    def __len__(self) -> int:
        return len(self.classes)

    @property
    def slots(self) -> int:
        """Count the slots, S."""
        return len(self.classes.values)

    @property
    def support_offsets(self) -> Ints:
        """Return the bounds of each slot's rows in a flat support [S + 1]."""
        return offsets_of(self.shots.values)

    def slots_of(self, task: int) -> tuple[int, int]:
        """Return the first slot of a task, and the slot behind its last."""
        return int(self.classes.offsets[task]), int(self.classes.offsets[task + 1])

    def take(self, positions: ArrayLike) -> TaskPlan:
        """Return the tasks at the given positions, in that order."""
        return TaskPlan(*(part.take(positions) for part in (self.classes, self.shots, self.queries)))

    def slice(self, start: int, stop: int) -> TaskPlan:
        """Return the tasks ``start`` to ``stop``."""
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
        """Return the images chosen for a plan.

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
        """Join the tasks of all parts, one part behind the other; all have measured the same."""
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
        """Return classes and counts of tasks that were drawn; those of a file have none."""
        if self.planned is None:
            raise ValueError("tasks that were not drawn here have no plan")
        return self.planned

    @cached_property
    def slot_query(self) -> Ragged:
        """Return the query rows of each slot of the plan."""
        return Ragged.from_lengths(self.query.values, self.plan.queries.values)

    def __len__(self) -> int:
        return len(self.tasks)

    def take(self, positions: ArrayLike) -> TaskRows:
        """Return the tasks at the given positions (0 … T − 1, not task numbers), in that order."""
        order = np.asarray(positions, dtype=np.int64)
        return self._picked(order, lambda part: part.take(order))

    def slice(self, start: int, stop: int) -> TaskRows:
        """Return the tasks ``start`` to ``stop`` without copying the rows."""
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
        """Return the same tasks with the support of each sorted by label; equal labels keep their order."""
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
        """Return the same tasks with further measured columns."""
        return replace(self, measured={**self.measured, **columns})


def same_shape(tasks: TaskRows, at_once: int) -> list[Ints]:
    """Return positions of tasks with equal (way, support, query), in groups of at most ``at_once``; in task order."""
    groups: dict[tuple[int, int, int], list[list[int]]] = {}
    shapes = np.stack([tasks.ways, tasks.support.lengths, tasks.query.lengths], 1).tolist()
    ordered: list[list[int]] = []
    for position, (way, support, query) in enumerate(shapes):
        of_shape = groups.setdefault((way, support, query), [])
        if not of_shape or len(of_shape[-1]) >= at_once:
            of_shape.append([])
            ordered.append(of_shape[-1])
        of_shape[-1].append(position)
    return [np.asarray(group, np.int64) for group in ordered]


def used_rows(tasks: Iterable[TaskRows]) -> Ints:
    """Return the rows that some tasks use, each once, ascending."""
    return np.unique(np.concatenate([part.values for each in tasks for part in (each.support, each.query)]))


def renumbered(tasks: TaskRows, rows: Ints) -> TaskRows:
    """Number the rows of tasks by their place among ``rows``, ascending."""

    def among(part: Ragged) -> Ragged:
        return part.with_values(np.searchsorted(rows, part.values).astype(part.values.dtype))

    return replace(tasks, support=among(tasks.support), query=among(tasks.query))


def task_seeds(seed: int, tasks: Ints) -> Ints:
    """Return one seed per task number in 0 … 2⁶³−1: the SplitMix64 finaliser over (seed, task). [T]"""
    with np.errstate(over="ignore"):
        start = np.uint64(seed % 2**64) * np.uint64(0xD1342543DE82EF95)
        state = start + (tasks.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        state ^= state >> np.uint64(31)
    return (state >> np.uint64(1)).astype(np.int64)


def _labels(classes: Ragged, counts: Ragged) -> Ragged:
    """Return the int16 label of every image: its class's position in the task, ``counts`` images of each class."""
    labels = np.repeat(classes.positions.astype(np.int16), counts.values)
    return Ragged(labels, offsets_of(counts.values)[counts.offsets])
