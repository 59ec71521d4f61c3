"""Means, intervals and shared first places, against SciPy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from longshot.evaluation.compare import compare_within
from longshot.evaluation.results import Results
from longshot.reports.data import METRICS, Cell, ReportData, ReportSeries, ReportTestbed, load
from longshot.reports.summary import column_marks, compare_all, first_place, interval, summarise
from longshot.statistics import compare_paired, holm

from .conftest import MakeRun
from .runs import DEFAULT, read_rows


def cell(accuracy: list[float] | np.ndarray, tasks: list[int] | None = None) -> Cell:
    values = np.asarray(accuracy, dtype=float)
    ones = np.ones(len(values))
    numbers = np.arange(len(values)) if tasks is None else np.asarray(tasks)
    return Cell(numbers, dict.fromkeys(METRICS, values), 5 * ones, ones, None)


def test_interval_is_student_t() -> None:
    values = np.random.default_rng(0).random(40)
    low, high = stats.t.interval(0.95, 39, loc=values.mean(), scale=stats.sem(values))
    assert interval(values) == pytest.approx((values.mean(), low, high))


def test_one_task_has_no_interval() -> None:
    mean, low, high = interval(np.array([0.5]))
    assert mean == 0.5 and math.isnan(low) and math.isnan(high)


def report_of(*beds: list[Cell]) -> ReportData:
    """Testbeds without names, the i-th cell of each belonging to series i."""
    count = max(map(len, beds))
    return ReportData(
        runs=(),
        names=(),
        missing=(),
        beds=tuple(ReportTestbed(str(b), str(b), None) for b in range(len(beds))),
        series=tuple(ReportSeries("net", f"m{s}", "inductive") for s in range(count)),
        cells={(b, s): cell for b, cells in enumerate(beds) for s, cell in enumerate(cells)},
    )


def marks(*cells: Cell) -> tuple[list[str], list[float]]:
    data = report_of(list(cells))
    by_series, p = first_place(data, 0, compare_all(data))
    return list(by_series.values()), list(p.values())


def test_pairs_are_formed_by_task_number() -> None:
    before, after = cell([0.1, 0.2, 0.9], [0, 1, 7]), cell([0.3, 0.9, 0.5], [1, 7, 9])
    tested = compare_all(report_of([before, after]))[0, 0, 1]
    assert tested.result == compare_paired([0.2, 0.9], [0.3, 0.9])


def test_p_is_corrected_over_all_pairs_of_all_testbeds() -> None:
    rng = np.random.default_rng(1)
    beds = [[cell(rng.integers(0, 21, 30) / 20) for _ in range(3)] for _ in range(2)]
    pairs = compare_all(report_of(*beds))
    assert len(pairs) == 6
    assert [pair.p for pair in pairs.values()] == pytest.approx(
        holm([pair.result.p for pair in pairs.values()])
    )


def test_page_and_compare_agree(make_run: MakeRun) -> None:
    run = make_run(
        tasks=40, beds={"one": False, "two": True}, series=[*DEFAULT, {**DEFAULT[0], "backbone": "b"}]
    )
    shown = [(t.result, t.p, t.tied) for t in compare_all(load(run)).values()]
    printed = [(c.result, c.p_holm, c.verdict == "tied") for c in compare_within(Results(run))]
    assert shown == printed and len(shown) == 12


def test_a_clear_leader_is_best() -> None:
    rng = np.random.default_rng(2)
    base = rng.random(100) * 0.5
    given_marks, p = marks(cell(base), cell(base + 0.3 + 0.01 * rng.random(100)))
    assert given_marks == ["", "best"]
    assert p[0] < 0.05 and math.isnan(p[1])


def test_what_the_test_does_not_separate_ties() -> None:
    rng = np.random.default_rng(3)
    base = rng.random(60)
    given_marks, _ = marks(cell(base + 0.001 * rng.standard_normal(60)), cell(base), cell(base - 0.4))
    assert given_marks == ["tied", "tied", ""]


def test_equal_rows_tie() -> None:
    assert marks(cell([0.2, 0.6]), cell([0.2, 0.6]))[0] == ["tied", "tied"]


def test_one_series_is_not_marked() -> None:
    assert marks(cell([0.2, 0.6]))[0] == [""]


def test_a_single_task_marks_nobody() -> None:
    assert marks(cell([0.2]), cell([0.6]))[0] == ["", ""]


def test_marks_of_a_part_follow_the_same_rule() -> None:
    rng = np.random.default_rng(4)
    base = rng.integers(0, 11, 40) / 20
    cells = [base, base + 0.3, base + 0.3 + rng.choice([-0.05, 0.05], 40)]
    assert column_marks(np.stack(cells, axis=1)) == marks(*map(cell, cells))[0] == ["", "tied", "tied"]


def test_summary_of_a_run_equals_the_rows(make_run: MakeRun) -> None:
    run = make_run()
    data = load(run)
    rows = read_rows(run).to_pylist()
    for (bed, series), entry in summarise(data).items():
        measured = data.series[series]
        values = [
            row["accuracy"]
            for row in rows
            if (row["testbed"], row["backbone"], row["method"])
            == (data.beds[bed].hash, measured.backbone, measured.method)
        ]
        assert entry.n == len(values) == 30
        assert entry.mean == pytest.approx(np.mean(values))
