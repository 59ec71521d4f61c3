from __future__ import annotations

import json
import pickle

import pytest

from longshot.base import UserError
from longshot.data import Taxonomy

DIAMOND = [
    ("thing", "pet"),
    ("thing", "wild"),
    ("pet", "cat"),
    ("wild", "cat"),
    ("wild", "wolf"),
    ("pet", "dog"),
]


def test_nested_paths_become_nodes_below_one_root() -> None:
    taxonomy = Taxonomy.from_class_ids(["Fruit/Apple", "Fruit/Pear", "Milk"])
    assert taxonomy.root == ""
    assert taxonomy.nodes == ("", "Fruit", "Fruit/Apple", "Fruit/Pear", "Milk")
    assert taxonomy.leaves == ("Fruit/Apple", "Fruit/Pear", "Milk")


def test_a_class_may_be_an_inner_node() -> None:
    taxonomy = Taxonomy.from_class_ids(["dog", "dog/pug"])
    assert taxonomy.parents("dog/pug") == ("dog",)


def test_neighbours_keep_the_order_of_the_edges() -> None:
    taxonomy = Taxonomy.from_edges(DIAMOND)
    assert taxonomy.parents("cat") == ("pet", "wild")
    assert taxonomy.children("wild") == ("cat", "wolf")


def test_ancestors_and_descendants_include_the_node() -> None:
    taxonomy = Taxonomy.from_edges(DIAMOND)
    assert taxonomy.ancestors("cat") == {"cat", "pet", "wild", "thing"}
    assert taxonomy.descendants("wild") == {"wild", "cat", "wolf"}


def test_depth_is_the_shortest_way_from_the_root() -> None:
    taxonomy = Taxonomy.from_edges([("r", "a"), ("a", "b"), ("b", "c"), ("r", "c")])
    assert [taxonomy.depth(node) for node in "rabc"] == [0, 1, 2, 1]


def test_an_edge_given_twice_counts_once() -> None:
    assert Taxonomy.from_edges([("r", "a"), ("r", "a")]).edges == (("r", "a"),)


def test_groups_are_classes_that_share_a_parent() -> None:
    taxonomy = Taxonomy.from_edges(DIAMOND)
    assert taxonomy.groups(taxonomy.leaves) == {"pet": ("cat", "dog"), "wild": ("cat", "wolf")}


def test_groups_at_level_one_are_the_families() -> None:
    taxonomy = Taxonomy.from_class_ids(["Fruit/Apple/Pink", "Fruit/Pear", "Milk"])
    assert taxonomy.groups_at(taxonomy.leaves, 1) == {
        "Fruit": ("Fruit/Apple/Pink", "Fruit/Pear"),
        "Milk": ("Milk",),
    }


def test_groups_at_a_level_below_a_class_leave_it_alone() -> None:
    taxonomy = Taxonomy.from_class_ids(["Fruit/Apple/Pink", "Fruit/Apple/Gala", "Milk"])
    assert taxonomy.groups_at(taxonomy.leaves, 2) == {
        "Fruit/Apple": ("Fruit/Apple/Gala", "Fruit/Apple/Pink"),
        "Milk": ("Milk",),
    }


def test_restrict_keeps_all_ancestors_of_the_classes() -> None:
    part = Taxonomy.from_edges(DIAMOND).restrict(["cat"])
    assert part.edges == (("thing", "pet"), ("thing", "wild"), ("pet", "cat"), ("wild", "cat"))


def test_shortest_paths_keep_one_path_of_equal_ones() -> None:
    part = Taxonomy.from_edges(DIAMOND).shortest_paths(["cat"])
    assert part.edges == (("thing", "pet"), ("pet", "cat"))


def test_shortest_paths_of_the_root_is_the_root() -> None:
    assert Taxonomy.from_edges(DIAMOND).shortest_paths(["thing"]).nodes == ("thing",)


def test_json_round_trip_keeps_edges_and_labels() -> None:
    taxonomy = Taxonomy.from_edges(DIAMOND, {"cat": "domestic cat"})
    again = Taxonomy.from_json(json.loads(json.dumps(taxonomy.to_json())))
    assert (again.nodes, again.edges, again.labels) == (taxonomy.nodes, taxonomy.edges, taxonomy.labels)


def test_json_round_trip_of_a_single_node() -> None:
    alone = Taxonomy.from_edges(DIAMOND).restrict(["thing"])
    assert Taxonomy.from_json(alone.to_json()).nodes == ("thing",)


def test_pickles() -> None:
    taxonomy = Taxonomy.from_edges(DIAMOND)
    assert pickle.loads(pickle.dumps(taxonomy)).children("pet") == ("cat", "dog")


@pytest.mark.parametrize(
    ("edges", "cycle"),
    [
        ([("r", "a"), ("a", "b"), ("b", "c"), ("c", "a")], "3 edges (a → b → c → a)"),
        ([("a", "b"), ("b", "a")], "2 edges (a → b → a)"),
        ([("r", "a"), ("a", "a")], "1 edge (a → a)"),
        ([("r", "x"), ("x", "y"), ("y", "x"), ("y", "below")], "2 edges (x → y → x)"),
    ],
)
def test_a_cycle_is_named(edges: list[tuple[str, str]], cycle: str) -> None:
    with pytest.raises(UserError) as caught:
        Taxonomy.from_edges(edges)
    sentence = str(caught.value)
    names = set(cycle[cycle.index("(") + 1 : -1].split(" → "))
    assert cycle.split(" (")[0] in sentence
    assert set(sentence[sentence.index("(") + 1 : sentence.index(")")].split(" → ")) == names


def test_two_roots_are_named() -> None:
    with pytest.raises(UserError, match=r"2 roots \('animal', 'plant'\).*exactly one"):
        Taxonomy.from_edges([("animal", "cat"), ("plant", "oak")])


def test_a_missing_class_is_named_with_the_nearest() -> None:
    taxonomy = Taxonomy.from_class_ids(["Fruit/Apple", "Fruit/Pear"])
    with pytest.raises(UserError, match=r"'Fruit/Aple'.*nearest is 'Fruit/Apple'"):
        taxonomy.indices(["Fruit/Pear", "Fruit/Aple"])


def test_a_missing_class_that_is_a_label_finds_its_id() -> None:
    taxonomy = Taxonomy.from_edges([("n1", "n2"), ("n1", "n3")], {"n2": "red wine"})
    with pytest.raises(UserError, match=r"nearest is 'n2' \(red wine\)"):
        taxonomy.index("red wine")


def test_an_empty_taxonomy_says_what_it_needs() -> None:
    with pytest.raises(UserError, match="no node"):
        Taxonomy.from_edges([])


def test_a_negative_level_is_refused() -> None:
    with pytest.raises(UserError, match="no level -1"):
        Taxonomy.from_edges(DIAMOND).groups_at(["cat"], -1)
