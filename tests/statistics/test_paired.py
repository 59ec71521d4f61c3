from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from longshot.statistics import (
    benjamini_hochberg,
    compare_many,
    compare_paired,
    holm,
    sign_flip_test,
    sign_flip_tests,
)


def shares(rng: np.random.Generator, n: int, queries: int) -> np.ndarray:
    return rng.integers(0, queries + 1, n) / queries


class TestComparison:
    def test_difference_and_p_equal_scipys_paired_t_test(self) -> None:
        rng = np.random.default_rng(0)
        a, b = rng.random(80), rng.random(80) + 0.05
        reference = stats.ttest_rel(b, a)
        interval = reference.confidence_interval(0.95)
        compared = compare_paired(a, b, resamples=99)
        assert compared.p_t == pytest.approx(reference.pvalue)
        assert (compared.difference.low, compared.difference.high) == pytest.approx(
            (interval.low, interval.high)
        )
        assert (compared.mean_a, compared.mean_b, compared.n) == (
            pytest.approx(a.mean()),
            pytest.approx(b.mean()),
            80,
        )

    def test_rates(self) -> None:
        compared = compare_paired([0.2, 0.4, 0.6, 0.8], [0.4, 0.4, 0.5, 0.9])
        assert (compared.wins, compared.ties, compared.losses) == (0.5, 0.25, 0.25)

    def test_rounding_is_a_tie(self) -> None:
        assert compare_paired([0.3], [0.1 + 0.2]).ties == 1

    def test_lower_is_better(self) -> None:
        compared = compare_paired([1.0, 2.0, 3.0], [0.5, 1.5, 3.5], higher_is_better=False)
        assert (compared.wins, compared.losses) == (pytest.approx(2 / 3), pytest.approx(1 / 3))
        assert compared.difference.mean == pytest.approx(-1 / 6)

    def test_equal_rows(self) -> None:
        compared = compare_paired([0.2, 0.4], [0.2, 0.4])
        assert (compared.p, compared.p_t, compared.ties, compared.exact) == (1, 1, 1, True)

    def test_many_equal_one_by_one(self) -> None:
        rng = np.random.default_rng(1)
        a, b = rng.random(40), rng.random((40, 3))
        assert compare_many(a, b) == [compare_paired(a, b[:, column]) for column in range(3)]

    def test_unequal_lengths_are_no_pairs(self) -> None:
        with pytest.raises(ValueError, match="cannot be paired"):
            compare_paired([0.1, 0.2], [0.1])


