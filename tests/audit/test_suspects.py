"""Suspects of a dataset: labels and copies, the file, the view, and what is left out of a draw."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import longshot
from longshot.audit import decide_images
from longshot.base import UserError

COLOURS = {"red": (200, 40, 40), "green": (40, 200, 40), "blue": (40, 40, 200)}


@pytest.fixture
def noisy(tmp_path: Path) -> Path:
    """Three classes of twelve pictures in one colour each; one blue picture lies among the red, one is there twice."""
    generator = np.random.default_rng(0)
    for name, colour in COLOURS.items():
        folder = tmp_path / "noisy" / name
        folder.mkdir(parents=True)
        for number in range(12):
            pixels = np.clip(generator.normal(colour, 40, (16, 16, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(folder / f"{number:02d}.png")
    (tmp_path / "noisy/blue/11.png").rename(tmp_path / "noisy/red/99.png")
    shutil.copy(tmp_path / "noisy/green/03.png", tmp_path / "noisy/green/77.png")
    return tmp_path / "noisy"


def test_a_wrong_label_and_a_copy_are_told(noisy: Path, tmp_path: Path) -> None:
    suspects = longshot.find_suspects(noisy, backbone="pixels", near_copies=False, out=tmp_path / "s.csv")
    rows = list(csv.DictReader((tmp_path / "s.csv").open()))
    assert [(row["key"], row["looks_like"], row["reason"]) for row in rows] == [
        ("red/99.png", "blue", "label"),
        ("green/77.png", "", "copy"),
    ]
    assert len(suspects) == 2


def test_copies_under_two_labels_are_all_suspected(noisy: Path) -> None:
    shutil.copy(noisy / "green/05.png", noisy / "red/05x.png")
    suspects = longshot.find_suspects(noisy, backbone="pixels", near_copies=False)
    copies = suspects.features.keys.take(suspects.copies).to_pylist()
    assert set(copies) >= {"green/05.png", "red/05x.png"}


def test_the_view_has_none_of_them(noisy: Path, tmp_path: Path) -> None:
    view = tmp_path / "clean.view.json"
    longshot.find_suspects(noisy, backbone="pixels", near_copies=False, view=view)
    keys = longshot.open_dataset(view).keys.to_pylist()
    assert len(keys) == 35
    assert not {"red/99.png", "green/77.png"} & {*keys}


def test_near_copies_are_found_by_their_pixels(noisy: Path) -> None:
    Image.open(noisy / "blue/02.png").resize((32, 32)).save(noisy / "blue/zz.png")
    suspects = longshot.find_suspects(noisy, backbone="pixels")
    assert "blue/zz.png" in suspects.features.keys.take(suspects.copies).to_pylist()


SHAPE = {"tasks": 30, "way": 3, "shot": 2, "query": 2}
HARD = {**SHAPE, "instances": "difficult", "judge": "pixels"}


def images(testbed: longshot.Testbed) -> set[str]:
    """All images of a testbed."""
    return {key for task in testbed for key in (*task.support, *task.query)}


def test_tasks_of_a_judge_have_no_doubtful_label_unless_all_are_allowed(noisy: Path) -> None:
    every, clean = longshot.sample(noisy, suspects="allow", **HARD), longshot.sample(noisy, **HARD)
    assert every.table["suspects_after"].to_numpy().max() > 0
    assert "red/99.png" in images(every)
    assert not {"red/99.png", "green/77.png"} & images(clean)
    assert clean.meta["sampler"]["excluded_suspects"] | {"images": 37} == {
        "images": 37,
        "mislabelled": 1,
        "copies": 0,
        "near_copies": False,
        "networks": ["pixels"],
        "left_in": 0,
    }


def test_any_network_may_doubt_for_tasks_without_a_judge(noisy: Path) -> None:
    assert "red/99.png" in images(longshot.sample(noisy, **SHAPE))
    assert "red/99.png" not in images(longshot.sample(noisy, suspects="pixels", **SHAPE))


def test_suspects_stay_in_where_their_class_would_be_too_small(noisy: Path) -> None:
    testbed = longshot.sample(noisy, **{**HARD, "tasks": 3, "query": 9})
    facts = testbed.meta["sampler"]["excluded_suspects"]
    assert (facts["mislabelled"], facts["left_in"]) == (1, 0)
    for path in sorted((noisy / "red").iterdir())[:2]:
        path.unlink()
    testbed = longshot.sample(noisy, **{**HARD, "tasks": 3, "query": 9})
    assert (testbed.meta["sampler"]["excluded_suspects"])["left_in"] == 1


def test_what_a_person_keeps_is_drawn_and_what_a_person_drops_is_not(noisy: Path) -> None:
    dataset = longshot.open_dataset(noisy)
    decide_images(dataset, ["red/99.png"], "keep")
    decide_images(dataset, ["blue/00.png"], "drop")
    assert "red/99.png" in images(longshot.sample(noisy, **HARD))
    testbed = longshot.sample(noisy, **SHAPE)
    assert "blue/00.png" not in images(testbed)
    assert testbed.meta["sampler"]["dropped_images"] == 1
    suspects = longshot.find_suspects(
        noisy, backbone="pixels", near_copies=False, view=noisy.parent / "v.view.json"
    )
    assert suspects.facts()["mislabelled"] == 0
    assert "blue/00.png" not in longshot.open_dataset(noisy.parent / "v.view.json").keys.to_pylist()


def test_a_dropped_copy_leaves_the_other_free(noisy: Path) -> None:
    shutil.copy(noisy / "green/05.png", noisy / "red/05x.png")
    longshot.audit.review_dataset(noisy, drop=["red/05x.png"])
    suspects = longshot.find_suspects(noisy, backbone="pixels", near_copies=False)
    assert suspects.features.keys.take(suspects.copies).to_pylist() == ["green/77.png"]


def test_review_lists_decides_and_takes_back(noisy: Path, run_cli: Callable[..., Any]) -> None:
    command = ("datasets", "review", noisy, "--backbone", "pixels", "--equal-files")
    listed = run_cli(*command)
    assert "1 doubtful label, 1 copy: 2 open, 0 kept and 0 dropped by hand." in listed.stdout
    assert "Decide: --drop IMAGE" in listed.stdout
    run_cli("datasets", "review", noisy, "--drop", "red/99.png", "--keep", "green/77.png")
    decided = json.loads(run_cli(*command, "--json").stdout)
    assert {row["key"]: row["decision"] for row in decided["rows"]} == {
        "red/99.png": "drop",
        "green/77.png": "keep",
    }
    run_cli("datasets", "review", noisy, "--undo")
    assert json.loads(run_cli(*command, "--json").stdout)["drop"] == 0


def test_the_list_is_csv(noisy: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"a list of suspects is written as \.csv"):
        longshot.find_suspects(noisy, backbone="pixels", out=tmp_path / "list.txt")
