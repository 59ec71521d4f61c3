"""Prototype rectification and what is built on it: BD-CSPN and LaplacianShot."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import normalize

from longshot.methods.base import Method, TaskBatch, TaskShape, mask_absent
from longshot.methods.numerics import EPSILON, row_weights, softmax_present, squared_distances, with_rows
from longshot.methods.settings import check_count, check_number


def rectified_means(batch: TaskBatch, scale: float) -> Tensor:
    """[B, W, d] class means that also weigh in the queries, after moving the queries onto the support.

    The queries are shifted by mean(support) − mean(query). Every support row counts for its class and every
    shifted query for the class whose mean is nearest by cosine, each with weight exp(scale · cos(x, p_w)):
    p'_w = Σ weight · x / Σ weight.
    """
    support_share = row_weights(batch.support_label >= 0)  # [B, S, 1]
    query_share = row_weights(batch.query_mask)
    shift = (batch.support * support_share).sum(1, keepdim=True) - (batch.query * query_share).sum(
        1, keepdim=True
    )
    query = batch.query + shift
    directions = normalize(batch.class_means(), dim=2).transpose(1, 2)  # [B, d, W]
    support_cosine = normalize(batch.support, dim=2).bmm(directions)
    query_cosine = mask_absent(normalize(query, dim=2).bmm(directions), batch)
    nearest = query_cosine.argmax(2, keepdim=True)
    taken = torch.zeros_like(query_cosine).scatter_(2, nearest, 1.0).mul_(query_share > 0)
    # exp(scale · cos) relative to exp(scale): the factor cancels, and nothing overflows for large scales
    support_weight = batch.one_hot * (scale * (support_cosine - 1)).exp()
    query_weight = taken * (scale * (query_cosine.clamp(min=-1) - 1)).exp()
    sums = support_weight.transpose(1, 2).bmm(batch.support) + query_weight.transpose(1, 2).bmm(query)
    total = support_weight.sum(1) + query_weight.sum(1)
    return sums / total.clamp(min=EPSILON).unsqueeze(2)


class BDCSPN(Method):
    """Nearest rectified mean by cosine; see ``rectified_means``. score_w(q) = 10 · cos(q, p'_w)."""

    name = "bd-cspn"
    setting = "transductive"
    family = "rectified means"
    paper = "Liu et al. 2020"

    def __init__(self, *, scale: float = 10.0) -> None:
        check_number(self.name, "scale", scale, above=0)
        self.scale = scale

    def scores(self, batch: TaskBatch) -> Tensor:
        """[B, Q, W]; see the class."""
        means = rectified_means(batch, self.scale)
        cosine = normalize(batch.query, dim=2).bmm(normalize(means, dim=2).transpose(1, 2))
        return mask_absent(cosine.mul_(10.0), batch)


class LaplacianShot(Method):
    """Queries that are neighbours get similar labels: bound updates of a Laplacian-regularised assignment.

    a_qw = ‖q − p'_w‖² to the rectified means; A = adjacency of every query's ``neighbours`` nearest queries.
    Y ← softmax(−a + strength · A Y), started at softmax(−a), until the bound of the objective settles or
    ``steps`` are done. Features are ℓ₂-normalised first unless ``normalize=False``.
    """

    name = "laplacianshot"
    setting = "transductive"
    family = "rectified means"
    paper = "Ziko et al. 2020"

    def __init__(
        self,
        *,
        neighbours: int = 2,
        strength: float = 0.7,
        steps: int = 20,
        scale: float = 10.0,
        normalize: bool = True,
    ) -> None:
        check_count(self.name, "neighbours", neighbours, least=1)
        check_number(self.name, "strength", strength)
        check_count(self.name, "steps", steps, least=1)
        check_number(self.name, "scale", scale, above=0)
        self.neighbours = neighbours
        self.strength = strength
        self.steps = steps
        self.scale = scale
        self.normalize = normalize

    def floats_per_task(self, shape: TaskShape) -> int:
        """As usual, and two query × query matrices."""
        return super().floats_per_task(shape) + 2 * shape.query**2

    def scores(self, batch: TaskBatch) -> Tensor:
        """[B, Q, W] log-assignments; see the class."""
        if self.normalize:
            batch = with_rows(batch, normalize(batch.support, dim=2), normalize(batch.query, dim=2))
        unary = squared_distances(batch.query, rectified_means(batch, self.scale))
        adjacency = self._adjacency(batch)
        assigned = softmax_present(-unary, batch)
        settled = torch.zeros(len(batch), 1, 1, dtype=torch.bool, device=unary.device)
        bound = torch.full_like(settled, torch.inf, dtype=unary.dtype)
        logits = -unary
        finite = unary if batch.shot is not None else unary * batch.present.unsqueeze(1)
        mask = batch.query_mask.unsqueeze(2)
        for step in range(self.steps):
            moved = torch.baddbmm(-unary, adjacency, assigned, alpha=self.strength)
            logits = torch.where(settled, logits, moved)
            assigned = softmax_present(logits, batch)
            linked = adjacency.bmm(assigned)
            energy = assigned.clamp(min=EPSILON).log() + finite - self.strength * linked
            fresh = (assigned * energy * mask).sum((1, 2), keepdim=True)
            if step > 1:
                settled |= (fresh - bound).abs() <= 1e-6 * bound.abs()
                if bool(settled.all()):
                    break
            bound = fresh
        return mask_absent(logits, batch)

    def _adjacency(self, batch: TaskBatch) -> Tensor:
        """[B, Q, Q]: 1 where column is among the row's nearest other queries."""
        apart = squared_distances(batch.query, batch.query)
        apart.diagonal(dim1=1, dim2=2).fill_(torch.inf)
        apart.masked_fill_(~batch.query_mask.unsqueeze(1), torch.inf)
        count = min(self.neighbours, apart.shape[1])
        nearest = apart.topk(count, dim=2, largest=False)
        links = torch.isfinite(nearest.values).to(apart.dtype)
        return torch.zeros_like(apart).scatter_(2, nearest.indices, links)
