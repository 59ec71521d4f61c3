"""Selection end to end, in chunks of tasks whose memory is bounded: start, refine, search, measure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from longshot.core.arrays import Ints
from longshot.core.errors import UserError
from longshot.selection.descent import DescentStart, Projection, descend
from longshot.selection.fastdiffsel import select_rows
from longshot.selection.greedy import greedy_rounds
from longshot.selection.joint import JointObjective
from longshot.selection.objectives import SelectionObjective
from longshot.selection.refine import refine_rounds
from longshot.selection.table import FeatureTable
from longshot.selection.tasks import SelectionTasks

_CHUNK_BYTES = 128 << 20  # of directions held at a time
_WEIGHT_BYTES = 64 << 20  # of pool weights held at a time, where weights are needed at all

Report = Callable[[int], None]


@dataclass(frozen=True, eq=False)
class Selection:
    """Selected supports, and what was measured on each task."""

    support: Ints  # rows, flat over slots (bounds: ``SelectionTasks.support_offsets``)
    loss: NDArray[np.float32]  # [T] the objective's query loss
    accuracy: NDArray[np.float32]  # [T], mean over judges
    accuracies: NDArray[np.float32]  # [J, T] of every judge
    steps: Ints  # [T] gradient steps made
    refined: Ints  # [T] Frank–Wolfe rounds kept
    searched: Ints  # [T] greedy rounds that changed something


def select(
    table: FeatureTable,
    tasks: SelectionTasks,
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
    report: Report | None = None,
) -> Selection:
    """FastDiffSel: the supports on which the query loss is large (small with ``largest=False``).

    The default (uniform start, one step) needs no weights: step size and projection cannot change its order.
    ``refine`` Frank–Wolfe rounds follow, then ``greedy`` rounds of exact search, each keeping only what is harder.
    """
    _check_options(start, steps, step_size, projection, refine, greedy)
    tasks.check(table)
    plain = start == "uniform" and steps == 1
    if not plain and isinstance(objective, JointObjective) and not objective.alike:
        raise UserError(
            "Judges by prototypes and judges by ridge regression choose together in one step from the uniform start",
            "leave {start} and {steps} out, or give all judges one method",
        )

    def first(part: SelectionTasks) -> tuple[Ints, Ints]:
        if plain:
            directions = objective.at_pool(table, part).directions
            return select_rows(table, part, objective, directions, largest=largest), np.ones(
                len(part), np.int64
            )
        return descend(
            table,
            part,
            objective,
            start=start,
            steps=steps,
            step_size=step_size,
            projection=projection,
            entropy=entropy,
            largest=largest,
        )

    return _run(table, tasks, objective, first, refine, greedy, largest, report, weights=not plain)


def search(
    table: FeatureTable,
    tasks: SelectionTasks,
    objective: SelectionObjective,
    support: Ints,
    *,
    rounds: int = 3,
    largest: bool = True,
    report: Report | None = None,
) -> Selection:
    """Greedy search from a given support (Agarwal et al.: a random one), exact."""
    if rounds < 1:
        raise UserError(f"Greedy search was asked for {rounds} rounds, but needs at least 1.")
    tasks.check(table)
    if not table.selectable(support).all():
        raise ValueError("a support row to start from may not be selected")
    start = 0

    def first(part: SelectionTasks) -> tuple[Ints, Ints]:
        nonlocal start  # chunks come in order
        taken = support[start : start + int(part.shots.sum())]
        start += len(taken)
        return taken, np.zeros(len(part), np.int64)

    return _run(table, tasks, objective, first, 0, rounds, largest, report, weights=False)


def measure(
    table: FeatureTable, tasks: SelectionTasks, objective: SelectionObjective, support: Ints
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The objective's query loss and accuracy [T] of given supports."""
    loss, accuracies = measure_each(table, tasks, objective, support)
    return loss, accuracies.mean(0)


