"""Closed-form gradients against autograd, task by task, in float64."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from longshot.tasks import FeatureTable
from longshot.tasks.selection.algorithms import select_rows, start_weights
from longshot.tasks.selection.further_objectives import RidgeObjective, Task2VecObjective
from longshot.tasks.selection.objectives import PrototypeObjective, SelectionObjective

from . import naive
from .conftest import Case

Reference = Callable[[naive.OneTask], Callable[[list[torch.Tensor]], torch.Tensor]]
CASES: dict[str, tuple[SelectionObjective, Reference]] = {
    f"{loss}-{distance}": (
        PrototypeObjective(loss, distance, 0.3),  # type: ignore[arg-type]
        lambda task, f=function, d=distance: naive.prototype_loss(task, f, d, 0.3),
    )
    for loss, function in (("cross-entropy", naive.cross_entropy), ("error", naive.error))
    for distance in ("euclidean", "cosine")
}
CASES["ridge"] = (RidgeObjective(0.7, 0.3), lambda task: naive.ridge_loss(task, 0.7, 0.3))
CASES["task2vec"] = (
    Task2VecObjective("euclidean", 0.3),
    lambda task: naive.task2vec_loss(task, "euclidean", 0.3),
)
every_objective = pytest.mark.parametrize(("objective", "reference"), CASES.values(), ids=CASES.keys())


def weight_gradients(
    table: FeatureTable, case: Case, objective: SelectionObjective, weights: list[torch.Tensor]
) -> list[np.ndarray]:
    """∂L/∂w over the pool rows of every slot, from directions and scores."""
    tasks = case.tasks
    directions = objective.at_pool(table, tasks, weights).directions
    result = []
    for slot in range(tasks.plan.slots):
        label = int(tasks.plan.classes.values[slot])
        scores = objective.scores(table.whole(label), directions, tasks, np.array([slot]))[0]
        w = weights[slot]
        if objective.averaging:
            scores = (scores - (w * scores).sum() / w.sum()) / w.sum()
        own = tasks.slot_query.row(slot) - case.offsets[label]
        result.append(np.delete(scores.numpy(), own))
    return result


@every_objective
@pytest.mark.parametrize("start", ["uniform", "random"])
def test_weight_gradient_equals_autograd(
    case: Case, objective: SelectionObjective, reference: Reference, start: str
) -> None:
    table = FeatureTable(case.array, case.offsets)
    weights = start_weights(table, case.tasks, start, (3,))  # type: ignore[arg-type]
    gradients = weight_gradients(table, case, objective, weights)
    for number in range(len(case.tasks)):
        task = naive.one_task(case.array, case.offsets, case.tasks, number)
        first, last = case.tasks.plan.classes.offsets[number : number + 2]
        start_at = []
        for slot in range(first, last):
            label = case.tasks.plan.classes.values[slot]
            own = case.tasks.slot_query.row(slot)
            full = np.delete(weights[slot].double().numpy(), own - case.offsets[label])
            start_at.append(torch.from_numpy(full).requires_grad_())
        expected = torch.autograd.grad(reference(task)(start_at), start_at)
        for slot, gradient in zip(range(first, last), expected, strict=True):
            scale = float(gradient.abs().max())
            np.testing.assert_allclose(gradients[slot], gradient.numpy(), atol=2e-4 * scale)


@every_objective
def test_selection_equals_algorithm_1(
    case: Case, objective: SelectionObjective, reference: Reference
) -> None:
    """Uniform start, autograd, any step size, projection, extraction: the same supports in the same order."""
    table = FeatureTable(case.array, case.offsets)
    support = select_rows(table, case.tasks, objective, objective.at_pool(table, case.tasks).directions)
    bounds = case.tasks.plan.support_offsets
    for number in range(len(case.tasks)):
        task = naive.one_task(case.array, case.offsets, case.tasks, number)
        uniform = [np.full(len(rows), k / len(rows)) for rows, k in zip(task.rows, task.shots, strict=True)]
        expected = naive.algorithm_1(task, reference(task), uniform, step_size=200.0)
        for position, rows in enumerate(expected):
            slot = case.tasks.plan.classes.offsets[number] + position
            assert support[bounds[slot] : bounds[slot + 1]].tolist() == rows.tolist()


@every_objective
def test_loss_at_a_support_equals_the_naive_loss(
    case: Case, objective: SelectionObjective, reference: Reference
) -> None:
    table = FeatureTable(case.array, case.offsets)
    loss = objective.at_support(table, case.tasks, case.support).loss
    bounds = case.tasks.plan.support_offsets
    for number in range(len(case.tasks)):
        task = naive.one_task(case.array, case.offsets, case.tasks, number)
        weights = []
        for position, rows in enumerate(task.rows):
            slot = case.tasks.plan.classes.offsets[number] + position
            weights.append(
                torch.from_numpy(np.isin(rows, case.support[bounds[slot] : bounds[slot + 1]]).astype(float))
            )
        assert float(loss[number]) == pytest.approx(float(reference(task)(weights)), rel=1e-4)


@every_objective
def test_uniform_weights_are_the_default_point(
    case: Case, objective: SelectionObjective, reference: Reference
) -> None:
    table = FeatureTable(case.array, case.offsets)
    explicit = objective.at_pool(
        table, case.tasks, start_weights(table, case.tasks, "uniform", (0,))
    ).directions
    shortcut = objective.at_pool(table, case.tasks).directions
    torch.testing.assert_close(shortcut, explicit, rtol=2e-3, atol=2e-4 * float(explicit.abs().max()))


def test_accuracy_counts_the_nearest_prototype(case: Case) -> None:
    table = FeatureTable(case.array, case.offsets)
    accuracy = PrototypeObjective().at_support(table, case.tasks, case.support).accuracies[0]
    bounds, unit = (
        case.tasks.plan.support_offsets,
        case.array / np.linalg.norm(case.array, axis=1, keepdims=True),
    )
    for number in range(len(case.tasks)):
        slots = range(case.tasks.plan.classes.offsets[number], case.tasks.plan.classes.offsets[number + 1])
        centres = np.stack([unit[case.support[bounds[s] : bounds[s + 1]]].mean(0) for s in slots])
        task = naive.one_task(case.array, case.offsets, case.tasks, number)
        nearest = ((task.query.numpy()[:, None] - centres) ** 2).sum(-1).argmin(1)
        assert float(accuracy[number]) == pytest.approx((nearest == task.label.numpy()).mean())


def test_ridge_tells_tables_apart(case: Case) -> None:
    """One objective, table after table: nothing is remembered of a table that is gone."""
    objective = RidgeObjective(0.7, 0.3)
    for scale in (1.0, 3.0, 9.0, 27.0):
        table = FeatureTable(case.array * scale, case.offsets, normalize=False)
        directions = objective.at_pool(table, case.tasks).directions
        assert torch.equal(directions, RidgeObjective(0.7, 0.3).at_pool(table, case.tasks).directions)
        del table
