"""Graphs as lists of neighbours in two arrays: reach, shortest paths, all nodes above some classes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from longshot.base import Floats, Ints, UserError

if TYPE_CHECKING:
    from longshot.data.taxonomy import Taxonomy

Adjacency: TypeAlias = tuple[Ints, Ints]  # offsets [V+1], neighbours [E]


def adjacency(source: Ints, target: Ints, size: int) -> Adjacency:
    """List the targets of each source, each list in the order given."""
    order = np.argsort(source, kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(source, minlength=size))]).astype(np.int64)
    return offsets, target[order]


def reach(lists: Adjacency, start: Iterable[int]) -> set[int]:
    """Collect everything reachable from ``start`` along the lists, ``start`` included."""
    offsets, neighbours = lists
    seen = set(start)
    stack = list(seen)
    while stack:
        at = stack.pop()
        for near in neighbours[offsets[at] : offsets[at + 1]].tolist():
            if near not in seen:
                seen.add(near)
                stack.append(near)
    return seen


def shortest_path(children: Adjacency, parents: Adjacency, top: int, bottom: int) -> list[int]:
    """Find the nodes of one shortest path between ``top`` and ``bottom``, which lies below it."""
    came_down: dict[int, int] = {top: -1}  # node → the one before it, on the way down from the top
    came_up: dict[int, int] = {bottom: -1}
    upper, lower = [top], [bottom]
    meeting = top if top == bottom else -1
    while meeting < 0:
        if len(upper) <= len(lower):
            upper, meeting = _advance(children, upper, came_down, came_up)
        else:
            lower, meeting = _advance(parents, lower, came_up, came_down)
    path = []
    for links in (came_down, came_up):
        at = meeting
        while at >= 0:
            path.append(at)
            at = links[at]
    return path


def _advance(
    lists: Adjacency, frontier: list[int], own: dict[int, int], other: dict[int, int]
) -> tuple[list[int], int]:
    """Advance a search from one end: return (the next frontier, the first node the other end knows or −1)."""
    offsets, neighbours = lists
    following: list[int] = []
    for at in frontier:
        for near in neighbours[offsets[at] : offsets[at + 1]].tolist():
            if near not in own:
                own[near] = at
                following.append(near)
                if near in other:
                    return following, near
    return following, -1


@dataclass(frozen=True)
class Ancestry:
    """Every (class, ancestor) pair with the edges between them, sorted by node, then class.

    ``classes`` [M] positions in class_ids, ``nodes`` [M], ``hops`` [M]; ``start`` [C] is the node of each class.
    """

    classes: Ints
    nodes: Ints
    hops: Ints
    start: Ints

    @property
    def size(self) -> int:
        """Count the classes."""
        return len(self.start)

    @classmethod
    def of(cls, taxonomy: Taxonomy, class_ids: Sequence[str]) -> Ancestry:
        """Find the ancestors of all classes at once, level by level; a pair met again later is longer and dropped."""
        start = taxonomy.indices(class_ids)
        if len(np.unique(start)) < len(start):
            twice = next(c for i, c in enumerate(class_ids) if c in class_ids[:i])
            raise UserError(f"The class '{twice}' is given twice; distances need each class once.")
        offsets, parents = taxonomy.parent_lists
        size = len(taxonomy)
        frontier = np.arange(len(start)) * size + start  # a (class, node) pair as one number
        levels = [frontier]
        while len(frontier):
            classes, nodes = np.divmod(frontier, size)
            fan = offsets[nodes + 1] - offsets[nodes]
            inside = np.arange(fan.sum()) - np.repeat(np.cumsum(fan) - fan, fan)
            upper = parents[np.repeat(offsets[nodes], fan) + inside]
            frontier = np.unique(np.repeat(classes, fan) * size + upper)
            levels.append(frontier)
        # np.unique keeps the first occurrence: the lowest level, so the fewest hops.
        pairs, first = np.unique(np.concatenate(levels), return_index=True)
        hops = np.repeat(np.arange(len(levels)), [len(level) for level in levels])[first]
        classes, nodes = np.divmod(pairs, size)
        order = np.lexsort((classes, nodes))
        return cls(classes[order], nodes[order], hops[order], start)

    def sum(self, weights: Floats, size: int) -> Floats:
        """Sum ``weights`` [C] over the classes at or below each node, [size]."""
        return np.bincount(self.nodes, weights[self.classes], size).astype(np.float64)

    def members(self) -> Iterator[tuple[int, Ints, Ints]]:
        """Yield (node, sorted classes below, hops from each) for nodes above two or more classes."""
        bounds = np.flatnonzero(np.diff(self.nodes, prepend=-1, append=-1))
        for low, high in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            if high - low > 1:
                yield int(self.nodes[low]), self.classes[low:high], self.hops[low:high]
