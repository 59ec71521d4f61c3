"""What a selection maximises: the query loss of a prototype classifier, and the interface of all objectives.

Losses of a batch of tasks and their slopes are of logits [B, Q, W] and labels [B, Q] (−1 = padding).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal, Protocol, TypeAlias

import numpy as np
import torch

from longshot.base import Ints, TaskRows, prototype_scores
from longshot.tasks.selection.feature_table import (
    FeatureTable,
    QueryBatch,
    batches,
    by_class,
    one_batch,
    pool_sizes,
)

Loss: TypeAlias = Literal["cross-entropy", "error"]


def query_loss(logits: torch.Tensor, label: torch.Tensor, loss: Loss) -> torch.Tensor:
    """Compute the mean query loss [B]: −log p(true class), or the bounded error 1 − p(true class)."""
    real = label >= 0
    true = logits.log_softmax(-1).gather(-1, label.clamp_min(0)[..., None]).squeeze(-1)
    each = -true if loss == "cross-entropy" else 1 - true.exp()
    return each.masked_fill(~real, 0).sum(-1) / real.sum(-1).clamp_min(1)


def loss_slope(logits: torch.Tensor, label: torch.Tensor, loss: Loss) -> torch.Tensor:
    """Return ∂(mean query loss)/∂logits [B, Q, W].

    Cross-entropy: (p − y)/Q. Bounded error: p_true·(p − y)/Q, which fades for a query that is lost already,
    so that no query can win the objective alone.
    """
    real = label >= 0
    probability = logits.softmax(-1)
    result = probability.clone()
    index = label.clamp_min(0)[..., None]
    result.scatter_add_(-1, index, torch.full_like(index, -1, dtype=result.dtype))
    if loss == "error":
        result *= probability.gather(-1, index)
    result *= (real / real.sum(-1, keepdim=True).clamp_min(1))[..., None]
    return result


def query_accuracy(logits: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
    """Return the query accuracy [B]."""
    real = label >= 0
    hits = (logits.argmax(-1) == label) & real
    return hits.sum(-1) / real.sum(-1).clamp_min(1)


# slots per product: fixed and padded, so that a score does not depend on how many tasks there are
COLUMN_BLOCK = 32
_GATHERED_ROWS = 8192  # support rows read at a time
Distance: TypeAlias = Literal["euclidean", "cosine"]
# one vector per slot over all rows of its class, 0 at the task's own queries
PoolWeights: TypeAlias = Sequence[torch.Tensor]


@dataclass(frozen=True)
class SupportMeasures:
    """At one support per task, or at the weighted pools: ``loss`` [T], ``accuracies`` [J, T] of every judge, and
    ``directions`` [S, m, d] for the next selection."""

    loss: torch.Tensor
    accuracies: torch.Tensor
    directions: torch.Tensor

    def take(self, tasks: TaskRows, members: Ints) -> SupportMeasures:
        """Return what was measured on some of the tasks."""
        slots = tasks.plan.classes.indices(members)
        index = torch.from_numpy(members).to(self.loss.device)
        return SupportMeasures(
            self.loss[index],
            self.accuracies[:, index],
            self.directions[torch.from_numpy(slots).to(index.device)],
        )


@dataclass(frozen=True, eq=False)
class Exchange:
    """b tasks with one k at one place, ordered by the class they have there: what a swapper is made from."""

    table: FeatureTable
    tasks: TaskRows
    support: Ints  # rows of all tasks, flat over slots
    members: Ints  # [b] positions of the tasks
    column: int  # the place of the class in each task

    @cached_property
    def slots(self) -> Ints:
        """Slots [b] of the classes."""
        return self.tasks.plan.classes.offsets[self.members] + self.column

    @cached_property
    def labels(self) -> Ints:
        """Classes [b]."""
        return self.tasks.plan.classes.values[self.slots]

    @property
    def shots(self) -> int:
        """Return k."""
        return int(self.tasks.plan.shots.values[self.slots[0]])

    @property
    def positions(self) -> Ints:
        """Return where the support of the slots stands in ``support`` [b, k]."""
        return self.tasks.plan.support_offsets[self.slots][:, None] + np.arange(self.shots)

    def places(self) -> Ints:
        """Return the places [b, k] in the classes of the slots' support."""
        return self.table.places(self.labels[:, None], self.support[self.positions])

    def own_tasks(self) -> tuple[TaskRows, Ints]:
        """Return the b tasks alone, and their support rows."""
        return self.tasks.take(self.members), self.support[self.tasks.support.indices(self.members)]

    @cached_property
    def features(self) -> list[torch.Tensor]:
        """Features [n, d] of each task's class; tasks that share a class share them."""
        classes = {int(label): self.table.whole(int(label)) for label in np.unique(self.labels)}
        return [classes[label] for label in self.labels.tolist()]

    def products(self, vectors: torch.Tensor) -> torch.Tensor:
        """Multiply vectors [b, m, d] with all images of each task's class: [b, m, n], 0 behind smaller classes."""
        longest = max(len(features) for features in self.features)
        result = torch.zeros(*vectors.shape[:2], longest, device=vectors.device)
        starts = np.unique(self.labels, return_index=True)[1].tolist()
        for start, stop in zip(starts, [*starts[1:], len(vectors)], strict=True):
            features = self.features[start]
            result[start:stop, :, : len(features)] = vectors[start:stop] @ features.mT
        return result


