"""Classifiers trained on the support by Adam, gradients written out, all tasks of a batch at once."""

from __future__ import annotations

import torch
from torch import Tensor

from longshot.methods.base import Method, TaskBatch, TaskShape, mask_absent
from longshot.methods.numerics import (
    CosineLogits,
    DistanceLogits,
    adam,
    cross_entropy_gradient,
    entropy_gradient,
    row_weights,
    softmax_present,
)
from longshot.methods.settings import check_choice, check_count, check_number


class _Trained(Method):
    """What the methods below share: steps, learning rate, temperature, and the memory they need."""

    # A batch of a few tasks stays in the processor's cache through all steps; more tasks only evict it.
    batch_bytes = 4 << 20

    def __init__(self, *, steps: int, lr: float, temperature: float) -> None:
        check_count(self.name, "steps", steps)
        check_number(self.name, "lr", lr, above=0)
        check_number(self.name, "temperature", temperature, above=0)
        self.steps = steps
        self.lr = lr
        self.temperature = temperature

    def floats_per_task(self, shape: TaskShape) -> int:
        """Normalised copies of the rows, five arrays of class vectors, six of logits."""
        way, support, query, dim = shape
        return (support + query + 6 * way) * dim + 6 * (support + query) * way


class Finetune(_Trained):
    """Class vectors start at the class means and are trained on the support's cross-entropy.

    head 'cosine':  logits = temperature · cos(x, p_w), as the semantic task-sampling paper ran it
    head 'linear':  logits = temperature · (⟨x, a_w⟩ + b_w), started at a = 2p, b = −‖p‖²: at 0 steps it is ProtoNet
    """

    name = "finetune"
    setting = "inductive"
    family = "trained head"
    paper = "Chen et al. 2019"

    def __init__(
        self, *, steps: int = 10, lr: float = 1e-3, temperature: float = 1.0, head: str = "cosine"
    ) -> None:
        super().__init__(steps=steps, lr=lr, temperature=temperature)
        check_choice(self.name, "head", head, ("cosine", "linear"))
        self.head = head

    def scores(self, batch: TaskBatch) -> Tensor:
        """[B, Q, W]; see the class."""
        if self.head == "linear":
            return mask_absent(_linear_head(batch, self.steps, self.lr, self.temperature), batch)
        return mask_absent(_cosine_head(batch, self.steps, self.lr, self.temperature), batch)


class CosineHead(_Trained):
    """A weight-normalised head trained on the support: logits = 10 · cos(x, p_w), p started at the class means.

    The head of MD-Transfer (VTAB+MD) on frozen features: scale 10, Adam at 1e-2 for 100 steps.
    """

    name = "cosine-head"
    setting = "inductive"
    family = "trained head"
    paper = "Dumoulin et al. 2021"

    def __init__(self, *, steps: int = 100, lr: float = 1e-2, temperature: float = 10.0) -> None:
        super().__init__(steps=steps, lr=lr, temperature=temperature)

    def scores(self, batch: TaskBatch) -> Tensor:
        """[B, Q, W]; see the class."""
        return mask_absent(_cosine_head(batch, self.steps, self.lr, self.temperature), batch)


class TransductiveFinetuning(_Trained):
    """Class means trained on the support's cross-entropy plus the queries' mean entropy.

    Logits are −temperature · ‖x − p_w‖; loss = CE(support) + mean_q H(p(q)).
    """

    name = "transductive-finetuning"
    setting = "transductive"
    family = "trained head"
    paper = "Dhillon et al. 2020"

    def __init__(self, *, steps: int = 25, lr: float = 5e-5, temperature: float = 1.0) -> None:
        super().__init__(steps=steps, lr=lr, temperature=temperature)

    def scores(self, batch: TaskBatch) -> Tensor:
        """[B, Q, W]; see the class."""
        support = DistanceLogits(batch.support, self.temperature)
        query = DistanceLogits(batch.query, self.temperature)
        support_weight = row_weights(batch.support_label >= 0)
        query_weight = row_weights(batch.query_mask)

        def gradient(means: Tensor) -> Tensor:
            told = softmax_present(support(means), batch)
            guessed = softmax_present(query(means), batch)
            slope = support.backward(cross_entropy_gradient(told, batch.one_hot, support_weight), means)
            return slope.add_(query.backward(entropy_gradient(guessed, query_weight), means))

        means = adam(batch.class_means(), gradient, steps=self.steps, lr=self.lr)
        return mask_absent(query(means), batch)


