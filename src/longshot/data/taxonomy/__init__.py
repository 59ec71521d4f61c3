"""Class hierarchies: any directed acyclic graph with one root, whose classes are nodes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import Any

import numpy as np

from longshot.base import Ints, UserError
from longshot.data.taxonomy.graph import Adjacency, adjacency, reach, shortest_path


@dataclass(frozen=True, eq=False)
class Taxonomy:
    """A DAG with one root. Edges go from parent to child and keep the order they were given in.

    The order of the edges is part of the taxonomy: where a class has several shortest paths from the
    root, it decides which of them :meth:`shortest_paths` takes.

    Parameters
    ----------
    nodes : tuple of str
        Sorted, each once; :meth:`from_edges` and :meth:`from_class_ids` find them.
    edges : tuple of (str, str)
        Parent and child.
    labels : mapping
        Node → the name to show.

    Examples
    --------
    >>> taxonomy = Taxonomy.from_class_ids(["Fruit/Apple", "Fruit/Pear", "Milk"])
    >>> taxonomy.children("Fruit"), taxonomy.parents("Milk")
    (('Fruit/Apple', 'Fruit/Pear'), ('',))
    >>> sorted(taxonomy.ancestors("Fruit/Pear")), len(taxonomy.descendants("Fruit"))
    (['', 'Fruit', 'Fruit/Pear'], 3)
    >>> taxonomy.depth("Fruit/Pear"), taxonomy.label("Fruit/Pear"), taxonomy.index("Fruit")
    (2, 'Pear', 1)
    >>> taxonomy.indices(["Milk", "Fruit"]).tolist()
    [4, 1]
    >>> taxonomy.groups(["Fruit/Apple", "Fruit/Pear", "Milk"])
    {'': ('Milk',), 'Fruit': ('Fruit/Apple', 'Fruit/Pear')}
    >>> taxonomy.groups_at(["Fruit/Apple", "Fruit/Pear"], 1)
    {'Fruit': ('Fruit/Apple', 'Fruit/Pear')}
    >>> taxonomy.restrict(["Milk"]).nodes, taxonomy.shortest_paths(["Milk"]).nodes
    (('', 'Milk'), ('', 'Milk'))
    >>> Taxonomy.from_json(taxonomy.to_json()).nodes == taxonomy.nodes
    True
    >>> Taxonomy.from_edges([("food", "milk"), ("food", "bread")]).root
    'food'
    """

    nodes: tuple[str, ...]
    edges: tuple[tuple[str, str], ...]
    labels: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.nodes:
            raise UserError("The taxonomy has no node", "give it at least one edge 'parent,child'")
        if list(self.nodes) != sorted(set(self.nodes)):
            raise ValueError("Taxonomy.nodes must be sorted and unique; use Taxonomy.from_edges")
        parents: dict[str, list[str]] = {}
        for parent, child in self.edges:
            parents.setdefault(child, []).append(parent)
        try:
            TopologicalSorter(parents).prepare()
        except CycleError as error:
            raise _cyclic(error.args[1]) from None
        self.root  # noqa: B018  two roots are found here, not at the first use

    @classmethod
    def from_edges(
        cls, edges: Iterable[tuple[str, str]], labels: Mapping[str, str] | None = None
    ) -> Taxonomy:
        """Build from (parent, child) pairs; an edge given twice counts once.

        UserError on a cycle (named) or several roots (named).

        Parameters
        ----------
        edges : iterable of (str, str)
            Parent and child.
        labels : mapping, optional
            Node → the name to show.

        Returns
        -------
        Taxonomy
        """
        unique = tuple(dict.fromkeys((str(parent), str(child)) for parent, child in edges))
        return cls(tuple(sorted({node for edge in unique for node in edge})), unique, dict(labels or {}))

    @classmethod
    def from_class_ids(cls, class_ids: Iterable[str]) -> Taxonomy:
        """Build from nested paths: class ``a/b/c`` lies below ``a/b`` below ``a`` below the root ``""``.

        Parameters
        ----------
        class_ids : iterable of str
            Nested ids, parts joined by slashes.

        Returns
        -------
        Taxonomy
        """
        edges: dict[tuple[str, str], None] = {}
        for class_id in class_ids:
            parts = class_id.split("/")
            path = ["", *("/".join(parts[:end]) for end in range(1, len(parts) + 1))]
            edges.update(dict.fromkeys(pairwise(path)))
        return cls.from_edges(edges)

    # ---- single nodes -------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.nodes)

    def __contains__(self, node: object) -> bool:
        return node in self._index

    @cached_property
    def root(self) -> str:
        """Return the one node without parents."""
        offsets, _ = self.parent_lists
        roots = [self.nodes[i] for i in np.flatnonzero(np.diff(offsets) == 0)]
        if len(roots) != 1:  # none cannot be: an acyclic graph has a node without parents
            names = ", ".join(f"'{node}'" for node in roots[:5]) + (", …" if len(roots) > 5 else "")
            raise UserError(
                f"The taxonomy has {len(roots)} roots ({names}) and needs exactly one",
                f"add a common parent, for instance with the edges 'root,{roots[0]}' and 'root,{roots[1]}'",
            )
        return roots[0]

    @cached_property
    def leaves(self) -> tuple[str, ...]:
        """Return the nodes without children, sorted."""
        offsets, _ = self.child_lists
        return tuple(self.nodes[i] for i in np.flatnonzero(np.diff(offsets) == 0))

    def parents(self, node: str) -> tuple[str, ...]:
        """Return the direct parents in the order of the edges.

        Parameters
        ----------
        node : str
            A node; UserError with the nearest name where there is none.
        """
        return self._neighbours(self.parent_lists, node)

    def children(self, node: str) -> tuple[str, ...]:
        """Return the direct children in the order of the edges.

        Parameters
        ----------
        node : str
            A node; UserError with the nearest name where there is none.
        """
        return self._neighbours(self.child_lists, node)

    def ancestors(self, node: str) -> frozenset[str]:
        """Return every node from which ``node`` can be reached, ``node`` included.

        Parameters
        ----------
        node : str
            A node; UserError with the nearest name where there is none.
        """
        return frozenset(self.nodes[i] for i in reach(self.parent_lists, [self.index(node)]))

    def descendants(self, node: str) -> frozenset[str]:
        """Return every node that can be reached from ``node``, ``node`` included.

        Parameters
        ----------
        node : str
            A node; UserError with the nearest name where there is none.
        """
        return frozenset(self.nodes[i] for i in reach(self.child_lists, [self.index(node)]))

    def depth(self, node: str) -> int:
        """Return the length of the shortest path from the root; the root has depth 0.

        Parameters
        ----------
        node : str
            A node; UserError with the nearest name where there is none.
        """
        return int(self.depths[self.index(node)])

    def label(self, node: str) -> str:
        """Return the name to show: the given label, else the last part of the path; the empty id shows as "root".

        Parameters
        ----------
        node : str
            A node; UserError with the nearest name where there is none.
        """
        return self.labels.get(node) or node.rsplit("/", 1)[-1] or node or "root"

    def index(self, node: str) -> int:
        """Return the position of ``node`` in :attr:`nodes`; UserError with the nearest name when it is not there.

        Parameters
        ----------
        node : str
            A node; UserError with the nearest name where there is none.
        """
        try:
            return self._index[node]
        except KeyError:
            raise self._missing([node]) from None

    # ---- sets of classes ----------------------------------------------------------------------------

    def indices(self, class_ids: Sequence[str]) -> Ints:
        """Return positions in :attr:`nodes`; UserError naming classes that the taxonomy lacks, [C].

        Parameters
        ----------
        class_ids : sequence [C] of str
            Nodes of the taxonomy.
        """
        missing = [class_id for class_id in class_ids if class_id not in self._index]
        if missing:
            raise self._missing(missing)
        return np.fromiter((self._index[c] for c in class_ids), np.int64, len(class_ids))

    def groups(self, class_ids: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Group siblings: {parent: classes below it}, both sorted. A class with two parents is in two groups.

        Parameters
        ----------
        class_ids : sequence [C] of str
            Nodes of the taxonomy.
        """
        self.indices(class_ids)
        siblings: dict[str, list[str]] = {}
        for class_id in sorted(set(class_ids)):
            for parent in self.parents(class_id):
                siblings.setdefault(parent, []).append(class_id)
        return {parent: tuple(siblings[parent]) for parent in sorted(siblings)}

    def groups_at(self, class_ids: Sequence[str], level: int) -> dict[str, tuple[str, ...]]:
        """Group classes by the node of depth ``level`` above them: level 1 groups by the children of the root.

        A class that lies higher than ``level`` is a group of its own, so that every class is in a group.

        Parameters
        ----------
        class_ids : sequence [C] of str
            Nodes of the taxonomy.
        level : int
            0 is the root.
        """
        if level < 0:
            raise UserError(f"There is no level {level}; levels count from 0 (the root) downwards.")
        groups: dict[str, set[str]] = {}
        for class_id, at in zip(class_ids, self.indices(class_ids).tolist(), strict=True):
            above = reach(self.parent_lists, [at])
            tops = [self.nodes[i] for i in above if self.depths[i] == level] or [class_id]
            for top in tops:
                groups.setdefault(top, set()).add(class_id)
        return {top: tuple(sorted(groups[top])) for top in sorted(groups)}

    def restrict(self, class_ids: Sequence[str]) -> Taxonomy:
        """Return the part that matters for ``class_ids``: they, all their ancestors, and the edges among these.

        Parameters
        ----------
        class_ids : sequence [C] of str
            Nodes of the taxonomy.
        """
        return self._induced(reach(self.parent_lists, self.indices(class_ids).tolist()))

    def shortest_paths(self, class_ids: Sequence[str]) -> Taxonomy:
        """Reduce to one shortest path from the root to each class: the union of their nodes, and the edges among those.

        The reduction of the published tieredImageNet distances. Where a class has several shortest paths, the
        search decides: breadth-first from both ends, the smaller frontier moves (the root's when equal),
        neighbours in the order of the edges, until the two meet.

        Parameters
        ----------
        class_ids : sequence [C] of str
            Nodes of the taxonomy.
        """
        root = self._index[self.root]
        paths = [
            shortest_path(self.child_lists, self.parent_lists, root, at)
            for at in self.indices(class_ids).tolist()
        ]
        return self._induced({node for path in paths for node in path})

    # ---- files --------------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """Return plain values for a JSON file; :meth:`from_json` reads them back."""
        return {"edges": [list(edge) for edge in self.edges], "labels": dict(self.labels), "root": self.root}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Taxonomy:
        """Build the taxonomy that :meth:`to_json` described.

        Parameters
        ----------
        value : mapping
            ``edges``, and perhaps ``labels`` and ``root``.

        Returns
        -------
        Taxonomy
        """
        edges = tuple((str(parent), str(child)) for parent, child in value["edges"])
        nodes = {node for edge in edges for node in edge} | (
            {str(value["root"])} if "root" in value else set()
        )
        return cls(tuple(sorted(nodes)), tuple(dict.fromkeys(edges)), dict(value.get("labels") or {}))

    # ---- the graph as arrays ------------------------------------------------------------------------

    @cached_property
    def edge_indices(self) -> Ints:
        """Return the positions of (parent, child), [E, 2]."""
        flat = (self._index[node] for edge in self.edges for node in edge)
        return np.fromiter(flat, np.int64, 2 * len(self.edges)).reshape(-1, 2)

    @cached_property
    def child_lists(self) -> Adjacency:
        """Return (offsets [V+1], children [E]): the children of node v are children[offsets[v]:offsets[v+1]]."""
        return adjacency(self.edge_indices[:, 0], self.edge_indices[:, 1], len(self.nodes))

    @cached_property
    def parent_lists(self) -> Adjacency:
        """Return (offsets [V+1], parents [E]): the parents of node v are parents[offsets[v]:offsets[v+1]]."""
        return adjacency(self.edge_indices[:, 1], self.edge_indices[:, 0], len(self.nodes))

    @cached_property
    def depths(self) -> Ints:
        """Return the length of the shortest path from the root to each node, [V]."""
        offsets, children = (part.tolist() for part in self.child_lists)
        start = self._index[self.root]
        depth = [-1] * len(self.nodes)
        depth[start] = 0
        queue = deque([start])
        while queue:
            at = queue.popleft()
            for child in children[offsets[at] : offsets[at + 1]]:
                if depth[child] < 0:
                    depth[child] = depth[at] + 1
                    queue.append(child)
        return np.array(depth, np.int64)

    @cached_property
    def _index(self) -> dict[str, int]:
        return {node: i for i, node in enumerate(self.nodes)}

    def _neighbours(self, lists: Adjacency, node: str) -> tuple[str, ...]:
        offsets, neighbours = lists
        at = self.index(node)
        return tuple(self.nodes[i] for i in neighbours[offsets[at] : offsets[at + 1]])

    def _induced(self, positions: set[int]) -> Taxonomy:
        """Return the sub-graph on these nodes (the root among them), edges in the same order."""
        nodes = tuple(self.nodes[i] for i in sorted(positions))
        names = set(nodes)
        edges = tuple(edge for edge in self.edges if edge[0] in names and edge[1] in names)
        return Taxonomy(nodes, edges, {node: self.labels[node] for node in nodes if node in self.labels})

    def _missing(self, missing: Sequence[str]) -> UserError:
        more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
        return UserError(
            f"The class '{missing[0]}'{more} is not in the taxonomy of {len(self.nodes):,} nodes",
            self._nearest(missing[0]),
        )

    def _nearest(self, name: str) -> str:
        """Suggest the node with that label, else the most similar id or label."""
        from difflib import get_close_matches  # only on the way to an error

        by_label: dict[str, str] = {}
        for node in self.nodes:
            by_label.setdefault(self.label(node).lower(), node)
            by_label.setdefault(node.lower(), node)
        near = get_close_matches(name.lower(), by_label, n=1, cutoff=0.5)
        if not near:
            return "{open_taxonomy(SOURCE)} has the names"
        node = by_label[near[0]]
        shown = f"'{node}'" if self.label(node) == node else f"'{node}' ({self.label(node)})"
        return f"the nearest is {shown}"


