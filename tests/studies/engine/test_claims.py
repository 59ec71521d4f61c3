"""Verdicts on planted truths, the correction over all claims, and tests that agree with SciPy's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from scipy import stats

from longshot.statistics import correlation, slope
from longshot.studies import (
    Claim,
    Measured,
    NotMeasured,
    of_correlation,
    of_resamples,
    of_slope,
    of_sources,
    of_values,
    paired,
    unpaired,
)
from longshot.studies.engine.claims import judge

RNG = np.random.default_rng(0)
NOISE = RNG.normal(size=400)


def planted(mean: float, printed: Any = None, label: str = "n") -> Measured:
    """A number whose truth is known: 400 differences around ``mean`` with a deviation of 0.1."""
    values = mean + 0.1 * (NOISE - NOISE.mean()) / NOISE.std()
    return of_values(label, values, printed)


def claim(numbers: Sequence[Measured], **options: Any) -> Claim[None]:
    return Claim("id", "It is so", "table 1", lambda _: numbers, **options)


def verdict(numbers: Sequence[Measured], **options: Any) -> str:
    return judge([claim(numbers, **options)], None)[0].verdict


def test_sources_count_once_and_their_errors_add_up() -> None:
    """Against the formula written out with SciPy."""
    rng = np.random.default_rng(0)
    first, second = rng.normal(0.2, 1, 30), rng.normal(0.6, 3, 12)
    number = of_sources("mean", [first, second], printed=0.4)
    parts = [stats.sem(first) ** 2, stats.sem(second) ** 2]
    error = np.sqrt(sum(parts)) / 2
    freedom = sum(parts) ** 2 / (parts[0] ** 2 / 29 + parts[1] ** 2 / 11)
    reach = stats.t.ppf(0.975, freedom) * error
    assert number.value == pytest.approx((first.mean() + second.mean()) / 2)
    assert (number.high or 0) - number.value == pytest.approx(reach)
    assert number.p == pytest.approx(2 * stats.t.sf(abs(number.value) / error, freedom))
    assert (number.n, number.printed) == (42, 0.4)
    alone = of_sources("one source", [first])
    assert alone.low == pytest.approx(of_values("the same", first).low)
    assert of_sources("one task", [first, second[:1]]).low is None


def test_a_true_direction_is_confirmed_whatever_was_printed_for_other_data() -> None:
    assert verdict([planted(0.12)]) == "confirmed"
    assert verdict([planted(0.12, printed=0.30)]) == "confirmed"


@pytest.mark.parametrize("options", [{}, {"expects": "same", "margin": 0.05}])
@pytest.mark.parametrize("mean", [-0.2, 0.0, 0.03, 0.1])
def test_confirmed_gets_no_easier_the_less_precise_a_run_is(mean: float, options: dict[str, Any]) -> None:
    """The same estimate with a growing error: once it is not confirmed it never is again."""
    control = {"control": lambda _: [planted(0.3)]} if options else {}
    confirmed = [
        verdict([of_values("n", mean + error * (NOISE - NOISE.mean()))], **options, **control) == "confirmed"
        for error in (0.01, 0.1, 0.3, 1.0, 3.0, 30.0)
    ]
    assert confirmed == sorted(confirmed, reverse=True) and not confirmed[-1]


def test_a_claim_over_many_methods_needs_no_correction_inside() -> None:
    """Fifteen numbers with p = 0.02 each hold together; one that is open keeps the claim open."""
    numbers = [Measured(f"m{n}", 0.1 + n / 1000, 0.01, 0.19, 0.02, 50) for n in range(15)]
    [judged] = judge([claim(numbers)], None)
    assert (judged.verdict, judged.p) == ("confirmed", pytest.approx(0.02))
    assert verdict([*numbers, Measured("open", 0.1, -0.1, 0.3, 0.3, 50)]) == "not decided"


def test_one_opposite_among_many_needs_a_correction_inside() -> None:
    """A false alarm among fifteen contradicts nothing: its p counts fifteen times."""
    numbers = [Measured(f"m{n}", 0.1 + n / 1000, 0.05, 0.15, 1e-4, 50) for n in range(14)]
    assert verdict([*numbers, Measured("against", -0.1, -0.19, -0.01, 0.02, 50)]) == "not decided"
    assert verdict([*numbers, Measured("against", -0.1, -0.19, -0.01, 0.002, 50)]) == "contradicted"


def test_numbers_that_are_the_same_are_one() -> None:
    twins = [planted(0.12, 0.1, "protonet, 1-shot"), planted(0.12, 0.1, "nearest-neighbour, 1-shot")]
    [judged] = judge([claim([*twins, planted(0.2)])], None)
    assert [each.measured.label for each in judged.numbers] == [
        "protonet, 1-shot = nearest-neighbour, 1-shot",
        "n",
    ]
    assert judged.numbers[0].measured.printed == 0.1


def test_what_is_not_clean_is_left_out() -> None:
    """NaN is what a lab gives for a judge's child and for tasks with a class that was seen."""
    nothing = paired("judge's child", np.full(9, np.nan), np.ones(9))
    half = paired("half", np.where(np.arange(40) < 20, np.nan, 0.2 + 0.01 * NOISE[:40]), np.zeros(40))
    assert (nothing.n, half.n) == (0, 20)
    [judged] = judge([claim([nothing, half])], None)
    assert (judged.verdict, [each.counts for each in judged.numbers]) == ("confirmed", ["for", "left out"])
    alone = judge([claim([nothing])], None)[0]
    assert alone.verdict == "not testable here" and "chose classes or images" in alone.reason
    assert unpaired("u", np.full(3, np.nan), np.ones(3)).n == of_sources("s", [np.full(3, np.nan)]).n == 0


