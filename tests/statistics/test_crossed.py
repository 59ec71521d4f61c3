"""Intervals over tasks and classes: the formula by hand, a bootstrap, and coverage where class effects are planted."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from longshot.statistics import clustered_interval, crossed_interval, mean_interval, widths_differ


def simulate(
    rng: np.random.Generator, class_spread: float, image_spread: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Right or wrong [T, way, query], tasks and classes of 300 tasks over 20 classes of 40 images each."""
    classes = np.argsort(rng.random((300, 20)), axis=1)[:, :5]
    images = np.argsort(rng.random((300, 5, 40)), axis=2)[..., :10]
    by_class = rng.normal(0, class_spread, 20)
    by_image = rng.normal(0, image_spread, (20, 40))
    logit = 0.5 + by_class[classes][..., None] + by_image[classes[..., None], images]
    logit += rng.normal(0, 0.3, 300)[:, None, None]
    right = rng.random(logit.shape) < 1 / (1 + np.exp(-logit))
    tasks, query_classes = (
        np.broadcast_to(groups, right.shape) for groups in (np.arange(300)[:, None, None], classes[..., None])
    )
    return right, tasks, query_classes


def expected_share(*spreads: float) -> float:
    """Mean of the logistic function of 0.5 + N(0, Σ spread²), by quadrature."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    values = 1 / (1 + np.exp(-(0.5 + np.sqrt(sum(s * s for s in spreads)) * nodes)))
    return float((weights * values).sum() / weights.sum())


def coverage(class_spread: float, image_spread: float) -> tuple[float, float]:
    """How often the interval over tasks, and the one over tasks and classes, holds the truth in 150 worlds."""
    rng = np.random.default_rng(7)
    truth = expected_share(class_spread, image_spread, 0.3)
    hits = np.zeros((150, 2), bool)
    for world in range(150):
        right, tasks, classes = simulate(rng, class_spread, image_spread)
        over_tasks = mean_interval(right.mean(axis=(1, 2)))
        crossed = crossed_interval(right.ravel(), tasks.ravel(), classes.ravel())
        hits[world] = [not interval.excludes(truth) for interval in (over_tasks, crossed)]
    return tuple(hits.mean(axis=0).tolist())


def test_planted_class_effects_are_covered() -> None:
    """150 worlds: 95 % ± 4 points is two standard errors; the interval over tasks misses most of them."""
    over_tasks, crossed = coverage(class_spread=0.8, image_spread=0.5)
    assert over_tasks < 0.5
    assert 0.90 <= crossed <= 0.99


def test_without_class_effects_both_hold() -> None:
    over_tasks, crossed = coverage(class_spread=0.0, image_spread=0.0)
    assert over_tasks > 0.9 and crossed > 0.9


def test_the_formula_by_hand() -> None:
    """Two tasks of unequal size over two classes; every sum written out."""
    values = [1.0, 0.0, 1.0, 1.0, 0.0, 0.0]
    tasks, classes = [0, 0, 1, 1, 1, 1], [0, 1, 0, 0, 1, 1]
    interval = crossed_interval(values, tasks, classes)
    assert interval.mean == 0.5  # (1/2 + 2/4) / 2
    # e = w (x − x̄): 1/4 · ±1/2 in task 0, 1/8 · ±1/2 in task 1; both tasks sum to 0, the classes to ± 1/4.
    over_tasks, over_classes = 0.0, 2 * (2 * 0.25**2)
    cells = [0.125, -0.125, 0.125, -0.125]
    over_cells = 4 / 3 * sum(cell**2 for cell in cells)
    variance = max(over_tasks + over_classes - over_cells, over_tasks, over_classes)
    assert interval.half == pytest.approx(stats.t.ppf(0.975, 1) * variance**0.5)
    assert interval.n == 2


def test_the_class_term_is_that_of_a_bootstrap_over_classes() -> None:
    """Where every task has every class, resampling the classes gives V(classes) · (G − 1) / G."""
    rng = np.random.default_rng(3)
    by_class = rng.random((12, 1)) * np.ones((12, 50))
    tasks, classes = np.meshgrid(np.arange(50), np.arange(12))
    interval = crossed_interval(by_class.ravel(), tasks.ravel(), classes.ravel())
    draws = by_class[:, 0][rng.integers(0, 12, (200_000, 12))].mean(axis=1)
    assert interval.half == pytest.approx(stats.t.ppf(0.975, 11) * draws.std() * (12 / 11) ** 0.5, rel=0.01)


def test_independent_tasks_of_one_query_are_a_plain_interval() -> None:
    values = np.random.default_rng(0).random(40)
    crossed = crossed_interval(values, np.arange(40), np.arange(40))
    assert crossed.half == pytest.approx(mean_interval(values).half)


def test_classes_of_one_task_each_are_clusters() -> None:
    """A task per class: the clustered interval of the queries, since every task has as many."""
    values = np.random.default_rng(1).random(60)
    groups = np.repeat(np.arange(6), 10)
    assert crossed_interval(values, groups, groups).half == pytest.approx(
        clustered_interval(values, groups).half
    )


@pytest.mark.parametrize(("tasks", "classes"), [([0, 0], [0, 1]), ([0, 1], [5, 5])])
def test_one_task_or_one_class_has_no_interval(tasks: list[int], classes: list[int]) -> None:
    interval = crossed_interval([1.0, 0.0], tasks, classes)
    assert interval.low is None and interval.mean == 0.5
    assert "needs at least 2 tasks and 2 classes" in interval.reason


def test_lengths_must_agree() -> None:
    with pytest.raises(ValueError, match="3 values need as many tasks, not 2"):
        crossed_interval([1, 0, 1], [0, 1], [0, 1])
    with pytest.raises(ValueError, match="2 tasks need as many classes, not 1"):
        crossed_interval([1, 0], [0, 1], [0])


def test_a_fifth_is_the_bound() -> None:
    assert not widths_differ(0.1, 0.119) and widths_differ(0.1, 0.121)
    assert not widths_differ(0.1, 0.081) and widths_differ(0.1, 0.079)
    assert not widths_differ(0.1, None) and not widths_differ(None, 0.1) and not widths_differ(math.nan, 0.1)
