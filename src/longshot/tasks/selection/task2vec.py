"""Task2Vec objective: push the Fisher embedding of the support away from the query's.

The probe is a linear softmax head on the features, whose class vectors are the pool's prototypes and stay fixed.
The diagonal of its Fisher information for head weight (j, l) is E_x[p_j(x)(1 − p_j(x))·x_l²], which is the embedding:

    t(Q)    = mean over the query,
    t(P, w) = mean over classes of the w-weighted mean over the class's pool,
    L       = mean over (j, l) of (t(P, w) − t(Q))².
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from longshot.base import Ints, TaskRows
from longshot.tasks.selection import losses
from longshot.tasks.selection.objectives import (
    Distance,
    Exchange,
    PoolWeights,
    SupportMeasures,
    Swapper,
    class_sums,
    less_queries,
    logits,
    pool_counts,
    slot_tensor,
    support_centres,
    weighted_means,
)
from longshot.tasks.selection.table import FeatureTable
from longshot.tasks.selection.tasks import batches, by_class, own_places


@dataclass(frozen=True)
class Task2VecObjective:
    """Mean squared distance of the query's and the weighted pool's Fisher embeddings; a slot's direction is its
    class vector of the probe and its line of 2(t(P, w) − t(Q))/(way·d). Accuracy is the prototype classifier's."""

    distance: Distance = "euclidean"
    temperature: float = 0.1

    averaging: ClassVar[bool] = True
    columns: ClassVar[int] = 2

    def at_pool(
        self, table: FeatureTable, tasks: TaskRows, weights: PoolWeights | None = None
    ) -> SupportMeasures:
        probe = self._probe(table, tasks)
        embedding = torch.zeros_like(probe)
        ways, task_of_slot = tasks.ways, tasks.plan.classes.owners
        for label, slots in by_class(tasks):
            for start, block in table.blocks(label):
                for slot in slots:
                    task = int(task_of_slot[slot])
                    slots_of_task = slice(*tasks.plan.slots_of(task))
                    share = self._shares(table, tasks, int(slot), weights, start, len(block))
                    information = self._information(block, probe[slots_of_task]) * share[:, None]
                    embedding[slots_of_task] += information.mT @ block.square() / int(ways[task])
        centres = probe if weights is None else weighted_means(table, tasks, weights)
        return self._measures(table, tasks, probe, embedding, centres)

    def at_support(self, table: FeatureTable, tasks: TaskRows, support: Ints) -> SupportMeasures:
        probe = self._probe(table, tasks)
        embedding = self._support_embedding(table, tasks, support, probe)
        return self._measures(table, tasks, probe, embedding, support_centres(table, tasks, support))

    def _measures(
        self,
        table: FeatureTable,
        tasks: TaskRows,
        probe: torch.Tensor,
        embedding: torch.Tensor,
        centres: torch.Tensor,
    ) -> SupportMeasures:
        """At one embedding per task; accuracy is that of the prototypes ``centres``, all [S, d]."""
        residual = self._residual(table, tasks, probe, embedding)
        task_of_slot = torch.from_numpy(tasks.plan.classes.owners).to(table.device)
        ways = torch.from_numpy(tasks.ways).to(residual)
        size = ways[task_of_slot][:, None] * table.dim
        loss = torch.zeros(len(tasks), device=table.device)
        loss.index_add_(0, task_of_slot, ((residual * size / 2).square() / size).sum(-1))
        accuracy = torch.empty(len(tasks), device=table.device)
        for batch in batches(table, tasks):
            out = logits(batch.query, slot_tensor(centres, batch), self.distance, self.temperature)
            accuracy[batch.tasks] = losses.correct(
                out.masked_fill(~batch.mask[:, None], -torch.inf), batch.label
            )
        return SupportMeasures(loss, accuracy[None], torch.stack([probe, residual], 1))

    def scores(
        self, block: torch.Tensor, directions: torch.Tensor, tasks: TaskRows, slots: Ints
    ) -> torch.Tensor:
        task_of_slot, squares = tasks.plan.classes.owners, block.square()
        result = torch.empty(len(slots), len(block), device=block.device)
        for line, slot in enumerate(slots):
            task = int(task_of_slot[slot])
            slots_of_task = slice(*tasks.plan.slots_of(task))
            information = self._information(block, directions[slots_of_task, 0])
            result[line] = (information * (squares @ directions[slots_of_task, 1].mT)).mean(-1)
        return result

    def swapper(self, exchange: Exchange) -> Swapper:
        return Task2VecSwapper(self, exchange)

    def _probe(self, table: FeatureTable, tasks: TaskRows) -> torch.Tensor:
        """Pool means [S, d]."""
        sums, sizes = class_sums(table, tasks), pool_counts(table, tasks)
        result = torch.empty_like(sums)
        for batch in batches(table, tasks):
            means = less_queries(slot_tensor(sums, batch), batch, slot_tensor(sizes, batch))
            result[torch.from_numpy(batch.slots).to(table.device)[batch.mask]] = means[batch.mask]
        return result

    def _information(self, features: torch.Tensor, probe: torch.Tensor) -> torch.Tensor:
        """p(1 − p) of each image under the probe [n, way]."""
        probability = logits(features, probe, self.distance, self.temperature).softmax(-1)
        return probability * (1 - probability)

    def _shares(
        self,
        table: FeatureTable,
        tasks: TaskRows,
        slot: int,
        weights: PoolWeights | None,
        start: int,
        count: int,
    ) -> torch.Tensor:
        """w_i/Σw of a block's rows [n]; uniform without weights, 0 at the task's queries."""
        if weights is not None:
            return weights[slot][start : start + count] / weights[slot].sum()
        own = own_places(table, tasks, slot)
        pool = table.size(int(tasks.plan.classes.values[slot])) - len(own)
        result = torch.full((count,), 1.0 / pool, device=table.device)
        own = own - start
        result[torch.from_numpy(own[(own >= 0) & (own < count)]).to(table.device)] = 0
        return result

    def _residual(
        self, table: FeatureTable, tasks: TaskRows, probe: torch.Tensor, embedding: torch.Tensor
    ) -> torch.Tensor:
        """∂L/∂t(P, w) = 2(t(P, w) − t(Q))/(way·d) [S, d]."""
        result = torch.empty_like(embedding)
        for task in range(len(tasks)):
            first, last = tasks.plan.slots_of(task)
            query = table.gather(tasks.query.row(task))
            target = self._information(query, probe[first:last]).mT @ query.square() / len(query)
            result[first:last] = 2 * (embedding[first:last] - target) / ((last - first) * table.dim)
        return result

    def _support_embedding(
        self, table: FeatureTable, tasks: TaskRows, support: Ints, probe: torch.Tensor
    ) -> torch.Tensor:
        """t(S) [S, d]: the slots of a task hold the lines of its embedding."""
        result = torch.empty_like(probe)
        bounds = tasks.plan.support_offsets
        for task in range(len(tasks)):
            first, last = tasks.plan.slots_of(task)
            images = table.gather(support[bounds[first] : bounds[last]])
            shots = tasks.plan.shots.values[first:last]
            share = torch.from_numpy(np.repeat(1 / (shots * len(shots)), shots)).to(images)
            result[first:last] = (
                self._information(images, probe[first:last]) * share[:, None]
            ).mT @ images.square()
        return result


