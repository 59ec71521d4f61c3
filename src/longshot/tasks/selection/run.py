"""Selection end to end, in chunks of tasks whose memory is bounded: start, refine, search, measure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from longshot.base import Crew, Ints, TaskRows, Tick, UserError, executor
from longshot.tasks.selection.descent import DescentStart, Projection, descend
from longshot.tasks.selection.fastdiffsel import refine_rounds, select_rows
from longshot.tasks.selection.greedy import greedy_rounds
from longshot.tasks.selection.joint import JointObjective
from longshot.tasks.selection.objectives import SelectionObjective
from longshot.tasks.selection.table import FeatureTable
from longshot.tasks.selection.tasks import check_tasks

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
    """FastDiffSel: the supports on which the query loss is large (small with ``largest=False``).

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

    how = _How(largest, refine, greedy, plain, start, steps, step_size, projection, tuple(entropy))
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
    """Greedy search from a given support (Agarwal et al.: a random one), exact."""
    check_tasks(tasks, table)
    if not table.selectable(support).all():
        raise ValueError("a support row to start from may not be selected")
    return _run(table, tasks, objective, _How(largest, 0, rounds), support.astype(np.int64))


def measure_each(
    table: FeatureTable, tasks: TaskRows, objective: SelectionObjective, support: Ints
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The objective's query loss [T] and the accuracy of every judge [J, T] of given supports."""
    loss = np.empty(len(tasks), dtype=np.float32)
    accuracies = np.empty((judges_in(objective), len(tasks)), dtype=np.float32)
    for members, chosen in _spread(table, tasks, objective, None, support):
        loss[members], accuracies[:, members] = chosen.loss, chosen.accuracies
    return loss, accuracies


def judges_in(objective: SelectionObjective) -> int:
    """J, the number of judges."""
    return len(objective.objectives) if isinstance(objective, JointObjective) else 1


@dataclass(frozen=True)
class _How:
    """How supports are chosen: from ``start`` by gradients unless they are given, then rounds of two kinds."""

    largest: bool
    refine: int
    greedy: int
    plain: bool = True  # one step from the uniform start: no weights are needed
    start: DescentStart = "uniform"
    steps: int = 1
    step_size: float = 200.0
    projection: Projection = "l1"
    entropy: tuple[int, ...] = (0,)


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
        """The support to go on from, and the gradient steps it took."""
        table, objective = self.table, self.objective
        if support is not None:
            return support, np.zeros(len(tasks), np.int64)
        if how.plain:
            directions = objective.at_pool(table, tasks).directions
            rows = select_rows(table, tasks, objective, directions, largest=how.largest)
            return rows, np.ones(len(tasks), np.int64)
        return descend(
            table,
            tasks,
            objective,
            start=how.start,
            steps=how.steps,
            step_size=how.step_size,
            projection=how.projection,
            entropy=how.entropy,
            largest=how.largest,
        )


def _run(
    table: FeatureTable,
    tasks: TaskRows,
    objective: SelectionObjective,
    how: _How,
    given_support: Ints | None,
) -> Selection:
    support = np.empty(len(tasks.support.values), dtype=np.int64)
    loss = np.empty(len(tasks), dtype=np.float32)
    accuracies = np.empty((judges_in(objective), len(tasks)), dtype=np.float32)
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
    """Positions of some tasks and what was chosen for them, as parts are finished by whoever computes."""
    pool = executor()
    # Where several compute, each gets some parts, so that none waits long for the last.
    most = max(1, -(-len(tasks) // (4 * pool.slots))) if pool.slots > 1 else len(tasks)
    weights = how is not None and not how.plain
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
    """Runs of at most ``most`` tasks whose directions (and pool weights, where needed) fit in a number of bytes."""
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
