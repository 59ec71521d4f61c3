"""Projections against independent solvers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize

from longshot.tasks.selection.algorithms import l1_ball, simplex

from .naive import l1_projection

vectors = arrays(np.float64, st.integers(1, 30), elements=st.floats(-50, 50))


@given(vectors, st.floats(0.1, 100))
def test_l1_ball_equals_root_finding_on_the_dual(values: np.ndarray, radius: float) -> None:
    projected = l1_ball(torch.from_numpy(values), torch.tensor(radius, dtype=torch.float64))
    np.testing.assert_allclose(projected.numpy(), l1_projection(values, radius), atol=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_l1_ball_equals_a_general_solver(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values, radius = rng.normal(size=6) * 3, 2.5
    # w = a − b with a, b ≥ 0 makes the constraint linear
    solved = minimize(
        lambda x: 0.5 * np.sum((x[:6] - x[6:] - values) ** 2),
        np.zeros(12),
        bounds=[(0, None)] * 12,
        constraints={"type": "ineq", "fun": lambda x: radius - x.sum()},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    ).x
    projected = l1_ball(torch.from_numpy(values), torch.tensor(radius, dtype=torch.float64)).numpy()
    np.testing.assert_allclose(projected, solved[:6] - solved[6:], atol=1e-5)


def test_l1_ball_is_the_identity_inside() -> None:
    values = torch.tensor([[0.2, -0.3, 0.1], [0.0, 0.0, 0.0]])
    assert torch.equal(l1_ball(values, torch.tensor([1.0, 5.0])), values)


def test_l1_ball_projects_each_line_on_its_own_radius() -> None:
    values = torch.tensor([[3.0, 4.0], [3.0, 4.0]], dtype=torch.float64)
    projected = l1_ball(values, torch.tensor([1.0, 5.0], dtype=torch.float64))
    np.testing.assert_allclose(projected.numpy(), [[0, 1], [2, 3]])


@given(vectors, st.floats(0.1, 100))
def test_simplex_meets_the_optimality_conditions(values: np.ndarray, radius: float) -> None:
    projected = simplex(torch.from_numpy(values), torch.tensor(radius, dtype=torch.float64)).numpy()
    assert projected.min() >= 0
    np.testing.assert_allclose(projected.sum(), radius, rtol=1e-9)
    shift = values - projected  # λ where w > 0, at most λ elsewhere
    assert np.all(shift <= shift[projected > 0].max() + 1e-7)
    np.testing.assert_allclose(shift[projected > 1e-9], shift[projected > 1e-9].mean(), atol=1e-7)


def test_simplex_keeps_masked_entries_at_zero() -> None:
    values = torch.tensor([9.0, 1.0, 2.0])
    projected = simplex(values, torch.tensor(2.0), torch.tensor([False, True, True]))
    np.testing.assert_allclose(projected.numpy(), [0, 0.5, 1.5])
