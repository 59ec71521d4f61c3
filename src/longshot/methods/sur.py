"""SUR: select among several backbones with weights learned on the support."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import normalize

from longshot.methods.base import Method, TaskBatch, mask_absent
from longshot.methods.numerics import row_weights, softmax_present
from longshot.methods.settings import check_count, check_number


class SUR(Method):
    """Nearest class mean by cosine in the weighted concatenation of several backbones' features.

    Backbone i's ℓ₂-normalised features are multiplied by λ_i = sigmoid(a_i); a is trained by Adam on the
    support's cross-entropy of logits scale · cos(x, p_w). Since all class means scale with λ, only inner products per
    backbone are needed: cos = Σ λ² ⟨x_i, p_i⟩ / (√Σ λ²‖x_i‖² √Σ λ²‖p_i‖²).
    With one backbone it is cosine ProtoNet. One shot teaches it nothing (a row is its own mean): weights stay equal.
    """

    name = "sur"
    setting = "inductive"
    family = "several backbones"
    paper = "Dvornik et al. 2020"

    def __init__(self, *, steps: int = 40, lr: float = 0.1, scale: float = 10.0) -> None:
        check_count(self.name, "steps", steps)
        check_number(self.name, "lr", lr, above=0)
        check_number(self.name, "scale", scale, above=0)
        self.steps = steps
        self.lr = lr
        self.scale = scale

    def scores(self, batch: TaskBatch) -> Tensor:
        """[B, Q, W]; see the class."""
        support, query, lengths = [], [], []
        for view in batch.split():
            rows = normalize(view.support, dim=2)
            means = view.class_means(rows)
            support.append(rows.bmm(means.transpose(1, 2)))
            query.append(normalize(view.query, dim=2).bmm(means.transpose(1, 2)))
            lengths.append(means.square().sum(2))
        inner, length = torch.stack(support, 3), torch.stack(lengths, 2).unsqueeze(1)  # [B,S,W,K], [B,1,W,K]
        weight = row_weights(batch.support_label >= 0).squeeze(2)
        choice = torch.zeros(len(batch), len(support), device=batch.support.device, requires_grad=True)
        optimiser = torch.optim.Adam([choice], lr=self.lr)
        if len(support) > 1:
            with torch.enable_grad():
                for _ in range(self.steps):
                    chance = softmax_present(self._logits(inner, length, choice), batch)
                    picked = (chance * batch.one_hot).sum(2).clamp(min=1e-12)
                    loss = -(picked.log() * weight).sum()
                    choice.grad = torch.autograd.grad(loss, choice)[0]
                    optimiser.step()
        logits = self._logits(torch.stack(query, 3), length, choice.detach())
        return mask_absent(logits, batch)

    def _logits(self, inner: Tensor, length: Tensor, choice: Tensor) -> Tensor:
        """[B, N, W] scale · cos; inner: [B, N, W, K], length: [B, 1, W, K], choice: [B, K]."""
        share = choice.sigmoid().square()[:, None, None, :]
        norm = (length * share).sum(3).clamp(min=1e-12).sqrt() * share.sum(3).sqrt()
        return self.scale * (inner * share).sum(3) / norm
