from __future__ import annotations

from itertools import pairwise

from longshot.data import Taxonomy, display_tree


def test_chains_of_single_children_are_one_branch() -> None:
    taxonomy = Taxonomy.from_edges([("r", "a"), ("a", "b"), ("b", "x"), ("b", "y")])
    top = display_tree(taxonomy, taxonomy.leaves)
    assert top.labels == ["r", "a", "b"]
    assert [child.name for child in top.children] == ["x", "y"]


def test_a_class_inside_a_chain_is_not_swallowed() -> None:
    taxonomy = Taxonomy.from_class_ids(["dog/pug", "dog", "cat"])
    dog = next(
        child for child in display_tree(taxonomy, ["dog", "dog/pug", "cat"]).children if child.name == "dog"
    )
    assert [child.node for child in dog.children] == ["dog/pug"]


def test_equal_names_in_a_chain_are_said_once() -> None:
    taxonomy = Taxonomy.from_class_ids(["Lemon/Lemon", "Lime"])
    assert [child.labels for child in display_tree(taxonomy, taxonomy.leaves).children] == [
        ["Lemon"],
        ["Lime"],
    ]


def test_a_class_with_two_parents_stands_once_and_names_the_other() -> None:
    taxonomy = Taxonomy.from_edges([("r", "a"), ("r", "b"), ("a", "x"), ("b", "x"), ("a", "y"), ("b", "z")])
    branches = [branch for _, branch in display_tree(taxonomy, taxonomy.leaves).walk() if branch.node == "x"]
    assert [branch.also_below for branch in branches] == [("b",)]


def test_a_node_whose_classes_all_stand_elsewhere_is_left_out() -> None:
    taxonomy = Taxonomy.from_edges([("r", "a"), ("r", "b"), ("a", "x"), ("b", "x"), ("a", "y")])
    assert "b" not in [branch.node for _, branch in display_tree(taxonomy, taxonomy.leaves).walk()]


def test_counts_are_of_the_dag() -> None:
    taxonomy = Taxonomy.from_edges([("r", "a"), ("r", "b"), ("a", "x"), ("b", "x"), ("b", "y"), ("a", "w")])
    top = display_tree(taxonomy, ["w", "x", "y"], [1, 10, 100])
    assert (top.classes, top.images) == (3, 111)
    assert {b.node: b.images for b in top.children} == {"a": 11, "y": 100}


def test_only_what_lies_above_the_classes_is_shown() -> None:
    taxonomy = Taxonomy.from_class_ids(["a/x", "a/y", "b/z"])
    assert [branch.node for _, branch in display_tree(taxonomy, ["a/x", "a/y"]).walk()] == ["a", "a/x", "a/y"]


def test_a_very_long_chain_is_no_recursion() -> None:
    names = [f"v{i:05d}" for i in range(5000)]
    taxonomy = Taxonomy.from_edges(pairwise(names))
    assert len(display_tree(taxonomy, taxonomy.leaves).labels) == 5000
