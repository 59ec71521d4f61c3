"""Query loss of weighted ridge regression (R2D2) in primal form: d×d systems, whatever the size of the pool."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import ClassVar
from weakref import WeakKeyDictionary

import numpy as np
import torch

from longshot.base import Ints, TaskRows
from longshot.tasks.selection import losses
from longshot.tasks.selection.objectives import Exchange, PoolWeights, SupportMeasures, Swapper
from longshot.tasks.selection.table import FeatureTable
from longshot.tasks.selection.tasks import own_rows

_SCATTER_BYTES = 512 << 20  # of class scatter matrices kept; others are computed again when needed
_SOLVE_BYTES = 64 << 20  # of candidate systems solved at a time in a greedy round


@dataclass(frozen=True)
class RidgeObjective:
    """Loss of the query under logits QB/τ with B = (XᵀWX + λI)⁻¹XᵀWY [d, way].

    ∂L/∂w_i = x_iᵀH(y_i − Bᵀx_i) with H = (XᵀWX + λI)⁻¹ Qᵀ ∂L/∂logits / τ. A slot's direction is its columns of
    (H, B). Uniform weights are k_j/|P_j|, so that a class weighs as much as its support will and λ means the same.
    """

    penalty: float = 1.0
    temperature: float = 0.1
    loss: losses.Loss = "cross-entropy"
    # per table, which must be the very object: a table that is gone takes its matrices with it
    _scatter: WeakKeyDictionary[FeatureTable, OrderedDict[int, torch.Tensor]] = field(
        default_factory=WeakKeyDictionary, init=False, repr=False, compare=False
    )

    averaging: ClassVar[bool] = False
    columns: ClassVar[int] = 2

    def at_pool(
        self, table: FeatureTable, tasks: TaskRows, weights: PoolWeights | None = None
    ) -> SupportMeasures:
        loss, accuracy = torch.empty(2, len(tasks), device=table.device)
        directions = torch.empty(tasks.plan.slots, 2, table.dim, device=table.device)
        for task in range(len(tasks)):
            first, last = tasks.plan.slots_of(task)
            system = self.penalty * torch.eye(table.dim, device=table.device)
            right = torch.empty(table.dim, last - first, device=table.device)
            for slot in range(first, last):
                matrix, vector = self._slot_moments(
                    table, tasks, slot, None if weights is None else weights[slot]
                )
                system += matrix
                right[:, slot - first] = vector
            factor = torch.linalg.cholesky(system)
            solution = torch.cholesky_solve(right, factor)  # B
            query, label = _queries(table, tasks, task)
            out = query @ solution[None] / self.temperature
            slope = losses.slope(out, label, self.loss)[0]
            pull = torch.cholesky_solve(query[0].mT @ slope / self.temperature, factor)  # H
            directions[first:last, 0], directions[first:last, 1] = pull.mT, solution.mT
            loss[task] = losses.value(out, label, self.loss)[0]
            accuracy[task] = losses.correct(out, label)[0]
        return SupportMeasures(loss, accuracy[None], directions)

    def at_support(self, table: FeatureTable, tasks: TaskRows, support: Ints) -> SupportMeasures:
        loss, accuracy = torch.empty(2, len(tasks), device=table.device)
        directions = torch.empty(tasks.plan.slots, 2, table.dim, device=table.device)
        bounds = tasks.plan.support_offsets
        for task in range(len(tasks)):
            first, last = tasks.plan.slots_of(task)
            images = table.gather(support[bounds[first] : bounds[last]])
            target = _targets(tasks, task).to(images)
            # The support is small: the dual form, k×k, is the same B. H by Woodbury's identity.
            kernel = images @ images.mT + self.penalty * torch.eye(len(images), device=table.device)
            factor = torch.linalg.cholesky(kernel)
            solution = images.mT @ torch.cholesky_solve(target, factor)
            query, label = _queries(table, tasks, task)
            out = query @ solution[None] / self.temperature
            slope = losses.slope(out, label, self.loss)[0]
            pull = query[0].mT @ slope / self.temperature
            pull = (pull - images.mT @ torch.cholesky_solve(images @ pull, factor)) / self.penalty
            directions[first:last, 0], directions[first:last, 1] = pull.mT, solution.mT
            loss[task] = losses.value(out, label, self.loss)[0]
            accuracy[task] = losses.correct(out, label)[0]
        return SupportMeasures(loss, accuracy[None], directions)

    def scores(
        self, block: torch.Tensor, directions: torch.Tensor, tasks: TaskRows, slots: Ints
    ) -> torch.Tensor:
        task_of_slot = tasks.plan.classes.owners
        result = torch.empty(len(slots), len(block), device=block.device)
        for line, slot in enumerate(slots):
            task = int(task_of_slot[slot])
            first, last = tasks.plan.slots_of(task)
            vectors = directions[first:last].transpose(0, 1).reshape(-1, block.shape[1])
            pull, fit = (vectors @ block.mT).reshape(2, last - first, -1)  # [way, n] each
            result[line] = pull[slot - first] - (pull * fit).sum(0)
        return result

    def swapper(self, exchange: Exchange) -> Swapper:
        return RidgeSwapper(self, exchange)

    def _slot_moments(
        self, table: FeatureTable, tasks: TaskRows, slot: int, weights: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """(XᵀWX [d, d], XᵀW1 [d]) of one slot's pool."""
        label = int(tasks.plan.classes.values[slot])
        if weights is not None:
            matrix = torch.zeros(table.dim, table.dim, device=table.device)
            vector = torch.zeros(table.dim, device=table.device)
            for start, block in table.blocks(label):
                part = weights[start : start + len(block), None] * block
                matrix += part.mT @ block
                vector += part.sum(0)
            return matrix, vector
        own = table.gather(own_rows(table, tasks, slot))
        share = float(tasks.plan.shots.values[slot]) / (table.size(label) - len(own))
        matrix = self._class_scatter(table, label) - own.mT @ own
        return share * matrix, share * (table.class_sum(label).float() - own.sum(0))

    def _class_scatter(self, table: FeatureTable, label: int) -> torch.Tensor:
        """Σ f fᵀ over a class [d, d]; the most recently used ones are kept."""
        matrices = self._scatter.setdefault(table, OrderedDict())
        if label not in matrices:
            matrix = torch.zeros(table.dim, table.dim, device=table.device)
            for _, block in table.blocks(label):
                matrix += block.mT @ block
            while matrices and (len(matrices) + 1) * matrix.nbytes > _SCATTER_BYTES:
                matrices.popitem(last=False)
            matrices[label] = matrix
        matrices.move_to_end(label)
        return matrices[label]


