"""Tasks whose supports are to be selected, and padded batches of their queries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from longshot.core.arrays import Ints
from longshot.core.errors import UserError
from longshot.core.ragged import Ragged, offsets_of
from longshot.core.tasks import TaskPlan, TaskRows
from longshot.selection.table import FeatureTable

_BATCH_BYTES = 8 << 20  # of query features in one padded batch


@dataclass(frozen=True, eq=False)
class SelectionTasks:
    """T tasks with S slots (classes of tasks) in all, and their queries; supports are still to be chosen."""

    plan: TaskPlan  # int64
    query: Ragged  # S rows: the query rows of each slot
    ids: Ints  # [T] name a task's random stream whatever batch it is in

    @classmethod
    def from_rows(cls, plan: TaskPlan, rows: TaskRows) -> SelectionTasks:
        """The plan with the queries, and without the support, of the images that were chosen for it."""
        counts = (
            part.with_values(part.values.astype(np.int64))
            for part in (plan.classes, plan.shots, plan.queries)
        )
        query = Ragged.from_lengths(rows.query.values.astype(np.int64), plan.queries.values)
        return cls(TaskPlan(*counts), query, rows.tasks)

    @classmethod
    def from_lists(
        cls,
        classes: Sequence[Sequence[int]],
        shots: Sequence[Sequence[int]],
        query: Sequence[Sequence[Sequence[int]]],
    ) -> SelectionTasks:
        """Build from nested lists: [task][slot], [task][slot], [task][slot][query row]."""
        query_rows = Ragged.from_lists([rows for task in query for rows in task])
        numbers = Ragged.from_lists(classes)
        plan = TaskPlan(numbers, Ragged.from_lists(shots), numbers.with_values(query_rows.lengths))
        return cls(plan, query_rows, np.arange(len(plan)))

    def __len__(self) -> int:
        return len(self.plan)

    @property
    def offsets(self) -> Ints:
        """Bounds of the slots of each task [T+1]."""
        return self.plan.classes.offsets

    @property
    def classes(self) -> Ints:
        """The class of each slot [S]."""
        return self.plan.classes.values

    @property
    def shots(self) -> Ints:
        """k, the support images of each slot [S]."""
        return self.plan.shots.values

    @property
    def ways(self) -> Ints:
        """Classes per task [T]."""
        return self.plan.classes.lengths

    @property
    def slots(self) -> int:
        """S, the number of slots."""
        return len(self.classes)

    @property
    def task_of_slot(self) -> Ints:
        """The task of each slot [S]."""
        return self.plan.classes.owners

    @property
    def support_offsets(self) -> Ints:
        """Bounds of each slot's rows in a flat support array [S+1]."""
        return offsets_of(self.shots)

    @property
    def query_counts(self) -> Ints:
        """Queries per task [T]."""
        return np.diff(self.query.offsets[self.offsets])

    def slots_of(self, task: int) -> tuple[int, int]:
        """First slot of a task, and the slot behind its last."""
        return int(self.offsets[task]), int(self.offsets[task + 1])

    def query_rows(self, task: int) -> Ints:
        """The query rows of a task, slot after slot."""
        first, last = self.slots_of(task)
        return self.query.values[self.query.offsets[first] : self.query.offsets[last]]

    def take(self, tasks: Ints) -> SelectionTasks:
        """The tasks at these positions, in this order."""
        return SelectionTasks(
            self.plan.take(tasks), self.query.take(self.plan.classes.indices(tasks)), self.ids[tasks]
        )

    def support_positions(self, tasks: Ints) -> Ints:
        """Where the support rows of these tasks stand in a flat support array."""
        offsets = self.support_offsets
        return Ragged(np.arange(offsets[-1]), offsets[self.offsets]).indices(tasks)

    def check(self, table: FeatureTable) -> None:
        """Every class must have k images to select besides the task's own queries; every query lies in its class."""
        first, last = table.offsets[self.classes], table.offsets[self.classes + 1]
        rows, counts = self.query.values, self.query.lengths
        if np.any((rows < np.repeat(first, counts)) | (rows >= np.repeat(last, counts))):
            raise ValueError("a query row lies outside the class of its slot")
        pool = pool_sizes(table, self)
        short = np.flatnonzero(self.shots > pool)
        if len(short):
            slot = int(short[0])
            kind = "images" if table.allowed is None else "images that may be support"
            raise UserError(
                f"Class '{table.name(int(self.classes[slot]))}' has {pool[slot]} {kind} besides the query of task "
                f"{self.ids[self.task_of_slot[slot]]}, but the support needs {self.shots[slot]}",
                "lower {shot} or {query}",
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
    return np.stack([_round_up(tasks.ways, 5), _round_up(tasks.query_counts, 10)], axis=1)


def _batch(table: FeatureTable, tasks: SelectionTasks, members: Ints, width: int, height: int) -> QueryBatch:
    part = tasks.take(members)
    slot_numbers = tasks.plan.classes.with_values(np.arange(tasks.slots)).take(members)
    query_labels = np.repeat(part.plan.classes.positions, part.query.lengths)
    queries = Ragged.from_lengths(part.query.values, part.query_counts)
    rows = queries.padded(0, height)
    label = queries.with_values(query_labels).padded(-1, height)
    mask = np.arange(width) < part.ways[:, None]
    labels = torch.from_numpy(label).to(table.device)
    inside = None if table.allowed is None else torch.from_numpy(table.selectable(rows)).to(table.device)
    return QueryBatch(
        tasks=members,
        slots=slot_numbers.padded(0, width),
        query=table.gather(rows),
        label=labels,
        pooled=labels if inside is None else labels.masked_fill(~inside, -1),
        mask=torch.from_numpy(mask).to(table.device),
    )


def own_rows(table: FeatureTable, tasks: SelectionTasks, slot: int) -> Ints:
    """The slot's queries that could be selected if they were not queries."""
    rows = tasks.query.row(slot)
    return rows[table.selectable(rows)]


def own_places(table: FeatureTable, tasks: SelectionTasks, slot: int) -> Ints:
    """Where these stand in the slot's class."""
    return table.places(int(tasks.classes[slot]), own_rows(table, tasks, slot))


def pool_sizes(table: FeatureTable, tasks: SelectionTasks) -> Ints:
    """Images of each slot's class that may be selected besides the task's queries [S]."""
    own = tasks.query.lengths
    if table.allowed is not None:
        own = np.diff(offsets_of(table.selectable(tasks.query.values))[tasks.query.offsets])
    sizes: Ints = table.sizes[tasks.classes] - own
    return sizes


def by_class(tasks: SelectionTasks) -> Iterator[tuple[int, Ints]]:
    """The slots that use each class, class after class."""
    order = np.argsort(tasks.classes, kind="stable")
    for slots in np.split(order, np.flatnonzero(np.diff(tasks.classes[order])) + 1):
        if len(slots):
            yield int(tasks.classes[slots[0]]), slots


def _round_up(values: Ints, step: int) -> Ints:
    steps: Ints = (np.maximum(values, 1) + step - 1) // step
    return steps * step
