"""Queries assigned to class means by optimal transport, the means moved, repeatedly: PT-MAP, MetaDelta++'s decoder."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from longshot.base import Floats, TaskBatch, TaskShape, choice_field, count_field, number_field, with_settings
from longshot.models.methods.base import Method
from longshot.models.methods.numerics import (
    EPSILON,
    class_means,
    class_scores,
    cosines,
    gram,
    lengths,
    pieces,
    product,
    row_weights,
)

_FAST = 0.05  # plain rounds that leave less of the error than this need no Newton steps
_REACH = 2.0  # a Newton step moves no potential by more: far from the solution longer ones go astray
_PIECE = 8  # tasks whose rows are transformed together


@with_settings
class PTMAP(Method):
    """Assign queries to class means by entropic optimal transport, move the means, repeat.

    Features: x ← (relu(x) + 1e-6)^power, ℓ₂-normalised unless ``normalize=False``. ``center='apart'`` then takes the
    mean of the support from the support and that of the queries from the queries (which cancels out of the plan where
    shots are equal); ``center='unit'`` makes unit vectors of what remains.
    Plan: entropic transport with the kernel exp(−strength · ‖q − p_w‖²), each query 1, every class the same share of
    the queries, which is what the method assumes; at most ``rounds`` rounds (see ``Transport``).
    Means: p ← p + lr · (mean of support and queries weighted by the plan − p), ``steps`` times.
    """

    name = "pt-map"
    setting = "transductive"
    family = "optimal transport"
    paper = "Hu et al. 2021"
    version = 3  # 20 steps and unit vectors after centring: see docs/studies/methods.md for the measurements

    steps: int = count_field(20)
    lr: float = number_field(0.2, above=0)
    strength: float = number_field(10.0, above=0)
    power: float = number_field(0.5, above=0)
    normalize: bool = True
    center: str = choice_field("unit", "none", "apart", "unit")
    rounds: int = count_field(1000, least=1)

    def floats_per_task(self, shape: TaskShape) -> int:
        """Count the plan with its copies, and the products of queries or transformed rows with moving means."""
        way, support, query, dim = shape
        small = 12 * query * way + 4 * way**2
        if _products_pay(shape, self.steps):
            return small + (way + query) * query + (support + query + 2 * way) * dim // _PIECE
        return small + (support + query + 4 * way) * dim

    def scores(self, batch: TaskBatch) -> Tensor:
        """Score the queries by the logarithm of the transport plan, as the class says; [B, Q, W]."""
        counts = batch.counts.unsqueeze(2)
        means: _Combined | _Moved
        if _products_pay(batch.shape, self.steps):
            # A few tasks at a time: their transformed rows stay in the cache until the products are made.
            parts = [_products(self._rows(part), batch.way) for part in pieces(batch, _PIECE)]
            products, squares = (torch.cat(values) for values in zip(*parts, strict=True))
            means = _Combined(products, squares, counts)
        else:
            means = _Moved(self._rows(batch), counts)
        transport = Transport(batch.present, batch.query_mask, self.rounds)
        for _ in range(self.steps):
            means.move(transport(self._cost(batch, means)), self.lr)
        return class_scores(transport(self._cost(batch, means)).clamp_(min=1e-38).log_(), batch)

    def _rows(self, batch: TaskBatch) -> Tensor:
        """Transform class means, then queries, by the power; [B, W+Q, d]."""
        way, _, query, dim = batch.shape
        rows = batch.support.new_empty(len(batch), way + query, dim)
        query_rows = self._transform(batch.query, rows[:, way:])
        support = self._transform(batch.support, torch.empty_like(batch.support))
        if self.center != "none":
            self._center(query_rows, batch.query_mask)
            self._center(support, batch.support_label >= 0)
        rows[:, :way] = class_means(batch, support)
        return rows

    def _transform(self, rows: Tensor, out: Tensor) -> Tensor:
        """Compute (relu(x) + 1e-6)^power, as unit vectors where asked, into ``out``."""
        torch.clamp(rows, min=0, out=out).add_(1e-6)
        if self.power != 0.5:
            out.pow_(self.power)
            return out.div_(torch.linalg.vector_norm(out, dim=2, keepdim=True)) if self.normalize else out
        # The squared length of a row of roots is the sum of the row.
        return out.div_(out.sum(2, keepdim=True)).sqrt_() if self.normalize else out.sqrt_()

    def _center(self, rows: Tensor, mask: Tensor) -> None:
        """Centre rows [B, N, d] on the true ones' mean in place, as unit vectors where asked; mask [B, N]."""
        rows.sub_(product(row_weights(mask), rows))
        if self.center == "unit":
            rows.div_(lengths(rows).unsqueeze(2))

    def _cost(self, batch: TaskBatch, means: _Combined | _Moved) -> Tensor:
        cost = means.distances().mul_(self.strength)
        return cost if batch.shot is not None else cost.masked_fill_(~batch.present.unsqueeze(2), torch.inf)


