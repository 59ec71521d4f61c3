"""Tasks as numbers, from plan to rows: what samplers make and selection, methods and training read.

TaskPlan     classes and counts, before images are chosen
TaskRows     row numbers of support and query
TaskBatch    padded tensors on a device (``core/batches.py``, which needs torch)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from longshot.core.ragged import Ragged


@dataclass(frozen=True, eq=False)
class TaskPlan:
    """T tasks before their images are chosen: classes and counts. All three share offsets."""

    classes: Ragged  # class numbers
    shots: Ragged  # support images per class
    queries: Ragged  # query images per class

    def __len__(self) -> int:
        return len(self.classes)

    def slice(self, start: int, stop: int) -> TaskPlan:
        """Tasks ``start`` to ``stop``."""
        return TaskPlan(*(part.slice(start, stop) for part in (self.classes, self.shots, self.queries)))


@dataclass(frozen=True, eq=False)
class Drawn:
    """The images of T tasks, class after class in the order of the plan, and what was measured on the way."""

    support: Ragged  # dataset rows; per task, shots[0] rows of its first class, then shots[1] of the second …
    query: Ragged  # dataset rows, likewise
    measured: Mapping[str, NDArray[Any]] = field(default_factory=dict)  # column name → [T]


@dataclass(frozen=True, eq=False)
class TaskRows:
    """T tasks of one dataset, as integers only: what methods and feature code work on.

    Rows count in the order of the keys the testbed was bound to (a dataset's or a feature array's rows).
    """

    tasks: NDArray[np.int64]  # [T] task numbers in the testbed
    ways: NDArray[np.int64]  # [T]
    support: Ragged  # int64 rows
    support_label: Ragged  # int16, positions in the task's classes
    query: Ragged  # int64 rows
    query_label: Ragged  # int16

    def __len__(self) -> int:
        return len(self.tasks)

    def take(self, positions: ArrayLike) -> TaskRows:
        """The tasks at the given positions (0 … T − 1, not task numbers), in that order."""
        wanted = np.asarray(positions, dtype=np.int64)
        return TaskRows(
            self.tasks[wanted],
            self.ways[wanted],
            self.support.take(wanted),
            self.support_label.take(wanted),
            self.query.take(wanted),
            self.query_label.take(wanted),
        )
