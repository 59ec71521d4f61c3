"""Intervals for other classes: the formula computed another way, and coverage where class effects are planted."""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from scipy import stats

from class_halves import half_over_classes
from longshot.statistics import TaskClasses, class_interval, mean_interval, widths_differ


def draw_tasks(rng: np.random.Generator, classes: int, tasks: int, ways: tuple[int, int]) -> list[np.ndarray]:
    return [rng.choice(classes, rng.integers(ways[0], ways[1] + 1), replace=False) for _ in range(tasks)]


@pytest.mark.parametrize("ways", [(3, 3), (2, 6)])
def test_the_formula_another_way(ways: tuple[int, int]) -> None:
    rng = np.random.default_rng(4)
    members = draw_tasks(rng, 8, 60, ways)
    by_class = rng.normal(0, 0.2, 8)
    values = np.array([0.6 + by_class[row].mean() for row in members]) + rng.normal(0, 0.1, 60)
    interval = class_interval(values, members)
    assert interval.mean == pytest.approx(values.mean()) and interval.n == 8
    assert interval.half == pytest.approx(half_over_classes(values, members), rel=1e-6)


def simulate(rng: np.random.Generator, own: float, drawn_to: float) -> tuple[np.ndarray, list[np.ndarray]]:
    """Accuracies of 200 tasks over 15 classes that differ in how hard they are and in how they attract others."""
    members = draw_tasks(rng, 15, 200, (5, 5))
    hard, attracts = rng.normal(0, own, 15), rng.normal(0, drawn_to, 15)
    values = np.array([0.7 + hard[row].mean() + attracts[row].mean() for row in members])
    return values + rng.normal(0, 0.07, 200), members


def coverage(own: float, drawn_to: float) -> tuple[float, float]:
    """How often the interval over tasks, and the one over classes, holds the truth 0.7 in 200 worlds."""
    rng = np.random.default_rng(7)
    hits = np.zeros((200, 2), bool)
    for world in range(200):
        values, members = simulate(rng, own, drawn_to)
        intervals = mean_interval(values), class_interval(values, members)
        hits[world] = [not interval.excludes(0.7) for interval in intervals]
    return float(hits[:, 0].mean()), float(hits[:, 1].mean())


def test_planted_class_effects_are_covered() -> None:
    """Classes are hard themselves and make others hard; two standard errors of 200 worlds are 3 points."""
    over_tasks, over_classes = coverage(own=0.1, drawn_to=0.1)
    assert over_tasks < 0.4
    assert 0.92 <= over_classes <= 0.98


def test_without_class_effects_it_is_little_wider() -> None:
    over_tasks, over_classes = coverage(own=0.0, drawn_to=0.0)
    assert over_tasks > 0.91 and over_classes > 0.92
    rng = np.random.default_rng(1)
    worlds = [simulate(rng, 0.0, 0.0) for _ in range(40)]
    ratios = [class_interval(*world).half / mean_interval(world[0]).half for world in worlds]
    assert 1 <= np.median(ratios) < 1.6


def test_classes_are_exchanged_within_their_dataset() -> None:
    """The same ids in two datasets are different classes, and the gap between datasets is no class effect."""
    rng = np.random.default_rng(2)
    members = draw_tasks(rng, 10, 120, (4, 4))
    values = rng.normal(0.5, 0.05, 120)
    datasets = np.repeat([0, 1], 60)
    plain = class_interval(values, members, datasets=datasets)
    apart = class_interval(values + 0.3 * datasets, members, datasets=datasets)
    assert plain.n == apart.n == 20
    assert apart.half == pytest.approx(plain.half)
    assert class_interval(values + 0.3 * datasets, members).half > 1.5 * apart.half


def test_names_and_order_of_classes_do_not_matter() -> None:
    values = np.random.default_rng(3).random(20)
    members = list(combinations(range(6), 3))
    named = [[f"class {number}" for number in reversed(row)] for row in members]
    assert class_interval(values, named).half == pytest.approx(class_interval(values, members).half)


