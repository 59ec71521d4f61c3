"""Incremental greedy search against the loop that evaluates every candidate from scratch."""

from __future__ import annotations

import numpy as np
import pytest

from longshot.tasks import FeatureTable, select
from longshot.tasks.selection import search
from longshot.tasks.selection.algorithms import greedy_rounds
from longshot.tasks.selection.objectives import SelectionObjective

from . import naive
from .conftest import Case, make_case
from .test_objectives import CASES, Reference


@pytest.fixture(scope="module")
def small() -> Case:
    return make_case([12, 15, 18, 13], 10, 5, ways=(2, 4), shots=(1, 3), seed=2)


@pytest.mark.parametrize(("objective", "reference"), CASES.values(), ids=CASES.keys())
@pytest.mark.parametrize("largest", [True, False])
def test_incremental_equals_naive(
    small: Case, objective: SelectionObjective, reference: Reference, largest: bool
) -> None:
    table = FeatureTable(small.array, small.offsets)
    support, _ = greedy_rounds(table, small.tasks, objective, small.support, 2, largest=largest)
    bounds = small.tasks.plan.support_offsets
    for number in range(len(small.tasks)):
        task = naive.one_task(small.array, small.offsets, small.tasks, number)
        slots = range(small.tasks.plan.classes.offsets[number], small.tasks.plan.classes.offsets[number + 1])
        start = [small.support[bounds[s] : bounds[s + 1]] for s in slots]
        expected = naive.greedy(task, reference(task), start, 2, largest)
        assert [support[bounds[s] : bounds[s + 1]].tolist() for s in slots] == [
            rows.tolist() for rows in expected
        ]


def test_every_round_is_at_least_as_hard(case: Case) -> None:
    table, objective = FeatureTable(case.array, case.offsets), CASES["error-euclidean"][0]
    losses = [search(table, case.tasks, objective, case.support, rounds=r).loss for r in (1, 2, 3)]
    assert np.all(losses[1] >= losses[0] - 1e-6)
    assert np.all(losses[2] >= losses[1] - 1e-6)


def test_a_fixed_point_is_left_alone(case: Case) -> None:
    table, objective = FeatureTable(case.array, case.offsets), CASES["error-euclidean"][0]
    done = search(table, case.tasks, objective, case.support, rounds=50)
    again = search(table, case.tasks, objective, done.support, rounds=3)
    assert done.searched.max() < 50
    assert np.array_equal(done.support, again.support)
    assert not again.searched.any()


@pytest.mark.parametrize("largest", [True, False])
def test_refinement_and_search_never_lose(case: Case, largest: bool) -> None:
    table, objective = FeatureTable(case.array, case.offsets), CASES["error-euclidean"][0]
    plain, refined, searched = (
        select(table, case.tasks, objective, largest=largest, refine=r, greedy=g)
        for r, g in ((0, 0), (5, 0), (5, 1))
    )
    sign = 1 if largest else -1
    assert np.all(sign * refined.loss >= sign * plain.loss)
    assert np.all(sign * searched.loss >= sign * refined.loss - 1e-6)
    assert np.array_equal(refined.refined > 0, refined.loss != plain.loss)
