"""Several judges: tables side by side, and one loss over the losses of all.

Everything that selects works with one table and one objective. Here both are made of several, each judge with
features of its own width and with its own classifier. The columns of the joint table are theirs side by side, so that
a class is still scored block by block, by one product per judge.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from longshot.base import Ints, TaskRows
from longshot.tasks.selection.objectives import (
    Exchange,
    PoolWeights,
    SelectionObjective,
    SupportMeasures,
    Swapper,
)
from longshot.tasks.selection.table import FeatureTable

Judging: TypeAlias = Literal["mean", "worst", "least"]
JUDGINGS: tuple[Judging, ...] = ("mean", "worst", "least")


class JointTable(FeatureTable):
    """Tables of the same rows and classes, their features side by side."""

    def __init__(self, parts: Sequence[FeatureTable]) -> None:
        first = parts[0]
        super().__init__(
            first.array,
            first.offsets,
            device=first.device,
            names=first.names,
            row_block=first.row_block,
            allowed=first.allowed,
        )
        self.parts = tuple(parts)

    @property
    def dim(self) -> int:
        """The widths of all tables together."""
        return sum(part.dim for part in self.parts)

    def blocks(self, label: int) -> Iterator[tuple[int, torch.Tensor]]:
        """The class's features, each table's own beside the other's."""
        for blocks in zip(*(part.blocks(label) for part in self.parts), strict=True):
            yield blocks[0][0], torch.cat([block for _, block in blocks], dim=1)

    def gather(self, rows: NDArray[np.int64]) -> torch.Tensor:
        """Features of any rows: [..., d] float32."""
        return torch.cat([part.gather(rows) for part in self.parts], dim=-1)

    def class_sum(self, label: int) -> torch.Tensor:
        """Σ of the class's features [d]."""
        return torch.cat([part.class_sum(label) for part in self.parts])


@dataclass(frozen=True)
class JointObjective:
    """One loss of J objectives L_1 … L_J, each on its own part of a :class:`JointTable`.

    mean:   L = Σ_j L_j / J.
    worst:  L = max_j L_j: that of the judge who fails most.
    least:  L = min_j L_j: that of the judge who fails least, so that raising it spares no judge.

    A gradient of the maximum or minimum is that of the judge who attains it in the task, the first of equals.
    Directions [S, m, Σd + J] hold the judges' own side by side, then the share that each has in the loss.
    """

    objectives: tuple[SelectionObjective, ...]
    widths: tuple[int, ...]  # of the judges' features
    judging: Judging = "mean"

    @property
    def averaging(self) -> bool:
        return all(objective.averaging for objective in self.objectives)

    @property
    def alike(self) -> bool:
        """Whether all turn scores into gradients in the same way."""
        return len({objective.averaging for objective in self.objectives}) == 1

    @property
    def columns(self) -> int:
        return max(objective.columns for objective in self.objectives)

    def at_pool(
        self, table: FeatureTable, tasks: TaskRows, weights: PoolWeights | None = None
    ) -> SupportMeasures:
        parts = zip(self.objectives, _parts(table), strict=True)
        return self._joined(tasks, [each.at_pool(part, tasks, weights) for each, part in parts])

    def at_support(self, table: FeatureTable, tasks: TaskRows, support: Ints) -> SupportMeasures:
        parts = zip(self.objectives, _parts(table), strict=True)
        return self._joined(tasks, [each.at_support(part, tasks, support) for each, part in parts])

    def combine(self, losses: torch.Tensor) -> torch.Tensor:
        """The losses [J, ...] of the judges as one [...]."""
        if self.judging == "mean":
            return losses.mean(0)
        return losses.amax(0) if self.judging == "worst" else losses.amin(0)

    def _joined(self, tasks: TaskRows, measures: Sequence[SupportMeasures]) -> SupportMeasures:
        losses = torch.stack([each.loss for each in measures])
        slots, columns = tasks.plan.slots, self.columns
        directions = [
            torch.nn.functional.pad(each.directions, (0, 0, 0, columns - each.directions.shape[1]))
            for each in measures
        ]
        shares = self._shares(losses)[torch.from_numpy(tasks.plan.classes.owners).to(losses.device)]
        directions.append(shares[:, None, :].expand(slots, columns, len(measures)))
        accuracies = torch.cat([each.accuracies for each in measures])
        return SupportMeasures(self.combine(losses), accuracies, torch.cat(directions, dim=2))

    def _shares(self, losses: torch.Tensor) -> torch.Tensor:
        """What each judge counts in each task [T, J]."""
        number = len(losses)
        if self.judging == "mean":
            return torch.full(losses.T.shape, 1 / number, device=losses.device)
        order = torch.arange(number, device=losses.device)[:, None]
        first = torch.where(losses == self.combine(losses), order, number).amin(0)
        return torch.nn.functional.one_hot(first, number).to(losses.dtype)

    def scores(
        self, block: torch.Tensor, directions: torch.Tensor, tasks: TaskRows, slots: Ints
    ) -> torch.Tensor:
        """The judges' scores [s, n], each times its share; as gradients where they are not all of one kind."""
        total = torch.zeros(len(slots), len(block), device=block.device)
        lines = torch.from_numpy(slots).to(directions.device)
        shares = directions[lines, 0, -len(self.objectives) :]
        shots = torch.from_numpy(tasks.plan.shots.values[slots]).to(shares)
        for objective, own, share in zip(self.objectives, _columns(self.widths), shares.T, strict=True):
            if objective.averaging and not self.alike:
                share = share / shots  # ∂loss/∂w_i = (score_i − …)/Σw, and Σw = k
            part = directions[:, : objective.columns, own]
            total += share[:, None] * objective.scores(block[:, own], part, tasks, slots)
        return total

    def swapper(self, exchange: Exchange) -> Swapper:
        return JointSwapper(self, exchange)


class JointSwapper:
    """Exact losses of exchanging one support image, of all judges together."""

    def __init__(self, objective: JointObjective, exchange: Exchange) -> None:
        self.objective = objective
        parts = zip(objective.objectives, _parts(exchange.table), _columns(objective.widths), strict=True)
        self.swappers = [
            each.swapper(replace(exchange, table=part, features=exchange.features[:, own]))
            for each, part, own in parts
        ]

    def losses(self, number: int) -> torch.Tensor:
        """Joint loss [b, n] with image ``number`` of the slot replaced by each row of the class."""
        return self.objective.combine(torch.stack([each.losses(number) for each in self.swappers]))

    def replace(self, number: int, rows: torch.Tensor) -> None:
        """Put the class's rows [b] in that position."""
        for each in self.swappers:
            each.replace(number, rows)


def join(
    tables: Sequence[FeatureTable], objectives: Sequence[SelectionObjective], judging: Judging = "mean"
) -> tuple[FeatureTable, SelectionObjective]:
    """The table and the objective of one judge or of several."""
    if len(tables) == 1:
        return tables[0], objectives[0]
    widths = tuple(table.dim for table in tables)
    return JointTable(tables), JointObjective(tuple(objectives), widths, judging)


def _parts(table: FeatureTable) -> tuple[FeatureTable, ...]:
    assert isinstance(table, JointTable)
    return table.parts


def _columns(widths: Sequence[int]) -> list[slice]:
    """Which columns of a joint table are whose."""
    ends = np.cumsum(widths).tolist()
    return [slice(end - width, end) for width, end in zip(widths, ends, strict=True)]
