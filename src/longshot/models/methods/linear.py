"""Linear classifiers solved to the optimum on the support: ridge regression (R2D2) and logistic regression."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor
from torch.nn import functional

from longshot.base import TaskBatch, TaskShape, count_field, number_field, with_settings
from longshot.models.methods.base import Method, mask_absent
from longshot.models.methods.numerics import class_scores, gram, one_hot, present_only, product


@with_settings
class Ridge(Method):
    """Least squares onto one-hot labels with an ℓ₂ penalty, in closed form (the base learner of R2D2).

    A = argmin ‖X A − Y‖² + penalty · ‖A‖²; score(q) = scale · q A. With S support rows and d features it solves the
    smaller system: Xᵀ (X Xᵀ + λI)⁻¹ Y when S ≤ d, (XᵀX + λI)⁻¹ XᵀY otherwise. ``intercept`` centres X and Y.
    """

    name = "ridge"
    setting = "inductive"
    family = "linear"
    paper = "Bertinetto et al. 2019"

    penalty: float = number_field(1.0, above=0)
    scale: float = number_field(10.0, above=0)
    normalize: bool = True
    intercept: bool = False

    def floats_per_task(self, shape: TaskShape) -> int:
        """Count the usual numbers, and the system with its factor."""
        return super().floats_per_task(shape) + 2 * min(shape.support, shape.dim) ** 2

    def scores(self, batch: TaskBatch) -> Tensor:
        """Score the queries as the class says; [B, Q, W]."""
        support, query, labels = batch.support, batch.query, batch.one_hot
        if self.normalize:
            support, query = functional.normalize(support, dim=2), functional.normalize(query, dim=2)
        offset = torch.zeros_like(labels[:, :1])
        if self.intercept:
            true = (batch.support_label >= 0).unsqueeze(2)
            count = true.sum(1, keepdim=True).clamp(min=1)
            center = support.sum(1, keepdim=True) / count
            offset = labels.sum(1, keepdim=True) / count
            support, query, labels = (support - center) * true, query - center, (labels - offset) * true
        rows, dim = support.shape[1:]
        turned = support.transpose(1, 2)
        if rows <= dim:
            weights = _solve(gram(support), labels, self.penalty)  # [B, S, W]
            answers = product(product(query, turned), weights)
        else:
            answers = product(query, _solve(product(turned, support), product(turned, labels), self.penalty))
        return mask_absent(answers.add_(offset).mul_(self.scale), batch)


def _solve(matrix: Tensor, right: Tensor, penalty: float) -> Tensor:
    """Solve (matrix + penalty · I) x = right by Cholesky, batched; matrix [B, n, n], symmetric.

    A penalty below the rounding error of a task's matrix can leave it indefinite; such a task gets n · ε · its largest
    entry on top, which is that error.
    """
    diagonal = matrix.diagonal(dim1=1, dim2=2)
    diagonal.add_(penalty)
    factor, failed = torch.linalg.cholesky_ex(matrix)
    if bool(failed.any()):
        rounding = torch.finfo(matrix.dtype).eps * matrix.shape[1] * diagonal.amax(1, keepdim=True)
        diagonal.add_(rounding.mul_((failed > 0).unsqueeze(1)))
        factor = torch.linalg.cholesky(matrix)
    return torch.cholesky_solve(right, factor)


@with_settings
class LogisticRegression(Method):
    """Multinomial logistic regression at its optimum: min ½‖A‖² + C · Σ_s CE(x_s A + b, y_s).

    The same problem as scikit-learn's LogisticRegression. The solution lies in the span of the support, so the
    problem is turned into the eigenbasis of X Xᵀ (at most S numbers per row instead of d) and solved there by
    L-BFGS for all tasks at once, with the curvature bound ½ C · eigenvalue + 1 as its starting metric.
    """

    name = "logistic"
    setting = "inductive"
    family = "linear"
    paper = ""
    tolerance = 1e-2  # the optimum is found up to the gradient tolerance, which the order of sums moves

    C: float = number_field(10.0, above=0)
    normalize: bool = True
    steps: int = count_field(200, least=1)

    def floats_per_task(self, shape: TaskShape) -> int:
        """Count the usual numbers, the eigenbasis, and ten pairs of L-BFGS history."""
        rank = shape.support + 1
        return super().floats_per_task(shape) + 3 * rank**2 + (2 * _HISTORY + 6) * shape.way * rank

    def scores(self, batch: TaskBatch) -> Tensor:
        """Score the queries as the class says; [B, Q, W]."""
        support, query = batch.support, batch.query
        if self.normalize:
            support, query = functional.normalize(support, dim=2), functional.normalize(query, dim=2)
        values, vectors = torch.linalg.eigh(gram(support))  # [B, S], [B, S, S]
        real = values > 1e-6 * values.amax(1, keepdim=True).clamp(min=1e-30)
        root = values.clamp(min=0).sqrt() * real
        turn = vectors * torch.where(real, 1 / root.clamp(min=1e-30), 0.0).unsqueeze(1)
        true = (batch.support_label >= 0).to(support.dtype)  # [B, S]
        rows = torch.cat(((vectors * root.unsqueeze(1)), true.unsqueeze(2)), dim=2)  # [B, S, S+1]
        queries = product(product(query, support.transpose(1, 2)), turn)
        queries = torch.cat((queries, torch.ones_like(queries[..., :1])), dim=2)

        penalty = torch.ones(rows.shape[2], device=rows.device)
        penalty[-1] = 0  # the intercept is free
        target = one_hot(batch)  # [B, W, S]
        turned = rows.transpose(1, 2)

        def objective(head: Tensor) -> tuple[Tensor, Tensor]:
            """Return value [B] and slope [B, W, S+1] at the head."""
            logs = present_only(product(head, turned), batch).log_softmax(1)
            loss = -(logs.clamp(min=-1e30) * target).sum((1, 2))
            slope = product(logs.exp_().mul_(true.unsqueeze(1)).sub_(target), rows)
            value = 0.5 * (head.square() * penalty).sum((1, 2)) + self.C * loss
            return value, slope.mul_(self.C).addcmul_(head, penalty)

        bound = 0.5 * self.C * turned.square().sum(2) + penalty  # [B, S+1]
        start = torch.zeros(len(batch), batch.way, rows.shape[2], device=rows.device)
        head = lbfgs(objective, start, 1 / bound.unsqueeze(1).clamp(min=1e-6), self.steps)
        return class_scores(product(head, queries.transpose(1, 2)), batch)


_HISTORY = 10


LossAndGradient: TypeAlias = Callable[[Tensor], tuple[Tensor, Tensor]]


def lbfgs(
    objective: LossAndGradient, start: Tensor, metric: Tensor, steps: int, tolerance: float = 1e-5
) -> Tensor:
    """Find the minima of many smooth convex functions at once by L-BFGS with backtracking.

    objective: x [B, …] → (value [B], slope [B, …]); metric: inverse curvature guess, broadcastable to x.
    A task is done when its largest slope (in the metric's units) falls below ``tolerance``; it then stays put.
    """
    flat = tuple(range(1, start.dim()))

    def dot(a: Tensor, b: Tensor) -> Tensor:
        return (a * b).sum(flat, keepdim=True)

    x = start
    value, slope = objective(x)
    history: list[tuple[Tensor, Tensor, Tensor]] = []
    done = torch.zeros_like(value, dtype=torch.bool)
    for _ in range(steps):
        done = done | ((slope * metric.sqrt()).abs().amax(flat) < tolerance)
        if bool(done.all()):
            break
        direction = -_two_loops(slope, history, metric, dot)
        downhill = dot(direction, slope)
        direction = torch.where(downhill < 0, direction, -slope * metric)
        downhill = torch.minimum(downhill, dot(direction, slope))
        shape = [-1] + [1] * len(flat)
        size = torch.where(done, 0.0, 1.0).view(shape)
        for _ in range(30):
            moved = x + size * direction
            fresh, fresh_slope = objective(moved)
            enough = (
                fresh.view(shape)
                <= value.view(shape) + 1e-4 * size * downhill + 1e-7 * value.view(shape).abs()
            )
            if bool(enough.all()):
                break
            size = torch.where(enough, size, size * 0.5)
        step, change = moved - x, fresh_slope - slope
        curved = dot(step, change)
        rho = torch.where(curved > 1e-12, 1 / curved.clamp(min=1e-12), 0.0)
        history = [*history[-_HISTORY + 1 :], (step, change, rho)]
        x, value, slope = moved, fresh, fresh_slope
    return x


def _two_loops(
    slope: Tensor,
    history: list[tuple[Tensor, Tensor, Tensor]],
    metric: Tensor,
    dot: Callable[[Tensor, Tensor], Tensor],
) -> Tensor:
    """Compute the L-BFGS product H · slope; pairs with rho 0 (no curvature in that task) change nothing."""
    q = slope.clone()
    alphas = []
    for step, change, rho in reversed(history):
        alpha = rho * dot(step, q)
        q = q - alpha * change
        alphas.append(alpha)
    q = q * metric
    for (step, change, rho), alpha in zip(history, reversed(alphas), strict=True):
        q = q + step * (alpha - rho * dot(change, q))
    return q
