"""Choosing the support of a task so that a classifier fails on its query (or succeeds): numerics only.

Nothing here knows datasets or testbeds. The inputs are a class-major feature array, the bounds of its classes, and
tasks as integer arrays; the outputs are support rows and what was measured on the way. Selection goes in chunks of
tasks whose memory is bounded: start, refine, search, measure.

Everything that selects works with one table and one objective. For several judges both are made of several, each judge
with features of its own width and with its own classifier. The columns of the joint table are theirs side by side, so
that a class is still scored block by block, by one product per judge; one loss stands for the losses of all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from longshot.base import Crew, Ints, TaskRows, Tick, UserError, executor
from longshot.tasks.selection.algorithms import (
    DescentStart,
    Projection,
    descend,
    greedy_rounds,
    refine_rounds,
    select_rows,
)
from longshot.tasks.selection.feature_table import FeatureTable, check_tasks
from longshot.tasks.selection.objectives import (
    Exchange,
    PoolWeights,
    SelectionObjective,
    SupportMeasures,
    Swapper,
)

Judging: TypeAlias = Literal["mean", "worst", "least"]
JUDGINGS: tuple[Judging, ...] = ("mean", "worst", "least")


class JointTable(FeatureTable):
    """Tables of the same rows and classes, their features side by side."""

    def __init__(self, parts: Sequence[FeatureTable]) -> None:
        vars(self).update(vars(parts[0]))  # rows and classes, and what may be selected
        self.parts = tuple(parts)

    @property
    def dim(self) -> int:
        """Return the widths of all tables together."""
        return sum(part.dim for part in self.parts)

    def blocks(self, label: int) -> Iterator[tuple[int, torch.Tensor]]:
        """Yield the class's features, each table's own beside the other's."""
        for blocks in zip(*(part.blocks(label) for part in self.parts), strict=True):
            yield blocks[0][0], torch.cat([block for _, block in blocks], dim=1)

    def gather(self, rows: Ints) -> torch.Tensor:
        """Return the features of any rows: [..., d] float32."""
        return torch.cat([part.gather(rows) for part in self.parts], dim=-1)

    def class_sum(self, label: int) -> torch.Tensor:
        """Return the sum of the class's features [d]."""
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
        """Tell whether all objectives turn scores into gradients in the same way."""
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
        """Combine the losses [J, ...] of the judges into one [...]."""
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
        """Return how much each judge counts in each task [T, J]."""
        number = len(losses)
        if self.judging == "mean":
            return torch.full(losses.T.shape, 1 / number, device=losses.device)
        order = torch.arange(number, device=losses.device)[:, None]
        first = torch.where(losses == self.combine(losses), order, number).amin(0)
        return torch.nn.functional.one_hot(first, number).to(losses.dtype)

    def scores(
        self, block: torch.Tensor, directions: torch.Tensor, tasks: TaskRows, slots: Ints
    ) -> torch.Tensor:
        """Add up the judges' scores [s, n], each times its share; as gradients where they are not all of one kind."""
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
        parts = zip(objective.objectives, _parts(exchange.table), strict=True)
        self.swappers = [each.swapper(replace(exchange, table=part)) for each, part in parts]

    def losses(self, number: int) -> torch.Tensor:
        """Return the joint loss [b, n] with image ``number`` replaced by each row of the class."""
        return self.objective.combine(torch.stack([each.losses(number) for each in self.swappers]))

    def replace(self, number: int, places: torch.Tensor) -> None:
        """Put the images at places [b] of the classes in that position."""
        for each in self.swappers:
            each.replace(number, places)


def join(
    tables: Sequence[FeatureTable], objectives: Sequence[SelectionObjective], judging: Judging = "mean"
) -> tuple[FeatureTable, SelectionObjective]:
    """Return the table and the objective of one judge, or those that join several."""
    if len(tables) == 1:
        return tables[0], objectives[0]
    widths = tuple(table.dim for table in tables)
    return JointTable(tables), JointObjective(tuple(objectives), widths, judging)


