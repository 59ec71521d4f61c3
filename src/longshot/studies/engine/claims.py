"""What a paper claims, what was measured of it, and the verdict by one stated rule."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeAlias, TypeVar

import numpy as np

from longshot.base import Floats
from longshot.statistics import Correlation, Slope, holm, mean_interval, smallest_p, welch

LEVEL = 0.05
RULE = (
    "Every number of every claim is tested once: Student's t on differences of the same tasks, Welch's t where the "
    "tasks differ, Fisher's test for correlations, t for slopes, a bootstrap over tasks where it says so. No p is "
    "below what turning round the signs of so few tasks could give. The p values of all numbers on this page are "
    "corrected together by Holm's method, and a number counts for or against its claim where the corrected p is "
    "below 0.05.",
    "Confirmed: all numbers count for the claim, and where the paper printed one, the 95 % interval here holds it.",
    "Confirmed in sign: all count for it, but the size differs from the printed one.",
    "Contradicted: at least one number counts against it. Not decided: none does, and not all count for it.",
    "A claim that two things are the same is confirmed where the difference lies within the stated margin, and "
    "contradicted where it lies outside, by the same tests.",
    "n is how many tasks a number is over; splits, classes or images where the number says so.",
    "The paper measured other data and networks: a verdict holds for the data, networks and tasks of this page.",
)
Verdict: TypeAlias = Literal["confirmed", "confirmed in sign", "not decided", "contradicted", "not measured"]
Lab = TypeVar("Lab")


@dataclass(frozen=True)
class Measured:
    """One number of a claim: ``value`` with its 95 % interval, the p of its test, and what the paper printed.

    Shares for differences of accuracy, plain numbers for the rest. ``printed`` is a number, or the two ends of a range.
    """

    label: str
    value: float
    low: float | None
    high: float | None
    p: float  # two-sided, against the claim's bound; NaN where nothing can be tested
    n: int
    printed: float | tuple[float, float] | None = None

    @property
    def agrees(self) -> bool:
        """Whether the interval holds the printed number, or meets the printed range; True where none was printed."""
        if self.printed is None:
            return True
        low, high = self.printed if isinstance(self.printed, tuple) else (self.printed, self.printed)
        return self.low is not None and self.high is not None and self.low <= high and low <= self.high


class NotMeasured(Exception):
    """Raised by a claim's measure: the reason why there is no number, as a sentence."""


@dataclass(frozen=True)
class Claim(Generic[Lab]):
    """A sentence of a paper that can be tested.

    Parameters
    ----------
    id : str
        Its anchor on the page: small letters and hyphens.
    sentence : str
        What the paper says.
    where : str
        Where it says so: "section 4, tables 1 and 2".
    measure : callable
        ``measure(lab)`` gives the numbers; it raises :class:`NotMeasured` with the reason where it cannot.
    expects : {"above", "below", "same"}
        What the paper says of each number: above the bound ``than``, below it, or within ``margin`` of it.
    unit : {"points", ""}
        Points of accuracy, or plain numbers.
    than : float
        The bound, 0 unless given; the p of the numbers is that of a test against it.
    margin : float
        For "same": how far from the bound still counts as the same; a share where the unit is points.
    printed : str
        What the paper printed, in words, where it is more than a number beside each measured one.
    factor : str
        The factor of the comparison behind it, for the page.
    """

    id: str
    sentence: str
    where: str
    measure: Callable[[Lab], Sequence[Measured]]
    expects: Literal["above", "below", "same"] = "above"
    unit: Literal["points", ""] = "points"
    than: float = 0.0
    margin: float = 0.0
    printed: str = ""
    factor: str = ""


@dataclass(frozen=True)
class JudgedNumber:
    """A measured number, its corrected p, and whether it counts "for" or "against" the claim, or is "open"."""

    measured: Measured
    p: float
    counts: Literal["for", "against", "open"]


