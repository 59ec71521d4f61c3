from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from longshot.statistics import correlation, rolling_mean, slope


def data(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = np.round(rng.random(n) * 10, 1)
    return x, 0.5 + 0.03 * x + rng.normal(0, 0.1, n)


class TestSlope:
    @pytest.mark.parametrize("n", [3, 10, 500])
    def test_equals_linregress(self, n: int) -> None:
        x, y = data(n)
        reference = stats.linregress(x, y)
        reach = stats.t.ppf(0.975, n - 2) * reference.stderr
        line = slope(x, y)
        assert (line.slope, line.intercept, line.r, line.p) == pytest.approx(
            (reference.slope, reference.intercept, reference.rvalue, reference.pvalue)
        )
        assert (line.low, line.high) == pytest.approx((reference.slope - reach, reference.slope + reach))

    def test_equals_statsmodels(self) -> None:
        api = pytest.importorskip("statsmodels.api")
        x, y = data(40)
        fit = api.OLS(y, api.add_constant(x)).fit()
        line = slope(x, y)
        assert (line.low, line.high) == pytest.approx(tuple(fit.conf_int()[1]))

    def test_two_points_have_a_line_and_no_interval(self) -> None:
        line = slope([0, 1], [0.2, 0.6])
        assert line.slope == pytest.approx(0.4)
        assert np.isnan([line.low, line.high, line.p]).all()

    def test_equal_x_have_no_slope(self) -> None:
        with pytest.raises(ValueError, match="two different x"):
            slope([1, 1, 1], [0.1, 0.2, 0.3])


class TestCorrelation:
    @pytest.mark.parametrize("n", [4, 30, 600])
    def test_pearson_equals_scipys(self, n: int) -> None:
        x, y = data(n)
        reference = stats.pearsonr(x, y)
        interval = reference.confidence_interval(0.95)
        relation = correlation(x, y)
        assert (relation.r, relation.p) == pytest.approx((reference.statistic, reference.pvalue))
        assert (relation.low, relation.high) == pytest.approx((interval.low, interval.high))

    def test_spearman_equals_scipys(self) -> None:
        x, y = data(60)
        reference = stats.spearmanr(x, y)
        relation = correlation(x, y, "spearman")
        assert (relation.r, relation.p) == pytest.approx((reference.statistic, reference.pvalue))

    @pytest.mark.parametrize("kind", ["pearson", "spearman"])
    def test_both_intervals_agree_on_many_tasks(self, kind: str) -> None:
        x, y = data(300)
        fisher = correlation(x, y, kind)  # type: ignore[arg-type]
        resampled = correlation(x, y, kind, interval="bootstrap", resamples=600)  # type: ignore[arg-type]
        assert (resampled.low, resampled.high) == pytest.approx((fisher.low, fisher.high), abs=0.04)

    def test_fisher_covers_spearman_as_promised(self) -> None:
        rng = np.random.default_rng(3)
        truth = 6 / np.pi * np.arcsin(0.6 / 2)  # Spearman of a normal pair with Pearson 0.6
        hits = 0
        for _ in range(300):
            x, y = rng.multivariate_normal([0, 0], [[1, 0.6], [0.6, 1]], 60).T
            relation = correlation(x, y, "spearman")
            hits += relation.low <= truth <= relation.high
        assert hits / 300 == pytest.approx(0.95, abs=0.04)

    def test_a_constant_side_is_told(self) -> None:
        relation = correlation([1, 1, 1, 1], [0.1, 0.2, 0.3, 0.4])
        assert np.isnan(relation.r)
        assert relation.reason == "one side is constant"

    def test_perfect_relation(self) -> None:
        relation = correlation([1, 2, 3, 4, 5], [2, 4, 6, 8, 10])
        assert (relation.r, relation.low, relation.high) == pytest.approx((1, 1, 1))
        assert relation.p == pytest.approx(0, abs=1e-12)


class TestRolling:
    def test_equals_a_plain_loop(self) -> None:
        x, y = data(90)
        curve = rolling_mean(x, y, window=20)
        order = np.argsort(x, kind="stable")
        assert len(curve.mean) == 71
        for start in (0, 13, 70):
            part = order[start : start + 20]
            low, high = stats.t.interval(0.95, 19, loc=y[part].mean(), scale=stats.sem(y[part]))
            assert (curve.x[start], curve.mean[start]) == pytest.approx((x[part].mean(), y[part].mean()))
            assert (curve.low[start], curve.high[start]) == pytest.approx((low, high))

    @pytest.mark.parametrize("window", [1, 11])
    def test_window_must_fit(self, window: int) -> None:
        with pytest.raises(ValueError, match="between 2 and the number of tasks, 10"):
            rolling_mean(range(10), range(10), window=window)
