"""Overlap files, and views of datasets without what they share."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from longshot.audit import Overlap
from longshot.audit.find import write_view
from longshot.audit.pairs import ImagePairs
from longshot.audit.record import check_first_side, make_overlap
from longshot.base import UserError
from longshot.data import Dataset, SharedClass, open_dataset

MakeTree = Callable[[Mapping[str, int]], Path]


def _pairs(rows: list[list[int]], kinds: list[int]) -> ImagePairs:
    pairs = np.array(rows, np.int64).reshape(-1, 2)
    zeros = np.zeros(len(pairs))
    return ImagePairs(
        pairs,
        np.array(kinds, np.int8),
        zeros.astype(np.float32),
        zeros.astype(np.bool_),
        zeros.astype(np.int16),
        "exact",
    )


@pytest.fixture
def two(tree: MakeTree, tmp_path: Path) -> tuple[Dataset, Dataset]:
    """Upstream: x/a, x/b, y of 4 images each; tested: b and z of 3."""
    upstream = tree({"x/a": 4, "x/b": 4, "y": 4})
    upstream.rename(tmp_path / "upstream")
    tested = tree({"b": 3, "z": 3})
    return open_dataset(tmp_path / "upstream"), open_dataset(tested)


@pytest.fixture
def overlap(two: tuple[Dataset, Dataset]) -> Overlap:
    pairs = _pairs([[0, 1], [1, 1], [8, 5], [9, 0]], [0, 1, 1, 2])
    classes = [SharedClass(a="x/b", b="b", relation="name", by="b")]
    return make_overlap(*two, pairs, classes, {"neighbours": 10})


@pytest.mark.parametrize("name", ["o.parquet", "o.json"])
def test_an_overlap_file_is_read_back(overlap: Overlap, tmp_path: Path, name: str) -> None:
    overlap.save(tmp_path / name)
    again = Overlap.load(tmp_path / name)
    assert again.pairs.equals(overlap.pairs)
    assert (again.a, again.b, again.classes, again.settings) == (
        overlap.a,
        overlap.b,
        overlap.classes,
        overlap.settings,
    )


def test_counts(overlap: Overlap) -> None:
    exact, near, similar = overlap.counts()
    assert (exact["pairs"], near["pairs"], similar["pairs"]) == (1, 2, 1)
    assert (near["images_a"], near["images_b"], near["across"]) == (2, 2, 2)
    assert overlap.copies()["key_a"].to_pylist() == ["x/a/000.png", "x/a/001.png", "y/000.png"]
    assert overlap.relations() == {"name": 1}


def test_pairs_across_class_splits_are_counted(two: tuple[Dataset, Dataset]) -> None:
    dataset = replace(two[0], splits={"train": ("x/a",), "test": ("x/b", "y")})
    copies = make_overlap(dataset, dataset, _pairs([[0, 1], [0, 4], [4, 8]], [0, 0, 0]), [], {})
    assert (copies.counts()[0]["across"], copies.counts()[0]["across_splits"]) == (2, 1)
    assert copies.pairs["split_b"].to_pylist() == ["train", "test", "test"]


def test_a_strange_file_is_one_sentence(tmp_path: Path, overlap: Overlap) -> None:
    (tmp_path / "no.parquet").write_bytes(b"no")
    (tmp_path / "no.json").write_text("{}")
    for name in ("no.parquet", "no.json"):
        with pytest.raises(
            UserError, match=f"no overlap file .*; make it with longshot.find_overlap.*{name}"
        ):
            Overlap.load(tmp_path / name)
    overlap.save(tmp_path / "o.json")
    newer = json.loads((tmp_path / "o.json").read_text()) | {"format": 2}
    (tmp_path / "o.json").write_text(json.dumps(newer))
    with pytest.raises(UserError, match="has format 2, this Longshot reads 1"):
        Overlap.load(tmp_path / "o.json")
    with pytest.raises(UserError, match="There is no overlap file"):
        Overlap.load(tmp_path / "nowhere.parquet")
    with pytest.raises(UserError, match=r"is written as \.parquet or \.json"):
        overlap.save(tmp_path / "o.csv")


def test_an_overlap_of_others_is_refused(overlap: Overlap, two: tuple[Dataset, Dataset]) -> None:
    check_first_side(overlap, two[0], Path("o.parquet"))
    with pytest.raises(UserError, match="second dataset"):
        check_first_side(overlap, two[1], Path("o.parquet"))


def test_a_deduplicated_view_opens_like_a_dataset(
    overlap: Overlap, two: tuple[Dataset, Dataset], tmp_path: Path
) -> None:
    keys, classes = overlap.to_leave_out()
    assert (keys, classes) == (["x/a/000.png", "x/a/001.png", "y/000.png"], [])
    path = tmp_path / "up-deduplicated.view.json"
    written = write_view(path, two[0], keys, classes, {})
    opened = open_dataset(path)
    assert opened.name == "up-deduplicated"
    assert opened.fingerprint == written.fingerprint != two[0].fingerprint
    assert opened.sizes.tolist() == [2, 4, 3]
    assert set(opened.keys.to_pylist()) == set(two[0].keys.to_pylist()) - set(keys)
    assert opened.image(0).size == (6, 5)
    again = open_dataset(opened.source)
    assert again.fingerprint == opened.fingerprint


def test_the_images_of_a_view_are_those_of_its_keys(
    tmp_path: Path, fresh_cache: Path, save_image: Any
) -> None:
    for number in range(4):
        save_image(tmp_path / "p" / "a" / f"{number}.png", (number, 0, 0))
    original = open_dataset(tmp_path / "p")
    write_view(tmp_path / "v.view.json", original, ["a/1.png"], [], {})
    view = open_dataset(tmp_path / "v.view.json")
    reds = [view.image(row).getpixel((0, 0))[0] for row in range(3)]  # type: ignore[index]
    assert (view.keys.to_pylist(), reds) == (["a/0.png", "a/2.png", "a/3.png"], [0, 2, 3])


def test_a_class_ablated_view_lacks_the_class(
    overlap: Overlap, two: tuple[Dataset, Dataset], tmp_path: Path
) -> None:
    keys, classes = overlap.to_leave_out(images=False, classes=True)
    assert (keys, classes) == ([], ["x/b"])
    view = write_view(tmp_path / "v.view.json", two[0], keys, classes, {})
    assert view.class_ids == ("x/a", "y")
    assert overlap.to_leave_out(images=False, classes=True, relations=["same"]) == ([], [])


def test_within_one_dataset_one_of_each_group_stays(two: tuple[Dataset, Dataset]) -> None:
    copies = make_overlap(two[0], two[0], _pairs([[0, 1], [0, 2], [1, 2]], [0, 0, 0]), [], {})
    assert copies.to_leave_out()[0] == ["x/a/001.png", "x/a/002.png"]
    with pytest.raises(UserError, match="with itself"):
        copies.to_leave_out(classes=True)


def test_mistakes_with_views(two: tuple[Dataset, Dataset], tmp_path: Path) -> None:
    every = two[0].keys.to_pylist()
    with pytest.raises(UserError, match="leaves nothing"):
        write_view(tmp_path / "v.view.json", two[0], every, [], {})
    with pytest.raises(UserError, match=r"is written as \.view\.json"):
        write_view(tmp_path / "v.json", two[0], [], [], {})
    path = tmp_path / "v.view.json"
    path.write_text("{}")
    with pytest.raises(UserError, match="no view"):
        open_dataset(path)
    write_view(path, two[0], every[:1], [], {})
    (tmp_path / "upstream" / every[0]).unlink()
    with pytest.raises(UserError, match="make the view again"):
        open_dataset(path)


def test_the_view_file_is_plain_json(two: tuple[Dataset, Dataset], tmp_path: Path) -> None:
    write_view(tmp_path / "v.view.json", two[0], ["y/000.png"], [], {"variant": "deduplicated"})
    content = json.loads((tmp_path / "v.view.json").read_text())
    assert content["without_keys"] == ["y/000.png"] and content["why"]["variant"] == "deduplicated"
