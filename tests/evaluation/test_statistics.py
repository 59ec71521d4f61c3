from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from longshot.evaluation.statistics import mean_interval


@pytest.mark.parametrize("n", [2, 3, 10, 600])
def test_interval_is_students(n: int) -> None:
    values = np.random.default_rng(n).random(n)
    low, high = stats.t.interval(0.95, n - 1, loc=values.mean(), scale=stats.sem(values))
    found = mean_interval(values)
    assert (found.mean, found.low, found.high) == pytest.approx((values.mean(), low, high))
    assert found.n == n


def test_equal_values_have_an_interval_of_no_width() -> None:
    assert mean_interval([0.5, 0.5, 0.5]).half == 0


def test_one_value_has_no_interval() -> None:
    found = mean_interval([0.7])
    assert (found.mean, found.low, found.high, found.half) == (0.7, None, None, None)


def test_no_values_have_no_mean() -> None:
    with pytest.raises(ValueError, match="no values"):
        mean_interval([])
