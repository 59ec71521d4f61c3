"""Omniglot as people have it: the published zip, from file to report."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

RunCli = Callable[..., "subprocess.CompletedProcess[str]"]


def test_the_street(run_cli: RunCli, shared: Path, tmp_path: Path) -> None:
    zipped = shared / "data" / "omniglot" / "images_evaluation.zip"
    run_cli("embed", zipped, "--backbone", "pixels")
    for name, classes in (("mixed", "uniform"), ("one-alphabet", "bilevel")):
        arguments = ["--classes", classes, "--tasks", "100", "--shot", "5", "--query", "10"]
        run_cli("sample", zipped, *arguments, "--copies", "equal", "-o", tmp_path / f"{name}.parquet")
    beds = [tmp_path / "mixed.parquet", tmp_path / "one-alphabet.parquet"]
    arguments = ["--backbone", "pixels", "--method", "protonet", "-o", tmp_path / "run", "--json"]
    rows = json.loads(run_cli("evaluate", *beds, *arguments).stdout)
    accuracy = {row["testbed"]: row["accuracy"] for row in rows}
    # 71 % was measured elsewhere with another nearest-prototype code; characters of one alphabet are closer.
    assert 0.5 < accuracy["one-alphabet"] < accuracy["mixed"] - 0.02
    assert 0.6 < accuracy["mixed"] < 0.85
    run_cli("report", tmp_path / "run", "-o", tmp_path / "report.html")
    assert "images_evaluation" in (tmp_path / "report.html").read_text("utf-8")
