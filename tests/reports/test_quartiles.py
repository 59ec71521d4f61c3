"""Tables in the layout of the semantic-sampling paper."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from longshot.base import UserError
from longshot.reports import paper_tables, published, read_runs, render_report
from longshot.statistics import quantile_bins

from .conftest import MakeRun
from .runs import DEFAULT

FINE = {"coarsity": True, "classes_by": "semantic", "shot": 5}
BEDS = {"plain": {"shot": 5}, "fine": FINE}


@pytest.fixture
def run(make_run: MakeRun) -> Path:
    return make_run(beds=BEDS, tasks=40, series=[*DEFAULT, {**DEFAULT[2], "method": "tim(steps=9)"}])


def test_columns_are_whole_quartiles_and_uniform(run: Path) -> None:
    data = read_runs(run)
    (table,) = paper_tables.quartile_tables(data)
    assert table.heads == (*paper_tables.NAMES, "Uniform testbed (plain)")
    cell = data.cells[1, 0]
    assert cell.coarsity is not None
    bins = quantile_bins(cell.coarsity)
    expected = [cell.accuracy[bins == q].mean() for q in range(4)]
    line = next(line for line in table.lines if line.series == 0)
    shown = [value.mean for value in line.values if value is not None]
    assert shown == pytest.approx([cell.accuracy.mean(), *expected, data.cells[0, 0].accuracy.mean()])


def test_inductive_rows_come_first(run: Path) -> None:
    (table,) = paper_tables.quartile_tables(read_runs(run), published("semantic"))
    settings = [line.setting for line in table.lines]
    assert settings == sorted(settings)


def test_a_tie_is_never_bold_alone(run: Path) -> None:
    (table,) = paper_tables.quartile_tables(read_runs(run))
    inductive = [line.values for line in table.lines if line.setting == "inductive"]
    assert len(inductive) > 1
    for column in zip(*inductive, strict=True):
        marks = [value.mark for value in column if value is not None and value.mark]
        assert marks == ["best"] or (len(marks) > 1 and set(marks) == {"tied"})


def test_published_rows_are_marked_and_never_bold(run: Path) -> None:
    text = render_report(read_runs(run), format="md", layout="quartiles", published="semantic")
    lines = [line for line in text.splitlines() if "(published)" in line]
    assert len(lines) == 5 and not any("**" in line for line in lines)
    assert "| ProtoNet (published) | ResNet-12 | inductive | 70.77 ± 0.37 | 59.72 |" in lines[0]


def test_a_method_with_other_settings_than_the_papers_is_left_out_and_named(run: Path) -> None:
    text = render_report(read_runs(run), format="md", layout="quartiles", published="semantic")
    assert "PT-MAP (published)" in text and "TIM (published)" not in text
    assert (
        "authors' settings (variant 'semantic-paper'). Left out, because they were run here with other"
        in text
    )
    assert 'other settings: TIM; longshot.evaluate(…, variant="semantic-paper") runs them' in text


def test_latex_separates_the_settings(run: Path) -> None:
    text = render_report(read_runs(run), format="latex", layout="quartiles", published="semantic")
    assert text.count(r"\midrule") == 2
    rows = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert {len(re.findall(r"(?<!\\)&", line)) for line in rows} == {8}


def test_without_coarsity_the_layout_is_refused(make_run: MakeRun) -> None:
    with pytest.raises(UserError, match=r"needs a testbed with the coarsity of at least 8 tasks, and 0 of 2"):
        paper_tables.quartile_tables(read_runs(make_run()))


@pytest.mark.parametrize(
    "options",
    [
        {"format": "csv", "layout": "quartiles"},
        {"format": "md", "published": "semantic"},
        {"format": "md", "layout": "odd"},
        {"format": "md", "layout": "quartiles", "published": "nobody"},
    ],
)
def test_what_does_not_go_together_is_refused(run: Path, options: dict[str, str]) -> None:
    with pytest.raises(UserError):
        render_report(read_runs(run), **options)  # type: ignore[arg-type]


def test_quartiles_are_equal_parts(run: Path) -> None:
    (table,) = paper_tables.quartile_tables(read_runs(run))
    assert len(table.ranges) == 4 and np.all(np.diff(np.array(table.ranges).reshape(-1)) >= 0)
