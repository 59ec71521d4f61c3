from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from longshot.statistics import block_ranks, critical_difference, meta_dataset_ranks

LEADERBOARD = Path(__file__).with_name("meta_dataset_leaderboard.csv")


class TestMetaDatasetRule:
    @pytest.mark.parametrize(("trained_on", "methods"), [("imagenet", 15), ("all", 18)])
    def test_reproduces_the_public_leaderboard(self, trained_on: str, methods: int) -> None:
        lines = LEADERBOARD.read_text(encoding="utf-8").splitlines()[1:]
        rows = [row for row in csv.DictReader(lines) if row["trained_on"] == trained_on]
        sources = [name.removesuffix(" mean") for name in rows[0] if name.endswith(" mean")]
        table = {
            kind: np.array([[float(row[f"{source} {kind}"]) for row in rows] for source in sources])
            for kind in ("mean", "half", "rank")
        }
        assert table["mean"].shape == (10, methods)
        ranks = meta_dataset_ranks(table["mean"], table["half"])
        assert np.array_equal(ranks, table["rank"])
        assert ranks.mean(axis=0) == pytest.approx([float(row["average_rank"]) for row in rows])

    def test_ties_are_with_the_best_left_not_in_chains(self) -> None:
        # 1.0 ties with 0.9, 0.9 would tie with 0.8, but 0.8 is too far from 1.0.
        assert meta_dataset_ranks([1.0, 0.9, 0.8], [0.1, 0.1, 0.1]).tolist() == [1.5, 1.5, 3]

    def test_a_difference_equal_to_its_bound_is_a_tie(self) -> None:
        assert meta_dataset_ranks([50.05, 50.0], [0.03, 0.04]).tolist() == [1.5, 1.5]

    def test_refuses_gaps(self) -> None:
        with pytest.raises(ValueError, match="finite"):
            meta_dataset_ranks([0.5, np.nan], [0.1, 0.1])


def test_block_ranks_equal_scipys() -> None:
    scores = np.random.default_rng(0).integers(0, 5, (30, 6)) / 4
    assert np.array_equal(block_ranks(scores), stats.rankdata(-scores, axis=1))
    assert np.array_equal(block_ranks(scores, higher_is_better=False), stats.rankdata(scores, axis=1))


class TestCriticalDifference:
    @pytest.mark.parametrize("ties", [False, True])
    def test_friedman_equals_scipys(self, ties: bool) -> None:
        rng = np.random.default_rng(1)
        scores = rng.integers(0, 6, (20, 4)) / 5 if ties else rng.random((20, 4))
        reference = stats.friedmanchisquare(*scores.T)
        compared = critical_difference(scores)
        assert (compared.chi_square, compared.p) == pytest.approx((reference.statistic, reference.pvalue))

    def test_iman_davenport(self) -> None:
        scores = np.random.default_rng(2).random((10, 3)) + np.array([0, 0.3, 0.6])
        compared = critical_difference(scores)
        f = 9 * compared.chi_square / (10 * 2 - compared.chi_square)
        assert (compared.f, compared.p_f) == pytest.approx((f, stats.f.sf(f, 2, 18)))

    @pytest.mark.parametrize(("methods", "q"), [(2, 1.960), (3, 2.343), (5, 2.728), (10, 3.164)])
    def test_nemenyi_has_the_tabulated_quantiles(self, methods: int, q: float) -> None:
        # Demšar (2006), table 5a: q for alpha 0.05, divided by the square root of two.
        scores = np.random.default_rng(3).random((12, methods))
        expected = q * np.sqrt(methods * (methods + 1) / (6 * 12))
        assert critical_difference(scores).difference == pytest.approx(expected, abs=2e-3)

    def test_groups_are_maximal_runs(self) -> None:
        # Ten blocks that agree on 0 > 1 > … > 4: average ranks 1 … 5, critical difference 1.93.
        scores = np.tile([5.0, 4, 3, 2, 1], (10, 1))
        compared = critical_difference(scores)
        assert compared.order.tolist() == [0, 1, 2, 3, 4]
        assert compared.groups == ((0, 1), (1, 2), (2, 3), (3, 4))
        assert compared.p_f == 0

    def test_methods_that_always_tie_are_one_group(self) -> None:
        compared = critical_difference(np.full((6, 3), 0.5))
        assert (compared.p, compared.groups) == (1, ((0, 1, 2),))

    def test_needs_two_blocks(self) -> None:
        with pytest.raises(ValueError, match="at least 2 blocks"):
            critical_difference([[0.1, 0.2]])


