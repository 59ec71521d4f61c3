"""The table in every format holds the same numbers, and no string breaks out of its cell."""

from __future__ import annotations

import csv
import io
import json
import math
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from longshot.reports import read_runs, tables
from longshot.reports.report_data import ReportData
from longshot.reports.result_tables import NOTE, WRITERS
from longshot.reports.summary import summarise
from longshot.statistics import percent, plus_minus, points

from .conftest import MakeRun
from .runs import DEFAULT, cell, read_rows, report_of

NASTY = r"a|b_c *d* `e` <script>alert(1)</script> 50% $x$ #1 {y} \z ~ ^ & 'q' -- _u_"


@pytest.fixture
def nasty(make_run: MakeRun) -> Path:
    return make_run(beds={NASTY: False}, series=[{**DEFAULT[0], "method": NASTY}, DEFAULT[1]])


def test_csv_numbers_equal_the_rows(make_run: MakeRun) -> None:
    run = make_run()
    table = list(csv.DictReader(io.StringIO(WRITERS["csv"](read_runs(run)))))
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
    table = list(csv.DictReader(io.StringIO(WRITERS["csv"](read_runs(make_run(tasks=1))))))
    assert {row["low"] for row in table} == {""}


def test_csv_keeps_any_string(nasty: Path) -> None:
    assert next(csv.DictReader(io.StringIO(WRITERS["csv"](read_runs(nasty)))))["method"] == NASTY


def test_json_equals_csv(make_run: MakeRun) -> None:
    data = read_runs(make_run())
    parsed = list(csv.DictReader(io.StringIO(WRITERS["csv"](data))))
    assert [row["mean"] for row in json.loads(WRITERS["json"](data))] == [
        float(row["mean"]) for row in parsed
    ]


def test_markdown_numbers_and_marks(make_run: MakeRun) -> None:
    inductive = [{**series, "setting": "inductive"} for series in DEFAULT]
    data = read_runs(make_run(tasks=200, series=inductive))
    entries = summarise(data)
    line = WRITERS["md"](data).splitlines()[4]
    assert entries[0, 2].mark == "best"
    assert f"| **{entries[0, 2].text}** |" in line


def test_markdown_marks_ties(make_run: MakeRun) -> None:
    twin = [{**series, "skill": 2.0} for series in DEFAULT[:2]]  # both always right
    text = WRITERS["md"](read_runs(make_run(beds={"one": False}, series=twin)))
    assert len(re.findall(r"\*\*[\d.]+ ± [\d.]+\*\* =", text)) == 2


def test_markdown_cells_do_not_break(nasty: Path) -> None:
    lines = WRITERS["md"](read_runs(nasty)).splitlines()[:4]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in lines} == {5}
    assert not any(re.search(r"(?<!\\)<", line) for line in lines)


@pytest.mark.parametrize("text", ["n_steps", "a-b"])
def test_markdown_leaves_plain_words_alone(text: str) -> None:
    assert tables.escape_markdown(text) == text


def test_latex_columns_and_braces_match(nasty: Path) -> None:
    text = WRITERS["latex"](read_runs(nasty))
    body = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert {len(re.findall(r"(?<!\\)&", line)) for line in body} == {3}
    bare = re.sub(r"\\[{}]", "", text)
    assert bare.count("{") == bare.count("}")
    assert not re.search(r"(?<!\\)[#_]", bare.replace("% needs", ""))


