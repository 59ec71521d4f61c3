"""Trees of classes: Ward clustering of class embeddings, and how far such a tree is from a taxonomy, in hops.

The paper's distance is Σ_{a,b} |d₁(a, b) − d₂(a, b)| with d the "normalized minimum number of nodes" between two
classes, and it calls it an average. Read as an average over pairs of classes it gives numbers of the size of its
table 3 (2 to 9 hops); divided by the largest distance of each graph, which is the other reading of "normalized", it
stays below 1. Both are computed: ``hops`` and ``relative``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from longshot.base import Floats, UserError, progress

if TYPE_CHECKING:
    from longshot.data import Taxonomy

Counts: TypeAlias = NDArray[np.int32]
_BLOCK = 1 << 22  # numbers of a temporary block: 32 MB of float64


@dataclass(frozen=True)
class TreeGap:
    """How far two graphs over the same C classes are apart, over the C (C − 1) / 2 pairs of classes."""

    hops: float  # mean |d₁ − d₂|
    relative: float  # mean |d₁ / max d₁ − d₂ / max d₂|
    correlation: float  # Pearson's r of d₁ and d₂; NaN when one is the same for all pairs
    chance: float  # mean of ``hops`` after classes changed places at random
    pairs: int


def ward(embeddings: Floats) -> Floats:
    """Ward's clustering of class embeddings [C, d] as SciPy's linkage [C − 1, 4].

    Row i joins the clusters of its first two columns into cluster C + i; at every step the two are joined that raise
    the within-cluster sum of squares least.
    """
    if len(embeddings) < 2:
        raise UserError(f"There is {len(embeddings)} class, and a tree needs at least 2", "add classes")
    from scipy.cluster.hierarchy import linkage

    joins: Floats = linkage(np.asarray(embeddings, np.float64), "ward")
    return joins


def linkage_hops(linkage: Floats) -> Counts:
    """Edges between all pairs of leaves [C, C] of a linkage [C − 1, 4].

    Where two clusters are joined, a leaf of the one is up(a) + up(b) edges from a leaf of the other, up being the edges
    from a leaf to the new node: every pair is written once, C² cells in all.
    """
    size = len(linkage) + 1
    hops = np.zeros((size, size), np.int32)
    up = np.zeros(size, np.int32)
    members = {leaf: np.array([leaf]) for leaf in range(size)}
    for step, clusters in enumerate(linkage[:, :2].astype(np.int64).tolist()):
        first, second = (members.pop(cluster) for cluster in clusters)
        joined = np.concatenate([first, second])
        up[joined] += 1
        cells = up[first][:, None] + up[second][None, :]
        hops[np.ix_(first, second)] = cells
        hops[np.ix_(second, first)] = cells.T
        members[size + step] = joined
    return hops


def taxonomy_hops(taxonomy: Taxonomy, class_ids: Sequence[str]) -> Counts:
    """Edges on the shortest way between all pairs of classes [C, C], up or down, in any graph.

    As in the paper only what lies above the classes counts: other leaves are cut off first.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import shortest_path

    part = taxonomy.restrict(class_ids)
    leaves = part.indices(class_ids)
    parents, children = part.edge_indices.T
    graph = csr_array((np.ones(len(parents), np.int8), (parents, children)), shape=(len(part), len(part)))
    hops = np.empty((len(leaves), len(leaves)), np.int32)
    step = max(1, _BLOCK // len(part))
    with progress("hops", total=len(leaves), unit="classes") as bar:
        for low in range(0, len(leaves), step):
            block = leaves[low : low + step]
            lengths = shortest_path(graph, directed=False, unweighted=True, indices=block)
            hops[low : low + step] = lengths[:, leaves]
            bar.advance(len(block))
    return hops


def tree_gap(hops: Counts, against: Counts, *, shuffles: int = 20, seed: int = 0) -> TreeGap:
    """How far two matrices of hops [C, C] over the same classes are apart.

    Parameters
    ----------
    hops, against : ints [C, C]
        Edges between all pairs of classes in either graph.
    shuffles : int
        Random renamings of the classes of one graph; ``chance`` is the mean over them: what two graphs of these shapes
        that know nothing of each other would have.
    seed : int
        Of the renamings.

    Examples
    --------
    >>> tree_gap(np.array([[0, 2], [2, 0]]), np.array([[0, 5], [5, 0]])).hops
    3.0
    """
    if hops.shape != against.shape or len(hops) < 2:
        raise ValueError(f"hops {hops.shape} and {against.shape} are not of the same two or more classes")
    upper = np.triu_indices(len(hops), 1)
    a, b = hops[upper].astype(np.float64), against[upper].astype(np.float64)
    rng = np.random.default_rng(seed)
    orders = [rng.permutation(len(hops)) for _ in range(shuffles)]
    shuffled = [np.abs(a - against[np.ix_(order, order)][upper]).mean() for order in orders]
    varied = np.ptp(a) > 0 and np.ptp(b) > 0
    return TreeGap(
        hops=float(np.abs(a - b).mean()),
        relative=float(np.abs(a / a.max() - b / b.max()).mean()),
        correlation=float(np.corrcoef(a, b)[0, 1]) if varied else float("nan"),
        chance=float(np.mean(shuffled)) if shuffled else float("nan"),
        pairs=len(a),
    )


def far_pairs(
    near: Counts, far: Counts, class_ids: Sequence[str], count: int
) -> list[tuple[str, str, int, int]]:
    """The ``count`` pairs of classes that are nearest in one graph for how far they are in the other.

    Sorted by hops in ``near`` minus hops in ``far``, each scaled to its own mean; ties in the order of the classes.

    Returns
    -------
    list of (class, class, hops in ``near``, hops in ``far``)
    """
    rows, columns = np.triu_indices(len(near), 1)
    a, b = near[rows, columns], far[rows, columns]
    order = np.argsort(a / a.mean() - b / b.mean(), kind="stable")[:count]
    return [(class_ids[rows[i]], class_ids[columns[i]], int(a[i]), int(b[i])) for i in order.tolist()]
