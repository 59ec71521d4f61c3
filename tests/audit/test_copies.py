"""Groups of copies: who belongs to whom, and what is counted, on planted groups whose answer follows by arithmetic."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from longshot import UserError, open_dataset
from longshot.audit import copy_groups, find_copies
from longshot.audit.copies import MOST_SEARCHED, CopyGroups, _joined, equal_groups
from longshot.base import Ragged, TaskPlan, TaskRows

LABELS = np.array([0, 0, 0, 1, 1, 1])


def groups(*pairs: tuple[int, int, int], rows: int = 6) -> CopyGroups:
    links, everything = np.array(pairs, np.int64).reshape(-1, 3), np.arange(rows)
    return CopyGroups(_joined(links[links[:, 2] == 0], everything), _joined(links, everything), True)


def task(support: list[int], query: list[int]) -> TaskRows:
    """A task of two classes, rows below 3 are of the first."""
    counts = [
        [sum((row < 3) == first for row in part) for first in (True, False)] for part in (support, query)
    ]
    plan = TaskPlan(*(Ragged.from_lists([row]) for row in ([0, 1], *counts)))
    return TaskRows.from_plan(plan, *(Ragged.from_lists([sorted(part)]) for part in (support, query)))


def test_a_copy_of_a_copy_belongs_to_the_group() -> None:
    found_groups = groups((0, 1, 0), (1, 2, 1), (4, 5, 1))
    assert found_groups.group.tolist() == [0, 0, 0, 3, 4, 4]
    assert found_groups.equal.tolist() == [0, 0, 2, 3, 4, 5]
    assert found_groups.counts(LABELS) == {"equal": 1, "near": 2, "contradicting": 0}
    assert found_groups.later.tolist() == [1, 2, 5]


def test_among_some_images_a_group_begins_with_the_first_of_them() -> None:
    chosen = np.array([False, True, True, True, True, True])
    part = groups((0, 1, 0), (1, 2, 1)).among(chosen)
    assert part.group.tolist() == [0, 1, 1, 3, 4, 5] and part.counts(LABELS) == {
        "equal": 0,
        "near": 1,
        "contradicting": 0,
    }
    assert groups((0, 3, 0), (3, 5, 1)).take(np.array([5, 1, 0])).group.tolist() == [0, 1, 0]


def test_equal_images_with_two_labels_clash_and_near_ones_stray() -> None:
    across = groups((0, 3, 0), (1, 4, 1), (4, 5, 0))
    assert np.flatnonzero(across.clashes(LABELS)).tolist() == [0, 3]
    assert np.flatnonzero(across.strays(LABELS)).tolist() == [3, 4, 5]


@pytest.mark.parametrize(
    ("support", "query", "straddles"),
    [
        ([0, 3], [2, 5], False),
        ([0, 3], [1, 5], True),  # both sides
        ([0, 4], [2, 5], False),
        ([2, 4], [0, 5], False),
        ([0, 1, 3], [2, 5], False),  # twice on one side, in one class
        ([1, 3, 4], [2, 5], False),
    ],
)
def test_copies_on_both_sides_are_counted(support: list[int], query: list[int], straddles: bool) -> None:
    assert groups((0, 1, 0)).straddling(task(support, query)).tolist() == [straddles]


def test_copies_in_two_classes_of_one_side_are_counted() -> None:
    assert groups((0, 3, 1)).straddling(task([0, 3], [1, 4])).tolist() == [True]
    assert groups((0, 3, 1)).straddling(task([0, 5], [1, 4])).tolist() == [False]


def test_equal_values_are_groups_and_unknown_ones_are_not() -> None:
    values = np.array([7, 3, 7, 0, 0], np.uint64)
    assert equal_groups(values).group.tolist() == [0, 1, 0, 3, 3]
    assert equal_groups(values, values != 0).group.tolist() == [0, 1, 0, 3, 4]


def pictures(folder: Path, number: int = 6) -> Path:
    rng = np.random.default_rng(3)
    for label in ("crow", "wren"):
        (folder / label).mkdir(parents=True)
        for index in range(number):
            noise = rng.integers(0, 255, (8, 8, 3), dtype=np.uint8)
            Image.fromarray(noise).resize((48, 48), Image.Resampling.BICUBIC).save(
                folder / label / f"{index}.png"
            )
    return folder


def test_equal_pixels_in_another_file_are_found_by_their_pixels(tmp_path: Path) -> None:
    folder = pictures(tmp_path / "birds")
    Image.open(folder / "crow/0.png").save(folder / "crow/again.bmp")
    (folder / "wren/7.png").write_bytes((folder / "wren/3.png").read_bytes())
    dataset = open_dataset(folder)
    for near in (False, True):
        found_groups = copy_groups(dataset, near)
        assert found_groups.counts(dataset.labels) == {"equal": 2, "near": 0, "contradicting": 0}
        assert found_groups.table(dataset) == [
            {"image": "crow/again.bmp", "copy of": "crow/0.png", "kind": "equal"},
            {"image": "wren/7.png", "copy of": "wren/3.png", "kind": "equal"},
        ]


def test_what_was_found_is_remembered_by_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LONGSHOT_CACHE", str(tmp_path / "cache"))
    folder = pictures(tmp_path / "birds")
    Image.open(folder / "crow/0.png").resize((40, 40)).save(folder / "crow/small.png")
    assert copy_groups(open_dataset(folder)).group.tolist() == [0, 1, 2, 3, 4, 5, 0, *range(7, 13)]

    def never(*_: object) -> None:
        raise AssertionError("searched again")

    monkeypatch.setattr("longshot.audit.pairs.find_pairs", never)
    assert copy_groups(open_dataset(folder)).group.tolist() == [0, 1, 2, 3, 4, 5, 0, *range(7, 13)]
    Image.open(folder / "crow/1.png").rotate(90).save(folder / "crow/0.png")  # other bytes, the same name
    with pytest.raises(AssertionError, match="searched again"):
        copy_groups(open_dataset(folder))


def test_rules_and_what_is_chosen_without_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    dataset = open_dataset(pictures(tmp_path / "birds", 2))
    assert find_copies(dataset, "allow") == ("allow", None)
    with pytest.raises(UserError, match='copies="never" is no rule for copies; choose apart, equal, allow'):
        find_copies(dataset, "never")
    assert find_copies(dataset.with_identity("names")) == ("allow", None)
    assert "used by names only" in capsys.readouterr().err
    monkeypatch.setattr("longshot.audit.copies.MOST_SEARCHED", 3)
    rule, found_groups = find_copies(dataset)
    assert rule == "equal" and found_groups is not None and not found_groups.near
    assert "near copies are not looked for among the 4 images" in capsys.readouterr().err
    assert find_copies(dataset, "apart")[0] == "apart"
    assert MOST_SEARCHED == 30_000


def test_toybox_is_not_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("longshot.audit.copies._near_pairs", lambda _: pytest.fail("searched"))
    rule, found_groups = find_copies(open_dataset("toybox"))
    assert rule == "apart" and found_groups is not None and not len(found_groups.later)


@pytest.mark.long
def test_toybox_has_no_two_pictures_alike() -> None:
    """What its store says of itself: no equal digests, and no near copies among the test classes."""
    from longshot.audit.pairs import find_pairs
    from longshot.data import image_digests, leave_out_images

    toybox = open_dataset("toybox")
    assert len(np.unique(image_digests(toybox), axis=0)) == len(toybox)
    untested = [class_id for class_id in toybox.class_ids if class_id not in toybox.splits["test"]]
    test = leave_out_images(toybox, (), untested, "toybox-test")
    pairs = find_pairs(test, test)
    assert not (pairs.kind < 2).any()
