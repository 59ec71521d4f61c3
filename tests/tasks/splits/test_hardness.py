"""How hard splits are: expected accuracy against every task written out, and worlds whose answer was planted."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from sklearn.neighbors import NearestCentroid

from longshot.base import UserError
from longshot.data import Dataset
from longshot.models import Features
from longshot.tasks.splits import proxy as proxies
from longshot.tasks.splits.hardness import Hardness, check_measurable, measure_hardness
from longshot.tasks.splits.proxy import Proxy, Unmeasurable, leading_components, right_answers
from longshot.tasks.splits.published_splits import random_split


def _features(dataset: Dataset, rows: np.ndarray) -> Features:
    return Features(
        array=rows.astype(np.float32),
        keys=dataset.keys,
        class_ids=dataset.class_ids,
        offsets=dataset.offsets,
        dataset=dataset.name,
        fingerprint=dataset.fingerprint,
        backbone="made-up",
        weights_hash="w",
        preprocessing="none",
        hash="h",
    )


@pytest.fixture
def world(dataset_of: Callable[..., Dataset]) -> Callable[..., tuple[Dataset, Features]]:
    """Classes around random means; images scatter by ``noise`` around them."""

    def make(
        classes: int, images: int, dim: int = 12, noise: float = 1.0, seed: int = 0
    ) -> tuple[Dataset, Features]:
        dataset = dataset_of([f"c{i:03d}" for i in range(classes)], images)
        rng = np.random.default_rng(seed)
        rows = rng.standard_normal((classes, dim))[dataset.labels]
        return dataset, _features(dataset, rows + noise * rng.standard_normal((len(rows), dim)))

    return make


def test_expected_accuracy_is_the_mean_over_every_task(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """All 3-way tasks of five classes with the same supports, answered by scikit-learn's nearest centroid."""
    monkeypatch.setattr(proxies, "DRAWS", 2)
    _, features = world(8, 7)
    proxy = Proxy(features, way=3, shot=2)
    test, seed = np.array([0, 2, 3, 6, 7]), 4
    learnt = proxy.learn(np.array([1, 4]))
    for mapped, points in ((None, proxy.rows), (learnt, proxy.rows @ learnt)):
        scores = []
        for draw in range(proxies.DRAWS):
            for chosen in combinations(test.tolist(), 3):
                supports = [points[7 * c + proxy.supports(c, seed)[draw]] for c in chosen]
                peer = NearestCentroid().fit(np.concatenate(supports), np.repeat(chosen, 2))
                for own in chosen:
                    queries = np.setdiff1d(np.arange(7), proxy.supports(own, seed)[draw])
                    scores.append((peer.predict(points[7 * own + queries]) == own).mean())
        assert proxy.accuracy(test, seed, mapped) == pytest.approx(np.mean(scores), abs=1e-12)


def test_shares_of_tasks_that_avoid_nearer_classes() -> None:
    np.testing.assert_allclose(right_answers(5, 2), [1, 3 / 4, 2 / 4, 1 / 4, 0])
    np.testing.assert_allclose(right_answers(4, 3), [1, 1 / 3, 0, 0])


def test_principal_components_keep_distances_on_either_side() -> None:
    rng = np.random.default_rng(0)
    for shape in ((30, 6), (6, 30)):
        rows = rng.standard_normal(shape)
        centred = rows - rows.mean(0)
        turned = leading_components(rows, 256)
        np.testing.assert_allclose(turned @ turned.T, centred @ centred.T, atol=1e-10)
        values = np.linalg.svd(centred, compute_uv=False)
        np.testing.assert_allclose((leading_components(rows, 2) ** 2).sum(), (values[:2] ** 2).sum())


def test_the_map_is_that_of_the_images_of_the_train_classes(world: Any) -> None:
    """Sums of scatters against the covariance written out."""
    from longshot.tasks.splits.proxy import discriminant_map

    _, features = world(9, 6, dim=5)
    proxy, train = Proxy(features, shot=2), np.array([1, 2, 4, 8])
    means = np.stack([proxy.rows[6 * c : 6 * c + 6].mean(0) for c in train])
    inner = np.concatenate([proxy.rows[6 * c : 6 * c + 6] - m for c, m in zip(train, means, strict=True)])
    written = discriminant_map(means, inner.T @ inner / len(inner))
    np.testing.assert_allclose(proxy.learn(train) @ proxy.learn(train).T, written @ written.T, atol=1e-10)