@dataclass(frozen=True)
class JudgedClaim:
    """A claim with its numbers and verdict; ``reason`` says why nothing was measured."""

    claim: Claim[Any]
    numbers: tuple[JudgedNumber, ...]
    verdict: Verdict
    reason: str = ""

    def facts(self) -> list[dict[str, Any]]:
        """One record per number, for CSV and JSON."""
        claim = {"claim": self.claim.id, "sentence": self.claim.sentence, "where": self.claim.where}
        claim["verdict"] = self.verdict
        names = ("number", "value", "low", "high", "p", "counts", "n")
        numbers = [(each.measured, each) for each in self.numbers]
        rows: list[tuple[Any, ...]] = [
            (number.label, number.value, number.low, number.high, each.p, each.counts, number.n)
            for number, each in numbers
        ] or [("", None, None, None, None, self.reason, 0)]
        return [claim | dict(zip(names, row, strict=True)) for row in rows]


def judge(claims: Sequence[Claim[Lab]], lab: Lab) -> list[JudgedClaim]:
    """Measure all claims and give each its verdict; the tests of all are corrected together.

    Parameters
    ----------
    claims : sequence of Claim
        What the study tests.
    lab : object
        What their measures are given.

    Returns
    -------
    list of JudgedClaim
        In the order of the claims. The rule is :data:`RULE`.

    Examples
    --------
    >>> drop = Claim("drop", "Fine tasks are harder", "table 1", lambda lab: [paired("protonet", lab, 0 * lab)])
    >>> judge([drop], np.array([0.2, 0.3, 0.1, 0.25, 0.2, 0.15]))[0].verdict
    'confirmed'
    """
    numbers: list[list[Measured]] = []
    reasons: list[str] = []
    for claim in claims:
        try:
            numbers.append(list(claim.measure(lab)))
            reasons.append("" if numbers[-1] else "nothing was there to measure it on")
        except NotMeasured as error:
            numbers.append([])
            reasons.append(str(error))
    tests = [_test(claim, each) for claim, own in zip(claims, numbers, strict=True) for each in own]
    corrected = iter(holm([1.0 if math.isnan(p) else p for _, p in tests]).tolist() if tests else [])
    sides = iter(side for side, _ in tests)
    judged = []
    for claim, own, reason in zip(claims, numbers, reasons, strict=True):
        marked = tuple(
            JudgedNumber(each, p, "open" if p >= LEVEL else "for" if agrees else "against")
            for each, agrees, p in zip(
                own, sides, corrected, strict=False
            )  # those of later claims stay in line
        )
        judged.append(JudgedClaim(claim, marked, _verdict(marked), reason))
    return judged


def _test(claim: Claim[Any], number: Measured) -> tuple[bool, float]:
    """Whether the number lies on the claim's side, and the p of the test that it truly does (or does not)."""
    above = number.value - claim.than
    if claim.expects != "same":
        return (above > 0) == (claim.expects == "above") and above != 0, number.p
    inside = abs(above) <= claim.margin
    if number.low is None or number.high is None:
        return inside, math.nan
    error = (number.high - number.low) / (2 * 1.959963984540054)
    beyond = abs(claim.margin - abs(above))
    if error <= 0:
        return inside, 0.0 if beyond > 0 else 1.0
    # One-sided at the nearer margin; doubled, because the side was chosen by the same numbers.
    return inside, min(1.0, math.erfc(beyond / error / math.sqrt(2)))


def _verdict(numbers: Sequence[JudgedNumber]) -> Verdict:
    """The rule; see :data:`RULE`."""
    if not numbers:
        return "not measured"
    if any(each.counts == "against" for each in numbers):
        return "contradicted"
    if any(each.counts == "open" for each in numbers):
        return "not decided"
    return "confirmed" if all(each.measured.agrees for each in numbers) else "confirmed in sign"


# --- numbers of claims ---


def some(numbers: Sequence[Measured], reason: str) -> Sequence[Measured]:
    """The numbers of a claim; NotMeasured with the reason where there is none."""
    if not numbers:
        raise NotMeasured(reason)
    return numbers


def paired(label: str, first: Floats, second: Floats, printed: Any = None) -> Measured:
    """``first`` − ``second`` on the same tasks [T], with Student's interval."""
    return of_values(label, np.asarray(first) - np.asarray(second), printed)