def _parts(table: FeatureTable) -> tuple[FeatureTable, ...]:
    assert isinstance(table, JointTable)
    return table.parts


def _columns(widths: Sequence[int]) -> list[slice]:
    """Return which columns of a joint table belong to each judge."""
    ends = np.cumsum(widths).tolist()
    return [slice(end - width, end) for width, end in zip(widths, ends, strict=True)]


_CHUNK_BYTES = 128 << 20  # of directions held at a time
_WEIGHT_BYTES = 64 << 20  # of pool weights held at a time, where weights are needed at all


@dataclass(frozen=True, eq=False)
class Selection:
    """Selected supports, and what was measured on each task."""

    support: Ints  # rows, flat over slots (bounds: ``TaskPlan.support_offsets``)
    loss: NDArray[np.float32]  # [T] the objective's query loss
    accuracies: NDArray[np.float32]  # [J, T] of every judge
    steps: Ints  # [T] gradient steps made
    refined: Ints  # [T] Frank–Wolfe rounds kept
    searched: Ints  # [T] greedy rounds that changed something


def select(
    table: FeatureTable,
    tasks: TaskRows,
    objective: SelectionObjective,
    *,
    largest: bool = True,
    start: DescentStart = "uniform",
    steps: int = 1,
    step_size: float = 200.0,
    projection: Projection = "l1",
    refine: int = 0,
    greedy: int = 0,
    entropy: Sequence[int] = (0,),
) -> Selection:
    """Select by FastDiffSel the supports on which the query loss is large (small with ``largest=False``).

    The default (uniform start, one step) needs no weights: step size and projection cannot change its order.
    ``refine`` Frank–Wolfe rounds follow, then ``greedy`` rounds of exact search, each keeping only what is harder.
    """
    check_tasks(tasks, table)
    plain = start == "uniform" and steps == 1
    if not plain and isinstance(objective, JointObjective) and not objective.alike:
        raise UserError(
            "Judges by prototypes and judges by ridge regression choose together in one step from the uniform start",
            "leave {start} and {steps} out, or give all judges one method",
        )

    descent = {"start": start, "steps": steps, "step_size": step_size, "projection": projection}
    how = _How(largest, refine, greedy, None if plain else {**descent, "entropy": tuple(entropy)})
    return _run(table, tasks, objective, how, None)


def search(
    table: FeatureTable,
    tasks: TaskRows,
    objective: SelectionObjective,
    support: Ints,
    *,
    rounds: int = 3,
    largest: bool = True,
) -> Selection:
    """Search greedily and exactly from a given support (Agarwal et al.: from a random one)."""
    check_tasks(tasks, table)
    if table.allowed is not None and not table.allowed[support].all():
        raise ValueError("a support row to start from may not be selected")
    return _run(table, tasks, objective, _How(largest, 0, rounds), support.astype(np.int64))


