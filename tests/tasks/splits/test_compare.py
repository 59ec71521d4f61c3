"""Splits compared: numbers against SciPy and loops, and what must hold for splits of known distance."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.special import log_softmax, rel_entr

from longshot.base import UserError
from longshot.tasks import between, compare_split
from longshot.tasks.splits.compare import shared_test, unassigned
from longshot.tasks.splits.embeddings import MEASURES, flatten, nearest_of


def _classes(count: int, dim: int, seed: int = 0) -> np.ndarray:
    points = np.random.default_rng(seed).normal(size=(count, dim))
    return points / np.linalg.norm(points, axis=1, keepdims=True)


def _parts(order: np.ndarray) -> dict[str, np.ndarray]:
    """60/20/20 along an order of the classes, the far end alternately test and validation."""
    held_out = len(order) * 6 // 10
    return {
        "train": np.sort(order[:held_out]),
        "validation": np.sort(order[held_out::2]),
        "test": np.sort(order[held_out + 1 :: 2]),
    }


NAMES = [f"class{i:03d}" for i in range(200)]


def test_kl_is_that_of_the_two_means_over_all_classes() -> None:
    z = _classes(50, 8)
    parts = _parts(np.arange(50))
    comparison = compare_split("given", parts, z, NAMES)
    p, q = (
        np.exp(log_softmax(-(cdist(z, z[parts[part]].mean(0)[None])[:, 0] ** 2)))
        for part in ("train", "test")
    )
    assert comparison.divergences["kl"] == pytest.approx(rel_entr(p, q).sum(), rel=1e-9)
    assert comparison.divergences["kl-symmetric"] == pytest.approx(
        rel_entr(p, q).sum() + rel_entr(q, p).sum(), rel=1e-9
    )
    assert comparison.divergences["euclidean"] == comparison.gap > 0


def test_nearest_train_class_of_every_test_class() -> None:
    z = _classes(40, 6, seed=1)
    parts = _parts(np.random.default_rng(2).permutation(40))
    comparison = compare_split("given", parts, z, NAMES)
    far = cdist(z[parts["test"]], z[parts["train"]])
    assert [pair.test for pair in comparison.nearest] == [NAMES[i] for i in parts["test"]]
    assert [pair.train for pair in comparison.nearest] == [
        NAMES[parts["train"][i]] for i in far.argmin(axis=1)
    ]
    np.testing.assert_allclose(comparison.distances, far.min(axis=1), rtol=1e-12)
    inside = cdist(z[parts["train"]], z[parts["train"]])
    np.fill_diagonal(inside, np.inf)
    assert comparison.spacing == pytest.approx(inside.min(axis=1).mean())


def test_a_turn_of_the_axes_changes_no_number() -> None:
    """More dimensions than classes: measured in as many dimensions as classes."""
    z = _classes(20, 90, seed=3)
    assert flatten(z).shape == (20, 20)
    parts = _parts(np.arange(20))
    comparison = compare_split("given", parts, z, NAMES)
    for measure in MEASURES:
        direct = between(measure, z, z[parts["train"]].mean(0), z[parts["test"]].mean(0))
        assert comparison.divergences[measure] == pytest.approx(direct, rel=1e-6, abs=1e-9)


def test_a_split_along_the_first_axis_is_further_than_a_random_one() -> None:
    z = _classes(150, 10, seed=4)
    axis = np.linalg.svd(z - z.mean(0), full_matrices=False)[2][0]
    far = compare_split("far", _parts(np.argsort(z @ axis)), z, NAMES)
    near = compare_split("near", _parts(np.random.default_rng(5).permutation(150)), z, NAMES)
    for measure in MEASURES:
        assert far.divergences[measure] > near.divergences[measure]
    assert far.gap > 2 * near.gap
    assert far.distances.mean() > near.distances.mean()


def test_a_record_holds_sizes_divergences_and_distances() -> None:
    z = _classes(10, 4)
    parts = {**_parts(np.arange(10)), "validation": np.empty(0, np.int64)}
    record = compare_split("mine", parts, z, NAMES, "pixels").record()
    assert record["split"] == "mine"
    assert record["backbone"] == "pixels"
    assert [record[part] for part in ("train", "validation", "test")] == [6, 0, 2]
    assert set(MEASURES) <= set(record)
    assert record["validation_gap"] is None
    assert record["nearest_min"] <= record["nearest_mean"] <= record["nearest_max"]


def test_neighbours_of_any_points_whatever_the_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Points of different lengths, so that a missing factor or a wrong diagonal shows."""
    rng = np.random.default_rng(6)
    points, candidates = rng.normal(size=(31, 5)) * 3, rng.normal(size=(17, 5))
    between_all, inside = cdist(points, candidates), cdist(points, points)
    np.fill_diagonal(inside, np.inf)
    for block in (1 << 22, 40):
        monkeypatch.setattr("longshot.tasks.splits.embeddings._PAIR_BLOCK", block)
        np.testing.assert_array_equal(nearest_of(points, candidates)[1], between_all.argmin(axis=1))
        distances, places = nearest_of(points, points, itself=False)
        np.testing.assert_array_equal(places, inside.argmin(axis=1))
        np.testing.assert_allclose(distances, inside.min(axis=1))


def test_near_twins_keep_their_distance() -> None:
    """1e-9 apart: the expanded square would say 0 or noise."""
    point = _classes(1, 50)
    distance, _ = nearest_of(point, point + 1e-9 / np.sqrt(50))
    assert distance[0] == pytest.approx(1e-9, rel=1e-3)


def test_shared_test_classes() -> None:
    four, two = {"test": np.array([1, 2, 3, 4])}, {"test": np.array([4, 5])}
    assert shared_test(four, two) == 0.25
    assert shared_test(two, four) == 0.5


def test_a_split_without_test_classes_is_refused() -> None:
    parts = {"train": np.arange(3), "validation": np.arange(3, 5), "test": np.empty(0, np.int64)}
    with pytest.raises(UserError, match="'odd' has 0 test classes and at least 1 is needed"):
        compare_split("odd", parts, _classes(5, 3), NAMES)


def test_classes_in_no_part_are_told() -> None:
    parts = {"train": np.array([0, 1]), "validation": np.array([2]), "test": np.array([3])}
    assert unassigned("half", parts, NAMES[:4]) == ""
    sentence = unassigned("half", parts, NAMES[:6])
    assert sentence == "split 'half': 2 classes are in no part ('class004', 'class005')"
