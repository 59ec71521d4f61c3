"""Tasks as integer arrays, and padded batches of their queries.

A *slot* is one class of one task. Slots lie task after task, so everything per slot is a flat array.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from longshot.core.errors import UserError
from longshot.selection.table import FeatureTable

Ints = NDArray[np.int64]
_BATCH_BYTES = 8 << 20  # of query features in one padded batch


@dataclass(frozen=True, eq=False)
class SelectionTasks:
    """T tasks with S slots in all.

    ``offsets`` [T+1] bounds the slots of a task; ``classes`` and ``shots`` [S] give a slot's class and k;
    ``query`` holds the rows of all queries, slot after slot, bounded by ``query_offsets`` [S+1];
    ``ids`` [T] names a task's random stream whatever batch it is in.
    """

    offsets: Ints
    classes: Ints
    shots: Ints
    query: Ints
    query_offsets: Ints
    ids: Ints

    @classmethod
    def from_lists(
        cls,
        classes: Sequence[Sequence[int]],
        shots: Sequence[Sequence[int]],
        query: Sequence[Sequence[Sequence[int]]],
    ) -> SelectionTasks:
        """Build from nested lists: [task][slot], [task][slot], [task][slot][query row]."""
        per_slot = [np.asarray(rows, dtype=np.int64) for task in query for rows in task]
        return cls(
            offsets=_bounds([len(task) for task in classes]),
            classes=np.array([c for task in classes for c in task], dtype=np.int64),
            shots=np.array([k for task in shots for k in task], dtype=np.int64),
            query=np.concatenate(per_slot) if per_slot else np.zeros(0, np.int64),
            query_offsets=_bounds([len(rows) for rows in per_slot]),
            ids=np.arange(len(classes), dtype=np.int64),
        )

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def ways(self) -> Ints:
        """Classes per task [T]."""
        return np.diff(self.offsets)

    @property
    def slots(self) -> int:
        """S, the number of slots."""
        return len(self.classes)

    @property
    def task_of_slot(self) -> Ints:
        """The task of each slot [S]."""
        return np.repeat(np.arange(len(self), dtype=np.int64), self.ways)

    @property
    def support_offsets(self) -> Ints:
        """Bounds of each slot's rows in a flat support array [S+1]."""
        return _bounds(self.shots)

    def take(self, tasks: Ints) -> SelectionTasks:
        """The tasks at these positions, in this order."""
        slots = _spans(self.offsets, tasks)
        rows = _spans(self.query_offsets, slots)
        return SelectionTasks(
            offsets=_bounds(self.ways[tasks]),
            classes=self.classes[slots],
            shots=self.shots[slots],
            query=self.query[rows],
            query_offsets=_bounds(np.diff(self.query_offsets)[slots]),
            ids=self.ids[tasks],
        )

    def support_positions(self, tasks: Ints) -> Ints:
        """Where the support rows of these tasks stand in a flat support array."""
        return _spans(self.support_offsets, _spans(self.offsets, tasks))

    def check(self, table: FeatureTable) -> None:
        """Every class must have k images to select besides the task's own queries; every query lies in its class."""
        first, last = table.offsets[self.classes], table.offsets[self.classes + 1]
        asked = np.diff(self.query_offsets)
        low, high = np.repeat(first, asked), np.repeat(last, asked)
        if np.any((self.query < low) | (self.query >= high)):
            raise ValueError("a query row lies outside the class of its slot")
        pool = pool_sizes(table, self)
        short = np.flatnonzero(self.shots > pool)
        if len(short):
            slot = int(short[0])
            kind = "images" if table.allowed is None else "images that may be support"
            raise UserError(
                f"Class '{table.name(int(self.classes[slot]))}' has {pool[slot]} {kind} besides the query of task "
                f"{self.ids[self.task_of_slot[slot]]}, but the support needs {self.shots[slot]}: "
                f"ask for fewer shots or queries."
            )


@dataclass(frozen=True)
class QueryBatch:
    """Some tasks, padded: ``query`` [B, Q, d], ``label`` [B, Q] (−1 = padding), ``pooled`` [B, Q] (the label of a
    query that its class's sum contains, else −1), ``mask`` [B, W] (true = a class), ``slots`` [B, W] (0 where
    padded), ``tasks`` [B] positions in the Tasks it came from."""

    tasks: Ints
    slots: Ints
    query: torch.Tensor
    label: torch.Tensor
    pooled: torch.Tensor
    mask: torch.Tensor


