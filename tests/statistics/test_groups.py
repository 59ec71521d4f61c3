from __future__ import annotations

import numpy as np
import pytest

from longshot.statistics import quantile_bins


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


class TestEdges:
    def test_cuts_at_the_quantiles_belong_to_the_lower_part(self) -> None:
        # quartiles of 0 … 4 are 1, 2 and 3
        assert quantile_bins([0, 1, 2, 3, 4], ties="together").tolist() == [0, 0, 1, 2, 3]
