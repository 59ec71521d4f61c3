"""Hops between classes and between trees, against NetworkX and scikit-learn on random graphs."""

from __future__ import annotations

from itertools import combinations

import networkx as nx
import numpy as np
import pytest
from sklearn.cluster import AgglomerativeClustering

from longshot.base import UserError
from longshot.data import Taxonomy
from longshot.tasks.splits.embeddings import far_pairs, linkage_hops, taxonomy_hops, tree_gap, ward


def _graph(linkage: np.ndarray) -> nx.Graph:
    """A linkage written out as a graph, one edge per child."""
    graph = nx.Graph()
    size = len(linkage) + 1
    for step, (first, second, *_) in enumerate(linkage):
        graph.add_edge(size + step, int(first))
        graph.add_edge(size + step, int(second))
    return graph


@pytest.mark.parametrize("seed", range(5))
def test_hops_of_a_ward_tree_are_those_of_networkx(seed: int) -> None:
    rng = np.random.default_rng(seed)
    embeddings = rng.normal(size=(int(rng.integers(2, 40)), 6))
    linkage = ward(embeddings)
    lengths = dict(nx.all_pairs_shortest_path_length(_graph(linkage)))
    size = len(embeddings)
    written_out = [[lengths[a][b] for b in range(size)] for a in range(size)]
    assert np.array_equal(linkage_hops(linkage), written_out)


def test_the_tree_is_scikit_learns_ward_tree() -> None:
    embeddings = np.random.default_rng(3).normal(size=(30, 5))
    theirs = AgglomerativeClustering(linkage="ward", distance_threshold=0, n_clusters=None).fit(embeddings)
    joined = {tuple(sorted(pair)) for pair in theirs.children_.tolist()}
    ours = {tuple(sorted(map(int, pair))) for pair in ward(embeddings)[:, :2]}
    assert ours == joined


@pytest.mark.parametrize("seed", range(8))
def test_hops_of_a_graph_are_those_of_networkx(seed: int) -> None:
    """Random DAGs: some nodes have several parents, some inner nodes one child, some leaves are no class."""
    rng = np.random.default_rng(seed)
    edges = [(f"n{int(rng.integers(i)):02d}", f"n{i:02d}") for i in range(1, 40)]
    edges += [
        (f"n{a:02d}", f"n{b:02d}") for a, b in (sorted(rng.choice(40, 2, replace=False)) for _ in range(6))
    ]
    taxonomy = Taxonomy.from_edges(edges)
    classes = sorted(rng.choice(taxonomy.leaves, max(2, len(taxonomy.leaves) // 2), replace=False).tolist())
    directed = nx.DiGraph(edges)
    above = set(classes).union(*(nx.ancestors(directed, name) for name in classes))
    graph = directed.subgraph(above).to_undirected()
    written_out = [[nx.shortest_path_length(graph, a, b) for b in classes] for a in classes]
    assert np.array_equal(taxonomy_hops(taxonomy, classes), written_out)


def test_a_way_through_a_shared_child_counts_in_a_graph() -> None:
    """b and c are four edges apart over the root, two over the class they share as a parent."""
    taxonomy = Taxonomy.from_edges(
        [("root", "x"), ("root", "y"), ("x", "b"), ("y", "c"), ("b", "child"), ("c", "child")]
    )
    hops = taxonomy_hops(taxonomy, ["b", "c", "child"])
    assert hops[0, 1] == 2
    assert hops[0, 2] == 1


@pytest.mark.parametrize("seed", range(5))
def test_the_gap_is_the_mean_over_pairs_written_out(seed: int) -> None:
    rng = np.random.default_rng(seed)
    size = int(rng.integers(3, 25))
    trees = [_graph(ward(rng.normal(size=(size, 4)))) for _ in range(2)]
    lengths = [dict(nx.all_pairs_shortest_path_length(tree)) for tree in trees]
    pairs = list(combinations(range(size), 2))
    hops = [np.array([length[a][b] for a, b in pairs]) for length in lengths]
    between = [np.array([[length[a][b] for b in range(size)] for a in range(size)]) for length in lengths]
    gap = tree_gap(*between)
    assert gap.hops == pytest.approx(sum(abs(x - y) for x, y in zip(*hops, strict=True)) / len(pairs))
    scaled = [counts / counts.max() for counts in hops]
    assert gap.relative == pytest.approx(np.abs(scaled[0] - scaled[1]).mean())
    assert gap.pairs == len(pairs)


def test_a_tree_is_nearer_to_itself_than_chance() -> None:
    hops = linkage_hops(ward(np.random.default_rng(0).normal(size=(40, 3))))
    gap = tree_gap(hops, hops)
    assert gap.hops == 0
    assert gap.correlation == pytest.approx(1)
    assert gap.chance > 1


def test_chance_has_no_relation_left() -> None:
    """Two unrelated trees are as far apart as chance says."""
    rng = np.random.default_rng(1)
    first, second = (linkage_hops(ward(rng.normal(size=(150, 8)))) for _ in range(2))
    gap = tree_gap(first, second)
    assert gap.hops == pytest.approx(gap.chance, rel=0.05)


def test_a_flat_taxonomy_has_no_correlation() -> None:
    flat = taxonomy_hops(Taxonomy.from_class_ids(["a", "b", "c"]), ["a", "b", "c"])
    assert flat.tolist() == [[0, 2, 2], [2, 0, 2], [2, 2, 0]]
    assert np.isnan(tree_gap(linkage_hops(ward(np.eye(3))), flat).correlation)


def test_far_pairs_are_near_in_one_and_far_in_the_other() -> None:
    embeddings = np.array([[0.0, 0], [0.1, 0], [5, 5], [5.1, 5]])
    names = ["a/x", "b/y", "a/z", "b/w"]  # neighbours in space have different parents
    tree = linkage_hops(ward(embeddings))
    taxonomy = taxonomy_hops(Taxonomy.from_class_ids(names), names)
    assert far_pairs(tree, taxonomy, names, 1) == [("a/x", "b/y", 2, 4)]
    assert far_pairs(taxonomy, tree, names, 1) == [("a/x", "a/z", 2, 4)]


def test_one_class_has_no_tree() -> None:
    with pytest.raises(UserError, match="1 class, and a tree needs at least 2"):
        ward(np.ones((1, 3)))
