"""Several judges: one loss over features of different widths, against a loop over all supports."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import torch
from tests.tasks.selection.conftest import Case, make_case

from longshot.base import TaskRows, UserError
from longshot.tasks import FeatureTable, select
from longshot.tasks.selection import JUDGINGS, Judging, join, measure_each, search
from longshot.tasks.selection.further_objectives import RidgeObjective
from longshot.tasks.selection.objectives import PrototypeObjective, SelectionObjective

OBJECTIVES: tuple[SelectionObjective, ...] = (
    PrototypeObjective("error", "euclidean", 0.3),
    PrototypeObjective("error", "cosine", 0.2),
    RidgeObjective(temperature=0.3, loss="error"),
)


def tables_of(case: Case, widths: tuple[int, ...] = (16, 7, 11)) -> list[FeatureTable]:
    """The case's features through networks of other widths."""
    rng = np.random.default_rng(5)
    arrays = [case.array, *(case.array @ rng.normal(size=(16, width)) for width in widths[1:])]
    return [FeatureTable(array, case.offsets) for array in arrays[: len(widths)]]


@pytest.mark.parametrize("judging", JUDGINGS)
def test_a_joint_loss_is_that_of_the_judges_alone(case: Case, judging: Judging) -> None:
    tables = tables_of(case)
    single = [measure_each(t, case.tasks, o, case.support) for t, o in zip(tables, OBJECTIVES, strict=True)]
    losses = np.stack([loss for loss, _ in single])
    wanted_loss = {"mean": losses.mean(0), "worst": losses.max(0), "least": losses.min(0)}[judging]
    loss, accuracies = measure_each(*_joined(tables, judging, case.tasks), case.support)
    np.testing.assert_allclose(loss, wanted_loss, rtol=1e-5)
    np.testing.assert_allclose(accuracies, np.concatenate([each for _, each in single]), rtol=1e-5)


@pytest.mark.parametrize("judging", JUDGINGS)
def test_scores_are_the_gradient_of_the_joint_loss_over_weights(judging: Judging) -> None:
    """Moving weight between two pool images changes the joint loss as the difference of their scores says."""
    case = make_case([12, 13, 14], 16, 2, ways=(3, 3), shots=(2, 2))
    tables = tables_of(case)
    table, tasks, objective = _joined(tables, judging, case.tasks)
    measures = objective.at_pool(table, tasks)
    slot, label = 0, int(tasks.plan.classes.values[0])
    block = next(iter(table.blocks(label)))[1]
    scores = objective.scores(block, measures.directions, tasks, np.array([slot]))[0]
    pool = np.setdiff1d(np.arange(len(block)), tasks.slot_query.row(slot) - case.offsets[label])
    weights = [torch.zeros(table.size(int(c))) for c in tasks.plan.classes.values]
    for s, c in enumerate(tasks.plan.classes.values):
        rows = np.setdiff1d(np.arange(table.size(int(c))), tasks.slot_query.row(s) - case.offsets[c])
        weights[s][rows] = float(tasks.plan.shots.values[s]) / len(rows)
    step, (a, b) = 2e-2, (int(pool[0]), int(pool[1]))
    moved = []
    for sign in (1, -1):
        changed = [w.clone() for w in weights]
        changed[slot][a] += sign * step
        changed[slot][b] -= sign * step
        moved.append(float(objective.at_pool(table, tasks, changed).loss[0]))
    slope = (moved[0] - moved[1]) / (2 * step)
    assert slope == pytest.approx(float(scores[a] - scores[b]), rel=0.03, abs=1e-4)


@pytest.mark.parametrize("judging", JUDGINGS)
def test_greedy_exchange_is_the_best_by_the_joint_loss(judging: Judging) -> None:
    """One shot of one class: the chosen image is the one of the largest joint loss among all."""
    case = make_case([9, 10], 16, 1, ways=(2, 2), shots=(1, 1), seed=3)
    table, tasks, objective = _joined(tables_of(case), judging, case.tasks)
    start = search(table, tasks, objective, case.support, rounds=5)
    label = int(tasks.plan.classes.values[0])
    pool = np.setdiff1d(np.arange(case.offsets[label], case.offsets[label + 1]), tasks.slot_query.row(0))
    support = np.stack([np.array([row, start.support[1]]) for row in pool])
    losses = [float(measure_each(table, tasks, objective, each)[0][0]) for each in support]
    assert start.support[0] == pool[int(np.argmax(losses))]


def test_the_mean_of_two_equal_judges_selects_as_one() -> None:
    case = make_case([14, 20, 25], 16, 4, ways=(2, 3), shots=(1, 3))
    alone = FeatureTable(case.array, case.offsets)
    objective = PrototypeObjective()
    first = select(alone, case.tasks, objective, refine=2, greedy=1)
    table, joint = join([alone, FeatureTable(case.array, case.offsets)], [objective, objective])
    second = select(table, case.tasks, joint, refine=2, greedy=1)
    np.testing.assert_array_equal(first.support, second.support)
    np.testing.assert_allclose(first.loss, second.loss, rtol=1e-5)


def test_two_judges_are_both_misled_more_than_by_the_other_alone() -> None:
    """By brute force over all supports of one class: the joint choice has the largest mean loss."""
    case = make_case([10, 9], 16, 1, ways=(2, 2), shots=(2, 2), seed=4)
    table, tasks, objective = _joined(tables_of(case), "mean", case.tasks)
    chosen = select(table, tasks, objective, greedy=4)
    label = int(tasks.plan.classes.values[1])
    pool = np.setdiff1d(np.arange(case.offsets[label], case.offsets[label + 1]), tasks.slot_query.row(1))
    best = max(
        float(measure_each(table, tasks, objective, np.concatenate([chosen.support[:2], pair]))[0][0])
        for pair in combinations(pool, 2)
    )
    assert float(chosen.loss[0]) == pytest.approx(best, rel=0.02)


def test_tasks_do_not_depend_on_their_neighbours() -> None:
    case = make_case([14, 20, 25, 31], 16, 6, ways=(2, 3), shots=(1, 3))
    tables = tables_of(case)
    together = select(*_joined(tables, "least", case.tasks), refine=1, greedy=1)
    positions = case.tasks.support.indices(np.array([4]))
    alone = select(*_joined(tables, "least", case.tasks.take(np.array([4]))), refine=1, greedy=1)
    np.testing.assert_array_equal(together.support[positions], alone.support)


def test_judges_of_two_kinds_need_the_uniform_start(case: Case) -> None:
    table, tasks, objective = _joined(tables_of(case), "mean", case.tasks)
    with pytest.raises(UserError, match="uniform start"):
        select(table, tasks, objective, start="random")


def _joined(
    tables: list[FeatureTable], judging: Judging, tasks: TaskRows
) -> tuple[FeatureTable, TaskRows, SelectionObjective]:
    table, objective = join(tables, OBJECTIVES[: len(tables)], judging)
    return table, tasks, objective
