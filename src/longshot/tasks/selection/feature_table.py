"""What selection works on: class-major features that stay on disk, and tasks slot by slot, in batches.

One class of the features, or a block of one, is in memory at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from longshot.base import Bools, Ints, Ragged, TaskPlan, TaskRows, UserError, offsets_of

ROW_BLOCK = 4096  # pool rows per product: fixed, so that a score does not depend on how work is divided
_KEPT_BYTES = 256 << 20  # features up to this size stay in memory, class by class as they are read


class FeatureTable:
    """Features ``array`` [N, d] (memory-mapped, float16 or float32) whose class c is rows offsets[c]:offsets[c+1].

    With ``normalize`` every row is scaled to unit length as it is read. Kept in memory: one sum per class that was
    asked for, and the rows of classes that were, where the array is small.

    ``allowed`` [N] (true or false) says which rows may be selected. A class then consists of these alone, its
    *places* are counted among them, and sizes, sums and blocks are what they would be without the other rows; only
    ``gather`` reads every row, for queries need not be selectable. ``twins`` [N] says which row may not be selected
    beside a query: the query itself unless given, or a copy of it; −1: none.
    """

    def __init__(
        self,
        array: NDArray[Any],
        offsets: Ints,
        *,
        normalize: bool = True,
        device: str | torch.device = "cpu",
        names: Sequence[str] | None = None,
        row_block: int = ROW_BLOCK,
        allowed: Bools | None = None,
        twins: Ints | None = None,
    ) -> None:
        self.array, self.offsets, self.normalize = array, np.asarray(offsets, dtype=np.int64), normalize
        self.allowed, self.twins = allowed, twins
        self._kept = None if allowed is None else np.flatnonzero(allowed)  # rows, ascending
        # where each class begins among the rows that may be selected [C+1]
        self._bounds = self.offsets if self._kept is None else np.searchsorted(self._kept, self.offsets)
        self.device = torch.device(device)
        self.names = names
        self.row_block = row_block
        self._sum: dict[int, torch.Tensor] = {}
        self._memory: dict[str, torch.Tensor] = {}  # "rows" [N, d], of which classes in ``_filled`` are read
        self._filled: set[int] = set()

    def __getstate__(self) -> dict[str, Any]:
        """Return what other processes get; rows are read and sums are computed anew there."""
        return {**vars(self), "_sum": {}, "_memory": {}, "_filled": set()}

    @property
    def dim(self) -> int:
        """Return d, the length of a feature."""
        return int(self.array.shape[1])

    @property
    def sizes(self) -> Ints:
        """Count the rows of each class that may be selected [C]."""
        return np.diff(self._bounds)

    def size(self, label: int) -> int:
        """Count the rows of a class that may be selected."""
        return int(self._bounds[label + 1] - self._bounds[label])

    def barred(self, rows: Ints) -> Ints:
        """Return the row that may not be selected beside each of these queries, or −1 where there is none."""
        if self.twins is not None:
            return self.twins[rows]
        return rows if self.allowed is None else np.where(self.allowed[rows], rows, -1)

    def places(self, labels: int | Ints, rows: Ints) -> Ints:
        """Return the places in a class, or in classes [...], of rows of it that may be selected."""
        among: Ints = rows if self._kept is None else np.searchsorted(self._kept, rows)
        return among - self._bounds[labels]

    def rows(self, labels: int | Ints, places: Ints) -> Ints:
        """Return the rows at places of the classes: the inverse of ``places``."""
        among = places + self._bounds[labels]
        return among if self._kept is None else self._kept[among]

    def name(self, label: int) -> str:
        """Return what a message calls the class."""
        return self.names[label] if self.names is not None else str(label)

    def blocks(self, label: int) -> Iterator[tuple[int, torch.Tensor]]:
        """Yield the class's features, ``row_block`` rows at a time: (place in the class, [n, d] float32)."""
        first, last = int(self._bounds[label]), int(self._bounds[label + 1])
        memory = self._kept_rows(np.array([label]))
        for start in range(first, last, self.row_block):
            part = slice(start, min(start + self.row_block, last))
            rows = part if self._kept is None else self._kept[part]
            yield start - first, self._read(rows) if memory is None else memory[rows]

    def whole(self, label: int) -> torch.Tensor:
        """Return the class's features [n, d] in one tensor."""
        parts = [block for _, block in self.blocks(label)]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def gather(self, rows: Ints) -> torch.Tensor:
        """Return the features of any rows: [..., d] float32."""
        flat = rows.reshape(-1)
        memory = self._kept_rows(np.searchsorted(self.offsets, flat, side="right") - 1)
        index = torch.from_numpy(flat).to(self.device)
        features = self._read(flat) if memory is None else memory.index_select(0, index)
        return features.reshape(*rows.shape, self.dim)

    def class_sum(self, label: int) -> torch.Tensor:
        """Return the sum of the class's features [d], blocks added in float64 where the device has it; made once."""
        if label not in self._sum:
            total = torch.zeros(self.dim, dtype=_wide(self.device), device=self.device)
            for _, block in self.blocks(label):
                total += block.sum(0)
            self._sum[label] = total
        return self._sum[label]

    def _kept_rows(self, labels: Ints) -> torch.Tensor | None:
        """Return features of all rows [N, d], those of the classes filled in; None where they are too many to keep."""
        if self.array.size * 4 > _KEPT_BYTES:
            return None
        if (
            "rows" not in self._memory
        ):  # of several threads that come here at once, all go on with the first one's
            self._memory.setdefault("rows", torch.empty(self.array.shape, device=self.device))
        memory = self._memory["rows"]
        for label in {*labels.tolist()} - self._filled:
            part = slice(int(self.offsets[label]), int(self.offsets[label + 1]))
            memory[part] = self._read(part)
            self._filled.add(label)
        return memory

    def _read(self, rows: slice | Ints) -> torch.Tensor:
        # a copy on purpose: the memory map is read-only and torch must never write through it
        features = torch.from_numpy(np.array(self.array[rows])).to(self.device, torch.float32)
        if not self.normalize:
            return features
        length: torch.Tensor = torch.linalg.vector_norm(features, dim=-1, keepdim=True)
        return features.mul_(length.clamp_min(1e-12).reciprocal())  # a row of zeros stays a row of zeros


