"""The paper's algorithm with weights: start, step size, projection, number of steps."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from longshot.tasks import FeatureTable
from longshot.tasks.selection.algorithms import descend, select_rows, start_weights
from longshot.tasks.selection.objectives import PrototypeObjective

from . import naive
from .conftest import Case

PAPER = PrototypeObjective("cross-entropy", "euclidean", 0.3)


def random_start(case: Case, table: FeatureTable, number: int) -> list[np.ndarray]:
    weights = start_weights(table, case.tasks, "random", (7,))
    result = []
    for slot in range(case.tasks.plan.classes.offsets[number], case.tasks.plan.classes.offsets[number + 1]):
        own = case.tasks.slot_query.row(slot)
        result.append(
            np.delete(weights[slot].numpy(), own - case.offsets[case.tasks.plan.classes.values[slot]])
        )
    return result


@pytest.mark.parametrize("step_size", [1.0, 200.0])
def test_random_start_equals_algorithm_1(case: Case, step_size: float) -> None:
    table = FeatureTable(case.array, case.offsets)
    support, _ = descend(table, case.tasks, PAPER, start="random", step_size=step_size, entropy=(7,))
    bounds = case.tasks.plan.support_offsets
    for number in range(len(case.tasks)):
        task = naive.one_task(case.array, case.offsets, case.tasks, number)
        loss = naive.prototype_loss(task, naive.cross_entropy, "euclidean", 0.3)
        expected = naive.algorithm_1(task, loss, random_start(case, table, number), step_size)
        for position, rows in enumerate(expected):
            slot = case.tasks.plan.classes.offsets[number] + position
            assert support[bounds[slot] : bounds[slot + 1]].tolist() == rows.tolist()


@pytest.mark.parametrize("projection", ["l1", "simplex", "none"])
@pytest.mark.parametrize("step_size", [0.5, 200.0])
def test_uniform_start_needs_neither_step_size_nor_projection(
    case: Case, projection: str, step_size: float
) -> None:
    table = FeatureTable(case.array, case.offsets)
    direct = select_rows(table, case.tasks, PAPER, PAPER.at_pool(table, case.tasks).directions)
    support, _ = descend(
        table, case.tasks, PAPER, start="uniform", step_size=step_size, projection=projection
    )  # type: ignore[arg-type]
    order = np.repeat(np.arange(case.tasks.plan.slots), case.tasks.plan.shots.values)
    assert np.array_equal(support[np.lexsort([support, order])], direct[np.lexsort([direct, order])])


def test_steps_end_where_a_class_has_no_weight_left(case: Case) -> None:
    support, made = descend(
        FeatureTable(case.array, case.offsets), case.tasks, PAPER, start="uniform", steps=30
    )
    assert made.min() >= 1
    assert made.max() <= 30
    assert len(support) == case.tasks.plan.shots.values.sum()


def test_simplex_makes_every_step(case: Case) -> None:
    table = FeatureTable(case.array, case.offsets)
    _, made = descend(table, case.tasks, PAPER, start="uniform", steps=5, projection="simplex")
    assert made.tolist() == [5] * len(case.tasks)


def test_small_steps_raise_the_weighted_loss(case: Case) -> None:
    """Two tiny steps without projection climb: the loss at the weighted prototypes, by the naive formula."""
    table = FeatureTable(case.array, case.offsets)
    task = naive.one_task(case.array, case.offsets, case.tasks, 0)
    loss = naive.prototype_loss(task, naive.cross_entropy, "euclidean", 0.3)
    weights = [torch.full((len(rows),), 0.1, dtype=torch.float64) for rows in task.rows]
    uphill, _ = descend(table, case.tasks, PAPER, start="uniform", steps=3, step_size=1e-3, projection="none")
    bounds = case.tasks.plan.support_offsets
    picked = [
        torch.from_numpy(np.isin(rows, uphill[bounds[slot] : bounds[slot + 1]]).astype(float))
        for slot, rows in enumerate(task.rows)
    ]
    assert float(loss(picked)) > float(loss(weights))


def test_random_start_depends_on_task_and_seed_alone(case: Case) -> None:
    table = FeatureTable(case.array, case.offsets)
    together = start_weights(table, case.tasks, "random", (1,))
    alone = start_weights(table, case.tasks.take(np.array([5])), "random", (1,))
    first = int(case.tasks.plan.classes.offsets[5])
    assert all(torch.equal(a, together[first + i]) for i, a in enumerate(alone))
    other = start_weights(table, case.tasks, "random", (2,))
    assert not torch.equal(together[0], other[0])
