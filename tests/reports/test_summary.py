"""Means, intervals and shared first places, against SciPy and against arithmetic at the bounds."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from longshot.evaluation import compare
from longshot.reports import column_marks, read_runs
from longshot.reports.report_data import COLUMNS, Cell, ReportData
from longshot.reports.summary import (
    CorrectedComparison,
    compare_all,
    first_place,
    highest,
    interval,
    leaders,
    summarise,
    time_spent,
)
from longshot.statistics import Interval, class_interval, compare_paired, holm

from .conftest import MakeRun
from .runs import DEFAULT, cell, read_rows, report_of


def test_interval_is_student_t() -> None:
    values = np.random.default_rng(0).random(40)
    low, high = stats.t.interval(0.95, 39, loc=values.mean(), scale=stats.sem(values))
    assert interval(values) == pytest.approx((values.mean(), low, high))


def test_one_task_has_no_interval() -> None:
    mean, low, high = interval(np.array([0.5]))
    assert mean == 0.5 and math.isnan(low) and math.isnan(high)


def marks(*cells: Cell) -> tuple[list[str], list[float]]:
    data = report_of(list(cells))
    placed = first_place(data, 0, compare_all(data))
    return [placed[s].mark for s in range(len(cells))], [placed[s].p for s in range(len(cells))]


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
    shown = [(t.result, t.p, t.tied) for t in compare_all(read_runs(run)).values()]
    printed = [(c.result, c.p_holm, c.verdict == "tied") for c in compare(run).pairs]
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
    data = read_runs(run)
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


BELOW = math.nextafter(0.05, 0)


class TestTieThreshold:
    """Five per cent is a tie, anything below is not."""

    def corrected(self, p: float) -> CorrectedComparison:
        return CorrectedComparison(compare_paired([0.5, 0.5], [0.25, 0.25]), p)

    def test_a_pair(self) -> None:
        assert self.corrected(0.05).tied and not self.corrected(BELOW).tied

    @pytest.mark.parametrize(("p", "expected"), [(0.05, ["tied", "tied"]), (BELOW, ["best", ""])])
    def test_the_first_place(self, p: float, expected: list[str]) -> None:
        data = report_of([cell([0.5, 0.5]), cell([0.25, 0.25])])
        first, second = (first_place(data, 0, {(0, 0, 1): self.corrected(p)})[s] for s in (0, 1))
        assert [first.mark, second.mark] == expected
        assert math.isnan(first.p) and second.p == p

    @pytest.mark.parametrize(("p", "expected"), [(0.05, ["tied", "tied"]), (BELOW, ["", "best"])])
    def test_a_part_of_a_testbed(
        self, p: float, expected: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("longshot.statistics.holm", lambda _: [p])
        assert column_marks(np.array([[0.25, 0.5], [0.25, 0.5]])) == expected

    def test_five_equal_wins_tie_and_six_do_not(self) -> None:
        """All signs alike: p = 2 / 2^n, 0.0625 for five tasks and 0.03125 for six."""
        given_marks, p_values = marks(cell([0.5] * 5), cell([0.75] * 5))
        assert given_marks == ["tied", "tied"] and p_values[0] == 0.0625 and math.isnan(p_values[1])
        assert marks(cell([0.5] * 6), cell([0.75] * 6))[0] == ["", "best"]
        assert column_marks(np.array([[0.5, 0.75]] * 5)) == ["tied", "tied"]
        assert column_marks(np.array([[0.5, 0.75]] * 6)) == ["", "best"]

    def test_one_series_or_one_task_is_not_marked(self) -> None:
        assert column_marks(np.array([[0.5]] * 6)) == [""]
        assert column_marks(np.array([[0.5, 0.75]])) == ["", ""]

    def test_holm_multiplies_by_the_number_of_pairs(self) -> None:
        """Seven tasks: p = 1/64; three pairs of which two are as small: 3/64 < 0.05 ≤ 3/32 with six tasks."""
        low, high = [0.25] * 7, [0.75] * 7
        assert marks(cell(low), cell(low), cell(high))[0] == ["", "", "best"]
        assert marks(cell(low[:6]), cell(low[:6]), cell(high[:6]))[0] == ["tied", "tied", "tied"]
        assert column_marks(np.array([low, low, high]).T) == ["", "", "best"]
        assert column_marks(np.array([low[:6], low[:6], high[:6]]).T) == ["tied", "tied", "tied"]


def test_a_series_that_cannot_be_tested_leaves_all_without_marks() -> None:
    shared = cell([0.5] * 9)
    lone = cell([0.9, 0.9], [8, 9])  # one task in common
    assert marks(shared, cell([0.1] * 9), lone)[0] == ["", "", ""]


def test_two_tasks_in_common_are_tested_and_one_is_not() -> None:
    data = report_of([cell([0.5, 0.5], [0, 1]), cell([0.25, 0.25], [0, 1]), cell([0.5, 0.5], [1, 2])])
    assert list(compare_all(data)) == [(0, 0, 1)]


def test_means_equal_up_to_rounding_are_equal() -> None:
    assert highest([(4, cell([0.5])), (7, cell([0.5 + 1e-13]))]) == 4
    assert highest([(4, cell([0.5])), (7, cell([0.5 + 1e-11]))]) == 7
    accuracy = np.array([[0.5, 0.5 + 1e-13]] * 6)
    assert column_marks(accuracy)[0] != ""  # the first of equals is never below


def test_numbers_of_an_entry() -> None:
    values = np.array([0.2, 0.6])
    metrics = {**dict.fromkeys(COLUMNS, values), "loss": np.array([1.0, np.nan])}
    data = report_of([Cell(np.arange(2), metrics, np.array([2.0, 4.0]), np.ones(2), None)])
    entry = summarise(data)[0, 0]
    assert (entry.bed, entry.series, entry.n, entry.mark) == (0, 0, 2, "")
    assert entry.mean == pytest.approx(0.4, abs=1e-15) and entry.chance == 0.375
    assert entry.std == pytest.approx(0.08**0.5)
    half = stats.t.ppf(0.975, 1) * 0.2  # s / √n = √0.08 / √2
    assert (*entry.bounds, entry.half) == pytest.approx((0.4 - half, 0.4 + half, half))
    assert entry.metrics["top5"] == pytest.approx(0.4) and math.isnan(entry.metrics["loss"])
    assert math.isnan(entry.p)


def test_one_task_has_no_spread() -> None:
    assert math.isnan(summarise(report_of([cell([0.5])]))[0, 0].std)


def test_median_and_sum_of_the_seconds() -> None:
    assert time_spent(cell([1.0, 9.0, 2.0])) == (2.0, 12.0)
    assert all(map(math.isnan, time_spent(cell([1.0, np.nan]))))


def test_leaders_are_the_marked_or_the_highest() -> None:
    data = report_of([cell([0.5] * 8), cell([0.75] * 8), cell([0.75] * 8)])
    (first,) = leaders(data, summarise(data), 0)
    assert ([leader.method for leader in first.series], first.top.series) == (["m1", "m2"], 1)
    alone = report_of([cell([0.5])])
    assert [leader.method for leader in leaders(alone, summarise(alone), 0)[0].series] == ["m0"]


class TestSettings:
    """Transductive methods see more: each setting has its own first place, however high the other's is."""

    def data(self) -> ReportData:
        data = report_of([cell([0.9] * 8), cell([0.5] * 8), cell([0.75] * 8), cell([0.8] * 8)])
        settings = ("transductive", "inductive", "inductive", "transductive")
        series = tuple(replace(s, setting=setting) for s, setting in zip(data.series, settings, strict=True))
        return replace(data, series=series)

    def test_each_has_a_best(self) -> None:
        data = self.data()
        entries = summarise(data)
        assert [entries[0, s].mark for s in range(4)] == ["best", "", "best", ""]
        assert [math.isnan(entries[0, s].p) for s in range(4)] == [True, False, True, False]

    def test_leaders_stand_inductive_first(self) -> None:
        data = self.data()
        first = leaders(data, summarise(data), 0)
        assert [(leader.setting, leader.top.series) for leader in first] == [
            ("inductive", 2),
            ("transductive", 0),
        ]

    def test_parts_follow_the_same_rule(self) -> None:
        accuracy = np.array([[0.9, 0.5, 0.75, 0.8]] * 8)
        assert column_marks(accuracy, ["t", "i", "i", "t"]) == ["best", "", "best", ""]
        assert column_marks(accuracy) == ["best", "", "", ""]
        assert column_marks(accuracy[:, :2], ["t", "i"]) == ["", ""]  # nothing was tested


