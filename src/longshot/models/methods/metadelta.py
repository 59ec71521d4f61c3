"""MetaDelta++'s decoder: queries assigned to class means by exact transport, the means moved, again and again."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from longshot.base import Floats, TaskBatch, TaskShape, count_field, number_field, with_settings
from longshot.models.methods.base import Method
from longshot.models.methods.numerics import EPSILON, class_scores, cosines

FLOOR = 1e-6  # share of a query below which a class is as good as not chosen
_SQUARE = 16 << 20  # cells of an assignment problem; larger ones are solved as a linear programme


@with_settings
class MetaDeltaDecoder(Method):
    """Label propagation by exact optimal transport, as the winners of NeurIPS'21's MetaDL competition did it.

    Features: support and queries are each centred on their own mean and brought to unit length.
    Plan: π [W, Q] ≥ 0 that minimises Σ π_wq (1 − cos(q, p_w)), each query 1, every class the same share of the
    queries. So the method looks at all queries of a task and assumes that they are balanced.
    Means: p_w ← p_w + lr · ((Σ_s x_s + Σ_q π_wq q) / (k_w + Σ_q π_wq) − p_w) over the k_w support rows of class w,
    then a new plan; ``rounds`` times. The scores are log π.
    """

    name = "metadelta"
    setting = "transductive"
    family = "optimal transport"
    paper = "Chen et al. 2021"

    rounds: int = count_field(20)
    lr: float = number_field(0.2, above=0)

    def floats_per_task(self, shape: TaskShape) -> int:
        """Centred rows, means with their sums, and the plan."""
        way, support, query, dim = shape
        return (support + query + 4 * way) * dim + 6 * way * query

    def scores(self, batch: TaskBatch) -> Tensor:
        """[B, Q, W] logarithm of the last plan, at least log 1e-6; see the class."""
        support = whitened(batch.support, batch.support_label >= 0)
        query = whitened(batch.query, batch.query_mask)
        counts = batch.counts.unsqueeze(2)
        means = batch.class_means(support)
        sums = means * counts
        plan = self._plan(batch, means, query)
        for _ in range(self.rounds):
            total = plan.sum(2, keepdim=True).add_(counts).clamp_(min=EPSILON)
            means = means.lerp(torch.baddbmm(sums, plan, query).div_(total), self.lr)
            plan = self._plan(batch, means, query)
        return class_scores(plan.clamp_(min=FLOOR).log_(), batch)

    def _plan(self, batch: TaskBatch, means: Tensor, query: Tensor) -> Tensor:
        """[B, W, Q]; exact transport is combinatorial, so costs go to the processor, all tasks of the batch at once."""
        costs = (1 - cosines(means, query)).double().cpu().numpy()
        present, mask = batch.present.cpu().numpy(), batch.query_mask.cpu().numpy()
        plans = np.zeros_like(costs)
        for plan, cost, classes, queries in zip(plans, costs, present, mask, strict=True):
            where = np.ix_(classes, queries)
            plan[where] = exact_transport(cost[where])
        return torch.from_numpy(plans).to(means)


def decode(support: Tensor, labels: Tensor, query: Tensor, way: int) -> Tensor:
    """One task: scores [Q, W] of queries [Q, d] from support rows [S, d] with labels [S] in 0…W−1.

    Examples
    --------
    >>> rows = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    >>> decode(rows, torch.tensor([0, 1]), torch.tensor([[0.1, 0.9], [0.8, 0.3]]), 2).argmax(1)
    tensor([1, 0])
    """
    batch = TaskBatch(
        support=support[None],
        support_label=labels[None].to(support.device),
        query=query[None],
        query_mask=torch.ones(1, len(query), dtype=torch.bool, device=query.device),
        ways=torch.tensor([way], device=query.device),
        way=way,
        seeds=torch.zeros(1, dtype=torch.int64),
        blocks=(support.shape[1],),
    )
    return MetaDeltaDecoder().scores(batch)[0]


def whitened(rows: Tensor, mask: Tensor) -> Tensor:
    """[B, N, d] rows minus the mean of those in ``mask`` [B, N], at unit length; the others are 0."""
    weights = mask.unsqueeze(2).to(rows.dtype)
    mean = (rows * weights).sum(1, keepdim=True) / weights.sum(1, keepdim=True).clamp(min=1)
    centred = (rows - mean) * weights
    length: Tensor = torch.linalg.vector_norm(centred, dim=2, keepdim=True)
    return centred / length.clamp(min=EPSILON)


def exact_transport(cost: Floats) -> Floats:
    """The cheapest plan [W, Q] in which each query has 1 and every class Q/W.

    Parameters
    ----------
    cost : array [W, Q]
        Cost of giving a whole query to a class.

    Returns
    -------
    array [W, Q]
        Shares of the queries, columns sum to 1. Where W divides Q every query has one class: an assignment to Q/W
        copies of each class. Otherwise some are shared between classes, by a linear programme.

    Examples
    --------
    >>> exact_transport(np.array([[0.0, 0.1, 0.2, 0.3], [0.5, 0.5, 0.5, 0.5]]))
    array([[1., 1., 0., 0.],
           [0., 0., 1., 1.]])
    """
    from scipy.optimize import linear_sum_assignment

    way, queries = cost.shape
    if queries % way or queries**2 > _SQUARE:
        return _linear_programme(cost)
    places = queries // way
    _, columns = linear_sum_assignment(np.repeat(cost.T, places, 1))
    plan = np.zeros_like(cost)
    plan[columns // places, np.arange(queries)] = 1
    return plan


def _linear_programme(cost: Floats) -> Floats:
    """The same plan by the simplex method, whose solutions are corners: few queries are shared."""
    from scipy.optimize import linprog
    from scipy.sparse import eye_array, kron, vstack

    way, queries = cost.shape
    by_class = kron(eye_array(way), np.ones((1, queries)))
    by_query = kron(np.ones((1, way)), eye_array(queries))
    sums = np.concatenate([np.full(way, queries / way), np.ones(queries)])
    solved = linprog(cost.ravel(), A_eq=vstack([by_class, by_query]), b_eq=sums, method="highs-ds")
    plan: Floats = solved.x.reshape(way, queries)
    return plan