class TestSignFlip:
    @pytest.mark.parametrize("n", [2, 5, 10])
    def test_exact_equals_scipys_permutation_test(self, n: int) -> None:
        difference = np.random.default_rng(n).normal(0.3, 1, n)
        reference = stats.permutation_test(
            (difference,), np.mean, permutation_type="samples", n_resamples=np.inf
        )
        p, exact = sign_flip_test(difference)
        assert exact
        assert p == pytest.approx(reference.pvalue)

    def test_one_difference_proves_nothing(self) -> None:
        assert sign_flip_test([0.7]) == (1, True)

    @pytest.mark.parametrize("queries", [4, 30, 75])
    def test_lattice_count_equals_all_patterns(self, queries: int) -> None:
        rng = np.random.default_rng(queries)
        difference = shares(rng, 12, queries) - shares(rng, 12, queries)
        sums = [abs(np.dot(s, difference)) for s in itertools.product([1, -1], repeat=12)]
        expected = np.mean(np.array(sums) >= abs(difference.sum()) - 1e-9)
        assert sign_flip_test(difference) == (pytest.approx(expected), True)

    def test_long_lattice_is_exact_and_close_to_the_t_test(self) -> None:
        rng = np.random.default_rng(2)
        a = shares(rng, 600, 50)
        b = np.clip(a + rng.integers(-3, 4, 600) / 50, 0, 1)
        compared = compare_paired(a, b)
        assert compared.exact
        # A sum of whole steps has atoms, about 0.01 each here; the exact p holds the whole atom.
        assert compared.p_t < compared.p < compared.p_t + 0.02

    def test_sampled_is_close_to_exact(self) -> None:
        difference = np.random.default_rng(3).normal(0.2, 1, 14)
        exact, _ = sign_flip_test(difference)
        padded = np.r_[difference, 1e-7]  # fifteen differences off any lattice: too many to look at
        p, counted = sign_flip_test(padded, resamples=20_000)
        assert not counted
        assert p == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / 20_000))

    def test_sampled_p_is_never_zero_and_repeats(self) -> None:
        difference = np.random.default_rng(4).random(50) + 1
        assert sign_flip_test(difference, resamples=999) == (pytest.approx(1 / 1000), False)
        noise = np.random.default_rng(5).normal(0, 1, 50)
        assert sign_flip_test(noise, seed=1) == sign_flip_test(noise, seed=1) != sign_flip_test(noise, seed=2)

    def test_blocks_hold_the_same_rule(self, monkeypatch: pytest.MonkeyPatch) -> None:
        noise = np.random.default_rng(6).normal(0.1, 1, (40, 2))
        at_once, _ = sign_flip_tests(noise, resamples=2000)
        monkeypatch.setattr("longshot.statistics.intervals._BLOCK", 4000)
        parts, _ = sign_flip_tests(noise, resamples=2000)
        assert parts == pytest.approx(at_once, abs=0.05)

    def test_false_alarms_are_as_rare_as_promised(self) -> None:
        rng = np.random.default_rng(7)
        noise = rng.choice([-1, 1], (25, 400)) * rng.integers(0, 10, (25, 400)) / 20
        p, exact = sign_flip_tests(noise)
        assert exact.all()
        assert (p <= 0.05).mean() <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 400)


