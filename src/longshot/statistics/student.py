"""Student's t distribution by its continued fraction: importing SciPy's takes longer than a small report.

Two-sided tails of T with ν degrees of freedom are a regularised incomplete beta function,

    P(|T| > t) = I_x(ν/2, 1/2),   x = ν / (ν + t²),

and I is computed by the continued fraction of the incomplete beta function (DLMF 8.17.22), from whichever side of it
converges. Relative errors stay below 10⁻¹² against SciPy (`tests/statistics/test_student.py`).
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

_TINY = 1e-300
# Γ(a + ½) / Γ(a) = √a · (1 − 1/(8 a) + 1/(128 a²) + …), the last term first
_SERIES = (869 / 4194304, -399 / 262144, -21 / 32768, 5 / 1024, 1 / 128, -1 / 8, 1.0)
_LARGE = 64.0  # from here on the series of Γ(a + ½) / Γ(a) has more digits than a float


def t_p_value(t: float, freedom: float) -> float:
    """Two-sided p of a t statistic: P(|T| ≥ |t|).

    Parameters
    ----------
    t : float
        The statistic.
    freedom : float
        Degrees of freedom ν > 0, whole or not.

    Examples
    --------
    >>> round(t_p_value(12.706, 1), 4)
    0.05
    """
    if math.isnan(t) or math.isnan(freedom):
        return math.nan
    if math.isinf(t):
        return 0.0
    square = t * t
    if square < _TINY:
        return 1.0
    if math.isinf(freedom):
        return math.erfc(abs(t) / math.sqrt(2))
    x, remainder = freedom / (freedom + square), square / (freedom + square)
    # x^a · (1 − x)^b / B(a, b) with a = ν/2 and b = ½; log1p keeps the digits that x near 1 has lost
    power = math.exp(-0.5 * freedom * math.log1p(square / freedom))
    front = power * math.sqrt(remainder) * _gamma_ratio(0.5 * freedom) / math.sqrt(math.pi)
    if x < (0.5 * freedom + 1) / (0.5 * freedom + 2.5):
        return front * _fraction(0.5 * freedom, 0.5, x) / (0.5 * freedom)
    return 1.0 - front * _fraction(0.5, 0.5 * freedom, remainder) / 0.5


@lru_cache(maxsize=4096)
def t_quantile(freedom: float, level: float) -> float:
    """The two-sided Student-t factor t with P(|T| ≤ t) = ``level``: Newton's method on log t and the logarithm of p.

    Parameters
    ----------
    freedom : float
        Degrees of freedom ν > 0, whole or not.
    level : float
        Between 0 and 1.

    Examples
    --------
    >>> round(t_quantile(1, 0.95), 3), round(t_quantile(599, 0.95), 3)
    (12.706, 1.964)
    """
    tail = 1.0 - level
    if math.isnan(freedom) or math.isnan(level) or not 0 <= level <= 1 or freedom <= 0:
        return math.nan
    if level == 0 or tail == 0:
        return 0.0 if level == 0 else math.inf
    if freedom == 1:
        return math.tan(0.5 * math.pi * level) if level < 0.5 else 1 / math.tan(0.5 * math.pi * tail)
    if level < 0.1:  # p stays near 1 there and its logarithm near 0: the density's rise decides
        return _small_quantile(freedom, level)
    t = NormalDist().inv_cdf(0.5 + 0.5 * level)
    for _ in range(100):
        p = t_p_value(t, freedom)
        step = (math.log(p) - math.log(tail)) * p / (2 * t * _density(t, freedom))
        t *= math.exp(max(-2.0, min(2.0, step)))
        if abs(step) < 1e-9:  # a step squares what is missing
            break
    return t


def _small_quantile(freedom: float, level: float) -> float:
    t = 0.5 * level / _density(0.0, freedom)
    for _ in range(100):
        step = (1.0 - t_p_value(t, freedom) - level) / (2 * _density(t, freedom))
        t -= step
        if abs(step) < 1e-9 * t:
            break
    return t


def _density(t: float, freedom: float) -> float:
    power = math.exp(-0.5 * (freedom + 1) * math.log1p(t * t / freedom))
    return power * _gamma_ratio(0.5 * freedom) / math.sqrt(math.pi * freedom)


@lru_cache(maxsize=4096)
def _gamma_ratio(a: float) -> float:
    """Γ(a + ½) / Γ(a): its asymptotic series from ``_LARGE`` on, brought down by Γ(a + 1) = a Γ(a)."""
    product = 1.0
    while a < _LARGE:
        product *= a / (a + 0.5)
        a += 1.0
    series = 0.0
    for coefficient in _SERIES:
        series = series / a + coefficient
    return product * math.sqrt(a) * series


def _fraction(a: float, b: float, x: float) -> float:
    """The continued fraction of a · I_x(a, b) · B(a, b) / (x^a (1 − x)^b), by Lentz's method."""
    c, d = 1.0, 1.0 - (a + b) * x / (a + 1)
    d = 1.0 / (d if abs(d) > _TINY else _TINY)
    value = d
    for m in range(1, 100_000):
        for numerator in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1.0 + numerator * d
            d = 1.0 / (d if abs(d) > _TINY else _TINY)
            c = 1.0 + numerator / c
            c = c if abs(c) > _TINY else _TINY
            value *= c * d
        if abs(c * d - 1.0) < 4e-16:
            break
    return value
