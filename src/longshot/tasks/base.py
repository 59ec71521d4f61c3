"""The three choices of a sampler, and what passes between them.

    shape      how many classes, shots and queries a task has
    classes    which classes
    instances  which images of those classes

Each is a frozen dataclass that only stores its parameters. ``sample`` asks the classes (which ask the shape
for the number of ways), then the shape for the counts, for all tasks of the testbed at once; then the
instances, block by block. What is drawn may depend on the streams handed in and on nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from longshot.base import Bools, Ints, Ragged, TaskPlan, TaskRows
from longshot.tasks.streams import Streams

if TYPE_CHECKING:
    from pathlib import Path

    from longshot.data import Dataset, DatasetLike, TaxonomyLike


@dataclass(frozen=True, eq=False)
class Pool:
    """What may be drawn: some classes of a dataset, and where a rule says so, only some of their images.

    Class numbers are always positions in ``dataset.class_ids``; image numbers are rows of the dataset.
    """

    dataset: Dataset
    classes: Ints  # [P] classes that may be drawn, ascending
    query_mask: Bools | None = None  # [N] images that may be queries; None: all
    support_mask: Bools | None = None  # [N] images that may be support; None: all
    label: str = ""  # which of several pools it is, for the tasks drawn from it
    # [N] where copies are kept apart: the image that may not be support beside an image, itself or a copy; -1: none
    twins: Ints | None = None
    distinct_mask: Bools | None = None  # [N] where copies are kept apart: one image of each group

    @property
    def sizes(self) -> Ints:
        """Return the images of every class of the dataset, [C] (not only of the pool's: index it by class number)."""
        return self.dataset.sizes

    @property
    def starts(self) -> Ints:
        """Return the first row of every class of the dataset, [C]."""
        return self.dataset.offsets[:-1]

    @property
    def class_ids(self) -> tuple[str, ...]:
        """Return the ids of the classes that may be drawn, [P]."""
        return tuple(self.dataset.class_ids[c] for c in self.classes)

    @cached_property
    def distinct_sizes(self) -> Ints:
        """Count the images of every class of the dataset, copies that are kept apart once, [C]."""
        return self.sizes if self.distinct_mask is None else self._count(self.distinct_mask)

    @property
    def restricted(self) -> bool:
        """Tell whether a rule limits the images."""
        return self.query_mask is not None or self.support_mask is not None

    @property
    def alike(self) -> bool:
        """Tell whether queries and support are drawn from the same images."""
        return self.query_mask is self.support_mask

    @cached_property
    def query_sizes(self) -> Ints:
        """Count the images of every class of the dataset that may be queries, [C]."""
        return self.sizes if self.query_mask is None else self._count(self.query_mask)

    @cached_property
    def support_sizes(self) -> Ints:
        """Count the images of every class of the dataset that may be support, [C]."""
        return self.sizes if self.support_mask is None else self._count(self.support_mask)

    def left(self, classes: Ints, queries: Ints | int) -> Ints:
        """Count the support images of each class [M] that remain whichever ``queries`` of it are queries, [M]."""
        return self.support_sizes[classes] - np.minimum(queries, self._both[classes])

    def restrict(self, query: Bools | None = None, support: Bools | None = None) -> Pool:
        """Return the pool with only these images (masks [N]) among the queries and the support."""
        return replace(
            self,
            query_mask=_both_masks(self.query_mask, query),
            support_mask=_both_masks(self.support_mask, support),
        )

    def keep_apart(self, group: Ints, turn: Ints) -> Pool:
        """Return the pool with one image of each group [N] among queries and one in the support, never both in a task.

        Of a group the image with the lowest ``turn`` [N] may be a query. It may be support, too; where a rule forbids
        that, the image with the lowest turn among those that may. This is the last restriction of a pool.
        """
        rows = np.arange(len(group))
        copied = np.bincount(group, minlength=len(group))[group] > 1
        masks: list[Bools] = []
        for mask in (self.query_mask, self.support_mask):
            members = np.flatnonzero(copied if mask is None else copied & mask)
            # what may be a query comes first for the support
            later = ~masks[0][members] if masks else np.zeros(len(members), np.bool_)
            members = members[np.lexsort((turn[members], later, group[members]))]
            chosen = ~copied if mask is None else mask & ~copied
            chosen[members[np.unique(group[members], return_index=True)[1]]] = True
            masks.append(chosen)
        query, support = masks
        supporters = np.full(len(group), -1)
        supporters[group[support]] = rows[support]
        if self.alike:
            support = query  # one object: see ``alike``
        first = group == rows
        return replace(
            self,
            query_mask=query,
            support_mask=support,
            twins=supporters[group],
            distinct_mask=first if self.distinct_mask is None else first & self.distinct_mask,
        )

    def take_classes(self, classes: Ints) -> Pool:
        """Return the pool with only these classes."""
        return replace(self, classes=classes)

    @cached_property
    def _both(self) -> Ints:
        """Count the images of every class that may be either query or support, [C]."""
        shared = _both_masks(self.query_mask, self.support_mask)
        if self.twins is not None and self.query_mask is not None:
            shared = self.query_mask & (self.twins >= 0)
        return self.sizes if shared is None else self._count(shared)

    def _count(self, mask: Bools) -> Ints:
        total = np.concatenate([[0], np.cumsum(mask)])
        return np.diff(total[self.dataset.offsets])


class Choice(Protocol):
    """What the three choices have in common: a name for the command line and the file's metadata."""

    name: ClassVar[str]


class Shape(Choice, Protocol):
    """How many classes, shots and queries."""

    @property
    def min_way(self) -> int:
        """Return the smallest number of classes that a task can have."""
        ...

    @property
    def min_images(self) -> int:
        """Return how many images a class needs to take part in a task."""
        return sum(self.min_counts)

    @property
    def min_counts(self) -> tuple[int, int]:
        """Return how many queries and how many shots a class must be able to give."""
        ...

    @property
    def pool_counts(self) -> tuple[int, int]:
        """Return the ratio of queries to shots by which a class is cut where its images may not be both."""
        return self.min_counts

    def ways(self, streams: Streams, available: Ints) -> Ints:
        """Draw the number of classes of each task, from ``available[t]`` ≥ ``min_way`` classes, [T].

        Parameters
        ----------
        streams : Streams
            The random stream of every task.
        available : array [T] of int
            Classes that each task can draw from.

        Returns
        -------
        array [T] of int
        """
        ...

    def counts(self, streams: Streams, classes: Ragged, pool: Pool) -> TaskPlan:
        """Draw shots and queries for every class of every task.

        Parameters
        ----------
        streams : Streams
            The random stream of every task.
        classes : Ragged
            Class numbers of each task, as ``Classes.draw`` gave them.
        pool : Pool
            What may be drawn.

        Returns
        -------
        TaskPlan
            ``shots`` and ``queries`` beside the classes.
        """
        ...


class Classes(Choice, Protocol):
    """Which classes."""

    def draw(self, streams: Streams, shape: Shape, pool: Pool) -> Ragged:
        """Draw the class numbers of each task: T rows, each of different classes.

        Sees all tasks of a testbed at once, so that it may draw them one after the other
        (``streams.generator``).

        Parameters
        ----------
        streams : Streams
            The random stream of every task.
        shape : Shape
            Asked for the number of ways.
        pool : Pool
            What may be drawn.

        Returns
        -------
        Ragged
            Class numbers, [T] rows.
        """
        ...


class Instances(Choice, Protocol):
    """Which images."""

    @property
    def features_hash(self) -> str | None:
        """Hash of the features it looks at, None when it looks at none."""
        ...

    def draw(self, streams: Streams, pool: Pool, plan: TaskPlan) -> TaskRows:
        """Draw support and query rows of each task of the plan; the two are disjoint.

        The result for a task must not depend on the other tasks of the block.

        Parameters
        ----------
        streams : Streams
            The random stream of every task of the block.
        pool : Pool
            What may be drawn.
        plan : TaskPlan
            Classes, shots and queries of every task of the block.

        Returns
        -------
        TaskRows
            Rows of the dataset.
        """
        ...


def _both_masks(first: Bools | None, second: Bools | None) -> Bools | None:
    if first is None or second is None:
        return second if first is None else first
    return first & second


def settings_of(choice: Any) -> dict[str, Any]:
    """Return a choice as JSON for the metadata: its name and its parameters.

    Parameters are plain values. A field that holds more (features, a callable) says
    ``field(metadata={"setting": False})`` and is left out: its hash stands elsewhere in the metadata.
    """
    values = {f.name: getattr(choice, f.name) for f in fields(choice) if f.metadata.get("setting", True)}
    return {"name": choice.name, **{name: value for name, value in values.items() if value is not None}}


def open_with_splits(
    dataset: DatasetLike,
    splits: str | Path | None,
    identity: str | None = None,
    taxonomy: TaxonomyLike | None = None,
) -> Dataset:
    """Open the dataset, with ``taxonomy`` and the classes of ``splits`` (see ``open_split``) in place of its own."""
    from longshot.data import as_dataset, with_taxonomy

    opened = with_taxonomy(as_dataset(dataset).with_identity(identity), taxonomy)
    if splits is None:
        return opened
    from longshot.tasks.splits.published_splits import with_split

    return with_split(opened, splits)
