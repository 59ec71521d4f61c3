"""A taxonomy as a tree to look at: one place per node, single-child chains collapsed, counts per node."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from longshot.data.taxonomy.dag import Taxonomy
from longshot.data.taxonomy.distances import image_counts


@dataclass
class Branch:
    """A node to show. ``labels`` holds a whole chain of single children, top first; ``node`` is its last."""

    node: str
    labels: list[str]
    classes: int
    images: int | None
    also_below: tuple[str, ...] = ()
    children: list[Branch] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The last label of the chain."""
        return self.labels[-1]

    def walk(self) -> Iterator[tuple[int, Branch]]:
        """(depth, branch) from the top, parents before children, in order."""
        stack = [(0, self)]
        while stack:
            depth, branch = stack.pop()
            yield depth, branch
            stack.extend((depth + 1, child) for child in reversed(branch.children))


def display_tree(taxonomy: Taxonomy, class_ids: Sequence[str], images: ArrayLike | None = None) -> Branch:
    """The part of the taxonomy above ``class_ids`` as a tree; ``images`` [C] are images per class.

    A node with several parents stands below the first and names the others. ``classes`` and ``images`` of a
    node count each class below it once, in the DAG. A chain of single children becomes one branch.
    """
    part = taxonomy.restrict(class_ids)
    classes = image_counts(part, class_ids, np.ones(len(class_ids)))
    counts = image_counts(part, class_ids, images) if images is not None else None
    shown = set(class_ids)
    branches = {
        node: Branch(
            node,
            [part.label(node)],
            int(classes[i]),
            int(counts[i]) if counts is not None else None,
            tuple(part.label(parent) for parent in part.parents(node)[1:]),
        )
        for i, node in enumerate(part.nodes)
    }
    for node in part.nodes:
        branches[node].children = [branches[c] for c in part.children(node) if part.parents(c)[0] == node]
    top = branches[part.root]
    for _, branch in reversed(list(top.walk())):  # drop what only has classes that stand below other parents
        branch.children = [child for child in branch.children if child.children or child.node in shown]
    for _, branch in top.walk():  # the walk goes on from the children a branch has after this
        while len(branch.children) == 1 and branch.node not in shown:
            only = branch.children[0]
            if only.name != branch.name:  # "Lemon › Lemon" says nothing that "Lemon" does not
                branch.labels.extend(only.labels)
            branch.node, branch.children, branch.also_below = only.node, only.children, only.also_below
            branch.classes, branch.images = only.classes, only.images
    if len(top.labels) > 1 and taxonomy.label(taxonomy.root) == "root":
        top.labels = top.labels[1:]  # the unnamed root above a single family
    return top
