"""Suspects of a dataset: labels and copies, the file, the view, and what is left out of a draw."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import longshot
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


def test_a_judge_leaves_them_out_of_the_draw(noisy: Path) -> None:
    shape = {"tasks": 30, "way": 3, "shot": 2, "query": 2, "instances": "difficult", "judge": "pixels"}
    noisy_tasks = longshot.sample(noisy, **shape)
    clean_tasks = longshot.sample(noisy, exclude_suspects=True, **shape)
    assert noisy_tasks.table["suspects_after"].to_numpy().max() > 0
    used = {key for task in clean_tasks for key in (*task.support, *task.query)}
    assert not {"red/99.png", "green/77.png"} & used
    assert clean_tasks.table["suspects_after"].to_numpy().max() == 0


def test_without_a_judge_nothing_can_be_left_out(noisy: Path) -> None:
    with pytest.raises(UserError, match="these tasks have no judge; draw from the view that"):
        longshot.sample(noisy, tasks=5, way=2, shot=1, query=1, exclude_suspects=True)


def test_the_list_is_csv(noisy: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"a list of suspects is written as \.csv"):
        longshot.find_suspects(noisy, backbone="pixels", out=tmp_path / "list.txt")