class SelectionObjective(Protocol):
    """A query loss as a function of the weights on the pool.

    ``scores`` turns directions into ∂loss/∂w_i up to what all rows of a slot have in common (a shift and a
    positive factor), which is all that ranking needs. With ``averaging`` the loss depends on w_j/Σw_j only, and
    ∂loss/∂w_i = (score_i − Σ w·score/Σw)/Σw; otherwise ∂loss/∂w_i = score_i.
    """

    @property
    def averaging(self) -> bool: ...

    @property
    def columns(self) -> int:
        """Return m, the number of vectors in a slot's direction."""
        ...

    def at_pool(
        self, table: FeatureTable, tasks: TaskRows, weights: PoolWeights | None = None
    ) -> SupportMeasures:
        """Measure at the weighted pool; None weighs every pool image alike, k_j in all."""
        ...

    def at_support(self, table: FeatureTable, tasks: TaskRows, support: Ints) -> SupportMeasures: ...

    def scores(
        self, block: torch.Tensor, directions: torch.Tensor, tasks: TaskRows, slots: Ints
    ) -> torch.Tensor:
        """Score a block of features [n, d] of one class for the slots [s] that use the class, [s, n]."""
        ...

    def swapper(self, exchange: Exchange) -> Swapper: ...


class Swapper(Protocol):
    """Exact losses of exchanging one support image at one place of b tasks, n the size of the largest class there."""

    def losses(self, number: int) -> torch.Tensor:
        """Return the query loss [b, n] with image ``number`` replaced by each row of the class; any behind its last."""
        ...

    def replace(self, number: int, places: torch.Tensor) -> None:
        """Put the images at places [b] of the classes in that position."""
        ...


def logits(
    query: torch.Tensor, centres: torch.Tensor, distance: Distance, temperature: float
) -> torch.Tensor:
    """Compute the logits of a prototype classifier [B, Q, W]: −‖q − c‖²/τ less the shared ‖q‖², or cos(q, c)/τ."""
    return prototype_scores(query, centres, distance=distance, scale=1.0) / temperature


def batch_logits(
    batch: QueryBatch, centres: torch.Tensor, distance: Distance, temperature: float
) -> torch.Tensor:
    """Compute the logits [B, Q, W] of a batch, −∞ where a task has no such class."""
    out = logits(batch.query, centres, distance, temperature)
    return out.masked_fill(~batch.mask[:, None, :], -torch.inf)


