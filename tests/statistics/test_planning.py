from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from longshot.statistics import ranking_stability, tasks_needed


class TestTasksNeeded:
    @pytest.mark.parametrize(("std", "half"), [(0.1, 0.01), (0.1, 0.001), (0.02, 0.05), (0.2, 0.2)])
    def test_is_the_smallest_that_fits(self, std: float, half: float) -> None:
        def reach(n: int) -> float:
            return float(stats.t.ppf(0.975, n - 1) * std / np.sqrt(n))

        n = tasks_needed(std, half)
        assert reach(n) <= half
        assert n == 2 or reach(n - 1) > half

    def test_no_spread_needs_two(self) -> None:
        assert tasks_needed(0, 0.01) == 2

    def test_refuses_no_width(self) -> None:
        with pytest.raises(ValueError, match="half width > 0"):
            tasks_needed(0.1, 0)


class TestStability:
    def test_clear_differences_are_settled(self) -> None:
        scores = np.random.default_rng(0).normal(0, 0.1, (200, 1)) + np.array([0.1, 0.9, 0.5])
        stability = ranking_stability(scores, resamples=300)
        assert stability.order.tolist() == [1, 2, 0]
        assert (stability.same, stability.agreement, stability.settled()) == (1, 1, True)
        assert stability.first.tolist() == [0, 1, 0]

    def test_equal_methods_tie(self) -> None:
        column = np.random.default_rng(1).random((50, 1))
        stability = ranking_stability(np.hstack([column, column]), resamples=100)
        assert stability.first.tolist() == [0.5, 0.5]
        assert (stability.above[0, 1], stability.agreement, stability.settled()) == (0.5, 0, False)

    def test_shares_agree_with_resampling_by_hand(self) -> None:
        scores = np.random.default_rng(2).normal(0, 1, (40, 3)) + np.array([0, 0.1, 0.2])
        stability = ranking_stability(scores, resamples=4000)
        rng = np.random.default_rng(9)
        means = np.array([scores[rng.integers(0, 40, 40)].mean(axis=0) for _ in range(4000)])
        assert stability.above[1, 0] == pytest.approx((means[:, 1] > means[:, 0]).mean(), abs=0.04)
        assert stability.first == pytest.approx(
            np.bincount(means.argmax(axis=1), minlength=3) / 4000, abs=0.04
        )
        tau = [stats.kendalltau(-scores.mean(axis=0), -row).statistic for row in means[:500]]
        assert stability.agreement == pytest.approx(np.mean(tau), abs=0.08)
        assert stability.places.sum(axis=0) == pytest.approx(1)

    def test_lower_is_better(self) -> None:
        scores = np.tile([0.3, 0.1], (10, 1))
        assert ranking_stability(scores, higher_is_better=False, resamples=10).order.tolist() == [1, 0]
