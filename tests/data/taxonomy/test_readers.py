from __future__ import annotations

import json
from pathlib import Path

import pytest

from longshot.base import UserError
from longshot.data import Taxonomy, is_taxonomy_file, read_taxonomy, write_csv
from longshot.data.taxonomy.readers import from_parent_column


def _write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_csv_edge_list_with_labels(tmp_path: Path) -> None:
    file = _write(tmp_path, "t.csv", "parent,child,label\n,food,Food\nfood,apple,Äpfel\nfood,pear,\n")
    taxonomy = read_taxonomy(file)
    assert taxonomy.edges == (("food", "apple"), ("food", "pear"))
    assert taxonomy.labels == {"food": "Food", "apple": "Äpfel"}


@pytest.mark.parametrize(
    "value",
    [
        [["food", "fruit"], ["fruit", "apple"], ["fruit", "pear"]],
        {"edges": [["food", "fruit"], ["fruit", "apple"], ["fruit", "pear"]], "labels": {"pear": "Pear"}},
        {"food": {"fruit": {"apple": None, "pear": {}}}},
        {"food": {"fruit": ["apple", "pear"]}},
        {"food": [{"fruit": ["apple", "pear"]}]},
    ],
    ids=["pairs", "edges and labels", "nested", "nested with lists", "lists of objects"],
)
def test_json_forms_mean_the_same(value: object, tmp_path: Path) -> None:
    taxonomy = read_taxonomy(_write(tmp_path, "t.json", json.dumps(value)))
    assert taxonomy.edges == (("food", "fruit"), ("fruit", "apple"), ("fruit", "pear"))


def test_lines_of_two_words_and_parents_by_child_keep_the_order_of_the_file(tmp_path: Path) -> None:
    edges = (("food", "milk"), ("food", "fruit"), ("fruit", "pear"))
    lines = "".join(f"{parent} {child}\n" for parent, child in edges)
    assert read_taxonomy(_write(tmp_path, "wordnet.is_a.txt", lines)).edges == edges
    by_child = json.dumps({child: parent for parent, child in edges})
    assert read_taxonomy(_write(tmp_path, "dag.json", by_child)).edges == edges


def test_ties_of_the_reduction_follow_the_file_as_in_networkx(tmp_path: Path) -> None:
    """Two shortest paths lead to x: which one is kept is decided by the order of the lines."""
    networkx = pytest.importorskip("networkx")
    edges = [("r", "a"), ("r", "b"), ("a", "c"), ("b", "d"), ("c", "x"), ("d", "x"), ("b", "y")]
    for order in (edges, edges[::-1]):
        graph = networkx.DiGraph(order)
        nodes = {node for leaf in "xy" for node in networkx.shortest_path(graph, "r", leaf)}
        file = _write(tmp_path, "t.txt", "".join(f"{parent} {child}\n" for parent, child in order))
        assert set(read_taxonomy(file).shortest_paths(["x", "y"]).nodes) == nodes


def test_roots_without_classes_below_are_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """q lies below two roots, z below the idle one alone."""
    file = _write(tmp_path, "t.txt", "r p\nidle q\nidle z\np x\nr y\nr q\n")
    assert read_taxonomy(file, ["x", "y"]).edges == (("r", "p"), ("p", "x"), ("r", "y"), ("r", "q"))
    assert "has 2 roots" in capsys.readouterr().err
    with pytest.raises(UserError, match="2 roots"):
        read_taxonomy(file, ["x", "z"])


def test_what_was_written_is_read_back(tmp_path: Path) -> None:
    taxonomy = Taxonomy.from_edges(
        [("r", "b"), ("r", "a"), ("b", "x"), ("a", "x")], {"r": "top", "x": "a, b"}
    )
    write_csv(taxonomy, tmp_path / "t.csv")
    again = read_taxonomy(tmp_path / "t.csv")
    assert (again.nodes, again.edges, again.labels) == (taxonomy.nodes, taxonomy.edges, taxonomy.labels)


