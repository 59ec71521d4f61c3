"""Objectives beside prototypes: ridge regression and Task2Vec.

Query loss of weighted ridge regression (R2D2) in primal form: d×d systems, whatever the size of the pool.

Task2Vec pushes the Fisher embedding of the support away from the query's. The probe is a linear softmax head on the
features, whose class vectors are the pool's prototypes and stay fixed. The diagonal of its Fisher information for head
weight (j, l) is E_x[p_j(x)(1 − p_j(x))·x_l²], which is the embedding:

    t(Q)    = mean over the query,
    t(P, w) = mean over classes of the w-weighted mean over the class's pool,
    L       = mean over (j, l) of (t(P, w) − t(Q))².
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np
import torch

from longshot.base import Ints, TaskRows
from longshot.tasks.selection.feature_table import FeatureTable, barred_places, barred_rows, batches, by_class
from longshot.tasks.selection.objectives import (
    Distance,
    Exchange,
    Loss,
    PoolWeights,
    SupportMeasures,
    Swapper,
    batch_logits,
    class_sums,
    less_queries,
    logits,
    loss_slope,
    pool_counts,
    query_accuracy,
    query_loss,
    slot_tensor,
    support_centres,
    weighted_means,
)

_Solved: TypeAlias = tuple[torch.Tensor, Callable[[torch.Tensor], torch.Tensor]]
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
    loss: Loss = "cross-entropy"
    # per table, which must be the very object: a table that is gone takes its matrices with it
    _scatter: WeakKeyDictionary[FeatureTable, OrderedDict[int, torch.Tensor]] = field(
        default_factory=WeakKeyDictionary, init=False, repr=False, compare=False
    )

    averaging: ClassVar[bool] = False
    columns: ClassVar[int] = 2

    def at_pool(
        self, table: FeatureTable, tasks: TaskRows, weights: PoolWeights | None = None
    ) -> SupportMeasures:
        def solve(task: int) -> _Solved:
            first, last = tasks.plan.slots_of(task)
            system = self.penalty * torch.eye(table.dim, device=table.device)
            right = torch.empty(table.dim, last - first, device=table.device)
            for slot in range(first, last):
                own = None if weights is None else weights[slot]
                matrix, vector = self._slot_moments(table, tasks, slot, own)
                system += matrix
                right[:, slot - first] = vector
            factor = torch.linalg.cholesky(system)
            return torch.cholesky_solve(right, factor), lambda pull: torch.cholesky_solve(pull, factor)

        return self._measures(table, tasks, solve)

    def at_support(self, table: FeatureTable, tasks: TaskRows, support: Ints) -> SupportMeasures:
        bounds = tasks.plan.support_offsets

        def solve(task: int) -> _Solved:
            first, last = tasks.plan.slots_of(task)
            images = table.gather(support[bounds[first] : bounds[last]])
            target = _targets(tasks, task).to(images)
            # The support is small: the dual form, k×k, is the same B. H by Woodbury's identity.
            kernel = images @ images.mT + self.penalty * torch.eye(len(images), device=table.device)
            factor = torch.linalg.cholesky(kernel)

            def pulled(pull: torch.Tensor) -> torch.Tensor:
                return (pull - images.mT @ torch.cholesky_solve(images @ pull, factor)) / self.penalty

            return images.mT @ torch.cholesky_solve(target, factor), pulled

        return self._measures(table, tasks, solve)

    def _measures(
        self, table: FeatureTable, tasks: TaskRows, solve: Callable[[int], _Solved]
    ) -> SupportMeasures:
        """Measure at the solution B [d, way] of every task; ``solve`` gives what turns Qᵀ ∂L/∂logits / τ into H."""
        loss, accuracy = torch.empty(2, len(tasks), device=table.device)
        directions = torch.empty(tasks.plan.slots, 2, table.dim, device=table.device)
        for task in range(len(tasks)):
            first, last = tasks.plan.slots_of(task)
            solution, pulled = solve(task)
            query, label = _queries(table, tasks, task)
            out = query @ solution[None] / self.temperature
            pull = pulled(query[0].mT @ loss_slope(out, label, self.loss)[0] / self.temperature)
            directions[first:last, 0], directions[first:last, 1] = pull.mT, solution.mT
            loss[task] = query_loss(out, label, self.loss)[0]
            accuracy[task] = query_accuracy(out, label)[0]
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
        """Return (XᵀWX [d, d], XᵀW1 [d]) of one slot's pool."""
        label = int(tasks.plan.classes.values[slot])
        if weights is not None:
            matrix = torch.zeros(table.dim, table.dim, device=table.device)
            vector = torch.zeros(table.dim, device=table.device)
            for start, block in table.blocks(label):
                part = weights[start : start + len(block), None] * block
                matrix += part.mT @ block
                vector += part.sum(0)
            return matrix, vector
        own = table.gather(barred_rows(table, tasks, np.array([slot]))[1])
        share = float(tasks.plan.shots.values[slot]) / (table.size(label) - len(own))
        matrix = self._class_scatter(table, label) - own.mT @ own
        return share * matrix, share * (table.class_sum(label).float() - own.sum(0))

    def _class_scatter(self, table: FeatureTable, label: int) -> torch.Tensor:
        """Return Σ f fᵀ over a class [d, d]; the most recently used ones are kept."""
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
        """Return the query loss [b, n] with image ``number`` replaced by each row of the class."""
        each = [self._task_losses(i, self.start[i] + number) for i in range(len(self.known))]
        return torch.nn.utils.rnn.pad_sequence(each, batch_first=True)

    def replace(self, number: int, places: torch.Tensor) -> None:
        """Put the images at places [b] of the classes in that position."""
        for i, row in enumerate(places):
            self.known[i][self.start[i] + number] = self.features[i][row]

    def _task_losses(self, i: int, position: int) -> torch.Tensor:
        images, query, objective = self.known[i], self.query[i][0], self.objective
        kernel = images @ images.mT + objective.penalty * torch.eye(len(images), device=images.device)
        cross = query @ images.mT  # [Q, K]
        size = max(1, _SOLVE_BYTES // (4 * len(images) * (len(images) + len(query))))
        parts = []
        for features in torch.split(self.features[i], size):
            gram = kernel.repeat(len(features), 1, 1)
            line = features @ images.mT
            line[:, position] = features.square().sum(-1) + objective.penalty
            gram[:, position, :] = line
            gram[:, :, position] = line
            reach = cross.repeat(len(features), 1, 1)
            reach[:, :, position] = features @ query.mT
            fit = torch.linalg.solve(gram, self.target[i].expand(len(features), -1, -1))
            out = reach @ fit / objective.temperature
            parts.append(query_loss(out, self.label[i].expand(len(features), -1), objective.loss))
        return torch.cat(parts)


def _queries(table: FeatureTable, tasks: TaskRows, task: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return one task's query features [1, Q, d] and labels [1, Q]."""
    label = torch.from_numpy(tasks.query_label.row(task).astype(np.int64))
    return table.gather(tasks.query.row(task))[None], label.to(table.device)[None]


def _targets(tasks: TaskRows, task: int) -> torch.Tensor:
    """Return the one-hot labels of one task's support [K, way]."""
    shots = torch.from_numpy(tasks.plan.shots.row(task))
    return torch.nn.functional.one_hot(torch.repeat_interleave(torch.arange(len(shots)), shots), len(shots))


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
        """Measure at one embedding per task; accuracy is that of the prototypes ``centres``, all [S, d]."""
        residual = self._residual(table, tasks, probe, embedding)
        task_of_slot = torch.from_numpy(tasks.plan.classes.owners).to(table.device)
        ways = torch.from_numpy(tasks.ways).to(residual)
        size = ways[task_of_slot][:, None] * table.dim
        loss = torch.zeros(len(tasks), device=table.device)
        loss.index_add_(0, task_of_slot, ((residual * size / 2).square() / size).sum(-1))
        accuracy = torch.empty(len(tasks), device=table.device)
        for batch in batches(table, tasks):
            out = batch_logits(batch, slot_tensor(centres, batch), self.distance, self.temperature)
            accuracy[batch.tasks] = query_accuracy(out, batch.label)
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
        """Return p(1 − p) of each image under the probe [n, way]."""
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
        """Return w_i/Σw of a block's rows [n]; uniform without weights, 0 at the task's queries."""
        if weights is not None:
            return weights[slot][start : start + count] / weights[slot].sum()
        own = barred_places(table, tasks, np.array([slot]))[1]
        pool = table.size(int(tasks.plan.classes.values[slot])) - len(own)
        result = torch.full((count,), 1.0 / pool, device=table.device)
        own = own - start
        result[torch.from_numpy(own[(own >= 0) & (own < count)]).to(table.device)] = 0
        return result

    def _residual(
        self, table: FeatureTable, tasks: TaskRows, probe: torch.Tensor, embedding: torch.Tensor
    ) -> torch.Tensor:
        """Return ∂L/∂t(P, w) = 2(t(P, w) − t(Q))/(way·d) [S, d]."""
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
        """Return t(S) [S, d]: the slots of a task hold the lines of its embedding."""
        result = torch.empty_like(probe)
        bounds = tasks.plan.support_offsets
        for task in range(len(tasks)):
            first, last = tasks.plan.slots_of(task)
            images = table.gather(support[bounds[first] : bounds[last]])
            shots = tasks.plan.shots.values[first:last]
            share = torch.from_numpy(np.repeat(1 / (shots * len(shots)), shots)).to(images)
            information = self._information(images, probe[first:last]) * share[:, None]
            result[first:last] = information.mT @ images.square()
        return result


class Task2VecSwapper:
    """Exact losses of exchanging one support image: the embedding is linear in the images, the probe fixed.

    With e = t(S without p) − t(Q) and s = 1/(way·k), L_i = (‖e‖² + 2s⟨e, φ_i⟩ + s²‖φ_i‖²)/(way·d), where
    φ_i = p(1 − p) ⊗ x² has ‖φ_i‖² = Σ_j (p_j(1 − p_j))² · Σ_l x_l⁴.
    """

    def __init__(self, objective: Task2VecObjective, exchange: Exchange) -> None:
        table, (part, own) = exchange.table, exchange.own_tasks()
        directions = objective.at_support(table, part, own).directions
        self.shots, self.places = exchange.shots, torch.from_numpy(exchange.places()).to(table.device)
        self.squares = [features.square() for features in exchange.features]
        self.information, self.error = [], []
        for task, features in enumerate(exchange.features):
            first, last = part.plan.slots_of(task)
            self.information.append(objective._information(features, directions[first:last, 0]))
            self.error.append(directions[first:last, 1] * (last - first) * table.dim / 2)

    def losses(self, number: int) -> torch.Tensor:
        """Return the loss [b, n] with image ``number`` replaced by each row of the class."""
        each = [self._task_losses(i, number) for i in range(len(self.places))]
        return torch.nn.utils.rnn.pad_sequence(each, batch_first=True)

    def replace(self, number: int, places: torch.Tensor) -> None:
        """Put the images at places [b] of the classes in that position."""
        for i, (old, new) in enumerate(zip(self.places[:, number].tolist(), places.tolist(), strict=True)):
            change = self._embedding(i, new) - self._embedding(i, old)
            self.error[i] = self.error[i] + change * self._share(i)
        self.places[:, number] = places

    def _share(self, i: int) -> float:
        return 1.0 / (len(self.error[i]) * self.shots)

    def _embedding(self, i: int, row: int) -> torch.Tensor:
        """Return φ of one image of the class [way, d]."""
        return torch.outer(self.information[i][row], self.squares[i][row])

    def _task_losses(self, i: int, number: int) -> torch.Tensor:
        information, squares, share = self.information[i], self.squares[i], self._share(i)
        error = self.error[i] - share * self._embedding(i, int(self.places[i, number]))
        along = (information * (squares @ error.mT)).sum(-1)
        own = information.square().sum(-1) * squares.square().sum(-1)
        return (error.square().sum() + 2 * share * along + share**2 * own) / error.numel()
