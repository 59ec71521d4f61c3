"""Greedy search (Agarwal et al., 2021): exchange one support image at a time for the pool image that hurts most."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from longshot.base import Ints, TaskRows
from longshot.tasks.selection.objectives import Exchange, SelectionObjective
from longshot.tasks.selection.table import FeatureTable
from longshot.tasks.selection.tasks import own_places, rounded_shapes

_SWAP_BYTES = 64 << 20  # of candidate losses per query held at a time


def greedy_rounds(
    table: FeatureTable,
    tasks: TaskRows,
    objective: SelectionObjective,
    support: Ints,
    rounds: int,
    *,
    largest: bool = True,
) -> tuple[Ints, Ints]:
    """Run up to ``rounds`` rounds from ``support``: (support, rounds that changed something [T]).

    A round visits every support image, class after class; each is exchanged for the pool image (not a query, not in
    the support already, itself included) with the highest query loss (lowest with ``largest=False``), ties in favour
    of the lower row. A task whose round changed nothing is at a fixed point and is left alone.
    """
    support = support.copy()
    used = np.zeros(len(tasks), dtype=np.int64)
    active = np.arange(len(tasks), dtype=np.int64)
    for _ in range(rounds):
        before = support.copy()
        for column in range(int(tasks.ways[active].max(initial=0))):
            for label, groups in _groups(table, tasks, active[tasks.ways[active] > column], column):
                features = table.whole(label)
                for members in groups:
                    _visit(Exchange(table, tasks, support, members, column, features), objective, largest)
        task_of_row = np.repeat(tasks.plan.classes.owners, tasks.plan.shots.values)
        active = np.unique(task_of_row[support != before])
        used[active] += 1
        if not len(active):
            break
    return support, used


def _visit(exchange: Exchange, objective: SelectionObjective, largest: bool) -> None:
    """Exchange, one after another, the images of the slot; the support is changed in place."""
    table, tasks, support, members = exchange.table, exchange.tasks, exchange.support, exchange.members
    slots = tasks.plan.classes.offsets[members] + exchange.column
    bounds, label = tasks.plan.support_offsets, int(tasks.plan.classes.values[slots[0]])
    places = table.places(label, np.stack([support[bounds[s] : bounds[s + 1]] for s in slots]))
    swapper = objective.swapper(exchange)
    taken = torch.zeros(len(members), len(exchange.features), dtype=torch.bool, device=table.device)
    for line, slot in enumerate(slots):
        used = np.concatenate([own_places(table, tasks, int(slot)), places[line]])
        taken[line, torch.from_numpy(used).to(table.device)] = True
    lines = torch.arange(len(members), device=table.device)
    now = torch.from_numpy(places).to(table.device)
    for number in range(now.shape[1]):
        taken[lines, now[:, number]] = False
        gain = swapper.losses(number)
        gain = (gain if largest else -gain).masked_fill(taken, -torch.inf)
        best = _first_maximum(gain)
        swapper.replace(number, best)
        now[:, number] = best
        taken[lines, best] = True
    chosen = table.rows(label, now.cpu().numpy())
    for line, slot in enumerate(slots):
        support[bounds[slot] : bounds[slot + 1]] = chosen[line]


def _groups(
    table: FeatureTable, tasks: TaskRows, active: Ints, column: int
) -> Iterator[tuple[int, list[Ints]]]:
    """Tasks that share the class at ``column``, cut into groups of one k and one padded shape that fit in memory."""
    slots = tasks.plan.classes.offsets[active] + column
    shapes = rounded_shapes(tasks)[active]
    for label in np.unique(tasks.plan.classes.values[slots]):
        sharing = np.flatnonzero(tasks.plan.classes.values[slots] == label)
        kinds = np.concatenate([shapes[sharing], tasks.plan.shots.values[slots[sharing], None]], axis=1)
        groups = []
        for kind in np.unique(kinds, axis=0):
            members = active[sharing[(kinds == kind).all(1)]]
            size = max(1, _SWAP_BYTES // int(kind[1] * table.size(int(label)) * 4))
            groups += [members[i : i + size] for i in range(0, len(members), size)]
        yield int(label), groups


def _first_maximum(values: torch.Tensor) -> torch.Tensor:
    """Index of the largest entry per line [b]; among equals the first."""
    index = torch.arange(values.shape[1], device=values.device).expand_as(values)
    return torch.where(values == values.amax(1, keepdim=True), index, values.shape[1]).amin(1)