class Task2VecSwapper:
    """Exact losses of exchanging one support image: the embedding is linear in the images, the probe fixed.

    With e = t(S without p) − t(Q) and s = 1/(way·k), L_i = (‖e‖² + 2s⟨e, φ_i⟩ + s²‖φ_i‖²)/(way·d), where
    φ_i = p(1 − p) ⊗ x² has ‖φ_i‖² = Σ_j (p_j(1 − p_j))² · Σ_l x_l⁴.
    """

    def __init__(self, objective: Task2VecObjective, exchange: Exchange) -> None:
        table, column, features = exchange.table, exchange.column, exchange.features
        part, own = exchange.own_tasks()
        directions = objective.at_support(table, part, own).directions
        label, bounds = (
            int(part.plan.classes.values[part.plan.classes.offsets[0] + column]),
            part.plan.support_offsets,
        )
        self.squares = features.square()
        self.information, self.error, self.rows = [], [], []
        for task in range(len(part)):
            first, last = part.plan.slots_of(task)
            slot = first + column
            self.information.append(objective._information(features, directions[first:last, 0]))
            self.error.append(directions[first:last, 1] * (last - first) * table.dim / 2)
            rows = table.places(label, own[bounds[slot] : bounds[slot + 1]])
            self.rows.append(torch.from_numpy(rows).to(table.device))
        self.shots = int(part.plan.shots.values[part.plan.classes.offsets[0] + column])

    def losses(self, number: int) -> torch.Tensor:
        """Loss [b, n] with image ``number`` of the slot replaced by each row of the class."""
        return torch.stack([self._task_losses(i, number) for i in range(len(self.rows))])

    def replace(self, number: int, rows: torch.Tensor) -> None:
        """Put the class's rows [b] in that position."""
        for i, row in enumerate(rows):
            old = int(self.rows[i][number])
            self.error[i] = self.error[i] + (
                self._embedding(i, int(row)) - self._embedding(i, old)
            ) * self._share(i)
            self.rows[i][number] = row

    def _share(self, i: int) -> float:
        return 1.0 / (len(self.error[i]) * self.shots)

    def _embedding(self, i: int, row: int) -> torch.Tensor:
        """φ of one row of the class [way, d]."""
        return torch.outer(self.information[i][row], self.squares[row])

    def _task_losses(self, i: int, number: int) -> torch.Tensor:
        information, share = self.information[i], self._share(i)
        error = self.error[i] - share * self._embedding(i, int(self.rows[i][number]))
        along = (information * (self.squares @ error.mT)).sum(-1)
        own = information.square().sum(-1) * self.squares.square().sum(-1)
        return (error.square().sum() + 2 * share * along + share**2 * own) / error.numel()