def _wide(device: torch.device) -> torch.dtype:
    """Return float64 where the device has it (Apple's does not)."""
    return torch.float32 if device.type == "mps" else torch.float64


_BATCH_BYTES = 8 << 20  # of query features in one padded batch


def query_tasks(
    classes: Sequence[Sequence[int]],
    shots: Sequence[Sequence[int]],
    query: Sequence[Sequence[Sequence[int]]],
) -> TaskRows:
    """Build tasks from nested lists [task][slot], [task][slot], [task][slot][query row]; supports are still to choose.

    >>> query_tasks([[3, 1]], [[1, 2]], [[[30], [10, 11]]]).slot_query.row(1)
    array([10, 11])
    """
    numbers, rows = Ragged.from_lists(classes), Ragged.from_lists([rows for task in query for rows in task])
    plan = TaskPlan(numbers, Ragged.from_lists(shots), numbers.with_values(rows.lengths))
    bounds = plan.support_offsets[numbers.offsets]
    unchosen = Ragged(np.full(bounds[-1], -1), bounds)
    return TaskRows.from_plan(plan, unchosen, Ragged(rows.values, rows.offsets[numbers.offsets]))


def check_tasks(tasks: TaskRows, table: FeatureTable) -> None:
    """Check that every class has k images to select besides the task's queries, and every query lies in its class."""
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
    query that its class's sum contains, itself or as a copy, else −1), ``barred`` [B, Q, d] (what it contains of it),
    ``mask`` [B, W] (true = a class), ``slots`` [B, W] (0 where
    padded), ``tasks`` [B] positions in the tasks it came from."""

    tasks: Ints
    slots: Ints
    query: torch.Tensor
    label: torch.Tensor
    pooled: torch.Tensor
    barred: torch.Tensor
    mask: torch.Tensor


def batches(table: FeatureTable, tasks: TaskRows, *, limit: bool = True) -> Iterator[QueryBatch]:
    """Yield batches of tasks whose padded shape is a function of the task alone.

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
    """Return all the tasks in one batch; they must share one rounded shape."""
    (batch,) = batches(table, tasks, limit=False)
    return batch


def rounded_shapes(tasks: TaskRows) -> Ints:
    """Return (ways, queries) of each task as its batch pads them [T, 2]."""
    return np.stack([_round_up(tasks.ways, 5), _round_up(tasks.query.lengths, 10)], axis=1)


def _batch(table: FeatureTable, tasks: TaskRows, members: Ints, width: int, height: int) -> QueryBatch:
    part = tasks if len(members) == len(tasks) else tasks.take(members)
    slot_numbers = tasks.plan.classes.with_values(np.arange(tasks.plan.slots)).take(members)
    rows = part.query.padded(0, height)
    label = part.query_label.with_values(part.query_label.values.astype(np.int64)).padded(-1, height)
    mask = np.arange(width) < part.ways[:, None]
    labels = torch.from_numpy(label).to(table.device)
    barred = table.barred(rows)
    query, outside = table.gather(rows), torch.from_numpy(barred < 0).to(table.device)
    return QueryBatch(
        tasks=members,
        slots=slot_numbers.padded(0, width),
        query=query,
        label=labels,
        pooled=labels.masked_fill(outside, -1),
        barred=query if table.twins is None else table.gather(np.maximum(barred, 0)),
        mask=torch.from_numpy(mask).to(table.device),
    )


def barred_rows(table: FeatureTable, tasks: TaskRows, slots: Ints) -> tuple[Ints, Ints]:
    """Return (line, row) of what is barred for each of the slots: queries that may be selected, or their copies."""
    queries = tasks.slot_query.take(slots)
    rows = table.barred(queries.values)
    return queries.owners[rows >= 0], rows[rows >= 0]


def barred_places(table: FeatureTable, tasks: TaskRows, slots: Ints) -> tuple[Ints, Ints]:
    """Return ``barred_rows`` as (line, place in the slot's class)."""
    lines, rows = barred_rows(table, tasks, slots)
    return lines, table.places(tasks.plan.classes.values[slots[lines]], rows)


def pool_sizes(table: FeatureTable, tasks: TaskRows) -> Ints:
    """Count the images of each slot's class that may be selected besides the task's queries [S]."""
    own = np.diff(offsets_of(table.barred(tasks.query.values) >= 0)[tasks.slot_query.offsets])
    sizes: Ints = table.sizes[tasks.plan.classes.values] - own
    return sizes


def by_class(tasks: TaskRows) -> Iterator[tuple[int, Ints]]:
    """Yield each class and the slots that use it, class after class."""
    classes = tasks.plan.classes.values
    order = np.argsort(classes, kind="stable")
    for slots in np.split(order, np.flatnonzero(np.diff(classes[order])) + 1):
        if len(slots):
            yield int(classes[slots[0]]), slots


def _round_up(values: Ints, step: int) -> Ints:
    steps: Ints = (np.maximum(values, 1) + step - 1) // step
    return steps * step
