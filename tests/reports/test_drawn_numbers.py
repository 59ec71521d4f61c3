"""What plots draw, read back from their axes: means, bounds, bars and lines of planted values."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from longshot.reports import EstimateRow, charts, costs, learning_curves, testbed_plots
from longshot.reports.charts import Curve, PlotLine
from longshot.reports.costs import Point
from longshot.tasks import Balance, Change

from .runs import write_history

Canvas = Callable[[Callable[[], Any]], list[Any]]


@pytest.fixture
def canvas(monkeypatch: pytest.MonkeyPatch) -> Canvas:
    """``canvas(draw)``: the axes of the last figure that was drawn; nothing is written."""
    figures: list[Any] = []

    def keep(figure: Any, *_: Any) -> str:
        figures.append(figure)
        return "<svg/>"

    for module in (charts, costs, learning_curves, testbed_plots):
        monkeypatch.setattr(module, "to_svg", keep)
    monkeypatch.setattr(testbed_plots, "save_figure", keep)

    def draw(drawing: Callable[[], Any]) -> list[Any]:
        drawing()
        return list(figures[-1].axes)

    return draw


def points(line: Any) -> list[tuple[float, float]]:
    """The points of a line."""
    return [(float(x), float(y)) for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True)]


def segments(axes: Any) -> list[list[list[float]]]:
    """Upright lines as ``[[x, low], [x, high]]``, in the order they were drawn."""
    return [part.tolist() for bundle in axes.collections for part in getattr(bundle, "get_segments", list)()]


def words(axes: Any) -> list[str]:
    return [text.get_text() for text in axes.texts]


class TestDistribution:
    def test_means_and_the_middle_eighty_per_cent(self, canvas: Canvas) -> None:
        even, low = np.linspace(0, 1, 11), np.full(4, 0.25)
        lines = [PlotLine(0, "even", even), PlotLine(1, "low", low)]
        [axes] = canvas(lambda: charts.plot_distribution(lines, 0.2, prefix="p"))
        assert words(axes) == ["even", "50.0 %", "low", "25.0 %"]
        _, middle, mean, _, narrow, other = axes.lines
        assert points(middle) == [(10.0, -40.0), (90.0, -40.0)] and points(mean) == [pytest.approx((50, -40))]
        assert points(narrow) == [(25.0, -86.0), (25.0, -86.0)] and points(other) == [(25.0, -86.0)]
        assert [[20.0, -40.0], [20.0, -18.0]] in segments(axes)  # chance

    def test_density_is_a_kernel_of_silvermans_width_reflected_at_the_borders(self) -> None:
        values, grid = np.array([0.0, 0.1, 0.2, 0.6, 1.0]), np.linspace(0, 1, 11)
        q75, q25 = np.percentile(values, [75, 25])
        width = 0.9 * min(values.std(), (q75 - q25) / 1.34) * 5**-0.2
        mirrored = [*values, *(-values), *(2 - values)]
        expected = np.array([sum(math.exp(-(((g - v) / width) ** 2) / 2) for v in mirrored) for g in grid])
        assert charts.density(values, grid) == pytest.approx(expected / expected.max())

    def test_density_without_a_middle_half_takes_the_deviation(self) -> None:
        values, grid = np.array([0.5] * 8 + [0.1, 0.9]), np.linspace(0, 1, 5)
        width = 0.9 * values.std() * 10**-0.2
        expected = 8 + 2 * math.exp(-((0.4 / width) ** 2) / 2)
        beside = 8 * math.exp(-((0.25 / width) ** 2) / 2) + math.exp(-((0.15 / width) ** 2) / 2)
        beside += math.exp(-((0.65 / width) ** 2) / 2) + math.exp(
            -((0.35 / width) ** 2) / 2
        )  # 0.1 and its mirror
        assert charts.density(values, grid)[1] == pytest.approx(beside / expected, rel=1e-3)
        assert charts.density(np.array([0.5, 0.5]), np.array([0.5, 0.515]))[1] == pytest.approx(
            math.exp(-0.5)
        )


class TestByValue:
    def test_bins_change_at_thirteen_values(self) -> None:
        assert [group.label for group in charts.bins(np.arange(12.0))] == [
            str(number) for number in range(12)
        ]
        groups = charts.bins(np.arange(13.0))
        assert len(groups) == 8
        for group in groups:
            inside = np.arange(13.0)[group.rows]
            assert group.x == inside.mean()
            low, high = f"{inside[0]:g}", f"{inside[-1]:g}"
            assert group.label == (low if low == high else f"{low}–{high}")
        assert np.concatenate([np.arange(13.0)[group.rows] for group in groups]).tolist() == list(range(13))

    def test_means_intervals_and_chance(self, canvas: Canvas) -> None:
        x, y = np.array([2.0, 2.0, 4.0]), np.array([0.5, 0.7, 0.9])
        [axes] = canvas(
            lambda: charts.by_value([PlotLine(0, "a", y, x)], xlabel="way", chance=None, prefix="p")
        )
        line, chance = axes.lines
        assert points(line) == [pytest.approx((2, 60)), pytest.approx((4, 90))]
        assert points(chance) == [(2.0, 50.0), (4.0, 25.0)]
        half = 100 * stats.t.ppf(0.975, 1) * 0.1
        [whisker] = segments(axes)  # one task has no interval
        assert np.array(whisker) == pytest.approx(np.array([[2, 60 - half], [2, 60 + half]]))
        assert [text.get_text() for text in axes.get_xticklabels()] == ["2", "4"]
        [axes] = canvas(
            lambda: charts.by_value([PlotLine(0, "a", y, x)], xlabel="shot", chance=0.2, prefix="p")
        )
        assert axes.lines[1].get_ydata() == [20.0, 20.0]

    @pytest.mark.parametrize(("most", "scale"), [(15.9, "linear"), (16.0, "log")])
    def test_eightfold_values_stand_on_a_logarithmic_axis(
        self, canvas: Canvas, most: float, scale: str
    ) -> None:
        y = np.array([0.5, 0.5])
        lines = [PlotLine(number, "a", y, np.array([2.0, most])) for number in (0, 1)]
        [axes] = canvas(lambda: charts.by_value(lines, xlabel="way", chance=0.2, prefix="p"))
        assert axes.get_xscale() == scale
        (first, _), (second, _) = (points(line) for line in axes.lines[:2])
        middle = math.sqrt(first[0] * second[0]) if scale == "log" else (first[0] + second[0]) / 2
        assert middle == pytest.approx(2.0) and first[0] < second[0]  # a little apart, around their value
        low, high = axes.get_xlim()
        if scale == "log":
            assert (low, high) == pytest.approx((2 * 8**-0.06, 16 * 8**0.06))
        else:
            assert (low, high) == pytest.approx((2 - 0.06 * 13.9, 15.9 + 0.06 * 13.9))

    def test_more_than_seven_values_have_round_ticks(self) -> None:
        assert charts._ticks(np.arange(2.0, 9.0), False) == list(range(2, 9))
        assert charts._ticks(np.arange(2.0, 21.0), False) == [5.0, 10.0, 15.0, 20.0]
        assert charts._ticks(np.geomspace(1, 100, 9), True) == pytest.approx([1, 2, 5, 10, 20, 50, 100])

    @pytest.mark.parametrize(
        ("value", "text"), [(3.0, "3"), (2.54, "2.5"), (999.4, "999.4"), (12345.0, "1.234e+04")]
    )
    def test_numbers_are_short(self, value: float, text: str) -> None:
        assert charts._short(value) == text


class TestIntervals:
    ROWS = (EstimateRow(0, "a", 1.0, -1.0, 3.0, "note"), EstimateRow(1, "b", 9.0, None, None, "9"))

    def test_a_row_is_a_dot_and_its_interval(self, canvas: Canvas) -> None:
        [axes] = canvas(lambda: charts.intervals(self.ROWS, xlabel="points", prefix="p"))
        assert [points(line) for line in axes.lines] == [
            [(-1.0, -29.0), (3.0, -29.0)],
            [(1.0, -29.0)],
            [(9.0, -71.0)],
        ]
        assert axes.get_xlim() == pytest.approx((-1.4, 9.4)) and axes.get_ylim() == (-84.0, 0.0)
        assert words(axes) == ["a", "note", "b", "9"]

    def test_zero_is_in_view(self, canvas: Canvas) -> None:
        row = EstimateRow(0, "a", 5.0, 4.0, 6.0, "")
        [axes] = canvas(lambda: charts.intervals([row], xlabel="points", prefix="p", zero=True))
        assert axes.get_xlim() == pytest.approx((-0.24, 6.24))
        assert [[0.0, -36.0], [0.0, -22.0]] in segments(axes)
        [axes] = canvas(lambda: charts.intervals([row], xlabel="points", prefix="p"))
        assert axes.get_xlim() == pytest.approx((3.92, 6.08))
        same = EstimateRow(0, "a", 5.0, None, None, "")
        [axes] = canvas(lambda: charts.intervals([same], xlabel="points", prefix="p"))
        assert axes.get_xlim() == (4.5, 5.5)

    def test_a_bracket_spans_its_rows(self, canvas: Canvas) -> None:
        rows = [EstimateRow(number, "a", float(number), None, None, "") for number in range(3)]
        [axes] = canvas(lambda: charts.intervals(rows, xlabel="rank", prefix="p", groups=[(0, 1), (1, 2)]))
        first, second = axes.lines[3:]
        assert [list(line.get_ydata()) for line in (first, second)] == [[-23, -77], [-65, -119]]
        assert 1 < first.get_xdata()[0] < second.get_xdata()[0]  # beside one another


class TestCurves:
    def test_at_most_sixty_places_with_both_ends(self) -> None:
        x = np.arange(200.0)
        thinned, squares = charts.thin(x, x**2)
        assert len(thinned) == 60 and (thinned[0], thinned[-1]) == (0.0, 199.0)
        assert np.array_equal(squares, thinned**2)
        assert charts.thin(np.arange(5.0))[0].tolist() == [0, 1, 2, 3, 4]

    @pytest.mark.parametrize(
        ("y", "low", "high", "ends"),
        [
            ([0.42, 0.48], [0.31, 0.4], [0.5, 0.58], (30, 60)),
            ([0.05, 0.1], [-0.3, 0.0], [0.2, 0.21], (0, 30)),  # nothing was measured below 0
            ([-0.05, 0.1], [-0.3, 0.0], [0.2, 0.2], (-10, 20)),
            ([0.95, 0.99], [0.9, 0.95], [1.0, 1.08], (90, 100)),
            ([0.5, 0.5], None, None, (50, 60)),  # ten at least
        ],
    )
    def test_accuracies_stand_between_whole_tens(
        self,
        canvas: Canvas,
        y: list[float],
        low: list[float] | None,
        high: list[float] | None,
        ends: tuple[float, float],
    ) -> None:
        bounds = [None if bound is None else np.array(bound) for bound in (low, high)]
        curve = Curve(0, "a", np.array([1.0, 2.0]), np.array(y), *bounds)
        [axes] = canvas(lambda: charts.rolling([curve], xlabel="coarsity", prefix="p"))
        assert axes.get_ylim() == pytest.approx(ends)
        assert points(axes.lines[0]) == [
            pytest.approx((x, 100 * value)) for x, value in zip((1, 2), y, strict=True)
        ]

    @pytest.mark.parametrize(("count", "marked"), [(12, None), (13, [12])])
    def test_a_long_curve_is_marked_at_its_end(self, canvas: Canvas, count: int, marked: Any) -> None:
        curve = Curve(0, "a", np.arange(float(count)), np.full(count, 0.5))
        [axes] = canvas(lambda: charts.rolling([curve], xlabel="coarsity", prefix="p"))
        assert axes.lines[0].get_markevery() == marked

    def test_reliability_is_in_per_cent(self, canvas: Canvas) -> None:
        curve = Curve(0, "a", np.array([0.2, 0.9]), np.array([0.25, 0.75]))
        [axes] = canvas(lambda: charts.reliability([curve], prefix="p"))
        diagonal, line = axes.lines
        assert points(diagonal) == [(0, 0), (100, 100)]
        assert points(line) == [pytest.approx((20, 25)), pytest.approx((90, 75))]


class TestTestbeds:
    def test_a_histogram_counts_and_names_the_mean(self, canvas: Canvas) -> None:
        values = np.array([2, 2, 3, 5])
        [axes] = canvas(lambda: testbed_plots.histogram(values, xlabel="ways", prefix="p"))
        bars = [(bar.get_x(), bar.get_width(), bar.get_height()) for bar in axes.patches]
        assert bars == [(1.5, 1, 2), (2.5, 1, 1), (3.5, 1, 0), (4.5, 1, 1)]
        assert axes.lines[0].get_xdata() == [3.0, 3.0] and words(axes) == ["mean 3"]
        assert axes.get_xlim() == (1.5, 5.5) and axes.get_ylim() == (0, pytest.approx(2.08))

    @pytest.mark.parametrize(("values", "side"), [([0, 0, 0, 4], "left"), ([0, 4, 4, 4], "right")])
    def test_the_mean_is_named_where_there_is_room(
        self, canvas: Canvas, values: list[int], side: str
    ) -> None:
        [axes] = canvas(lambda: testbed_plots.histogram(np.array(values), xlabel="ways", prefix="p"))
        assert axes.texts[0].get_ha() == side

    def test_balance_stands_before_the_usual_range(self, canvas: Canvas) -> None:
        classes = Balance("pets", {"cat": 7, "dog": 4, "fox": 1}, expected=4.0, spread=1.0)
        [axes] = canvas(lambda: testbed_plots.balance(classes, prefix="p"))
        filled = axes.patches[0].get_data()
        assert filled.values.tolist() == [7, 4, 1] and filled.edges.tolist() == [0, 1, 2, 3]
        assert axes.lines[0].get_ydata() == [4.0, 4.0]
        usual = axes.patches[2]
        assert (usual.get_y(), usual.get_y() + usual.get_height()) == pytest.approx((4 - 1.96, 4 + 1.96))
        assert axes.get_ylim() == (0, pytest.approx(7.42))

    def test_before_and_after_have_one_scale(self, canvas: Canvas) -> None:
        measure = Change("loss", np.array([0.0, 0.0, 1.0]), np.array([1.0, 1.0, 1.0]))
        [axes] = canvas(lambda: testbed_plots.change(measure, prefix="p", chance=0.25))
        above, below = (patch.get_data() for patch in axes.patches)
        assert (above.values.max() + 80, below.values.max() + 168) == pytest.approx((58 * 2 / 3, 58))
        assert above.edges.tolist() == below.edges.tolist()
        means = [points(line) for line in axes.lines if len(line.get_xdata()) == 1]
        assert means == [[(pytest.approx(1 / 3), -80.0)], [(1.0, -168.0)]]
        assert words(axes) == ["before selection", "mean 0.333", "after selection", "mean 1.000"]
        assert [[0.25, -80.0], [0.25, -22.0]] in segments(axes)
        assert axes.get_xlim() == pytest.approx((-0.02, 1.02))


class TestSplits:
    def test_classes_stand_in_the_plane_with_the_means_of_their_sets(self, canvas: Canvas) -> None:
        embeddings = np.array([[3.0, 0.0], [-3.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
        sets = {"train": np.array([0, 1]), "validation": np.array([], int), "test": np.array([2, 3])}
        panel = testbed_plots.SplitPanel("R = 1", sets)
        [axes] = canvas(lambda: testbed_plots.class_map(embeddings, [panel], "map.svg"))
        offsets = [cloud.get_offsets().tolist() for cloud in axes.collections]
        plane, _ = testbed_plots.plane(embeddings)
        assert offsets[:3] == [plane[[0, 1]].tolist(), [], plane[[2, 3]].tolist()]
        assert len(offsets) == 5  # an empty set has no mean
        assert np.array(offsets[3:]) == pytest.approx(np.zeros((2, 1, 2)), abs=1e-9)
        assert axes.get_xlabel() == "1st component (90 %)" and axes.get_ylabel() == "2nd component (10 %)"

    @pytest.mark.parametrize(
        ("count", "shape"), [(1, (1, 1)), (2, (1, 2)), (3, (1, 3)), (4, (2, 2)), (5, (2, 3))]
    )
    def test_panels_fill_rows(self, canvas: Canvas, count: int, shape: tuple[int, int]) -> None:
        sets = {"train": np.array([0]), "validation": np.array([1]), "test": np.array([2])}
        panels = [testbed_plots.SplitPanel(str(number), sets) for number in range(count)]
        axes = canvas(lambda: testbed_plots.class_map(np.eye(3), panels, "map.svg"))
        grid = axes[0].get_subplotspec().get_gridspec()
        assert (grid.nrows, grid.ncols) == shape
        assert sum(panel.get_visible() for panel in axes) == count

    def test_means_whiskers_and_the_regression_line(self, canvas: Canvas) -> None:
        x, mean = np.array([0.0, 2.0]), np.array([0.6, 0.5])
        series = [
            testbed_plots.DivergenceSeries("a", x, mean, mean - 0.1, mean + 0.1, (0.6, -0.05)),
            testbed_plots.DivergenceSeries("b", x, mean - 0.3),
        ]
        [axes] = canvas(lambda: testbed_plots.accuracy_by_divergence(series, "a.svg", title=""))
        line, first, second = axes.lines
        assert points(line) == [pytest.approx((0, 60)), pytest.approx((2, 50))]
        assert points(first) == [pytest.approx((-0.008, 60)), pytest.approx((1.992, 50))]
        assert points(second) == [pytest.approx((0.008, 30)), pytest.approx((2.008, 20))]
        assert (first.get_linestyle(), second.get_linestyle()) == ("None", "-")
        assert np.array(segments(axes)[0]) == pytest.approx(np.array([[-0.008, 50], [-0.008, 70]]))
        assert first.get_label() == "a (−5.00 per unit)"

    def test_divergences_over_decades_stand_on_a_logarithmic_axis(self, canvas: Canvas) -> None:
        x = np.array([0.01, 1.0, 100.0])
        series = [testbed_plots.DivergenceSeries("a", x, np.array([0.6, 0.5, 0.4]), line=(0.5, -0.05))]
        [axes] = canvas(
            lambda: testbed_plots.accuracy_by_divergence(series, "a.svg", title="", logarithmic=True)
        )
        line, marks = axes.lines
        assert points(line) == [pytest.approx((-2, 60)), pytest.approx((2, 40))]
        assert points(marks) == [pytest.approx((-2, 60)), pytest.approx((0, 50)), pytest.approx((2, 40))]
        assert [tick.get_text() for tick in axes.get_xticklabels()] == ["0.01", "1", "100"]
        assert marks.get_label() == "a (−5.00 per tenfold)"

    @pytest.mark.parametrize(("chance", "shown"), [(0.31, True), (0.29, False)])
    def test_chance_is_drawn_within_twice_the_span(self, canvas: Canvas, chance: float, shown: bool) -> None:
        series = [testbed_plots.DivergenceSeries("a", np.array([0.0, 1.0]), np.array([0.6, 0.5]))]
        [axes] = canvas(
            lambda: testbed_plots.accuracy_by_divergence(series, "a.svg", title="", chance=chance)
        )
        assert ("chance" in [line.get_label() for line in axes.lines]) is shown

    def test_a_number_needs_room(self) -> None:
        assert testbed_plots._named(np.array([0.0, 0.5, 1.0, 1.2, 2.2]), 1.0) == ["0", "", "1", "", "2.2"]

    def test_clouds_have_their_least_squares_line(self, canvas: Canvas) -> None:
        x, y = np.array([0.0, 1.0, 2.0]), np.array([0.5, 0.3, 0.4])
        some = [testbed_plots.Cloud("tasks", x, y), testbed_plots.Cloud("flat", x, np.full(3, 0.5))]
        left_axes, right_axes = canvas(lambda: testbed_plots.clouds(some, "a.svg", title="", xlabel="R"))
        assert left_axes.collections[0].get_offsets().tolist() == [[0, 50], [1, 30], [2, 40]]
        assert points(left_axes.lines[0]) == [pytest.approx((0, 45)), pytest.approx((2, 35))]
        assert left_axes.get_title(loc="left") == "tasks\nr = -0.50"
        assert not right_axes.lines and right_axes.get_title(loc="left") == "flat"


class TestLearning:
    def test_losses_are_means_of_neighbours(self) -> None:
        steps = np.arange(1.0, 241.0)
        x, y = learning_curves._thinned(steps, steps * 2)
        assert len(x) == 120 and x[:2].tolist() == [1.5, 3.5] and y[-1] == 479.0
        assert learning_curves._thinned(np.arange(3.0), np.arange(3.0))[0].tolist() == [0, 1, 2]

    def test_validations_and_the_network_that_was_kept(self, canvas: Canvas, tmp_path: Path) -> None:
        [history] = learning_curves.read_trainings([write_history(tmp_path / "net")])
        [axes] = canvas(lambda: learning_curves.curve_plots([history]))
        line, star = axes.lines
        assert points(line) == [
            pytest.approx(point) for point in ((10, 73.75), (20, 80.0), (30, 73.75), (40, 67.5))
        ]
        assert points(star) == [pytest.approx((20, 80))] and star.get_marker() == "*"
        band = axes.collections[0].get_paths()[0].vertices
        assert (band[:, 1].min(), band[:, 1].max()) == pytest.approx((65.5, 82.0))

    def test_a_single_validation_has_a_whisker(self, canvas: Canvas, tmp_path: Path) -> None:
        [history] = learning_curves.read_trainings([write_history(tmp_path / "net", records=10)])
        [axes] = canvas(lambda: learning_curves.curve_plots([history]))
        [whisker] = segments(axes)
        assert whisker[0][0] == whisker[1][0] == 10
        assert whisker[1][1] - whisker[0][1] == pytest.approx(4.0)


class TestCosts:
    POINTS = (
        Point(0, 1, "quick", "frozen", 0.001, 0.5, 0.45, 0.55, True),
        Point(1, 2, "slow", "adapted", 0.1, 0.4, math.nan, math.nan, False),
        Point(2, 3, "best", "meta-trained", 1.0, 0.9, 0.85, 0.95, True),
    )

    def test_points_intervals_and_the_front(self, canvas: Canvas) -> None:
        [axes] = canvas(lambda: costs.scatter(self.POINTS, prefix="p"))
        front, *dots = axes.lines
        end = axes.get_xlim()[1]
        assert points(front) == [pytest.approx(point) for point in ((0.001, 50), (1.0, 90), (end, 90))]
        assert [points(dot) for dot in dots] == [
            [pytest.approx((0.001, 50))],
            [pytest.approx((0.1, 40))],
            [pytest.approx((1.0, 90))],
        ]
        assert [dot.get_marker() for dot in dots] == ["o", "s", "^"]
        whiskers = [part for part in segments(axes) if part[0][1] in (45.0, 85.0)]
        assert len(whiskers) == 2 and whiskers[0][1][1] == pytest.approx(55.0)
        assert axes.get_ylim() == pytest.approx((40 - 0.08 * 55, 95 + 0.08 * 55))
        assert sorted(words(axes)) == ["1", "2", "3"]

    def test_the_time_axis_reaches_beyond_its_points(self) -> None:
        ends = costs._limits(np.array([1e-4, 1.0]))  # a tenth of four decades
        assert ends == pytest.approx((10**-4.4, 10**0.4))
        assert costs._limits(np.array([2.0])) == pytest.approx((1.0, 4.0))  # a factor of four at least

    @pytest.mark.parametrize(
        ("seconds", "text"), [(1.0, "1 s"), (0.5, "500 ms"), (0.001, "1 ms"), (2e-6, "2 µs"), (3e-9, "3 ns")]
    )
    def test_times_have_their_unit(self, seconds: float, text: str) -> None:
        assert costs._tick(seconds) == text
