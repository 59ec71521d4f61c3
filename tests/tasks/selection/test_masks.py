"""Rows that may not be selected: as if they were not there."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longshot.base import Ints, TaskRows, UserError
from longshot.tasks import FeatureTable, query_tasks, select
from longshot.tasks.selection import Selection, measure_each, search
from longshot.tasks.selection.algorithms import greedy_rounds
from longshot.tasks.selection.objectives import SelectionObjective

from . import naive
from .conftest import Case, make_case
from .test_objectives import CASES, Reference

OBJECTIVE = CASES["error-euclidean"][0]
OPTIONS: dict[str, dict[str, object]] = {
    "one step": {},
    "refined and searched": {"refine": 3, "greedy": 2},
    "easy, refined and searched": {"largest": False, "refine": 3, "greedy": 2},
    "random start": {"start": "random", "entropy": (5,)},
    "steps on the simplex": {"steps": 3, "step_size": 2.0, "projection": "simplex"},
}
every_objective = pytest.mark.parametrize("objective", [o for o, _ in CASES.values()], ids=CASES.keys())
every_option = pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS.keys())
seeds = st.integers(0, 10_000)


def masked(seed: int, hidden_queries: float) -> tuple[Case, np.ndarray]:
    """A case, and a mask that keeps its support and a random part of the rest.

    ``hidden_queries``: the share of query rows that may not be selected.
    """
    sizes = np.random.default_rng(seed).integers(12, 24, 5).tolist()
    case = make_case(sizes, 12, 4, ways=(2, 4), shots=(1, 3), seed=seed)
    rng = np.random.default_rng(seed + 1)
    allowed = rng.random(len(case.array)) < 0.6
    queries = case.tasks.slot_query.values
    allowed[queries] = rng.random(len(queries)) >= hidden_queries
    allowed[case.support] = True
    return case, allowed


def without(case: Case, keep: np.ndarray) -> tuple[np.ndarray, np.ndarray, Ints]:
    """A dataset that physically lacks the other rows: (array, offsets, where each old row is now)."""
    before = np.concatenate([[0], np.cumsum(keep)])
    return case.array[keep], before[case.offsets], before[:-1]


def moved(tasks: TaskRows, new_rows: Ints) -> TaskRows:
    return replace(tasks, query=tasks.query.with_values(new_rows[tasks.query.values]))


def assert_same(masked: Selection, physical: Selection, keep: np.ndarray) -> None:
    assert np.array_equal(masked.support, np.flatnonzero(keep)[physical.support])
    for name in ("steps", "refined", "searched"):
        assert np.array_equal(getattr(masked, name), getattr(physical, name))


@every_objective
@every_option
@settings(max_examples=2, deadline=None, derandomize=True)
@given(seed=seeds)
def test_equals_a_dataset_without_the_rows(
    objective: SelectionObjective, options: dict[str, object], seed: int
) -> None:
    """Every query may be selected in other tasks: not one bit differs, whatever the blocks."""
    case, allowed = masked(seed, 0.0)
    array, offsets, new_rows = without(case, allowed)
    selection = select(
        FeatureTable(case.array, case.offsets, allowed=allowed, row_block=7), case.tasks, objective, **options
    )  # type: ignore[arg-type]
    other = select(
        FeatureTable(array, offsets, row_block=7), moved(case.tasks, new_rows), objective, **options
    )  # type: ignore[arg-type]
    assert_same(selection, other, allowed)
    assert np.array_equal(selection.loss, other.loss) and np.array_equal(
        selection.accuracies, other.accuracies
    )


@every_objective
@pytest.mark.parametrize("hidden", [pytest.param(0.5, marks=pytest.mark.long), 1.0])
@pytest.mark.parametrize("name", ["refined and searched", "steps on the simplex"])
@settings(max_examples=2, deadline=None, derandomize=True)
@given(seed=seeds)
def test_queries_outside_the_mask(objective: SelectionObjective, hidden: float, name: str, seed: int) -> None:
    """A task's own queries never are in its pool: with them kept for it, the physical pool is the same."""
    case, allowed = masked(seed, hidden)
    table = FeatureTable(case.array, case.offsets, allowed=allowed)
    for number in range(len(case.tasks)):
        alone = case.tasks.take(np.array([number]))
        keep = allowed.copy()
        keep[alone.query.values] = True
        array, offsets, new_rows = without(case, keep)
        selection = select(table, alone, objective, **OPTIONS[name])  # type: ignore[arg-type]
        other = select(FeatureTable(array, offsets), moved(alone, new_rows), objective, **OPTIONS[name])  # type: ignore[arg-type]
        assert_same(selection, other, keep)
        np.testing.assert_allclose(selection.loss, other.loss, rtol=1e-4, atol=1e-6)


