from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from longshot.statistics import (
    Interval,
    dataset_difficulty,
    drops,
    mean_interval,
    unpaired_difficulty,
    welch,
)


class TestWelch:
    @pytest.mark.parametrize("level", [0.95, 0.8])
    def test_equals_scipys(self, level: float) -> None:
        rng = np.random.default_rng(0)
        a, b = rng.random(30), rng.random(80) * 0.5
        low, high = stats.ttest_ind(a, b, equal_var=False).confidence_interval(level)
        interval = welch(a, b, level)
        assert (interval.mean, interval.low, interval.high) == pytest.approx((a.mean() - b.mean(), low, high))
        assert interval.n == 110

    def test_two_tasks_on_a_side_are_enough(self) -> None:
        a, b = [0.1, 0.4], [0.2, 0.3, 0.9]
        low, high = stats.ttest_ind(a, b, equal_var=False).confidence_interval()
        assert (welch(a, b).low, welch(a, b).high) == pytest.approx((low, high))

    def test_one_task_has_no_interval(self) -> None:
        for interval in (welch([0.4], [0.1, 0.2]), welch([0.1, 0.2], [0.4])):
            assert interval.low is None
            assert "at least 2 tasks" in interval.reason
            assert interval.n == 3

    def test_sides_without_variation_have_an_interval_of_no_width(self) -> None:
        assert welch([0.5, 0.5], [0.25, 0.25, 0.25]) == Interval(0.25, 0.25, 0.25, 5)

    def test_one_side_without_variation(self) -> None:
        # Only A varies: ν = n_a − 1 = 2 and se² = s²/3 = 0.01/3.
        interval = welch([0.5, 0.6, 0.7], [0.2, 0.2])
        assert interval.half == pytest.approx(stats.t.ppf(0.975, 2) * np.sqrt(0.01 / 3))


class TestDrops:
    def test_paired_per_dataset_and_overall(self) -> None:
        rng = np.random.default_rng(1)
        a, sets = rng.random(40), np.repeat(["birds", "signs"], [15, 25])
        b = a - 0.2 + rng.normal(0, 0.01, 40)
        by_dataset = drops(a, b, sets, sets, paired=True)
        assert [(drop.dataset, drop.tasks_a) for drop in by_dataset] == [
            ("birds", 15),
            ("signs", 25),
            (None, 40),
        ]
        low, high = stats.ttest_rel(a[:15], b[:15]).confidence_interval()
        assert (by_dataset[0].drop.low, by_dataset[0].drop.high) == pytest.approx((low, high))
        assert by_dataset[2].drop.mean == pytest.approx((a - b).mean())
        assert (by_dataset[1].mean_a, by_dataset[1].mean_b) == pytest.approx((a[15:].mean(), b[15:].mean()))
        assert by_dataset[0].paired

    def test_apart_is_welchs(self) -> None:
        rng = np.random.default_rng(3)
        a, b = rng.random(12), rng.random(7)
        first, _ = drops(a, b, ["x"] * 12, ["x"] * 7, paired=False, level=0.9)
        assert first.drop == welch(a, b, 0.9)
        assert not first.paired

    def test_pairing_narrows_the_interval(self) -> None:
        rng = np.random.default_rng(2)
        a, sets = rng.random(50), ["x"] * 50
        b = a - 0.2 + rng.normal(0, 0.01, 50)
        paired, apart = (drops(a, b, sets, sets, paired=together)[0].drop.half for together in (True, False))
        assert paired is not None and apart is not None
        assert paired < apart / 10

    def test_only_shared_datasets_count(self) -> None:
        by_dataset = drops([0.9, 0.8, 0.1], [0.5, 0.4], ["x", "x", "y"], ["x", "z"], paired=False)
        assert [(drop.dataset, drop.tasks_a, drop.tasks_b) for drop in by_dataset] == [
            ("x", 2, 1),
            (None, 2, 1),
        ]
        assert (by_dataset[1].mean_a, by_dataset[1].mean_b) == pytest.approx((0.85, 0.5))

    def test_nothing_in_common(self) -> None:
        with pytest.raises(ValueError, match="no dataset in common"):
            drops([0.1], [0.1], ["x"], ["y"], paired=False)

    @pytest.mark.parametrize(("sets_a", "sets_b"), [(["x"], ["x"]), (["x", "x"], ["x", "x"])])
    def test_every_task_needs_its_dataset(self, sets_a: list[str], sets_b: list[str]) -> None:
        with pytest.raises(ValueError, match="every task needs its dataset"):
            drops([0.1, 0.2], [0.1], sets_a, sets_b, paired=False)

    def test_pairs_are_of_one_dataset(self) -> None:
        with pytest.raises(ValueError, match="same datasets"):
            drops([0.1, 0.2], [0.1, 0.2], ["x", "y"], ["y", "x"], paired=True)


