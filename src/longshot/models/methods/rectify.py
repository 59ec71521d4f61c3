"""Prototype rectification and what is built on it: BD-CSPN and LaplacianShot.

Normalised or shifted rows are never written out: with r_n = 1/‖x_n‖ every product, mean and length of x_n r_n + shift
follows from those of x_n.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from longshot.base import TaskBatch, TaskShape, count_field, number_field, with_settings
from longshot.models.methods.base import Method
from longshot.models.methods.numerics import (
    EPSILON,
    class_scores,
    class_sums,
    gram,
    lengths,
    own_products,
    present_only,
    product,
    row_weights,
)

_DENSE = 16  # classes up to which a product with a matrix of mostly zeros is the faster sum
_FEW = 4  # neighbours up to which repeated maxima are faster than a partial sort,
_MANY = 256  # unless there are more queries than this


class TaskVectors(NamedTuple):
    """Rows [B, N, d], read either as they are or as unit vectors."""

    values: Tensor
    length: Tensor  # [B, 1, N] of the rows as read
    factor: Tensor | None  # [B, 1, N] by which each row is multiplied

    @classmethod
    def read(cls, values: Tensor, normalize: bool) -> TaskVectors:
        """Read the rows as they are, or as unit vectors."""
        length = lengths(values).unsqueeze(1)
        if not normalize:
            return cls(values, length, None)
        # A zero row stays zero: its length is EPSILON, so that nothing divides by zero.
        factor = length.reciprocal()
        return cls(values, length.mul_(factor), factor)

    def products(self, vectors: Tensor) -> Tensor:
        """Multiply the rows with vectors p [B, W, d]: ⟨p_w, x_n⟩; [B, W, N]."""
        products = product(vectors, self.values.transpose(1, 2))
        return products if self.factor is None else products.mul_(self.factor)

    def weighted(self, weights: Tensor) -> Tensor:
        """Convert weights of the rows as read to weights of the stored rows; [B, N]."""
        return weights if self.factor is None else weights * self.factor.squeeze(1)

    def sums(self, weights: Tensor) -> Tensor:
        """Sum weights_wn x_n over n; [B, W, d]."""
        return product(weights if self.factor is None else weights * self.factor, self.values)

    def shared_out(self, weights: Tensor, owner: Tensor, way: int) -> Tensor:
        """Sum weights_n x_n over the rows n of each ``owner``; weights and owner [B, 1, N] → [B, way, d]."""
        if way <= _DENSE or self.values.device.type != "cpu":
            spread = weights.new_zeros(len(weights), way, weights.shape[2])
            return self.sums(spread.scatter_(1, owner, weights))
        # Many classes: adding each row to one class is 1/way of the work of a product with a matrix of mostly zeros.
        count, _, dim = self.values.shape
        first = torch.arange(0, count * way, way, device=owner.device).view(-1, 1, 1)
        bag, order = (owner + first).flatten().sort()
        starts = torch.searchsorted(bag, torch.arange(count * way, device=owner.device))
        weights = (weights if self.factor is None else weights * self.factor).flatten()[order]
        sums = torch.nn.functional.embedding_bag(
            order, self.values.flatten(0, 1), starts, mode="sum", per_sample_weights=weights
        )
        return sums.view(count, way, dim)


def rectified_means(batch: TaskBatch, support: TaskVectors, query: TaskVectors, scale: float) -> Tensor:
    """Average classes with their queries weighed in, after moving the queries onto the support; [B, W, d].

    The queries are shifted by mean(support) − mean(query). Every support row counts for its class and every
    shifted query for the class whose mean is nearest by cosine, each with weight exp(scale · cos(x, p_w)):
    p'_w = Σ weight · x / Σ weight.
    """
    true = (batch.support_label >= 0).to(support.values.dtype)  # [B, S]
    count = batch.counts.unsqueeze(1)  # [B, 1, W]
    query_share = row_weights(batch.query_mask)  # [B, 1, Q]
    means = class_sums(batch, support.weighted(true), support.values).div_(count.transpose(1, 2).clamp(min=1))
    inverse = lengths(means).reciprocal_().unsqueeze(2)  # [B, W, 1]
    middle = product(count / count.sum(2, keepdim=True).clamp(min=1), means)  # mean of the support rows
    shift = middle.sub_(query.sums(query_share))  # [B, 1, d]

    own = batch.support_label.clamp(min=0)
    support_cosine = support.weighted(own_products(batch, means, support.values))
    support_cosine.mul_(inverse.squeeze(2).gather(1, own)).div_(support.length.squeeze(1))  # [B, S]
    products = query.products(torch.cat((means, shift), 1))  # [B, W+1, Q]: ⟨p_w, q⟩ and ⟨shift, q⟩
    moved = product(means, shift.transpose(1, 2))  # [B, W, 1] ⟨p_w, shift⟩
    length = query.length.square().add_(products[:, -1:], alpha=2).add_(shift.square().sum(2, keepdim=True))
    length = length.clamp_(min=EPSILON).sqrt_()  # [B, 1, Q] ‖q + shift‖
    query_cosine = (products[:, :-1] + moved).mul_(inverse).div_(length)

    best, nearest = present_only(query_cosine, batch).max(1, keepdim=True)
    # exp(scale · cos) relative to exp(scale): the factor cancels, and nothing overflows for large scales
    support_weight = support_cosine.sub_(1).mul_(scale).exp_().mul_(true)
    taken = best.clamp_(max=1).sub_(1).mul_(scale).exp_().mul_(query_share > 0)
    gained = means.new_zeros(means.shape[:2]).scatter_add_(1, nearest.squeeze(1), taken.squeeze(1))
    total = gained.scatter_add(1, own, support_weight).unsqueeze(2)
    sums = class_sums(batch, support.weighted(support_weight), support.values)
    sums.add_(query.shared_out(taken, nearest, batch.way)).addcmul_(gained.unsqueeze(2), shift)
    return sums.div_(total.clamp_(min=EPSILON))


@with_settings
class BDCSPN(Method):
    """Nearest rectified mean by cosine; see ``rectified_means``. score_w(q) = temperature · cos(q, p'_w)."""

    name = "bd-cspn"
    setting = "transductive"
    family = "rectified means"
    paper = "Liu et al. 2020"
    version = 2  # scale 1: see docs/studies/methods.md for the measurements
    # it works beside its input on little, so that a larger batch would outgrow the cache
    batch_bytes = 10 << 20

    scale: float = number_field(1.0, above=0)
    temperature: float = number_field(10.0, above=0)

    def floats_per_task(self, shape: TaskShape) -> int:
        """Count class vectors and a few arrays of scores; rows are not copied."""
        way, support, query, dim = shape
        return 5 * (way + 1) * dim + 6 * (support + query) * way

    def scores(self, batch: TaskBatch) -> Tensor:
        """Score the queries as the class says; [B, Q, W]."""
        query = TaskVectors.read(batch.query, normalize=False)
        means = rectified_means(batch, TaskVectors.read(batch.support, normalize=False), query, self.scale)
        cosine = query.products(means).div_(lengths(means).unsqueeze(2)).div_(query.length)
        return class_scores(cosine.mul_(self.temperature), batch)


@with_settings
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
    version = 2  # scale 1, as bd-cspn

    neighbours: int = count_field(2, least=1)
    strength: float = number_field(0.7)
    steps: int = count_field(20, least=1)
    scale: float = number_field(1.0, above=0)
    normalize: bool = True

    def floats_per_task(self, shape: TaskShape) -> int:
        """Count class vectors, a few arrays of scores, two query × query matrices and the neighbours' numbers."""
        way, support, query, dim = shape
        links = (way + 4) * query * min(self.neighbours, query)
        return 5 * (way + 1) * dim + 8 * (support + query) * way + 2 * query**2 + 2 * links

    def scores(self, batch: TaskBatch) -> Tensor:
        """Score the queries by log-assignments, as the class says; [B, Q, W]."""
        support, query = (TaskVectors.read(rows, self.normalize) for rows in (batch.support, batch.query))
        means = rectified_means(batch, support, query, self.scale)
        squares = query.length.square()
        # −a [B, W, Q]
        near = query.products(means).mul_(2).sub_(squares).sub_(lengths(means).square_().unsqueeze(2))
        linked = self._links(batch.query_mask, query, squares)
        mask = batch.query_mask.unsqueeze(1)
        settled = torch.zeros(len(batch), 1, 1, dtype=torch.bool, device=near.device)
        bound = near.new_full((len(batch), 1, 1), torch.inf)
        logs = present_only(near, batch).log_softmax(1)
        assigned = logs.exp()
        pull = linked(assigned)
        for step in range(self.steps):
            fresh = present_only(torch.add(near, pull, alpha=self.strength), batch).log_softmax(1)
            logs = fresh if step == 0 else torch.where(settled, logs, fresh)
            torch.exp(logs, out=assigned)
            pull = linked(assigned)
            energy = logs.clamp(min=-1e30).sub_(near).sub_(pull, alpha=self.strength).mul_(assigned)
            value = energy.mul_(mask).sum((1, 2), keepdim=True)
            if step > 1:
                settled |= (value - bound).abs() <= 1e-6 * bound.abs()
                if bool(settled.all()):
                    break
            bound = value
        return class_scores(logs, batch)

    def _links(self, mask: Tensor, query: TaskVectors, squares: Tensor) -> _Links:
        """Find every query's nearest other queries; mask: [B, Q] true queries, squares: [B, 1, Q] squared lengths."""
        # Nearness up to what is constant in a column: 2⟨q, q'⟩ − ‖q‖², over all q for a column q'.
        nearness = gram(query.values).mul_(2)  # [B, Q, Q]
        if query.factor is not None:
            nearness.mul_(query.factor).mul_(query.factor.transpose(1, 2))
        nearness.sub_(squares.transpose(1, 2))
        nearness.diagonal(dim1=1, dim2=2).fill_(-torch.inf)
        unpadded = bool(mask.all())
        if not unpadded:
            nearness.masked_fill_(~mask.unsqueeze(2), -torch.inf)
        count = min(self.neighbours, nearness.shape[1])
        if count > _FEW or nearness.shape[1] > _MANY:
            neighbours = nearness.topk(count, dim=1)
            nearest, best = neighbours.indices, neighbours.values  # [B, k, Q]
        else:
            picks = []
            for _ in range(count):
                pick = nearness.max(1, keepdim=True)
                picks.append((pick.indices, pick.values))
                nearness.scatter_(1, pick.indices, -torch.inf)
            nearest, best = (torch.cat(parts, 1) for parts in zip(*picks, strict=True))
        full = unpadded and nearness.shape[1] > count
        return _Links(nearest, None if full else torch.isfinite(best).to(nearness.dtype))


class _Links:
    """A Y for the adjacency A of nearest queries, as sums of gathered columns: k · W · Q instead of W · Q² numbers."""

    def __init__(self, nearest: Tensor, weight: Tensor | None) -> None:
        self.nearest = nearest  # [B, k, Q]
        self.weight = weight  # [B, k, Q]; 0 where a query has fewer than k others

    def __call__(self, assigned: Tensor) -> Tensor:
        """Sum the assignments [B, W, Q] of every query's neighbours; [B, W, Q]."""
        total = torch.zeros_like(assigned)
        for number in range(self.nearest.shape[1]):
            part = assigned.gather(2, self.nearest[:, number : number + 1].expand_as(assigned))
            if self.weight is not None:
                part.mul_(self.weight[:, number : number + 1])
            total.add_(part)
        return total
