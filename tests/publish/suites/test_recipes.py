"""The recipes of the suites that ship, run small on real images: twice the same hashes, and what is in them."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from benchmarks.make_suites import METHODS, RECIPES, make, write_board
from longshot.base import UserError
from longshot.publish.leaderboard import shipped_board
from longshot.publish.suite import open_suite, shipped_suites

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
