"""The table of accuracies by quartile of coarsity."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from longshot.reports import read_runs, summarise
from longshot.reports.sections.coarsity_quartiles import quartile_sheet
from longshot.statistics import quantile_bins

from .conftest import MakeRun

FINE = {"coarsity": True, "classes_by": "semantic", "shot": 5}


@pytest.fixture
def run(make_run: MakeRun) -> Path:
    return make_run(beds={"plain": {"shot": 5}, "fine": FINE}, tasks=40)


def test_columns_are_the_whole_testbed_and_equal_quarters(run: Path) -> None:
    data = read_runs(run)
    sheet = quartile_sheet(data, summarise(data), 1)
    assert sheet is not None
    for line in sheet.rows:
        series = line[0].label.colour  # type: ignore[union-attr]
        cell = data.cells[1, series]
        assert cell.coarsity is not None
        bins = quantile_bins(cell.coarsity)
        assert np.bincount(bins).tolist() == [10, 10, 10, 10]
        expected = [cell.accuracy.mean(), *(cell.accuracy[bins == quarter].mean() for quarter in range(4))]
        assert [each.value for each in line[1:]] == pytest.approx(expected)


def test_inductive_rows_come_first_and_a_tie_is_never_bold_alone(run: Path) -> None:
    data = read_runs(run)
    sheet = quartile_sheet(data, summarise(data), 1)
    assert sheet is not None
    settings = [data.series[line[0].label.colour].setting for line in sheet.rows]  # type: ignore[union-attr]
    assert settings == sorted(settings)
    inductive = [line for line, setting in zip(sheet.rows, settings, strict=True) if setting == "inductive"]
    for column in list(zip(*inductive, strict=True))[1:]:
        marks = [each.mark for each in column if each.mark]
        assert marks in ([], ["best"]) or (len(marks) > 1 and set(marks) == {"tied"})


def test_without_coarsity_there_is_no_table(run: Path) -> None:
    data = read_runs(run)
    assert quartile_sheet(data, summarise(data), 0) is None
