"""Student's t against SciPy's, and against closed forms where SciPy's own input has lost the digits."""

from __future__ import annotations

import math

import pytest
from scipy.special import stdtr, stdtrit

from longshot.statistics import t_p_value, t_quantile

FREEDOMS = (1, 1.5, 2, 3, 4, 5, 7.3, 19, 59, 127.5, 128, 599, 9999)


@pytest.mark.parametrize("freedom", FREEDOMS)
def test_tails_are_scipys(freedom: float) -> None:
    for t in (1e-3, 0.1, 0.5, 1, 1.5, 1.96, 2.5, 3, 5, 8, 12, 40, 1e4):
        expected = 2 * stdtr(freedom, -t)
        if expected > 1e-280:
            assert t_p_value(t, freedom) == pytest.approx(expected, rel=1e-12)
            assert t_p_value(-t, freedom) == t_p_value(t, freedom)


@pytest.mark.parametrize("freedom", FREEDOMS)
def test_quantiles_are_scipys(freedom: float) -> None:
    for level in (0.01, 0.09, 0.11, 0.5, 0.8, 0.9, 0.95, 0.99, 0.999):
        assert t_quantile(freedom, level) == pytest.approx(stdtrit(freedom, (1 + level) / 2), rel=1e-12)


@pytest.mark.parametrize("freedom", FREEDOMS)
def test_a_quantile_leaves_the_tail_that_was_meant(freedom: float) -> None:
    """Far out (1 + level) / 2 has few digits of the tail left, so the tail itself is compared."""
    for tail in (1e-4, 1e-7, 1e-10):
        level = 1 - tail
        assert 2 * stdtr(freedom, -t_quantile(freedom, level)) == pytest.approx(1 - level, rel=1e-10)


def test_two_degrees_of_freedom_have_a_closed_form() -> None:
    for level in (1e-6, 0.3, 0.95, 1 - 1e-9):
        assert t_quantile(2, level) == pytest.approx(
            level * math.sqrt(2 / ((1 - level) * (1 + level))), rel=1e-9
        )


def test_ends_and_what_is_no_number() -> None:
    assert (t_p_value(0.0, 5), t_p_value(math.inf, 5), t_p_value(-math.inf, 5)) == (1.0, 0.0, 0.0)
    assert t_p_value(2.0, math.inf) == pytest.approx(2 * stdtr(1e12, -2.0), rel=1e-9)
    assert (t_quantile(5, 0.0), t_quantile(5, 1.0)) == (0.0, math.inf)
    assert math.isnan(t_p_value(math.nan, 5))
    assert math.isnan(t_quantile(0, 0.95))