def batches(table: FeatureTable, tasks: SelectionTasks, *, limit: bool = True) -> Iterator[QueryBatch]:
    """Batches of tasks whose padded shape is a function of the task alone.

    Shapes are rounded up (ways to a multiple of 5, queries of 10) and only tasks of one rounded shape
    share a batch, so a task is computed in the same shape whatever stands beside it.
    """
    kinds, kind_of = np.unique(rounded_shapes(tasks), axis=0, return_inverse=True)
    for kind, (width, height) in enumerate(kinds):
        members = np.flatnonzero(kind_of.reshape(-1) == kind)
        size = max(1, _BATCH_BYTES // (int(height) * table.dim * 4)) if limit else len(members)
        for start in range(0, len(members), size):
            yield _batch(table, tasks, members[start : start + size], int(width), int(height))


def one_batch(table: FeatureTable, tasks: SelectionTasks) -> QueryBatch:
    """All the tasks in one batch; they must share one rounded shape."""
    (batch,) = batches(table, tasks, limit=False)
    return batch


def rounded_shapes(tasks: SelectionTasks) -> Ints:
    """(ways, queries) of each task as its batch pads them [T, 2]."""
    counts = tasks.query_offsets[tasks.offsets[1:]] - tasks.query_offsets[tasks.offsets[:-1]]
    return np.stack([_round_up(tasks.ways, 5), _round_up(counts, 10)], axis=1)


def _batch(table: FeatureTable, tasks: SelectionTasks, members: Ints, width: int, height: int) -> QueryBatch:
    slots = np.zeros((len(members), width), dtype=np.int64)
    mask = np.arange(width) < tasks.ways[members, None]
    slots[mask] = _spans(tasks.offsets, members)
    rows = np.zeros((len(members), height), dtype=np.int64)
    label = np.full((len(members), height), -1, dtype=np.int64)
    first = tasks.query_offsets[tasks.offsets[members]]
    last = tasks.query_offsets[tasks.offsets[members + 1]]
    real = np.arange(height) < (last - first)[:, None]
    rows[real] = tasks.query[_spans(tasks.query_offsets, slots[mask])]
    place = np.broadcast_to(np.arange(width), slots.shape)[mask]
    label[real] = np.repeat(place, np.diff(tasks.query_offsets)[slots[mask]])
    known = torch.from_numpy(label).to(table.device)
    inside = None if table.allowed is None else torch.from_numpy(table.selectable(rows)).to(table.device)
    return QueryBatch(
        tasks=members,
        slots=slots,
        query=table.gather(rows),
        label=known,
        pooled=known if inside is None else known.masked_fill(~inside, -1),
        mask=torch.from_numpy(mask).to(table.device),
    )


def own_rows(table: FeatureTable, tasks: SelectionTasks, slot: int) -> Ints:
    """The slot's queries that could be selected if they were not queries."""
    rows = tasks.query[tasks.query_offsets[slot] : tasks.query_offsets[slot + 1]]
    return rows[table.selectable(rows)]


def own_places(table: FeatureTable, tasks: SelectionTasks, slot: int) -> Ints:
    """Where these stand in the slot's class."""
    return table.places(int(tasks.classes[slot]), own_rows(table, tasks, slot))


def pool_sizes(table: FeatureTable, tasks: SelectionTasks) -> Ints:
    """Images of each slot's class that may be selected besides the task's queries [S]."""
    own = np.diff(tasks.query_offsets)
    if table.allowed is not None:
        own = np.diff(_bounds(table.selectable(tasks.query).astype(np.int64))[tasks.query_offsets])
    sizes: Ints = table.sizes[tasks.classes] - own
    return sizes


def by_class(tasks: SelectionTasks) -> Iterator[tuple[int, Ints]]:
    """The slots that use each class, class after class."""
    order = np.argsort(tasks.classes, kind="stable")
    for slots in np.split(order, np.flatnonzero(np.diff(tasks.classes[order])) + 1):
        if len(slots):
            yield int(tasks.classes[slots[0]]), slots


def _bounds(lengths: Sequence[int] | Ints) -> Ints:
    """Lengths → offsets, from 0."""
    return np.concatenate([[0], np.cumsum(np.asarray(lengths, dtype=np.int64))]).astype(np.int64)


def _spans(offsets: Ints, items: Ints) -> Ints:
    """All positions offsets[i]:offsets[i+1] for the items, one after another."""
    lengths = offsets[items + 1] - offsets[items]
    starts = np.repeat(offsets[items] - (np.cumsum(lengths) - lengths), lengths)
    positions: Ints = np.arange(int(lengths.sum()), dtype=np.int64) + starts
    return positions


def _round_up(values: Ints, step: int) -> Ints:
    steps: Ints = (np.maximum(values, 1) + step - 1) // step
    return steps * step
