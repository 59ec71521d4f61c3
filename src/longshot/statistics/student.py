"""Student's t distribution: SciPy's, with tails and factors on both sides as intervals and tests need them."""

from __future__ import annotations


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
    from scipy.special import stdtr  # here, since whoever imports this room may compute no interval

    return float(2 * stdtr(freedom, -abs(t)))


def t_quantile(freedom: float, level: float) -> float:
    """The two-sided Student-t factor t with P(|T| ≤ t) = ``level``.

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
    from scipy.special import stdtrit

    # The lower tail: (1 + level) / 2 would have lost the digits of a level near 1.
    return float(abs(stdtrit(freedom, (1 - level) / 2)))
