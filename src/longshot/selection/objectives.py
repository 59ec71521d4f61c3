"""What a selection maximises: the query loss of a prototype classifier, and the interface of all objectives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
import torch

from longshot.core.arrays import Ints
from longshot.core.errors import UserError
from longshot.core.prototypes import prototype_scores
from longshot.selection import losses
from longshot.selection.table import FeatureTable
from longshot.selection.tasks import QueryBatch, SelectionTasks, batches, by_class, pool_sizes

COLUMN_BLOCK = (
    32  # slots per product: fixed and padded, so that a score does not depend on how many tasks there are
)
_GATHERED_ROWS = 8192  # support rows read at a time
Distance = Literal["euclidean", "cosine"]
PoolWeights = Sequence[
    torch.Tensor
]  # one vector per slot over all rows of its class, 0 at the task's own queries


@dataclass(frozen=True)
class SupportMeasures:
    """At one support per task, or at the weighted pools: ``loss`` and ``accuracy`` [T], and ``directions`` [S, m, d]
    for the next selection."""

    loss: torch.Tensor
    accuracy: torch.Tensor
    directions: torch.Tensor
    by_judge: torch.Tensor | None = None  # accuracies [J, T] where there are several judges

    @property
    def accuracies(self) -> torch.Tensor:
        """Of every judge [J, T]."""
        return self.accuracy[None] if self.by_judge is None else self.by_judge

    def take(self, tasks: SelectionTasks, members: Ints) -> SupportMeasures:
        """What was measured on some of the tasks."""
        slots = tasks.plan.classes.indices(members)
        index = torch.from_numpy(members).to(self.loss.device)
        return SupportMeasures(
            self.loss[index], self.accuracy[index], self.directions[torch.from_numpy(slots).to(index.device)]
        )


@dataclass(frozen=True, eq=False)
class Exchange:
    """b tasks that share a class, and k, at one place: what a swapper is made from."""

    table: FeatureTable
    tasks: SelectionTasks
    support: Ints  # rows of all tasks, flat over slots
    members: Ints  # [b] positions of the tasks
    column: int  # the place of the class in each task
    features: torch.Tensor  # [n, d] rows of the class

    def own_tasks(self) -> tuple[SelectionTasks, Ints]:
        """The b tasks alone, and their support rows."""
        return self.tasks.take(self.members), self.support[self.tasks.support_positions(self.members)]


class SelectionObjective(Protocol):
    """A query loss as a function of the weights on the pool.

    ``scores`` turns directions into ∂loss/∂w_i up to what all rows of a slot have in common (a shift and a
    positive factor), which is all that ranking needs. With ``averaging`` the loss depends on w_j/Σw_j only, and
    ∂loss/∂w_i = (score_i − Σ w·score/Σw)/Σw; otherwise ∂loss/∂w_i = score_i.
    """

    name: ClassVar[str]

    @property
    def averaging(self) -> bool: ...

    @property
    def columns(self) -> int:
        """m, the vectors a slot's direction consists of."""
        ...

    def settings(self) -> dict[str, Any]: ...

    def at_pool(
        self, table: FeatureTable, tasks: SelectionTasks, weights: PoolWeights | None = None
    ) -> SupportMeasures:
        """At the weighted pool; None weighs every pool image alike, k_j in all."""
        ...

    def at_support(self, table: FeatureTable, tasks: SelectionTasks, support: Ints) -> SupportMeasures: ...

    def scores(
        self, block: torch.Tensor, directions: torch.Tensor, tasks: SelectionTasks, slots: Ints
    ) -> torch.Tensor:
        """Scores [s, n] of a block of features [n, d] of one class for the slots [s] that use the class."""
        ...

    def swapper(self, exchange: Exchange) -> Swapper: ...


class Swapper(Protocol):
    """Exact losses of exchanging one support image, for b tasks that share a class at one place."""

    def losses(self, number: int) -> torch.Tensor:
        """Query loss [b, n] with the slot's image ``number`` replaced by each row of the class."""
        ...

    def replace(self, number: int, rows: torch.Tensor) -> None:
        """Put the class's rows [b] in that position."""
        ...


def logits(
    query: torch.Tensor, centres: torch.Tensor, distance: Distance, temperature: float
) -> torch.Tensor:
    """Prototype classifier [B, Q, W]: −‖q − c‖²/τ less the ‖q‖² that all classes share, or cos(q, c)/τ."""
    return prototype_scores(query, centres, distance=distance, scale=1.0) / temperature


