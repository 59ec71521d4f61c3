"""All choices of ``longshot sample`` through the real command, on an annotated table of small pictures."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from PIL import Image

from longshot.tasks import Testbed

VIEWS = ("front", "back", "side", "top")


@pytest.fixture(scope="module")
def toys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """12 classes in two families, 40 pictures each, with viewpoint, clutter, owner and blur."""
    root = tmp_path_factory.mktemp("toys")
    with (root / "toys.csv").open("w", newline="") as lines:
        table = csv.writer(lines)
        table.writerow(["image", "class", "parent", "viewpoint", "clutter", "owner", "blur"])
        for label in range(12):
            for number in range(40):
                name = f"{label:02d}-{number:02d}.png"
                Image.new("RGB", (8, 8), (label * 20, number * 6, 90)).save(root / name)
                row = (VIEWS[number % 4], number // 4 % 5 + 1, f"o{number // 4 % 2}", number % 3 == 0)
                table.writerow([name, f"toy{label:02d}", "soft" if label < 6 else "hard", *row])
    return root / "toys.csv"


@pytest.fixture(scope="module")
def plain(toys: Path, run_cli, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plain") / "plain.parquet"
    run_cli("sample", toys, "--tasks", "20", "--shot", "2", "--query", "4", "-o", path)
    return path


CHOICES = (
    "--shape meta-dataset --way 6",
    "--shape like:PLAIN",
    "--classes semantic --alpha 0.3 --beta 50 --distance lin",
    "--classes alike --judge pixels --nearest 6 --beta 50",
    "--classes alike --judge pixels --instances difficult --shape any --way 4",
    "--classes hierarchical --shape meta-dataset",
    "--classes bilevel",
    "--classes siblings --shape any --way 4",
    "--coarsity 1:100 --reduction shortest-paths",
    "--instances shifted --rule cure-or-viewpoint --shot 2 --query 4",
    "--instances matched --rule orbit-clutter --shot 1 --query 1",
    "--instances shifted --query-where 'viewpoint==front' --support-where 'clutter>2' --same owner --shot 1 --query 2",
    "--query-where blur --support-where 'not_blur' --shot 2 --query 4",
    "--disjoint-pools",
    "--instances difficult --backbone pixels --refine 1 --greedy 1 --objective error --temperature 0.2",
    "--instances difficult --backbone pixels --start random --steps 2 --step-size 10 --projection simplex",
    "--instances easy --backbone pixels --query-where 'viewpoint==front' --query 3 --distance-metric cosine",
    "--instances greedy --backbone pixels --rounds 1 --raw-features",
    "--instances filtered --backbone pixels --candidates 60 --keep easiest",
)


@pytest.mark.parametrize("choice", CHOICES)
def test_every_choice_writes_a_testbed(toys: Path, plain: Path, run_cli, tmp_path: Path, choice: str) -> None:
    args = [part.strip("'").replace("not_", "not ").replace("PLAIN", str(plain)) for part in choice.split()]
    facts = json.loads(run_cli("sample", toys, "--tasks", "10", *args, "--json", "-o", tmp_path / "a").stdout)
    assert facts["tasks"] == 10 and facts["measured"]["coarsity"]["max"] > 0
    assert len(Testbed.load(tmp_path / "a")) == 10


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--shape", "round"], "There is no shape 'round'; choose fixed, all, any, meta-dataset, like:FILE"),
        (["--shape", "like:none.parquet"], "There is no testbed file at none.parquet"),
        (["--coarsity", "500:600"], "choose --coarsity within that"),
        (["--coarsity", "30:10"], "The coarsity band 30:10 is empty"),
        (["--coarsity", "fine"], "The coarsity band 'fine' is not two numbers"),
        (["--coarsity", "1:9", "--classes", "semantic"], "--coarsity chooses the classes itself"),
        (["--classes", "semantic", "--alpha", "nan"], "sampler's alpha is nan, but must be a number"),
        (["--classes", "semantic", "--beta", ""], "'' is not a valid float"),
        (
            ["--classes", "semantic", "--way", "12", "--tasks", "9"],
            "found only 1 different sets of 12 classes",
        ),
        (["--alpha", "1"], "--alpha 1.0 goes with --classes semantic only"),
        (["--class-order", "order.txt"], "--class-order goes with --import only"),
        (["--taxonomy", "none.csv"], "There is no taxonomy file at none.csv"),
        (["--rule", "coco-objects"], "goes with --instances matched or shifted only"),
        (["--query-where", "colour == red"], "it has: viewpoint, clutter, owner, blur"),
        (["--query-where", "viewpoint == front and blur"], "for the query under the rules"),
        (["--support-where", "viewpoint == under"], "no image has the viewpoint 'under'"),
        (["--instances", "shifted"], "Shifted tasks need a rule for the query and one for the support"),
        (
            ["--instances", "shifted", "--rule", "orbit-quality", "--shot", "9"],
            "No task of 'toys' is possible",
        ),
        (["--instances", "difficult"], "looks at features: give one of --judge NAME"),
        (
            ["--instances", "difficult", "--backbone", "pixels", "--shot", "31"],
            "has 40 images, but a task needs 41",
        ),
        (["--instances", "filtered", "--backbone", "pixels", "--candidates", "9"], "out of 9 candidates"),
        (["--import", "none.csv"], "none.csv cannot be read as a CSV file"),
    ],
)
def test_mistakes_are_one_sentence_and_write_nothing(
    toys: Path, run_cli, tmp_path: Path, args, message
) -> None:
    done = run_cli("sample", toys, "--tasks", "20", *args, "-o", tmp_path / "a.parquet", check=False)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert message in done.stderr
    assert not (tmp_path / "a.parquet").exists()


def test_features_of_another_dataset(toys: Path, photos: Path, run_cli, tmp_path: Path) -> None:
    run_cli("embed", photos, "--backbone", "pixels", "-o", tmp_path / "f.npy")
    args = ("--instances", "difficult", "--features", tmp_path / "f.npy", "-o", tmp_path / "a")
    done = run_cli("sample", toys, *args, check=False)
    assert (
        done.returncode == 2 and "are those of dataset" in done.stderr and "drawn from 'toys'" in done.stderr
    )


def test_semantic_classes_without_a_taxonomy(photos: Path, run_cli, tmp_path: Path) -> None:
    done = run_cli("sample", photos / "round", "--classes", "semantic", "-o", tmp_path / "a", check=False)
    assert done.returncode == 2 and "error: " in done.stderr and "Traceback" not in done.stderr


def test_a_published_list_becomes_a_testbed(toys: Path, run_cli, tmp_path: Path) -> None:
    lines = [
        "task,labels,image_id,support",
        "7,toy00,0,True",
        "7,toy01,40,True",
        "7,toy00,1,False",
        "7,toy01,41,False",
    ]
    (tmp_path / "list.csv").write_text("\n".join(lines))
    done = run_cli("sample", toys, "--import", tmp_path / "list.csv", "-o", tmp_path / "a.parquet")
    assert "1 task from toys" in done.stdout and Testbed.load(tmp_path / "a.parquet")[0].way == 2


def test_the_help_is_grouped_and_opens_with_an_example(run_cli) -> None:
    text = run_cli("sample", "--help").stdout
    assert text.index("longshot sample toybox") < text.index("Testbed:") < text.index("Shape (how many):")
    everything = run_cli("sample", "--help-all").stdout
    for title in ("Classes (which):", "Instances (which images):"):
        assert title in text and title in everything
    for title in ("Rules over attributes:", "Filtered:"):
        assert title in everything