def test_latex_compiles(nasty: Path, tmp_path: Path) -> None:
    program = shutil.which("pdflatex") or shutil.which("tectonic")
    if program is None:
        pytest.skip("needs pdflatex or tectonic")
    source = r"\documentclass{article}\usepackage{booktabs}\begin{document}" + WRITERS["latex"](
        read_runs(nasty)
    )
    (tmp_path / "table.tex").write_text(source + r"\end{document}", encoding="utf-8")
    command = [program, "table.tex"] if "tectonic" in program else [program, "-halt-on-error", "table.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout[-2000:]


def test_series_without_a_testbed_get_a_dash(make_run: MakeRun) -> None:
    runs = [
        make_run("a", beds={"x": False}, series=DEFAULT[:1]),
        make_run("b", beds={"x": False, "y": True}, series=DEFAULT[1:]),
    ]
    assert WRITERS["md"](read_runs(runs)).splitlines()[2].endswith("| – |")


class TestLetterByLetter:
    """Two series on six tasks: 50.0 % throughout, and 3 × 25 % with 3 × 100 % (s = 41.1, half = 43.1 points)."""

    @pytest.fixture
    def data(self) -> ReportData:
        data = report_of([cell([0.5] * 6), cell([0.25, 1.0] * 3)])
        series = (data.series[0], replace(data.series[1], note="run b"))
        return replace(data, beds=(replace(data.beds[0], name="my_bed"),), series=series)

    def test_markdown(self, data: ReportData) -> None:
        assert WRITERS["md"](data).splitlines() == [
            "| Method | Backbone | Setting | my_bed |",
            "| :--- | :--- | :--- | ---: |",
            "| m0 | net | inductive | **50.0 ± 0.0** = |",
            "| m1 (run b) | net | inductive | **62.5 ± 43.1** = |",
            "",
            tables.escape_markdown(NOTE),
        ]

    def test_latex(self, data: ReportData) -> None:
        lines = WRITERS["latex"](data).splitlines()
        assert lines[0] == r"% needs \usepackage{booktabs}"
        assert lines[4] == rf"\caption{{{tables.escape_latex(NOTE)}}}"
        assert lines[5:] == [
            r"\begin{tabular}{lllr}",
            r"\toprule",
            r"Method & Backbone & Setting & my\_bed \\",
            r"\midrule",
            r"m0 & net & inductive & \textbf{50.0 $\pm$ 0.0}\rlap{$^{=}$} \\",
            r"m1 (run b) & net & inductive & \textbf{62.5 $\pm$ 43.1}\rlap{$^{=}$} \\",
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
        ]

    def test_rows(self, data: ReportData) -> None:
        first, second = json.loads(WRITERS["json"](data))
        assert list(first) == [
            *("testbed", "backbone", "method", "setting", "kind", "note"),
            *("mean", "low", "high", "class_low", "class_high", "n", "std"),
            *("balanced_accuracy", "normalized_accuracy", "top5", "loss", "seconds"),
            *("seconds_median", "seconds_total", "chance", "p_against_best", "mark"),
            *("unranked", "leak", "testbed_hash"),
        ]
        assert (first["mean"], first["low"], first["std"]) == (0.5, 0.5, 0.0)
        assert first["chance"] == pytest.approx(0.2, abs=1e-15)
        assert (second["mean"], second["seconds_median"], second["seconds_total"]) == (0.625, 0.625, 3.75)
        assert second["std"] == pytest.approx((6 * 0.375**2 / 5) ** 0.5)
        test = stats.permutation_test(
            ([-0.25, 0.5] * 3,), np.mean, permutation_type="samples", n_resamples=np.inf
        )
        assert first["p_against_best"] == pytest.approx(test.pvalue)
        assert (first["mark"], second["p_against_best"], first["testbed"]) == ("tied", None, "my_bed")

    def test_csv_is_the_same(self, data: ReportData) -> None:
        header, first, _ = WRITERS["csv"](data).splitlines()
        assert header.split(",")[:7] == ["testbed", "backbone", "method", "setting", "kind", "note", "mean"]
        assert first.startswith("my_bed,net,m0,inductive,frozen,,0.5,0.5,0.5,,,6,0.0,")


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [(0.8431, 1, "84.3"), (0.8437, 2, "84.37"), (-0.05, 1, "−5.0"), (math.nan, 1, "–")],
)
def test_percent(value: float, digits: int, text: str) -> None:
    assert percent(value, digits) == text


def test_every_special_letter_is_escaped() -> None:
    assert tables.escape_markdown(r"\ ` * < > | [ ] ~ _x x_y x_") == r"\\ \` \* \< \> \| \[ \] \~ \_x x_y x\_"
    assert tables.escape_latex("\\{}&%$#_~^<>|\"'-±–·×") == (
        r"\textbackslash{}\{\}\&\%\$\#\_\textasciitilde{}\textasciicircum{}\textless{}\textgreater{}\textbar{}"
        r"""{"}{'}{-}$\pm$--$\cdot$$\times$"""
    )
    assert tables.escape_latex("a\n b") == tables.escape_markdown("a\n b") == "a b"


def test_numbers_in_words() -> None:
    assert [percent(share) for share in (0.8431, 1.0, float("nan"))] == ["84.3", "100.0", "–"]
    assert [points(gap) for gap in (0.031, -0.031, 0.0, float("nan"))] == ["+3.1", "−3.1", "+0.0", "–"]
    assert plus_minus(0.8431, 0.0062, digits=2) == "84.31 ± 0.62"
    assert plus_minus(0.8431, float("nan")) == "84.3"
