"""A shape copied from another testbed, task by task."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from longshot.base import Ragged, TaskPlan, UserError
from longshot.tasks import columns
from longshot.tasks.base import Pool
from longshot.tasks.streams import Streams
from longshot.tasks.testbed import Testbed


@dataclass(frozen=True, eq=False)
class ShapeLike:
    """Task t has the ways of the other testbed's task t, and its shots and queries per class in their order.

    Parameters
    ----------
    testbed : Testbed
        Whose shapes are copied; it must have as many tasks as are drawn.
    content_hash : str
        That of the testbed; set by itself.

    Examples
    --------
    >>> hard = longshot.Testbed.load("hard.parquet")
    >>> alike = longshot.sample("toybox", shape=ShapeLike(hard), tasks=len(hard), split="test")
    >>> alike[0].shots == hard[0].shots
    True
    """

    testbed: Testbed = field(metadata={"setting": False})
    content_hash: str = ""
    name: ClassVar[str] = "like"

    def __post_init__(self) -> None:
        # The hash stands in the metadata of what is drawn; it is a fact of the testbed, not a choice.
        object.__setattr__(self, "content_hash", self.testbed.content_hash)

    @cached_property
    def shots(self) -> Ragged:
        """Support images per class and task."""
        return columns.ragged(self.testbed.table, "shots")

    @cached_property
    def queries(self) -> Ragged:
        """Query images per class and task."""
        shots, labels = self.shots, columns.ragged(self.testbed.table, "query_label")
        slots = np.repeat(shots.offsets[:-1], labels.lengths) + labels.values
        return shots.with_values(np.bincount(slots, minlength=len(shots.values)))

    @property
    def min_way(self) -> int:
        """The most ways of any task: every task must be possible."""
        return int(self.shots.lengths.max())

    @property
    def min_images(self) -> int:
        """The most images of one class in any task."""
        return int((self.shots.values + self.queries.values).max())

    @property
    def min_counts(self) -> tuple[int, int]:
        """The most queries and the most shots of one class in any task."""
        return int(self.queries.values.max()), int(self.shots.values.max())

    @property
    def pool_counts(self) -> tuple[int, int]:
        """As ``min_counts``."""
        return self.min_counts

    def ways(self, streams: Streams, available: NDArray[np.int64]) -> NDArray[np.int64]:
        """The other testbed's ways, [T]."""
        self._check(streams)
        return self.shots.lengths[streams.tasks]

    def counts(self, streams: Streams, classes: Ragged, pool: Pool) -> TaskPlan:
        """The other testbed's shots and queries."""
        self._check(streams)
        shots, queries = self.shots.take(streams.tasks), self.queries.take(streams.tasks)
        return TaskPlan(classes, classes.with_values(shots.values), classes.with_values(queries.values))

    def _check(self, streams: Streams) -> None:
        if len(streams) and streams.tasks.max() >= len(self.testbed):
            raise UserError(
                f"The testbed whose shapes are copied has {len(self.testbed):,} tasks, but task "
                f"{int(streams.tasks.max()) + 1:,} was asked for",
                f"ask for at most {{tasks:{len(self.testbed)}}}",
            )
