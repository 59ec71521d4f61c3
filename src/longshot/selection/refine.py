"""Frank–Wolfe rounds: take the gradient at the selected support itself, select again, keep what is harder."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from longshot.core.arrays import Ints
from longshot.selection.fastdiffsel import select_rows
from longshot.selection.objectives import SelectionObjective
from longshot.selection.table import FeatureTable
from longshot.selection.tasks import SelectionTasks


def refine_rounds(
    table: FeatureTable,
    tasks: SelectionTasks,
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
        now = proposal[part.support_positions(better)]
        support[tasks.support_positions(active)] = now
        rounds_kept[active] += 1
        measured = after.take(part, better)
        part = part.take(better)
    return support, rounds_kept


def _other_images(tasks: SelectionTasks, first: Ints, second: Ints) -> NDArray[np.bool_]:
    """Whether two supports of a task differ as sets [T]."""
    slot = np.repeat(np.arange(tasks.slots), tasks.shots)
    differ = first[np.lexsort([first, slot])] != second[np.lexsort([second, slot])]
    task = tasks.task_of_slot[slot[differ]]
    return np.bincount(task, minlength=len(tasks)) > 0
