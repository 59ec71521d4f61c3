from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest
from scipy import stats

from longshot.statistics import (
    Stability,
    fewest_tasks,
    ranking_stability,
    sign_flip_tests,
    smallest_p,
    tasks_needed,
    tasks_to_decide,
)


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


class TestFewestTasks:
    @pytest.mark.parametrize(("comparisons", "needed"), [(1, 6), (2, 7), (3, 7), (4, 8), (100, 12)])
    def test_is_the_smallest_that_can_decide(self, comparisons: int, needed: int) -> None:
        assert fewest_tasks(comparisons) == needed
        assert comparisons * 2 / 2**needed < 0.05 <= comparisons * 2 / 2 ** (needed - 1)

    def test_the_bound_is_the_p_of_losses_on_every_task(self) -> None:
        for n in (1, 5, 6, 13):
            assert sign_flip_tests(np.full((n, 1), -0.46))[0][0] == smallest_p(n) == 2 / 2**n

    @pytest.mark.parametrize(("comparisons", "level"), [(0, 0.05), (1, 0.0), (1, 1.0), (1, np.nan)])
    def test_refuses_what_has_no_answer(self, comparisons: int, level: float) -> None:
        with pytest.raises(ValueError, match="1 comparison or more and a level between 0 and 1"):
            fewest_tasks(comparisons, level)


class TestTasksToDecide:
    SHAPES: ClassVar = {
        "both signs": np.array([-0.2, -0.4, 0, -0.1, 0.1, -0.3, -0.2, 0.2]),
        "mostly ties": np.r_[np.zeros(38), -0.6, -0.4],
        "many levels": np.arange(-6, 5).repeat([5, 4, 6, 6, 5, 8, 7, 6, 5, 4, 4]) / 25,
    }

    @pytest.mark.parametrize("comparisons", [1, 3])
    @pytest.mark.parametrize("shape", SHAPES)
    def test_the_test_itself_decides_with_about_the_power_that_was_asked_for(
        self, shape: str, comparisons: int
    ) -> None:
        """400 draws of n tasks through the sign-flip test; a share of them has a standard error of 2 points.

        Where few tasks differ at all the formula asks for a few more than are needed.
        """
        seen = self.SHAPES[shape]
        n = tasks_to_decide(float(seen.mean()), float(seen.std(ddof=1)), comparisons=comparisons)
        rng = np.random.default_rng(3)

        def decided(tasks: int) -> float:
            p_values, _ = sign_flip_tests(rng.choice(seen, (tasks, 400)))
            return float((p_values * comparisons < 0.05).mean())

        assert 0.74 <= decided(n) <= 0.95
        assert decided(n // 2) < 0.65

    def test_formula(self) -> None:
        z, beta = stats.norm.ppf([1 - 0.05 / 8, 0.9])
        n = ((z * np.hypot(0.03, 0.2) + beta * 0.2) / 0.03) ** 2
        assert tasks_to_decide(-0.03, 0.2, comparisons=4, power=0.9) == np.ceil(n)

    def test_never_fewer_than_could_decide(self) -> None:
        assert tasks_to_decide(-0.46, 0.0) == 6
        assert tasks_to_decide(-0.46, 0.01, comparisons=3) == 7

    @pytest.mark.parametrize(
        ("mean", "std", "power"), [(0, 1, 0.8), (np.nan, 1, 0.8), (1, -1, 0.8), (1, 1, 1)]
    )
    def test_refuses_what_has_no_answer(self, mean: float, std: float, power: float) -> None:
        with pytest.raises(ValueError, match="a mean that is not 0"):
            tasks_to_decide(mean, std, power=power)


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


class TestEdges:
    def test_no_spread_needs_two_tasks(self) -> None:
        assert tasks_needed(0, 0.01) == 2

    @pytest.mark.parametrize(("std", "half"), [(-0.1, 0.1), (0.1, 0), (np.inf, 0.1)])
    def test_refuses_what_has_no_answer(self, std: float, half: float) -> None:
        with pytest.raises(ValueError, match="finite std ≥ 0 and a half width > 0"):
            tasks_needed(std, half)

    @pytest.mark.parametrize("level", [0.95, 0.7])
    @pytest.mark.parametrize("n", [2, 3, 4, 17, 64, 65])
    def test_a_half_width_that_is_just_met(self, n: int, level: float) -> None:
        half = stats.t.ppf((1 + level) / 2, n - 1) * 0.3 / np.sqrt(n)
        assert tasks_needed(0.3, half * (1 + 1e-12), level) == n

    def test_shares_are_those_of_the_multinomial_draws(self) -> None:
        scores = np.array([[0.5, 0.4, 0.45], [0.1, 0.3, 0.2], [0.9, 0.7, 0.95], [0.2, 0.4, 0.1]])
        weights = np.random.default_rng(5).multinomial(4, np.full(4, 0.25), size=40)
        means = np.round(weights @ scores / 4, 12)
        stability = ranking_stability(scores, resamples=40, seed=5)
        overall = np.round(scores.mean(axis=0), 12)
        assert stability.order.tolist() == sorted(range(3), key=lambda method: -overall[method])
        orders = [sorted(range(3), key=lambda method: -row[method]) for row in means]
        assert stability.same == np.mean([order == stability.order.tolist() for order in orders])
        for method in range(3):
            for rank in range(3):
                assert stability.places[method, rank] == pytest.approx(
                    np.mean([order[rank] == method for order in orders])
                )
            top = [(row == row.max())[method] / (row == row.max()).sum() for row in means]
            assert stability.first[method] == pytest.approx(np.mean(top))
            for other in range(3):
                above = (means[:, method] > means[:, other]) + 0.5 * (means[:, method] == means[:, other])
                assert stability.above[method, other] == pytest.approx(above.mean())

    def test_settled_from_the_level_on(self) -> None:
        above = np.array([[0.5, 0.9], [0.1, 0.5]])
        fields = {"order": np.array([0, 1]), "same": 0.9, "first": above[0], "places": above}
        stability = Stability(**fields, above=above, agreement=0.8, resamples=10)
        assert stability.settled(0.9)
        assert not stability.settled(0.91)
        assert not stability.settled()

    def test_a_single_method(self) -> None:
        stability = ranking_stability([[0.1], [0.2]], resamples=5)
        assert (stability.same, stability.agreement, stability.settled()) == (1, 1, True)

    @pytest.mark.parametrize("scores", [[0.1, 0.2], [[0.1, np.nan]], np.empty((0, 2)), np.empty((2, 0))])
    def test_refuses_what_is_no_table(self, scores: object) -> None:
        with pytest.raises(ValueError, match=r"scores are \[tasks, methods\]"):
            ranking_stability(scores)  # type: ignore[arg-type]