def test_equal_values_have_a_width_of_nothing() -> None:
    interval = class_interval([0.5] * 20, list(combinations(range(6), 3)))
    assert interval.half == pytest.approx(0, abs=1e-9)


def test_classes_that_stand_in_every_task_cannot_be_left_out() -> None:
    interval = class_interval([1.0, 0.0], [[0, 1], [0, 1]])
    assert interval.low is None and interval.mean == 0.5 and interval.n == 2
    assert "needs at least 3 classes that some task is without, there are 0 of 2" in interval.reason


def test_lengths_must_agree() -> None:
    with pytest.raises(ValueError, match="3 values need as many tasks, not 2"):
        class_interval([1, 0, 1], [[0, 1], [1, 2]])
    with pytest.raises(ValueError, match="2 tasks need as many datasets, not 1"):
        class_interval([1, 0], [[0, 1], [1, 2]], datasets=["a"])


def test_a_fifth_is_the_bound() -> None:
    assert not widths_differ(0.1, 0.119) and widths_differ(0.1, 0.121)
    assert not widths_differ(0.1, 0.081) and widths_differ(0.1, 0.079)
    assert not widths_differ(0.1, None) and not widths_differ(None, 0.1) and not widths_differ(math.nan, 0.1)


@pytest.fixture(scope="module")
def fine_tasks() -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    """300 tasks, a column that their classes decide and that ties, and accuracies that follow it."""
    rng = np.random.default_rng(3)
    members = draw_tasks(rng, 15, 300, (4, 4))
    of_class = rng.normal(size=15)
    x = np.round(2 * np.array([of_class[row].mean() for row in members]))
    return members, x, 0.1 * x + rng.normal(0, 0.3, 300)


def by_leaving_out(members: list[np.ndarray], x: np.ndarray, y: np.ndarray, statistic: Any) -> Any:
    """The interval over classes of the jackknife's pseudo-values of a statistic, a task left out at a time."""
    estimate, rows = statistic(x, y), np.arange(len(x))
    parts = np.array([statistic(x[rows != row], y[rows != row]) for row in rows])
    return class_interval(estimate + (len(x) - 1) * (parts.mean() - parts), members)


def test_a_slope_over_classes_is_that_of_pseudo_values(fine_tasks: Any) -> None:
    members, x, y = fine_tasks
    interval = task_classes(members).slope(x, y)
    expected = by_leaving_out(members, x, y, lambda a, b: stats.linregress(a, b).slope)
    assert interval.mean == pytest.approx(stats.linregress(x, y).slope)
    assert interval.half == pytest.approx(expected.half, rel=0.02) and interval.n == 15


def test_a_rank_correlation_over_classes_is_that_of_pseudo_values_on_fishers_scale(fine_tasks: Any) -> None:
    members, x, y = fine_tasks
    interval = task_classes(members).rank_correlation(x, y)
    expected = by_leaving_out(members, x, y, lambda a, b: math.atanh(stats.spearmanr(a, b).statistic))
    assert interval.mean == pytest.approx(stats.spearmanr(x, y).statistic)
    ends = np.arctanh([interval.low, interval.high])
    assert (ends[1] - ends[0]) / 2 == pytest.approx(expected.half, rel=0.02)
    assert interval.low < interval.mean < interval.high


def test_ranks_that_agree_or_do_not_vary_have_no_interval(fine_tasks: Any) -> None:
    members, x, _ = fine_tasks
    same, constant = (task_classes(members).rank_correlation(x, other) for other in (2 * x, np.ones(len(x))))
    assert (same.mean, same.low, same.reason) == (1.0, None, "all ranks agree")
    assert math.isnan(constant.mean) and constant.reason == "one side is constant"


def task_classes(members: list[np.ndarray]) -> TaskClasses:
    lengths = [len(row) for row in members]
    return TaskClasses(np.repeat(np.arange(len(members)), lengths), np.concatenate(members))
