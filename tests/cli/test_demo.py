"""The demo runs the whole street and shows what toybox was made to show."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

from longshot.cli.demo import BACKBONES
from longshot.evaluation.results import Results


def test_the_demo(run_cli: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path) -> None:
    done = run_cli("demo", "--tasks", "100", "-o", tmp_path / "out")
    report = tmp_path / "out" / "report.html"
    assert f"report: {report}" in done.stdout
    assert "look-alikes" in report.read_text("utf-8")
    accuracies = {
        (r["testbed"], r["backbone"]): r["accuracy"] for r in Results(tmp_path / "out" / "run").summary()
    }
    run = Results(tmp_path / "out" / "run").run
    (story,) = run["backbones"]["efficientnet-lite0"].values()
    assert story["networks"][0]["preprocessing"] == BACKBONES["efficientnet-lite0"]
    network = {bed: accuracies[bed, "efficientnet-lite0"] for bed in ("mixed", "look-alikes")}
    assert network["mixed"] > network["look-alikes"] + 0.2
    assert network["mixed"] > accuracies["mixed", "pixels"] + 0.2