def measure_each(
    table: FeatureTable, tasks: SelectionTasks, objective: SelectionObjective, support: Ints
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The objective's query loss [T] and the accuracy of every judge [J, T] of given supports."""
    loss = np.empty(len(tasks), dtype=np.float32)
    accuracies = np.empty((judges_in(objective), len(tasks)), dtype=np.float32)
    for members in _chunks(table, tasks, objective, weights=False):
        part = tasks.take(members)
        measured = objective.at_support(table, part, support[tasks.support_positions(members)])
        loss[members], accuracies[:, members] = measured.loss.cpu().numpy(), measured.accuracies.cpu().numpy()
    return loss, accuracies


def judges_in(objective: SelectionObjective) -> int:
    """J, the number of judges."""
    return len(objective.objectives) if isinstance(objective, JointObjective) else 1


def _run(
    table: FeatureTable,
    tasks: SelectionTasks,
    objective: SelectionObjective,
    first: Callable[[SelectionTasks], tuple[Ints, Ints]],
    refine: int,
    greedy: int,
    largest: bool,
    report: Report | None,
    *,
    weights: bool,
) -> Selection:
    support = np.empty(int(tasks.shots.sum()), dtype=np.int64)
    loss, accuracy = np.empty((2, len(tasks)), dtype=np.float32)
    accuracies = np.empty((judges_in(objective), len(tasks)), dtype=np.float32)
    steps, refined, searched = np.zeros((3, len(tasks)), dtype=np.int64)
    with torch.no_grad():
        for members in _chunks(table, tasks, objective, weights=weights):
            part = tasks.take(members)
            chosen, steps[members] = first(part)
            chosen, refined[members] = refine_rounds(table, part, objective, chosen, refine, largest=largest)
            chosen, searched[members] = greedy_rounds(table, part, objective, chosen, greedy, largest=largest)
            measured = objective.at_support(table, part, chosen)
            support[tasks.support_positions(members)] = chosen
            loss[members], accuracy[members] = measured.loss.cpu().numpy(), measured.accuracy.cpu().numpy()
            accuracies[:, members] = measured.accuracies.cpu().numpy()
            if report is not None:
                report(len(members))
    return Selection(support, loss, accuracy, accuracies, steps, refined, searched)


def _chunks(
    table: FeatureTable, tasks: SelectionTasks, objective: SelectionObjective, *, weights: bool
) -> Iterator[Ints]:
    """Runs of tasks whose directions (and pool weights, where needed) fit in a fixed number of bytes."""
    slots = objective.columns * table.dim * 4 * tasks.ways
    cost = slots / _CHUNK_BYTES
    if weights:
        sizes = table.sizes[tasks.classes]
        held = 2 * 4 * np.add.reduceat(sizes, tasks.offsets[:-1]) if len(tasks) else np.zeros(0)
        cost = np.maximum(cost, held / _WEIGHT_BYTES)
    start, total = 0, 0.0
    for task, here in enumerate(cost):
        if task > start and total + here > 1:
            yield np.arange(start, task)
            start, total = task, 0.0
        total += here
    if start < len(tasks):
        yield np.arange(start, len(tasks))


def _check_options(
    start: str, steps: int, step_size: float, projection: str, refine: int, greedy: int
) -> None:
    if start not in ("uniform", "random"):
        raise UserError(f"Unknown start '{start}'; there are uniform and random.")
    if projection not in ("l1", "simplex", "none"):
        raise UserError(f"Unknown projection '{projection}'; there are l1, simplex and none.")
    if steps < 1:
        raise UserError(f"The number of steps is {steps}, but must be at least 1.")
    if not step_size > 0:
        raise UserError(f"The step size is {step_size}, but must be above 0; use 'easy' for descent.")
    if refine < 0 or greedy < 0:
        raise UserError(f"Rounds cannot be negative: refine is {refine}, greedy is {greedy}.")