def _products_pay(shape: TaskShape, steps: int) -> bool:
    """Tell whether the products of all queries, once, cost less than those of means and queries in every step."""
    way, _, query, dim = shape
    return query * dim + steps * way * query < 2 * steps * way * dim


def _products(rows: Tensor, way: int) -> tuple[Tensor, Tensor]:
    """Multiply all rows [B, W+Q, d] with the queries, [B, W+Q, Q]; return also ‖b_w‖² [B, W, 1] of the means."""
    means, queries = rows[:, :way], rows[:, way:]
    products = torch.cat((product(means, queries.transpose(1, 2)), gram(queries)), 1)
    return products, means.square().sum(2, keepdim=True)


class _Combined:
    """Means as combinations p_w = a_w b_w + Σ_q c_wq q of the class means b_w and the queries: no row is read again.

    All distances follow from the products of queries with one another [Q, Q] and with the class means [W, Q].
    """

    def __init__(self, products: Tensor, squares: Tensor, counts: Tensor) -> None:
        """Take what ``_products`` gives; counts: [B, W, 1] support rows of each class."""
        way = counts.shape[1]
        self.base, self.gram = products[:, :way], products[:, way:]  # ⟨b_w, q⟩ and ⟨q, q'⟩
        self.squares, self.counts = squares, counts
        self.own = torch.ones_like(counts)  # a
        self.weights: Tensor | None = None  # c; None while it is 0

    def distances(self) -> Tensor:
        """Compute ‖p_w − q‖² − ‖q‖²: the part left out moves all classes of a query alike; [B, W, Q]."""
        if self.weights is None:
            return torch.sub(self.squares, self.base, alpha=2)
        start = self.own * self.base
        products = product(self.weights, self.gram).add_(start)  # ⟨p_w, q⟩
        # ‖p‖² = a² ‖b‖² + Σ_q c_q (a ⟨b, q⟩ + ⟨p, q⟩)
        squares = start.add_(products).mul_(self.weights).sum(2, keepdim=True)
        squares.addcmul_(self.own.square(), self.squares)
        return products.mul_(-2).add_(squares)

    def move(self, plan: Tensor, lr: float) -> None:
        """Move p by lr · (mean over the support and the queries by the ``plan`` [B, W, Q] − p)."""
        share = lr / plan.sum(2, keepdim=True).add_(self.counts).clamp_(min=1e-12)
        self.own = self.own.mul(1 - lr).addcmul_(share, self.counts)
        weights = plan.mul_(share)
        self.weights = weights if self.weights is None else weights.add_(self.weights, alpha=1 - lr)