@every_objective
@pytest.mark.parametrize("largest", [True, False])
@settings(max_examples=2, deadline=None, derandomize=True)
@given(seed=seeds)
def test_greedy_search_equals_a_dataset_without_the_rows(
    objective: SelectionObjective, largest: bool, seed: int
) -> None:
    case, allowed = masked(seed, 0.0)
    array, offsets, new_rows = without(case, allowed)
    selection = search(
        FeatureTable(case.array, case.offsets, allowed=allowed),
        case.tasks,
        objective,
        case.support,
        largest=largest,
    )
    other = search(
        FeatureTable(array, offsets),
        moved(case.tasks, new_rows),
        objective,
        new_rows[case.support],
        largest=largest,
    )
    assert_same(selection, other, allowed)


@pytest.mark.parametrize(("objective", "reference"), CASES.values(), ids=CASES.keys())
def test_masked_greedy_equals_the_naive_loop(objective: SelectionObjective, reference: Reference) -> None:
    case, allowed = masked(8, 0.5)
    support, _ = greedy_rounds(
        FeatureTable(case.array, case.offsets, allowed=allowed), case.tasks, objective, case.support, 1
    )
    bounds = case.tasks.plan.support_offsets
    for number in range(len(case.tasks)):
        task = naive.one_task(case.array, case.offsets, case.tasks, number)
        pool_masks = [allowed[rows] for rows in task.rows]
        task.pools = [pool[mask] for pool, mask in zip(task.pools, pool_masks, strict=True)]
        task.rows = [rows[mask] for rows, mask in zip(task.rows, pool_masks, strict=True)]
        slots = range(case.tasks.plan.classes.offsets[number], case.tasks.plan.classes.offsets[number + 1])
        start = [case.support[bounds[s] : bounds[s + 1]] for s in slots]
        expected = naive.greedy(task, reference(task), start, 1)
        assert [support[bounds[s] : bounds[s + 1]].tolist() for s in slots] == [r.tolist() for r in expected]


@every_objective
@every_option
def test_a_mask_that_allows_all_changes_nothing(
    case: Case, objective: SelectionObjective, options: dict[str, object]
) -> None:
    everything = np.ones(len(case.array), dtype=bool)
    plain = select(FeatureTable(case.array, case.offsets), case.tasks, objective, **options)  # type: ignore[arg-type]
    selection = select(
        FeatureTable(case.array, case.offsets, allowed=everything), case.tasks, objective, **options
    )  # type: ignore[arg-type]
    assert_same(selection, plain, everything)
    assert np.array_equal(selection.loss, plain.loss)


@every_objective
@every_option
def test_rows_outside_the_mask_are_never_selected(
    objective: SelectionObjective, options: dict[str, object]
) -> None:
    case, allowed = masked(3, 0.5)
    selection = select(
        FeatureTable(case.array, case.offsets, allowed=allowed), case.tasks, objective, **options
    )  # type: ignore[arg-type]
    assert allowed[selection.support].all()
    slot = np.repeat(np.arange(case.tasks.plan.slots), case.tasks.plan.shots.values)
    assert np.array_equal(
        np.searchsorted(case.offsets, selection.support, side="right") - 1,
        case.tasks.plan.classes.values[slot],
    )
    own = np.repeat(case.tasks.plan.classes.owners, case.tasks.slot_query.lengths)
    queries = set(zip(own.tolist(), case.tasks.slot_query.values.tolist(), strict=True))
    assert not queries & set(
        zip(case.tasks.plan.classes.owners[slot].tolist(), selection.support.tolist(), strict=True)
    )


def test_a_support_is_measured_whatever_the_mask(case: Case) -> None:
    """The loss of a given support does not depend on what else could be selected."""
    allowed = np.zeros(len(case.array), dtype=bool)
    allowed[case.support] = True
    plain = measure_each(FeatureTable(case.array, case.offsets), case.tasks, OBJECTIVE, case.support)
    measured = measure_each(
        FeatureTable(case.array, case.offsets, allowed=allowed), case.tasks, OBJECTIVE, case.support
    )
    assert all(map(np.array_equal, plain, measured))


def test_too_few_allowed_rows_are_counted() -> None:
    tasks = query_tasks([[0, 1]], [[2, 2]], [[[0], [5, 6]]])
    allowed = np.ones(10, dtype=bool)
    allowed[[6, 8, 9]] = False  # of rows 5 to 9 only 5 and 7 are left, and 5 is a query
    table = FeatureTable(
        np.ones((10, 3), np.float32), np.array([0, 5, 10]), names=["apple", "pear"], allowed=allowed
    )
    with pytest.raises(
        UserError, match="'pear' has 1 images that may be support besides the query of task 0"
    ):
        select(table, tasks, OBJECTIVE)


def test_a_search_cannot_start_outside_the_mask(case: Case) -> None:
    allowed = np.ones(len(case.array), dtype=bool)
    allowed[case.support[0]] = False
    with pytest.raises(ValueError, match="may not be selected"):
        search(FeatureTable(case.array, case.offsets, allowed=allowed), case.tasks, OBJECTIVE, case.support)