class TestEdges:
    def test_sources_one_by_one(self) -> None:
        means, halves = np.array([[0.5, 0.9], [0.9, 0.5]]), np.full((2, 2), 0.01)
        assert meta_dataset_ranks(means, halves).tolist() == [[2, 1], [1, 2]]

    def test_means_and_halves_must_fit(self) -> None:
        with pytest.raises(ValueError, match=r"\(2,\), \(1,\)"):
            meta_dataset_ranks([0.5, 0.6], [0.1])

    def test_a_difference_beyond_rounding_is_no_tie(self) -> None:
        assert meta_dataset_ranks([0.5 + 1e-6, 0.4], [0.06, 0.08]).tolist() == [1, 2]

    @pytest.mark.parametrize(("jitter", "tied"), [(1e-13, True), (1e-9, False)])
    def test_rounding_ties_in_a_block(self, jitter: float, tied: bool) -> None:
        assert block_ranks([[0.5, 0.5 + jitter]]).tolist() == ([[1.5, 1.5]] if tied else [[2, 1]])

    @pytest.mark.parametrize("scores", [[0.1, 0.2], [[0.1, np.inf]]])
    def test_refuses_what_is_no_table(self, scores: list[object]) -> None:
        with pytest.raises(ValueError, match=r"scores are \[blocks, methods\]"):
            block_ranks(scores)  # type: ignore[arg-type]

    @pytest.mark.parametrize(("methods", "q"), [(2, 1.645), (3, 2.052), (5, 2.459), (10, 2.920)])
    def test_nemenyi_at_ten_percent(self, methods: int, q: float) -> None:
        # Demšar (2006), table 5a: q for alpha 0.10.
        scores = np.random.default_rng(3).random((12, methods))
        expected = q * np.sqrt(methods * (methods + 1) / (6 * 12))
        assert critical_difference(scores, alpha=0.1).difference == pytest.approx(expected, abs=2e-3)

    def test_two_methods_and_two_blocks_are_enough(self) -> None:
        compared = critical_difference([[0.9, 0.1], [0.8, 0.2]])
        assert (compared.ranks.tolist(), compared.blocks, compared.chi_square) == ([1, 2], 2, 2)
        with pytest.raises(ValueError, match="not 2 and 1"):
            critical_difference([[0.9], [0.8]])

    def test_lower_is_better(self) -> None:
        assert critical_difference([[0.9, 0.1]] * 3, higher_is_better=False).order.tolist() == [1, 0]

    def test_a_group_may_span_just_the_difference(self) -> None:
        # Sixteen blocks, two methods: CD = 1.96 · √(6 / 96) = 0.49. Eleven wins of sixteen: ranks differ by 0.375.
        eleven, twelve = (
            critical_difference([[1.0, 0.0]] * wins + [[0.0, 1.0]] * (16 - wins)) for wins in (11, 12)
        )
        assert eleven.groups == ((0, 1),)
        assert (twelve.ranks[1] - twelve.ranks[0], twelve.groups) == (0.5, ())

    def test_all_ties_have_no_evidence(self) -> None:
        compared = critical_difference(np.full((6, 3), 0.5))
        assert (compared.chi_square, compared.p, compared.f, compared.p_f) == (0, 1, 0, 1)

    def test_blocks_that_all_agree(self) -> None:
        compared = critical_difference([[3.0, 2.0, 1.0]] * 5)
        assert (compared.chi_square, compared.f, compared.p_f) == (pytest.approx(10), np.inf, 0)
        assert compared.p == pytest.approx(np.exp(-5))  # χ² with 2 degrees of freedom
