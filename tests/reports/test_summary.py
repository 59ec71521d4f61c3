"""Means, intervals and shared first places, against SciPy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from longshot.reports.data import METRICS, Cell, load
from longshot.reports.summary import first_place, interval, paired_p, summarise

from .conftest import MakeRun
from .runs import read_rows


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


def test_paired_p_equals_scipy() -> None:
    rng = np.random.default_rng(1)
    one, other = rng.random(50), rng.random(50)
    assert paired_p(cell(one), cell(other)) == pytest.approx(stats.ttest_rel(one, other).pvalue)


def test_pairs_are_formed_by_task_number() -> None:
    one, other = cell([0.1, 0.2, 0.9], [0, 1, 7]), cell([0.3, 0.9, 0.5], [1, 7, 9])
    assert paired_p(one, other) == pytest.approx(stats.ttest_rel([0.2, 0.9], [0.3, 0.9]).pvalue)


def test_a_clear_leader_is_best() -> None:
    rng = np.random.default_rng(2)
    base = rng.random(100) * 0.5
    marks, p = first_place([cell(base), cell(base + 0.3 + 0.01 * rng.random(100))])
    assert marks == ["", "best"]
    assert p[0] < 0.05 and math.isnan(p[1])


def test_what_the_test_does_not_separate_ties() -> None:
    rng = np.random.default_rng(3)
    base = rng.random(60)
    marks, _ = first_place([cell(base + 0.001 * rng.standard_normal(60)), cell(base), cell(base - 0.4)])
    assert marks == ["tied", "tied", ""]


def test_equal_rows_tie() -> None:
    assert first_place([cell([0.2, 0.6]), cell([0.2, 0.6])])[0] == ["tied", "tied"]


def test_one_series_is_not_marked() -> None:
    assert first_place([cell([0.2, 0.6])])[0] == [""]


def test_a_single_task_marks_nobody() -> None:
    assert first_place([cell([0.2]), cell([0.6])])[0] == ["", ""]


def test_summary_of_a_run_equals_the_rows(make_run: MakeRun) -> None:
    run = make_run()
    data = load(run)
    rows = read_rows(run).to_pylist()
    for (bed, series), entry in summarise(data).items():
        wanted = data.series[series]
        values = [
            row["accuracy"]
            for row in rows
            if (row["testbed"], row["backbone"], row["method"])
            == (data.beds[bed].hash, wanted.backbone, wanted.method)
        ]
        assert entry.n == len(values) == 30
        assert entry.mean == pytest.approx(np.mean(values))
