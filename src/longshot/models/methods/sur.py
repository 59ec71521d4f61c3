"""SUR: select among several backbones with weights learned on the support."""

from __future__ import annotations

import torch
from torch import Tensor

from longshot.base import TaskBatch, TaskShape, count_field, number_field, with_settings
from longshot.models.methods.base import Method
from longshot.models.methods.numerics import class_scores, lengths, one_hot, present_only, row_weights
from longshot.models.methods.products import product


@with_settings
class SUR(Method):
    """Nearest class mean by cosine in the weighted concatenation of several backbones' features.

    Backbone i's ℓ₂-normalised features are multiplied by λ_i = sigmoid(a_i); a is trained by Adam on the
    support's cross-entropy of logits scale · cos(x, p_w). Since all class means scale with λ, only inner products per
    backbone are needed: cos = Σ λ² ⟨x_i, p_i⟩ / (√Σ λ²‖x_i‖² √Σ λ²‖p_i‖²).
    While the weights are learned, a row is left out of its own class mean: it would resemble a mean that holds it, most
    of all through a backbone of noise, which would then be preferred. So a class of one row teaches nothing, and with
    one shot everywhere the weights stay equal. With one backbone it is the cosine to the mean of unit vectors.
    """

    name = "sur"
    setting = "inductive"
    family = "several backbones"
    paper = "Dvornik et al. 2020"

    steps: int = count_field(40)
    lr: float = number_field(0.1, above=0)
    scale: float = number_field(10.0, above=0)

    def floats_per_task(self, shape: TaskShape) -> int:
        """As usual, and the inner products per backbone (up to eight) with what their gradient keeps."""
        return super().floats_per_task(shape) + 8 * (12 * shape.support + 2 * shape.query) * shape.way

    def scores(self, batch: TaskBatch) -> Tensor:
        """[B, Q, W]; see the class."""
        support, query, squares = [], [], []
        for view in batch.split():
            unit = view.support / lengths(view.support).unsqueeze(2)
            means = view.class_means(unit)
            support.append(product(means, unit.transpose(1, 2)))
            query.append(product(means, view.query.transpose(1, 2)).div_(lengths(view.query).unsqueeze(1)))
            squares.append(means.square().sum(2))
        inner, square = torch.stack(support, 3), torch.stack(squares, 2).unsqueeze(2)  # [B,W,S,K], [B,W,1,K]
        target = one_hot(batch)  # [B, W, S]
        shots = (
            batch.counts.unsqueeze(2) * target
        )  # shots of the row's own class, 0 in other classes' columns
        weight = row_weights((shots > 1).any(1))
        inner, without_own = _left_out(inner, square, shots.unsqueeze(3))
        choice = torch.zeros(len(batch), len(support), device=batch.support.device, requires_grad=True)
        optimiser = torch.optim.Adam([choice], lr=self.lr)
        if len(support) > 1:
            with torch.enable_grad():
                for _ in range(self.steps):
                    logs = present_only(self._logits(inner, without_own, choice), batch).log_softmax(1)
                    loss = -(logs.clamp(min=-1e30) * target * weight).sum()
                    choice.grad = torch.autograd.grad(loss, choice)[0]
                    optimiser.step()
        return class_scores(self._logits(torch.stack(query, 3), square, choice.detach()), batch)

    def _logits(self, inner: Tensor, square: Tensor, choice: Tensor) -> Tensor:
        """[B, W, N] scale · cos; inner: [B, W, N, K], square: [B, W, 1 or N, K], choice: [B, K]."""
        share = choice.sigmoid().square()[:, None, None, :]
        norm = (square * share).sum(3).clamp(min=1e-12).sqrt() * share.sum(3).sqrt()
        return self.scale * (inner * share).sum(3) / norm


def _left_out(inner: Tensor, square: Tensor, shots: Tensor) -> tuple[Tensor, Tensor]:
    """⟨x, p⟩ and ‖p‖² [B, W, S, K] with each unit row x left out of its own class mean p of n rows.

    p' = (n p − x) / (n − 1): ⟨x, p'⟩ = (n⟨x, p⟩ − 1) / (n − 1), ‖p'‖² = (n²‖p‖² − 2n⟨x, p⟩ + 1) / (n − 1)².
    shots: [B, W, S, 1], n in a row's own class and 0 elsewhere.
    """
    remaining = (shots - 1).clamp(min=1)
    lone = (shots * inner - 1) / remaining
    length = ((shots * shots * square - 2 * shots * inner + 1) / (remaining * remaining)).clamp(min=0)
    return torch.where(shots > 1, lone, inner), torch.where(shots > 1, length, square.expand_as(inner))
