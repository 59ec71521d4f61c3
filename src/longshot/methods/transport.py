"""Entropic optimal transport of queries to classes, many tasks at once."""

from __future__ import annotations

import torch
from torch import Tensor

from longshot.methods.products import product

_FAST = 0.05  # plain rounds that leave less of the error than this need no Newton steps
_REACH = 2.0  # a Newton step moves no potential by more: far from the solution longer ones go astray


class Transport:
    """Plans [B, W, Q] for exp(−cost): every query gets 1, all usable classes share the queries equally.

    With potentials v_w the plan is P = softmax_w(v_w − cost_wq): every query has its 1, and what remains to solve is
    Σ_q P_wq = share, the stationary point of a convex function of W numbers. A plain round (Sinkhorn's) is
    v ← v − log(Σ_q P / share), a Newton step v ← v + H⁻¹ (share − Σ_q P) with H = diag(Σ_q P) − P Pᵀ. Where plain
    rounds are slow, hundreds of them become three or four Newton steps; a Newton step that does not lessen the error
    is undone and a plain round made instead. A task stops on its own, when no class is off its share by more than
    ``tolerance`` (relative), or after ``rounds``.

    An object is called with one cost after the other and begins each time where it ended.
    """

    def __init__(self, usable: Tensor, mask: Tensor, rounds: int, tolerance: float = 1e-5) -> None:
        """usable: [B, W] classes that may get queries; mask: [B, Q] true queries."""
        self.usable = usable
        self.mask = mask
        self.rounds = rounds
        self.tolerance = tolerance
        self.potential = torch.zeros(*usable.shape, 1, device=usable.device)
        self.slow = torch.zeros(len(mask), 1, 1, dtype=torch.bool, device=mask.device)  # for plain rounds
        count = mask.sum(1, keepdim=True) / usable.sum(1, keepdim=True).clamp(min=1)
        self._share = count.clamp(min=1e-30).unsqueeze(2)  # [B, 1, 1]
        self._weight = None if bool(mask.all()) else mask.unsqueeze(1).float()
        self._absent = None if bool(usable.all()) else ~usable.unsqueeze(2)

    def __call__(self, cost: Tensor) -> Tensor:
        """[B, W, Q] the plan for ``cost`` [B, W, Q], which must be +∞ for classes that are not usable."""
        trial, tried = self.potential, torch.zeros_like(self.slow)  # tried: the last step was Newton's
        ratio, error = trial, torch.full_like(self._share, torch.inf)
        for number in range(self.rounds):
            plan = self._plan(cost, trial)
            marginal = plan.sum(2, keepdim=True).div_(self._share)  # [B, W, 1]
            if self._absent is not None:
                marginal.masked_fill_(self._absent, 1)
            off = (marginal - 1).abs_().amax(1, keepdim=True)
            going = ~(off <= self.tolerance)
            running = int(going.sum())
            bad = tried & ~(off < error)  # also where it is not a number
            self.slow = self.slow | (~tried & (off > _FAST * error))
            self.potential, ratio, error = (
                torch.where(bad, old, new)
                for old, new in ((self.potential, trial), (ratio, marginal), (error, off))
            )
            if running == 0:
                return plan
            if 2 * running <= len(cost):
                return self._finish(cost, plan, going.flatten(), self.rounds - number - 1)
            step = ratio.clamp(min=1e-30).log_().neg_()
            tried = self.slow & ~bad & going
            if bool(tried.any()):
                step = torch.where(tried, self._newton(plan, marginal), step)
            trial = self.potential + step.masked_fill_(~going, 0)
        return self._plan(cost, self.potential)

    def _plan(self, cost: Tensor, potential: Tensor) -> Tensor:
        plan = torch.sub(potential, cost).softmax(1)
        return plan if self._weight is None else plan.mul_(self._weight)

    def _finish(self, cost: Tensor, plan: Tensor, going: Tensor, rounds: int) -> Tensor:
        """``plan`` with its unfinished tasks brought to their end in a batch of their own."""
        unfinished = Transport(self.usable[going], self.mask[going], rounds, self.tolerance)
        unfinished.potential, unfinished.slow = self.potential[going], self.slow[going]
        if rounds:
            plan[going] = unfinished(cost[going])
            self.potential[going], self.slow[going] = unfinished.potential, unfinished.slow
        return plan

    def _newton(self, plan: Tensor, ratio: Tensor) -> Tensor:
        """[B, W, 1] H⁻¹ (share − sums); not a number, or useless, where H is too near to singular."""
        slope = product(plan, plan.transpose(1, 2)).div_(-self._share)
        # All potentials may move together without changing the plan: a constant matrix takes that freedom away and
        # changes nothing else. A class that is not usable has ratio 1 and products 0: it does not move.
        slope.add_(1 / ratio.shape[1])
        slope.diagonal(dim1=1, dim2=2).add_((ratio * (1 + 1e-6)).squeeze(2))
        factor, _ = torch.linalg.cholesky_ex(slope)
        step = torch.cholesky_solve(1 - ratio, factor)
        return step.mul_(_REACH / step.abs().amax(1, keepdim=True).clamp_(min=_REACH))
