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

    def test_groups_have_levels_of_their_own(self) -> None:
        """Against least squares with a column for every group."""
        rng = np.random.default_rng(3)
        x, groups = np.tile([0.0, 0.3, 0.6, 1.0], 3), np.repeat(["a", "b", "c"], 4)
        y = np.repeat([0.1, 0.5, 0.9], 4) - 0.2 * x + rng.normal(0, 0.02, 12)
        design = np.column_stack([x, *(groups == name for name in "abc")]).astype(float)
        theirs, residual, _, _ = np.linalg.lstsq(design, y)
        error = np.sqrt(residual[0] / 8 * np.linalg.inv(design.T @ design)[0, 0])
        line = slope(x, y, groups=groups)
        assert line.slope == pytest.approx(theirs[0])
        reach = stats.t.ppf(0.975, 8) * error
        assert (line.low, line.high) == pytest.approx((theirs[0] - reach, theirs[0] + reach))
        assert line.p == pytest.approx(2 * stats.t.sf(abs(theirs[0] / error), 8))
        assert slope(x, y).high - slope(x, y).low > 5 * (line.high - line.low)  # levels count as noise
        assert np.isnan(slope([0, 1, 0], [1, 2, 4], groups=[0, 0, 1]).low)

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


class TestEdgesOfSlopes:
    def test_a_level_line_has_no_relation(self) -> None:
        line = slope([1, 2, 3], [0.5, 0.5, 0.5])
        assert (line.slope, line.low, line.high, line.intercept, line.r, line.p, line.n) == (
            *(0, 0, 0, 0.5, 0, 1),
            3,
        )

    def test_a_perfect_line_is_certain(self) -> None:
        line = slope([0, 1, 2], [1, 3, 5])
        assert (line.slope, line.low, line.high, line.intercept, line.r, line.p) == (2, 2, 2, 1, 1, 0)

    def test_another_level(self) -> None:
        x, y = data(12)
        reference = stats.linregress(x, y)
        reach = stats.t.ppf(0.9, 10) * reference.stderr
        assert slope(x, y, 0.8).high == pytest.approx(reference.slope + reach)

    def test_pairs_have_equal_lengths(self) -> None:
        with pytest.raises(ValueError, match="3 and 2 values are not pairs"):
            slope([1, 2, 3], [1, 2])


class TestEdgesOfCorrelations:
    def test_bonett_and_wright_by_arithmetic(self) -> None:
        # Five exchanged neighbours among ten: Σd² = 10 and r = 1 − 6 · 10 / (10 · 99) = 31/33.
        # atanh r = ½ ln((1 + r) / (1 − r)) = ½ ln 32 = 1.7328680; r² / 2 = 0.4412305;
        # se = √(1.4412305 / 7) = 0.4537511; 1.9599640 · se = 0.8893358; tanh(0.8435321), tanh(2.6222038).
        relation = correlation(range(10), [1, 0, 3, 2, 5, 4, 7, 6, 9, 8], "spearman")
        assert relation.r == pytest.approx(31 / 33, abs=1e-15)
        assert (relation.low, relation.high) == pytest.approx((0.6876754, 0.9895015), abs=1e-7)

    def test_pearson_has_no_such_factor(self) -> None:
        # The same numbers: 1.9599640 / √7 = 0.7407968; tanh(0.9920712), tanh(2.4736648).
        relation = correlation(range(10), [1, 0, 3, 2, 5, 4, 7, 6, 9, 8])
        assert (relation.low, relation.high) == pytest.approx((0.7583, 0.9859), abs=1e-4)

    def test_another_level_of_spearman(self) -> None:
        relation = correlation(range(10), [1, 0, 3, 2, 5, 4, 7, 6, 9, 8], "spearman", level=0.5)
        error = np.sqrt((1 + (31 / 33) ** 2 / 2) / 7)
        ends = np.tanh(np.log(32) / 2 + stats.norm.ppf([0.25, 0.75]) * error)
        assert (relation.low, relation.high) == pytest.approx(tuple(ends))

    def test_two_pairs_are_too_few(self) -> None:
        relation = correlation([1, 2], [2, 1])
        assert np.isnan([relation.r, relation.low, relation.high, relation.p]).all()
        assert relation.reason == "a correlation needs at least 3 pairs, there are 2"

    def test_three_pairs_have_no_interval(self) -> None:
        relation = correlation([1, 2, 3], [1, 3, 2.5])
        reference = stats.pearsonr([1, 2, 3], [1, 3, 2.5])
        assert (relation.r, relation.p) == pytest.approx((reference.statistic, reference.pvalue))
        assert np.isnan([relation.low, relation.high]).all()
        assert relation.reason == "Fisher's interval needs at least 4 pairs"

    @pytest.mark.parametrize(("jitter", "constant"), [(1e-7, True), (1e-4, False)])
    def test_rounding_is_no_variation(self, jitter: float, constant: bool) -> None:
        relation = correlation(1e6 + jitter * np.array([0, 1, 0, 1, 1]), [1, 2, 3, 4, 5])
        assert (relation.reason == "one side is constant") == constant


class TestWindows:
    @pytest.mark.parametrize("window", [2, 10])
    def test_smallest_and_largest(self, window: int) -> None:
        y = np.arange(10.0) ** 2
        curve = rolling_mean(range(10), y, window, 0.8)
        assert len(curve.mean) == 11 - window
        low, high = stats.t.interval(0.8, window - 1, loc=y[-window:].mean(), scale=stats.sem(y[-window:]))
        assert (curve.low[-1], curve.high[-1]) == pytest.approx((low, high))

    def test_equal_x_keep_their_order(self) -> None:
        assert rolling_mean([1, 1, 0, 1], [0.1, 0.2, 0.3, 0.4], 2).mean == pytest.approx([0.2, 0.15, 0.3])
