from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from longshot.statistics import breakdown, mean_interval, quantile_bins


class TestQuantileBins:
    @pytest.mark.parametrize("n", [4, 10, 5000])
    def test_sizes_differ_by_at_most_one(self, n: int) -> None:
        sizes = np.bincount(quantile_bins(np.random.default_rng(n).integers(0, 9, n)), minlength=4)
        assert np.ptp(sizes) <= 1

    def test_lower_values_come_first(self) -> None:
        assert quantile_bins([5, 1, 9, 3]).tolist() == [2, 0, 3, 1]

    def test_equal_values_can_stay_together(self) -> None:
        x = [1, 1, 1, 1, 1, 2, 3, 4]
        assert quantile_bins(x, ties="together").tolist() == [0, 0, 0, 0, 0, 2, 3, 3]


class TestBreakdown:
    def test_text_by_value(self) -> None:
        groups = breakdown([0.1, 0.2, 0.3, 0.4], ["b", "a", "b", "a"])
        assert [(g.label, g.rows.tolist()) for g in groups] == [("a", [1, 3]), ("b", [0, 2])]
        assert groups[0].interval == mean_interval([0.2, 0.4])

    def test_few_numbers_stay_as_they_are(self) -> None:
        groups = breakdown([0.1, 0.2, 0.3], np.array([10, 5, 10], np.int16))
        assert [g.label for g in groups] == ["5", "10"]

    def test_many_numbers_become_quartiles(self) -> None:
        x = np.arange(100) / 10
        groups = breakdown(x, x)
        assert [g.label for g in groups] == [
            "1st quartile (0 – 2.4)",
            "2nd quartile (2.5 – 4.9)",
            "3rd quartile (5 – 7.4)",
            "4th quartile (7.5 – 9.9)",
        ]
        assert [g.interval.n for g in groups] == [25] * 4

    def test_tasks_without_a_value_are_a_group(self) -> None:
        groups = breakdown([0.1, 0.2, 0.3, 0.4], pa.array([1.0, None, float("nan"), 2.0]))
        assert [(g.label, g.value, g.interval.n) for g in groups] == [
            ("1", 1, 1),
            ("2", 2, 1),
            ("(none)", None, 2),
        ]

    def test_true_and_false_are_no_numbers(self) -> None:
        assert [g.label for g in breakdown([0.1, 0.2], [True, False], limit=0)] == ["False", "True"]

    def test_every_task_is_in_one_group(self) -> None:
        rng = np.random.default_rng(0)
        groups = breakdown(rng.random(333), rng.random(333), bins=10)
        assert sorted(np.concatenate([g.rows for g in groups]).tolist()) == list(range(333))
        assert groups[9].label.startswith("10th decile")
