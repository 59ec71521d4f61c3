"""The paper's algorithm as it is written: weights on the whole pool, steps along the gradient, projections.

Kept for faithfulness and for study. With the uniform start one step selects what ``fastdiffsel`` selects directly.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np
import torch

from longshot.base import Ints, TaskRows
from longshot.tasks.selection.objectives import SelectionObjective
from longshot.tasks.selection.table import FeatureTable
from longshot.tasks.selection.tasks import by_class, own_places

DescentStart: TypeAlias = Literal["uniform", "random"]
Projection: TypeAlias = Literal["l1", "simplex", "none"]


def start_weights(
    table: FeatureTable, tasks: TaskRows, start: DescentStart, entropy: Sequence[int]
) -> list[torch.Tensor]:
    """One weight vector per slot over all rows of its class, 0 at the task's queries.

    uniform: k_j/|P_j|, so that a class weighs what its support will weigh. random: U(0, 1), from a stream that
    depends on (entropy, task id, position in the task) alone.
    """
    result = []
    for slot, task in enumerate(tasks.plan.classes.owners):
        label = int(tasks.plan.classes.values[slot])
        own = own_places(table, tasks, slot)
        if start == "random":
            column = slot - int(tasks.plan.classes.offsets[task])
            stream = np.random.default_rng([*entropy, int(tasks.tasks[task]), column])
            values = stream.random(table.size(label), dtype=np.float32)
        else:
            pool = table.size(label) - len(own)
            values = np.full(table.size(label), tasks.plan.shots.values[slot] / pool, dtype=np.float32)
        values[own] = 0
        result.append(torch.from_numpy(values).to(table.device))
    return result


def descend(
    table: FeatureTable,
    tasks: TaskRows,
    objective: SelectionObjective,
    *,
    start: DescentStart = "random",
    steps: int = 1,
    step_size: float = 200.0,
    projection: Projection = "l1",
    entropy: Sequence[int] = (0,),
    largest: bool = True,
) -> tuple[Ints, Ints]:
    """Projected gradient steps on the weights, then the k_j largest weights: (support rows, steps made [T]).

    Projection drives many weights to exactly 0; among equal weights the one that was larger before the last
    projection goes first, then the lower row. A task in which a class has no positive weight left (the ℓ₁ ball
    allows it) has no prototype any more: its steps end there.
    """
    weights = start_weights(table, tasks, start, entropy)
    before = list(weights)
    made = np.zeros(len(tasks), dtype=np.int64)
    active = np.arange(len(tasks), dtype=np.int64)
    for _ in range(steps):
        part = tasks.take(active)
        slots = tasks.plan.classes.indices(active)
        moved, projected = _step(
            table,
            part,
            objective,
            [weights[s] for s in slots],
            step_size if largest else -step_size,
            projection,
        )
        for slot, raw, new in zip(slots, moved, projected, strict=True):
            before[slot], weights[slot] = raw, new
        made[active] += 1
        alive = np.array([float(w.sum()) > 1e-6 for w in projected])
        active = active[np.logical_and.reduceat(alive, part.plan.classes.offsets[:-1])]
        if not len(active):
            break
    return _extract(table, tasks, weights, before), made


def _step(
    table: FeatureTable,
    tasks: TaskRows,
    objective: SelectionObjective,
    weights: list[torch.Tensor],
    step_size: float,
    projection: Projection,
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """One step for every slot: (weights after the gradient step, weights after the projection)."""
    directions = objective.at_pool(table, tasks, weights).directions
    moved, projected = list(weights), list(weights)
    for label, slots in by_class(tasks):
        scores = torch.cat(
            [objective.scores(block, directions, tasks, slots) for _, block in table.blocks(label)], dim=1
        )
        now = torch.stack([weights[s] for s in slots])
        pool = pool_mask(table, tasks, slots)
        if objective.averaging:
            total = now.sum(-1, keepdim=True)
            scores = (scores - (now * scores).sum(-1, keepdim=True) / total) / total
        raw = torch.where(pool, now + step_size * scores, 0)
        radius = torch.from_numpy(tasks.plan.shots.values[slots]).to(raw)
        new = raw
        if projection == "l1":
            new = l1_ball(raw, radius)
        elif projection == "simplex":
            new = simplex(raw, radius, pool)
        for line, slot in enumerate(slots):
            moved[slot], projected[slot] = raw[line], new[line]
    return moved, projected


def pool_mask(table: FeatureTable, tasks: TaskRows, slots: Ints) -> torch.Tensor:
    """Rows of the slots' common class that are not queries of the slot's task [s, n]."""
    label = int(tasks.plan.classes.values[slots[0]])
    mask = np.ones((len(slots), table.size(label)), dtype=bool)
    for line, slot in enumerate(slots):
        mask[line, own_places(table, tasks, int(slot))] = False
    return torch.from_numpy(mask).to(table.device)


def _extract(
    table: FeatureTable, tasks: TaskRows, weights: list[torch.Tensor], before: list[torch.Tensor]
) -> Ints:
    """The k_j largest weights of each slot: by weight, then by weight before the projection, then by row."""
    result = np.empty(int(tasks.plan.shots.values.sum()), dtype=np.int64)
    bounds = tasks.plan.support_offsets
    for label, slots in by_class(tasks):
        pool = pool_mask(table, tasks, slots)
        first = torch.stack([before[s] for s in slots]).masked_fill(~pool, -torch.inf)
        order = first.sort(dim=1, descending=True, stable=True).indices
        second = torch.stack([weights[s] for s in slots]).masked_fill(~pool, -torch.inf).gather(1, order)
        ranked = order.gather(1, second.sort(dim=1, descending=True, stable=True).indices).cpu().numpy()
        for line, slot in enumerate(slots):
            result[bounds[slot] : bounds[slot + 1]] = table.rows(
                label, ranked[line, : tasks.plan.shots.values[slot]]
            )
    return result


def l1_ball(values: torch.Tensor, radius: torch.Tensor) -> torch.Tensor:
    """argmin ‖w − v‖₂ subject to ‖w‖₁ ≤ r: soft-thresholding of ``values`` [..., n], ``radius`` [...].

    Inside the ball it is the identity. Outside, w = sign(v)·max(|v| − λ, 0) with Σ|w| = r (Duchi et al., 2008).
    """
    size = values.abs()
    threshold = _threshold(size, radius)
    outside = size.sum(-1) > radius
    shrunk = values.sign() * (size - threshold[..., None]).clamp_min(0)
    return torch.where(outside[..., None], shrunk, values)


def simplex(values: torch.Tensor, radius: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
    """argmin ‖w − v‖₂ subject to w ≥ 0, Σw = r; entries outside ``mask`` stay 0.

    w = max(v − λ, 0). Unlike the ℓ₁ ball it always leaves a positive weight, so a weighted mean stays defined.
    """
    if mask is not None:
        values = values.masked_fill(~mask, -torch.inf)
    return (values - _threshold(values, radius)[..., None]).clamp_min(0)


def _threshold(values: torch.Tensor, radius: torch.Tensor) -> torch.Tensor:
    """λ with Σ max(v − λ, 0) = r, exact: the largest m for which the m-th largest value still exceeds its λ."""
    ordered = values.sort(dim=-1, descending=True).values
    ranks = torch.arange(1, values.shape[-1] + 1, device=values.device, dtype=values.dtype)
    candidates = (ordered.cumsum(-1) - radius[..., None]) / ranks
    active = ordered > candidates  # true for the first m; −inf (masked) is never active
    last = active.sum(-1, keepdim=True).clamp_min(1) - 1
    return candidates.gather(-1, last).squeeze(-1)
