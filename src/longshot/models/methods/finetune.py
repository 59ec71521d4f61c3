"""Classifiers trained on the support by Adam, all of it or minibatches; gradients written out, all tasks at once."""

from __future__ import annotations

import torch
from torch import Tensor

from longshot.base import TaskBatch, TaskShape, choice_field, count_field, number_field, with_settings
from longshot.models.methods.base import Method
from longshot.models.methods.finetune_network import content_key
from longshot.models.methods.numerics import (
    CosineLogits,
    DistanceLogits,
    adam,
    class_means,
    class_scores,
    cosines,
    cross_entropy_gradient,
    guessing_pull,
    log_chances,
    one_hot,
    present_only,
    product,
    row_weights,
)

# logits of TIM → what computes them, and their temperature unless another is chosen
_TIM_LOGITS: dict[str, tuple[type[CosineLogits | DistanceLogits], float]] = {
    "cosine": (CosineLogits, 10.0),
    "distance": (DistanceLogits, 1.0),
}


class _Trained(Method):
    """What the methods below share: the memory they need."""

    def floats_per_task(self, shape: TaskShape) -> int:
        """Count normalised copies of the rows, five arrays of class vectors, six of logits."""
        way, support, query, dim = shape
        return (support + query + 6 * way) * dim + 6 * (support + query) * way


@with_settings
class Finetune(_Trained):
    """Class vectors start at the class means and are trained on the support's cross-entropy.

    head 'cosine':  logits = temperature · cos(x, p_w), as the semantic task-sampling paper ran it
    head 'linear':  logits = temperature · (⟨x, a_w⟩ + b_w), started at a = 2p, b = −‖p‖²: at 0 steps it is ProtoNet
    """

    name = "finetune"
    setting = "inductive"
    family = "trained head"
    paper = "Chen et al. 2019"
    # Adam moves by lr however small the gradient: of one that vanishes, the rounding decides the direction.
    tolerance = 1e-3

    steps: int = count_field(10)
    lr: float = number_field(1e-3, above=0)
    temperature: float = number_field(1.0, above=0)
    head: str = choice_field("cosine", "cosine", "linear")

    def scores(self, batch: TaskBatch) -> Tensor:
        """Score the queries as the class says; [B, Q, W]."""
        if self.head == "linear":
            return class_scores(_linear_head(batch, self.steps, self.lr, self.temperature), batch)
        return class_scores(_cosine_head(batch, self.steps, self.lr, self.temperature), batch)


@with_settings
class CosineHead(_Trained):
    """A weight-normalised head trained on the support: logits = 10 · cos(x, p_w), p started at the class means.

    The head of MD-Transfer (VTAB+MD) on frozen features: scale 10, Adam at 1e-2 for 100 steps.
    """

    name = "cosine-head"
    setting = "inductive"
    family = "trained head"
    paper = "Dumoulin et al. 2021"

    steps: int = count_field(100)
    lr: float = number_field(1e-2, above=0)
    temperature: float = number_field(10.0, above=0)

    def scores(self, batch: TaskBatch) -> Tensor:
        """Score the queries as the class says; [B, Q, W]."""
        return class_scores(_cosine_head(batch, self.steps, self.lr, self.temperature), batch)


@with_settings
class TransductiveFinetuning(_Trained):
    """Class means trained on the support's cross-entropy plus the queries' mean entropy.

    Logits are −temperature · ‖x − p_w‖; loss = CE(support) + mean_q H(p(q)).
    """

    name = "transductive-finetuning"
    setting = "transductive"
    family = "trained head"
    paper = "Dhillon et al. 2020"
    tolerance = 1e-3  # a distance near 0 is known only to the root of the rounding error

    steps: int = count_field(25)
    lr: float = number_field(5e-5, above=0)
    temperature: float = number_field(1.0, above=0)

    def scores(self, batch: TaskBatch) -> Tensor:
        """Score the queries as the class says; [B, Q, W]."""
        return _trained_on_all(
            batch, DistanceLogits, self.temperature, steps=self.steps, lr=self.lr, conditional=1.0
        )


@with_settings
class TIM(_Trained):
    """Transductive information maximisation by gradient (TIM-GD).

    logits 'cosine':    temperature · cos(x, p_w)
    logits 'distance':  −temperature · ‖x − p_w‖, not squared

    Loss = cross_entropy · CE(support) − marginal · H(mean_q p(q)) + conditional · mean_q H(p(q)): confident on each
    query, balanced over all of them. ``temperature=None`` takes 10 for cosines and 1 for distances.
    """

    name = "tim"
    setting = "transductive"
    family = "trained head"
    paper = "Boudiaf et al. 2020"
    tolerance = 1e-3  # for both reasons above: Adam's steps, and distances near 0

    steps: int = count_field(100)
    lr: float = number_field(1e-3, above=0)
    logits: str = choice_field("cosine", *_TIM_LOGITS)
    temperature: float | None = number_field(None, above=0)
    cross_entropy: float = number_field(1.0)
    marginal: float = number_field(1.0)
    conditional: float = number_field(0.1)

    def scores(self, batch: TaskBatch) -> Tensor:
        """Score the queries as the class says; [B, Q, W]."""
        make, usual = _TIM_LOGITS[self.logits]
        return _trained_on_all(
            batch,
            make,
            usual if self.temperature is None else self.temperature,
            steps=self.steps,
            lr=self.lr,
            cross_entropy=self.cross_entropy,
            conditional=self.conditional,
            marginal=self.marginal,
        )


