"""Distances between all pairs of classes: Longshot against NetworkX ancestors, pair by pair, in one run.

tieredImageNet's 160 test classes would need files from outside; the sizes here are the same or larger: a part
of WordNet where it is installed, and a tree of 1,604 leaves in seven levels, the size of Danish Fungi 2020.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from itertools import combinations

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from longshot.base import UserError
from longshot.data import Taxonomy, class_distances, read_wordnet
from longshot.data.taxonomy.distances import KINDS


def with_networkx(
    graph: nx.DiGraph, class_ids: Sequence[str], counts: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Straightforward Jiang–Conrath: count images below every node, intersect two ancestor sets per pair."""
    images: dict[str, int] = {}
    for class_id, count in zip(class_ids, counts.tolist(), strict=True):
        for node in nx.ancestors(graph, class_id) | {class_id}:
            images[node] = images.get(node, 0) + count
    result = np.zeros((len(class_ids), len(class_ids)))
    for (i, a), (j, b) in combinations(enumerate(class_ids), 2):
        common = (nx.ancestors(graph, a) | {a}) & (nx.ancestors(graph, b) | {b})
        lowest = min(images[node] for node in common)
        result[i, j] = result[j, i] = 2 * math.log(lowest) - math.log(images[a]) - math.log(images[b])
    return result


def fungi_like() -> list[str]:
    """1,604 species in seven levels with uneven families, drawn once with a fixed seed."""
    rng = np.random.default_rng(0)
    widths = (3, 6, 14, 40, 110, 400)
    paths = {
        "/".join(f"{'kpcofg'[level]}{int(w * u**1.5)}" for level, w in enumerate(widths)) + f"/s{number:04d}"
        for number, u in enumerate(rng.random(1604))
    }
    return sorted(paths)


def seconds(work: object, *args: object, repeat: int = 1) -> tuple[float, NDArray[np.float64]]:
    """Best of ``repeat`` runs, and the result."""
    best, result = math.inf, np.empty(0)
    for _ in range(repeat):
        start = time.perf_counter()
        result = work(*args)  # type: ignore[operator]
        best = min(best, time.perf_counter() - start)
    return best, result


def main() -> None:
    rng = np.random.default_rng(1)
    species = fungi_like()
    cases = [("tree, 1,604 leaves in 7 levels", Taxonomy.from_class_ids(species), species, 200)]
    try:
        wordnet = read_wordnet()
    except UserError as error:
        print(f"without WordNet: {error}")
    else:
        for size, peer in ((160, 160), (1000, 200), (5000, 200)):
            picked = sorted(rng.choice(len(wordnet.leaves), size, replace=False).tolist())
            names = [wordnet.leaves[i] for i in picked]
            cases.append((f"WordNet 3.0, {size:,} of its leaves", wordnet, names, peer))
    print(
        f"{'Jiang–Conrath, all pairs':38s} {'pairs':>12s} {'Longshot':>10s} {'NetworkX':>12s} {'ratio':>9s}"
    )
    for name, taxonomy, class_ids, peer in cases:
        counts = rng.integers(30, 1300, len(class_ids))
        ours, _ = seconds(class_distances, taxonomy, class_ids, counts, repeat=3)
        # The peer's time grows with the pairs: measured on some classes (its graph built beforehand), scaled
        # to all, and its distances compared with ours.
        some = sorted(rng.choice(len(class_ids), peer, replace=False).tolist())
        part, weights = [class_ids[i] for i in some], counts[some]
        theirs, expected = seconds(with_networkx, nx.DiGraph(taxonomy.edges), part, weights)
        np.testing.assert_allclose(class_distances(taxonomy, part, weights), expected, atol=1e-12)
        pairs = len(class_ids) * (len(class_ids) - 1) // 2
        scaled = theirs * pairs / (peer * (peer - 1) // 2)
        mark = "" if peer == len(class_ids) else "*"
        print(f"{name:38s} {pairs:12,} {ours:9.3f}s {scaled:10.1f}s{mark:1s} {scaled / ours:8,.0f}x")
    print(
        "* measured on 160 to 200 of the classes and scaled by the number of pairs; same distances to 1e-12"
    )
    taxonomy, counts = cases[0][1], rng.integers(30, 1300, len(species))
    times = ", ".join(
        f"{k} {seconds(class_distances, taxonomy, species, counts, k, repeat=3)[0]:.3f} s" for k in KINDS
    )
    print(f"1,604 leaves by kind: {times}")


if __name__ == "__main__":
    main()
