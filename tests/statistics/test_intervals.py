from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from scipy import stats

from longshot.statistics import (
    Interval,
    bootstrap,
    mean_interval,
    normal_interval,
)


@pytest.mark.parametrize("n", [2, 3, 10, 600])
def test_interval_is_students(n: int) -> None:
    values = np.random.default_rng(n).random(n)
    low, high = stats.t.interval(0.95, n - 1, loc=values.mean(), scale=stats.sem(values))
    ours = mean_interval(values)
    assert (ours.mean, ours.low, ours.high) == pytest.approx((values.mean(), low, high))
    assert ours.n == n


def test_equal_values_have_an_interval_of_no_width() -> None:
    assert mean_interval([0.5, 0.5, 0.5]).half == 0


@pytest.mark.parametrize("interval", [mean_interval, normal_interval])
def test_one_value_has_no_interval(interval: object) -> None:
    alone = interval([0.7])  # type: ignore[operator]
    assert (alone.mean, alone.low, alone.high, alone.half) == (0.7, None, None, None)
    assert alone.as_dict()["reason"]


@pytest.mark.parametrize(("values", "message"), [([], "no values"), ([0.1, np.nan], "1 of 2")])
def test_values_that_have_no_mean(values: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mean_interval(values)


def test_normal_interval_is_meta_datasets() -> None:
    values = np.random.default_rng(0).random(600)
    ours = normal_interval(values)
    assert ours.half == pytest.approx(1.96 * np.std(values) / np.sqrt(600))


def test_importing_the_statistics_is_light() -> None:
    code = "import sys, longshot.statistics; print({'torch', 'scipy.stats', 'pandas'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


class TestInterval:
    def test_half_is_half_the_width(self) -> None:
        assert Interval(2.0, 1.0, 4.0, 3).half == 1.5

    @pytest.mark.parametrize(
        ("value", "outside"), [(0.9, True), (1, False), (3, False), (4, False), (4.1, True)]
    )
    def test_excludes_what_lies_outside(self, value: float, outside: bool) -> None:
        assert Interval(2.0, 1.0, 4.0, 3).excludes(value) == outside

    def test_without_an_interval_nothing_is_excluded(self) -> None:
        assert not Interval(2.0, None, None, 1).excludes(9)

    def test_as_plain_values(self) -> None:
        assert Interval(2.0, 1.0, 4.0, 3).as_dict() == {"mean": 2.0, "low": 1.0, "high": 4.0, "n": 3}
        assert Interval(2.0, None, None, 1, "why").as_dict()["reason"] == "why"


def test_other_levels() -> None:
    values = np.random.default_rng(2).random(7)
    low, high = stats.t.interval(0.8, 6, loc=values.mean(), scale=stats.sem(values))
    ours = mean_interval(values, 0.8)
    assert (ours.low, ours.high) == pytest.approx((low, high))


def test_two_values_by_hand() -> None:
    # s = 0.2 / √2 and t₁ = 12.7062, so the half width is 12.7062 · 0.1; σ = 0.1 for Meta-Dataset's.
    assert mean_interval([0.4, 0.6]).half == pytest.approx(1.27062, abs=1e-5)
    assert normal_interval([0.4, 0.6]).half == pytest.approx(1.96 * 0.1 / np.sqrt(2))


def test_infinite_values_are_counted() -> None:
    with pytest.raises(ValueError, match="2 of 3 values are NaN or infinite"):
        mean_interval([np.inf, 0.1, -np.inf])


class TestBootstrap:
    @pytest.mark.parametrize("level", [0.95, 0.6])
    def test_equals_scipy_on_the_same_draws(self, level: float) -> None:
        values = np.random.default_rng(3).beta(5, 2, 60)
        reference = stats.bootstrap(
            (values,),
            np.mean,
            n_resamples=1999,
            method="percentile",
            confidence_level=level,
            rng=np.random.default_rng(5),
        ).confidence_interval
        ours = bootstrap(60, lambda rows: values[rows].mean(1), level=level, resamples=1999, seed=5)
        assert (ours.low, ours.high) == pytest.approx((reference.low, reference.high), abs=1e-12)

    def test_blocks_change_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        values = np.random.default_rng(6).random(30)
        at_once = bootstrap(30, lambda rows: values[rows].max(1), resamples=300)
        monkeypatch.setattr("longshot.statistics.intervals._BLOCK", 77)
        assert bootstrap(30, lambda rows: values[rows].max(1), resamples=300) == at_once

    @pytest.mark.parametrize(("jitter", "varies"), [(1e-13, False), (1e-9, True)])
    def test_rounding_is_no_variation(self, jitter: float, varies: bool) -> None:
        values = 0.5 + jitter * np.arange(10)
        ours = bootstrap(10, lambda rows: values[rows].mean(1), resamples=50)
        assert (ours.low != ours.high) == varies

    def test_one_row_has_no_interval(self) -> None:
        assert bootstrap(1, lambda rows: rows.sum(1) + 0.7).low is None
