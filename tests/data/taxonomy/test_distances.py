"""Distances against an independent computation with NetworkX, pair by pair, and against published figures."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import combinations
from typing import NamedTuple

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from longshot.base import UserError
from longshot.data import Taxonomy, class_distances, lowest_common_ancestors
from longshot.data.taxonomy import distances
from longshot.data.taxonomy.distances import image_counts

Tiered = tuple[list[str], NDArray[np.int64]]  # class ids, images per class


class Case(NamedTuple):
    edges: list[tuple[str, str]]
    class_ids: list[str]
    counts: list[int]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """A DAG with one root whose nodes have up to three parents, in any edge order; classes may be inner nodes."""
    size = draw(st.integers(3, 16))
    edges = [
        (f"v{parent:02d}", f"v{child:02d}")
        for child in range(1, size)
        for parent in draw(st.sets(st.integers(0, child - 1), min_size=1, max_size=3))
    ]
    edges = draw(st.permutations(edges))
    nodes = [f"v{i:02d}" for i in range(size)]
    class_ids = draw(st.lists(st.sampled_from(nodes), min_size=2, max_size=size, unique=True))
    counts = draw(st.lists(st.integers(1, 60), min_size=len(class_ids), max_size=len(class_ids)))
    return Case(edges, class_ids, counts)


class Reference:
    """Formulas of the docstring, one pair at a time, on a NetworkX graph."""

    def __init__(self, case: Case) -> None:
        self.graph = nx.DiGraph(case.edges)
        self.root = next(node for node, degree in self.graph.in_degree() if degree == 0)
        weights = dict(zip(case.class_ids, case.counts, strict=True))
        self.images = {
            v: sum(weights.get(u, 0) for u in nx.descendants(self.graph, v) | {v}) for v in self.graph
        }
        self.depth = nx.single_source_shortest_path_length(self.graph, self.root)
        self.total = max(self.images.values())

    def common(self, a: str, b: str) -> set[str]:
        return (nx.ancestors(self.graph, a) | {a}) & (nx.ancestors(self.graph, b) | {b})

    def hops(self, top: str, bottom: str) -> int:
        return int(nx.shortest_path_length(self.graph, top, bottom))

    def lca(self, a: str, b: str) -> str:
        return min(self.common(a, b), key=lambda v: (self.images[v], -self.depth[v], v))

    def jiang_conrath(self, a: str, b: str) -> float:
        n = self.images
        return 2 * math.log(n[self.lca(a, b)]) - math.log(n[a]) - math.log(n[b])

    def lin(self, a: str, b: str) -> float:
        information = {v: math.log(self.total / n) for v, n in self.images.items() if n}
        sum_of_both = information[a] + information[b]
        return 1 - 2 * information[self.lca(a, b)] / sum_of_both if sum_of_both > 0 else 0.0

    def wu_palmer(self, a: str, b: str) -> float:
        def similarity(v: str) -> float:
            nodes = 2 * (self.depth[v] + 1)
            return nodes / (self.hops(v, a) + self.hops(v, b) + nodes)

        return 1 - max(similarity(v) for v in self.common(a, b))

    def path(self, a: str, b: str) -> float:
        return min(self.hops(v, a) + self.hops(v, b) for v in self.common(a, b))

    def matrix(self, class_ids: list[str], distance: Callable[[str, str], float]) -> NDArray[np.float64]:
        result = np.zeros((len(class_ids), len(class_ids)))
        for (i, a), (j, b) in combinations(enumerate(class_ids), 2):
            result[i, j] = result[j, i] = distance(a, b)
        return result


@pytest.mark.parametrize("kind", distances.KINDS)
@given(case=cases())
@settings(max_examples=60, deadline=None)
def test_equals_networkx_on_random_dags(kind: str, case: Case) -> None:
    reference = Reference(case)
    expected = reference.matrix(case.class_ids, getattr(reference, kind.replace("-", "_")))
    distances = class_distances(Taxonomy.from_edges(case.edges), case.class_ids, case.counts, kind)
    np.testing.assert_allclose(distances, expected, atol=1e-12)


@given(case=cases())
@settings(max_examples=60, deadline=None)
def test_lowest_common_ancestor_has_fewest_images_and_ties_are_settled(case: Case) -> None:
    reference, taxonomy = Reference(case), Taxonomy.from_edges(case.edges)
    ancestors = lowest_common_ancestors(taxonomy, case.class_ids, case.counts)
    for (i, a), (j, b) in combinations(enumerate(case.class_ids), 2):
        assert taxonomy.nodes[ancestors[i, j]] == reference.lca(a, b) == taxonomy.nodes[ancestors[j, i]]
    assert [taxonomy.nodes[i] for i in ancestors.diagonal()] == case.class_ids


@given(case=cases())
@settings(max_examples=60, deadline=None)
def test_the_reduction_takes_the_shortest_paths_of_networkx(case: Case) -> None:
    """Ties included: NetworkX's two-sided search on the same edge order is what was published."""
    graph = nx.DiGraph(case.edges)
    taxonomy = Taxonomy.from_edges(case.edges)
    expected = {v for c in case.class_ids for v in nx.shortest_path(graph, taxonomy.root, c)}
    assert set(taxonomy.shortest_paths(case.class_ids).nodes) == expected


