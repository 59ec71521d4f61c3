"""``longshot train`` as a user calls it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

RunCli = Callable[..., "subprocess.CompletedProcess[str]"]


def test_from_training_to_results(run_cli: RunCli, photos: Path, tmp_path: Path) -> None:
    """Train, then use the folder as a backbone on the street."""
    arguments = ["protonet(way=2, shot=2, query=3)", photos, "--network", "cnn4(width=8)", "--size", "16"]
    more = ["--steps", "10", "--validation-tasks", "10", "-o", tmp_path / "net", "--json"]
    facts = json.loads(run_cli("train", *arguments, *more).stdout)
    assert facts["steps"] == 10
    assert 0 <= facts["validation_accuracy"] <= 1
    assert facts["notes"] == ["5 of 8 classes are held out for validation"]
    run_cli("sample", photos, "--tasks", "20", "--way", "3", "-o", tmp_path / "bed.parquet")
    done = run_cli(
        *("evaluate", tmp_path / "bed.parquet", "--backbone", tmp_path / "net", "--method", "protonet"),
        *("-o", tmp_path / "run", "--json"),
    )
    assert json.loads(done.stdout)[0]["accuracy"] > 0.2


def test_the_cost_before_it_starts(run_cli: RunCli, photos: Path, tmp_path: Path) -> None:
    arguments = ["matching(way=2, shot=2, query=3)", photos, "--network", "cnn4(width=4)", "--size", "16"]
    shown = run_cli(
        "train", *arguments, "--steps", "70", "--minutes", "1e-9", "-o", tmp_path / "net", "--dry-run"
    ).stdout
    assert "would train cnn4(width=4)" in shown
    assert "70 steps of 10 images at" in shown
    assert "and 2 validations of" in shown
    assert "will be over after about 0 steps" in shown
    assert not (tmp_path / "net").exists()


def test_the_list(run_cli: RunCli) -> None:
    rows = json.loads(run_cli("train", "--list", "--json").stdout)
    named = {(row["name"], row["recipe"]): row for row in rows}
    assert named["protonet", ""]["paper"] == "Snell et al. 2017"
    assert named["multiclass", "semantic"]["length"] == "500 epochs"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["protonet"], ["needs an algorithm and a dataset"]),
        (["protonet", "toybox", "-o", "x", "--alpha", "1"], ["--alpha 1.0 goes with --classes semantic"]),
    ],
)
def test_mistakes(run_cli: RunCli, tmp_path: Path, arguments: list[str], words: list[str]) -> None:
    done = run_cli("train", *arguments, check=False, cwd=tmp_path)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in done.stderr


def test_settings_that_tuning_found(run_cli: RunCli, photos: Path, tmp_path: Path) -> None:
    """A best.yaml says what is trained; what the command line says goes first."""
    file = tmp_path / "best.yaml"
    file.write_text(
        "algorithm: matching(way=2, shot=2, query=3)\n"
        "train: {network: cnn4(width=4), size: 16, steps: 9, optimiser: sgd(lr=0.01)}\n"
    )
    arguments = ["--steps", "2", "--validation-tasks", "5", "-o", tmp_path / "net", "--json"]
    assert json.loads(run_cli("train", file, photos, *arguments).stdout)["steps"] == 2
    settings = json.loads((tmp_path / "net" / "training.json").read_text("utf-8"))["settings"]
    assert settings["network"] == "cnn4(width=4)"
    assert settings["optimiser"].startswith("sgd(lr=0.01")
    assert settings["algorithm"].startswith("matching")
    assert (tmp_path / "net" / "curves.svg").is_file()
