"""The sections of statistics: there when the data allow, with the numbers of the statistics functions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from longshot import statistics
from longshot.evaluation import count_confusions, measure_confidences
from longshot.reports import read_runs
from longshot.reports.report_data import ReportData
from longshot.reports.sections import Request
from longshot.reports.sections.mistakes import calibrated, confused
from longshot.reports.sections.rankings import blocks, enough, paired, ranks
from longshot.reports.sections.task_difficulty import bed_drops, curve, difficulty, drop
from longshot.reports.summary import compare_all, summarise

from .conftest import MakeRun
from .runs import DEFAULT, draw_images

INDUCTIVE = [{**series, "setting": "inductive"} for series in DEFAULT]
FINE: dict[str, Any] = {"coarsity": True, "classes_by": "semantic"}


def request(run: Path | list[Path], **options: Any) -> Request:
    data = read_runs(run)
    pairs = compare_all(data)
    settings = {"images": draw_images, "pictures": 2, "focus": None, **options}
    return Request(data, pairs, summarise(data, pairs), **settings)


def values(data: ReportData, bed: int, series: int) -> np.ndarray:
    return data.cells[bed, series].accuracy


def test_paired_differences_are_those_to_the_best(make_run: MakeRun) -> None:
    page = request(make_run(beds={"one": False}, tasks=60, series=INDUCTIVE))
    section = paired(page)
    assert section is not None
    panel = section.context["panels"][0]
    assert panel["index"] == 2 and [line["series"] for line in panel["lines"]] == [1, 0]
    for line in panel["lines"]:
        expected = statistics.compare_paired(values(page.data, 0, 2), values(page.data, 0, line["series"]))
        assert line["mean"] == pytest.approx(expected.difference.mean)
        assert line["bounds"] == pytest.approx(
            (100 * expected.difference.low, 100 * expected.difference.high)
        )
        assert (line["wins"], line["ties"], line["losses"]) == (expected.wins, expected.ties, expected.losses)


def test_one_series_has_no_paired_differences(make_run: MakeRun) -> None:
    assert paired(request(make_run(series=DEFAULT[:1]))) is None


def test_critical_difference_over_tasks(make_run: MakeRun) -> None:
    page = request(make_run(beds={"one": False}, series=INDUCTIVE))
    section = ranks(page)
    assert section is not None
    expected = statistics.critical_difference(page.data.shared(0).accuracy)
    panel = section.context["panels"][0]
    assert (panel["difference"], panel["chi"], panel["blocks"]) == (
        expected.difference,
        expected.chi_square,
        30,
    )


def test_settings_are_ranked_and_paired_apart(make_run: MakeRun) -> None:
    twice = [*DEFAULT, *({**series, "backbone": "other", "skill": 0.6} for series in DEFAULT[1:])]
    page = request(make_run(beds={"one": {"datasets": ("x", "y")}}, series=twice))
    section, differences = ranks(page), paired(page)
    assert section is not None and differences is not None
    assert [panel["setting"] for panel in section.context["panels"]] == ["inductive", "transductive"]
    ranked = [{line[0] for line in table["lines"]} for table in section.context["tables"]]
    assert ranked == [{0, 1, 3}, {2, 4}]
    tested = {
        panel["index"]: {line["series"] for line in panel["lines"]} for panel in differences.context["panels"]
    }
    assert tested == {1: {0, 3}, 2: {4}}


def test_many_datasets_are_the_blocks(make_run: MakeRun) -> None:
    run = make_run(beds={"one": {"datasets": tuple("abcdef")}}, tasks=36)
    kind, scores = blocks(read_runs(run).shared(0))
    assert kind == "datasets" and scores.shape == (6, 3)


def test_two_series_are_ranked_over_several_datasets_only(make_run: MakeRun) -> None:
    assert ranks(request(make_run("a", series=DEFAULT[:2]))) is None
    several = make_run("b", beds={"one": {"datasets": ("x", "y")}}, series=DEFAULT[:2])
    assert ranks(request(several)) is not None


def test_meta_dataset_ranks_by_source(make_run: MakeRun) -> None:
    page = request(make_run(beds={"one": {"datasets": ("x", "y")}}, tasks=40, series=INDUCTIVE))
    section = ranks(page)
    assert section is not None
    (table,) = section.context["tables"]
    assert table["sources"] == [("one", "x"), ("one", "y")]
    shared = page.data.shared(0)
    rows = shared.accuracy[np.asarray(shared.datasets) == "x"]
    estimates = [statistics.mean_interval(column) for column in rows.T]
    expected = statistics.meta_dataset_ranks([i.mean for i in estimates], [i.half or 0 for i in estimates])
    assert {s: places[0] for s, _, places, _ in table["lines"]} == dict(enumerate(expected))


def test_difficulty_needs_something_measured(make_run: MakeRun) -> None:
    assert difficulty(request(make_run())) is None


def test_slope_and_correlation_with_coarsity(make_run: MakeRun) -> None:
    page = request(make_run(beds={"one": FINE}, tasks=90))
    section = difficulty(page)
    assert section is not None
    panel = section.context["panels"][0]
    cell = page.data.cells[0, 0]
    assert (panel["column"], panel["window"]) == ("coarsity", 30)
    assert cell.coarsity is not None
    x = np.round(cell.coarsity, 9)
    _, slope, related = panel["facts"].rows[0]
    assert slope.value == statistics.slope(x, cell.accuracy).slope
    assert related.value == statistics.correlation(x, cell.accuracy, "spearman").r


def test_every_measured_column_is_named(make_run: MakeRun) -> None:
    section = difficulty(request(make_run(beds={"one": FINE}, tasks=90)))
    assert section is not None
    assert [line[1].text for line in section.context["others"].rows] == ["coarsity", "noise"]


def test_curve_is_the_rolling_mean() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.random(50), rng.random(50)
    expected = statistics.rolling_mean(x, y, 16)
    drawn_curve = curve(x, y)
    assert np.allclose(drawn_curve, (expected.x, expected.mean, expected.low, expected.high))


def test_curve_of_few_values_is_their_means() -> None:
    x = np.repeat([1.0, 2.0, 3.0], [20, 20, 3])
    y = np.random.default_rng(0).random(43)
    drawn_curve = curve(x, y)
    assert drawn_curve[0].tolist() == [1, 2]  # three tasks tell nothing
    assert drawn_curve[2][1] == pytest.approx(statistics.mean_interval(y[20:40]).low)


def test_breakdown_by_dataset(make_run: MakeRun) -> None:
    page = request(make_run(beds={"one": {"datasets": ("x", "y")}}))
    section = difficulty(page)
    assert section is not None
    table = section.context["by_dataset"][0]
    cell = page.data.cells[0, 1]
    names = np.asarray(cell.datasets)
    means = [each.value for each in table["sheet"].rows[1][1:]]
    assert means == pytest.approx([cell.accuracy[names == name].mean() for name in sorted(set(names))])


def test_drop_is_paired_where_queries_are_shared(make_run: MakeRun) -> None:
    data = read_runs(make_run(beds={"uniform": {"seed": 3}, "hard": {"seed": 3, "support_from": 20}}))
    drops_by_series = bed_drops(data, 0, 1)
    before, after = values(data, 0, 0), values(data, 1, 0)
    assert drops_by_series[0][1][-1].paired
    assert drops_by_series[0][1][-1].drop == statistics.mean_interval(before - after)


def test_drop_between_other_queries_is_not_paired(make_run: MakeRun) -> None:
    data = read_runs(make_run())
    drops_by_series = bed_drops(data, 0, 1)
    assert drops_by_series[0][1][-1].drop == statistics.welch(values(data, 0, 0), values(data, 1, 0))


def test_drops_start_from_the_uniform_testbed(make_run: MakeRun) -> None:
    section = drop(request(make_run(beds={"fine": FINE, "plain": False})))
    assert section is not None
    assert section.context["start"] == "plain" and section.context["panels"][0]["bed"] == "fine"


def test_one_testbed_has_no_drop(make_run: MakeRun) -> None:
    assert drop(request(make_run(beds={"one": False}))) is None


def test_intrinsic_and_modelling_difficulty(make_run: MakeRun) -> None:
    page = request(make_run())
    section = drop(page)
    assert section is not None
    shared = page.data.shared(0)
    expected = statistics.dataset_difficulty(shared.accuracy, shared.datasets)[0]
    line = section.context["datasets"].rows[0]
    assert [(each.value, each.half) for each in line[2:4]] == [
        (part.mean, part.half) for part in (expected.intrinsic, expected.modelling)
    ]


def test_confusions_are_counted_over_all_tasks(make_run: MakeRun) -> None:
    page = request(make_run(beds={"one": False}))
    section = confused(page)
    assert section is not None
    panel = section.context["panels"][0]
    cell, testbed = page.data.cells[0, 2], page.data.beds[0].testbed
    assert testbed is not None
    expected = count_confusions(testbed, cell.tasks, cell.predictions)
    assert panel["index"] == 2
    shown = [[square["count"] for square in squares] for _, squares in panel["rows"]]
    assert shown == expected.counts.toarray().tolist()
    assert [line["pair"] for line in panel["pairs"]] == statistics.most_confused(expected, 4)


def test_confused_pairs_show_the_mistakes(make_run: MakeRun) -> None:
    section = confused(request(make_run(beds={"one": False})))
    assert section is not None
    first = section.context["panels"][0]["pairs"][0]["directions"][0]
    assert all(key.split("/")[1] == first["true"] for key, _ in first["shots"]) and first["shots"]


def test_no_pictures_wanted_none_read(make_run: MakeRun) -> None:
    section = confused(request(make_run(beds={"one": False}), pictures=0))
    assert section is not None
    assert not any(line["directions"] for line in section.context["panels"][0]["pairs"])


def test_calibration_of_saved_scores(make_run: MakeRun) -> None:
    page = request(make_run(beds={"one": False}, scores=True))
    _, _, _, shown = calibrated(page).context["lines"][0]
    cell, testbed = page.data.cells[0, 0], page.data.beds[0].testbed
    assert testbed is not None
    expected = statistics.calibration(*measure_confidences(testbed, cell.tasks, cell.scores))
    assert (shown.ece, shown.n) == (expected.ece, 30 * 20)


def test_without_scores_there_is_nothing_to_calibrate(make_run: MakeRun) -> None:
    assert calibrated(request(make_run())).context["lines"] == []


def test_tasks_needed_and_stability(make_run: MakeRun) -> None:
    page = request(make_run(beds={"one": False}))
    section = enough(page)
    assert section is not None
    accuracy = page.data.shared(0).accuracy
    stable = statistics.ranking_stability(accuracy)
    line = section.context["lines"][0]
    assert line["needed"] == statistics.tasks_needed(accuracy[:, 0].std(ddof=1), 0.005)
    assert line["against"] == statistics.tasks_needed((accuracy[:, 0] - accuracy[:, 2]).std(ddof=1), 0.005)
    assert (line["first"], section.context["findings"][0]["same"]) == (stable.first[0], stable.same)


def test_one_task_says_nothing_about_enough(make_run: MakeRun) -> None:
    assert enough(request(make_run(tasks=1))) is None