class TestDatasetDifficulty:
    def test_by_hand(self) -> None:
        scores = np.array([[0.5, 0.9, 0.7], [0.7, 0.7, 0.7], [0.2, 0.1, 0.3], [0.2, 0.3, 0.5]])
        first, second = dataset_difficulty(scores, ["easy", "easy", "hard", "hard"])
        assert (first.dataset, first.best, first.worst) == ("easy", 1, 0)
        assert (first.intrinsic.mean, first.modelling.mean) == pytest.approx((0.2, 0.2))
        assert (second.best, second.worst, second.intrinsic.n) == (2, 0, 2)
        assert second.intrinsic.mean == pytest.approx(0.6)

    def test_intervals_are_of_the_mean_and_of_the_paired_difference(self) -> None:
        scores = np.random.default_rng(0).random((9, 2)) + np.array([0, 1])
        (difficulty,) = dataset_difficulty(scores, ["x"] * 9, 0.8)
        assert difficulty.intrinsic == mean_interval(1 - scores[:, 1], 0.8)
        assert difficulty.modelling == mean_interval(scores[:, 1] - scores[:, 0], 0.8)

    @pytest.mark.parametrize(
        ("scores", "datasets"),
        [([0.1, 0.2], ["x", "x"]), ([[0.1, 0.2]], ["x", "x"]), ([[0.1, np.nan]], ["x"])],
    )
    def test_refuses_what_is_no_table(self, scores: list[object], datasets: list[str]) -> None:
        with pytest.raises(ValueError, match=r"scores are \[tasks, methods\]"):
            dataset_difficulty(scores, datasets)  # type: ignore[arg-type]


class TestUnpairedDifficulty:
    def test_by_hand(self) -> None:
        """Two methods with tasks of their own: means 0.6 and 0.8 on a, 0.5 and 0.1 on b."""
        scores = [[0.5, 0.7, 0.5], [0.9, 0.7, 0.8, 0.0, 0.2]]
        first, second = unpaired_difficulty(scores, [["a", "a", "b"], ["a", "a", "a", "b", "b"]])
        assert (first.dataset, first.best, first.worst) == ("a", 1, 0)
        assert (first.intrinsic.mean, first.modelling.mean) == pytest.approx((0.2, 0.2))
        low, high = stats.ttest_ind(scores[1][:3], scores[0][:2], equal_var=False).confidence_interval()
        assert (first.modelling.low, first.modelling.high) == pytest.approx((low, high))
        assert first.intrinsic.half == pytest.approx(mean_interval([0.1, 0.3, 0.2]).half)
        assert (second.best, second.worst) == (0, 1)
        assert (second.intrinsic.mean, second.modelling.mean) == pytest.approx((0.5, 0.4))
        assert second.modelling.low is None  # one task on a side

    @pytest.mark.parametrize(
        ("datasets", "words"),
        [
            ([["a"], ["a"]], "every task needs its dataset"),
            ([["a"], ["b", "b"]], "every method needs tasks of 'a'"),
        ],
    )
    def test_refuses_what_does_not_fit(self, datasets: list[list[str]], words: str) -> None:
        with pytest.raises(ValueError, match=words):
            unpaired_difficulty([[0.1], [0.2, 0.3]], datasets)
