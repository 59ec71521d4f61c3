"""Meta-Dataset's episodes: variable way and shot, the ILSVRC and Omniglot rules for classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from longshot.base import Floats, Ints, Ragged, TaskPlan, UserError
from longshot.data import no_taxonomy
from longshot.tasks.base import Pool, Shape
from longshot.tasks.class_samplers import SiblingClasses, draw_within
from longshot.tasks.shapes import check_range
from longshot.tasks.streams import Streams

_LOG_HALF, _LOG_TWO = np.log(0.5), np.log(2.0)


@dataclass(frozen=True)
class MetaDatasetShape(Shape):
    """Variable way and shot, as Meta-Dataset draws them.

    ways     n ~ U{min_way … min(max_way, available)} (all of a node's leaves with hierarchical classes)
    queries  q = min(max_query, min_c ⌊|c|/2⌋), the same for every class
    support  |S| = min(max_support, Σ_c ⌊β · min(max_contribution, |c| − q) + 1⌋) with β ~ U[0, 1)
    shots    k_c = min(⌊R_c · (|S| − n)⌋ + 1, |c| − q), R_c ∝ |c| · e^{a_c}, a_c ~ U[ln ½, ln 2)

    Parameters
    ----------
    min_way, max_way : int
        Bounds of n.
    max_query : int
        The most queries per class.
    max_support : int
        The most support images of a task, over all classes.
    max_contribution : int
        The most images that one class adds to the size of the support.

    Examples
    --------
    >>> shape = MetaDatasetShape(max_way=8, max_support=40)
    >>> varied = longshot.sample("toybox", shape=shape, tasks=20, split="test")
    >>> max(sum(task.shots) for task in varied) <= 40 and max(task.way for task in varied) <= 8
    True
    """

    min_way: int = 5
    max_way: int = 50
    max_query: int = 10
    max_support: int = 500
    max_contribution: int = 100
    name: ClassVar[str] = "meta-dataset"
    about: ClassVar[str] = "ways, and shots per class, vary as in Meta-Dataset"
    # setting of ``sample`` → parameter
    also: ClassVar[dict[str, str]] = {"way": "max_way", "query": "max_query"}

    def __post_init__(self) -> None:
        check_range("min_way", self.min_way, 2)
        check_range("max_way", self.max_way, self.min_way)
        for name in ("max_query", "max_support", "max_contribution"):
            check_range(name, getattr(self, name), 1)

    @property
    def min_counts(self) -> tuple[int, int]:
        """Return one query and one shot, so that a class is cut in half where it is cut."""
        return 1, 1

    def ways(self, streams: Streams, available: Ints) -> Ints:
        """Draw n for every task, [T]."""
        most = np.minimum(available, self.max_way)
        return self.min_way + streams.stage("ways").below(most - self.min_way + 1)

    def counts(self, streams: Streams, classes: Ragged, pool: Pool) -> TaskPlan:
        """Draw shots and queries of every class of every task."""
        beta = streams.stage("support-size").uniform()
        weight = streams.slots("shots", classes).uniform()
        numbers = classes.values
        sizes = pool.distinct_sizes[numbers]
        # Half of a class, or fewer where a rule leaves fewer images for queries.
        most = np.minimum(sizes // 2, pool.query_sizes[numbers])
        query = np.minimum(self.max_query, np.minimum.reduceat(most, classes.offsets[:-1]))[classes.owners]
        return self.describe(classes, sizes, query, pool.left(numbers, query), beta, weight)

    def describe(
        self, classes: Ragged, sizes: Ints, query: Ints, available: Ints, beta: Floats, weight: Floats
    ) -> TaskPlan:
        """Apply the rule for the support, given |c|, q and |c| − q per slot, [M].

        ``beta`` [T] and ``weight`` [M] are uniform in [0, 1).

        Parameters
        ----------
        classes : Ragged
            Class numbers of each task, M in all.
        sizes, query, available : array [M] of int
            |c|, q and |c| − q.
        beta : array [T] of float
            One number per task.
        weight : array [M] of float
            One number per class.

        Returns
        -------
        TaskPlan
            Shots and queries of every class.

        Examples
        --------
        >>> import numpy as np
        >>> from longshot.base import Ragged
        >>> classes, sizes = Ragged.from_lists([[0, 1]]), np.array([20, 20])
        >>> plan = MetaDatasetShape(min_way=2).describe(
        ...     classes, sizes, np.array([10, 10]), np.array([10, 10]), np.array([0.5]), np.array([0.5, 0.5]))
        >>> plan.shots.values.tolist()
        [6, 6]
        """
        starts, lengths, owners = classes.offsets[:-1], classes.lengths, classes.owners
        shares = np.floor(beta[owners] * np.minimum(self.max_contribution, available) + 1)
        support = np.minimum(self.max_support, np.add.reduceat(shares, starts))
        power = sizes * np.exp(_LOG_HALF + (_LOG_TWO - _LOG_HALF) * weight)
        ratio = power / np.add.reduceat(power, starts)[owners]
        shots = np.minimum(np.floor(ratio * (support - lengths)[owners]).astype(np.int64) + 1, available)
        return TaskPlan(classes, classes.with_values(shots), classes.with_values(query))


@dataclass(frozen=True)
class HierarchicalClasses:
    """Meta-Dataset's ILSVRC rule on any taxonomy: an internal node, then all classes below it.

    A node is drawn uniformly among those that span between the shape's least ways and ``max_span`` classes of
    the pool (nodes with a single child are the same as that child and left out). With Meta-Dataset's shape the task
    takes all its classes, sub-sampled to the shape's most; with other shapes it takes as many as the shape says.

    Parameters
    ----------
    max_span : int
        The most classes that a node may span.

    Examples
    --------
    >>> classes = HierarchicalClasses(max_span=40)
    >>> testbed = longshot.sample("toybox", tasks=5, classes=classes, shape="meta-dataset", split="test")
    >>> len(testbed)
    5
    """

    max_span: int = 392
    name: ClassVar[str] = "hierarchical"
    about: ClassVar[str] = "all below a node of the taxonomy"

    def groups(self, shape: Shape, pool: Pool) -> Ragged:
        """Return the classes below each eligible node, nodes in order of their id.

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
        >>> int(HierarchicalClasses().groups(longshot.FixedShape(way=3), pool).lengths.min()) >= 3
        True
        """
        dataset = pool.dataset
        if dataset.taxonomy is None:
            raise no_taxonomy(dataset, " to draw nodes from", ", or draw with {classes:uniform}")
        tree = dataset.taxonomy.restrict(pool.class_ids)
        number = dict(zip(pool.class_ids, pool.classes.tolist(), strict=True))
        spans = {
            node: sorted(number[leaf] for leaf in tree.descendants(node) if leaf in number)
            for node in tree.nodes
            if len(tree.children(node)) > 1
        }
        fitting = {n: span for n, span in spans.items() if shape.min_way <= len(span) <= self.max_span}
        if not fitting:
            widest = max((len(span) for span in spans.values()), default=0)
            raise UserError(
                f"No node of the taxonomy of '{dataset.name}' spans between {shape.min_way} and {self.max_span} "
                f"classes (the widest spans {widest})",
                "lower {way} or draw with {classes:uniform}",
            )
        return Ragged.from_lists([fitting[node] for node in sorted(fitting)])

    def draw(self, streams: Streams, shape: Shape, pool: Pool) -> Ragged:
        """Draw the class numbers of each task."""
        groups = self.groups(shape, pool)
        chosen = streams.stage("group").below(len(groups))
        most = shape.max_way if isinstance(shape, MetaDatasetShape) else None
        return draw_within(streams, shape, groups, chosen, most)


@dataclass(frozen=True)
class BilevelClasses(SiblingClasses):
    """Meta-Dataset's Omniglot rule on any two-level grouping: a super-class uniformly, then its classes.

    Parameters
    ----------
    level : int, optional
        As in :class:`SiblingClasses`.

    Examples
    --------
    >>> testbed = longshot.sample("toybox", tasks=5, classes=BilevelClasses(level=1), way=3, split="test")
    >>> {len({class_id.split("/")[0] for class_id in task.classes}) for task in testbed}
    {1}
    """

    name: ClassVar[str] = "bilevel"
    about: ClassVar[str] = "siblings by Meta-Dataset's rule"
