"""The recipes of the suites that ship, run small on real images: twice the same hashes, and what is in them."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest

from benchmarks.make_suites import METHODS, RECIPES, make, write_board
from longshot.base import UserError
from longshot.publish.leaderboard import shipped_board
from longshot.publish.suite import SHIPPED, open_suite, shipped_suites

SMALL = {"tasks": 4, "judges": ["pixels"], "steps": ()}


def unpacked(archive: Path, folder: Path) -> Path:
    with zipfile.ZipFile(archive) as file:
        file.extractall(folder)
    return folder


def test_what_ships_is_what_a_recipe_says() -> None:
    """The command on record is one that can be given, and kinds, texts and methods are those of the recipe."""
    for name in set(shipped_suites()) & set(RECIPES):
        suite, recipe = open_suite(name), RECIPES[name]
        assert f"make_suites {name} IMAGES" in suite.made_by
        assert ("--specs" in suite.made_by) == bool(recipe.meta_dataset)
        assert (suite.about, suite.licence, suite.images) == (recipe.about, recipe.licence, recipe.images)
        assert {bed: suite.kinds[bed] for bed in recipe.further} == {
            bed: kind for bed, (kind, _) in recipe.further.items()
        }
        assert suite.methods == METHODS[:2] and shipped_board(suite).entries


@pytest.mark.long
def test_cifar100_is_drawn_twice_alike_and_measured(shared: Path, tmp_path: Path) -> None:
    source = unpacked(shared / "data" / "cifar100-test.zip", tmp_path / "images" / "test").parent
    first = make("cifar100-1", source, tmp_path / "a", **SMALL)
    again = make("cifar100-1", source, tmp_path / "b", **SMALL)
    assert first.digest == again.digest and len(first.testbeds) == 10
    assert {len(bed) for bed in first.testbeds.values()} == {4}
    write_board(first, tmp_path / "a" / "images" / "cifar100", ["pixels"], tmp_path / "bench")
    board = shipped_board(open_suite(first.folder or ""))
    assert {entry.method for entry in board.entries} == set(METHODS)
    assert board.digest == again.digest


@pytest.mark.long
def test_omniglot_has_the_episodes_of_meta_dataset(shared: Path, tmp_path: Path) -> None:
    source = unpacked(shared / "data" / "omniglot" / "images_evaluation.zip", tmp_path / "images")
    with pytest.raises(UserError, match="source of Meta-Dataset"):
        make("omniglot-1", source, tmp_path / "a", **SMALL)
    specs = shared / "data" / "meta-dataset-specs"
    suite = make("omniglot-1", source, tmp_path / "a", specs=specs, **SMALL)
    replayed = suite.testbeds["meta-dataset"]
    assert suite.kinds["meta-dataset"] == "varied" and len(set(replayed.table.column("way").to_pylist())) > 1
    spec = json.loads((specs / "omniglot_dataset_spec.json").read_text())
    assert replayed.meta["sampler"]["shape"]["name"] == "replay" and spec["name"] == "omniglot"


def test_all_suites_together_are_small() -> None:
    assert sum(file.stat().st_size for file in SHIPPED.rglob("*") if file.is_file()) <= 12e6


@pytest.mark.parametrize("frames", [200, 328])
def test_the_sides_of_a_turn_never_meet(tmp_path: Path, frames: int) -> None:
    """Films show a turn and up to a fifth of the next: no photograph of a side is near one of the other in angle."""
    for frame in range(frames):
        file = tmp_path / ("Test" if frame % 4 == 3 else "Training") / "Pear 2" / f"{frame}_100.jpg"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"")
    for other in ("r_7_100.jpg", "r2_7_100.jpg"):  # the other two axes
        (tmp_path / "Training" / "Pear 2" / other).write_bytes(b"")
    shutil.copy(tmp_path / "Training" / "Pear 2" / "0_100.jpg", tmp_path / "Test" / "Pear 2" / "0_100.jpg")
    names = [name for name, _ in RECIPES["fruits-1"].links(tmp_path)]
    assert len(names) == len(set(names)) == 40
    sides: dict[str, list[int]] = {}
    for name in names:
        side, frame = name.removeprefix("Pear 2/").removesuffix(".jpg").split("-")
        assert RECIPES["fruits-1"].attributes is not None
        assert RECIPES["fruits-1"].attributes(name) == {"side": side}
        sides.setdefault(side, []).append(int(frame))
    assert {side: len(own) for side, own in sides.items()} == {"between": 4, "front": 18, "back": 18}
    for turn in (frames, frames / 1.2):  # where the film ends with the turn, and where it runs on
        front, back = (np.array(sides[side]) % turn / turn for side in ("front", "back"))
        gaps = np.abs(front[:, None] - back)
        assert np.minimum(gaps, 1 - gaps).min() > 0.04


def test_tiny_imagenet_is_linked_by_its_annotations(tmp_path: Path) -> None:
    (tmp_path / "val").mkdir()
    lines = ["val_1.JPEG\tn02124075\t0\t0\t9\t9", "val_0.JPEG\tn07768694\t1\t1\t9\t9"]
    (tmp_path / "val" / "val_annotations.txt").write_text("\n".join(lines) + "\n")
    images = tmp_path / "val" / "images"
    assert list(RECIPES["tiny-1"].links(tmp_path)) == [
        ("n07768694/val_0.JPEG", images / "val_0.JPEG"),
        ("n02124075/val_1.JPEG", images / "val_1.JPEG"),
    ]


def test_the_quarters_of_coarsity_follow_each_other() -> None:
    quarters = [settings["coarsity"].split(":") for bed, (_, settings) in RECIPES["tiny-1"].further.items()
                if bed.startswith("coarsity-")]  # fmt: skip
    assert [low for low, _ in quarters][1:] == [high for _, high in quarters][:-1]
    assert (quarters[0][0], quarters[-1][1]) == ("0", "")


@pytest.mark.long
def test_grocery_is_drawn_twice_alike(shared: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(shared / "data" / "grocery128.zip") as archive:  # its makers keep parts in folders
        for name in (each for each in archive.namelist() if "/test_" in each):
            file = tmp_path / "images" / "test" / name.removeprefix("grocery/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(archive.read(name))
    first, again = (make("grocery-1", tmp_path / "images", tmp_path / name, **SMALL) for name in "ab")
    assert first.digest == again.digest and len(first.testbeds) == 10