def measure_each(
    table: FeatureTable, tasks: TaskRows, objective: SelectionObjective, support: Ints
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Measure given supports: the objective's query loss [T] and the accuracy of every judge [J, T]."""
    measured = _run(table, tasks, objective, None, support)
    return measured.loss, measured.accuracies


@dataclass(frozen=True)
class _How:
    """How supports are chosen: from ``start`` by gradients unless they are given, then rounds of two kinds."""

    largest: bool
    refine: int
    greedy: int
    descent: Mapping[str, Any] | None = None  # None: one step from the uniform start, which needs no weights


_Part: TypeAlias = tuple[TaskRows, Ints | None]  # some tasks, and their support where it is given


class _Selector:
    """What computes a part: it holds features and objective. Without ``how`` it only measures."""

    def __init__(self, table: FeatureTable, objective: SelectionObjective, how: _How | None) -> None:
        self.table, self.objective, self.how = table, objective, how

    @torch.no_grad()
    def __call__(self, part: _Part, tick: Tick) -> Selection:
        table, objective, how, (tasks, chosen) = self.table, self.objective, self.how, part
        steps, refined, searched = np.zeros((3, len(tasks)), np.int64)
        if how is not None:
            chosen, steps = self._first(how, *part)
            toward = {"largest": how.largest}
            chosen, refined = refine_rounds(table, tasks, objective, chosen, how.refine, **toward)
            chosen, searched = greedy_rounds(table, tasks, objective, chosen, how.greedy, **toward)
        assert chosen is not None
        measured = objective.at_support(table, tasks, chosen)
        loss, accuracies = measured.loss.cpu().numpy(), measured.accuracies.cpu().numpy()
        tick(len(tasks))
        return Selection(chosen, loss, accuracies, steps, refined, searched)

    def _first(self, how: _How, tasks: TaskRows, support: Ints | None) -> tuple[Ints, Ints]:
        """Return the support to go on from, and the gradient steps it took."""
        table, objective = self.table, self.objective
        if support is not None:
            return support, np.zeros(len(tasks), np.int64)
        if how.descent is None:
            directions = objective.at_pool(table, tasks).directions
            rows = select_rows(table, tasks, objective, directions, largest=how.largest)
            return rows, np.ones(len(tasks), np.int64)
        return descend(table, tasks, objective, **how.descent, largest=how.largest)


def _run(
    table: FeatureTable,
    tasks: TaskRows,
    objective: SelectionObjective,
    how: _How | None,
    given_support: Ints | None,
) -> Selection:
    judges = len(objective.objectives) if isinstance(objective, JointObjective) else 1
    support = np.empty(len(tasks.support.values), dtype=np.int64)
    loss = np.empty(len(tasks), dtype=np.float32)
    accuracies = np.empty((judges, len(tasks)), dtype=np.float32)
    steps, refined, searched = np.zeros((3, len(tasks)), dtype=np.int64)
    for members, chosen in _spread(table, tasks, objective, how, given_support):
        support[tasks.support.indices(members)] = chosen.support
        loss[members], accuracies[:, members] = chosen.loss, chosen.accuracies
        steps[members], refined[members], searched[members] = chosen.steps, chosen.refined, chosen.searched
    return Selection(support, loss, accuracies, steps, refined, searched)


def _spread(
    table: FeatureTable,
    tasks: TaskRows,
    objective: SelectionObjective,
    how: _How | None,
    support: Ints | None,
) -> Iterator[tuple[Ints, Selection]]:
    """Yield positions of some tasks and what was chosen for them, as parts are finished by whoever computes."""
    pool = executor()
    # Where several compute, each gets some parts, so that none waits long for the last.
    most = max(1, -(-len(tasks) // (4 * pool.slots))) if pool.slots > 1 else len(tasks)
    weights = how is not None and how.descent is not None
    cuts = list(_chunks(table, tasks, objective, weights=weights, most=most))

    def parts() -> Iterator[tuple[int, _Part]]:
        for number, members in enumerate(cuts):
            rows = None if support is None else support[tasks.support.indices(members)]
            yield number, (tasks.take(members), rows)

    crew = Crew(_Selector, (table, objective, how), torch.get_num_threads())
    with closing(pool.map(crew, parts(), count=len(cuts), chunk=1)) as finished:
        for number, chosen in finished:
            yield cuts[number], chosen


def _chunks(
    table: FeatureTable, tasks: TaskRows, objective: SelectionObjective, *, weights: bool, most: int
) -> Iterator[Ints]:
    """Cut the tasks into runs of at most ``most`` whose directions (and pool weights) fit in a number of bytes."""
    slots = objective.columns * table.dim * 4 * tasks.ways
    cost = slots / _CHUNK_BYTES
    if weights:
        sizes = table.sizes[tasks.plan.classes.values]
        held = 2 * 4 * np.add.reduceat(sizes, tasks.plan.classes.offsets[:-1]) if len(tasks) else np.zeros(0)
        cost = np.maximum(cost, held / _WEIGHT_BYTES)
    start, total = 0, 0.0
    for task, here in enumerate(cost):
        if task > start and (total + here > 1 or task - start >= most):
            yield np.arange(start, task)
            start, total = task, 0.0
        total += here
    if start < len(tasks):
        yield np.arange(start, len(tasks))
