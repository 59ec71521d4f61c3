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


class TestEdges:
    def test_twelve_different_numbers_stay_and_thirteen_are_cut(self) -> None:
        assert len(breakdown(np.zeros(12), range(12))) == 12
        assert len(breakdown(np.zeros(13), range(13))) == 4

    @pytest.mark.parametrize(
        ("bins", "number", "label"),
        [
            *((2, 2, "2nd half"), (3, 3, "3rd of 3"), (4, 1, "1st quartile"), (5, 4, "4th quintile")),
            *(
                (10, 10, "10th decile"),
                (25, 11, "11th of 25"),
                (25, 12, "12th of 25"),
                (25, 13, "13th of 25"),
            ),
            *((25, 20, "20th of 25"), (25, 21, "21st of 25"), (25, 22, "22nd of 25"), (25, 23, "23rd of 25")),
        ],
    )
    def test_names_of_parts(self, bins: int, number: int, label: str) -> None:
        groups = breakdown(np.zeros(50), np.arange(50), bins=bins)
        assert groups[number - 1].label.startswith(f"{label} (")

    def test_ranges_and_rows_of_parts(self) -> None:
        groups = breakdown(np.zeros(20), 20 - np.arange(20), bins=2)
        assert [group.value for group in groups] == [(1, 10), (11, 20)]
        assert groups[0].rows.tolist() == list(range(10, 20))

    def test_equal_values_stay_together_where_asked(self) -> None:
        column = [0] * 6 + [1, 2]
        apart, together = (
            breakdown(range(8), column, bins=2, limit=0, ties=ties) for ties in ("split", "together")
        )
        assert [group.interval.n for group in apart] == [4, 4]
        assert [group.interval.n for group in together] == [6, 2]

    def test_another_level(self) -> None:
        (group,) = breakdown([0.1, 0.4, 0.2], ["x"] * 3, level=0.5)
        assert group.interval == mean_interval([0.1, 0.4, 0.2], 0.5)

    def test_a_column_of_another_length(self) -> None:
        with pytest.raises(ValueError, match="3 values and a column of 2 entries do not fit"):
            breakdown([0.1, 0.2, 0.3], ["a", "b"])

    def test_a_column_without_values_is_one_group(self) -> None:
        (group,) = breakdown([0.1, 0.2], [None, float("nan")])
        assert (group.label, group.rows.tolist()) == ("(none)", [0, 1])

    def test_cuts_at_the_quantiles_belong_to_the_lower_part(self) -> None:
        # quartiles of 0 … 4 are 1, 2 and 3
        assert quantile_bins([0, 1, 2, 3, 4], ties="together").tolist() == [0, 0, 1, 2, 3]

    def test_numbers_beside_text_are_text(self) -> None:
        groups = breakdown([0.1, 0.2, 0.3], [2, "a", 10], limit=0)
        assert [(group.label, group.rows.tolist()) for group in groups] == [
            ("10", [2]),
            ("2", [0]),
            ("a", [1]),
        ]
