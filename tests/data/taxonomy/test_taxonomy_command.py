"""``longshot taxonomy`` as a user runs it."""

from __future__ import annotations

import csv
import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from longshot.data import Taxonomy

RunCli = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def food(tmp_path: Path) -> Path:
    path = tmp_path / "food.csv"
    path.write_text(
        "parent,child\nfood,fruit\nfruit,apple\nfruit,pear\nfood,dairy\ndairy,cheese\ncheese,brie\n"
    )
    return path


@pytest.mark.parametrize("command", [(), ("show",), ("distances",)])
def test_help_opens_with_an_example_on_the_embedded_default(
    command: tuple[str, ...], run_cli: RunCli
) -> None:
    assert "longshot taxonomy" in run_cli("taxonomy", *command, "--help").stdout.split("Options:")[0]
    assert " toybox" in run_cli("taxonomy", *command, "--help").stdout.split("Options:")[0]


def test_show_prints_a_file_with_chains_collapsed(food: Path, run_cli: RunCli) -> None:
    lines = run_cli("taxonomy", "show", food).stdout.splitlines()
    assert lines[0] == "food  3 classes"
    assert any("dairy › cheese › brie" in line for line in lines)


def test_show_cuts_at_a_depth(food: Path, run_cli: RunCli) -> None:
    printed = run_cli("taxonomy", "show", food, "--depth", "1").stdout
    assert "fruit  2 classes" in printed
    assert "apple" not in printed


def test_show_counts_the_images_of_a_dataset(photos: Path, run_cli: RunCli) -> None:
    printed = json.loads(run_cli("taxonomy", "show", photos, "--json").stdout)
    counts = {node["node"]: (node["classes"], node["images"]) for node in printed["nodes"]}
    assert counts["round"] == (4, 120)
    assert counts["square/navy"] == (1, 30)


def test_show_draws_a_picture(food: Path, tmp_path: Path, run_cli: RunCli) -> None:
    run_cli("taxonomy", "show", food, "--picture", tmp_path / "food.png")
    assert (tmp_path / "food.png").read_bytes().startswith(b"\x89PNG")


def test_distances_of_a_dataset_put_siblings_first(photos: Path, run_cli: RunCli) -> None:
    rows = json.loads(run_cli("taxonomy", "distances", photos, "--pairs", "1", "--json").stdout)
    nearest, farthest = rows
    # 30 images each, 120 below the shape, 240 in all
    assert nearest["distance"] == pytest.approx(2 * np.log(120 / 30), abs=1e-4)
    assert farthest["distance"] == pytest.approx(2 * np.log(240 / 30), abs=1e-4)


def test_distances_write_the_whole_matrix(food: Path, tmp_path: Path, run_cli: RunCli) -> None:
    run_cli("taxonomy", "distances", food, "--kind", "path", "-o", tmp_path / "d.csv")
    with (tmp_path / "d.csv").open() as lines:
        rows = list(csv.reader(lines))
    assert rows == [
        ["class", "apple", "brie", "pear"],
        ["apple", "0.0", "5.0", "2.0"],
        ["brie", "5.0", "0.0", "5.0"],
        ["pear", "2.0", "5.0", "0.0"],
    ]


def test_distances_of_a_bare_taxonomy_say_what_was_assumed(food: Path, run_cli: RunCli) -> None:
    assert "every class counted as one image" in run_cli("taxonomy", "distances", food).stdout


def test_wordnet_writes_the_published_reduction(
    wordnet: Taxonomy,
    tiered: tuple[list[str], NDArray[np.int64]],
    shared: Path,
    tmp_path: Path,
    run_cli: RunCli,
) -> None:
    edges = tmp_path / "tiered.csv"
    classes = shared / "data/tiered-imagenet-split/test.csv"
    run_cli("taxonomy", "wordnet", "--classes", classes, "--reduction", "shortest-paths", "-o", edges)
    printed = run_cli("taxonomy", "distances", edges, "--counts", shared / "golden/ilsvrc_counts.json").stdout
    assert "mean squared distance over 12,720 pairs: 83.125" in printed


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("parent,child\na,b\nb,a\n", "error: .*cycle of 2 edges"),
        ("parent,child\na,b\nc,d\n", "error: .*2 roots"),
        ("parent,child\na,b\n", "error: .*1 class; distances need at least 2"),
    ],
)
def test_mistakes_end_with_one_sentence_and_code_2(
    text: str, message: str, tmp_path: Path, run_cli: RunCli
) -> None:
    import re

    (tmp_path / "t.csv").write_text(text)
    done = run_cli("taxonomy", "distances", tmp_path / "t.csv", check=False)
    assert done.returncode == 2
    assert re.search(message, done.stderr)
    assert "Traceback" not in done.stderr


def test_a_class_that_the_given_taxonomy_lacks_is_named(photos: Path, food: Path, run_cli: RunCli) -> None:
    done = run_cli("taxonomy", "distances", photos, "--taxonomy", food, check=False)
    assert done.returncode == 2
    assert "The taxonomy food.csv lacks 8 of the 8 classes of" in done.stderr


def test_counts_that_lack_a_class_are_refused(food: Path, tmp_path: Path, run_cli: RunCli) -> None:
    (tmp_path / "n.json").write_text('{"apple": 3}')
    done = run_cli("taxonomy", "distances", food, "--counts", tmp_path / "n.json", check=False)
    assert done.returncode == 2
    assert "no count for the class 'brie' (2 of 3 are missing)" in done.stderr


def test_an_empty_list_of_classes_is_refused(tmp_path: Path, run_cli: RunCli) -> None:
    (tmp_path / "ids.txt").write_text("\n")
    done = run_cli(
        "taxonomy", "wordnet", "--classes", tmp_path / "ids.txt", "-o", tmp_path / "o.csv", check=False
    )
    assert done.returncode == 2
    assert "has no class id" in done.stderr
    assert not (tmp_path / "o.csv").exists()
