"""What a paper claims, what was measured of it, and the verdict by one stated rule."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Literal, TypeAlias, TypeVar

import numpy as np

from longshot.base import Floats
from longshot.statistics import CLASSES, TASKS, Correlation, Slope, holm, mean_interval, smallest_p, welch

LEVEL = 0.05
_Z95 = 1.959963984540054
POPULATION = (
    f"Intervals and verdicts are for {TASKS}, or for other splits, classes or images where a number says that it is "
    f"over these. They do not say that a claim holds for {CLASSES}."
)
RULE = (
    "A claim is a direction, or a size with a margin that was stated beforehand. It is about the paper's own methods: "
    "others may be on the page, and no verdict moves with them.",
    "Every number is tested once: Student's t on differences of the same tasks, Welch's t where the tasks differ, "
    "Fisher's test for correlations, t for slopes, a bootstrap over tasks where it says so. No p is below what turning "
    "round the signs of so few tasks could give. Numbers that are the same by construction are one number.",
    POPULATION,
    "Confirmed: every number of the claim holds. The p of the claim is the largest of its numbers, which needs no "
    "correction for how many they are. Contradicted: at least one number holds the opposite, its p multiplied by how "
    "many there are. The claims of this page are corrected by Holm's method (5 %, both sides). Otherwise the claim is "
    "not decided.",
    "That two things are the same is confirmed where the difference lies within the margin, and where a control that "
    "must differ does differ by more than the margin: a run that could not have seen the effect confirms nothing.",
    "Not testable here: the data, methods or networks that the claim is about are not here, or none of them is clean. "
    "Networks that chose classes or images of a testbed, those that started from one that did, and tasks with a class "
    "or an image that a network saw in training are left out of all claims.",
    "What the paper printed stands beside its own pair of methods, to compare sizes; it decides nothing, since it was "
    "measured on other data and networks. n is how many tasks a number is over; splits, classes or images where the "
    "number says so.",
)
Verdict: TypeAlias = Literal["confirmed", "not decided", "contradicted", "not testable here"]
Lab = TypeVar("Lab")


@dataclass(frozen=True)
class Measured:
    """One number of a claim: ``value`` with its 95 % interval, the p of its test, and what the paper printed.

    Shares for differences of accuracy, plain numbers for the rest. ``printed`` is a number, or the two ends of a range.
    A number that no clean task is left for has n = 0.
    """

    label: str
    value: float
    low: float | None
    high: float | None
    p: float  # two-sided, against the claim's bound; NaN where nothing can be tested
    n: int
    printed: float | tuple[float, float] | None = None


class NotMeasured(Exception):
    """Raised by a claim's measure: the reason why the claim cannot be tested here, as a sentence."""


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
    control : callable, optional
        For "same", and needed there: ``control(lab)`` gives numbers that must differ from the bound by more than the
        margin, to show that the run could have seen such an effect.
    printed : str
        What the paper printed, in words, where it is more than a number beside each measured one.
    factor : str
        The factor of the comparison behind it, for the page.
    about_judge : bool
        Whether the claim is about the network that chose images; of all others its numbers are left out.
    """

    id: str
    sentence: str
    where: str
    measure: Callable[[Lab], Sequence[Measured]]
    expects: Literal["above", "below", "same"] = "above"
    unit: Literal["points", ""] = "points"
    than: float = 0.0
    margin: float = 0.0
    control: Callable[[Lab], Sequence[Measured]] | None = None
    printed: str = ""
    factor: str = ""
    about_judge: bool = False

    def __post_init__(self) -> None:
        if self.expects == "same" and (self.margin <= 0 or self.control is None):
            raise ValueError(
                f"the claim '{self.id}' says that things are the same: it needs a margin and a control"
            )


@dataclass(frozen=True)
class JudgedNumber:
    """A measured number, and whether it holds "for" or "against" the claim, is "open", a "control" or "left out"."""

    measured: Measured
    counts: Literal["for", "against", "open", "control", "left out"]


@dataclass(frozen=True)
class JudgedClaim:
    """A claim with its numbers, its p corrected over the page, and its verdict; ``reason`` says why not, in words."""

    claim: Claim[Any]
    numbers: tuple[JudgedNumber, ...]
    verdict: Verdict
    reason: str = ""
    p: float = math.nan

    def facts(self) -> list[dict[str, Any]]:
        """Return one record per number, for CSV and JSON."""
        claim: dict[str, Any] = {
            "claim": self.claim.id,
            "sentence": self.claim.sentence,
            "where": self.claim.where,
        }
        claim |= {"verdict": self.verdict, "claim_p": None if math.isnan(self.p) else self.p}
        names = ("number", "value", "low", "high", "p", "counts", "n")
        rows: list[tuple[Any, ...]] = [
            (number.label, number.value, number.low, number.high, number.p, each.counts, number.n)
            for each in self.numbers
            for number in (each.measured,)
        ] or [("", None, None, None, None, self.reason, 0)]
        return [claim | dict(zip(names, row, strict=True)) for row in rows]


def judge(claims: Sequence[Claim[Lab]], lab: Lab, about_judge: Lab | None = None) -> list[JudgedClaim]:
    """Measure all claims and give each its verdict; Holm's method corrects over the claims.

    Parameters
    ----------
    claims : sequence of Claim
        What the study tests.
    lab : object
        What their measures are given: numbers that are not clean are NaN in it.
    about_judge : object, optional
        What the measures of claims about the judge are given; ``lab`` unless given.

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
    drafts = [
        _draft(claim, about_judge if claim.about_judge and about_judge is not None else lab)
        for claim in claims
    ]
    tested = [draft.p for draft in drafts if not math.isnan(draft.p)]
    corrected = iter(holm(tested).tolist() if tested else [])
    judged = []
    for draft in drafts:
        p = math.nan if math.isnan(draft.p) else next(corrected)
        undecided = draft.verdict in ("confirmed", "contradicted") and not p < LEVEL
        judged.append(replace(draft, p=p, verdict="not decided" if undecided else draft.verdict))
    return judged


