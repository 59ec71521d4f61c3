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


def test_a_true_claim_of_the_printed_size_is_confirmed() -> None:
    assert verdict([planted(0.12, printed=0.12)]) == "confirmed"
    assert verdict([planted(0.12, printed=(0.10, 0.15))]) == "confirmed"
    assert verdict([planted(0.12)]) == "confirmed"  # nothing was printed, the sign is all there is


def test_a_true_claim_of_another_size_is_confirmed_in_sign() -> None:
    assert verdict([planted(0.12, printed=0.30)]) == "confirmed in sign"
    assert verdict([planted(0.12, printed=0.12), planted(0.2, printed=0.3)]) == "confirmed in sign"


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
    assert (judged.verdict, judged.reason) == ("not measured", "there is one number of shots")
    assert judged.facts()[0]["counts"] == "there is one number of shots"
    assert verdict([]) == "not measured"


def test_a_bound_other_than_zero() -> None:
    values = 0.3 + 0.1 * NOISE
    number = of_values("best", values, than=0.1)
    assert verdict([number], expects="above", than=0.1) == "confirmed"
    assert verdict([number], expects="below", than=0.1) == "contradicted"


def test_the_same_within_a_margin() -> None:
    same = {"expects": "same", "margin": 0.05}
    assert verdict([planted(0.01)], **same) == "confirmed"
    assert verdict([planted(0.12)], **same) == "contradicted"
    assert verdict([planted(0.049)], **same) == "not decided"


def test_all_numbers_of_all_claims_are_corrected_together() -> None:
    """p = 0.02 alone decides; beside nine others that show nothing it does not."""
    weak = Measured("weak", 0.1, 0.01, 0.19, 0.02, 50)
    nothing = [Measured(f"none {n}", 0.0, -0.1, 0.1, 0.9, 50) for n in range(9)]
    assert judge([claim([weak])], None)[0].verdict == "confirmed"
    together = judge([claim([weak]), claim(nothing)], None)
    assert [each.verdict for each in together] == ["not decided", "not decided"]
    assert together[0].numbers[0].p == pytest.approx(0.2)


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
