"""Classes and all nodes above them as flat arrays: what distances, common ancestors and counts are computed from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from longshot.core.arrays import Floats, Ints
from longshot.core.errors import UserError
from longshot.taxonomy.dag import Taxonomy


@dataclass(frozen=True)
class Ancestry:
    """Every (class, ancestor) pair with the edges between them, sorted by node, then depth-first rank.

    ``classes`` [M] positions in class_ids, ``nodes`` [M], ``hops`` [M]; ``rank`` [C] is the place of each
    class in a depth-first walk: classes below one node stand together, so that its pairs are slices.
    """

    classes: Ints
    nodes: Ints
    hops: Ints
    rank: Ints

    @property
    def size(self) -> int:
        """Number of classes."""
        return len(self.rank)

    @classmethod
    def of(cls, taxonomy: Taxonomy, class_ids: Sequence[str]) -> Ancestry:
        """Climb from all classes at once, level by level; a pair met again later is longer and dropped."""
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
        rank = _depth_first_rank(taxonomy, start, np.unique(nodes))
        order = np.lexsort((rank[classes], nodes))
        return cls(classes[order], nodes[order], hops[order], rank)

    def sum(self, weights: Floats, size: int) -> Floats:
        """[size] for every node the sum of ``weights`` [C] over the classes at or below it."""
        return np.bincount(self.nodes, weights[self.classes], size).astype(np.float64)

    def members(self) -> Iterator[tuple[int, Ints, Ints]]:
        """(node, sorted ranks of the classes below, hops from each) for nodes above two or more classes."""
        bounds = np.flatnonzero(np.diff(self.nodes, prepend=-1, append=-1))
        ranks = self.rank[self.classes]
        for low, high in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            if high - low > 1:
                yield int(self.nodes[low]), ranks[low:high], self.hops[low:high]


def _depth_first_rank(taxonomy: Taxonomy, start: Ints, used: Ints) -> Ints:
    """[C] place of each class in a depth-first walk over the ``used`` nodes."""
    offsets, children = (part.tolist() for part in taxonomy.child_lists)
    waiting = np.zeros(len(taxonomy), bool)
    waiting[used] = True
    open_nodes = waiting.tolist()
    position = np.zeros(len(taxonomy), np.int64)
    stack, met = [taxonomy.index(taxonomy.root)], 0
    while stack:
        at = stack.pop()
        if open_nodes[at]:
            open_nodes[at] = False
            position[at] = met
            met += 1
            stack.extend(reversed(children[offsets[at] : offsets[at + 1]]))
    rank = np.empty(len(start), np.int64)
    rank[np.argsort(position[start])] = np.arange(len(start))
    return rank