def test_the_interval_over_classes_of_a_run(make_run: MakeRun) -> None:
    data = read_runs(make_run(tasks=40))
    testbed, rows = data.beds[0].testbed, data.cells[0, 0]
    assert testbed is not None and rows.predictions is not None
    accuracy, classes = [], []
    for task, predicted in zip(rows.tasks.tolist(), rows.predictions.to_pylist(), strict=True):
        row = testbed.table.slice(task, 1).to_pylist()[0]
        accuracy.append(np.mean([a == b for a, b in zip(row["query_label"], predicted, strict=True)]))
        classes.append(row["classes"])
    expected = class_interval(accuracy, classes)
    entry = summarise(data)[0, 0]
    assert entry.class_bounds == pytest.approx((expected.low, expected.high))


@pytest.mark.parametrize(
    ("class_half", "shown"), [(0.119, None), (0.121, 0.121), (0.079, 0.079), (math.nan, None)]
)
def test_an_interval_over_classes_is_shown_where_it_differs(class_half: float, shown: float | None) -> None:
    entry = summarise(report_of([cell([0.5, 0.5])]))[0, 0]
    wider = None if math.isnan(class_half) else Interval(0.5, 0.5 - class_half, 0.5 + class_half, 9)
    entry = replace(entry, accuracy=Interval(0.5, 0.4, 0.6, 2), over_classes=wider)
    assert entry.notable_class_half == (None if shown is None else pytest.approx(shown))
