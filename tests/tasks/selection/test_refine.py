"""Frank–Wolfe rounds against the same rounds written down task by task."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from longshot.tasks import FeatureTable, query_tasks, select
from longshot.tasks.selection import algorithms
from longshot.tasks.selection.algorithms import _other_images, refine_rounds, select_rows
from longshot.tasks.selection.objectives import PrototypeObjective, SupportMeasures

from .conftest import Case, make_case

OBJECTIVE = PrototypeObjective()


@pytest.fixture(scope="module")
def case() -> Case:
    """25 tasks over 5 classes, so that some gain from a round and some do not."""
    return make_case([40, 50, 45, 60, 42], 16, 25, ways=(3, 4), shots=(2, 5), seed=11)


@pytest.mark.parametrize("largest", [True, False], ids=["harder", "easier"])
@pytest.mark.parametrize("rounds", [0, 1, 3])
def test_rounds_equal_those_of_each_task_alone(case: Case, rounds: int, largest: bool) -> None:
    table = FeatureTable(case.array, case.offsets)
    start = select(table, case.tasks, OBJECTIVE).support
    support, kept_rounds = refine_rounds(table, case.tasks, OBJECTIVE, start, rounds, largest=largest)
    for number in range(len(case.tasks)):
        alone = case.tasks.take(np.array([number]))
        positions = case.tasks.support.indices(np.array([number]))
        current, count = start[positions], 0
        for _ in range(rounds):
            measured = OBJECTIVE.at_support(table, alone, current)
            proposal = select_rows(table, alone, OBJECTIVE, measured.directions, largest=largest)
            gain = float(OBJECTIVE.at_support(table, alone, proposal).loss - measured.loss)
            if set(proposal.tolist()) == set(current.tolist()) or not (gain > 0 if largest else gain < 0):
                break
            current, count = proposal, count + 1
        assert sorted(support[positions]) == sorted(current)
        assert kept_rounds[number] == count


def test_some_tasks_gain_and_the_search_ends(case: Case) -> None:
    table = FeatureTable(case.array, case.offsets)
    start = select(table, case.tasks, OBJECTIVE).support
    support, kept_rounds = refine_rounds(table, case.tasks, OBJECTIVE, start, 3)
    before = OBJECTIVE.at_support(table, case.tasks, start).loss
    after = OBJECTIVE.at_support(table, case.tasks, support).loss
    assert (after >= before).all()
    assert ((after > before).numpy() == (kept_rounds > 0)).all()
    assert (kept_rounds > 0).sum() > 0


def test_another_order_is_no_other_support() -> None:
    tasks = query_tasks([[0, 1], [0, 1]], [[2, 2], [2, 2]], [[[0], [10]], [[0], [10]]])
    first = np.array([1, 2, 11, 12, 1, 2, 11, 12])
    reordered = np.array(
        [2, 1, 11, 12, 1, 2, 11, 13]
    )  # the second task has another image, the first has none
    assert _other_images(tasks, first, reordered).tolist() == [False, True]
    assert _other_images(tasks, first, first).tolist() == [False, False]


def test_the_same_images_in_another_order_are_not_taken_for_harder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounding may give a reordered support another loss: here every measurement is higher than the one before."""
    tasks = query_tasks([[0, 1]], [[2, 2]], [[[0], [10]]])
    table = FeatureTable(np.ones((20, 2), np.float32), np.array([0, 10, 20]))
    losses = iter(range(10))

    class Rising:
        def at_support(self, *_: object) -> SupportMeasures:
            return SupportMeasures(
                torch.tensor([float(next(losses))]), torch.zeros(1, 1), torch.zeros(2, 1, 2)
            )

    start = np.array([1, 2, 11, 12])
    monkeypatch.setattr(algorithms, "select_rows", lambda *_, **__: np.array([2, 1, 12, 11]))
    support, kept_rounds = refine_rounds(table, tasks, Rising(), start, 3)  # type: ignore[arg-type]
    assert (support.tolist(), kept_rounds.tolist()) == (start.tolist(), [0])
    monkeypatch.setattr(algorithms, "select_rows", lambda *_, **__: np.array([2, 3, 12, 11]))
    support, kept_rounds = refine_rounds(table, tasks, Rising(), start, 1)  # type: ignore[arg-type]
    assert (support.tolist(), kept_rounds.tolist()) == ([2, 3, 12, 11], [1])
