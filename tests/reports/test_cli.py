"""``longshot report`` as a user runs it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

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


def test_json_on_the_screen(run_cli: Run, make_run: MakeRun) -> None:
    assert len(json.loads(run_cli("report", make_run(), "--json", "-o", "-").stdout)) == 6


def test_an_ending_that_stands_for_no_format(run_cli: Run, make_run: MakeRun, tmp_path: Path) -> None:
    fails(
        run_cli("report", make_run(), "-o", tmp_path / "page.pdf", check=False),
        "ends in .pdf",
        ".html or .htm or .md",
    )
    assert not (tmp_path / "page.pdf").exists()


def test_the_ending_chooses_the_format(run_cli: Run, make_run: MakeRun, tmp_path: Path) -> None:
    run_cli("report", make_run(), "-o", tmp_path / "table.tex")
    assert (tmp_path / "table.tex").read_text(encoding="utf-8").startswith("% needs")


def test_not_a_run_folder(run_cli: Run, tmp_path: Path) -> None:
    fails(run_cli("report", tmp_path, "-o", tmp_path / "r.html", check=False), str(tmp_path), "run.json")


def test_a_file_is_not_a_run_folder(run_cli: Run, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text("")
    fails(
        run_cli("report", tmp_path / "page.html", check=False), "page.html is not the folder", "it is a file"
    )


def test_truncated_part(run_cli: Run, make_run: MakeRun, tmp_path: Path) -> None:
    run = make_run()
    part = min(run.glob("part-*.parquet"))
    part.write_bytes(part.read_bytes()[:-100])
    fails(run_cli("report", run, "-o", tmp_path / "r.html", check=False), part.name)
    assert not (tmp_path / "r.html").exists()


def test_malformed_dataset_option(run_cli: Run, make_run: MakeRun) -> None:
    fails(run_cli("report", make_run(), "--dataset", "shapes", check=False), "NAME=PATH")


def test_help_opens_with_an_example(run_cli: Run) -> None:
    assert "longshot evaluate easy.parquet" in run_cli("report", "--help").stdout