def _draft(claim: Claim[Lab], lab: Lab) -> JudgedClaim:
    """Return the claim with its numbers, its own p, and the side that p is for, before the claims are corrected."""
    try:
        numbers = _merged(claim.measure(lab))
        controls = _merged(claim.control(lab)) if claim.control is not None else []
    except NotMeasured as error:
        return JudgedClaim(claim, (), "not testable here", str(error))
    clean = [number for number in numbers if number.n]
    listed = [JudgedNumber(number, "left out") for number in numbers if not number.n]
    if not clean:
        reason = "nothing was there to measure it on"
        if listed:
            reason = "every network that it is about chose classes or images, started from one that did, or saw them"
        return JudgedClaim(claim, tuple(listed), "not testable here", reason)
    sides = [_one_sided(claim, number) for number in clean]
    seen = max((_beyond(claim, number) for number in controls if number.n), default=1.0)
    holds = max([own for own, _ in sides] + ([seen] if claim.control is not None else []))
    opposite = min(1.0, len(clean) * min(against for _, against in sides))
    marked = [
        JudgedNumber(number, _counts(own, len(clean) * against))
        for number, (own, against) in zip(clean, sides, strict=True)
    ]
    blind = claim.control is not None and 2 * seen >= LEVEL
    reason = (
        "its control does not differ by more than the margin, so this run could not have seen it"
        if blind
        else ""
    )
    return JudgedClaim(
        claim,
        (*marked, *(JudgedNumber(number, "control") for number in controls), *listed),
        "confirmed" if holds < opposite else "contradicted",
        reason,
        min(1.0, 2 * min(holds, opposite)),
    )


def _counts(own: float, against: float) -> Literal["for", "against", "open"]:
    return "for" if 2 * own < LEVEL else "against" if 2 * against < LEVEL else "open"


def _merged(numbers: Sequence[Measured]) -> list[Measured]:
    """Join numbers that are the same to the last digit: two names of one method, as at one shot."""
    groups: dict[tuple[Any, ...], list[Measured]] = {}
    for number in numbers:
        key = (number.value, number.low, number.high, number.p, number.n) if number.n else (number.label,)
        groups.setdefault(key, []).append(number)
    merged = []
    for group in groups.values():
        printed = list(dict.fromkeys(number.printed for number in group if number.printed is not None))
        label = " = ".join(number.label for number in group)
        merged.append(replace(group[0], label=label, printed=printed[0] if len(printed) == 1 else None))
    return merged


def _one_sided(claim: Claim[Any], number: Measured) -> tuple[float, float]:
    """Return the one-sided p that the number holds for the claim, and that it holds the opposite."""
    if claim.expects == "same":
        return _within(claim, number), _beyond(claim, number)
    if math.isnan(number.p):
        return 1.0, 1.0
    above = number.value - claim.than
    upper = number.p / 2 if above > 0 else 1 - number.p / 2
    return (upper, 1 - upper) if claim.expects == "above" else (1 - upper, upper)


def _within(claim: Claim[Any], number: Measured) -> float:
    """Return the one-sided p that a number lies within the margin: the larger of the tests at both ends."""
    return _tail(claim.margin - abs(number.value - claim.than), number)


def _beyond(claim: Claim[Any], number: Measured) -> float:
    """Return the one-sided p that a number lies outside the margin, on the side that it is on."""
    return _tail(abs(number.value - claim.than) - claim.margin, number)


def _tail(distance: float, number: Measured) -> float:
    """Return the p of so large a distance to a bound by the normal law, with the error that the interval has."""
    if number.low is None or number.high is None:
        return 1.0
    error = (number.high - number.low) / (2 * _Z95)
    p = (0.0 if distance > 0 else 1.0) if error <= 0 else math.erfc(distance / error / math.sqrt(2)) / 2
    return max(p, smallest_p(number.n) / 2)