@with_settings
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

    steps: int = count_field(100)
    lr: float = number_field(1e-3, above=0)
    batch: int = count_field(4, least=1)

    def scores(self, batch: TaskBatch) -> Tensor:
        """Score the queries as the class says; [B, Q, W]."""
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
        """Draw support rows [B, steps, k]: a class at random, then one of its rows (inverse of the distribution)."""
        filled = batch.support_label >= 0
        order = content_key(batch.support).masked_fill(~filled, float("inf")).argsort(1)  # padding last
        shots = batch.counts.gather(1, batch.support_label.clamp(min=0))
        chance = (filled / shots.clamp(min=1)).gather(1, order).cumsum(1)  # [B, S]
        uniform = torch.special.ndtr(batch.normal(self.steps * self.batch))
        positions = torch.searchsorted(chance, uniform * chance[:, -1:])
        last = filled.sum(1, keepdim=True) - 1
        return order.gather(1, torch.minimum(positions, last)).view(len(batch), self.steps, self.batch)

    def floats_per_task(self, shape: TaskShape) -> int:
        """Count rows with a constant, the head with gradient and moments, and what a step draws."""
        way, support, query, dim = shape
        return (support + query + 5 * way + 2 * self.batch) * (dim + 1) + 3 * self.steps * self.batch


def _trained_on_all(
    batch: TaskBatch,
    make: type[CosineLogits | DistanceLogits],
    temperature: float,
    *,
    steps: int,
    lr: float,
    conditional: float,
    cross_entropy: float = 1.0,
    marginal: float = 0.0,
) -> Tensor:
    """Train class vectors on the support's labels and the queries' entropies, and score the queries; [B, Q, W]."""
    shots = batch.support.shape[1]
    logits = make(torch.cat((batch.support, batch.query), 1), temperature)
    target, told_weight, guessed_weight = _targets(batch)
    weight = torch.cat((told_weight * cross_entropy, guessed_weight), 2)

    def gradient(means: Tensor) -> Tensor:
        logs = log_chances(present_only(logits(means), batch))
        slope = logs.exp()
        guessed = slope[:, :, shots:]
        pull = guessing_pull(
            guessed, logs[:, :, shots:], guessed_weight, conditional=conditional, marginal=marginal
        )
        # In place: p − t of the support, p · pull of the queries, both times their weights.
        slope[:, :, :shots].sub_(target)
        guessed.mul_(pull)
        return logits.backward(slope.mul_(weight), means)

    means = adam(class_means(batch), gradient, steps=steps, lr=lr)
    return class_scores(logits(means)[:, :, shots:], batch)


def _targets(batch: TaskBatch) -> tuple[Tensor, Tensor, Tensor]:
    """Return one-hot labels [B, W, S] and the weights of means over support [B, 1, S] and queries [B, 1, Q]."""
    return one_hot(batch), row_weights(batch.support_label >= 0), row_weights(batch.query_mask)


def _cosine_head(batch: TaskBatch, steps: int, lr: float, temperature: float) -> Tensor:
    """Train class vectors on the support and return the queries' cosine logits [B, W, Q]."""
    logits = CosineLogits(batch.support.clone(), temperature)
    target, weight, _ = _targets(batch)

    def gradient(means: Tensor) -> Tensor:
        chance = present_only(logits(means), batch).softmax(1)
        return logits.backward(cross_entropy_gradient(chance, target, weight), means)

    means = adam(class_means(batch), gradient, steps=steps, lr=lr)
    return cosines(means, batch.query).mul_(temperature)


def _linear_head(batch: TaskBatch, steps: int, lr: float, temperature: float) -> Tensor:
    """Train weights and offsets, one array [B, W, d+1], and return the queries' linear logits [B, W, Q]."""
    rows = _with_one(batch.support)
    turned = rows.transpose(1, 2)
    target, weight, _ = _targets(batch)
    weight = weight * temperature
    means = class_means(batch)
    start = torch.cat((2 * means, -means.square().sum(2, keepdim=True)), dim=2)

    def gradient(head: Tensor) -> Tensor:
        chance = present_only(product(head, turned).mul_(temperature), batch).softmax(1)
        return product(cross_entropy_gradient(chance, target, weight), rows)

    head = adam(start, gradient, steps=steps, lr=lr)
    return product(head, _with_one(batch.query).transpose(1, 2)).mul_(temperature)


def _with_one(rows: Tensor) -> Tensor:
    """Append a constant 1 for the offset to every row; [B, N, d+1]."""
    return torch.cat((rows, rows.new_ones(*rows.shape[:2], 1)), dim=2)
