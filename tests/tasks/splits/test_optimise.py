"""L-BFGS, the paper's SGD and the leading axis: who reaches what."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.splits import sgd
from longshot.tasks import between
from longshot.tasks.splits.atg import (
    SplitObjective,
    Unreachable,
    minimise,
    on_axis,
    principal_axis,
    random_start,
    whitening,
)

PUBLISHED = (0.04, 0.32, 0.64, 0.96)


def made_up(classes: int, dim: int = 640, seed: int = 0) -> np.ndarray:
    """Class means of ReLU features: a shared profile, eight directions in which classes differ, noise, cut at 0."""
    rng = np.random.default_rng(seed)
    shared = rng.standard_normal(dim) * 0.5 - 0.3
    groups = rng.standard_normal((classes, 8)) @ rng.standard_normal((8, dim)) / 6
    means = np.maximum(shared + groups + 0.3 * rng.standard_normal((classes, dim)), 0)
    return means / np.linalg.norm(means, axis=1, keepdims=True)


@pytest.mark.parametrize("target", PUBLISHED)
@pytest.mark.parametrize("classes", [100, 608, 1000])
def test_lbfgs_reaches_the_bound_and_the_divergence(classes: int, target: float) -> None:
    """The bound M ln M is the lowest J there is, so that no optimiser ends lower than 10⁻⁶ below this one."""
    objective = SplitObjective(made_up(classes), target)
    minimum = minimise(objective, on_axis(objective).centroids)
    assert minimum.terms.penalised < (1e-9 if classes < 640 else 1e-6)
    assert minimum.terms.divergence == pytest.approx(target, rel=0.01)


def test_lbfgs_is_no_higher_than_the_published_sgd() -> None:
    objective = SplitObjective(made_up(100, dim=64), 0.64)
    start = random_start(64, np.random.default_rng(0))
    slow, fast = sgd(objective, start), minimise(objective, start)
    assert objective.evaluate(slow).divergence == pytest.approx(0.64, rel=0.01)
    assert objective.value(fast.centroids) <= objective.value(slow) + 1e-6


def test_the_authors_start_has_variance_1_and_moves_no_class_by_what_lies_outside_the_span() -> None:
    """Centroids of ``torch.randn`` in all 200 dimensions, and their part in the span of 30 classes: the same scores."""
    start = random_start(200, np.random.default_rng(0), unit=False)
    assert start.std() == pytest.approx(1, abs=0.1)
    embeddings = made_up(30, dim=200)
    basis = np.linalg.qr(embeddings.T)[0]
    outside = SplitObjective(embeddings, 0.64).evaluate(start).scores
    inside = SplitObjective(embeddings, 0.64).evaluate(start @ basis @ basis.T).scores
    assert inside == pytest.approx(outside, abs=1e-9) or (inside - outside).std() < 1e-9


def test_whitening_makes_the_embeddings_orthonormal() -> None:
    for classes, dim in ((20, 50), (50, 20)):
        z = np.random.default_rng(0).standard_normal((classes, dim))
        u = z @ whitening(z)
        np.testing.assert_allclose(u.T @ u, np.eye(min(classes, dim)), atol=1e-8)


@pytest.mark.parametrize("target", [0.0, *PUBLISHED, 20.0])
@pytest.mark.parametrize("measure", ["kl-symmetric", "kl", "euclidean"])
def test_the_axis_meets_the_divergence_exactly(measure: str, target: float) -> None:
    z = made_up(80, dim=40)
    minimum = on_axis(SplitObjective(z, target, measure))
    assert between(measure, z, *minimum.centroids) == pytest.approx(target, rel=1e-9, abs=1e-12)
    apart = minimum.centroids[0] - minimum.centroids[1]
    assert abs(apart @ principal_axis(z)) == pytest.approx(float(np.linalg.norm(apart)), rel=1e-12)


def test_the_axis_is_the_first_principal_component() -> None:
    for classes, dim in ((20, 50), (50, 20)):
        z = made_up(classes, dim)
        expected = np.linalg.svd(z - z.mean(0))[2][0]
        assert abs(principal_axis(z) @ expected) == pytest.approx(1, abs=1e-10)


def test_a_rotation_of_the_features_turns_the_axis_with_it() -> None:
    z = made_up(60, dim=30)
    turn = np.linalg.qr(np.random.default_rng(3).standard_normal((30, 30)))[0]
    np.testing.assert_allclose(principal_axis(z @ turn), principal_axis(z) @ turn, atol=1e-9)


def test_wasserstein_has_an_end_that_is_told() -> None:
    z = made_up(30, dim=10)
    with pytest.raises(Unreachable) as end:
        on_axis(SplitObjective(z, float("inf"), "wasserstein"))
    most = end.value.most
    assert 0 < most < 2.1  # two points of the sphere, damping on top
    assert on_axis(SplitObjective(z, 0.9 * most, "wasserstein")).terms.divergence == pytest.approx(
        0.9 * most, rel=1e-6
    )
    with pytest.raises(Unreachable, match=f"at most {most:.4g} can"):
        on_axis(SplitObjective(z, 1.1 * most, "wasserstein"))