def test_json_written_by_the_taxonomy_is_read_back(tmp_path: Path) -> None:
    taxonomy = Taxonomy.from_class_ids(["a/b", "c"])
    again = read_taxonomy(_write(tmp_path, "t.json", json.dumps(taxonomy.to_json())))
    assert (again.nodes, again.edges) == (taxonomy.nodes, taxonomy.edges)


def test_parent_column_of_two_levels_gets_a_root() -> None:
    taxonomy = from_parent_column(
        [("apple", "fruit"), ("pear", "fruit"), ("milk", "drink"), ("pear", "fruit")]
    )
    assert taxonomy.root == ""
    assert taxonomy.groups(taxonomy.leaves) == {"drink": ("milk",), "fruit": ("apple", "pear")}


def test_parent_column_with_one_top_keeps_it_as_root() -> None:
    taxonomy = from_parent_column([("apple", "fruit"), ("fruit", "food"), ("milk", "food"), ("food", None)])
    assert taxonomy.root == "food"


def test_parent_column_with_several_parents_is_a_dag() -> None:
    taxonomy = from_parent_column([("tomato", "fruit"), ("tomato", "vegetable")])
    assert taxonomy.parents("tomato") == ("fruit", "vegetable")


def test_parent_column_may_hold_nested_paths() -> None:
    taxonomy = from_parent_column([("gala", "Fruit/Apple"), ("milk", "Drink")])
    assert taxonomy.ancestors("gala") == {"gala", "Fruit/Apple", "Fruit", ""}


def test_parent_column_without_parents_is_flat() -> None:
    assert from_parent_column([("a", None), ("b", "")]).children("") == ("a", "b")


def test_a_parent_column_of_one_class_works() -> None:
    assert from_parent_column([("a", None)]).leaves == ("a",)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("t.csv", "parent,child\na,b\nb,a\n", "cycle of 2 edges"),
        ("t.csv", "parent,child\na,b\nc,d\n", "2 roots"),
        ("t.csv", "from,to\na,b\n", "has the columns from, to; it needs the columns 'parent' and 'child'"),
        ("t.csv", "", "has the columns nothing"),
        ("t.csv", "parent,child\n", "has no edge"),
        ("t.csv", "parent,child\na,b\na,\n", "Line 3 of .* has no child"),
        ("t.json", "{", "is not JSON"),
        ("t.json", "3", "holds int instead of edges"),
        ("t.json", '[["a", "b", "c"]]', "Edge 1 of .* is not a pair"),
        ("t.json", '{"a": {"b": 4}}', "holds 4 where names are expected below 'b'"),
        ("t.json", "[]", "has no edge"),
        ("t.json", '{"a": {"x": null}, "b": {"y": null}}', r"2 roots \('a', 'b'\)"),
        ("t.doc", "a b", "is not a taxonomy by its name"),
        ("t.txt", "a b\na b c\n", "Edge 2 of .* has 3 words"),
    ],
)
def test_mistakes_name_the_file_and_the_remedy(name: str, text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=message) as caught:
        read_taxonomy(_write(tmp_path, name, text))
    assert name in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no taxonomy file at .*none\.csv"):
        read_taxonomy(tmp_path / "none.csv")


def test_a_file_that_is_not_utf8_is_named(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"parent,child\nfr\xfcit,apple\n")
    with pytest.raises(UserError, match=r"t\.csv is not UTF-8 text \(byte 15\)"):
        read_taxonomy(tmp_path / "t.csv")


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("t.csv", "parent,child\na,b\n", True),
        ("images.csv", "path,label,parent\n", False),
        ("t.json", "[]", True),
        ("data.noun", "", True),
        ("wordnet.is_a.txt", "", True),
        ("notes.txt", "", False),
    ],
)
def test_taxonomies_are_told_from_datasets(name: str, text: str, expected: bool, tmp_path: Path) -> None:
    assert is_taxonomy_file(_write(tmp_path, name, text)) is expected
