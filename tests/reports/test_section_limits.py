"""Sections at the bounds of their rules: how many tasks a curve needs, what is left out, what is shown."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from longshot.reports import costs, page
from longshot.reports.report_data import Cell, ReportData
from longshot.reports.sections import Request, mistakes, rankings, sampler, task_difficulty, uniform
from longshot.reports.sections.coarsity_quartiles import quartile_sheet
from longshot.reports.summary import compare_all, summarise
from longshot.reports.tables import Sheet
from longshot.statistics import Calibration, CriticalDifference, confusion, mean_interval, welch

from .runs import cell, report_of, task_columns


def request(data: ReportData, **options: Any) -> Request:
    pairs = compare_all(data)
    return Request(
        data, pairs, summarise(data, pairs), **{"images": None, "pictures": 0, "focus": None, **options}
    )


def planted_testbed(columns: dict[str, Any] | None = None, **sampler_settings: Any) -> Any:
    """As much of a testbed as sections look at."""
    tasks = len(next(iter(columns.values()))) if columns else 0
    table = pa.table({**task_columns(tasks), **(columns or {})})
    return SimpleNamespace(
        measured=list(columns or {}), table=table, meta={"sampler": sampler_settings}, datasets={"pets": "f"}
    )


def on(data: ReportData, *beds: Any) -> ReportData:
    return replace(
        data, beds=tuple(replace(bed, testbed=own) for bed, own in zip(data.beds, beds, strict=True))
    )


class TestSampler:
    def test_a_choice_is_named(self) -> None:
        bed = on(
            report_of([cell([0.5])]), planted_testbed(classes={"name": "semantic"}, instances="uniform")
        ).beds[0]
        assert (sampler(bed, "classes"), sampler(bed, "instances"), sampler(bed, "shape")) == (
            *("semantic", "uniform", ""),
        )
        assert not uniform(bed)

    @pytest.mark.parametrize(
        ("classes", "instances", "expected"),
        [("uniform", "uniform", True), ("uniform", "difficult", False), ("semantic", "uniform", False)],
    )
    def test_uniform_is_both(self, classes: str, instances: str, expected: bool) -> None:
        bed = on(
            report_of([cell([0.5])]),
            planted_testbed(classes={"name": classes}, instances={"name": instances}),
        )
        assert uniform(bed.beds[0]) is expected


class TestDifficulty:
    def test_columns_that_vary_are_measured_coarsity_first(self) -> None:
        columns = {
            "same": [1.0, 1.0, 1.0],
            "rounding": [0.1, 0.1 + 1e-12, 0.1],
            "count": [3, None, 5],
            "word": ["a", "b", "c"],
            "coarsity": [9.0, 9.0, 9.0],
            "accuracy_judged": [0.1, 0.2, 0.3],  # an outcome, no cause
        }
        own = cell([0.5, 0.6], [0, 2], coarsity=np.array([1.0, 2.0]))
        bed = on(report_of([own]), planted_testbed(columns)).beds[0]
        measured = task_difficulty.measured(bed, own)
        assert {name: values.tolist() for name, values in measured.items()} == {
            "coarsity": [1.0, 2.0],
            "count": [3.0, 5.0],  # of the tasks that were evaluated
        }

    def test_the_two_columns_closest_to_accuracy_are_drawn_beside_coarsity(self) -> None:
        columns: Any = dict.fromkeys(("a", "coarsity", "b", "c", "d"), np.zeros(2))
        strength = {"a": 0.1, "coarsity": 0.0, "b": -0.9, "c": math.nan, "d": 0.5}
        related = {name: SimpleNamespace(r=r) for name, r in strength.items()}
        assert task_difficulty._plotted(columns, related) == ["coarsity", "b", "d"]

    @pytest.mark.parametrize(("count", "window"), [(90, 30), (599, 199), (600, 200), (9000, 200)])
    def test_a_window_is_two_hundred_tasks_or_a_third(self, count: int, window: int) -> None:
        assert task_difficulty.window(count) == window

    @pytest.mark.parametrize(("tasks", "x_drawn"), [(9, [1.0]), (10, [1.0, 2.0])])
    def test_a_value_needs_ten_tasks(self, tasks: int, x_drawn: list[float]) -> None:
        x = np.repeat([1.0, 2.0], [12, tasks])
        assert task_difficulty.curve(x, np.linspace(0, 1, len(x)))[0].tolist() == x_drawn

    @pytest.mark.parametrize(("values", "rolling"), [(12, False), (13, True)])
    def test_more_than_twelve_values_are_smoothed(self, values: int, rolling: bool) -> None:
        x = np.repeat(np.arange(float(values)), 10)
        x_drawn, mean, _, _ = task_difficulty.curve(x, x / 100)
        assert (len(x_drawn) != values) is rolling
        if not rolling:
            assert mean == pytest.approx(np.arange(values) / 100)

    @pytest.mark.parametrize(("tasks", "there"), [(23, False), (24, True)])
    def test_a_panel_needs_two_values_of_ten_tasks_or_more(self, tasks: int, there: bool) -> None:
        coarsity = np.repeat([1.0, 2.0], [12, tasks - 12]) if tasks > 23 else np.repeat([1.0, 2.0], [14, 9])
        own = cell(np.linspace(0, 1, tasks), coarsity=coarsity)
        section = task_difficulty.difficulty(request(report_of([own])))
        assert section is not None and bool(section.context["panels"]) is there

    def test_means_by_dataset_and_their_first_places(self) -> None:
        names = ("x",) * 7 + ("y",) * 7
        low, high = cell([0.5] * 14, datasets=names), cell([0.75] * 7 + [0.25] * 7, datasets=names)
        section = task_difficulty.difficulty(request(report_of([low, high])))
        assert section is not None
        [table] = section.context["by_dataset"]
        assert [column.head for column in table["sheet"].columns[1:]] == ["x (7 tasks)", "y (7 tasks)"]
        cells = [[(each.value, each.mark) for each in line[1:]] for line in table["sheet"].rows]
        assert cells == [[(0.5, ""), (0.5, "best")], [(0.75, "best"), (0.25, "")]]


class TestQuartiles:
    def data(self, tasks: int, **changes: Any) -> ReportData:
        coarsity = np.arange(float(tasks))[::-1]
        cells = [cell(np.arange(float(tasks)) / 10, coarsity=coarsity, **changes)]
        return report_of(cells)

    def table(self, data: ReportData) -> Sheet | None:
        return quartile_sheet(data, summarise(data), 0)

    def test_eight_tasks_are_the_fewest(self) -> None:
        assert self.table(self.data(7)) is None
        table = self.table(self.data(8))
        assert table is not None
        [line] = table.rows
        means = [each.value for each in line[1:]]
        assert means == pytest.approx([0.35, 0.65, 0.45, 0.25, 0.05])  # the finest tasks first
        heads = [column.head.split()[-1] for column in table.columns[2:]]
        assert heads == ["0.0–1.0", "2.0–3.0", "4.0–5.0", "6.0–7.0"]
        assert line[2].half is None and line[1].half is not None

    def test_equal_or_unknown_coarsities_have_no_quartiles(self) -> None:
        for coarsity in (np.ones(8), np.array([*range(7), np.nan])):
            assert self.table(report_of([cell(np.zeros(8), coarsity=coarsity)])) is None

    def test_inductive_rows_stand_first(self) -> None:
        data = report_of(
            [cell(np.zeros(8), coarsity=np.arange(8.0)), cell(np.ones(8), coarsity=np.arange(8.0))]
        )
        series = (replace(data.series[0], setting="transductive"), data.series[1])
        table = self.table(replace(data, series=series))
        assert table is not None and [line[1].value for line in table.rows] == [1.0, 0.0]


class TestConfusions:
    COUNTED = confusion(
        # class 0 is right three times and once taken for 1; 1 is once taken for 2; 3 is always right
        [0, 0, 0, 0, 1, 1, 2, 3, 3],
        [0, 0, 0, 1, 1, 2, 2, 3, 3],
        [0] * 9,
        [0, 1, 2, 3],
        [0] * 4,
        [("pets", name) for name in ("cat", "dog", "fox", "hen")],
    )

    def test_classes_with_the_most_mistakes_of_either_direction_are_shown(self) -> None:
        # mistakes: cat 1, dog 2 (one given, one received), fox 1, hen 0
        assert mistakes.top_classes(self.COUNTED, 1) == [1]
        assert mistakes.top_classes(self.COUNTED, 2) == [0, 1]  # the first of equals
        assert mistakes.top_classes(self.COUNTED, 3) == [0, 1, 2]
        assert len(mistakes.top_classes(self.COUNTED)) == 4

    def test_a_square_is_a_share_of_the_chances(self) -> None:
        assert mistakes._square(self.COUNTED, 0, 1) == {
            "count": 1,
            "chances": 4,
            "rate": 0.25,
            "same": False,
        }
        assert mistakes._square(self.COUNTED, 3, 3) == {"count": 2, "chances": 2, "rate": 1.0, "same": True}
        alone = confusion([0], [0], [0], [0], [0], [("pets", "cat"), ("pets", "dog")])
        assert mistakes._square(alone, 0, 1)["rate"] is None  # they never met

    def test_twelve_classes_and_four_pairs_at_most(self) -> None:
        assert (mistakes.TOP_CLASSES, mistakes.TOP_PAIRS, mistakes.SHOTS) == (12, 4, 4)


class TestCalibration:
    @pytest.mark.parametrize(("queries", "shown"), [(19, [0.75]), (20, [0.25, 0.75])])
    def test_a_bin_needs_twenty_queries(
        self, monkeypatch: pytest.MonkeyPatch, queries: int, shown: list[float]
    ) -> None:
        measured = Calibration(
            edges=np.array([0, 0.5, 1.0]),
            counts=np.array([queries, 40]),
            confidence=np.array([0.25, 0.75]),
            accuracy=np.array([0.5, 0.6]),
            ece=0.1,
            mce=0.2,
            brier=0.1,
            n=queries + 40,
        )
        curves: list[Any] = []
        monkeypatch.setattr(mistakes, "measure_calibration", lambda *_: measured)
        monkeypatch.setattr(mistakes, "reliability", lambda lines, prefix: curves.extend(lines) or "<svg/>")
        section = mistakes.calibrated(request(report_of([cell([0.5, 0.5])])))
        assert [curve.x.tolist() for curve in curves] == [shown]
        assert curves[0].y.tolist() == [0.5, 0.6][-len(shown) :]
        assert [line[3].n for line in section.context["lines"]] == [queries + 40]

    def test_no_series_without_scores_or_testbed(self) -> None:
        own = cell([0.5])
        bed = report_of([own]).beds[0]
        assert mistakes.measure_calibration(bed, own) is None
        assert mistakes.measure_calibration(replace(bed, testbed=planted_testbed()), own) is None


def timed(accuracy: float, seconds: float) -> Cell:
    own = cell([accuracy, accuracy])
    return replace(own, metrics={**own.metrics, "seconds": np.full(2, seconds)})


class TestCost:
    def test_the_front_and_the_highest_means_are_drawn(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """26 series, of which the quickest is the poorest: it is on the front and stays."""
        drawn_points: list[Any] = []
        monkeypatch.setattr(costs, "scatter", lambda points, prefix: drawn_points.extend(points) or "<svg/>")
        cells = [timed(0.1, 0.5), timed(0.05, 9.0), timed(0.9, 0.6)]
        cells += [
            timed(0.3 + 0.01 * number, 1.0 + number) for number in range(23)
        ]  # the third dominates them
        section = costs.cost(request(report_of(cells)))
        assert section is not None
        [panel] = section.context["panels"]
        assert panel["left_out"] == 2 and len(drawn_points) == 24
        assert [point.index for point in drawn_points if point.front] == [0, 2]
        assert {1, 3}.isdisjoint(point.index for point in drawn_points)  # the lowest means beside the front
        assert [point.number for point in drawn_points] == sorted(point.number for point in drawn_points)
        assert [point.number for point, _, _ in panel["lines"]] == list(range(1, 27))

    def test_without_times_there_is_no_cost(self) -> None:
        assert costs.cost(request(report_of([timed(0.5, math.nan)]))) is None


def test_more_rows_than_a_plot_holds_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[Any] = []
    monkeypatch.setattr(rankings, "intervals", lambda rows, **_: shown.extend(rows) or "<svg/>")
    cells = [cell([0.5 + 0.01 * number, 0.4 + 0.01 * number]) for number in range(27)]
    section = rankings.paired(request(report_of(cells)))
    assert section is not None
    [panel] = section.context["panels"]
    assert (len(shown), panel["left_out"], len(panel["lines"])) == (24, 2, 26)
    assert [row.index for row in shown] == list(range(25, 1, -1))  # from the highest mean down
    assert section.context["count"] == 27 * 26 // 2


def test_brackets_end_with_the_rows_of_the_plot(monkeypatch: pytest.MonkeyPatch) -> None:
    """26 series and 24 rows: a group is cut at the last row, and one of a single row in view has no bracket."""
    brackets: list[Any] = []
    monkeypatch.setattr(
        rankings, "intervals", lambda rows, groups, **_: brackets.append((len(rows), groups)) or ""
    )
    ranking = CriticalDifference(
        ranks=np.arange(1.0, 27.0),
        order=np.arange(26),
        blocks=3,
        difference=4.0,
        groups=((0, 1), (20, 21, 22, 23, 24), (22, 23, 24, 25), (23, 24, 25), (24, 25)),
        chi_square=1.0,
        p=0.5,
        f=1.0,
        p_f=0.5,
    )
    monkeypatch.setattr("longshot.statistics.critical_difference", lambda _: ranking)
    data = report_of([cell([0.5, 0.4, 0.3])] * 26)
    panel = rankings._panel(data, 0, data.shared(0))
    assert brackets == [(24, [(0, 1), (20, 23), (22, 23)])]
    assert (panel["left_out"], panel["blocks"], panel["kind"]) == (2, 3, "tasks")


def history(length: int) -> Any:
    """A training of some steps without validation."""
    steps = np.arange(length)
    return SimpleNamespace(name="net", step=steps, loss=steps, seconds=1.0, best_at=lambda: None)


@pytest.mark.parametrize(("lengths", "thinned"), [((120, 120), False), ((121, 5), True), ((5, 121), True)])
def test_a_single_long_training_is_said_to_be_thinned(
    monkeypatch: pytest.MonkeyPatch, lengths: tuple[int, ...], thinned: bool
) -> None:
    monkeypatch.setattr(page, "curve_plots", lambda shown: [])
    histories = [history(length) for length in lengths]
    section = page.training(request(report_of([cell([0.5])]), trainings=histories))
    assert section is not None and section.context["thinned"] is thinned
    assert section.context["left_out"] == 0


def test_eight_trainings_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "curve_plots", lambda shown: [str(len(shown))])
    histories = [history(5)] * 8 + [history(500)]
    section = page.training(request(report_of([cell([0.5])]), trainings=histories))
    assert section is not None and section.context["panels"] == ["8"]
    assert section.context["left_out"] == 1 and not section.context["thinned"]  # the long one is not drawn
    assert len(section.context["trainings"]) == 9
    assert page.training(request(report_of([cell([0.5])]))) is None


@pytest.mark.parametrize(
    ("shared", "paired_drop"), [([True, True, True], True), ([True, False, True], False)]
)
def test_a_drop_is_paired_where_all_queries_are_shared(
    monkeypatch: pytest.MonkeyPatch, shared: list[bool], paired_drop: bool
) -> None:
    monkeypatch.setattr("longshot.evaluation.shared_queries", lambda *_: np.array(shared))
    names = ("x", "x", "x")
    before, after = cell([0.9, 0.8, 0.7], datasets=names), cell([0.5, 0.6, 0.1], datasets=names)
    bed: Any = type("ThreeTasks", (), {"__len__": lambda _: 3})()
    data = on(report_of([before], [after]), bed, bed)
    [(_, series_drops)] = task_difficulty.bed_drops(data, 0, 1)
    assert series_drops[-1].paired is paired_drop
    expected = mean_interval([0.4, 0.2, 0.6]) if paired_drop else welch([0.9, 0.8, 0.7], [0.5, 0.6, 0.1])
    assert series_drops[-1].drop.half == pytest.approx(expected.half)
