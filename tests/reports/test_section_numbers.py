"""The sections on results whose answers are known by arithmetic, and at the bounds of their rules."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from longshot.base import UserError
from longshot.reports import EstimateRow
from longshot.reports.costs import pareto
from longshot.reports.report_data import Cell, ReportData, Shared
from longshot.reports.sections import (
    Request,
    focused,
    plot_label,
    rankings,
    shown_series,
    span,
    strongest,
    task_difficulty,
)
from longshot.reports.summary import compare_all, summarise
from longshot.reports.tables import duration
from longshot.statistics import Interval, critical_difference, mean_interval, points, tasks_needed

from .runs import cell, report_of


def request(data: ReportData, **options: Any) -> Request:
    pairs = compare_all(data)
    return Request(
        data, pairs, summarise(data, pairs), **{"images": None, "pictures": 0, "focus": None, **options}
    )


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[EstimateRow], dict[str, Any]]]:
    """What the sections hand to the plot of intervals."""
    drawn_rows: list[tuple[list[EstimateRow], dict[str, Any]]] = []

    def draw(estimates: list[EstimateRow], **options: Any) -> str:
        drawn_rows.append((estimates, options))
        return "<svg/>"

    for module in (task_difficulty, rankings):
        monkeypatch.setattr(module, "intervals", draw)
    return drawn_rows


class TestBase:
    def test_points_have_a_sign(self) -> None:
        assert [points(value) for value in (-0.031, 0.0, 0.1234, math.nan)] == ["−3.1", "+0.0", "+12.3", "–"]
        assert points(0.1234, 2) == "+12.34"

    def test_a_span(self) -> None:
        assert span(Interval(0.01, 0.005, 0.015, 9)) == "+1.0 [+0.5, +1.5]"
        assert span(Interval(0.01, None, None, 1)) == "+1.0"

    def test_the_strongest_are_shown_in_the_reports_order(self) -> None:
        page = request(report_of([cell([0.1, 0.1]), cell([0.9, 0.9]), cell([0.5, 0.5])]))
        column, left_out = strongest(page, 0, 2)
        assert ([s for s, _ in column], left_out) == ([1, 2], 1)
        assert strongest(page, 0, 3)[1] == 0

    def test_focus(self) -> None:
        data = report_of([cell([0.9, 0.9]), cell([0.1, 0.1])])
        assert focused(data, None) is None and focused(data, "M1") == [1]
        assert shown_series(request(data), 0) == 0 and shown_series(request(data, focus="m1"), 0) == 1
        with pytest.raises(UserError, match=r"'m2' in its name; there are 2: 'm0 · net', 'm1 · net'\."):
            focused(data, "m2")

    def test_labels_leave_out_what_all_share(self) -> None:
        data = report_of([cell([0.5]), cell([0.5])])
        series = (data.series[0], replace(data.series[1], setting="transductive", note="seed 1"))
        data = replace(data, series=series)
        assert [plot_label(data, s) for s in (0, 1)] == ["m0", "m1 · seed 1 (t)"]
        other = replace(data, series=(series[0], replace(series[1], backbone="b")))
        assert plot_label(other, 0) == "m0 · net"
        assert plot_label(replace(data, series=series[:1]), 0) == "m0 · net"


class TestPaired:
    def test_the_difference_is_to_the_best_whichever_comes_first(self, rows: Any) -> None:
        low, high = [0.25, 0.5, 0.75, 0.5], [0.5, 0.75, 0.5, 0.5]
        for cells, sign in (((low, high), 0), ((high, low), 1)):
            page = request(report_of([cell(values) for values in cells]))
            section = rankings.paired(page)
            assert section is not None
            (panel,) = section.context["panels"]
            (line,) = panel["lines"]
            assert (panel["index"], line["series"], panel["tasks"], panel["ties"]) == (1 - sign, sign, 4, 1)
            assert line["mean"] == -0.0625
            assert (line["wins"], line["ties"], line["losses"]) == (0.25, 0.25, 0.5)
            expected = mean_interval(np.subtract(low, high))
            assert line["bounds"] == pytest.approx((100 * expected.low, 100 * expected.high))  # type: ignore[operator]
            assert line["note"] == "−6.2 tie · 25/25/50"
            ((row,), options) = rows.pop()
            assert (row.value, row.low, row.high) == (-6.25, *line["bounds"])
            assert options["zero"] is True

    def test_a_sure_difference_is_no_tie(self, rows: Any) -> None:
        section = rankings.paired(request(report_of([cell([0.5] * 6), cell([0.75] * 6)])))
        assert section is not None
        assert section.context["panels"][0]["lines"][0]["note"] == "−25.0 · 0/0/100"
        assert section.context["count"] == 1

    def test_the_nearest_come_first(self, rows: Any) -> None:
        cells = [cell(np.full(3, mean)) for mean in (0.1, 0.9, 0.5)]
        section = rankings.paired(request(report_of(cells)))
        assert section is not None
        assert [line["series"] for line in section.context["panels"][0]["lines"]] == [2, 0]


def named(accuracy: list[float], names: str) -> Cell:
    return cell(accuracy, datasets=tuple(names))


class TestRanks:
    def test_five_datasets_are_blocks_and_four_are_not(self) -> None:
        accuracy = np.arange(20.0).reshape(10, 2)

        def blocks(names: str) -> tuple[str, Any]:
            return rankings.blocks(Shared((0, 1), np.arange(10), accuracy, tuple(names)))

        kind, scores = blocks("aabbccddee")
        assert kind == "datasets" and scores.tolist() == [[4 * i + 1.0, 4 * i + 2.0] for i in range(5)]
        kind, scores = blocks("aabbccdddd")
        assert kind == "tasks" and scores is accuracy

    def test_rows_reach_half_the_critical_difference(self, rows: Any) -> None:
        accuracy = [[0.9, 0.8, 0.9, 0.7], [0.5, 0.6, 0.5, 0.75], [0.1, 0.2, 0.1, 0.2]]
        data = report_of([named(values, "xxxx") for values in accuracy])
        section = rankings.ranks(request(data))
        assert section is not None
        ((drawn_rows, options),) = rows
        (bed,) = data.beds
        wider = bed.classes_of(np.arange(4)).interval([1, 1, 1, 2]).half  # the ranks of the first series
        assert [(row.index, row.value, row.note) for row in drawn_rows] == [
            (0, 1.25, f"1.25 (± {wider:.2f})"),
            (1, 1.75, f"1.75 (± {wider:.2f})"),
            (2, 3.0, "3.00 (± 0.00)"),
        ]
        difference = critical_difference(np.transpose(accuracy)).difference
        assert drawn_rows[0].high - drawn_rows[0].low == pytest.approx(difference)
        assert drawn_rows[0].high == pytest.approx(1.25 + difference / 2)
        assert (
            options["groups"] == [(0, 1), (1, 2)]
            or options["groups"] == [(0, 2)]
            or options["groups"] == [(0, 1)]
        )
        (panel,) = section.context["panels"]
        assert (panel["blocks"], panel["kind"], panel["left_out"]) == (4, "tasks", 0)

    @pytest.mark.parametrize(
        ("count", "names", "there"),
        [(3, "xx", True), (2, "xx", False), (2, "xy", True), (1, "xy", False), (3, "x", False)],
    )
    def test_when_there_is_something_to_rank(self, rows: Any, count: int, names: str, there: bool) -> None:
        cells = [named([0.5 + 0.1 * s] * len(names), names) for s in range(count)]
        assert (rankings.ranks(request(report_of(cells))) is not None) == there

    def test_average_over_sources_for_series_that_have_them_all(self, rows: Any) -> None:
        """Constant accuracies have intervals of no width, so ranks are 1, 2, 3 on every source."""
        first = [named([mean] * 4, "xxyy") for mean in (0.9, 0.5, 0.1)]
        second = [named([mean] * 4, "xxyz") for mean in (0.1, 0.5)]
        data = report_of(first, [*second, named([0.3] * 4, "xxyz")])
        cells = {key: value for key, value in data.cells.items() if key != (1, 1)}
        cells[1, 0] = named([0.1] * 4, "xxyz")
        section = rankings.source_ranks(data, {b: replace(data, cells=cells).shared(b) for b in (0, 1)})
        assert section["sources"] == [
            ("0", "x"),
            ("0", "y"),
            ("1", "x"),
        ]  # y and z of the second have one task each
        assert [(s, places) for s, _, places, _ in section["lines"][:2]] == [
            (0, [1.0, 1.0, 2.0]),
            (2, [3.0, 3.0, 1.0]),
        ]
        assert section["lines"][0][3] == pytest.approx(4 / 3) and section["lines"][1][3] == pytest.approx(
            7 / 3
        )
        s, _, places, average = section["lines"][2]
        assert s == 1 and places[:2] == [2.0, 2.0] and math.isnan(places[2]) and math.isnan(average)


class TestDrops:
    def test_the_change_and_its_interval(self, rows: Any) -> None:
        before, after = [0.8, 0.9, 0.7, 0.8], [0.5, 0.6, 0.3, 0.4]
        data = report_of([named(before, "xxxx")], [named(after, "xxxx")])
        section = task_difficulty.drop(request(data))
        assert section is not None and section.context["start"] == "0"
        (panel,) = section.context["panels"]
        assert (panel["bed"], panel["paired"], panel["other_shape"], panel["left_out"]) == (
            "1",
            False,
            False,
            0,
        )
        (((row,), options),) = rows
        welch = stats.ttest_ind(before, after, equal_var=False).confidence_interval()
        assert (row.value, row.low, row.high) == pytest.approx((-35.0, -100 * welch.high, -100 * welch.low))
        assert row.note == "80.0 → 45.0: −35.0" and options["zero"] is True

    def test_the_smallest_drop_comes_first(self, rows: Any) -> None:
        starts = [named([0.9, 0.8], "xx"), named([0.9, 0.8], "xx")]
        data = report_of(starts, [named([0.2, 0.1], "xx"), named([0.7, 0.6], "xx")])
        task_difficulty.drop(request(data))
        assert [row.index for row in rows[0][0]] == [1, 0]

    def test_other_ways_or_shots_are_told(self, rows: Any) -> None:
        for change in ({"way": np.array([5.0, 6.0])}, {"shot": np.array([1.0, 2.0])}):
            data = report_of([named([0.9, 0.8], "xx")], [replace(named([0.7, 0.6], "xx"), **change)])
            section = task_difficulty.drop(request(data))
            assert section is not None and section.context["panels"][0]["other_shape"]

    def test_parts_are_listed_where_there_are_several(self, rows: Any) -> None:
        single = report_of([named([0.9, 0.8], "xx")], [named([0.7, 0.6], "xx")])
        several = report_of([named([0.9, 0.8], "xy")], [named([0.7, 0.6], "xy")])
        counts = []
        for data in (single, several):
            section = task_difficulty.drop(request(data))
            assert section is not None
            counts.append([line[2].dataset for line in section.context["panels"][0]["lines"]])
        assert counts == [[None], ["x", "y", None]]

    def test_testbeds_without_a_common_dataset_have_no_drop(self) -> None:
        assert task_difficulty.bed_drops(report_of([named([0.9], "x")], [named([0.7], "y")]), 0, 1) == []

    def test_intrinsic_and_modelling_difficulty(self, rows: Any) -> None:
        """The best leaves 0.25 unsolved; from the worst to the best it is 0.5."""
        cells = [named([0.5, 1.0], "xx"), named([0.25, 0.25], "xx")]
        section = task_difficulty.drop(request(report_of(cells, [named([0.5, 0.5], "xx")])))
        assert section is not None
        (line,) = section.context["datasets"].rows  # the second testbed has one series
        assert (line[2].value, line[3].value) == (0.25, 0.5)
        assert [each.label and each.label.colour for each in line[4:]] == [0, 1]


class TestPlanning:
    def test_tasks_for_half_a_point(self) -> None:
        values = np.tile([0.4, 0.6], 20)
        data = report_of([cell(values), cell(values + np.tile([0.01, 0.02], 20))])
        section = rankings.enough(request(data))
        assert section is not None
        first, second = section.context["lines"]
        assert first["needed"] == tasks_needed(float(np.std(values, ddof=1)), 0.005)
        assert first["against"] == tasks_needed(float(np.std(np.tile([0.01, 0.02], 20), ddof=1)), 0.005)
        assert second["against"] is None and not first["enough"]
        assert (first["n"], first["first"], second["first"]) == (40, 0.0, 1.0)
        (finding,) = section.context["findings"]
        assert finding["settled"] and finding["same"] == 1.0 and finding["doubtful"] == []

    def test_as_many_as_are_needed_are_enough(self, monkeypatch: pytest.MonkeyPatch) -> None:
        data = report_of([cell([0.4, 0.6] * 3)])
        for needed, expected in ((6, True), (7, False)):
            monkeypatch.setattr("longshot.statistics.tasks_needed", lambda *_, needed=needed: needed)
            section = rankings.enough(request(data))
            assert section is not None and section.context["lines"][0]["enough"] is expected

    @pytest.mark.parametrize(("share", "doubtful"), [(0.95, []), (0.9499, [("m1 · net", "m0 · net")])])
    def test_below_95_percent_an_order_is_doubtful(
        self, share: float, doubtful: list[Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        data = report_of([cell([0.4, 0.6]), cell([0.5, 0.7])])
        stable = rankings._stability(data.shared(0))
        above = np.array([[0.5, 1 - share], [share, 0.5]])
        monkeypatch.setattr(rankings, "_stability", lambda _: replace(stable, above=above))
        section = rankings.enough(request(data))
        assert section is not None and section.context["findings"][0]["doubtful"] == doubtful

    def test_single_tasks_plan_nothing(self) -> None:
        assert rankings.enough(request(report_of([cell([0.5]), cell([0.6])]))) is None


class TestCosts:
    def test_nothing_on_the_front_is_dominated(self) -> None:
        seconds, accuracy = np.array([1.0, 1.0, 2.0, 2.0, 3.0]), np.array([0.5, 0.6, 0.6, 0.7, 0.7])
        assert pareto(seconds, accuracy).tolist() == [False, True, False, True, False]
        assert pareto(np.array([1.0, 1.0]), np.array([0.5, 0.5])).tolist() == [True, True]

    @pytest.mark.parametrize(
        ("seconds", "text"),
        [
            (3600.0, "1.00 h"),
            (3599.0, "60.0 min"),
            (60.0, "1.00 min"),
            (59.9, "59.9 s"),
            (10.0, "10.0 s"),
            (9.99, "9.99 s"),
            (1.0, "1.00 s"),
            (0.1, "100 ms"),
            (1e-3, "1.00 ms"),
            (9.9e-4, "990 µs"),
            (1e-9, "0.00 µs"),
            (math.nan, "–"),
        ],
    )
    def test_durations(self, seconds: float, text: str) -> None:
        assert duration(seconds) == text
