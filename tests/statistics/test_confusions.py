from __future__ import annotations

import math

import numpy as np
import pytest

from longshot.statistics import Confusion, confusion, most_confused, wilson

NAMES = [("pets", name) for name in ("cat", "dog", "fox", "hen")]


def pairwise_meetings(mistakes: dict[tuple[int, int], tuple[int, int]]) -> Confusion:
    """Tasks of two classes each: (true, other) → (mistakes, queries), all queries of the true class."""
    true, predicted, tasks, members, member_tasks = [], [], [], [], []
    for task, ((first, second), (wrong, queries)) in enumerate(mistakes.items()):
        true += [first] * queries
        predicted += [second] * wrong + [first] * (queries - wrong)
        tasks += [task] * queries
        members += [first, second]
        member_tasks += [task, task]
    return confusion(true, predicted, tasks, members, member_tasks, NAMES)


class TestCounts:
    def test_by_hand(self) -> None:
        confusions = pairwise_meetings({(0, 1): (3, 10), (1, 0): (2, 5), (0, 2): (0, 4)})
        assert confusions.counts.toarray().tolist() == [
            [11, 3, 0, 0],
            [2, 3, 0, 0],
            [0, 0, 0, 0],
            [0, 0, 0, 0],
        ]
        assert confusions.chances.toarray().tolist() == [
            [14, 10, 4, 0],
            [5, 5, 0, 0],
            [0, 0, 0, 0],
            [0, 0, 0, 0],
        ]
        assert confusions.rate(0, 1) == 0.3
        assert confusions.rate(0, 2) == 0
        assert math.isnan(confusions.rate(2, 0))
        assert confusions.accuracy()[:2].tolist() == [11 / 14, 3 / 5]
        assert np.isnan(confusions.accuracy()[2:]).all()

    def test_no_queries(self) -> None:
        confusions = confusion([], [], [], [0, 1], [0, 0], NAMES)
        assert confusions.counts.nnz == confusions.chances.nnz == 0

    def test_every_query_needs_its_task(self) -> None:
        with pytest.raises(ValueError, match="every query needs"):
            confusion([0, 1], [0, 1], [0], [0, 1], [0, 0], NAMES)
        with pytest.raises(ValueError, match="every query needs"):
            confusion([0, 1], [0], [0, 0], [0, 1], [0, 0], NAMES)

    def test_every_member_needs_its_task(self) -> None:
        with pytest.raises(ValueError, match="every class of a task"):
            confusion([0], [0], [0], [0, 1], [0], NAMES)


class TestPairs:
    def test_both_directions_count(self) -> None:
        (pair,) = most_confused(pairwise_meetings({(0, 1): (3, 10), (1, 0): (2, 5)}))
        assert (pair.dataset, pair.first, pair.second) == ("pets", "cat", "dog")
        assert (pair.first_as_second, pair.second_as_first, pair.mistakes, pair.chances) == (3, 2, 5, 15)
        assert pair.rate == pytest.approx(1 / 3)
        assert pair.low == pytest.approx(wilson(5, 15)[0])

    def test_much_evidence_comes_before_a_higher_rate(self) -> None:
        confusions = pairwise_meetings({(0, 1): (2, 4), (2, 3): (40, 100)})
        pairs = most_confused(confusions)
        assert [(pair.first, pair.mistakes) for pair in pairs] == [("fox", 40), ("cat", 2)]
        assert most_confused(confusions, top=1) == pairs[:1]

    def test_equal_pairs_come_in_the_order_of_their_classes(self) -> None:
        pairs = most_confused(pairwise_meetings({(2, 3): (1, 5), (0, 3): (1, 5), (0, 1): (1, 5)}))
        assert [(pair.first, pair.second) for pair in pairs] == [
            ("cat", "dog"),
            ("cat", "hen"),
            ("fox", "hen"),
        ]


class TestWilson:
    def test_evidence_counts(self) -> None:
        low, _ = wilson([40, 2], [100, 4])
        assert low[0] > low[1]

    @pytest.mark.parametrize("level", [0.95, 0.8])
    def test_equals_statsmodels(self, level: float) -> None:
        proportion = pytest.importorskip("statsmodels.stats.proportion")
        hits, trials = np.array([0, 1, 7, 50]), np.array([3, 10, 9, 50])
        low, high = proportion.proportion_confint(hits, trials, alpha=1 - level, method="wilson")
        interval = wilson(hits, trials, level)
        assert interval[0] == pytest.approx(low, abs=1e-12)
        assert interval[1] == pytest.approx(high, abs=1e-12)

    def test_the_usual_level_is_95_percent(self) -> None:
        # z² = 3.8415; (0.5 + 3.8415/20 ± 1.96 √(0.25/10 + 3.8415/400)) / (1 + 0.38415) = 0.5 ± 0.2634
        assert [float(end) for end in wilson(5, 10)] == pytest.approx([0.2366, 0.7634], abs=5e-5)