class RidgeSwapper:
    """Exact losses of exchanging one support image under ridge regression: a batch of k×k systems per image."""

    def __init__(self, objective: RidgeObjective, exchange: Exchange) -> None:
        self.objective, self.features = objective, exchange.features
        table, tasks, support = exchange.table, exchange.tasks, exchange.support
        self.known, self.target, self.query, self.label, self.start = [], [], [], [], []
        bounds = tasks.plan.support_offsets
        for task in exchange.members:
            first, last = tasks.plan.slots_of(task)
            self.known.append(table.gather(support[bounds[first] : bounds[last]]))
            self.target.append(_targets(tasks, int(task)).to(self.known[-1]))
            query, label = _queries(table, tasks, int(task))
            self.query.append(query)
            self.label.append(label)
            self.start.append(int(bounds[first + exchange.column] - bounds[first]))

    def losses(self, number: int) -> torch.Tensor:
        """Query loss [b, n] with image ``number`` of the slot replaced by each row of the class."""
        return torch.stack([self._task_losses(i, self.start[i] + number) for i in range(len(self.known))])

    def replace(self, number: int, rows: torch.Tensor) -> None:
        """Put the class's rows [b] in that position."""
        for i, row in enumerate(rows):
            self.known[i][self.start[i] + number] = self.features[row]

    def _task_losses(self, i: int, position: int) -> torch.Tensor:
        images, query, objective = self.known[i], self.query[i][0], self.objective
        kernel = images @ images.mT + objective.penalty * torch.eye(len(images), device=images.device)
        cross = query @ images.mT  # [Q, K]
        size = max(1, _SOLVE_BYTES // (4 * len(images) * (len(images) + len(query))))
        parts = []
        for features in [self.features[at : at + size] for at in range(0, len(self.features), size)]:
            gram = kernel.repeat(len(features), 1, 1)
            line = features @ images.mT
            line[:, position] = features.square().sum(-1) + objective.penalty
            gram[:, position, :] = line
            gram[:, :, position] = line
            reach = cross.repeat(len(features), 1, 1)
            reach[:, :, position] = features @ query.mT
            fit = torch.linalg.solve(gram, self.target[i].expand(len(features), -1, -1))
            out = reach @ fit / objective.temperature
            parts.append(losses.value(out, self.label[i].expand(len(features), -1), objective.loss))
        return torch.cat(parts)


def _queries(table: FeatureTable, tasks: TaskRows, task: int) -> tuple[torch.Tensor, torch.Tensor]:
    """One task's query features [1, Q, d] and labels [1, Q]."""
    label = torch.from_numpy(tasks.query_label.row(task).astype(np.int64))
    return table.gather(tasks.query.row(task))[None], label.to(table.device)[None]


def _targets(tasks: TaskRows, task: int) -> torch.Tensor:
    """One-hot labels of one task's support [K, way]."""
    shots = torch.from_numpy(tasks.plan.shots.row(task))
    return torch.nn.functional.one_hot(torch.repeat_interleave(torch.arange(len(shots)), shots), len(shots))
