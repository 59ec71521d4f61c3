"""The searches for a support: FastDiffSel with uniform weights, greedy exchanges, and the paper's descent as written.

FastDiffSel with uniform initial weights: one product per class scores the pools of every task that uses it. With w
uniform, ∂L/∂w_i = g_j·(f_i − c_j)/Σw with g_j = ∂L/∂c_j. A step along it and the soft-thresholding of the ℓ₁ projection
keep the order, so the selected support is the k_j pool images with the largest g_j·f_i. Frank–Wolfe rounds take the
gradient at that support itself, select again and keep what is harder.

Greedy search (Agarwal et al., 2021) exchanges one support image at a time for the pool image that hurts most.

The descent has weights on the whole pool, steps along the gradient and projections. It is kept for faithfulness and for
study: with the uniform start one step selects what ``select_rows`` selects directly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias

import numpy as np
import torch

from longshot.base import Bools, Ints, TaskRows
from longshot.tasks.selection.feature_table import FeatureTable, barred_places, by_class, rounded_shapes
from longshot.tasks.selection.objectives import COLUMN_BLOCK, Exchange, SelectionObjective


def hide_queries(scores: torch.Tensor, table: FeatureTable, tasks: TaskRows, slots: Ints, start: int) -> None:
    """Set −∞ where a row of the block that begins at ``start`` is a query of the slot's own task, or a copy of one."""
    lines, places = barred_places(table, tasks, slots)
    inside = (places >= start) & (places < start + scores.shape[1])
    index = tuple(torch.from_numpy(part[inside]).to(scores.device) for part in (lines, places - start))
    scores[index] = -torch.inf