# --- numbers of claims ---


def some(numbers: Sequence[Measured], reason: str) -> Sequence[Measured]:
    """Return the numbers of a claim; NotMeasured with the reason where there is none."""
    if not numbers:
        raise NotMeasured(reason)
    return numbers


def paired(label: str, first: Floats, second: Floats, printed: Any = None) -> Measured:
    """Return ``first`` − ``second`` on the same tasks [T], with Student's interval."""
    return of_values(label, np.asarray(first) - np.asarray(second), printed)


def of_values(label: str, values: Floats, printed: Any = None, than: float = 0.0) -> Measured:
    """Return the mean of values [n] against ``than``, with Student's interval; NaN (not clean) is left out."""
    values = clean(values)
    if not len(values):
        return left_out(label, printed)
    interval = mean_interval(values)
    p = max(_p(interval.mean, interval.half, len(values) - 1, than), smallest_p(len(values)))
    return Measured(label, interval.mean, interval.low, interval.high, p, interval.n, printed)


def clean(values: Any) -> Floats:
    """Return the values that are not NaN, [n]."""
    array = np.asarray(values, np.float64)
    return array[~np.isnan(array)]


def clean_mean(values: Floats) -> float:
    """Return the mean of the values that are not NaN; −∞ where there is none, which is below all others."""
    usable = clean(values)
    return float(usable.mean()) if len(usable) else -math.inf


def left_out(label: str, printed: Any = None) -> Measured:
    """Return a number of which no clean task is left."""
    return Measured(label, math.nan, None, None, math.nan, 0, printed)


def of_sources(label: str, differences: Sequence[Floats], printed: Any = None) -> Measured:
    """Return the mean over k sources of their mean differences [n_i], each source counting once, against 0.

    se² = Σ s_i²/n_i / k²; t with Satterthwaite's ν = (Σ s_i²/n_i)² / Σ (s_i²/n_i)²/(n_i − 1).

    >>> round(of_sources("mean of 2 sources", [np.array([0.1, 0.3]), np.array([0.5, 0.7])]).value, 6)
    0.4
    """
    from longshot.statistics import t_quantile

    differences = [clean(each) for each in differences]
    if not all(map(len, differences)):
        return left_out(label, printed)  # a mean over other sources would be another number
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
    """Return the mean of ``first`` minus that of ``second``, of other tasks, with Welch's interval."""
    from scipy.stats import ttest_ind

    first, second = clean(first), clean(second)
    if not len(first) or not len(second):
        return left_out(label, printed)
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
    """Return a correlation against 0; one that is not defined is not measured."""
    if math.isnan(correlation.r):
        raise NotMeasured(f"{label}: {correlation.reason or 'the correlation is not defined'}")
    low, high = _ends(correlation.low, correlation.high)
    return Measured(label, correlation.r, low, high, correlation.p, correlation.n, printed)


def of_slope(label: str, slope: Slope, printed: Any = None) -> Measured:
    """Return a slope against 0."""
    low, high = _ends(slope.low, slope.high)
    return Measured(label, slope.slope, low, high, slope.p, slope.n, printed)


def _ends(low: float, high: float) -> tuple[float | None, float | None]:
    return (None, None) if math.isnan(low) else (low, high)


def of_resamples(
    label: str,
    value: float,
    resampled: Floats,
    n: int,
    than: float = 0.0,
    printed: Any = None,
    scale: tuple[float, float] = (-math.inf, math.inf),
) -> Measured:
    """Return a statistic of n tasks with an interval from its bootstrap resamples [R], cut at the ends of its scale.

    A resample has the noise of the tasks twice, so that a rank correlation falls with it: the resamples lie at one side
    of the value. The interval reaches as far to either side as the resamples (2.5 to 97.5 %) do to the farther one; p
    is that of the normal law with such an interval.
    """
    low, high = (float(end) for end in np.quantile(resampled, [0.025, 0.975]))
    reach = max(value - low, high - value)
    if reach > 1e-12:
        p = math.erfc(abs(value - than) * _Z95 / reach / math.sqrt(2))
    else:
        p = 0.0 if abs(value - than) > 1e-12 else 1.0
    ends = max(scale[0], value - reach), min(scale[1], value + reach)
    return Measured(label, value, *ends, max(p, smallest_p(n)), n, printed)


def _p(mean: float, half: float | None, freedom: float, than: float) -> float:
    """Return the two-sided p of Student's t, read off the interval so that test and interval agree."""
    from longshot.statistics import t_p_value, t_quantile

    if half is None:
        return math.nan
    if half <= 1e-14:
        return 0.0 if abs(mean - than) > 1e-12 else 1.0
    return t_p_value((mean - than) / (half / t_quantile(freedom, 0.95)), freedom)
