"""Slopes and claims of the study of transfer: against SciPy, and verdicts on planted worlds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from longshot.studies.engine.claims import judge
from longshot.studies.transfer.settings import METHODS
from longshot.studies.transfer.transfer_difficulty import transfer_claims
from longshot.studies.transfer.transfer_scores import SplitPlace, TransferScores, steepness

TARGETS = (0.04, 0.32, 0.96)


def world(
    methods: Sequence[str] = METHODS,
    *,
    targets: Sequence[float] = TARGETS,
    draws: int = 1,
    tasks: int = 30,
    fall: float = 0.2,
    between_draws: float = 0.0,
    between_splits: float = 0.0,
    seed: int = 0,
) -> TransferScores:
    """Accuracies that fall by ``fall`` · (method number + 1) per unit of R; finetune stands still.

    Draws lie ``between_draws`` apart over all their divergences, splits ``between_splits`` apart from each other.
    """
    rng = np.random.default_rng(seed)
    places = [SplitPlace("random", None, 0.001, 0.05)]
    places += [
        SplitPlace(f"R = {target:g} #{draw}", target, target / 10, 0.3 + target / 2, draw=draw)
        for target in targets
        for draw in range(draws)
    ]
    levels = rng.normal(0, between_draws, draws)
    accuracy = {}
    for split in places:
        level = 0.6 + levels[split.draw] + rng.normal(0, between_splits)
        for number, method in enumerate(methods):
            drop = 0.0 if method == "finetune" else fall * (number + 1) * (split.target or 0.0)
            for shot in (1, 5):
                accuracy[split.name, method, shot] = level - drop + rng.normal(0, 0.03, (2, tasks))
    parts = {
        (split.name, part): accuracy[split.name, "multiclass", 5] + (part == "train") * 0.1
        for split in places
        for part in ("train", "validation", "test")
        if "multiclass" in methods
    }
    return TransferScores(places, methods, (1, 5), accuracy, parts=parts)


def means(scores: TransferScores, method: str) -> list[float]:
    return [scores.accuracy[split.name, method, 5].mean() for split in scores.sweep]


def test_a_slope_is_that_of_scipy_over_splits() -> None:
    scores = world()
    slope = steepness(scores, "anil", 5)
    theirs = stats.linregress(TARGETS, means(scores, "anil"))
    reach = stats.t.ppf(0.975, 1) * theirs.stderr
    assert slope.fit.slope == pytest.approx(theirs.slope) == pytest.approx(slope.single[0])
    assert (slope.fit.low, slope.fit.high) == pytest.approx((theirs.slope - reach, theirs.slope + reach))
    assert slope.fit.n == 3


def test_slopes_over_several_draws_hold_the_truth_as_often_as_they_say() -> None:
    """Draws and splits scatter as in life; in 95 of 100 worlds the interval over splits holds the planted slope.

    The interval over tasks alone, which knows nothing of splits, holds it far too rarely.
    """
    kinds = {"between_draws": 0.05, "between_splits": 0.03, "tasks": 4}
    fits = [
        steepness(world(("maml",), draws=3, seed=seed, **kinds), "maml", 5)  # type: ignore[arg-type]
        for seed in range(400)
    ]
    held = np.mean([slope.fit.low <= -0.2 <= slope.fit.high for slope in fits])
    assert 0.92 <= held <= 0.98
    assert np.mean([slope.low <= -0.2 <= slope.high for slope in fits]) < 0.75
    assert np.mean([slope.fit.slope for slope in fits]) == pytest.approx(-0.2, abs=0.01)
    assert all(min(s.single) <= s.fit.slope <= max(s.single) and len(s.single) == 3 for s in fits)


def test_a_level_of_a_draw_is_no_noise_of_the_slope() -> None:
    apart = steepness(world(draws=3, between_draws=0.3), "maml", 5)
    assert apart.fit.slope == pytest.approx(-0.2, abs=0.02)
    assert apart.fit.high - apart.fit.low < 0.06


def test_slopes_are_per_tenfold_where_divergences_span_decades() -> None:
    scores = world(targets=(0.04, 0.4, 4.0), fall=0.0)
    fallen = {
        key: values - 0.1 * math.log10(split.target or 1)
        for split in scores.splits
        for key, values in scores.accuracy.items()
        if key[0] == split.name
    }
    planted = replace(scores, accuracy=fallen)
    assert planted.logarithmic and not world().logarithmic
    assert not world(targets=(0.0, 0.4, 4.0)).logarithmic  # zero has no logarithm
    assert steepness(planted, "maml", 5).fit.slope == pytest.approx(-0.1, abs=0.01)


def test_the_interval_over_tasks_covers_resampled_tasks() -> None:
    """The standard error over tasks against a bootstrap of the tasks of every split."""
    scores = world(tasks=200)
    slope = steepness(scores, "maml", 1)
    rng = np.random.default_rng(1)
    slopes = []
    for _ in range(600):
        drawn_means = [
            scores.accuracy[split.name, "maml", 1].mean(0)[rng.integers(0, 200, 200)].mean()
            for split in scores.sweep
        ]
        slopes.append(np.polyfit(TARGETS, drawn_means, 1)[0])
    assert (slope.high - slope.low) / (2 * 1.96) == pytest.approx(np.std(slopes), rel=0.12)


def test_the_difference_of_slopes_is_the_slope_of_the_difference() -> None:
    scores = world()
    own, other = steepness(scores, "protonet", 5), steepness(scores, "maml", 5)
    differs = steepness(scores, "protonet", 5, against="maml")
    assert differs.fit.slope == pytest.approx(own.fit.slope - other.fit.slope)
    by_means = steepness(scores, "anil", 1, measured=True)
    assert by_means.fit.slope == pytest.approx(10 * steepness(scores, "anil", 1).fit.slope)


def test_cells_that_hit_the_ceiling_are_left_out_of_slopes() -> None:
    """Of three splits the last was cut: the slope is that of the first two, and of two left-out ones there is none."""
    scores = world()
    cut = replace(scores, cut=frozenset({("R = 0.96 #0", "anil", 5)}))
    expected = stats.linregress([0.04, 0.32], means(scores, "anil")[:2]).slope
    assert steepness(cut, "anil", 5).fit.slope == pytest.approx(expected)
    assert steepness(cut, "anil", 1) == steepness(scores, "anil", 1)  # other cells stay
    assert steepness(cut, "maml", 5, against="anil").fit.n == 2  # a difference needs both
    most = replace(cut, cut=cut.cut | {("R = 0.32 #0", "anil", 5)})
    assert math.isnan(steepness(most, "anil", 5).fit.slope)


def verdicts(scores: TransferScores) -> dict[str, str]:
    listed = transfer_claims(lambda lab: scores)
    return {judged.claim.id: judged.verdict for judged in judge(listed, None)}  # type: ignore[arg-type, type-var]


def test_verdicts_follow_the_planted_world() -> None:
    """Accuracy falls, MAML falls least and finetune not at all: all that was planted is found."""
    seen = verdicts(world(draws=3, tasks=200))
    assert seen["falls"] == "confirmed"
    assert seen["slower"] == "confirmed"
    assert seen["adapting"] == seen["leads"] == "confirmed"
    assert seen["validation"] == seen["gains"] == "confirmed"
    assert seen["semantic"] == "not testable here"
    assert seen["harder"] == "not decided"  # finetune stands still


def test_a_world_turned_round_contradicts_and_noise_decides_nothing() -> None:
    seen = verdicts(world(draws=3, tasks=200, fall=-0.1))
    assert {seen[claim] for claim in ("falls", "harder", "slower", "leads", "gains")} == {"contradicted"}
    flat = verdicts(world(draws=3, tasks=20, fall=0.0))
    assert {flat[claim] for claim in ("falls", "harder", "slower", "leads", "gains")} == {"not decided"}


def test_claims_say_why_they_are_not_measured() -> None:
    listed = judge(transfer_claims(lambda lab: world(("protonet",), targets=(0.04,))), None)  # type: ignore[arg-type, type-var]
    reasons = {judged.claim.id: judged.reason for judged in listed}
    assert reasons["falls"] == "multiclass is not among the methods"
    assert reasons["harder"] == "the study has 1 divergence"
    assert "add semantic or fc100" in reasons["semantic"]
    assert {judged.verdict for judged in listed} == {"not testable here"}


def test_a_cut_cell_counts_in_no_claim() -> None:
    scores = replace(world(), cut=frozenset({("R = 0.96 #0", "maml", 5)}))
    judged = {each.claim.id: each for each in judge(transfer_claims(lambda lab: scores), None)}  # type: ignore[arg-type, type-var]
    assert not judged["leads"].numbers
    assert [each.measured.label for each in judged["adapting"].numbers] == [
        "finetune − multiclass, R = 0.96, 5-shot"
    ]
    assert len(judged["harder"].numbers) == 9