def _cyclic(cycle: Sequence[str]) -> UserError:
    shown = cycle if len(cycle) <= 12 else [*cycle[:6], "…", *cycle[-5:]]
    return UserError(
        f"The taxonomy has a cycle of {len(cycle) - 1} edge{'s' if len(cycle) > 2 else ''} "
        f"({' → '.join(shown)}) and must have none",
        "remove one of these edges",
    )


def taxonomy_of_ids(class_ids: Sequence[str], *, below_split: bool = False) -> Taxonomy | None:
    """Build the hierarchy that nested ids spell out; None when they are flat.

    ``below_split``: the first part of each id is train/val/test, which says nothing about likeness, so
    ``train/Fruit/Apple`` lies below ``Fruit`` below the root.
    """
    if not below_split:
        return Taxonomy.from_class_ids(class_ids) if any("/" in c for c in class_ids) else None
    if not any(c.count("/") > 1 for c in class_ids):
        return None
    inner = {c: c.split("/", 1)[1].rpartition("/")[0] for c in class_ids}
    edges: list[tuple[str, str]] = []
    groups = sorted({group for group in inner.values() if group})
    if groups:
        edges += Taxonomy.from_class_ids(groups).edges
    return Taxonomy.from_edges([*edges, *((group, class_id) for class_id, group in inner.items())])
