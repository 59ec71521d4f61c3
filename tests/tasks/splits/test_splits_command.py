"""``longshot splits`` through the real command."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from longshot.data import open_dataset
from longshot.models import embed
from longshot.tasks import Split, class_embeddings, compare_split
from longshot.tasks.splits.embeddings import linkage_hops, taxonomy_hops, tree_gap, ward
from longshot.tasks.splits.hardness import measure_hardness
from longshot.tasks.splits.proxy import Proxy


@pytest.fixture(scope="module")
def by_hand(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A split of the photos' eight classes by hand: round ones to train, square ones to test."""
    path = tmp_path_factory.mktemp("splits") / "mine.json"
    ids = open_dataset(photos).class_ids
    parts = {"train": ids[:4], "validation": ids[4:5], "test": ids[5:]}
    path.write_text(json.dumps({part: list(members) for part, members in parts.items()}), encoding="utf-8")
    return path


def test_list_names_the_published_splits(run_cli: Any) -> None:
    records = json.loads(run_cli("splits", "list", "--json").stdout)
    names = [record["split"] for record in records]
    assert len(names) == 22
    assert {"atg:cifar100@0.96", "atg:tiered-imagenet@0.04", "cifar-fs", "fc100"} <= set(names)
    sizes = {record["split"]: record["train/validation/test"] for record in records}
    assert sizes["atg:emnist@0.32"] == "38/12/12"


def test_show_tells_sizes_and_how_it_was_made(run_cli: Any, tmp_path: Path) -> None:
    file = tmp_path / "far.json"
    Split("far", "abcdef", {"mode": "principal", "divergence": 0.25}, ("a", "b"), ("c",), ("d",)).save(file)
    shown = run_cli("splits", "show", file, "--classes").stdout
    assert shown.startswith("far: 2 train, 1 validation, 1 test\n")
    assert "mode: principal" in shown
    assert "divergence: 0.25" in shown
    assert shown.endswith("test\n  d\n")
    assert json.loads(run_cli("splits", "show", file, "--json").stdout)["sizes"]["train"] == 2


def test_compare_prints_what_the_functions_compute(run_cli: Any, photos: Path, by_hand: Path) -> None:
    command = ("splits", "compare", by_hand, "random(seed=1, ratios=(0.5, 0.25, 0.25))")
    options = ("--dataset", photos, "--backbone", "pixels", "--way", "2", "--json")
    records = json.loads(run_cli(*command, *options).stdout)
    assert [record["split"] for record in records if not record["reference"]] == [
        "mine",
        "random(seed=1, ratios=(0.5, 0.25, 0.25))",
    ]
    features = embed(open_dataset(photos), "pixels")
    parts = {"train": np.arange(4), "validation": np.array([4]), "test": np.arange(5, 8)}
    expected = compare_split("mine", parts, class_embeddings(features), features.class_ids, "pixels")
    hardness = measure_hardness(Proxy(features, way=2), [parts])
    for key, value in replace(expected, hardness=hardness).record().items():
        assert records[0][key] == (pytest.approx(value) if isinstance(value, float) else value)
    assert [near["train"] for near in records[0]["nearest"]] == [near.train for near in expected.nearest]
    assert records[0]["shared_test"] == 1


def test_compare_as_markdown_with_every_class(run_cli: Any, photos: Path, by_hand: Path) -> None:
    done = run_cli(
        *(
            "splits",
            "compare",
            by_hand,
            "--dataset",
            photos,
            "--backbone",
            "pixels",
            "--markdown",
            "--classes",
        )
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("|")]
    assert lines[0].startswith(
        "| split | backbone | classes | kl-symmetric | kl | wasserstein | euclidean | gap |"
    )
    assert lines[2].startswith("| mine | pixels | 4/1/3 | ")
    assert sum("square/" in line for line in lines) == 3


def test_tree_against_the_datasets_taxonomy(run_cli: Any, photos: Path) -> None:
    done = run_cli("splits", "tree", photos, "--backbone", "pixels", "--pairs", "1", "--json")
    printed = json.loads(done.stdout)
    dataset = open_dataset(photos)
    own = linkage_hops(ward(class_embeddings(embed(dataset, "pixels"))))
    assert dataset.taxonomy is not None
    expected = tree_gap(own, taxonomy_hops(dataset.taxonomy, dataset.class_ids))
    assert printed["trees"][0]["hops"] == pytest.approx(expected.hops)
    assert printed["trees"][0]["chance"] == pytest.approx(expected.chance)
    assert [pair["what"] for pair in printed["pairs"]] == [
        "near in the tree, far in the taxonomy",
        "far in the tree, near in the taxonomy",
    ]


def test_plot_draws_a_picture(run_cli: Any, photos: Path, by_hand: Path, tmp_path: Path) -> None:
    picture = tmp_path / "map.png"
    run_cli("splits", "plot", by_hand, "--dataset", photos, "--backbone", "pixels", "-o", picture)
    assert Image.open(picture).size[0] > 500


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("compare", "mine.json", "mine.json"), "Two of the splits are called 'mine'"),
        (("compare", "atg:cifar100@0.96"), "was made for CIFAR-100"),
    ],
)
def test_mistakes_end_with_one_sentence(
    run_cli: Any, photos: Path, by_hand: Path, arguments: tuple[str, ...], message: str
) -> None:
    options = ("--dataset", photos, "--backbone", "pixels")
    done = run_cli("splits", *arguments, *options, cwd=by_hand.parent, check=False)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_dataset_without_taxonomy_has_no_tree(run_cli: Any, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / "flat" / name).mkdir(parents=True)
        Image.new("RGB", (8, 8), "red" if name == "a" else "blue").save(tmp_path / "flat" / name / "1.png")
    done = run_cli("splits", "tree", tmp_path / "flat", "--backbone", "pixels", check=False)
    assert done.returncode == 2
    assert "has no taxonomy to compare with" in done.stderr