class _Moved:
    """The same means as vectors, for tasks with so many queries that the products of all of them would cost more."""

    def __init__(self, rows: Tensor, counts: Tensor) -> None:
        """Take rows [B, W+Q, d], class means before queries; counts: [B, W, 1] support rows of each class."""
        way = counts.shape[1]
        self.counts, self.queries = counts, rows[:, way:]
        self.means = rows[:, :way].clone()
        self.sums = self.means * counts

    def distances(self) -> Tensor:
        """Compute ‖p_w − q‖² − ‖q‖²: the part left out moves all classes of a query alike; [B, W, Q]."""
        squares = self.means.square().sum(2, keepdim=True)
        return torch.baddbmm(squares, self.means, self.queries.transpose(1, 2), alpha=-2)

    def move(self, plan: Tensor, lr: float) -> None:
        """Move p by lr · (mean over the support and the queries by the ``plan`` [B, W, Q] − p)."""
        total = plan.sum(2, keepdim=True).add_(self.counts).clamp_(min=1e-12)
        self.means.lerp_(torch.baddbmm(self.sums, plan, self.queries).div_(total), lr)


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
        """Take usable: [B, W] classes that may get queries; mask: [B, Q] true queries."""
        self.usable, self.mask = usable, mask
        self.rounds, self.tolerance = rounds, tolerance
        self.potential = torch.zeros(*usable.shape, 1, device=usable.device)
        self.slow = torch.zeros(len(mask), 1, 1, dtype=torch.bool, device=mask.device)  # for plain rounds
        count = mask.sum(1, keepdim=True) / usable.sum(1, keepdim=True).clamp(min=1)
        self._share = count.clamp(min=1e-30).unsqueeze(2)  # [B, 1, 1]
        self._weight = None if bool(mask.all()) else mask.unsqueeze(1).float()
        self._absent = None if bool(usable.all()) else ~usable.unsqueeze(2)

    def __call__(self, cost: Tensor) -> Tensor:
        """Solve the plan for ``cost`` [B, W, Q], which must be +∞ for classes that are not usable; [B, W, Q]."""
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
        """Finish the plan's unfinished tasks in a batch of their own."""
        unfinished = Transport(self.usable[going], self.mask[going], rounds, self.tolerance)
        unfinished.potential, unfinished.slow = self.potential[going], self.slow[going]
        if rounds:
            plan[going] = unfinished(cost[going])
            self.potential[going], self.slow[going] = unfinished.potential, unfinished.slow
        return plan

    def _newton(self, plan: Tensor, ratio: Tensor) -> Tensor:
        """Compute H⁻¹ (share − sums); not a number, or useless, where H is too near to singular; [B, W, 1]."""
        slope = product(plan, plan.transpose(1, 2)).div_(-self._share)
        # All potentials may move together without changing the plan: a constant matrix takes that freedom away and
        # changes nothing else. A class that is not usable has ratio 1 and products 0: it does not move.
        slope.add_(1 / ratio.shape[1])
        slope.diagonal(dim1=1, dim2=2).add_((ratio * (1 + 1e-6)).squeeze(2))
        factor, _ = torch.linalg.cholesky_ex(slope)
        step = torch.cholesky_solve(1 - ratio, factor)
        return step.mul_(_REACH / step.abs().amax(1, keepdim=True).clamp_(min=_REACH))


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
        """Count centred rows, means with their sums, and the plan."""
        way, support, query, dim = shape
        return (support + query + 4 * way) * dim + 6 * way * query

    def scores(self, batch: TaskBatch) -> Tensor:
        """Score the queries by the logarithm of the last plan, at least log 1e-6; [B, Q, W]."""
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
        """Solve the plan [B, W, Q]; exact transport is combinatorial, so the costs go to the CPU."""
        costs = (1 - cosines(means, query)).double().cpu().numpy()
        present, mask = batch.present.cpu().numpy(), batch.query_mask.cpu().numpy()
        plans = np.zeros_like(costs)
        for plan, cost, classes, queries in zip(plans, costs, present, mask, strict=True):
            where = np.ix_(classes, queries)
            plan[where] = exact_transport(cost[where])
        return torch.from_numpy(plans).to(means)


def metadelta_decode(support: Tensor, labels: Tensor, query: Tensor, way: int) -> Tensor:
    """Score one task: queries [Q, d] from support rows [S, d] with labels [S] in 0…W−1; [Q, W].

    Examples
    --------
    >>> rows = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    >>> metadelta_decode(rows, torch.tensor([0, 1]), torch.tensor([[0.1, 0.9], [0.8, 0.3]]), 2).argmax(1)
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
    """Subtract the mean of the rows in ``mask`` [B, N] and scale to unit length; the others are 0. [B, N, d]."""
    weights = mask.unsqueeze(2).to(rows.dtype)
    mean = (rows * weights).sum(1, keepdim=True) / weights.sum(1, keepdim=True).clamp(min=1)
    centred = (rows - mean) * weights
    length: Tensor = torch.linalg.vector_norm(centred, dim=2, keepdim=True)
    return centred / length.clamp(min=EPSILON)


def exact_transport(cost: Floats) -> Floats:
    """Find the cheapest plan [W, Q] in which each query has 1 and every class Q/W.

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
    """Find the same plan by the simplex method, whose solutions are corners: few queries are shared."""
    from scipy.optimize import linprog
    from scipy.sparse import eye_array, kron, vstack

    way, queries = cost.shape
    by_class = kron(eye_array(way), np.ones((1, queries)))
    by_query = kron(np.ones((1, way)), eye_array(queries))
    sums = np.concatenate([np.full(way, queries / way), np.ones(queries)])
    solved = linprog(cost.ravel(), A_eq=vstack([by_class, by_query]), b_eq=sums, method="highs-ds")
    plan: Floats = solved.x.reshape(way, queries)
    return plan
