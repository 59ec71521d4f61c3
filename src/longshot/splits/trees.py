"""Trees of classes: Ward clustering of class embeddings, and how far such a tree is from a taxonomy, in hops.

The paper's distance is Σ_{a,b} |d₁(a, b) − d₂(a, b)| with d the "normalized minimum number of nodes" between two
classes, and it calls it an average. Read as an average over pairs of classes it gives numbers of the size of its
table 3 (2 to 9 hops); divided by the largest distance of each graph, which is the other reading of "normalized", it
stays below 1. Both are computed: ``hops`` and ``relative``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from longshot.core.errors import UserError
from longshot.core.progress import progress

if TYPE_CHECKING:
    from longshot.taxonomy.dag import Taxonomy

Floats = NDArray[np.float64]
Counts = NDArray[np.int32]
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
        raise UserError(f"There is {len(embeddings)} class, and a tree needs at least 2; add classes.")
    from scipy.cluster.hierarchy import linkage

    found: Floats = linkage(np.asarray(embeddings, np.float64), "ward")
    return found


def linkage_hops(linkage: Floats) -> Counts:
    """Edges between all pairs of leaves [C, C] of a linkage [C − 1, 4].

    Where two clusters are joined, a leaf of the one is up(a) + up(b) edges from a leaf of the other, up being the edges
    from a leaf to the new node: every pair is written once, C² cells in all.
    """
    size = len(linkage) + 1
    hops = np.zeros((size, size), np.int32)
    up = np.zeros(size, np.int32)
    members = {leaf: np.array([leaf]) for leaf in range(size)}
    for step, (left, right) in enumerate(linkage[:, :2].astype(np.int64).tolist()):
        one, other = members.pop(left), members.pop(right)
        both = np.concatenate([one, other])
        up[both] += 1
        cells = up[one][:, None] + up[other][None, :]
        hops[np.ix_(one, other)] = cells
        hops[np.ix_(other, one)] = cells.T
        members[size + step] = both
    return hops


def taxonomy_hops(taxonomy: Taxonomy, class_ids: Sequence[str]) -> Counts:
    """Edges on the shortest way between all pairs of classes [C, C], up or down, in any graph.

    As in the paper only what lies above the classes counts: other leaves are cut off first.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import shortest_path

    part = taxonomy.restrict(class_ids)
    places = part.indices(class_ids)
    parents, children = part.edge_indices.T
    graph = csr_array((np.ones(len(parents), np.int8), (parents, children)), shape=(len(part), len(part)))
    hops = np.empty((len(places), len(places)), np.int32)
    step = max(1, _BLOCK // len(part))
    with progress("hops", total=len(places), unit="classes") as bar:
        for low in range(0, len(places), step):
            some = places[low : low + step]
            found = shortest_path(graph, directed=False, unweighted=True, indices=some)
            hops[low : low + step] = found[:, places]
            bar.advance(len(some))
    return hops


def tree_gap(one: Counts, other: Counts, *, shuffles: int = 20, seed: int = 0) -> TreeGap:
    """Compare two matrices of hops [C, C] over the same classes.

    ``chance`` is the mean over ``shuffles`` random renamings of the classes of one graph: what two graphs of these
    shapes that know nothing of each other would have.
    """
    if one.shape != other.shape or len(one) < 2:
        raise ValueError(f"hops {one.shape} and {other.shape} are not of the same two or more classes")
    upper = np.triu_indices(len(one), 1)
    a, b = one[upper].astype(np.float64), other[upper].astype(np.float64)
    rng = np.random.default_rng(seed)
    shuffled = []
    for _ in range(shuffles):
        order = rng.permutation(len(one))
        shuffled.append(np.abs(a - other[np.ix_(order, order)][upper]).mean())
    varied = np.ptp(a) > 0 and np.ptp(b) > 0
    return TreeGap(
        hops=float(np.abs(a - b).mean()),
        relative=float(np.abs(a / a.max() - b / b.max()).mean()),
        correlation=float(np.corrcoef(a, b)[0, 1]) if varied else float("nan"),
        chance=float(np.mean(shuffled)) if shuffled else float("nan"),
        pairs=len(a),
    )


def far_pairs(
    one: Counts, other: Counts, class_ids: Sequence[str], count: int
) -> list[tuple[str, str, int, int]]:
    """(class, class, hops in one, hops in other): ``count`` pairs that are nearest in ``one`` for how far in ``other``.

    Sorted by hops in ``one`` minus hops in ``other``, each scaled to its own mean; ties in the order of the classes.
    """
    upper = np.triu_indices(len(one), 1)
    a, b = one[upper], other[upper]
    order = np.argsort(a / a.mean() - b / b.mean(), kind="stable")[:count]
    left, right = upper
    return [(class_ids[left[i]], class_ids[right[i]], int(a[i]), int(b[i])) for i in order.tolist()]
