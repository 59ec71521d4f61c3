"""Gradients in closed form against autograd, and Adam against torch.optim.Adam."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from longshot.models.methods.numerics import (
    CosineLogits,
    DistanceLogits,
    adam,
    cosines,
    cross_entropy_gradient,
    guessing_pull,
    log_chances,
    row_weights,
    squared_distances,
)

B, W, N, D = 3, 4, 7, 6


@pytest.fixture
def arrays() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.rand(B, W, D, generator=generator), torch.rand(B, N, D, generator=generator)


def weights() -> Tensor:
    mask = torch.ones(B, N, dtype=torch.bool)
    mask[1, 4:] = False
    return row_weights(mask)


def entropy(probability: Tensor) -> Tensor:
    return -(probability * probability.log()).sum(1)


def guessing_gradient(probability: Tensor, weight: Tensor, conditional: float, marginal: float) -> Tensor:
    logs = log_chances(probability.log())
    pull = guessing_pull(probability, logs, weight, conditional=conditional, marginal=marginal)
    return weight * probability * pull


@pytest.mark.parametrize(
    ("written", "loss"),
    [
        (
            lambda p, w: cross_entropy_gradient(p, torch.eye(W)[:, [0, 1, 2, 3, 0, 1, 2]].expand_as(p), w),
            lambda z, w: -(z.log_softmax(1) * torch.eye(W)[:, [0, 1, 2, 3, 0, 1, 2]] * w).sum(),
        ),
        (
            lambda p, w: guessing_gradient(p, w, 1.0, 0.0),
            lambda z, w: (entropy(z.softmax(1)) * w.squeeze(1)).sum(),
        ),
        (
            lambda p, w: guessing_gradient(p, w, 0.0, 1.0),
            lambda z, w: -entropy((z.softmax(1) * w).sum(2)).sum(),
        ),
        (
            lambda p, w: guessing_gradient(p, w, 0.3, 0.7),
            lambda z, w: (
                0.3 * (entropy(z.softmax(1)) * w.squeeze(1)).sum()
                - 0.7 * entropy((z.softmax(1) * w).sum(2)).sum()
            ),
        ),
    ],
    ids=["cross-entropy", "entropy", "balance", "entropies"],
)
def test_slopes_of_losses_equal_autograd(
    written: Callable[[Tensor, Tensor], Tensor], loss: Callable[[Tensor, Tensor], Tensor]
) -> None:
    logits = torch.randn(B, W, N, generator=torch.Generator().manual_seed(1), requires_grad=True)
    (expected,) = torch.autograd.grad(loss(logits, weights()), logits)
    torch.testing.assert_close(written(logits.detach().softmax(1), weights()), expected, atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("kind", [CosineLogits, DistanceLogits])
def test_logits_and_their_slope_equal_autograd(
    kind: type[CosineLogits] | type[DistanceLogits], arrays: tuple[Tensor, Tensor]
) -> None:
    means, rows = arrays
    slope = torch.randn(B, W, N, generator=torch.Generator().manual_seed(2))
    moving = means.clone().requires_grad_()
    if kind is CosineLogits:
        expected = 3.0 * torch.nn.functional.cosine_similarity(moving.unsqueeze(2), rows.unsqueeze(1), dim=3)
    else:
        expected = -3.0 * (moving.unsqueeze(2) - rows.unsqueeze(1)).norm(dim=3)
    logits = kind(rows, 3.0)
    torch.testing.assert_close(logits(means), expected.detach(), atol=1e-5, rtol=1e-4)
    (gradient,) = torch.autograd.grad((expected * slope).sum(), moving)
    torch.testing.assert_close(logits.backward(slope, means), gradient, atol=1e-4, rtol=1e-3)


def test_cosines_and_distances_follow_their_definitions(arrays: tuple[Tensor, Tensor]) -> None:
    means, rows = arrays
    expected = torch.nn.functional.cosine_similarity(means.unsqueeze(2), rows.unsqueeze(1), dim=3)
    torch.testing.assert_close(cosines(means, rows), expected)
    torch.testing.assert_close(
        squared_distances(means, rows), torch.cdist(means, rows) ** 2, atol=1e-5, rtol=1e-4
    )


def test_adam_moves_as_torch_does(arrays: tuple[Tensor, Tensor]) -> None:
    start, _ = arrays
    goal = torch.linspace(-1, 1, D)
    value = start.clone().requires_grad_()
    optimiser = torch.optim.Adam([value], lr=0.01)
    for _ in range(50):
        optimiser.zero_grad()
        ((value - goal) ** 4).sum().backward()
        optimiser.step()
    moved = adam(start, lambda x: 4 * (x - goal) ** 3, steps=50, lr=0.01)
    torch.testing.assert_close(moved, value.detach(), atol=1e-6, rtol=1e-5)


def test_adam_leaves_what_has_no_gradient_and_its_start(arrays: tuple[Tensor, Tensor]) -> None:
    start, _ = arrays
    before = start.clone()
    assert torch.equal(adam(start, torch.zeros_like, steps=5, lr=1.0), before)
    assert torch.equal(start, before)
