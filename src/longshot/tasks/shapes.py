"""Shapes: how many classes, shots and queries a task has."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np

from longshot.base import Ints, Ragged, TaskPlan, UserError
from longshot.tasks import columns
from longshot.tasks.base import Pool, Shape
from longshot.tasks.streams import Streams
from longshot.tasks.testbed import Testbed

MAX_COUNT = 32_767  # labels and shots are stored as int16


@dataclass(frozen=True)
class FixedShape(Shape):
    """Every task has ``way`` classes with ``shot`` support and ``query`` query images each.

    Parameters
    ----------
    way : int
        Classes of a task, 2 or more.
    shot : int
        Support images per class.
    query : int
        Query images per class.

    Examples
    --------
    >>> FixedShape(way=5, shot=1).min_images
    11
    >>> testbed = longshot.sample("toybox", tasks=3, shape=FixedShape(way=3, shot=1, query=4))
    >>> [(task.way, len(task.query)) for task in testbed]
    [(3, 12), (3, 12), (3, 12)]
    """

    way: int = 5
    shot: int = 5
    query: int = 10
    name: ClassVar[str] = "fixed"
    about: ClassVar[str] = "way, shot and query hold for every task"

    def __post_init__(self) -> None:
        check_range("way", self.way, 2)
        check_range("shot", self.shot, 1)
        check_range("query", self.query, 1)

    @property
    def min_way(self) -> int:
        """Return the number of ways."""
        return self.way

    @property
    def min_counts(self) -> tuple[int, int]:
        """Return queries and shots."""
        return self.query, self.shot

    def ways(self, streams: Streams, available: Ints) -> Ints:
        """Return ``way`` for every task, [T]."""
        return np.full(len(streams), self.way, dtype=np.int64)

    def counts(self, streams: Streams, classes: Ragged, pool: Pool) -> TaskPlan:
        """Return the same two numbers for every class."""
        return _even(classes, np.full(len(classes), self.shot), self.query)


@dataclass(frozen=True)
class AnyShape(Shape):
    """Ways and shots vary from task to task, as in Cross-domain MetaDL.

    N ~ U{min_way … min(max_way, available classes)}, k ~ U{min_shot … min(max_shot, m − query)} where m is
    the size of the smallest class that may be drawn; all classes of a task have k support and ``query`` query
    images.

    Parameters
    ----------
    min_way, max_way : int
        The fewest and the most classes of a task.
    min_shot, max_shot : int
        The fewest and the most support images per class.
    query : int
        Query images per class.

    Examples
    --------
    >>> varied = longshot.sample("toybox", shape=AnyShape(max_way=4, max_shot=3, query=2), tasks=20)
    >>> {task.way for task in varied} <= {2, 3, 4}
    True
    >>> AnyShape(max_shot=3).min_images
    21
    """

    min_way: int = 2
    max_way: int = 20
    min_shot: int = 1
    max_shot: int = 20
    query: int = 20
    name: ClassVar[str] = "any"
    about: ClassVar[str] = "ways and shots vary"
    # setting of ``sample`` → parameter
    also: ClassVar[dict[str, str]] = {"way": "max_way", "shot": "max_shot"}

    def __post_init__(self) -> None:
        check_range("min_way", self.min_way, 2)
        check_range("max_way", self.max_way, self.min_way)
        check_range("min_shot", self.min_shot, 1)
        check_range("max_shot", self.max_shot, self.min_shot)
        check_range("query", self.query, 1)

    @property
    def min_counts(self) -> tuple[int, int]:
        """Return queries and the least number of shots."""
        return self.query, self.min_shot

    @property
    def pool_counts(self) -> tuple[int, int]:
        """Return queries and the largest number of shots: a class with enough images gives all of them."""
        return self.query, self.max_shot

    def ways(self, streams: Streams, available: Ints) -> Ints:
        """Draw N for every task, [T]."""
        most = np.minimum(available, self.max_way)
        return self.min_way + streams.stage("ways").below(most - self.min_way + 1)

    def shot_limit(self, pool: Pool) -> int:
        """Return the largest k that can be drawn from the pool.

        Parameters
        ----------
        pool : Pool
            What may be drawn.

        Examples
        --------
        >>> from longshot.tasks.base import Pool, Shape
        >>> toybox = longshot.open_dataset("toybox")
        >>> pool = Pool(toybox, toybox.split_classes("test"))
        >>> AnyShape(query=4).shot_limit(pool)  # 16 images per class
        12
        """
        return min(self.max_shot, int(pool.left(pool.classes, self.query).min()))

    def counts(self, streams: Streams, classes: Ragged, pool: Pool) -> TaskPlan:
        """Draw one k for all classes of a task."""
        shots = self.min_shot + streams.stage("shots").below(self.shot_limit(pool) - self.min_shot + 1)
        return _even(classes, shots, self.query)


def _even(classes: Ragged, shots: Ints, query: int) -> TaskPlan:
    """Give each class of task t ``shots[t]`` support and ``query`` query images."""
    per_class = np.repeat(shots, classes.lengths)
    return TaskPlan(
        classes, classes.with_values(per_class), classes.with_values(np.full_like(per_class, query))
    )


def check_range(name: str, value: int, least: int) -> None:
    """Raise UserError unless ``value`` is a whole number from ``least`` to what a testbed can store."""
    is_count = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not is_count or not least <= value <= MAX_COUNT:
        raise UserError(
            f"The number for {name} is {value!r}, but must be a whole number between {least} and {MAX_COUNT:,}."
        )


@dataclass(frozen=True, eq=False)
class ShapeLike(Shape):
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
        """Return the support images per class and task."""
        return columns.ragged(self.testbed.table, "shots")

    @cached_property
    def queries(self) -> Ragged:
        """Return the query images per class and task."""
        shots, labels = self.shots, columns.ragged(self.testbed.table, "query_label")
        slots = np.repeat(shots.offsets[:-1], labels.lengths) + labels.values
        return shots.with_values(np.bincount(slots, minlength=len(shots.values)))

    @property
    def min_way(self) -> int:
        """Return the most ways of any task: every task must be possible."""
        return int(self.shots.lengths.max())

    @property
    def min_images(self) -> int:
        """Return the most images of one class in any task."""
        return int((self.shots.values + self.queries.values).max())

    @property
    def min_counts(self) -> tuple[int, int]:
        """Return the most queries and the most shots of one class in any task."""
        return int(self.queries.values.max()), int(self.shots.values.max())

    def ways(self, streams: Streams, available: Ints) -> Ints:
        """Return the other testbed's ways, [T]."""
        self._check(streams)
        return self.shots.lengths[streams.tasks]

    def counts(self, streams: Streams, classes: Ragged, pool: Pool) -> TaskPlan:
        """Return the other testbed's shots and queries."""
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


