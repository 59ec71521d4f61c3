"""Numbers with their intervals as text: the one place where "mean ± half" is written."""

from __future__ import annotations

import math
from typing import Literal, TypeAlias

NumberUnit: TypeAlias = Literal["percent", "points", "plain"]
TASKS = "other tasks of these classes"
CLASSES = "other classes like these"
_SCALES = {"percent": 100.0, "points": 100.0, "plain": 1.0}


def plus_minus(
    mean: float | None,
    half: float | None = None,
    unit: NumberUnit = "percent",
    digits: int = 1,
    *,
    signed: bool | None = None,
    over_classes: float | None = None,
) -> str:
    """Return a number with half the width of its interval, as ``84.3 ± 0.6``.

    This is for people: thousands are separated, and negative numbers have a minus sign (−), never a hyphen. Files for
    programs (CSV, JSON, Parquet) hold the number itself.

    Parameters
    ----------
    mean : float or None
        The number; a dash stands for None and NaN.
    half : float, optional
        Half the width of its interval; None and NaN leave the number alone.
    unit : {"percent", "points", "plain"}
        A share (0.843) in per cent, a difference of shares in points with its sign, or a number as it is.
    digits : int
        Digits behind the point.
    signed : bool, optional
        Whether a plus sign stands before positive numbers; points have one unless told otherwise.
    over_classes : float, optional
        Half the width of the interval for other classes, in brackets: ``84.3 ± 0.6 (± 1.9)``.

    Examples
    --------
    >>> plus_minus(0.8431, 0.0062), plus_minus(-0.031, 0.004, "points"), plus_minus(1.5, None, "plain", 2)
    ('84.3 ± 0.6', '−3.1 ± 0.4', '1.50')
    >>> plus_minus(-0.25), plus_minus(-1234.5, unit="plain")
    ('−25.0', '−1,234.5')
    >>> plus_minus(0.8431, 0.0062, over_classes=0.019), plus_minus(None)
    ('84.3 ± 0.6 (± 1.9)', '–')
    """
    if mean is None or math.isnan(mean):
        return "–"
    scale = _SCALES[unit]
    with_sign = unit == "points" if signed is None else signed
    text = f"{scale * mean:{'+' if with_sign else ''},.{digits}f}".replace("-", "−")
    if half is not None and not math.isnan(half):
        text = f"{text} {half_text(half, unit, digits)}"
    return text if over_classes is None else f"{text} ({half_text(over_classes, unit, digits)})"


def half_text(half: float, unit: NumberUnit = "percent", digits: int = 1) -> str:
    """Return half the width of an interval alone, where a column of its own has it.

    Parameters
    ----------
    half : float
        In shares for the first two units.
    unit : {"percent", "points", "plain"}
        As in ``plus_minus``.
    digits : int
        Behind the point.

    Examples
    --------
    >>> half_text(0.0062), half_text(0.0062, "plain", 4)
    ('± 0.6', '± 0.0062')
    """
    return f"± {_SCALES[unit] * half:,.{digits}f}"


def percent(share: float | None, digits: int = 1) -> str:
    """Return a share in per cent; a dash where there is no number.

    Parameters
    ----------
    share : float or None
        In 0 … 1.
    digits : int
        Digits behind the point.

    Examples
    --------
    >>> percent(0.8431)
    '84.3'
    """
    return plus_minus(share, digits=digits)


def points(difference: float | None, digits: int = 1) -> str:
    """Return a difference of shares in points with its sign; a dash where there is no number.

    Parameters
    ----------
    difference : float or None
        Of two shares.
    digits : int
        Digits behind the point.

    Examples
    --------
    >>> points(-0.031)
    '−3.1'
    """
    return plus_minus(difference, unit="points", digits=digits)


def figures(value: float, digits: int = 3) -> str:
    """Return a number of any size with so many significant figures.

    Parameters
    ----------
    value : float
        The number.
    digits : int
        Its significant figures.

    Examples
    --------
    >>> figures(-4.6327), figures(1234567.0), figures(0.25)
    ('−4.63', '1.23e+06', '0.25')
    """
    return f"{value:.{digits}g}".replace("-", "−")


def bounds_text(
    mean: float,
    low: float | None,
    high: float | None,
    unit: NumberUnit = "points",
    digits: int = 1,
    *,
    signed: bool = True,
    over_classes: tuple[float | None, float | None] | None = None,
) -> str:
    """Return a number with the ends of its interval; alone where it has none.

    Parameters
    ----------
    mean, low, high : float or None
        The number and the ends.
    unit, digits, signed
        As in :func:`plus_minus`.
    over_classes : pair of float, optional
        The ends of the interval for other classes, in brackets: ``+1.2 [+0.8, +1.6] ([+0.1, +2.3])``.

    Examples
    --------
    >>> bounds_text(0.012, 0.008, 0.016)
    '+1.2 [+0.8, +1.6]'
    """
    ends = (low, high) if over_classes is None else (low, high, *over_classes)
    text, *texts = (plus_minus(end, unit=unit, digits=digits, signed=signed) for end in (mean, *ends))
    if "–" in (text, *texts):
        return text
    wider = "" if over_classes is None else f" ([{texts[2]}, {texts[3]}])"
    return f"{text} [{texts[0]}, {texts[1]}]{wider}"