@given(case=cases(), seed=st.integers(0, 99))
@settings(max_examples=30, deadline=None)
def test_the_order_of_classes_changes_nothing(case: Case, seed: int) -> None:
    taxonomy = Taxonomy.from_edges(case.edges)
    order = np.random.default_rng(seed).permutation(len(case.class_ids))
    shuffled = [case.class_ids[i] for i in order]
    distances = class_distances(taxonomy, shuffled, np.array(case.counts)[order])
    expected = class_distances(taxonomy, case.class_ids, case.counts)
    np.testing.assert_array_equal(distances, expected[np.ix_(order, order)])


@pytest.mark.parametrize("kind", distances.KINDS)
def test_blocks_change_nothing(
    kind: str, wordnet: Taxonomy, tiered: Tiered, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = class_distances(wordnet, *tiered, kind)
    monkeypatch.setattr(distances, "_BLOCK", 7 * 160)
    monkeypatch.setattr(distances, "_LONG", 2)
    np.testing.assert_array_equal(class_distances(wordnet, *tiered, kind), expected)


def test_a_class_with_two_paths_counts_once() -> None:
    taxonomy = Taxonomy.from_edges([("r", "a"), ("r", "b"), ("a", "x"), ("b", "x"), ("b", "y")])
    counts = image_counts(taxonomy, ["x", "y"], [10, 5])
    assert dict(zip(taxonomy.nodes, counts.tolist(), strict=True)) == {
        "a": 10,
        "b": 15,
        "r": 15,
        "x": 10,
        "y": 5,
    }


def test_jiang_conrath_by_hand() -> None:
    taxonomy = Taxonomy.from_class_ids(["f/a", "f/b", "m"])
    distances = class_distances(taxonomy, ["f/a", "f/b", "m"], [10, 30, 60])
    assert distances[0, 1] == pytest.approx(2 * math.log(40) - math.log(10) - math.log(30), abs=1e-15)
    assert distances[0, 2] == pytest.approx(2 * math.log(100) - math.log(10) - math.log(60), abs=1e-15)


# tieredImageNet's test classes: figures of the published distances and of the whole WordNet -----------------


@pytest.mark.parametrize(("reduction", "mean"), [("shortest-paths", 83.125), (None, 82.225)])
def test_mean_squared_distance_of_tiered_imagenet(
    reduction: str | None, mean: float, wordnet: Taxonomy, tiered: Tiered
) -> None:
    distances = class_distances(wordnet, *tiered, reduction=reduction)
    pairs = distances[np.triu_indices(160, 1)]
    assert np.square(pairs).mean() == pytest.approx(mean, abs=5e-4)


@pytest.mark.parametrize(("reduction", "distance"), [("shortest-paths", 6.267), (None, 2.792)])
def test_face_powder_and_red_wine(
    reduction: str | None, distance: float, wordnet: Taxonomy, tiered: Tiered
) -> None:
    distances = class_distances(wordnet, *tiered, reduction=reduction)
    powder, wine = (tiered[0].index(i) for i in ("n03314780", "n07892512"))
    assert distances[powder, wine] == pytest.approx(distance, abs=5e-4)


def test_the_reduction_changes_5495_pairs(wordnet: Taxonomy, tiered: Tiered) -> None:
    upper = np.triu_indices(160, 1)
    unreduced = class_distances(wordnet, *tiered)[upper]
    reduced = class_distances(wordnet, *tiered, reduction="shortest-paths")[upper]
    assert int((np.abs(unreduced - reduced) > 1e-9).sum()) == 5495


def test_whole_wordnet_equals_networkx_on_tiered_imagenet(wordnet: Taxonomy, tiered: Tiered) -> None:
    graph = nx.DiGraph(wordnet.edges)
    above = {c: nx.ancestors(graph, c) | {c} for c in tiered[0]}
    images: dict[str, int] = {}
    for class_id, count in zip(*tiered, strict=True):
        for node in above[class_id]:
            images[node] = images.get(node, 0) + int(count)
    distances = class_distances(wordnet, *tiered)
    for (i, a), (j, b) in combinations(enumerate(tiered[0]), 2):
        lowest = min(images[v] for v in above[a] & above[b])
        expected = 2 * math.log(lowest) - math.log(images[a]) - math.log(images[b])
        assert distances[i, j] == pytest.approx(expected, abs=1e-12)


# mistakes ---------------------------------------------------------------------------------------------------

FRUIT = Taxonomy.from_class_ids(["Fruit/Apple", "Fruit/Pear"])


def test_an_unknown_distance_lists_those_there_are() -> None:
    with pytest.raises(UserError, match=r"no distance 'resnik'.*jiang-conrath, lin, wu-palmer, path"):
        class_distances(FRUIT, FRUIT.leaves, [1, 1], "resnik")


def test_an_unknown_reduction_is_refused() -> None:
    with pytest.raises(UserError, match="no reduction 'longest'"):
        class_distances(FRUIT, FRUIT.leaves, [1, 1], reduction="longest")


def test_a_class_without_images_is_named() -> None:
    with pytest.raises(UserError, match="'Fruit/Pear' has 0 images"):
        class_distances(FRUIT, FRUIT.leaves, [3, 0])


def test_counts_of_another_length_are_refused() -> None:
    with pytest.raises(UserError, match="counts for 3 classes; 2 are needed"):
        class_distances(FRUIT, FRUIT.leaves, [1, 2, 3])


def test_missing_counts_are_asked_for() -> None:
    with pytest.raises(UserError, match="needs the number of images"):
        class_distances(FRUIT, FRUIT.leaves)


def test_path_needs_no_counts() -> None:
    assert class_distances(FRUIT, FRUIT.leaves, kind="path").tolist() == [[0, 2], [2, 0]]


def test_a_class_given_twice_is_named() -> None:
    with pytest.raises(UserError, match="'Fruit/Pear' is given twice"):
        class_distances(FRUIT, ["Fruit/Pear", "Fruit/Pear"], [1, 1])


def test_a_class_outside_the_taxonomy_is_named_with_the_nearest() -> None:
    with pytest.raises(UserError, match=r"'Fruit/Peer'.*nearest is 'Fruit/Pear'"):
        class_distances(FRUIT, ["Fruit/Apple", "Fruit/Peer"], [1, 1])


def test_more_classes_than_memory_holds_are_refused_before_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distances.os, "sysconf", {"SC_PHYS_PAGES": 2, "SC_PAGE_SIZE": 8}.__getitem__)
    with pytest.raises(UserError, match="choose fewer classes"):
        class_distances(FRUIT, FRUIT.leaves, [1, 1])
