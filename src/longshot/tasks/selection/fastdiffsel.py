"""FastDiffSel with uniform initial weights: one product per class scores the pools of every task that uses it.

With w uniform, ∂L/∂w_i = g_j·(f_i − c_j)/Σw with g_j = ∂L/∂c_j. A step along it and the soft-thresholding of
the ℓ₁ projection keep the order, so the selected support is the k_j pool images with the largest g_j·f_i.
Frank–Wolfe rounds take the gradient at that support itself, select again and keep what is harder.
"""

from __future__ import annotations

import numpy as np
import torch

from longshot.base import Bools, Ints, TaskRows
from longshot.tasks.selection.objectives import COLUMN_BLOCK, SelectionObjective
from longshot.tasks.selection.table import FeatureTable
from longshot.tasks.selection.tasks import by_class


def hide_queries(scores: torch.Tensor, table: FeatureTable, tasks: TaskRows, slots: Ints, start: int) -> None:
    """Set −∞ where a row of the block that begins at ``start`` is a query of the slot's own task."""
    queries = tasks.slot_query.take(slots)
    column, rows = queries.owners, queries.values
    if table.allowed is not None:
        selectable = table.selectable(rows)
        column, rows = column[selectable], rows[selectable]
    position = table.places(int(tasks.plan.classes.values[slots[0]]), rows) - start
    inside = (position >= 0) & (position < scores.shape[1])
    device = scores.device
    scores[
        torch.from_numpy(column[inside]).to(device), torch.from_numpy(position[inside]).to(device)
    ] = -torch.inf


def top_rows(scores: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """(values, rows) of the ``count`` largest per line of ``scores`` [s, n], largest first; ties: the lower row."""
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
    """Support rows, flat over slots (bounds: ``tasks.plan.support_offsets``): per slot the k_j best-scored pool rows.

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
    """Best of the earlier blocks and of this one; a stable sort keeps the lower rows first among equals."""
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
    """Up to ``rounds`` rounds from ``support``: (support, rounds kept [T]).

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
    """Whether two supports of a task differ as sets [T]."""
    slot = np.repeat(np.arange(tasks.plan.slots), tasks.plan.shots.values)
    differ = first[np.lexsort([first, slot])] != second[np.lexsort([second, slot])]
    task = tasks.plan.classes.owners[slot[differ]]
    return np.bincount(task, minlength=len(tasks)) > 0
