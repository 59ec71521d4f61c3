"""Decisions about single images: stored beside the dataset, bound to bytes, safe with several writers."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import longshot
from longshot.audit import decide_images, decided_rows, read_decisions, review_file, undo_decisions
from longshot.base import UserError
from longshot.data import Dataset


@pytest.fixture
def birds(tmp_path: Path) -> Dataset:
    """Two classes of four pictures."""
    generator = np.random.default_rng(0)
    for name in ("crow", "wren"):
        (tmp_path / "birds" / name).mkdir(parents=True)
        for number in range(4):
            pixels = generator.integers(0, 255, (16, 16, 3), np.uint8)
            Image.fromarray(pixels).save(tmp_path / "birds" / name / f"{number}.png")
    return longshot.open_dataset(tmp_path / "birds")


def test_decisions_lie_beside_the_folder_and_the_last_one_holds(birds: Dataset, tmp_path: Path) -> None:
    decide_images(birds, ["crow/0.png", "wren/1.png"], "drop")
    decide_images(birds, ["crow/0.png"], "keep")
    assert review_file(birds) == tmp_path / "birds.review.json"
    assert read_decisions(longshot.open_dataset(tmp_path / "birds")) == {
        "crow/0.png": "keep",
        "wren/1.png": "drop",
    }


def test_undo_brings_the_decision_before_back(birds: Dataset) -> None:
    decide_images(birds, ["crow/0.png"], "drop")
    decide_images(birds, ["crow/0.png", "crow/1.png"], "keep")
    assert undo_decisions(birds) == ["crow/0.png", "crow/1.png"]
    assert read_decisions(birds) == {"crow/0.png": "drop"}


def test_undo_by_key_leaves_the_other_images_of_that_turn(birds: Dataset) -> None:
    decide_images(birds, ["crow/0.png", "crow/1.png"], "drop")
    undo_decisions(birds, ["crow/1.png"])
    assert read_decisions(birds) == {"crow/0.png": "drop"}


def test_undo_without_a_decision_says_so(birds: Dataset) -> None:
    with pytest.raises(UserError, match="No decision about any image"):
        undo_decisions(birds)


def test_a_decision_about_a_picture_that_was_exchanged_no_longer_holds(
    birds: Dataset, tmp_path: Path
) -> None:
    decide_images(birds, ["crow/0.png"], "drop")
    Image.new("RGB", (9, 9), "red").save(tmp_path / "birds/crow/0.png")
    assert read_decisions(longshot.open_dataset(tmp_path / "birds", refresh=True)) == {}


def test_an_unknown_image_is_an_error_and_nothing_is_stored(birds: Dataset) -> None:
    with pytest.raises(UserError, match="lacks 1 image"):
        decide_images(birds, ["crow/9.png"], "drop")
    assert not review_file(birds).exists()


def test_masks_follow_the_rows(birds: Dataset) -> None:
    decide_images(birds, ["wren/3.png"], "drop")
    decide_images(birds, ["crow/2.png"], "keep")
    keeps, drops = decided_rows(birds)
    assert np.flatnonzero(keeps).tolist() == [2]
    assert np.flatnonzero(drops).tolist() == [7]


def test_a_view_has_the_decisions_of_its_original(birds: Dataset, tmp_path: Path) -> None:
    longshot.find_suspects(birds, backbone="pixels", near_copies=False, view=tmp_path / "clean.view.json")
    view = longshot.open_dataset(tmp_path / "clean.view.json")
    decide_images(view, [view.keys[0].as_py()], "drop")
    assert read_decisions(birds) == {view.keys[0].as_py(): "drop"}


def test_a_dataset_in_a_folder_nobody_may_write_into_has_them_in_the_cache(
    birds: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("longshot.audit.decisions.is_writable", lambda folder: False)
    decide_images(birds, ["crow/0.png"], "drop")
    assert review_file(birds).parent.name == "reviews"
    assert read_decisions(birds) == {"crow/0.png": "drop"}


def test_writers_at_once_lose_nothing(birds: Dataset) -> None:
    keys = birds.keys.to_pylist()
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda key: decide_images(birds, [key], "drop"), keys))
    assert set(read_decisions(birds)) == set(keys)
    turns = [each["turn"] for each in json.loads(review_file(birds).read_text())["decisions"]]
    assert sorted(turns) == list(range(1, len(keys) + 1))


def test_a_damaged_file_is_named(birds: Dataset) -> None:
    review_file(birds).write_text("{")
    with pytest.raises(UserError, match=r"birds\.review\.json is damaged"):
        read_decisions(birds)