def centre_gradient(
    query: torch.Tensor,
    centres: torch.Tensor,
    out: torch.Tensor,
    slope: torch.Tensor,
    distance: Distance,
    temperature: float,
) -> torch.Tensor:
    """Compute g = ∂loss/∂c [B, W, d], given the logits ``out`` and D = ∂loss/∂logits [B, Q, W].

    Squared Euclidean: g_j = 2/τ · (Σ_i D_ij q_i − c_j Σ_i D_ij).
    Cosine:            g_j = 1/(τ‖c_j‖) · (Σ_i D_ij q̂_i − ĉ_j Σ_i D_ij cos_ij).
    """
    if distance == "cosine":
        length: torch.Tensor = torch.linalg.vector_norm(centres, dim=-1, keepdim=True).clamp_min(1e-12)
        pulled = slope.mT @ torch.nn.functional.normalize(query, dim=-1)
        along = (slope * out * temperature).sum(-2)[..., None]
        return (pulled - along * centres / length) / (temperature * length)
    return 2 / temperature * (slope.mT @ query - slope.sum(-2)[..., None] * centres)


def class_sums(table: FeatureTable, tasks: TaskRows) -> torch.Tensor:
    """Sum the features of each slot's class that may be selected [S, d]."""
    labels, where = np.unique(tasks.plan.classes.values, return_inverse=True)
    sums = torch.stack([table.class_sum(int(label)).float() for label in labels])
    return sums[torch.from_numpy(where.reshape(-1)).to(table.device)]


def weighted_means(table: FeatureTable, tasks: TaskRows, weights: PoolWeights) -> torch.Tensor:
    """Compute Σ w f / Σ w over each slot's class [S, d], one product per block of a class."""
    result = torch.empty(tasks.plan.slots, table.dim, device=table.device)
    for label, slots in by_class(tasks):
        stacked = torch.stack([weights[s] for s in slots])
        total = torch.zeros(len(slots), table.dim, device=table.device)
        for start, block in table.blocks(label):
            total += stacked[:, start : start + len(block)] @ block
        result[torch.from_numpy(slots).to(table.device)] = total / stacked.sum(-1, keepdim=True)
    return result


def slot_tensor(values: torch.Tensor, batch: QueryBatch) -> torch.Tensor:
    """Turn [S, ...] into [B, W, ...] with zeros where a task has no such class."""
    taken = values[torch.from_numpy(batch.slots).to(values.device)]
    return taken * batch.mask.reshape(*batch.mask.shape, *[1] * (taken.ndim - 2))


def less_queries(sums: torch.Tensor, batch: QueryBatch, pool: torch.Tensor) -> torch.Tensor:
    """Pool means [B, W, d] from class sums [B, W, d]: take the task's own queries out, divide by the pool's size."""
    own = torch.nn.functional.one_hot(batch.pooled.clamp_min(0), batch.mask.shape[1]).to(sums.dtype)
    own = own * (batch.pooled >= 0)[..., None]
    return (sums - own.mT @ batch.barred) / pool.clamp_min(1)[..., None]


def support_centres(table: FeatureTable, tasks: TaskRows, support: Ints) -> torch.Tensor:
    """Return the mean [S, d] of each slot's support rows, a bounded number of rows in memory at a time."""
    total = torch.zeros(tasks.plan.slots, table.dim, device=table.device)
    slot = np.repeat(np.arange(tasks.plan.slots), tasks.plan.shots.values)
    for start in range(0, len(support), _GATHERED_ROWS):
        part = slice(start, start + _GATHERED_ROWS)
        total.index_add_(0, torch.from_numpy(slot[part]).to(table.device), table.gather(support[part]))
    return total / torch.from_numpy(tasks.plan.shots.values).to(table.device, torch.float32)[:, None]


def pool_counts(table: FeatureTable, tasks: TaskRows) -> torch.Tensor:
    """Return ``pool_sizes`` [S] as a float32 tensor."""
    return torch.from_numpy(pool_sizes(table, tasks)).to(table.device, torch.float32)


