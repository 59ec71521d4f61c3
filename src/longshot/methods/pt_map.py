"""PT-MAP: power transform, then class means moved by optimal transport of the queries."""

from __future__ import annotations

import torch
from torch import Tensor

from longshot.methods.base import Method, TaskBatch, TaskShape
from longshot.methods.numerics import class_scores, lengths, with_rows
from longshot.methods.settings import check_count, check_number

_CHECK_EVERY = 5  # Sinkhorn rounds between looks at the convergence of each task


class PTMAP(Method):
    """Assign queries to class means by entropic optimal transport, move the means, repeat.

    Features: x ← (relu(x) + 1e-6)^power, ℓ₂-normalised unless ``normalize=False``.
    Plan: Sinkhorn on exp(−strength · ‖q − p_w‖²) with row sums 1 and equal column sums: every class gets the same
    share of the queries, which is what the method assumes.
    Means: p ← p + lr · (mean of support and queries weighted by the plan − p), ``steps`` times.
    """

    name = "pt-map"
    setting = "transductive"
    family = "optimal transport"
    paper = "Hu et al. 2021"

    def __init__(
        self,
        *,
        steps: int = 10,
        lr: float = 0.2,
        strength: float = 10.0,
        power: float = 0.5,
        normalize: bool = True,
        rounds: int = 1000,
    ) -> None:
        check_count(self.name, "steps", steps)
        check_number(self.name, "lr", lr, above=0)
        check_number(self.name, "strength", strength, above=0)
        check_number(self.name, "power", power, above=0)
        check_count(self.name, "rounds", rounds, least=1)
        self.steps = steps
        self.lr = lr
        self.strength = strength
        self.power = power
        self.normalize = normalize
        self.rounds = rounds

    def floats_per_task(self, shape: TaskShape) -> int:
        """As usual, three more arrays of class vectors, and the kernel with its scaled copies."""
        return super().floats_per_task(shape) + 3 * shape.way * shape.dim + 6 * shape.query * shape.way

    def scores(self, batch: TaskBatch) -> Tensor:
        """[B, Q, W] logarithm of the transport plan; see the class."""
        batch = with_rows(batch, self._transform(batch.support), self._transform(batch.query))
        means = batch.class_means()
        support_sums = means * batch.counts.unsqueeze(2)
        means = means.clone()
        scaling: Tensor | None = None
        for _ in range(self.steps):
            plan, scaling = self._plan(batch, means, scaling)
            total = plan.sum(2).add_(batch.counts).clamp_(min=1e-12).unsqueeze(2)
            target = plan.bmm(batch.query).add_(support_sums).div_(total)
            means.lerp_(target, self.lr)
        plan, _ = self._plan(batch, means, scaling)
        return class_scores(plan.clamp_(min=1e-38).log_(), batch)

    def _transform(self, rows: Tensor) -> Tensor:
        powered = rows.clamp(min=0).add_(1e-6)
        powered = powered.sqrt_() if self.power == 0.5 else powered.pow_(self.power)
        return powered.div_(lengths(powered).unsqueeze(2)) if self.normalize else powered

    def _plan(self, batch: TaskBatch, means: Tensor, scaling: Tensor | None) -> tuple[Tensor, Tensor]:
        # ‖q − p‖² without ‖q‖², which only scales a query's share and which the iteration undoes.
        squares = means.square().sum(2, keepdim=True)
        queries = batch.query.transpose(1, 2)
        cost = torch.baddbmm(squares, means, queries, beta=self.strength, alpha=-2 * self.strength)
        if batch.shot is None:
            cost.masked_fill_(~batch.present.unsqueeze(2), torch.inf)
        return sinkhorn(cost, batch.query_mask, self.rounds, scaling)


def sinkhorn(
    cost: Tensor, mask: Tensor, rounds: int, scaling: Tensor | None = None, tolerance: float = 1e-6
) -> tuple[Tensor, Tensor]:
    """Transport plans [B, W, Q] for exp(−cost): queries of ``mask`` [B, Q] get 1 each, classes share them equally.

    cost: [B, W, Q], +∞ where a class cannot be chosen. Each task stops on its own when no query's sum moves by
    more than ``tolerance`` (relative) in a round, looked at every few rounds, or after ``rounds``; finished tasks
    leave the batch. ``scaling`` [B, W] starts the iteration, usually at an earlier result. Returns the plan and the
    scaling.
    """
    # A query's smallest cost only scales its column, which the iteration undoes: subtracting it prevents underflow.
    kernel = (cost.amin(1, keepdim=True) - cost).exp_().mul_(mask.unsqueeze(1))
    usable = torch.isfinite(cost).any(2, keepdim=True)  # [B, W, 1]
    share = mask.sum(1).view(-1, 1, 1) / usable.sum(1, keepdim=True).clamp(min=1) * usable
    columns = usable.to(kernel.dtype) if scaling is None else scaling.unsqueeze(2).clone()
    active = torch.arange(len(kernel), device=kernel.device)
    part, v = kernel, columns
    # [B, 1, Q]; a padded query has 0 everywhere: its sum is set to 1 so that nothing divides by zero
    padded = (~mask).to(kernel.dtype).unsqueeze(1)
    spare = None if bool(mask.all()) else padded
    scaled = part * v
    sums = scaled.sum(1, keepdim=True)
    done = 0
    while done < rounds and len(active):
        before = sums
        for _ in range(min(_CHECK_EVERY, rounds - done)):
            before = sums
            weight = sums.clamp(min=1e-30) if spare is None else sums.add(spare)
            # Dividing by a query's sum gives it 1; the class sums of that are scaled to their share.
            v = share.mul(v).div_(scaled.div_(weight).sum(2, keepdim=True).clamp_(min=1e-30))
            torch.mul(part, v, out=scaled)
            sums = scaled.sum(1, keepdim=True)
            done += 1
        columns[active] = v
        keep = ((sums - before).abs_() > before * tolerance).any(2).squeeze(1)
        if not bool(keep.all()):
            active, part, share, v = active[keep], part[keep], share[keep], v[keep]
            scaled, sums = scaled[keep], sums[keep]
            spare = None if spare is None else spare[keep]
    plan = kernel.mul_(columns)
    return plan.div_(plan.sum(1, keepdim=True).clamp_(min=1e-30)), columns.squeeze(2)
