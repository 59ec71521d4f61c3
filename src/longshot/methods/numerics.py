"""Batched pieces that several methods share: distances, masked softmax, Adam on class vectors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from longshot.methods.base import LOWEST, TaskBatch

EPSILON = 1e-12


def with_rows(batch: TaskBatch, support: Tensor, query: Tensor) -> TaskBatch:
    """The same tasks with transformed rows: support [B, S, d'], query [B, Q, d']."""
    return replace(batch, support=support, query=query)


def squared_distances(rows: Tensor, means: Tensor) -> Tensor:
    """[B, N, W] ‖x_n − p_w‖² from rows [B, N, d] and means [B, W, d], clamped at 0 against rounding."""
    products = torch.bmm(means, rows.transpose(1, 2)).transpose(1, 2)
    return (rows.square().sum(2, keepdim=True) + means.square().sum(2).unsqueeze(1) - 2 * products).clamp_(
        min=0
    )


def softmax_present(logits: Tensor, batch: TaskBatch) -> Tensor:
    """[B, N, W] softmax over the classes with support; absent and padding classes get probability 0."""
    if batch.shot is None:
        logits = logits.masked_fill(~batch.present.unsqueeze(1), LOWEST)
    return logits.softmax(2)


def row_weights(mask: Tensor) -> Tensor:
    """[B, N, 1] weights 1/n on the true rows of ``mask`` [B, N] and 0 on padding: a mean as a weighted sum."""
    true = mask.to(torch.float32)
    return (true / true.sum(1, keepdim=True).clamp(min=1)).unsqueeze(2)


def cross_entropy_gradient(probability: Tensor, target: Tensor, weight: Tensor) -> Tensor:
    """∂/∂logits of Σ_n weight_n · CE(softmax(logits_n), target_n) = weight · (p − t). All [B, N, W]."""
    return (probability - target).mul_(weight)


def entropy_gradient(probability: Tensor, weight: Tensor) -> Tensor:
    """∂/∂logits of Σ_n weight_n · H(p_n): −weight · p · (log p + H). [B, N, W]"""
    logs = probability.clamp(min=EPSILON).log()
    entropy = -(probability * logs).sum(2, keepdim=True)
    return -(logs + entropy).mul_(probability).mul_(weight)


def adam(start: Tensor, gradient: Callable[[Tensor], Tensor], *, steps: int, lr: float) -> Tensor:
    """``steps`` of Adam (β 0.9 and 0.999, ε 1e-8) from ``start``; every element moves on its own.

    ``gradient(x)`` is written out by the method: no graph is recorded and the whole batch of tasks moves in
    one call. Rows whose gradient is 0 (absent classes) stay where they are.
    """
    value = start.clone()
    mean, square = torch.zeros_like(value), torch.zeros_like(value)
    for step in range(1, steps + 1):
        slope = gradient(value)
        mean.lerp_(slope, 0.1)
        square.mul_(0.999).addcmul_(slope, slope, value=0.001)
        scale = (square / (1 - 0.999**step)).sqrt_().add_(1e-8)
        value.addcdiv_(mean, scale, value=-lr / (1 - 0.9**step))
    return value


class CosineLogits:
    """Logits t · ⟨x/‖x‖, p/‖p‖⟩ of fixed rows x [B, N, d] against moving class vectors p [B, W, d]."""

    def __init__(self, rows: Tensor, scale: float) -> None:
        self.rows = torch.nn.functional.normalize(rows, dim=2)
        self.scale = scale

    def __call__(self, means: Tensor) -> Tensor:
        """[B, N, W]"""
        directions = torch.nn.functional.normalize(means, dim=2)
        return torch.bmm(directions, self.rows.transpose(1, 2)).transpose(1, 2).mul_(self.scale)

    def backward(self, slope: Tensor, means: Tensor) -> Tensor:
        """∂/∂p [B, W, d] from ∂/∂logits [B, N, W]: (g − ⟨g, p̂⟩ p̂) / ‖p‖ with g = t · slopeᵀ x̂."""
        lengths = torch.linalg.vector_norm(means, dim=2, keepdim=True).clamp(min=EPSILON)
        directions = means / lengths
        pull = torch.bmm(slope.transpose(1, 2), self.rows).mul_(self.scale)
        along = (pull * directions).sum(2, keepdim=True)
        return pull.addcmul_(along, directions, value=-1).div_(lengths)


class DistanceLogits:
    """Logits −t · ‖x − p‖ (not squared) of fixed rows x [B, N, d] against moving class vectors p [B, W, d]."""

    def __init__(self, rows: Tensor, scale: float) -> None:
        self.rows = rows
        self.scale = scale
        self.lengths = rows.square().sum(2, keepdim=True)
        self._distance = rows.new_empty(0)

    def __call__(self, means: Tensor) -> Tensor:
        """[B, N, W]; the distances are kept for ``backward``."""
        products = torch.bmm(means, self.rows.transpose(1, 2)).transpose(1, 2)
        squared = (self.lengths + means.square().sum(2).unsqueeze(1)).sub_(products, alpha=2)
        self._distance = squared.clamp_(min=EPSILON).sqrt_()
        return self._distance * -self.scale

    def backward(self, slope: Tensor, means: Tensor) -> Tensor:
        """∂/∂p [B, W, d] = Σ_n a_nw x_n − (Σ_n a_nw) p_w with a = t · slope / distance, at the last call's p."""
        pull = (slope * self.scale).div_(self._distance)
        return torch.bmm(pull.transpose(1, 2), self.rows).sub_(pull.sum(1).unsqueeze(2) * means)
