"""What selection asks of drawn tasks, slot by slot, and padded batches of their queries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from longshot.base import Ints, Ragged, TaskPlan, TaskRows, UserError, offsets_of
from longshot.tasks.selection.table import FeatureTable

_BATCH_BYTES = 8 << 20  # of query features in one padded batch


def query_tasks(
    classes: Sequence[Sequence[int]],
    shots: Sequence[Sequence[int]],
    query: Sequence[Sequence[Sequence[int]]],
) -> TaskRows:
    """Tasks from nested lists: [task][slot], [task][slot], [task][slot][query row]; their supports are still to choose.

    >>> query_tasks([[3, 1]], [[1, 2]], [[[30], [10, 11]]]).slot_query.row(1)
    array([10, 11])
    """
    numbers, rows = Ragged.from_lists(classes), Ragged.from_lists([rows for task in query for rows in task])
    plan = TaskPlan(numbers, Ragged.from_lists(shots), numbers.with_values(rows.lengths))
    bounds = plan.support_offsets[numbers.offsets]
    unchosen = Ragged(np.full(bounds[-1], -1), bounds)
    return TaskRows.from_plan(plan, unchosen, Ragged(rows.values, rows.offsets[numbers.offsets]))


def check_tasks(tasks: TaskRows, table: FeatureTable) -> None:
    """Every class must have k images to select besides the task's own queries; every query lies in its class."""
    classes, shots = tasks.plan.classes, tasks.plan.shots.values
    rows, counts = tasks.slot_query.values, tasks.slot_query.lengths
    first, last = table.offsets[classes.values], table.offsets[classes.values + 1]
    if np.any((rows < np.repeat(first, counts)) | (rows >= np.repeat(last, counts))):
        raise ValueError("a query row lies outside the class of its slot")
    pool = pool_sizes(table, tasks)
    short = np.flatnonzero(shots > pool)
    if len(short):
        slot = int(short[0])
        kind = "images" if table.allowed is None else "images that may be support"
        raise UserError(
            f"Class '{table.name(int(classes.values[slot]))}' has {pool[slot]} {kind} besides the query of task "
            f"{tasks.tasks[classes.owners[slot]]}, but the support needs {shots[slot]}",
            "lower {shot} or {query}",
        )


@dataclass(frozen=True)
class QueryBatch:
    """Some tasks, padded: ``query`` [B, Q, d], ``label`` [B, Q] (−1 = padding), ``pooled`` [B, Q] (the label of a
    query that its class's sum contains, else −1), ``mask`` [B, W] (true = a class), ``slots`` [B, W] (0 where
    padded), ``tasks`` [B] positions in the tasks it came from."""

    tasks: Ints
    slots: Ints
    query: torch.Tensor
    label: torch.Tensor
    pooled: torch.Tensor
    mask: torch.Tensor


def batches(table: FeatureTable, tasks: TaskRows, *, limit: bool = True) -> Iterator[QueryBatch]:
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


def one_batch(table: FeatureTable, tasks: TaskRows) -> QueryBatch:
    """All the tasks in one batch; they must share one rounded shape."""
    (batch,) = batches(table, tasks, limit=False)
    return batch


def rounded_shapes(tasks: TaskRows) -> Ints:
    """(ways, queries) of each task as its batch pads them [T, 2]."""
    return np.stack([_round_up(tasks.ways, 5), _round_up(tasks.query.lengths, 10)], axis=1)


def _batch(table: FeatureTable, tasks: TaskRows, members: Ints, width: int, height: int) -> QueryBatch:
    part = tasks.take(members)
    slot_numbers = tasks.plan.classes.with_values(np.arange(tasks.plan.slots)).take(members)
    rows = part.query.padded(0, height)
    label = part.query_label.with_values(part.query_label.values.astype(np.int64)).padded(-1, height)
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


def own_rows(table: FeatureTable, tasks: TaskRows, slot: int) -> Ints:
    """The slot's queries that could be selected if they were not queries."""
    rows = tasks.slot_query.row(slot)
    return rows[table.selectable(rows)]


def own_places(table: FeatureTable, tasks: TaskRows, slot: int) -> Ints:
    """Where these stand in the slot's class."""
    return table.places(int(tasks.plan.classes.values[slot]), own_rows(table, tasks, slot))


def pool_sizes(table: FeatureTable, tasks: TaskRows) -> Ints:
    """Images of each slot's class that may be selected besides the task's queries [S]."""
    own = tasks.plan.queries.values
    if table.allowed is not None:
        own = np.diff(offsets_of(table.selectable(tasks.query.values))[tasks.slot_query.offsets])
    sizes: Ints = table.sizes[tasks.plan.classes.values] - own
    return sizes


def by_class(tasks: TaskRows) -> Iterator[tuple[int, Ints]]:
    """The slots that use each class, class after class."""
    classes = tasks.plan.classes.values
    order = np.argsort(classes, kind="stable")
    for slots in np.split(order, np.flatnonzero(np.diff(classes[order])) + 1):
        if len(slots):
            yield int(classes[slots[0]]), slots


def _round_up(values: Ints, step: int) -> Ints:
    steps: Ints = (np.maximum(values, 1) + step - 1) // step
    return steps * step
