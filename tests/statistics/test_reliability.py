from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.calibration import calibration_curve

from longshot.statistics import calibration, confidences


def answers(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    sure = 0.2 + 0.8 * rng.random(n)
    return sure, rng.random(n) < sure**2  # over-confident


class TestBins:
    def test_equal_scikit_learns(self) -> None:
        sure, right = answers(2000)
        share, mean = calibration_curve(right, sure, n_bins=10)
        bins = calibration(sure, right, bins=10)
        filled = bins.counts > 0
        assert bins.accuracy[filled] == pytest.approx(share)
        assert bins.confidence[filled] == pytest.approx(mean)
        assert np.isnan(bins.accuracy[~filled]).all() and np.isnan(bins.confidence[~filled]).all()

    def test_errors_by_hand(self) -> None:
        measured = calibration([0.95, 0.95, 0.55, 0.55, 0.85], [1, 0, 1, 1, 1], bins=10)
        assert measured.ece == pytest.approx(
            0.4 * abs(0.5 - 0.95) + 0.4 * abs(1 - 0.55) + 0.2 * abs(1 - 0.85)
        )
        assert (measured.mce, measured.n) == (pytest.approx(0.45), 5)
        assert measured.counts.tolist() == [0, 0, 0, 0, 0, 2, 0, 0, 1, 2]
        assert measured.brier == pytest.approx((0.05**2 + 0.95**2 + 2 * 0.45**2 + 0.15**2) / 5)
        assert measured.edges == pytest.approx(np.arange(11) / 10)

    def test_gap_is_mean_confidence_minus_accuracy(self) -> None:
        sure, right = answers(500)
        assert calibration(sure, right).gap == pytest.approx(sure.mean() - right.mean())

    def test_honest_answers_have_a_small_error(self) -> None:
        # Each of 15 bins holds about 1,333 queries: a gap has standard deviation √(p (1 − p) / 1333) ≤ 0.0137.
        rng = np.random.default_rng(1)
        sure = rng.random(20_000)
        assert calibration(sure, rng.random(20_000) < sure).ece < 0.02

    def test_an_edge_belongs_to_the_bin_below(self) -> None:
        assert calibration([0.5, 0.5, 0.75], [0, 1, 1], bins=4).counts.tolist() == [0, 2, 1, 0]

    def test_ends_belong_to_a_bin(self) -> None:
        counts = calibration([0.0, 1.0], [0, 1]).counts
        assert len(counts) == 15
        assert counts[[0, -1]].tolist() == [1, 1]

    @pytest.mark.parametrize(
        ("confidence", "right"), [([1.2], [1]), ([1.00001], [1]), ([-0.01], [0]), ([0.5], [1, 0])]
    )
    def test_refuses_what_is_no_probability(self, confidence: list[float], right: list[int]) -> None:
        with pytest.raises(ValueError, match="between 0 and 1"):
            calibration(confidence, right)

    def test_a_probability_may_exceed_one_by_rounding(self) -> None:
        assert calibration([1 + 5e-7], [1], bins=2).counts.tolist() == [0, 1]


class TestConfidences:
    def test_equal_scipys_softmax(self) -> None:
        rng = np.random.default_rng(0)
        ways = rng.integers(2, 6, 40)
        labels = rng.integers(0, ways)
        logits = [rng.normal(0, 3, way) for way in ways]
        sure, right = confidences(np.concatenate(logits), ways, labels)
        assert sure == pytest.approx([softmax(row).max() for row in logits])
        assert right.tolist() == [
            bool(row.argmax() == label) for row, label in zip(logits, labels, strict=True)
        ]

    def test_equal_scores_go_to_the_first_class(self) -> None:
        sure, right = confidences([1.0, 1.0, 1.0, 1.0], [2, 2], [0, 1])
        assert sure.tolist() == [0.5, 0.5]
        assert right.tolist() == [True, False]

    def test_large_scores_do_not_overflow(self) -> None:
        assert confidences([5000.0, 4000.0], [2], [0])[0].tolist() == [1.0]

    def test_scores_must_fit(self) -> None:
        with pytest.raises(ValueError, match="one score per class"):
            confidences([0.1, 0.2, 0.3], [2], [0])
        with pytest.raises(ValueError, match="one score per class"):
            confidences([0.1, 0.2], [2], [0, 1])