def top_rows(scores: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (values, rows) of the ``count`` largest per line of ``scores`` [s, n], largest first; ties: lower row."""
    count = min(count, scores.shape[1])
    values, rows = scores.topk(min(count + 1, scores.shape[1]), dim=1)
    tied = (
        (values[:, 1:] == values[:, :-1]).any(1) if values.shape[1] > 1 else torch.zeros(0, dtype=torch.bool)
    )
    values, rows = values[:, :count].clone(), rows[:, :count].clone()
    if bool(tied.any()):  # topk promises no order among equals: sort those few lines in full
        again = scores[tied].sort(dim=1, descending=True, stable=True)
        values[tied], rows[tied] = again.values[:, :count], again.indices[:, :count]
    return values, rows


def select_rows(
    table: FeatureTable,
    tasks: TaskRows,
    objective: SelectionObjective,
    directions: torch.Tensor,
    *,
    largest: bool = True,
) -> Ints:
    """Select the k_j best-scored pool rows of each slot, flat over slots (bounds: ``tasks.plan.support_offsets``).

    Memory: one block of one class, a fixed number of score columns, and the best k so far per slot.
    """
    result = np.empty(int(tasks.plan.shots.values.sum()), dtype=np.int64)
    bounds = tasks.plan.support_offsets
    sign = 1.0 if largest else -1.0
    for label, members in by_class(tasks):
        groups = [members[i : i + COLUMN_BLOCK] for i in range(0, len(members), COLUMN_BLOCK)]
        best: list[tuple[torch.Tensor, torch.Tensor] | None] = [None] * len(groups)
        for start, block in table.blocks(label):
            for number, slots in enumerate(groups):
                scores = sign * objective.scores(block, directions, tasks, slots)
                hide_queries(scores, table, tasks, slots, start)
                count = int(tasks.plan.shots.values[slots].max())
                best[number] = _merge(best[number], top_rows(scores, count), start, count)
        for slots, top in zip(groups, best, strict=True):
            assert top is not None
            rows = table.rows(label, top[1].cpu().numpy())
            for line, slot in enumerate(slots):
                result[bounds[slot] : bounds[slot + 1]] = rows[line, : tasks.plan.shots.values[slot]]
    return result


def _merge(
    old: tuple[torch.Tensor, torch.Tensor] | None,
    new: tuple[torch.Tensor, torch.Tensor],
    start: int,
    count: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Merge the best of the earlier blocks and of this one; a stable sort keeps the lower rows first among equals."""
    values, rows = new[0], new[1] + start
    if old is None:
        return values, rows
    values, order = torch.cat([old[0], values], 1).sort(dim=1, descending=True, stable=True)
    rows = torch.cat([old[1], rows], 1).gather(1, order)
    return values[:, :count], rows[:, :count]


def refine_rounds(
    table: FeatureTable,
    tasks: TaskRows,
    objective: SelectionObjective,
    support: Ints,
    rounds: int,
    *,
    largest: bool = True,
) -> tuple[Ints, Ints]:
    """Run up to ``rounds`` Frank–Wolfe rounds from ``support``: (support, rounds kept [T]).

    The top-k supports are the corners of {0 ≤ w ≤ 1, Σw_j = k_j}; the corner with the largest g·f is the
    Frank–Wolfe step from the present one. It is kept only where the query loss rises (falls with
    ``largest=False``); where it does not, the next round would repeat itself, so the task is left alone. The same
    images in another order are no change, though rounding may tell their losses apart.
    """
    support = support.copy()
    rounds_kept = np.zeros(len(tasks), dtype=np.int64)
    active = np.arange(len(tasks), dtype=np.int64)
    part, now = tasks, support
    measured = objective.at_support(table, part, now) if rounds else None
    for _ in range(rounds):
        assert measured is not None
        proposal = select_rows(table, part, objective, measured.directions, largest=largest)
        after = objective.at_support(table, part, proposal)
        gain = after.loss - measured.loss
        rises = (gain > 0 if largest else gain < 0).cpu().numpy()
        better = np.flatnonzero(rises & _other_images(part, now, proposal))
        if not len(better):
            break
        active = active[better]
        now = proposal[part.support.indices(better)]
        support[tasks.support.indices(active)] = now
        rounds_kept[active] += 1
        measured = after.take(part, better)
        part = part.take(better)
    return support, rounds_kept


def _other_images(tasks: TaskRows, first: Ints, second: Ints) -> Bools:
    """Tell whether two supports of a task differ as sets [T]."""
    slot = np.repeat(np.arange(tasks.plan.slots), tasks.plan.shots.values)
    differ = first[np.lexsort([first, slot])] != second[np.lexsort([second, slot])]
    task = tasks.plan.classes.owners[slot[differ]]
    return np.bincount(task, minlength=len(tasks)) > 0


_SWAP_BYTES = 32 << 20  # of queries, classes and candidate losses per query held at a time


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
            for members in _groups(table, tasks, active[tasks.ways[active] > column], column):
                _visit(Exchange(table, tasks, support, members, column), objective, largest)
        task_of_row = np.repeat(tasks.plan.classes.owners, tasks.plan.shots.values)
        active = np.unique(task_of_row[support != before])
        used[active] += 1
        if not len(active):
            break
    return support, used


def _visit(exchange: Exchange, objective: SelectionObjective, largest: bool) -> None:
    """Exchange, one after another, the images of the slot; the support is changed in place."""
    table, support, labels = exchange.table, exchange.support, exchange.labels[:, None]
    places = torch.from_numpy(exchange.places()).to(table.device)
    sizes = table.sizes[labels]
    barred = np.arange(sizes.max()) >= sizes
    barred[barred_places(table, exchange.tasks, exchange.slots)] = True
    taken = torch.from_numpy(barred).to(table.device).scatter_(1, places, True)
    swapper = objective.swapper(exchange)
    for number in range(exchange.shots):
        taken.scatter_(1, places[:, number : number + 1], False)
        gain = swapper.losses(number)
        gain = (gain if largest else -gain).masked_fill(taken, -torch.inf)
        best = _first_maximum(gain)
        swapper.replace(number, best)
        places[:, number] = best
        taken.scatter_(1, best[:, None], True)
    support[exchange.positions] = table.rows(labels, places.cpu().numpy())


def _groups(table: FeatureTable, tasks: TaskRows, active: Ints, column: int) -> Iterator[Ints]:
    """Yield tasks in groups of one k, one padded shape and classes of like sizes that fit in memory, by class."""
    slots = tasks.plan.classes.offsets[active] + column
    labels = tasks.plan.classes.values[slots]
    sizes = table.sizes[labels]
    octaves = np.log2(sizes).astype(np.int64)
    kinds = np.column_stack([rounded_shapes(tasks)[active], tasks.plan.shots.values[slots], octaves])
    for kind in np.unique(kinds, axis=0):
        members = np.flatnonzero((kinds == kind).all(1))
        members = members[np.argsort(labels[members], kind="stable")]
        queries, longest = int(kind[1]), int(sizes[members].max())
        size = max(1, _SWAP_BYTES // (4 * ((queries + table.dim) * longest + queries * table.dim)))
        for start in range(0, len(members), size):
            yield active[members[start : start + size]]


def _first_maximum(values: torch.Tensor) -> torch.Tensor:
    """Find the index of the largest entry per line [b]; among equals the first."""
    index = torch.arange(values.shape[1], device=values.device).expand_as(values)
    return torch.where(values == values.amax(1, keepdim=True), index, values.shape[1]).amin(1)


DescentStart: TypeAlias = Literal["uniform", "random"]
Projection: TypeAlias = Literal["l1", "simplex", "none"]


def start_weights(
    table: FeatureTable, tasks: TaskRows, start: DescentStart, entropy: Sequence[int]
) -> list[torch.Tensor]:
    """Return a weight vector per slot over all rows of its class, 0 at the task's queries.

    uniform: k_j/|P_j|, so that a class weighs what its support will weigh. random: U(0, 1), from a stream that
    depends on (entropy, task id, position in the task) alone.
    """
    result = []
    for slot, task in enumerate(tasks.plan.classes.owners):
        label = int(tasks.plan.classes.values[slot])
        own = barred_places(table, tasks, np.array([slot]))[1]
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
    """Run projected gradient steps on the weights, then take the k_j largest: (support rows, steps made [T]).

    Projection drives many weights to exactly 0; among equal weights the one that was larger before the last
    projection goes first, then the lower row. A task in which a class has no positive weight left (the ℓ₁ ball
    allows it) has no prototype any more: its steps end there.
    """
    weights, signed_size = start_weights(table, tasks, start, entropy), step_size if largest else -step_size
    before = list(weights)
    made = np.zeros(len(tasks), dtype=np.int64)
    active = np.arange(len(tasks), dtype=np.int64)
    for _ in range(steps):
        part = tasks.take(active)
        slots = tasks.plan.classes.indices(active)
        own = [weights[s] for s in slots]
        moved, projected = _step(table, part, objective, own, signed_size, projection)
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
    """Make one step for every slot: (weights after the gradient step, weights after the projection)."""
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
    """Mark rows of the slots' common class that are not queries of the slot's task [s, n]."""
    label = int(tasks.plan.classes.values[slots[0]])
    mask = np.ones((len(slots), table.size(label)), dtype=bool)
    mask[barred_places(table, tasks, slots)] = False
    return torch.from_numpy(mask).to(table.device)


def _extract(
    table: FeatureTable, tasks: TaskRows, weights: list[torch.Tensor], before: list[torch.Tensor]
) -> Ints:
    """Take the k_j largest weights of each slot: by weight, then by weight before the projection, then by row."""
    result = np.empty(int(tasks.plan.shots.values.sum()), dtype=np.int64)
    bounds = tasks.plan.support_offsets
    for label, slots in by_class(tasks):
        pool = pool_mask(table, tasks, slots)
        first = torch.stack([before[s] for s in slots]).masked_fill(~pool, -torch.inf)
        order = first.sort(dim=1, descending=True, stable=True).indices
        second = torch.stack([weights[s] for s in slots]).masked_fill(~pool, -torch.inf).gather(1, order)
        ranked = order.gather(1, second.sort(dim=1, descending=True, stable=True).indices).cpu().numpy()
        for line, slot in enumerate(slots):
            places = ranked[line, : tasks.plan.shots.values[slot]]
            result[bounds[slot] : bounds[slot + 1]] = table.rows(label, places)
    return result


def l1_ball(values: torch.Tensor, radius: torch.Tensor) -> torch.Tensor:
    """Project ``values`` [..., n] onto the ℓ₁ ball of ``radius`` [...]: argmin ‖w − v‖₂ subject to ‖w‖₁ ≤ r.

    Inside the ball it is the identity. Outside, w = sign(v)·max(|v| − λ, 0) with Σ|w| = r (Duchi et al., 2008).
    """
    size = values.abs()
    threshold = _threshold(size, radius)
    outside = size.sum(-1) > radius
    shrunk = values.sign() * (size - threshold[..., None]).clamp_min(0)
    return torch.where(outside[..., None], shrunk, values)


def simplex(values: torch.Tensor, radius: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
    """Project onto the simplex: argmin ‖w − v‖₂ subject to w ≥ 0, Σw = r; entries outside ``mask`` stay 0.

    w = max(v − λ, 0). Unlike the ℓ₁ ball it always leaves a positive weight, so a weighted mean stays defined.
    """
    if mask is not None:
        values = values.masked_fill(~mask, -torch.inf)
    return (values - _threshold(values, radius)[..., None]).clamp_min(0)


def _threshold(values: torch.Tensor, radius: torch.Tensor) -> torch.Tensor:
    """Find λ with Σ max(v − λ, 0) = r, exactly: the largest m for which the m-th largest value still exceeds its λ."""
    ordered = values.sort(dim=-1, descending=True).values
    ranks = torch.arange(1, values.shape[-1] + 1, device=values.device, dtype=values.dtype)
    candidates = (ordered.cumsum(-1) - radius[..., None]) / ranks
    active = ordered > candidates  # true for the first m; −inf (masked) is never active
    last = active.sum(-1, keepdim=True).clamp_min(1) - 1
    return candidates.gather(-1, last).squeeze(-1)