@dataclass(frozen=True)
class AllShape(Shape):
    """Every task has all classes: the problem of whoever must tell all of them apart.

    A class of n images gives q = min(query, max(1, n − shot)) queries and min(shot, n − q) support images, so that a
    small class takes part with what it has. Classes of a single image cannot.

    Parameters
    ----------
    shot : int
        Support images of each class that has enough.
    query : int
        The most queries of each class.

    Examples
    --------
    >>> testbed = longshot.sample("toybox", tasks=2, shape=AllShape(shot=3, query=2), split="test")
    >>> testbed[0].way == len(testbed[1].classes)
    True
    """

    shot: int = 5
    query: int = 10
    name: ClassVar[str] = "all"
    about: ClassVar[str] = "all classes at once, small ones with what they have"

    def __post_init__(self) -> None:
        check_range("shot", self.shot, 1)
        check_range("query", self.query, 1)

    @property
    def min_way(self) -> int:
        """Return two: there is nothing to tell apart in one class."""
        return 2

    @property
    def min_images(self) -> int:
        """Return one support image and one query."""
        return 2

    @property
    def min_counts(self) -> tuple[int, int]:
        """Return one query and one shot."""
        return 1, 1

    @property
    def pool_counts(self) -> tuple[int, int]:
        """Return the queries and shots of a class that has enough images."""
        return self.query, self.shot

    def ways(self, streams: Streams, available: Ints) -> Ints:
        """Return the number of classes there are, for every task [T]."""
        return np.asarray(available, np.int64)

    def counts(self, streams: Streams, classes: Ragged, pool: Pool) -> TaskPlan:
        """Return the shots and queries that each class has images for."""
        numbers = classes.values
        spare = np.maximum(pool.distinct_sizes[numbers] - self.shot, 1)
        queries = np.minimum(np.minimum(self.query, spare), pool.query_sizes[numbers])
        shots = np.minimum(self.shot, pool.left(numbers, queries))
        return TaskPlan(classes, classes.with_values(shots), classes.with_values(queries))
