"""Batched pieces that several methods share: distances, masked softmax, gradients in closed form, Adam.

Scores are kept class-major, [B, W, N], while a method works: products then run as [W, d] × [d, N] and the softmax over
classes runs along N in memory, together several times faster on CPUs than [B, N, W]. ``class_scores`` turns the
result.

A task of five classes multiplies a matrix of five rows. For such a shape PyTorch's batched product packs both sides
first and reaches a third of what the processor can do; NumPy's BLAS has kernels without packing for small products
(with AVX-512: 80 to 100 GFLOP/s where ``torch.bmm`` reached 25 to 45, ``python -m benchmarks.methods parts``). Tensors
on a CPU share their memory with NumPy, so nothing is copied. Large products, products on other devices and products
with gradients are PyTorch's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from longshot.base import TaskBatch
from longshot.models.methods.base import LOWEST, mask_absent

# Multiply-adds of one matrix product up to which NumPy computes it (its BLAS has kernels for 100 × 100 × 100), and of
# the strips it is cut into: OpenBLAS takes more threads above 2¹⁸ where it has no such kernel, and the workers of a
# run have one thread each.
_SMALL = 1_000_000
_STRIP = 1 << 18
_FEW_ROWS = 128  # up to which a Gram matrix is made of strips that NumPy computes


def product(first: Tensor, second: Tensor) -> Tensor:
    """Multiply ``first`` [B, m, k] by ``second`` [B, k, n], task by task; [B, m, n].

    How a product is computed depends on its shape and device alone.
    """
    rows, inner = first.shape[1:]
    columns = second.shape[2]
    if not _by_numpy(first, second, rows * inner * columns):
        return torch.bmm(first, second)
    out = first.new_empty(len(first), rows, columns)
    step = max(1, _STRIP // max(1, rows * inner))
    for start in range(0, columns, step):
        stop = start + step
        _multiply(first, second[:, :, start:stop], out[:, :, start:stop])
    return out


def gram(rows: Tensor) -> Tensor:
    """Compute ⟨x, x'⟩ of all rows [B, N, d], one half in strips, the other copied; [B, N, N]."""
    count = rows.shape[1]
    out = rows.new_empty(len(rows), count, count)
    step = 8 if count <= _FEW_ROWS else -(-count // 8)
    for start in range(0, count, step):
        stop = start + step
        out[:, start:stop, start:] = product(rows[:, start:stop], rows[:, start:].transpose(1, 2))
        out[:, stop:, start:stop] = out[:, start:stop, stop:].transpose(1, 2)
    return out


def _by_numpy(first: Tensor, second: Tensor, size: int) -> bool:
    return (
        0 < size <= _SMALL
        and first.device.type == "cpu"
        and first.dtype == second.dtype == torch.float32
        and not (torch.is_grad_enabled() and (first.requires_grad or second.requires_grad))
        and _plain(first)
        and _plain(second)
    )


def _plain(matrices: Tensor) -> bool:
    """Tell whether BLAS can read each matrix where it lies: rows or columns behind one another."""
    _, rows, columns = matrices.shape
    _, down, across = matrices.stride()
    return (across == 1 and down >= columns) or (down == 1 and across >= rows)


def _multiply(first: Tensor, second: Tensor, out: Tensor) -> None:
    np.matmul(first.detach().numpy(), second.detach().numpy(), out=out.numpy())


EPSILON = 1e-12
_PER_TASK = ("support", "support_label", "query", "query_mask", "ways", "seeds")  # tensors of a batch
_LEAST = math.log(EPSILON)
_ADAM: dict[str, Any] = {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": 0.0}
_ADAM |= {"amsgrad": False, "maximize": False}


def pieces(batch: TaskBatch, size: int) -> Iterator[TaskBatch]:
    """Split the batch into smaller ones of at most ``size`` tasks, over the same memory."""
    for start in range(0, len(batch), size):
        chosen = slice(start, start + size)
        parts = {name: getattr(batch, name)[chosen] for name in _PER_TASK}
        yield replace(batch, **parts, index=None if batch.index is None else batch.index[chosen])


def class_scores(scores: Tensor, batch: TaskBatch) -> Tensor:
    """Transpose class-major scores [B, W, Q] to [B, Q, W], classes without support at −∞."""
    return mask_absent(scores.transpose(1, 2), batch)


def lengths(rows: Tensor) -> Tensor:
    """Compute ‖x_n‖, at least EPSILON, of rows [B, N, d]; [B, N]."""
    length: Tensor = torch.linalg.vector_norm(rows, dim=2)
    return length.clamp_(min=EPSILON)


def cosines(means: Tensor, rows: Tensor) -> Tensor:
    """Compute cos(x_n, p_w) = ⟨x_n, p_w⟩ / (‖x_n‖ ‖p_w‖), 0 for zero vectors; [B, W, N].

    The products are divided by the lengths, so that no normalised copy of the rows is made.
    """
    products = product(means, rows.transpose(1, 2))
    return products.div_(lengths(means).unsqueeze(2)).div_(lengths(rows).unsqueeze(1))


def squared_distances(means: Tensor, rows: Tensor) -> Tensor:
    """Compute ‖x_n − p_w‖² of means [B, W, d] and rows [B, N, d], clamped at 0 against rounding; [B, W, N]."""
    squared = product(means, rows.transpose(1, 2)).mul_(-2)
    squared.add_(lengths(means).square_().unsqueeze(2)).add_(lengths(rows).square_().unsqueeze(1))
    return squared.clamp_(min=0)


def present_only(logits: Tensor, batch: TaskBatch) -> Tensor:
    """Set absent and padding classes of class-major logits [B, W, N] to −∞; the argument stays as it is."""
    return logits if batch.shot is not None else logits.masked_fill(~batch.present.unsqueeze(2), LOWEST)


def one_hot(batch: TaskBatch) -> Tensor:
    """Mark with 1 where support row s has label w, class-major; [B, W, S]."""
    return batch.one_hot.transpose(1, 2).contiguous()


def class_sums(batch: TaskBatch, weights: Tensor, rows: Tensor) -> Tensor:
    """Sum weights_s x_s over the support rows s of each class; weights [B, S], rows [B, S, d] → [B, W, d]."""
    if batch.shot is None:
        return product(one_hot(batch).mul_(weights.unsqueeze(1)), rows)
    # Equal shots: a small product for each class; one with a one-hot matrix would be W times the work.
    groups = len(batch) * batch.way
    sums = product(weights.reshape(groups, 1, batch.shot), rows.reshape(groups, batch.shot, -1))
    return sums.view(len(batch), batch.way, -1)


def class_means(batch: TaskBatch, rows: Tensor | None = None) -> Tensor:
    """Average rows by class as ``TaskBatch.class_means``, by a product, which reads memory faster; [B, W, d]."""
    values = batch.support if rows is None else rows
    if batch.shot is None or batch.shot == 1:
        return batch.class_means(values)
    return class_sums(batch, values.new_full(values.shape[:2], 1 / batch.shot), values)


def own_products(batch: TaskBatch, means: Tensor, rows: Tensor) -> Tensor:
    """Multiply every support row with its own class's vector; means [B, W, d], rows [B, S, d] → [B, S]."""
    if batch.shot is None:
        own = batch.support_label.clamp(min=0).unsqueeze(1)
        return product(means, rows.transpose(1, 2)).gather(1, own).squeeze(1)
    groups = len(batch) * batch.way
    grouped = rows.reshape(groups, batch.shot, -1)
    return product(grouped, means.reshape(groups, -1, 1)).view(len(batch), -1)


def row_weights(mask: Tensor) -> Tensor:
    """Weigh the true rows of ``mask`` [B, N] by 1/n and padding by 0: a mean as a weighted sum; [B, 1, N]."""
    true = mask.to(torch.float32)
    return (true / true.sum(1, keepdim=True).clamp(min=1)).unsqueeze(1)


def cross_entropy_gradient(probability: Tensor, target: Tensor, weight: Tensor) -> Tensor:
    """Compute ∂/∂logits of Σ_n weight_n · CE(softmax(logits_n), target_n): weight · (p − t); [B, W, N]."""
    return (probability - target).mul_(weight)


def guessing_pull(
    probability: Tensor, logs: Tensor, weight: Tensor, *, conditional: float, marginal: float
) -> Tensor:
    """Compute the pull of the entropies of guessed rows: weight · p · pull is ∂/∂logits of the loss below; [B, W, N].

    The loss is conditional · Σ_n weight_n H(p_n) − marginal · H(m) with m = Σ_n weight_n p_n, and
    pull = z − Σ_w p z with z = marginal · log m − conditional · log p.

    Parameters
    ----------
    probability, logs : Tensor [B, W, N]
        p, and its logarithm as from ``log_chances``.
    weight : Tensor [B, 1, N]
        Of a mean over the rows.
    conditional, marginal : float
        How much each entropy counts.
    """
    pull = logs * -conditional
    if marginal:
        share = (probability * weight).sum(2, keepdim=True).clamp_(min=EPSILON).log_()  # [B, W, 1]
        pull.add_(share, alpha=marginal)
    return pull.sub_((probability * pull).sum(1, keepdim=True))


def log_chances(logits: Tensor) -> Tensor:
    """Compute log softmax over classes, at least log 1e-12, so that 0 times a class at −∞ is 0; [B, W, N]."""
    return logits.log_softmax(1).clamp_(min=_LEAST)


def adam(start: Tensor, gradient: Callable[[Tensor], Tensor], *, steps: int, lr: float) -> Tensor:
    """Make ``steps`` of Adam (β 0.9 and 0.999, ε 1e-8) from ``start``; every element moves on its own.

    ``gradient(x)`` is written out by the method: no graph is recorded and the whole batch of tasks moves in
    one call. Rows whose gradient is 0 (absent classes) stay where they are.
    """
    value = start.clone(memory_format=torch.contiguous_format)
    mean, square = torch.zeros_like(value), torch.zeros_like(value)
    count = torch.zeros((), device=value.device)
    for _ in range(steps):
        slope = gradient(value)
        count.add_(1)
        # One pass over memory instead of eight, without what torch.optim does around it in every step.
        torch._fused_adam_([value], [slope], [mean], [square], [], [count], lr=lr, **_ADAM)
    return value


class CosineLogits:
    """Logits t · ⟨x, p⟩ / (‖x‖ ‖p‖) of fixed rows x [B, N, d] against moving class vectors p [B, W, d].

    The rows are overwritten by t · x / ‖x‖, once instead of a factor in every step.
    """

    def __init__(self, rows: Tensor, scale: float) -> None:
        self.rows = rows.mul_((scale / lengths(rows)).unsqueeze(2))
        self.turned = rows.transpose(1, 2)
        self._inverse = self._logits = rows.new_empty(0)

    def __call__(self, means: Tensor) -> Tensor:
        """Compute the logits [B, W, N] and keep them for ``backward``."""
        self._inverse = lengths(means).reciprocal_().unsqueeze(2)
        self._logits = product(means, self.turned).mul_(self._inverse)
        return self._logits

    def backward(self, slope: Tensor, means: Tensor) -> Tensor:
        """Compute ∂/∂p [B, W, d] from ∂/∂logits [B, W, N] at the last call's p.

        Σ_n slope_n (t x_n / (‖x_n‖ ‖p‖) − logit_n p / ‖p‖²); ``slope`` is overwritten.
        """
        slope.mul_(self._inverse)
        along = (slope * self._logits).sum(2, keepdim=True).mul_(self._inverse)
        return product(slope, self.rows).addcmul_(along, means, value=-1)


class DistanceLogits:
    """Logits −t · ‖x − p‖ (not squared) of fixed rows x [B, N, d] against moving class vectors p [B, W, d]."""

    def __init__(self, rows: Tensor, scale: float) -> None:
        self.rows, self.scale = rows, scale
        self.turned = rows.transpose(1, 2)
        self.squares = lengths(rows).square_().unsqueeze(1)  # [B, 1, N]
        self._distance = rows.new_empty(0)

    def __call__(self, means: Tensor) -> Tensor:
        """Compute the logits [B, W, N] and keep the distances for ``backward``."""
        length = torch.linalg.vector_norm(means, dim=2, keepdim=True)
        squared = product(means, self.turned).mul_(-2).add_(self.squares).addcmul_(length, length)
        self._distance = squared.clamp_(min=EPSILON).sqrt_()
        return self._distance * -self.scale

    def backward(self, slope: Tensor, means: Tensor) -> Tensor:
        """Compute ∂/∂p = Σ_n a_n x_n − (Σ_n a_n) p, a = t · slope / distance; [B, W, d]. ``slope`` is overwritten."""
        pull = slope.div_(self._distance)
        if self.scale != 1:
            pull.mul_(self.scale)
        return product(pull, self.rows).addcmul_(pull.sum(2, keepdim=True), means, value=-1)
