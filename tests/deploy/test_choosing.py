"""References that are chosen: planted clouds whose answer is known, copies, suspects, and numbers counted by hand."""

from __future__ import annotations

from itertools import combinations, product
from pathlib import Path

import numpy as np
import pytest
import torch

from longshot.base import UserError
from longshot.deploy.choosing import _deal, _Outcomes
from longshot.deploy.choosing_search import Search, groups_of, share_photos, units_of
from longshot.deploy.heads import Certainty, class_parts, fit_certainty, open_threshold
from plain_pictures import COLOURS, picture


def clouds(classes: int, photos: int, noise: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Vectors [classes · photos, 12] around a centre each, and their classes."""
    generator = np.random.default_rng(seed)
    centres = generator.normal(0, 1, (classes, 12))
    labels = np.repeat(np.arange(classes), photos)
    return (centres[labels] + noise * generator.normal(0, 1, (len(labels), 12))).astype(np.float32), labels


def loss(units: np.ndarray, labels: np.ndarray, rows: tuple[int, ...]) -> float:
    """The loss that the search lowers, in one expression per term."""
    total = 0.0
    picked = [units[[row for row in rows if labels[row] == number]].sum(0) for number in np.unique(labels)]
    scores = 16 * units @ np.stack([each / np.linalg.norm(each) for each in picked]).T
    for number in np.unique(labels):
        own = (labels == number) & ~np.isin(np.arange(len(labels)), rows)
        total += (np.log(np.exp(scores[own]).sum(1)) - scores[own, number]).mean()
    return total


def test_one_reference_per_class_is_among_the_best_of_all_choices() -> None:
    """Of all 6³ ways to take one photo of each of three classes, few have a lower loss than the choice."""
    vectors, labels = clouds(3, 6, 0.9)
    units, everything = units_of(vectors), np.ones(len(labels), bool)
    chosen = Search([vectors], labels, everything, everything, 0).choose(np.ones(3, np.int64))
    losses = [loss(units, labels, rows) for rows in product(*(np.flatnonzero(labels == c) for c in range(3)))]
    assert np.mean(np.array(losses) < loss(units, labels, tuple(chosen)) - 1e-9) < 0.05


def test_references_come_from_different_groups_of_looks() -> None:
    generator = np.random.default_rng(0)
    poses = np.array([[5.0, 0, 0], [0, 5, 0], [0, 0, 5]])
    rows = (np.repeat(poses, 8, 0) + 0.1 * generator.normal(0, 1, (24, 3))).astype(np.float32)
    vectors, labels = np.concatenate([rows, -rows]), np.repeat([0, 1], 24)
    assert len(np.unique(groups_of(rows, 3, 0))) == 3
    everything = np.ones(48, bool)
    chosen = Search([vectors], labels, everything, everything, 0).choose(np.array([3, 3]))
    assert sorted(chosen[:3] // 8) == [0, 1, 2]


def test_hard_classes_get_more_of_a_budget() -> None:
    vectors, labels = clouds(4, 20, 0.1)
    shuffled = np.random.default_rng(1).permutation(np.flatnonzero(labels >= 2))
    vectors[labels == 2], vectors[labels == 3] = vectors[shuffled[:20]] * 0.01, vectors[shuffled[20:]] * 0.01
    vectors[labels >= 2] += np.random.default_rng(2).normal(0, 1, (40, 12))  # these two cannot be told apart
    shots = share_photos([vectors], labels, np.ones(80, bool), 20)
    assert shots.sum() == 20 and shots[2:].min() > shots[:2].max()


def test_parts_keep_copies_together_and_hold_every_class() -> None:
    labels = np.repeat(np.arange(3), 8)
    group = np.arange(24)
    group[1], group[9] = 0, 8
    part = _deal(group, labels, 0)
    assert part[1] == part[0] and part[9] == part[8]
    assert {(int(label), int(number)) for label, number in zip(labels, part, strict=True)} == set(
        product(range(3), range(4))
    )


def test_random_references_are_compared_as_counted_by_hand() -> None:
    """With two photos of each class in the pool and one reference, the mean over draws is that over all four
    choices.
    """
    vectors, labels = clouds(2, 6, 1.2, seed=3)
    pool = np.isin(np.arange(12), [0, 1, 6, 7])
    units, outcomes = units_of(vectors, pool), _Outcomes(labels)
    outcomes.ask(units, np.array([0, 6]), pool, ~pool, 4_000, 0)
    own = np.flatnonzero(~pool)
    every = [(units[own] @ units[[a, b]].T).argmax(1) == labels[own] for a, b in product((0, 1), (6, 7))]
    assert np.abs(outcomes.random - np.mean(every, 0)).max() < 0.05
    assert np.array_equal(outcomes.right, every[0])


@pytest.mark.parametrize(("slope", "bias"), [(1.0, 0.0), (0.6, -0.5)])
def test_a_certainty_that_was_planted_comes_back(slope: float, bias: float) -> None:
    """Answers that are right as often as planted slope and bias say, and otherwise as the temperature says."""
    generator, planted = np.random.default_rng(0), Certainty(3.0, slope, bias)
    scores = torch.from_numpy(generator.normal(0, 6, (20_000, 5)))
    chances = planted.probabilities(scores).numpy()
    labels = (generator.random(20_000)[:, None] > chances.cumsum(1)).sum(1).clip(max=4)
    certainty = fit_certainty(scores.numpy(), labels)
    assert np.abs(certainty.probabilities(scores).numpy().max(1) - chances.max(1)).mean() < 0.02
    assert np.abs(chances.sum(1) - 1).max() < 1e-9
    assert np.array_equal(chances.argmax(1), scores.argmax(1).numpy())


def test_a_threshold_lets_the_rate_of_absent_classes_pass() -> None:
    """On independent similarities the share of new photos above it is the rate; parts share no class."""
    generator = np.random.default_rng(0)
    labels = np.repeat(np.arange(100), 50)
    threshold = open_threshold(generator.normal(0, 1, (5_000, 100)), labels, 0.1)
    assert (generator.normal(0, 1, (5_000, 99)).max(1) >= threshold).mean() == pytest.approx(0.1, abs=0.02)
    parts = list(class_parts(labels, 0))
    assert all(not set(labels[part]) & set(labels[~part]) for part in parts)
    assert (sum(~part for part in parts) == 1).all()


def test_every_pair_of_groups_is_apart() -> None:
    rows = np.eye(4, dtype=np.float32)[[0, 0, 1, 1, 2, 2, 3, 3]]
    group = groups_of(rows, 4, 0)
    assert all(group[a] != group[b] for a, b in combinations(range(0, 8, 2), 2))


def test_fewer_photos_than_classes_are_refused() -> None:
    import longshot

    with pytest.raises(UserError, match="photos=3 are fewer than the 240 classes of 'toybox'"):
        longshot.choose("toybox", photos=3, backbones="pixels", judge="pixels")


def test_five_references_serve_other_photos_better_than_random_ones() -> None:
    """Odd photos far from the rest of their class are in every group of looks, and no good references."""
    vectors, labels = clouds(10, 40, 1.6)
    odd = np.random.default_rng(1).random(len(labels)) < 0.2
    vectors[odd] *= 3
    pool, outcomes = np.arange(len(labels)) % 2 == 0, _Outcomes(labels)
    chosen = Search([vectors], labels, pool, pool, 0).choose(np.full(10, 5))
    outcomes.ask(units_of(vectors, pool), chosen, pool, ~pool, 200, 0)
    gain = outcomes.certified("planted", False).gain
    assert gain.low is not None and gain.low > 0


@pytest.mark.parametrize("photos", [1, 2])
def test_folders_of_one_or_two_photos_a_class_are_answered(photos: int, tmp_path: Path) -> None:
    import longshot

    generator = np.random.default_rng(0)
    for name, colour in list(COLOURS.items())[:3]:
        (tmp_path / "few" / name).mkdir(parents=True)
        for number in range(photos):
            picture(colour, generator).save(tmp_path / "few" / name / f"{number}.png")
    if photos == 1:
        with pytest.raises(UserError, match="No class of 'few' has two photos that differ"):
            longshot.choose(tmp_path / "few", backbones="pixels", judge="pixels")
    else:
        chosen = longshot.choose(tmp_path / "few", shot=1, backbones="pixels", judge="pixels", draws=2)
        assert len(chosen.rows) == len(chosen.seen) == 3
        more = longshot.choose(tmp_path / "few", photos=6, backbones="pixels", judge="pixels", draws=2)
        assert "3 in place of 6: half of its photos is the most that a class gives" in more.left_out


def test_a_class_of_nothing_but_copies_stays_among_those_that_are_chosen_from() -> None:
    labels, group = np.repeat([0, 1, 2], 4), np.array([0, 1, 2, 3, 4, 5, 6, 7, 0, 0, 0, 0])
    part = _deal(group, labels, 0)
    assert (part[group == 0] == -1).all() and (part[1:8] >= 0).all()