def test_random_splits_lose_nothing_by_transfer(world: Any) -> None:
    dataset, features = world(40, 12, noise=2.0)
    draws = [random_split(dataset, seed=seed).positions(dataset) for seed in range(40)]
    hardness = measure_hardness(Proxy(features), draws)
    assert hardness.splits == 40
    assert hardness.transfer_loss.half is not None and hardness.transfer_loss.half < 0.02
    assert abs(hardness.transfer_loss.mean) < 1.5 * hardness.transfer_loss.half


def test_a_planted_loss_is_transfer_and_not_similarity(dataset_of: Callable[..., Dataset]) -> None:
    """Half the classes differ in the first 32 dimensions, half in the last 32.

    Whoever learns from one half is nearly blind for the other: a split along the halves loses by transfer, and one that
    takes its test classes from both does not.
    """
    dataset = dataset_of([f"c{i:03d}" for i in range(40)], 20)
    rng = np.random.default_rng(3)
    means = np.zeros((40, 64))
    means[:20, :32], means[20:, 32:] = 0.5 * rng.standard_normal((2, 20, 32))
    rows = means[dataset.labels] + rng.standard_normal((800, 64))
    proxy = Proxy(_features(dataset, rows))
    apart = {"train": np.arange(20), "test": np.arange(20, 40)}
    mixed = {"train": np.arange(0, 40, 2), "test": np.arange(1, 40, 2)}
    far, near = (measure_hardness(proxy, [parts], seeds=range(6)) for parts in (apart, mixed))
    assert far.transfer_loss.low is not None and far.transfer_loss.low > 0.04
    assert abs(near.transfer_loss.mean) < 0.03
    assert far.other - far.learnt.mean == pytest.approx(far.transfer_loss.mean)


def test_alike_classes_show_in_frozen_accuracy(world: Any) -> None:
    _, features = world(30, 10, noise=0.5)
    rows = np.array(features.array)
    rows[150:] = rows[150:] * 0.3  # the last fifteen classes lie closer together, and scatter less too
    rows[150:] += 0.5 * np.random.default_rng(5).standard_normal((150, 12))
    proxy = Proxy(Features(**{**vars(features), "array": rows}))
    spread, alike = np.arange(15), np.arange(15, 30)
    frozen = [
        measure_hardness(proxy, [{"train": b, "test": a}]).frozen
        for a, b in ((spread, alike), (alike, spread))
    ]
    assert frozen[1].high is not None and frozen[0].low is not None and frozen[1].high < frozen[0].low


def test_a_record_can_be_read_back(world: Any) -> None:
    _, features = world(20, 8)
    hardness = measure_hardness(Proxy(features, 3, 2), [{"train": np.arange(10), "test": np.arange(10, 20)}])
    assert Hardness.from_record(hardness.record()) == hardness
    assert hardness.frozen.n == 12 and (hardness.way, hardness.shot) == (3, 2)


def test_large_datasets_are_thinned(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds on classes, images and tested classes hold, and the measurement stays near that of everything."""
    _, features = world(60, 40, noise=1.5)
    parts = {"train": np.arange(30), "test": np.arange(30, 60)}
    everything = measure_hardness(Proxy(features), [parts])
    for name, bound in (("CLASSES", 50), ("ROWS", 1000), ("TESTED", 12)):
        monkeypatch.setattr(proxies, name, bound)
    proxy = Proxy(features)
    assert len(proxy.looked_at) == 50 and len(proxy.rows) == 1000
    assert len(proxy.tested(parts["test"], 0)) == 12
    assert set(proxy.tested(parts["test"], 0)) <= set(proxy.looked_at) & set(parts["test"])
    thinned = measure_hardness(proxy, [parts])
    assert thinned.learnt.mean == pytest.approx(everything.learnt.mean, abs=0.05)


def test_what_cannot_be_measured_is_told(world: Any) -> None:
    _, features = world(12, 5)
    with pytest.raises(Unmeasurable, match=r"12 classes of 'made-up' have fewer than 6 images .* lower shot"):
        Proxy(features)
    proxy = Proxy(features, shot=2)
    with pytest.raises(Unmeasurable, match="Split 'odd' has 4 test classes, and a task has 5; lower way"):
        check_measurable(proxy, {"train": np.arange(8), "test": np.arange(8, 12)}, "odd")
    with pytest.raises(Unmeasurable, match="has 1 train class; 2 are needed"):
        check_measurable(proxy, {"train": np.arange(1), "test": np.arange(2, 12)})
    with pytest.raises(UserError, match="Tasks of 1 way and 5 shots cannot be measured"):
        Proxy(features, way=1)
