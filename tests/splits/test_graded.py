"""Splits between random and farthest: reached shares, and why R alone does not move a class."""

from __future__ import annotations

import numpy as np
import pytest

from longshot.errors import UserError
from longshot.splits.assign import assign, part_sizes
from longshot.splits.divergences import between, gap
from longshot.splits.graded import graded
from longshot.splits.objective import Objective
from longshot.splits.principal import on_axis

SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)


@pytest.fixture(scope="module")
def embeddings() -> np.ndarray:
    rng = np.random.default_rng(0)
    points = rng.normal(size=(120, 16)) * np.linspace(2, 0.5, 16)
    return points / np.linalg.norm(points, axis=1, keepdims=True)


def test_along_one_axis_every_r_gives_the_same_classes(embeddings: np.ndarray) -> None:
    """The order of log p − log q depends on the direction of the centroids' difference alone."""
    sizes = part_sizes(len(embeddings))
    splits = [
        assign(on_axis(Objective(embeddings, target)).terms.scores, sizes) for target in (0.04, 0.32, 0.96)
    ]
    for other in splits[1:]:
        assert all(np.array_equal(one, two) for one, two in zip(splits[0], other, strict=True))


def test_the_share_of_the_farthest_divergence_is_reached(embeddings: np.ndarray) -> None:
    sizes = part_sizes(len(embeddings))
    for share in SHARES:
        found = graded(embeddings, sizes, share)
        train, validation, test = found.parts
        means = embeddings[train].mean(0), embeddings[test].mean(0)
        assert found.reached == pytest.approx(between("kl-symmetric", embeddings, *means), rel=1e-6)
        # A random split of so few classes has a divergence of its own.
        near = 0.03 if share else 0.08
        assert found.reached == pytest.approx(share * found.farthest, abs=near * found.farthest)
        assert (len(train), len(validation), len(test)) == sizes
        assert np.array_equal(np.sort(np.concatenate(found.parts)), np.arange(len(embeddings)))


def test_the_gap_grows_with_the_share(embeddings: np.ndarray) -> None:
    sizes = part_sizes(len(embeddings))
    found = [graded(embeddings, sizes, share).parts for share in SHARES]
    gaps = [gap(embeddings, parts[0], parts[2]) for parts in found]
    assert gaps == sorted(gaps)
    assert gaps[-1] > 3 * gaps[0]


def test_the_farthest_is_the_split_along_the_axis(embeddings: np.ndarray) -> None:
    sizes = part_sizes(len(embeddings))
    along = assign(on_axis(Objective(embeddings, 0.5)).terms.scores, sizes)
    found = graded(embeddings, sizes, 1.0)
    assert found.angle == 0
    assert all(np.array_equal(one, two) for one, two in zip(found.parts, along, strict=True))


def test_a_seed_is_another_split_of_the_same_distance(embeddings: np.ndarray) -> None:
    sizes = part_sizes(len(embeddings))
    one, other = (graded(embeddings, sizes, 0.5, seed=seed) for seed in (0, 1))
    assert not np.array_equal(one.parts[2], other.parts[2])
    assert one.reached == pytest.approx(other.reached, rel=0.1)


@pytest.mark.parametrize("share", [-0.1, 1.5, float("nan")])
def test_a_share_outside_is_refused(embeddings: np.ndarray, share: float) -> None:
    with pytest.raises(UserError, match=r"between 0 \(random\) and 1 \(farthest\)"):
        graded(embeddings, part_sizes(len(embeddings)), share)
