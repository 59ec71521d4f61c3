"""Classes: which classes a task has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from longshot.base import Ints, Ragged, UserError, count
from longshot.data import no_taxonomy
from longshot.tasks.base import Pool, Shape
from longshot.tasks.streams import Streams


@dataclass(frozen=True)
class UniformClasses:
    """Every set of classes is equally likely; their order is random too.

    Examples
    --------
    >>> testbed = longshot.sample("toybox", tasks=5, classes=UniformClasses(), way=3, split="test")
    >>> {task.way for task in testbed}
    {3}
    """

    name: ClassVar[str] = "uniform"

    def groups(self, shape: Shape, pool: Pool) -> Ragged:
        """One group: all classes that may be drawn.

        Parameters
        ----------
        shape : Shape
            Says how few classes a task can have.
        pool : Pool
            What may be drawn.

        Returns
        -------
        Ragged
            Class numbers, one row per group.

        Examples
        --------
        >>> from longshot.tasks.base import Pool
        >>> toybox = longshot.open_dataset("toybox")
        >>> pool = Pool(toybox, toybox.split_classes("test"))
        >>> UniformClasses().groups(longshot.FixedShape(way=3), pool).lengths.tolist()
        [32]
        """
        if len(pool.classes) < shape.min_way:
            raise UserError(
                f"Dataset '{pool.dataset.name}' has {count(len(pool.classes), 'class', 'classes')} to draw from, "
                f"but a task needs {shape.min_way}",
                "lower {way} or add classes",
            )
        return Ragged.from_lists([pool.classes])

    def draw(self, streams: Streams, shape: Shape, pool: Pool) -> Ragged:
        """Class numbers of each task."""
        return draw_within(streams, shape, self.groups(shape, pool), np.zeros(len(streams), dtype=np.int64))


@dataclass(frozen=True)
class SiblingClasses:
    """All classes of a task belong to one super-class: look-alikes.

    The super-class is drawn uniformly among those with enough classes; then every set of its classes is
    equally likely.

    Parameters
    ----------
    level : int, optional
        Super-classes are the nodes at this level of the taxonomy (1: below the root), else the direct parents.

    Examples
    --------
    >>> testbed = longshot.sample("toybox", tasks=5, classes=SiblingClasses(level=1), way=3, split="test")
    >>> {len({class_id.split("/")[0] for class_id in task.classes}) for task in testbed}
    {1}
    """

    level: int | None = None
    name: ClassVar[str] = "siblings"

    def __post_init__(self) -> None:
        if self.level is not None and (not isinstance(self.level, int) or self.level < 1):
            raise UserError(
                f"The level is {self.level!r}, but must be a whole number: 1 (below the root) or more."
            )

    def groups(self, shape: Shape, pool: Pool) -> Ragged:
        """The classes of each super-class that has at least ``shape.min_way`` of them, sorted by its id.

        Parameters
        ----------
        shape : Shape
            Says how few classes a task can have.
        pool : Pool
            What may be drawn.

        Returns
        -------
        Ragged
            Class numbers, one row per group.

        Examples
        --------
        >>> from longshot.tasks.base import Pool
        >>> toybox = longshot.open_dataset("toybox")
        >>> pool = Pool(toybox, toybox.split_classes("test"))
        >>> int(SiblingClasses(level=1).groups(longshot.FixedShape(way=3), pool).lengths.min()) >= 3
        True
        """
        dataset = pool.dataset
        if dataset.taxonomy is None:
            raise no_taxonomy(dataset, ", so no super-classes", ", or draw with {classes:uniform}")
        ids = pool.class_ids
        tree = dataset.taxonomy
        members_of = tree.groups(ids) if self.level is None else tree.groups_at(ids, self.level)
        enough = {node: members for node, members in members_of.items() if len(members) >= shape.min_way}
        if not enough:
            largest = max(members_of, key=lambda node: (len(members_of[node]), node))
            higher = " or take larger super-classes ({level:1})" if self.level != 1 else ""
            raise UserError(
                f"No super-class of '{dataset.name}' has the {shape.min_way} classes a task needs: the largest, "
                f"'{tree.label(largest)}', has {len(members_of[largest])}",
                f"lower {{way}}{higher}",
            )
        number = dict(zip(ids, pool.classes.tolist(), strict=True))
        return Ragged.from_lists([[number[c] for c in enough[node]] for node in sorted(enough)])

    def draw(self, streams: Streams, shape: Shape, pool: Pool) -> Ragged:
        """Class numbers of each task."""
        groups = self.groups(shape, pool)
        return draw_within(streams, shape, groups, streams.stage("group").below(len(groups)))


def draw_within(
    streams: Streams, shape: Shape, groups: Ragged, chosen: Ints, most: int | None = None
) -> Ragged:
    """Draw the ways from the shape, then that many classes uniformly from group ``chosen[t]`` for task t.

    With ``most`` a task takes so many classes of its group, or all of them, whatever the shape says.
    """
    available = groups.lengths[chosen]
    ways = shape.ways(streams, available) if most is None else np.minimum(available, most)
    picked = streams.stage("classes").choose(available, ways)
    start = np.repeat(groups.offsets[:-1][chosen], ways)
    return picked.with_values(groups.values[start + picked.values])