def of_values(label: str, values: Floats, printed: Any = None, than: float = 0.0) -> Measured:
    """The mean of values [n] against ``than``, with Student's interval."""
    interval = mean_interval(values)
    p = max(_p(interval.mean, interval.half, len(values) - 1, than), smallest_p(len(values)))
    return Measured(label, interval.mean, interval.low, interval.high, p, interval.n, printed)


def of_sources(label: str, differences: Sequence[Floats], printed: Any = None) -> Measured:
    """The mean over k sources of their mean differences [n_i], each source counting once, against 0.

    se² = Σ s_i²/n_i / k²; t with Satterthwaite's ν = (Σ s_i²/n_i)² / Σ (s_i²/n_i)²/(n_i − 1).

    >>> round(of_sources("mean of 2 sources", [np.array([0.1, 0.3]), np.array([0.5, 0.7])]).value, 6)
    0.4
    """
    from longshot.statistics import t_quantile

    k, n = len(differences), sum(map(len, differences))
    mean = float(np.mean([each.mean() for each in differences]))
    if any(len(each) < 2 for each in differences):
        return Measured(label, mean, None, None, math.nan, n, printed)
    parts = [float(each.var(ddof=1)) / len(each) for each in differences]
    spread = sum(part**2 / (len(each) - 1) for part, each in zip(parts, differences, strict=True))
    freedom = sum(parts) ** 2 / spread if spread else n - k
    half = t_quantile(freedom, 0.95) * math.sqrt(sum(parts)) / k
    p = max(_p(mean, half, freedom, 0.0), smallest_p(n))
    return Measured(label, mean, mean - half, mean + half, p, n, printed)


def unpaired(label: str, first: Floats, second: Floats, printed: Any = None) -> Measured:
    """Mean of ``first`` minus mean of ``second``, of other tasks, with Welch's interval."""
    from scipy.stats import ttest_ind

    interval = welch(first, second)
    if interval.low is None:
        p = math.nan
    elif interval.low == interval.high:
        p = 0.0 if interval.mean else 1.0
    else:
        p = float(ttest_ind(first, second, equal_var=False).pvalue)
    p = max(p, 2 / math.comb(len(first) + len(second), len(first)))  # no fewer ways to divide the tasks
    return Measured(label, interval.mean, interval.low, interval.high, p, interval.n, printed)


def of_correlation(label: str, correlation: Correlation, printed: Any = None) -> Measured:
    """A correlation against 0; one that is not defined is not measured."""
    if math.isnan(correlation.r):
        raise NotMeasured(f"{label}: {correlation.reason or 'the correlation is not defined'}")
    low, high = _ends(correlation.low, correlation.high)
    return Measured(label, correlation.r, low, high, correlation.p, correlation.n, printed)


def of_slope(label: str, slope: Slope, printed: Any = None) -> Measured:
    """A slope against 0."""
    low, high = _ends(slope.low, slope.high)
    return Measured(label, slope.slope, low, high, slope.p, slope.n, printed)


def _ends(low: float, high: float) -> tuple[float | None, float | None]:
    return (None, None) if math.isnan(low) else (low, high)


def of_resamples(
    label: str, value: float, resampled: Floats, n: int, than: float = 0.0, printed: Any = None
) -> Measured:
    """A statistic of n tasks with its bootstrap interval; p by the normal law with the error of the resamples [R]."""
    low, high = (float(end) for end in np.quantile(resampled, [0.025, 0.975]))
    error = float(np.std(resampled, ddof=1))
    if error > 1e-12:
        p = math.erfc(abs(value - than) / error / math.sqrt(2))
    else:
        p = 0.0 if abs(value - than) > 1e-12 else 1.0
    p = max(p, smallest_p(n))
    return Measured(label, value, min(low, value), max(high, value), p, n, printed)


def _p(mean: float, half: float | None, freedom: float, than: float) -> float:
    """Two-sided p of Student's t, read off the interval so that test and interval agree."""
    from longshot.statistics import t_p_value, t_quantile

    if half is None:
        return math.nan
    if half <= 1e-14:
        return 0.0 if abs(mean - than) > 1e-12 else 1.0
    return t_p_value((mean - than) / (half / t_quantile(freedom, 0.95)), freedom)