class TIM(_Trained):
    """Transductive information maximisation by gradient (TIM-GD).

    Logits are temperature · cos(x, p_w). Loss = cross_entropy · CE(support) − marginal · H(mean_q p(q))
    + conditional · mean_q H(p(q)): confident on each query, balanced over all of them.
    """

    name = "tim"
    setting = "transductive"
    family = "trained head"
    paper = "Boudiaf et al. 2020"

    def __init__(
        self,
        *,
        steps: int = 100,
        lr: float = 1e-3,
        temperature: float = 10.0,
        cross_entropy: float = 1.0,
        marginal: float = 1.0,
        conditional: float = 0.1,
    ) -> None:
        super().__init__(steps=steps, lr=lr, temperature=temperature)
        check_number(self.name, "cross_entropy", cross_entropy)
        check_number(self.name, "marginal", marginal)
        check_number(self.name, "conditional", conditional)
        self.cross_entropy = cross_entropy
        self.marginal = marginal
        self.conditional = conditional

    def scores(self, batch: TaskBatch) -> Tensor:
        """[B, Q, W]; see the class."""
        support = CosineLogits(batch.support, self.temperature)
        query = CosineLogits(batch.query, self.temperature)
        support_weight = row_weights(batch.support_label >= 0) * self.cross_entropy
        query_weight = row_weights(batch.query_mask)

        def gradient(means: Tensor) -> Tensor:
            told = softmax_present(support(means), batch)
            guessed = softmax_present(query(means), batch)
            # ∂/∂z of −H(m) with m = Σ_q weight_q p(q): weight · p · (log m − Σ_w p log m)
            share = (guessed * query_weight).sum(1, keepdim=True).clamp(min=1e-12).log()
            balance = guessed * (share - (guessed * share).sum(2, keepdim=True)) * query_weight
            slope = balance.mul_(self.marginal)
            slope.add_(entropy_gradient(guessed, query_weight), alpha=self.conditional)
            pull = support.backward(cross_entropy_gradient(told, batch.one_hot, support_weight), means)
            return pull.add_(query.backward(slope, means))

        means = adam(batch.class_means(), gradient, steps=self.steps, lr=self.lr)
        return mask_absent(query(means), batch)


def _cosine_head(batch: TaskBatch, steps: int, lr: float, temperature: float) -> Tensor:
    """[B, Q, W] cosine logits after training class vectors on the support."""
    support = CosineLogits(batch.support, temperature)
    weight = row_weights(batch.support_label >= 0)

    def gradient(means: Tensor) -> Tensor:
        told = softmax_present(support(means), batch)
        return support.backward(cross_entropy_gradient(told, batch.one_hot, weight), means)

    means = adam(batch.class_means(), gradient, steps=steps, lr=lr)
    return CosineLogits(batch.query, temperature)(means)


def _linear_head(batch: TaskBatch, steps: int, lr: float, temperature: float) -> Tensor:
    """[B, Q, W] linear logits after training weights and offsets, kept as one [B, W, d+1] array."""
    support = _with_one(batch.support) * temperature
    weight = row_weights(batch.support_label >= 0)
    means = batch.class_means()
    start = torch.cat((2 * means, -means.square().sum(2, keepdim=True)), dim=2)

    def gradient(head: Tensor) -> Tensor:
        told = softmax_present(support.bmm(head.transpose(1, 2)), batch)
        return cross_entropy_gradient(told, batch.one_hot, weight).transpose(1, 2).bmm(support)

    head = adam(start, gradient, steps=steps, lr=lr)
    return (_with_one(batch.query) * temperature).bmm(head.transpose(1, 2))


def _with_one(rows: Tensor) -> Tensor:
    """[B, N, d+1]: the rows with a constant 1 for the offset."""
    return torch.cat((rows, rows.new_ones(*rows.shape[:2], 1)), dim=2)