def test_a_false_claim_is_contradicted() -> None:
    assert verdict([planted(-0.12)]) == "contradicted"
    assert verdict([planted(0.12)], expects="below") == "contradicted"
    assert verdict([planted(0.12), planted(0.1), planted(-0.1)]) == "contradicted"  # it speaks of all of them


def test_an_open_claim_is_not_decided() -> None:
    assert verdict([planted(0.001)]) == "not decided"
    assert verdict([planted(0.12), planted(0.001)]) == "not decided"
    assert verdict([of_values("one task", np.array([0.5]))]) == "not decided"


def test_a_handful_of_tasks_decides_nothing_however_equal_they_are() -> None:
    """Five equal differences: Student's t would be certain, the signs of five tasks are not."""
    five = np.full(5, 0.1)
    assert paired("d", five, 0 * five).p == pytest.approx(2 / 2**5)
    assert unpaired("d", five[:3], 0 * five[:3]).p == pytest.approx(2 / 20)
    assert of_resamples("r", 0.9, np.full(100, 0.9), 5).p == pytest.approx(2 / 2**5)
    assert verdict([paired("d", five, 0 * five)]) == "not decided"


def test_a_claim_without_numbers_says_why() -> None:
    def measure(_: None) -> Sequence[Measured]:
        raise NotMeasured("there is one number of shots")

    judged = judge([Claim("id", "It is so", "table 1", measure)], None)[0]
    assert (judged.verdict, judged.reason) == ("not testable here", "there is one number of shots")
    assert judged.facts()[0]["counts"] == "there is one number of shots"
    assert verdict([]) == "not testable here"


def test_a_bound_other_than_zero() -> None:
    values = 0.3 + 0.1 * NOISE
    number = of_values("best", values, than=0.1)
    assert verdict([number], expects="above", than=0.1) == "confirmed"
    assert verdict([number], expects="below", than=0.1) == "contradicted"


def test_the_same_within_a_margin_where_the_control_differs() -> None:
    same: dict[str, Any] = {
        "expects": "same",
        "margin": 0.05,
        "control": lambda _: [planted(0.2, label="control")],
    }
    assert verdict([planted(0.01)], **same) == "confirmed"
    assert verdict([planted(0.12)], **same) == "contradicted"
    assert verdict([planted(0.049)], **same) == "not decided"


def test_a_run_that_sees_no_effect_anywhere_confirms_no_equivalence() -> None:
    """Forty steps of a small network: nothing differs, the control included."""
    blind: dict[str, Any] = {
        "expects": "same",
        "margin": 0.05,
        "control": lambda _: [planted(0.03, label="control")],
    }
    [judged] = judge([claim([planted(0.0)], **blind)], None)
    assert judged.verdict == "not decided" and "could not have seen it" in judged.reason
    assert [each.counts for each in judged.numbers] == ["for", "control"]
    with pytest.raises(ValueError, match="needs a margin and a control"):
        claim([planted(0.0)], expects="same", margin=0.05)


def test_the_claims_of_a_page_are_corrected_by_holm() -> None:
    """p = 0.02 alone decides; beside nine claims that show nothing it does not."""
    weak = Measured("weak", 0.1, 0.01, 0.19, 0.02, 50)
    nothing = [claim([Measured(f"none {n}", 0.0, -0.1, 0.1, 0.9, 50)]) for n in range(9)]
    assert judge([claim([weak])], None)[0].verdict == "confirmed"
    together = judge([claim([weak]), *nothing], None)
    assert {each.verdict for each in together} == {"not decided"}
    assert together[0].p == pytest.approx(0.2)


def test_an_estimate_lies_inside_its_bootstrap_interval() -> None:
    """Resamples of a rank correlation lie below it: the interval reaches as far to the other side, up to 1."""
    number = of_resamples("τ", 0.95, np.linspace(0.85, 0.95, 200), 40, scale=(-1, 1))
    assert number.low is not None and number.high == 1.0
    assert number.low < 0.95 < number.high and 0.95 - number.low == pytest.approx(0.0975)


def test_numbers_equal_scipys() -> None:
    a, b = RNG.normal(0.5, 0.1, 60), RNG.normal(0.45, 0.2, 60)
    own, theirs = paired("d", a, b), stats.ttest_rel(a, b)
    assert [own.value, own.p] == pytest.approx([(a - b).mean(), theirs.pvalue])
    assert [own.low, own.high] == pytest.approx(list(theirs.confidence_interval(0.95)))
    apart, welch = unpaired("d", a, b[:40]), stats.ttest_ind(a, b[:40], equal_var=False)
    assert apart.p == pytest.approx(welch.pvalue)
    assert [apart.low, apart.high] == pytest.approx(list(welch.confidence_interval(0.95)))
    assert of_correlation("r", correlation(a, b)).p == pytest.approx(stats.pearsonr(a, b).pvalue)
    assert of_slope("s", slope(a, b)).value == pytest.approx(stats.linregress(a, b).slope)


def test_constant_differences_are_certain() -> None:
    ones = np.ones(50)
    assert paired("d", ones, 0 * ones).p < 1e-12
    assert paired("d", ones, ones).p == 1
    assert unpaired("d", ones, 0 * ones).p < 1e-12
    assert of_resamples("d", 1.0, ones, 50).p < 1e-12
    with pytest.raises(NotMeasured, match="r"):
        of_correlation("r", correlation(ones, ones))
