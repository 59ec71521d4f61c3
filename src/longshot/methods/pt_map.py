"""PT-MAP: power transform, then class means moved by optimal transport of the queries."""

from __future__ import annotations

import torch
from torch import Tensor

from longshot.core.batches import TaskBatch, TaskShape
from longshot.core.checks import check_choice, check_count, check_number
from longshot.methods.base import Method
from longshot.methods.numerics import class_means, class_scores, lengths, pieces, row_weights
from longshot.methods.products import gram, product
from longshot.methods.transport import Transport

_PIECE = 8  # tasks whose rows are transformed together


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

    def __init__(
        self,
        *,
        steps: int = 20,
        lr: float = 0.2,
        strength: float = 10.0,
        power: float = 0.5,
        normalize: bool = True,
        center: str = "unit",
        rounds: int = 1000,
    ) -> None:
        check_count(self.name, "steps", steps)
        check_number(self.name, "lr", lr, above=0)
        check_number(self.name, "strength", strength, above=0)
        check_number(self.name, "power", power, above=0)
        check_choice(self.name, "center", center, ("none", "apart", "unit"))
        check_count(self.name, "rounds", rounds, least=1)
        self.steps = steps
        self.lr = lr
        self.strength = strength
        self.power = power
        self.normalize = normalize
        self.center = center
        self.rounds = rounds

    def floats_per_task(self, shape: TaskShape) -> int:
        """The plan with its copies, and the products of queries or transformed rows with moving means."""
        way, support, query, dim = shape
        small = 12 * query * way + 4 * way**2
        if _products_pay(shape, self.steps):
            return small + (way + query) * query + (support + query + 2 * way) * dim // _PIECE
        return small + (support + query + 4 * way) * dim

    def scores(self, batch: TaskBatch) -> Tensor:
        """[B, Q, W] logarithm of the transport plan; see the class."""
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
        """[B, W+Q, d] class means, then queries, after the power transform."""
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
        """(relu(x) + 1e-6)^power, as unit vectors where asked, written to ``out``."""
        torch.clamp(rows, min=0, out=out).add_(1e-6)
        if self.power != 0.5:
            out.pow_(self.power)
            return out.div_(torch.linalg.vector_norm(out, dim=2, keepdim=True)) if self.normalize else out
        # The squared length of a row of roots is the sum of the row.
        return out.div_(out.sum(2, keepdim=True)).sqrt_() if self.normalize else out.sqrt_()

    def _center(self, rows: Tensor, mask: Tensor) -> None:
        """Rows [B, N, d] less the mean of the true ones, as unit vectors where asked, in place; mask [B, N]."""
        rows.sub_(product(row_weights(mask), rows))
        if self.center == "unit":
            rows.div_(lengths(rows).unsqueeze(2))

    def _cost(self, batch: TaskBatch, means: _Combined | _Moved) -> Tensor:
        cost = means.distances().mul_(self.strength)
        return cost if batch.shot is not None else cost.masked_fill_(~batch.present.unsqueeze(2), torch.inf)


def _products_pay(shape: TaskShape, steps: int) -> bool:
    """Whether the products of all queries, once, cost less than those of means and queries in every step."""
    way, _, query, dim = shape
    return query * dim + steps * way * query < 2 * steps * way * dim


def _products(rows: Tensor, way: int) -> tuple[Tensor, Tensor]:
    """⟨x, q⟩ [B, W+Q, Q] of all rows [B, W+Q, d] with the queries, and ‖b_w‖² [B, W, 1] of the means before them."""
    means, queries = rows[:, :way], rows[:, way:]
    products = torch.cat((product(means, queries.transpose(1, 2)), gram(queries)), 1)
    return products, means.square().sum(2, keepdim=True)


class _Combined:
    """Means as combinations p_w = a_w b_w + Σ_q c_wq q of the class means b_w and the queries: no row is read again.

    All distances follow from the products of queries with one another [Q, Q] and with the class means [W, Q].
    """

    def __init__(self, products: Tensor, squares: Tensor, counts: Tensor) -> None:
        """As from ``_products``; counts: [B, W, 1] support rows of each class."""
        way = counts.shape[1]
        self.base, self.gram = products[:, :way], products[:, way:]  # ⟨b_w, q⟩ and ⟨q, q'⟩
        self.squares = squares
        self.counts = counts
        self.own = torch.ones_like(counts)  # a
        self.weights: Tensor | None = None  # c; None while it is 0

    def distances(self) -> Tensor:
        """[B, W, Q] ‖p_w − q‖² − ‖q‖²: the part left out moves all classes of a query alike."""
        if self.weights is None:
            return torch.sub(self.squares, self.base, alpha=2)
        start = self.own * self.base
        products = product(self.weights, self.gram).add_(start)  # ⟨p_w, q⟩
        # ‖p‖² = a² ‖b‖² + Σ_q c_q (a ⟨b, q⟩ + ⟨p, q⟩)
        squares = start.add_(products).mul_(self.weights).sum(2, keepdim=True)
        squares.addcmul_(self.own.square(), self.squares)
        return products.mul_(-2).add_(squares)

    def move(self, plan: Tensor, lr: float) -> None:
        """p ← p + lr · (mean over the support and the queries by the ``plan`` [B, W, Q] − p)."""
        share = lr / plan.sum(2, keepdim=True).add_(self.counts).clamp_(min=1e-12)
        self.own = self.own.mul(1 - lr).addcmul_(share, self.counts)
        weights = plan.mul_(share)
        self.weights = weights if self.weights is None else weights.add_(self.weights, alpha=1 - lr)


class _Moved:
    """The same means as vectors, for tasks with so many queries that the products of all of them would cost more."""

    def __init__(self, rows: Tensor, counts: Tensor) -> None:
        """rows: [B, W+Q, d] class means before queries; counts: [B, W, 1] support rows of each class."""
        way = counts.shape[1]
        self.counts = counts
        self.queries = rows[:, way:]
        self.means = rows[:, :way].clone()
        self.sums = self.means * counts

    def distances(self) -> Tensor:
        """[B, W, Q] ‖p_w − q‖² − ‖q‖²: the part left out moves all classes of a query alike."""
        squares = self.means.square().sum(2, keepdim=True)
        return torch.baddbmm(squares, self.means, self.queries.transpose(1, 2), alpha=-2)

    def move(self, plan: Tensor, lr: float) -> None:
        """p ← p + lr · (mean over the support and the queries by the ``plan`` [B, W, Q] − p)."""
        total = plan.sum(2, keepdim=True).add_(self.counts).clamp_(min=1e-12)
        self.means.lerp_(torch.baddbmm(self.sums, plan, self.queries).div_(total), lr)