def centre_gradient(
    query: torch.Tensor,
    centres: torch.Tensor,
    out: torch.Tensor,
    slope: torch.Tensor,
    distance: Distance,
    temperature: float,
) -> torch.Tensor:
    """g = ∂loss/∂c [B, W, d], given the logits ``out`` and D = ∂loss/∂logits [B, Q, W].

    Squared Euclidean: g_j = 2/τ · (Σ_i D_ij q_i − c_j Σ_i D_ij).
    Cosine:            g_j = 1/(τ‖c_j‖) · (Σ_i D_ij q̂_i − ĉ_j Σ_i D_ij cos_ij).
    """
    if distance == "cosine":
        length: torch.Tensor = torch.linalg.vector_norm(centres, dim=-1, keepdim=True).clamp_min(1e-12)
        pulled = slope.mT @ torch.nn.functional.normalize(query, dim=-1)
        along = (slope * out * temperature).sum(-2)[..., None]
        return (pulled - along * centres / length) / (temperature * length)
    return 2 / temperature * (slope.mT @ query - slope.sum(-2)[..., None] * centres)


def class_sums(table: FeatureTable, tasks: SelectionTasks) -> torch.Tensor:
    """Sum of the features of each slot's class that may be selected [S, d]."""
    labels, where = np.unique(tasks.classes, return_inverse=True)
    sums = torch.stack([table.class_sum(int(label)).float() for label in labels])
    return sums[torch.from_numpy(where.reshape(-1)).to(table.device)]


def weighted_means(table: FeatureTable, tasks: SelectionTasks, weights: PoolWeights) -> torch.Tensor:
    """Σ w f / Σ w over each slot's class [S, d], one product per block of a class."""
    result = torch.empty(tasks.slots, table.dim, device=table.device)
    for label, slots in by_class(tasks):
        stacked = torch.stack([weights[s] for s in slots])
        total = torch.zeros(len(slots), table.dim, device=table.device)
        for start, block in table.blocks(label):
            total += stacked[:, start : start + len(block)] @ block
        result[torch.from_numpy(slots).to(table.device)] = total / stacked.sum(-1, keepdim=True)
    return result


def slot_tensor(values: torch.Tensor, batch: QueryBatch) -> torch.Tensor:
    """[S, ...] → [B, W, ...] with zeros where a task has no such class."""
    taken = values[torch.from_numpy(batch.slots).to(values.device)]
    return taken * batch.mask.reshape(*batch.mask.shape, *[1] * (taken.ndim - 2))


def less_queries(sums: torch.Tensor, batch: QueryBatch, pool: torch.Tensor) -> torch.Tensor:
    """Pool means [B, W, d] from class sums [B, W, d]: take the task's own queries out, divide by the pool's size."""
    own = torch.nn.functional.one_hot(batch.pooled.clamp_min(0), batch.mask.shape[1]).to(sums.dtype)
    own = own * (batch.pooled >= 0)[..., None]
    return (sums - own.mT @ batch.query) / pool.clamp_min(1)[..., None]


def support_centres(table: FeatureTable, tasks: SelectionTasks, support: Ints) -> torch.Tensor:
    """Mean [S, d] of each slot's support rows, a bounded number of rows in memory at a time."""
    total = torch.zeros(tasks.slots, table.dim, device=table.device)
    slot = np.repeat(np.arange(tasks.slots), tasks.shots)
    for start in range(0, len(support), _GATHERED_ROWS):
        part = slice(start, start + _GATHERED_ROWS)
        total.index_add_(0, torch.from_numpy(slot[part]).to(table.device), table.gather(support[part]))
    return total / torch.from_numpy(tasks.shots).to(table.device, torch.float32)[:, None]


def pool_counts(table: FeatureTable, tasks: SelectionTasks) -> torch.Tensor:
    """``pool_sizes`` [S] as a float32 tensor."""
    return torch.from_numpy(pool_sizes(table, tasks)).to(table.device, torch.float32)


