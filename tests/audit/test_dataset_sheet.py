"""A dataset at a glance: the terminal, JSON and the page show one table."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from longshot import show_dataset


@pytest.fixture(scope="module")
def birds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Nine noisy pictures; one is there twice, one under two labels, one is of one colour, one cannot be read."""
    root = tmp_path_factory.mktemp("sheet") / "birds"
    rng = np.random.default_rng(5)
    for name in ("wren", "crow"):
        (root / name).mkdir(parents=True)
        for number in range(4):
            Image.fromarray(rng.integers(0, 255, (24, 32, 3), np.uint8)).save(root / name / f"{number}.png")
    shutil.copy(root / "wren" / "0.png", root / "wren" / "again.png")
    shutil.copy(root / "wren" / "1.png", root / "crow" / "claimed.png")
    Image.new("RGB", (32, 24), "navy").save(root / "crow" / "navy.png")
    (root / "crow" / "rotten.png").write_bytes(b"\x89PNG")
    return root


def test_the_table_says_what_was_planted(birds: Path) -> None:
    rows = dict(show_dataset(birds).rows())
    assert rows["images"] == "12" and rows["sizes in pixels"] == "32 × 24"
    assert rows["unreadable"] == "1 (crow/rotten.png)"
    assert rows["odd images"] == "1 (crow/navy.png) of one colour"
    assert rows["copies"] == (
        "2 images are copies of others (2 equal, 0 near): kept apart, 2 equal ones with different labels left out"
    )


def test_quick_reads_no_image(birds: Path) -> None:
    rows = dict(show_dataset(birds, quick=True).rows())
    assert rows["images"] == "12" and "copies" not in rows and "sizes in pixels" not in rows


def test_every_face_shows_the_same_table(birds: Path, run_cli: Any) -> None:
    printed = run_cli("datasets", "show", birds).stdout
    for name, value in show_dataset(birds).rows():
        assert f"{name}  " in printed and value in printed
    facts = json.loads(run_cli("datasets", "show", birds, "--json").stdout)
    assert facts["copies"] == {"equal": 2, "near": 0, "contradicting": 2, "near_searched": True}
    assert list(facts["unreadable"]) == ["crow/rotten.png"] and facts["odd"] == {
        "of one colour": ["crow/navy.png"]
    }


def test_what_to_look_at_shows_copies_behind_their_originals(birds: Path) -> None:
    sheet = show_dataset(birds)
    groups = {
        heading: [sheet.dataset.keys[row].as_py() for row in rows] for heading, rows in sheet.to_look_at()
    }
    assert groups["2 copies, each behind its original"] == [
        "crow/claimed.png",
        "wren/1.png",
        "wren/0.png",
        "wren/again.png",
    ]
