"""The last layer trained on minibatches of the support, on features that are computed already."""

from __future__ import annotations

import torch
from torch import Tensor

from longshot.core.batches import TaskBatch, TaskShape
from longshot.core.checks import check_count, check_number
from longshot.methods.adapt import content_key
from longshot.methods.base import Method
from longshot.methods.numerics import adam, class_scores, cross_entropy_gradient, one_hot, present_only
from longshot.methods.products import product


class FinetuneLast(Method):
    """A new linear layer ⟨x, w_c⟩ + b_c, from zero, by Adam on the cross-entropy of ``batch`` support rows a step.

    The rows of a step are drawn with repeats, every class as often as the others; which ones depends on the task's seed
    and on the rows themselves, not on their order.
    """

    name = "finetune-last"
    setting = "inductive"
    family = "transfer"
    paper = "Carrión-Ojeda et al. 2022"
    tolerance = 1e-2  # a row whose gradient vanishes still moves Adam by lr, in the direction of its rounding

    def __init__(self, *, steps: int = 100, lr: float = 1e-3, batch: int = 4) -> None:
        check_count(self.name, "steps", steps)
        check_number(self.name, "lr", lr, above=0)
        check_count(self.name, "batch", batch, least=1)
        self.steps, self.lr, self.batch = steps, lr, batch

    def scores(self, batch: TaskBatch) -> Tensor:
        """[B, Q, W]; see the class."""
        rows, target = _with_one(batch.support), one_hot(batch)
        step = iter(self._drawn(batch).unbind(1))  # [B, k] each

        def gradient(head: Tensor) -> Tensor:
            chosen = next(step)
            some = rows.gather(1, chosen.unsqueeze(2).expand(-1, -1, rows.shape[2]))  # [B, k, d+1]
            truth = target.gather(2, chosen.unsqueeze(1).expand(-1, target.shape[1], -1))  # [B, W, k]
            chance = present_only(product(head, some.transpose(1, 2)), batch).softmax(1)
            weight = chance.new_full((1, 1, 1), 1 / self.batch)
            return product(cross_entropy_gradient(chance, truth, weight), some)

        start = rows.new_zeros(len(batch), batch.way, rows.shape[2])
        head = adam(start, gradient, steps=self.steps, lr=self.lr)
        return class_scores(product(head, _with_one(batch.query).transpose(1, 2)), batch)

    def _drawn(self, batch: TaskBatch) -> Tensor:
        """[B, steps, k] support rows: a class at random, then one of its rows (inverse of the distribution)."""
        filled = batch.support_label >= 0
        order = content_key(batch.support).masked_fill(~filled, float("inf")).argsort(1)  # padding last
        shots = batch.counts.gather(1, batch.support_label.clamp(min=0))
        chance = (filled / shots.clamp(min=1)).gather(1, order).cumsum(1)  # [B, S]
        uniform = torch.special.ndtr(batch.normal(self.steps * self.batch))
        positions = torch.searchsorted(chance, uniform * chance[:, -1:])
        last = filled.sum(1, keepdim=True) - 1
        return order.gather(1, torch.minimum(positions, last)).view(len(batch), self.steps, self.batch)

    def floats_per_task(self, shape: TaskShape) -> int:
        """Rows with a constant, the head with gradient and moments, what a step draws."""
        way, support, query, dim = shape
        return (support + query + 5 * way + 2 * self.batch) * (dim + 1) + 3 * self.steps * self.batch


def _with_one(rows: Tensor) -> Tensor:
    """[B, N, d+1]: the rows with a constant 1 for the offset."""
    return torch.cat((rows, rows.new_ones(*rows.shape[:2], 1)), dim=2)
