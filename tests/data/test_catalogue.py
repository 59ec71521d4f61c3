"""What is known about datasets, from Python: listing, adding, describing, checking; parts of a dataset."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from longshot.base import UserError
from longshot.data import (
    add_dataset,
    check_dataset,
    describe_dataset,
    list_datasets,
    list_formats,
    open_dataset,
    take_branch,
    take_rows,
)
from longshot.data.formats import FORMATS

MakeTree = Callable[[Mapping[str, int]], Path]


def test_toybox_is_listed_before_it_is_drawn(fresh_cache: Path) -> None:
    (row,) = list_datasets()
    assert row == {
        "name": "toybox",
        "classes": None,
        "images": None,
        "skipped": 0,
        "fingerprint": None,
        "source": "toybox",
        "present": True,
    }


def test_an_added_dataset_is_listed_and_replaces_what_had_its_name(tree: MakeTree, tmp_path: Path) -> None:
    root = tree({"a": 2, "b": 1})
    dataset, before = add_dataset("birds", root)
    assert (dataset.name, before) == ("birds", None)
    moved = root.rename(tmp_path / "moved")
    assert add_dataset("birds", moved).before == str(root)
    rows = {row["source"]: row for row in list_datasets()}
    assert (rows[str(moved)]["name"], rows[str(moved)]["images"], rows[str(moved)]["present"]) == (
        "birds",
        3,
        True,
    )
    assert rows[str(root)]["present"] is False


def test_a_dataset_is_described_with_its_classes(tree: MakeTree) -> None:
    root = tree({"x/a": 3, "x/b": 1, "y": 2})
    (root / "split.json").write_text(json.dumps({"train": ["x/a", "y"], "test": ["x/b"]}))
    facts = describe_dataset(root)
    assert (facts["classes"], facts["images"], facts["splits"]) == (3, 6, {"train": 2, "test": 1})
    assert facts["images_per_class"] == {"least": 1, "median": 2, "most": 3}
    assert facts["taxonomy"] == {"nodes": 5, "levels": 2, "edges": 4}  # root, x, and three classes
    assert facts["class_list"] == [
        {"class": "x/a", "images": 3, "split": "train"},
        {"class": "x/b", "images": 1, "split": "test"},
        {"class": "y", "images": 2, "split": "train"},
    ]
    assert describe_dataset(open_dataset(root)) == facts


def test_checking_lists_what_cannot_be_read_and_can_refuse_it(tree: MakeTree) -> None:
    root = tree({"a": 3})
    check_dataset(root).raise_if_bad()
    (root / "a" / "001.png").write_bytes(b"")
    checked = check_dataset(root)
    assert checked.bad == [("a/001.png", "the file is empty (0 bytes)")]
    with pytest.raises(
        UserError, match=r"1 of 3 images of .* cannot be read; .* leave them out with skip_bad=True\."
    ):
        checked.raise_if_bad()


def test_every_format_is_listed_with_its_settings() -> None:
    rows = list_formats()
    assert [row["format"].partition("(")[0] for row in rows] == list(FORMATS)
    assert all(row["what"] and row["files"] and row["from"] for row in rows)
    assert "orbit(step=1)" in [row["format"] for row in rows]


def test_a_mistyped_format_comes_before_a_missing_path(fresh_cache: Path) -> None:
    with pytest.raises(
        UserError, match=r"no format 'cocoo'; did you mean 'coco'\? See longshot\.data\.list_formats"
    ):
        add_dataset("birds", "./nowhere", form="cocoo")


def test_a_part_has_the_classes_rows_splits_and_attributes_of_its_rows(
    tree: MakeTree, save_image: Callable[..., None]
) -> None:
    root = tree({"x/a": 3, "x/b": 2, "y/c": 2})
    save_image(root / "y" / "c" / "001.png", (1, 2, 3))
    (root / "split.json").write_text(json.dumps({"train": ["x/a"], "validation": ["x/b"], "test": ["y/c"]}))
    lines = [f"{class_id}/{n:03d}.png,{class_id}{n}" for class_id in ("x/a", "x/b", "y/c") for n in range(2)]
    (root / "attributes.csv").write_text("\n".join(["key,tag", *lines]))
    dataset = open_dataset(root)
    part = take_rows(dataset, np.array([1, 5, 6]), name="some")
    assert (part.name, part.class_ids, part.offsets.tolist()) == ("some", ("x/a", "y/c"), [0, 1, 3])
    assert part.keys.to_pylist() == ["x/a/001.png", "y/c/000.png", "y/c/001.png"]
    assert part.splits == {"train": ("x/a",), "test": ("y/c",)}
    assert part.attributes is not None and part.attributes["tag"].to_pylist() == ["x/a1", "y/c0", "y/c1"]
    assert part.taxonomy is not None and set(part.taxonomy.leaves) == {"x/a", "y/c"}
    branch = take_branch(dataset, "x")
    assert (branch.name, branch.class_ids, branch.sizes.tolist()) == ("pictures-x", ("x/a", "x/b"), [3, 2])
    pixels = [take_branch(dataset, "y").image(row).getpixel((0, 0)) for row in range(2)]
    assert pixels == [(0, 0, 2), (1, 2, 3)] and part.image(2).getpixel((0, 0)) == (1, 2, 3)
    with pytest.raises(UserError, match="no classes under 'z'; it has 2 branches: 'x', 'y'"):
        take_branch(dataset, "z")
