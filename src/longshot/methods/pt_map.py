"""PT-MAP: power transform, then class means moved by optimal transport of the queries."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from longshot.methods.base import Method, TaskBatch, TaskShape, mask_absent
from longshot.methods.numerics import squared_distances, with_rows
from longshot.methods.settings import check_count, check_number

_CHECK_EVERY = 10  # Sinkhorn rounds between looks at the convergence of each task


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
    batch_bytes = 32 << 20  # hundreds of tiny rounds: Python's steps dominate, so many tasks go together

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
        """As usual, and the kernel with its scalings."""
        return super().floats_per_task(shape) + 4 * shape.query * shape.way

    def scores(self, batch: TaskBatch) -> Tensor:
        """[B, Q, W] logarithm of the transport plan; see the class."""
        batch = with_rows(batch, self._transform(batch.support), self._transform(batch.query))
        support_sums = batch.class_means() * batch.counts.unsqueeze(2)
        means = batch.class_means()
        scaling: Tensor | None = None
        for _ in range(self.steps):
            plan, scaling = self._plan(batch, means, scaling)
            total = (batch.counts + plan.sum(1)).clamp(min=1e-12).unsqueeze(2)
            target = (support_sums + plan.transpose(1, 2).bmm(batch.query)) / total
            means = means.lerp(target, self.lr)
        plan, _ = self._plan(batch, means, scaling)
        return mask_absent(plan.clamp(min=1e-38).log(), batch)

    def _transform(self, rows: Tensor) -> Tensor:
        powered = (rows.relu() + 1e-6).pow(self.power)
        return functional.normalize(powered, dim=2) if self.normalize else powered

    def _plan(self, batch: TaskBatch, means: Tensor, scaling: Tensor | None) -> tuple[Tensor, Tensor]:
        cost = squared_distances(batch.query, means).mul_(self.strength)
        if batch.shot is None:
            cost.masked_fill_(~batch.present.unsqueeze(1), torch.inf)
        return sinkhorn(cost, batch.query_mask, self.rounds, scaling)


def sinkhorn(
    cost: Tensor, mask: Tensor, rounds: int, scaling: Tensor | None = None, tolerance: float = 1e-6
) -> tuple[Tensor, Tensor]:
    """Transport plans [B, Q, W] for exp(−cost): rows of ``mask`` [B, Q] sum to 1, columns share them equally.

    cost: [B, Q, W], +∞ where a class cannot be chosen. Each task stops on its own when its row sums move by less
    than ``tolerance`` in a round (looked at every few rounds) or after ``rounds``; finished tasks leave the
    batch. ``scaling`` [B, W] starts the iteration, usually at an earlier result. Returns the plan and the scaling.
    """
    # A row's smallest cost only scales the row, which the iteration undoes: subtracting it prevents underflow.
    kernel = (cost.amin(2, keepdim=True) - cost).exp_().mul_(mask.unsqueeze(2))
    usable = torch.isfinite(cost).any(1)  # [B, W]
    share = mask.sum(1, keepdim=True) / usable.sum(1, keepdim=True).clamp(min=1) * usable
    columns = usable.to(kernel.dtype) if scaling is None else scaling.clone()
    active = torch.arange(len(kernel), device=kernel.device)
    part, part_share, part_mask, v = kernel, share, mask.to(kernel.dtype), columns
    done = 0
    while done < rounds and len(active):
        moved = torch.zeros(len(active), device=kernel.device)
        for _ in range(min(_CHECK_EVERY, rounds - done)):
            u = part_mask / torch.bmm(part, v.unsqueeze(2)).squeeze(2).clamp_(min=1e-30)
            sums = torch.bmm(u.unsqueeze(1), part).squeeze(1)
            fresh = part_share / sums.clamp_(min=1e-30)
            moved = (torch.bmm(part, (fresh - v).unsqueeze(2)).squeeze(2) * u).abs().amax(1)
            v = fresh
            done += 1
        columns[active] = v
        keep = moved >= tolerance
        if not bool(keep.all()):
            active, part, part_share = active[keep], part[keep], part_share[keep]
            part_mask, v = part_mask[keep], v[keep]
    scaled = kernel * columns.unsqueeze(1)
    return scaled / scaled.sum(2, keepdim=True).clamp_(min=1e-30), columns
