"""``--splits`` where a dataset split is named: sampling and training draw from the given classes, and say so."""

from __future__ import annotations

import json

import pytest

from longshot import Testbed, open_dataset
from longshot.tasks import open_split


@pytest.fixture(scope="module")
def halves(tmp_path_factory):
    """A split of toybox that is not its own: whole families."""
    ids = open_dataset("toybox").class_ids
    parts = {
        "train": [c for c in ids if c[0] in "ab"],
        "validation": [c for c in ids if c[0] == "c"],
        "test": [c for c in ids if c[0] == "v"],
    }
    path = tmp_path_factory.mktemp("halves") / "halves.json"
    path.write_text(json.dumps({"name": "halves", **parts}))
    return path


def test_sampling_draws_from_the_given_classes_and_says_so(run_cli, halves, tmp_path):
    out = tmp_path / "v.parquet"
    run_cli("sample", "toybox", "--splits", halves, "--split", "test", "--tasks", "10", "-o", out)
    bed = Testbed.load(out)
    assert all(c.startswith("vehicles/") for task in bed for c in task.classes)
    assert bed.meta["sampler"]["splits_from"].startswith("halves ")


def test_the_datasets_own_split_is_not_mentioned(run_cli, tmp_path):
    out = tmp_path / "own.parquet"
    run_cli("sample", "toybox", "--split", "test", "--tasks", "10", "-o", out)
    assert "splits_from" not in Testbed.load(out).meta["sampler"]


def test_splits_without_a_split_to_draw_from(run_cli, halves, tmp_path):
    done = run_cli("sample", "toybox", "--splits", halves, "-o", tmp_path / "x.parquet", check=False)
    assert done.returncode == 2 and "with --split test" in done.stderr


def test_training_takes_the_given_train_classes(run_cli, halves, tmp_path):
    done = run_cli(
        *("train", "protonet", "toybox", "--splits", halves, "--network", "cnn4(width=8)", "--size", "16"),
        *("--steps", "1", "--validation-tasks", "2", "-o", tmp_path / "net"),
    )
    assert done.returncode == 0
    data = json.loads((tmp_path / "net" / "network.json").read_text())["data"]
    expected = open_split(halves, open_dataset("toybox")).train
    assert data["classes"] == list(expected)
