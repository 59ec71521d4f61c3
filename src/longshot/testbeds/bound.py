"""Tasks of one dataset with their example keys turned into row numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from longshot.ragged import Ragged


@dataclass(frozen=True, eq=False)
class BoundTasks:
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

    def take(self, positions: ArrayLike) -> BoundTasks:
        """The tasks at the given positions (0 … T − 1, not task numbers), in that order."""
        wanted = np.asarray(positions, dtype=np.int64)
        return BoundTasks(
            self.tasks[wanted],
            self.ways[wanted],
            self.support.take(wanted),
            self.support_label.take(wanted),
            self.query.take(wanted),
            self.query_label.take(wanted),
        )
