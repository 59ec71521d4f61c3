"""The demo runs the whole street and shows what toybox was made to show."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from few_toys import FewToys
from longshot.cli.demo import BACKBONES
from longshot.evaluation.results import Results


def check_the_demo(run_cli: Callable[..., subprocess.CompletedProcess[str]], out: Path) -> None:
    done = run_cli("demo", "--tasks", "100", "-o", out)
    report = out / "report.html"
    assert f"report: {report}" in done.stdout
    assert "look-alikes" in report.read_text("utf-8")
    accuracies = {(r["testbed"], r["backbone"]): r["accuracy"] for r in Results(out / "run").summary()}
    run = Results(out / "run").run
    (story,) = run["backbones"]["efficientnet-lite0"].values()
    assert story["networks"][0]["preprocessing"] == BACKBONES["efficientnet-lite0"]
    network = {bed: accuracies[bed, "efficientnet-lite0"] for bed in ("mixed", "look-alikes")}
    assert network["mixed"] > network["look-alikes"] + 0.2
    assert network["mixed"] > accuracies["mixed", "pixels"] + 0.2


def test_the_demo(
    run_cli: Callable[..., subprocess.CompletedProcess[str]],
    own_toys: Callable[[FewToys], None],
    tmp_path: Path,
) -> None:
    """On the classes that it tests on, with as many pictures as five shots and ten queries leave a choice of."""
    own_toys(FewToys(20, "test"))
    check_the_demo(run_cli, tmp_path / "out")


@pytest.mark.long
def test_the_demo_on_all_of_toybox(
    run_cli: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    check_the_demo(run_cli, tmp_path / "out")
