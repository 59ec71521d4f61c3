"""The table in every format holds the same numbers, and no string breaks out of its cell."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from longshot.reports import tables
from longshot.reports.data import load
from longshot.reports.summary import summarise

from .conftest import MakeRun
from .runs import DEFAULT, read_rows

NASTY = r"a|b_c *d* `e` <script>alert(1)</script> 50% $x$ #1 {y} \z ~ ^ & 'q' -- _u_"


@pytest.fixture
def nasty(make_run: MakeRun) -> Path:
    return make_run(beds={NASTY: False}, series=[{**DEFAULT[0], "method": NASTY}, DEFAULT[1]])


def test_csv_numbers_equal_the_rows(make_run: MakeRun) -> None:
    run = make_run()
    table = list(csv.DictReader(io.StringIO(tables.to_csv(load(run)))))
    assert len(table) == 6
    first = table[0]
    values = [
        row["accuracy"]
        for row in read_rows(run).to_pylist()
        if row["testbed"] == first["testbed_hash"] and row["backbone"] == "pixels"
    ]
    assert float(first["mean"]) == pytest.approx(np.mean(values), abs=1e-12)
    assert float(first["low"]) < float(first["mean"]) < float(first["high"])
    assert int(first["n"]) == 30


def test_csv_leaves_missing_numbers_empty(make_run: MakeRun) -> None:
    table = list(csv.DictReader(io.StringIO(tables.to_csv(load(make_run(tasks=1))))))
    assert {row["low"] for row in table} == {""}


def test_csv_keeps_any_string(nasty: Path) -> None:
    assert next(csv.DictReader(io.StringIO(tables.to_csv(load(nasty)))))["method"] == NASTY


def test_json_equals_csv(make_run: MakeRun) -> None:
    data = load(make_run())
    parsed = list(csv.DictReader(io.StringIO(tables.to_csv(data))))
    assert [row["mean"] for row in json.loads(tables.to_json(data))] == [float(row["mean"]) for row in parsed]


def test_markdown_numbers_and_marks(make_run: MakeRun) -> None:
    data = load(make_run(tasks=200))
    entries = summarise(data)
    line = tables.to_markdown(data).splitlines()[4]
    assert entries[0, 2].mark == "best"
    assert f"| **{tables.mean_and_half(entries[0, 2])}** |" in line


def test_markdown_marks_ties(make_run: MakeRun) -> None:
    twin = [DEFAULT[0], {**DEFAULT[0], "setting": "transductive"}]
    text = tables.to_markdown(load(make_run(beds={"one": False}, series=twin)))
    assert len(re.findall(r"\*\*[\d.]+ ± [\d.]+\*\* =", text)) == 2


def test_markdown_cells_do_not_break(nasty: Path) -> None:
    lines = tables.to_markdown(load(nasty)).splitlines()[:4]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in lines} == {5}
    assert not any(re.search(r"(?<!\\)<", line) for line in lines)


@pytest.mark.parametrize("text", ["n_steps", "a-b"])
def test_markdown_leaves_plain_words_alone(text: str) -> None:
    assert tables.escape_markdown(text) == text


def test_latex_columns_and_braces_match(nasty: Path) -> None:
    text = tables.to_latex(load(nasty))
    body = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert {len(re.findall(r"(?<!\\)&", line)) for line in body} == {3}
    bare = re.sub(r"\\[{}]", "", text)
    assert bare.count("{") == bare.count("}")
    assert not re.search(r"(?<!\\)[#_]", bare.replace("% needs", ""))


def test_latex_compiles(nasty: Path, tmp_path: Path) -> None:
    program = shutil.which("pdflatex") or shutil.which("tectonic")
    if program is None:
        pytest.skip("needs pdflatex or tectonic")
    source = r"\documentclass{article}\usepackage{booktabs}\begin{document}" + tables.to_latex(load(nasty))
    (tmp_path / "table.tex").write_text(source + r"\end{document}", encoding="utf-8")
    command = [program, "table.tex"] if "tectonic" in program else [program, "-halt-on-error", "table.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout[-2000:]


def test_series_without_a_testbed_get_a_dash(make_run: MakeRun) -> None:
    runs = [
        make_run("a", beds={"x": False}, series=DEFAULT[:1]),
        make_run("b", beds={"x": False, "y": True}, series=DEFAULT[1:]),
    ]
    assert tables.to_markdown(load(runs)).splitlines()[2].endswith("| – |")
