from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from scipy import stats

from longshot.statistics import (
    Interval,
    bootstrap_interval,
    clustered_interval,
    mean_interval,
    normal_interval,
    spread,
    worst_mean,
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


@pytest.mark.parametrize("interval", [mean_interval, normal_interval, bootstrap_interval])
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


def test_spread() -> None:
    values = np.random.default_rng(0).random(50)
    assert spread(values) == pytest.approx(stats.tstd(values))
    assert np.isnan(spread([0.3]))


class TestWorstMean:
    @pytest.mark.parametrize(("n", "count"), [(1, 1), (9, 1), (10, 1), (11, 2), (70, 7), (600, 60)])
    def test_is_the_mean_of_the_lowest_tenth(self, n: int, count: int) -> None:
        values = np.random.default_rng(n).random(n)
        assert worst_mean(values) == pytest.approx(np.sort(values)[:count].mean())

    def test_works_along_the_last_axis(self) -> None:
        table = np.random.default_rng(0).random((4, 30))
        assert worst_mean(table) == pytest.approx([worst_mean(row) for row in table])


class TestBootstrap:
    @pytest.mark.parametrize("method", ["percentile", "bca"])
    @pytest.mark.parametrize("name", ["mean", "worst"])
    def test_equals_scipy_on_the_same_draws(self, method: str, name: str) -> None:
        values = np.random.default_rng(3).beta(5, 2, 60)
        statistic = np.mean if name == "mean" else lambda x, axis: worst_mean(np.moveaxis(x, axis, -1))
        reference = stats.bootstrap(
            (values,),
            statistic,
            vectorized=True,
            axis=-1,
            n_resamples=1999,
            method="BCa" if method == "bca" else "percentile",
            rng=np.random.default_rng(5),
        ).confidence_interval
        ours = bootstrap_interval(
            values, None if name == "mean" else worst_mean, method=method, resamples=1999, seed=5
        )
        assert (ours.low, ours.high) == pytest.approx((reference.low, reference.high), abs=1e-12)

    def test_closed_influence_of_the_mean_equals_leaving_one_out(self) -> None:
        values = np.random.default_rng(4).random(40) ** 3
        closed = bootstrap_interval(values, resamples=500)
        generic = bootstrap_interval(values, lambda x: x.mean(axis=-1), resamples=500)
        assert (closed.low, closed.high) == pytest.approx((generic.low, generic.high), abs=1e-12)

    def test_blocks_change_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        values = np.random.default_rng(6).random(30)
        at_once = bootstrap_interval(values, worst_mean, resamples=300)
        monkeypatch.setattr("longshot.statistics.intervals._BLOCK", 77)
        assert bootstrap_interval(values, worst_mean, resamples=300) == at_once

    def test_equal_values_give_no_width(self) -> None:
        ours = bootstrap_interval(np.full(20, 0.4), resamples=200)
        assert (ours.low, ours.high, ours.reason) == (ours.mean, ours.mean, "")

    def test_says_when_bca_is_not_defined(self) -> None:
        def distinct(values: np.ndarray) -> np.ndarray:
            return (np.diff(np.sort(values, axis=-1), axis=-1) > 0).sum(axis=-1) + 1.0

        # A resample of twelve values has fewer than twelve different ones: all lie on one side.
        ours = bootstrap_interval(np.arange(12), distinct, resamples=200)
        plain = bootstrap_interval(np.arange(12), distinct, resamples=200, method="percentile")
        assert "percentile" in ours.reason
        assert (ours.low, ours.high) == (plain.low, plain.high)

    def test_same_seed_same_interval(self) -> None:
        values = np.random.default_rng(1).random(25)
        first, second, third = (bootstrap_interval(values, resamples=300, seed=seed) for seed in (1, 1, 2))
        assert first == second != third


class TestClustered:
    @pytest.mark.parametrize("sizes", [[20, 20, 20], [3, 40, 11, 7, 1]])
    def test_equals_statsmodels(self, sizes: list[int]) -> None:
        statsmodels = pytest.importorskip("statsmodels.api")
        rng = np.random.default_rng(len(sizes))
        group = np.repeat(np.arange(len(sizes)), sizes)
        values = rng.random(len(group)) + rng.normal(0, 0.3, len(sizes))[group]
        fit = statsmodels.OLS(values, np.ones(len(values))).fit(
            cov_type="cluster", cov_kwds={"groups": group, "df_correction": True}, use_t=True
        )
        ours = clustered_interval(values, [f"set {g}" for g in group])
        assert (ours.low, ours.high) == pytest.approx(tuple(fit.conf_int()[0]))

    def test_is_wider_when_tasks_of_a_dataset_go_together(self) -> None:
        rng = np.random.default_rng(1)
        group = np.repeat(np.arange(8), 50)
        values = rng.normal(0, 1, 8)[group] + rng.normal(0, 0.1, 400)
        clustered, plain = clustered_interval(values, group), mean_interval(values)
        assert clustered.half is not None and plain.half is not None
        assert clustered.half > 4 * plain.half

    def test_one_cluster_has_no_interval_and_says_why(self) -> None:
        ours = clustered_interval([0.1, 0.2, 0.4], ["a", "a", "a"])
        assert ours.low is None
        assert "at least 2 clusters, there is 1" in ours.reason


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
    groups = [0, 0, 1, 1, 2, 2, 2]
    wide, narrow = clustered_interval(values, groups, 0.95).half, clustered_interval(values, groups, 0.8).half
    assert wide is not None and narrow is not None
    assert wide / narrow == pytest.approx(stats.t.ppf(0.975, 2) / stats.t.ppf(0.9, 2))


def test_two_values_by_hand() -> None:
    # s = 0.2 / √2 and t₁ = 12.7062, so the half width is 12.7062 · 0.1; σ = 0.1 for Meta-Dataset's.
    assert mean_interval([0.4, 0.6]).half == pytest.approx(1.27062, abs=1e-5)
    assert normal_interval([0.4, 0.6]).half == pytest.approx(1.96 * 0.1 / np.sqrt(2))
    assert spread([0.4, 0.6]) == pytest.approx(0.2 / np.sqrt(2))


def test_infinite_values_are_counted() -> None:
    with pytest.raises(ValueError, match="2 of 3 values are NaN or infinite"):
        mean_interval([np.inf, 0.1, -np.inf])


def test_clusters_must_fit() -> None:
    with pytest.raises(ValueError, match="3 values need as many clusters, not 2"):
        clustered_interval([0.1, 0.2, 0.3], ["a", "b"])


def test_share_of_the_worst() -> None:
    values = np.arange(10.0)
    assert worst_mean(values, 0.5) == 2
    assert worst_mean(values, 1) == 4.5
    # 7.0000007 of 70 values is more than seven: only rounding is forgiven.
    assert worst_mean(np.arange(70.0), 0.1 + 1e-8) == np.arange(8).mean()


class TestEdgesOfTheBootstrap:
    def test_unknown_method(self) -> None:
        with pytest.raises(ValueError, match="'bca' or 'percentile', not 'basic'"):
            bootstrap_interval([0.1, 0.2], method="basic")

    @pytest.mark.parametrize(("jitter", "varies"), [(1e-13, False), (1e-9, True)])
    def test_rounding_is_no_variation(self, jitter: float, varies: bool) -> None:
        ours = bootstrap_interval(0.5 + jitter * np.arange(10), resamples=50)
        assert (ours.low != ours.high) == varies

    @pytest.mark.parametrize("level", [0.95, 0.6])
    def test_percentiles_of_the_draws(self, level: float) -> None:
        values = np.random.default_rng(8).random(12)
        rows = np.random.default_rng(3).integers(0, 12, (99, 12))
        low, high = np.quantile(values[rows].mean(axis=1), [(1 - level) / 2, (1 + level) / 2])
        ours = bootstrap_interval(values, method="percentile", level=level, resamples=99, seed=3)
        assert (ours.low, ours.high) == pytest.approx((low, high))