@dataclass(frozen=True)
class PrototypeObjective:
    """Query loss of a prototype classifier, the class's prototype being the weighted mean of its pool.

    ``loss`` "cross-entropy" is the paper's; "error" is 1 − p(true class).
    """

    loss: losses.Loss = "error"
    distance: Distance = "euclidean"
    temperature: float = 0.1

    name: ClassVar[str] = "prototype"
    averaging: ClassVar[bool] = True
    columns: ClassVar[int] = 1

    def settings(self) -> dict[str, Any]:
        return asdict(self)

    def at_pool(
        self, table: FeatureTable, tasks: SelectionTasks, weights: PoolWeights | None = None
    ) -> SupportMeasures:
        if weights is not None:
            return self._measures(table, tasks, weighted_means(table, tasks, weights))
        return self._measures(table, tasks, class_sums(table, tasks), pool_counts(table, tasks))

    def at_support(self, table: FeatureTable, tasks: SelectionTasks, support: Ints) -> SupportMeasures:
        return self._measures(table, tasks, support_centres(table, tasks, support))

    def _measures(
        self,
        table: FeatureTable,
        tasks: SelectionTasks,
        centres: torch.Tensor,
        pool: torch.Tensor | None = None,
    ) -> SupportMeasures:
        """At prototypes [S, d]; with the sizes of the ``pool`` [S] they are sums that hold the queries still."""
        loss, accuracy = torch.empty(2, len(tasks), device=table.device)
        directions = torch.empty(tasks.slots, 1, table.dim, device=table.device)
        for batch in batches(table, tasks):
            own = slot_tensor(centres, batch)
            if pool is not None:
                own = less_queries(own, batch, slot_tensor(pool, batch))
            out = self._fill(directions, batch, own)
            loss[batch.tasks] = losses.value(out, batch.label, self.loss)
            accuracy[batch.tasks] = losses.correct(out, batch.label)
        return SupportMeasures(loss, accuracy, directions)

    def scores(
        self, block: torch.Tensor, directions: torch.Tensor, tasks: SelectionTasks, slots: Ints
    ) -> torch.Tensor:
        columns = torch.zeros(
            -(-len(slots) // COLUMN_BLOCK) * COLUMN_BLOCK, block.shape[1], device=block.device
        )
        columns[: len(slots)] = directions[slots, 0]
        return (columns @ block.mT)[: len(slots)]

    def swapper(self, exchange: Exchange) -> Swapper:
        from longshot.selection.swaps import PrototypeSwapper

        return PrototypeSwapper(self, exchange)

    def _fill(self, directions: torch.Tensor, batch: QueryBatch, centres: torch.Tensor) -> torch.Tensor:
        """Write the batch's gradients in their slots; return the logits."""
        out = logits(batch.query, centres, self.distance, self.temperature)
        out = out.masked_fill(~batch.mask[:, None, :], -torch.inf)
        slope = losses.slope(out, batch.label, self.loss)
        finite = out.masked_fill(~batch.mask[:, None, :], 0)  # 0·∞ of a class that is not there
        gradient = centre_gradient(batch.query, centres, finite, slope, self.distance, self.temperature)
        directions[torch.from_numpy(batch.slots).to(directions.device)[batch.mask], 0] = gradient[batch.mask]
        return out


NAMES = ("error", "prototype", "ridge", "task2vec")
CLASSIFIERS = ("protonet", "ridge")  # what a judge may classify by


def make_objective(
    name: str,
    *,
    temperature: float | None = None,
    distance: Distance = "euclidean",
    classifier: str | None = None,
) -> SelectionObjective:
    """An objective by its name: error (bounded), prototype (the paper's cross-entropy), ridge, task2vec.

    ``classifier`` "ridge" takes error or cross-entropy of ridge regression in place of prototypes.
    """
    if distance not in ("euclidean", "cosine"):
        raise UserError(f"Unknown distance '{distance}'; there are euclidean and cosine.")
    if temperature is not None and not temperature > 0:
        raise UserError(f"The temperature is {temperature}, but must be above 0.")
    scale = 0.1 if temperature is None else temperature
    if name in ("error", "prototype"):
        loss: losses.Loss = "error" if name == "error" else "cross-entropy"
        if classifier == "ridge":
            return _ridge(scale, loss)
        return PrototypeObjective(loss, distance, scale)
    if name == "ridge":
        return _ridge(scale, "cross-entropy")
    if name == "task2vec":
        from longshot.selection.task2vec import Task2VecObjective

        return Task2VecObjective(distance, scale)
    raise UserError(f"Unknown objective '{name}'; there are {', '.join(NAMES)}.")


def _ridge(temperature: float, loss: losses.Loss) -> SelectionObjective:
    from longshot.selection.ridge import RidgeObjective

    return RidgeObjective(temperature=temperature, loss=loss)