@dataclass(frozen=True)
class PrototypeObjective:
    """Query loss of a prototype classifier, the class's prototype being the weighted mean of its pool.

    ``loss`` "cross-entropy" is the paper's; "error" is 1 − p(true class).
    """

    loss: Loss = "error"
    distance: Distance = "euclidean"
    temperature: float = 0.1

    averaging: ClassVar[bool] = True
    columns: ClassVar[int] = 1

    def at_pool(
        self, table: FeatureTable, tasks: TaskRows, weights: PoolWeights | None = None
    ) -> SupportMeasures:
        if weights is not None:
            return self._measures(table, tasks, weighted_means(table, tasks, weights))
        return self._measures(table, tasks, class_sums(table, tasks), pool_counts(table, tasks))

    def at_support(self, table: FeatureTable, tasks: TaskRows, support: Ints) -> SupportMeasures:
        return self._measures(table, tasks, support_centres(table, tasks, support))

    def _measures(
        self,
        table: FeatureTable,
        tasks: TaskRows,
        centres: torch.Tensor,
        pool: torch.Tensor | None = None,
    ) -> SupportMeasures:
        """Measure at prototypes [S, d]; with the ``pool`` sizes [S] they are sums that still hold the queries."""
        loss, accuracy = torch.empty(2, len(tasks), device=table.device)
        directions = torch.empty(tasks.plan.slots, 1, table.dim, device=table.device)
        for batch in batches(table, tasks):
            own = slot_tensor(centres, batch)
            if pool is not None:
                own = less_queries(own, batch, slot_tensor(pool, batch))
            out = self._fill(directions, batch, own)
            loss[batch.tasks] = query_loss(out, batch.label, self.loss)
            accuracy[batch.tasks] = query_accuracy(out, batch.label)
        return SupportMeasures(loss, accuracy[None], directions)

    def scores(
        self, block: torch.Tensor, directions: torch.Tensor, tasks: TaskRows, slots: Ints
    ) -> torch.Tensor:
        columns = torch.zeros(
            -(-len(slots) // COLUMN_BLOCK) * COLUMN_BLOCK, block.shape[1], device=block.device
        )
        columns[: len(slots)] = directions[slots, 0]
        return (columns @ block.mT)[: len(slots)]

    def swapper(self, exchange: Exchange) -> Swapper:
        return PrototypeSwapper(self, exchange)

    def _fill(self, directions: torch.Tensor, batch: QueryBatch, centres: torch.Tensor) -> torch.Tensor:
        """Write the batch's gradients in their slots; return the logits."""
        out = batch_logits(batch, centres, self.distance, self.temperature)
        slope = loss_slope(out, batch.label, self.loss)
        finite = out.masked_fill(~batch.mask[:, None, :], 0)  # 0·∞ of a class that is not there
        gradient = centre_gradient(batch.query, centres, finite, slope, self.distance, self.temperature)
        directions[torch.from_numpy(batch.slots).to(directions.device)[batch.mask], 0] = gradient[batch.mask]
        return out


class PrototypeSwapper:
    """An exchange moves one prototype, c' = c + (f_i − f_p)/k, so only one logit per query changes.

    With z' the changed logit, R = log Σ_{l≠j} exp z_l and s = ±1 (+ for the queries of class j):
    p(true) = a·σ(s·(z' − R)), where a = 1 for the queries of class j and exp(z_true − R) for the others.

    Kept are ``reach`` = −s·h·q·f/k for all queries and rows of the class [b, Q, n], made once for all k positions,
    and ``level`` = −s·h·q·c [b, Q], with h = 2/τ for squared distances and 1/τ for cosines. Then
    x = level − reach_p + reach_i is −s·h·q·c', and

    Euclidean: s·(R − z') = x + s·(R + ‖c'‖²/τ).        Cosine: s·(R − z') = x/‖c'‖ + s·R.
    """

    def __init__(self, objective: PrototypeObjective, exchange: Exchange) -> None:
        table, column, self.shots = exchange.table, exchange.column, exchange.shots
        self.objective, self.exchange = objective, exchange
        part, own = exchange.own_tasks()
        batch = one_batch(table, part)
        centres = slot_tensor(support_centres(table, part, own), batch)
        self.centre = centres[:, column].clone()
        self.places = torch.from_numpy(exchange.places()).to(table.device)
        self.images = table.gather(exchange.support[exchange.positions])  # [b, k, d]
        self.along = exchange.products(self.images)  # f_p·f_i [b, k, n]
        squares = [features.square().sum(-1) for features in exchange.features]
        self.square = torch.nn.utils.rnn.pad_sequence(squares, batch_first=True)  # ‖f_i‖² [b, n]

        out = batch_logits(batch, centres, objective.distance, objective.temperature)
        true = out.gather(-1, batch.label.clamp_min(0)[..., None]).squeeze(-1)
        out[:, :, column] = -torch.inf
        remainder = out.logsumexp(-1)  # R [b, Q]
        own_class = batch.label == column
        self.side = torch.where(own_class, 1.0, -1.0)
        self.fixed = self.side * remainder
        log_factor = torch.where(own_class, 0.0, true - remainder)
        real = batch.label >= 0
        self.share = real / real.sum(-1, keepdim=True)  # mean over real queries
        error = objective.loss == "error"
        constant = self.share if error else -self.share * log_factor.masked_fill(~real, 0)
        self.constant = constant.sum(-1, keepdim=True)
        self.share = self.share * log_factor.exp() if error else self.share

        cosine = objective.distance == "cosine"
        query = torch.nn.functional.normalize(batch.query, dim=-1) if cosine else batch.query
        factor = self.side * (-1 if cosine else -2) / objective.temperature
        self.reach = exchange.products(query).mul_(factor[..., None] / self.shots)
        self.level = self.reach.gather(2, self.places[:, None].expand(-1, query.shape[1], -1)).sum(2)

    def losses(self, number: int) -> torch.Tensor:
        """Return the query loss [b, n] with image ``number`` replaced by each row of the class."""
        k, objective = self.shots, self.objective
        base = self.centre - self.images[:, number] / k  # the prototype without that image
        along = (self.along.sum(1) - self.along[:, number]) / k  # of it
        square = base.square().sum(-1, keepdim=True) + 2 / k * along + self.square / k**2
        level = self.level - self._reach_of(self.places[:, number])
        if objective.distance == "cosine":
            behind = (self.reach + level[..., None]).div_(square.clamp_min(1e-24).sqrt()[:, None, :])
            behind += self.fixed[..., None]
        else:
            behind = self.side[..., None] * (square / objective.temperature)[:, None, :]
            behind += self.reach
            behind += (level + self.fixed)[..., None]
        if objective.loss == "error":
            return self.constant - behind.neg_().sigmoid_().mul_(self.share[..., None]).sum(1)
        each = torch.nn.functional.softplus(behind)
        return each.mul_(self.share[..., None]).sum(1) + self.constant

    def replace(self, number: int, places: torch.Tensor) -> None:
        """Put the images at places [b] of the classes in that position."""
        rows = self.exchange.table.rows(self.exchange.labels, places.cpu().numpy())
        images = self.exchange.table.gather(rows)
        self.centre += (images - self.images[:, number]) / self.shots
        self.level += self._reach_of(places) - self._reach_of(self.places[:, number])
        self.places[:, number], self.images[:, number] = places, images
        if number < self.shots - 1:  # nobody asks after the last
            self.along[:, number] = self.exchange.products(images[:, None])[:, 0]

    def _reach_of(self, places: torch.Tensor) -> torch.Tensor:
        """Return ``reach`` of one image per task [b, Q]."""
        index = places[:, None, None].expand(-1, self.reach.shape[1], -1)
        return self.reach.gather(2, index).squeeze(2)


OBJECTIVES = ("error", "prototype", "ridge", "task2vec")


def make_objective(
    name: str,
    *,
    temperature: float = 0.1,
    distance: Distance = "euclidean",
    classifier: str | None = None,
) -> SelectionObjective:
    """Make an objective by name: error (bounded), prototype (the paper's cross-entropy), ridge, task2vec.

    ``classifier`` "ridge" takes error or cross-entropy of ridge regression in place of prototypes.
    """
    loss: Loss = "error" if name == "error" else "cross-entropy"
    if name != "task2vec" and "ridge" not in (name, classifier):
        return PrototypeObjective(loss, distance, temperature)
    from longshot.tasks.selection.further_objectives import RidgeObjective, Task2VecObjective

    if name == "task2vec":
        return Task2VecObjective(distance, temperature)
    return RidgeObjective(temperature=temperature, loss=loss)