class TestCorrections:
    @pytest.mark.parametrize(("ours", "name"), [(holm, "holm"), (benjamini_hochberg, "fdr_bh")])
    @pytest.mark.parametrize("m", [1, 2, 30])
    def test_equals_statsmodels(self, ours: object, name: str, m: int) -> None:
        multitest = pytest.importorskip("statsmodels.stats.multitest")
        p = np.random.default_rng(m).random(m) ** 3
        p[: m // 3] = p[0]  # ties
        assert ours(p) == pytest.approx(multitest.multipletests(p, method=name)[1])  # type: ignore[operator]

    def test_no_tests_need_no_correction(self) -> None:
        assert len(holm([])) == len(benjamini_hochberg([])) == 0

    def test_refuses_what_is_no_probability(self) -> None:
        with pytest.raises(ValueError, match="between 0 and 1"):
            holm([0.1, np.nan])


class TestEdgesOfComparisons:
    def test_what_counts_as_a_tie(self) -> None:
        compared = compare_paired([0.0, 0.0, 0.0], [5e-10, 2e-9, -2e-9])
        assert (compared.wins, compared.ties, compared.losses) == pytest.approx((1 / 3, 1 / 3, 1 / 3))

    def test_equal_differences_are_certain(self) -> None:
        assert compare_paired([0.25, 0.5, 0.75], [0.5, 0.75, 1.0]).p_t == 0
        assert compare_paired([0.25, 0.5], [0.25, 0.5]).p_t == 1

    def test_one_task_has_no_t_test(self) -> None:
        compared = compare_paired([0.2], [0.5])
        assert np.isnan(compared.p_t)
        assert (compared.p, compared.n) == (1, 1)

    def test_two_tasks_have_one(self) -> None:
        assert compare_paired([0.2, 0.1], [0.5, 0.8]).p_t == pytest.approx(
            stats.ttest_rel([0.5, 0.8], [0.2, 0.1]).pvalue
        )

    def test_a_partner_for_each(self) -> None:
        a, b = np.array([[0.1, 0.9], [0.2, 0.8]]), np.array([[0.3, 0.5], [0.6, 0.6]])
        first, second = compare_many(a, b)
        assert (first.difference.mean, second.difference.mean) == pytest.approx((0.3, -0.3))
        assert (first.mean_a, second.mean_b) == pytest.approx((0.15, 0.55))

    @pytest.mark.parametrize("shape", [(2, 3), (3, 2)])
    def test_tables_of_other_shapes_are_no_pairs(self, shape: tuple[int, int]) -> None:
        with pytest.raises(ValueError, match="cannot be paired"):
            compare_many(np.zeros(shape), np.zeros((2, 2)))

    def test_another_level(self) -> None:
        a, b = np.random.default_rng(0).random((2, 9))
        ends = stats.ttest_rel(b, a).confidence_interval(0.7)
        compared = compare_paired(a, b, level=0.7)
        assert (compared.difference.low, compared.difference.high) == pytest.approx((ends.low, ends.high))


class TestEdgesOfSignFlips:
    def test_no_differences(self) -> None:
        assert sign_flip_test([0.0, 0.0, 1e-10]) == (1, True)

    @pytest.mark.parametrize(("denominator", "exact"), [(2000, True), (2001, False)])
    def test_fractions_are_recognised_up_to_two_thousandths(self, denominator: int, exact: bool) -> None:
        steps = np.random.default_rng(1).integers(1, 40, 20) * np.tile([1, -1], 10)
        assert sign_flip_test(steps / denominator, resamples=99)[1] == exact

    @pytest.mark.parametrize(("noise", "exact"), [(1e-9, True), (1e-5, False)])
    def test_rounding_of_fractions_is_forgiven(self, noise: float, exact: bool) -> None:
        rng = np.random.default_rng(2)
        differences = rng.integers(1, 9, 20) / 10 + noise * rng.random(20)
        assert sign_flip_test(differences, resamples=99)[1] == exact

    def test_a_sum_that_is_reached_exactly_counts(self) -> None:
        # ±0.1 ± 0.2 ± 0.3: |sum| is 0.6 twice, 0.4 twice, 0.2 twice, 0 twice.
        for signs, p in (((1, 1, 1), 0.25), ((-1, 1, 1), 0.5), ((1, -1, 1), 0.75), ((1, 1, -1), 1)):
            assert sign_flip_test(np.array([0.1, 0.2, 0.3]) * signs) == (pytest.approx(p), True)

    def test_irrational_sizes_by_enumeration(self) -> None:
        # ±√2 ± √3 ± √5: six of the eight patterns reach |√2 − √3 + √5| = 1.918, two (|√2 + √3 − √5| = 0.910) do not.
        assert sign_flip_test(np.sqrt([2, 3, 5]) * [1, -1, 1]) == (0.75, True)

    def test_sampled_p_counts_the_random_patterns(self) -> None:
        differences = np.random.default_rng(3).normal(0.2, 1, 20)
        raw = np.frombuffer(np.random.default_rng(7).bytes(200 * 3), np.uint8).reshape(200, 3)
        signs = 2.0 * np.unpackbits(raw, axis=1)[:, :20] - 1
        hits = int((np.abs(signs @ differences) >= abs(differences.sum())).sum())
        assert sign_flip_test(differences, resamples=200, seed=7) == ((1 + hits) / 201, False)


class TestEdgesOfCorrections:
    def test_zero_and_one_are_probabilities(self) -> None:
        assert holm([0, 1]).tolist() == benjamini_hochberg([0, 1]).tolist() == [0, 1]

    @pytest.mark.parametrize("p", [-0.01, 1.01])
    def test_beyond_them_nothing_is(self, p: float) -> None:
        with pytest.raises(ValueError, match="between 0 and 1"):
            holm([0.5, p])

    def test_by_hand(self) -> None:
        # Holm: 3 · 0.01, max(0.03, 2 · 0.03), max(0.06, 0.04); Benjamini–Hochberg: 3/3 · 0.04, 3/2 · 0.03, 3 · 0.01.
        assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
        assert benjamini_hochberg([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.04, 0.04])
        assert holm([0.5, 0.6]).tolist() == [1, 1]
