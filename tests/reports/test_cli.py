"""``longshot report`` as a user runs it."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from .conftest import MakeRun

Run = Callable[..., "CompletedProcess[str]"]


def fails(done: CompletedProcess[str], *words: str) -> None:
    """One sentence on stderr, exit code 2, no traceback."""
    assert done.returncode == 2, done.stderr
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith("error: "), done.stderr
    for word in words:
        assert word in lines[0]


def test_page_by_default(run_cli: Run, make_run: MakeRun, tmp_path: Path) -> None:
    done = run_cli("report", make_run(), cwd=tmp_path)
    assert str(tmp_path / "report.html") in done.stdout
    assert (tmp_path / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_unknown_dataset_is_one_line_on_the_page(run_cli: Run, make_run: MakeRun, tmp_path: Path) -> None:
    run_cli("report", make_run(), "-o", tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert text.count('<p class="notice">No pictures: ') == 2 and "--dataset shapes=PATH" in text


def test_csv_on_the_screen(run_cli: Run, make_run: MakeRun) -> None:
    done = run_cli("report", make_run(), "--format", "csv", "-o", "-")
    assert len(list(csv.DictReader(io.StringIO(done.stdout)))) == 6


def test_json(run_cli: Run, make_run: MakeRun) -> None:
    assert len(json.loads(run_cli("report", make_run(), "--json").stdout)) == 6


@pytest.mark.parametrize(
    ("name", "start"), [("t.md", "| Method"), ("t.tex", "% needs"), ("t.csv", "testbed,")]
)
def test_the_ending_chooses_the_format(
    run_cli: Run, make_run: MakeRun, tmp_path: Path, name: str, start: str
) -> None:
    run_cli("report", make_run(), "-o", tmp_path / name)
    assert (tmp_path / name).read_text(encoding="utf-8").startswith(start)


def test_missing_folder(run_cli: Run, tmp_path: Path) -> None:
    fails(run_cli("report", tmp_path / "nowhere", check=False), "nowhere")


def test_not_a_run_folder(run_cli: Run, tmp_path: Path) -> None:
    fails(run_cli("report", tmp_path, "-o", tmp_path / "r.html", check=False), str(tmp_path), "run.json")


def test_a_run_without_rows(run_cli: Run, make_run: MakeRun, tmp_path: Path) -> None:
    run = make_run()
    for part in run.glob("part-*.parquet"):
        part.unlink()
    fails(run_cli("report", run, "-o", tmp_path / "r.html", check=False), str(run))
    assert not (tmp_path / "r.html").exists()


def test_truncated_part(run_cli: Run, make_run: MakeRun, tmp_path: Path) -> None:
    run = make_run()
    part = min(run.glob("part-*.parquet"))
    part.write_bytes(part.read_bytes()[:-100])
    fails(run_cli("report", run, "-o", tmp_path / "r.html", check=False), part.name)


def test_damaged_record(run_cli: Run, make_run: MakeRun) -> None:
    run = make_run()
    (run / "run.json").write_text("{", encoding="utf-8")
    fails(run_cli("report", run, check=False), "run.json")


def test_malformed_dataset_option(run_cli: Run, make_run: MakeRun) -> None:
    fails(run_cli("report", make_run(), "--dataset", "shapes", check=False), "NAME=PATH")


def test_help_opens_with_an_example(run_cli: Run) -> None:
    assert "longshot evaluate easy.parquet" in run_cli("report", "--help").stdout
