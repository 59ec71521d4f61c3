"""Tables in the layout of the semantic-sampling paper's table 3."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from longshot.base import UserError
from longshot.reports import paper_tables, published, read_runs, render_report

from .conftest import MakeRun
from .runs import DEFAULT

NAMES = tuple(f"kind/{number}" for number in range(9))
BEDS = {
    "many": {"way": 8, "shot": 5},
    "few-5": {"shot": 5},
    "few-1": {"shot": 1},
    "any": {"vary": True},
    "fine": {"classes_by": "semantic"},
}
HEADS = [("", "Method"), ("", "Backbone"), ("", "Setting")]


@pytest.fixture
def run(make_run: MakeRun) -> Path:
    return make_run(
        beds=BEDS, tasks=40, names=NAMES, series=[*DEFAULT, {**DEFAULT[2], "method": "tim(steps=9)"}]
    )


def test_columns_are_uniform_testbeds_by_ways_then_shots(run: Path) -> None:
    (sheet,) = paper_tables.way_sheets(read_runs(run))
    assert sheet.heads == [
        *HEADS,
        ("5-way", "1-shot top-1"),
        ("5-way", "5-shot top-1"),
        ("8-way", "5-shot top-1"),
        ("8-way", "5-shot top-5"),
    ]
    assert sheet.note.endswith("Not uniform, or of several shapes, and not shown: any, fine.")


def test_the_numbers_are_those_of_the_rows(run: Path) -> None:
    data = read_runs(run)
    (sheet,) = paper_tables.way_sheets(data)
    first = sheet.blocks[0][0]
    beds = [bed.name for bed in data.beds]
    expected = [
        *(data.cells[beds.index(name), 0].accuracy.mean() for name in ("few-1", "few-5", "many")),
        data.cells[beds.index("many"), 0].metrics["top5"].mean(),
    ]
    assert [cell.text.split(" ± ")[0] for cell in first[3:]] == [f"{100 * mean:.2f}" for mean in expected]


def test_inductive_rows_stand_above_and_ties_are_shared(run: Path) -> None:
    (sheet,) = paper_tables.way_sheets(read_runs(run))
    assert [{row[2].text for row in block} for block in sheet.blocks] == [{"inductive"}, {"transductive"}]
    for block in sheet.blocks:
        for column in zip(*(row[3:] for row in block), strict=True):
            marks = [cell.mark for cell in column if cell.mark]
            assert marks in ([], ["best"]) or (len(marks) > 1 and set(marks) == {"tied"})
            assert marks or len(block) == 1 or not any(cell.text.strip("–") for cell in column)


def test_published_table_is_as_printed_and_never_bold(run: Path) -> None:
    text = render_report(read_runs(run), format="md", layout="ways", published="semantic")
    theirs = text[text.index("**Published: Bennequin et al., 2022") :]
    rows = [line for line in theirs.splitlines() if "(published)" in line]
    assert len(rows) == 5 and "other settings: TIM;" in theirs and not any("**" in row for row in rows)
    assert rows[1] == (
        "| Finetune (published) | ResNet-18 | inductive | 47.00 ± 0.30 | 65.06 ± 0.29 | 9.70 ± 0.09 | 25.94 ± 0.15 "
        "| 19.60 ± 0.12 | 44.25 ± 0.17 |"
    )


def test_latex_groups_the_columns_by_ways(run: Path) -> None:
    text = render_report(read_runs(run), format="latex", layout="ways", published="semantic")
    assert text.count(r"\begin{tabular}") == 2
    assert r"\multicolumn{2}{c}{5{-}way} & \multicolumn{2}{c}{8{-}way}" in text
    assert r"\cmidrule(lr){4-5}\cmidrule(lr){6-7}" in text
    first = text[: text.index(r"\end{table}")]
    rows = [line for line in first.splitlines() if line.endswith(r"\\") and "multicolumn" not in line]
    assert {len(re.findall(r"(?<!\\)&", line)) for line in rows} == {6}


def test_two_testbeds_of_one_shape_are_told_apart(make_run: MakeRun) -> None:
    (sheet,) = paper_tables.way_sheets(read_runs(make_run(beds={"one": False, "two": False})))
    assert [head for _, head in sheet.heads[3:]] == ["2-shot top-1 (one)", "2-shot top-1 (two)"]


def test_without_a_uniform_testbed_the_layout_is_refused(make_run: MakeRun) -> None:
    with pytest.raises(UserError, match="tasks of one shape, and 0 of 2 are such"):
        paper_tables.way_sheets(
            read_runs(make_run(beds={"any": True, "fine": {"classes_by": "semantic"}})), published("semantic")
        )
