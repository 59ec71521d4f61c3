"""Selection by class: ties, blocks, types and threads."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from longshot.base import UserError
from longshot.tasks import FeatureTable, query_tasks, select
from longshot.tasks.selection import measure_each, objectives
from longshot.tasks.selection.algorithms import top_rows
from longshot.tasks.selection.objectives import PrototypeObjective

from .conftest import Case, make_case

OBJECTIVE = PrototypeObjective()


@pytest.fixture(scope="module")
def large() -> Case:
    """60 tasks over 6 classes of 300 to 500 images: several blocks and several column groups per class."""
    return make_case([300, 350, 400, 450, 500, 333], 48, 60, ways=(3, 5), shots=(1, 8), seed=4)


def test_top_rows_breaks_ties_by_row() -> None:
    scores = torch.tensor([[1.0, 2.0, 2.0, 0.0, 2.0], [3.0, 3.0, 3.0, 3.0, 3.0]])
    assert top_rows(scores, 2)[1].tolist() == [[1, 2], [0, 1]]


def test_equal_images_are_taken_in_row_order() -> None:
    array = np.tile(np.eye(4, dtype=np.float32)[:2], (20, 1))  # two distinct images, 20 copies each
    offsets = np.array([0, 20, 40])
    tasks = query_tasks([[0, 1]], [[5, 5]], [[[0], [21]]])
    support = select(FeatureTable(array, offsets, row_block=7), tasks, OBJECTIVE).support.reshape(2, 5)
    for rows in support:
        assert sorted(rows.tolist()) == rows.tolist()
        assert len({row % 2 for row in rows.tolist()}) == 1


def test_support_is_in_the_class_distinct_and_never_a_query(large: Case) -> None:
    selection = select(
        FeatureTable(large.array, large.offsets), large.tasks, OBJECTIVE, refine=2, greedy=1
    ).support
    tasks = large.tasks
    for slot in range(tasks.plan.slots):
        rows = selection[tasks.plan.support_offsets[slot] : tasks.plan.support_offsets[slot + 1]]
        label = tasks.plan.classes.values[slot]
        own = tasks.slot_query.row(slot)
        assert len(set(rows.tolist())) == tasks.plan.shots.values[slot]
        assert rows.min() >= large.offsets[label]
        assert rows.max() < large.offsets[label + 1]
        assert not set(rows.tolist()) & set(own.tolist())


@pytest.mark.parametrize("row_block", [3, 64, 100000])
def test_row_blocks_do_not_change_the_result(large: Case, row_block: int) -> None:
    expected = select(FeatureTable(large.array, large.offsets), large.tasks, OBJECTIVE, refine=2).support
    selection = select(
        FeatureTable(large.array, large.offsets, row_block=row_block), large.tasks, OBJECTIVE, refine=2
    ).support
    assert np.array_equal(selection, expected)


def test_chunks_and_columns_do_not_change_the_result(large: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    table = FeatureTable(large.array, large.offsets)
    expected = select(table, large.tasks, OBJECTIVE, refine=2, greedy=1)
    monkeypatch.setattr("longshot.tasks.selection._CHUNK_BYTES", 4000)
    monkeypatch.setattr(objectives, "COLUMN_BLOCK", 5)
    selection = select(table, large.tasks, OBJECTIVE, refine=2, greedy=1)
    assert np.array_equal(selection.support, expected.support)
    assert np.array_equal(selection.refined, expected.refined)


def test_a_task_alone_is_the_same_as_among_others(large: Case) -> None:
    table = FeatureTable(large.array, large.offsets)
    together = select(table, large.tasks, OBJECTIVE, refine=2, greedy=1)
    for number in (0, 17, 59):
        alone = select(table, large.tasks.take(np.array([number])), OBJECTIVE, refine=2, greedy=1)
        assert np.array_equal(
            together.support[large.tasks.support.indices(np.array([number]))], alone.support
        )
        assert together.loss[number] == alone.loss[0]


def test_threads_do_not_change_the_result(large: Case) -> None:
    table, first_tasks = FeatureTable(large.array, large.offsets), large.tasks.take(np.arange(8))
    before = torch.get_num_threads()
    try:
        results = []
        for threads in (1, 2):
            torch.set_num_threads(threads)
            results.append(select(table, first_tasks, OBJECTIVE, refine=2, greedy=1).support)
    finally:
        torch.set_num_threads(before)
    assert np.array_equal(*results)


def test_float16_file_equals_the_same_numbers_in_float32(large: Case, tmp_path) -> None:
    half = large.array.astype(np.float16)
    np.save(tmp_path / "features.npy", half)
    mapped = np.load(tmp_path / "features.npy", mmap_mode="r")
    support = select(FeatureTable(mapped, large.offsets), large.tasks, OBJECTIVE).support
    expected = select(FeatureTable(half.astype(np.float32), large.offsets), large.tasks, OBJECTIVE).support
    assert np.array_equal(support, expected)


def test_difficult_raises_and_easy_lowers_the_loss(large: Case) -> None:
    table = FeatureTable(large.array, large.offsets)
    uniform, _ = measure_each(table, large.tasks, OBJECTIVE, large.support)
    difficult = select(table, large.tasks, OBJECTIVE).loss
    easy = select(table, large.tasks, OBJECTIVE, largest=False).loss
    assert np.all(difficult > uniform)
    assert easy.mean() < uniform.mean()


def test_too_small_a_pool_names_class_and_counts() -> None:
    tasks = query_tasks([[0, 1]], [[2, 4]], [[[0], [5, 6]]])
    table = FeatureTable(np.ones((10, 3), np.float32), np.array([0, 5, 10]), names=["apple", "pear"])
    with pytest.raises(
        UserError, match="'pear' has 3 images besides the query of task 0, but the support needs 4"
    ):
        select(table, tasks, OBJECTIVE)


def test_the_whole_pool_can_be_the_support() -> None:
    tasks = query_tasks([[0, 1]], [[4, 3]], [[[0], [5, 6]]])
    table = FeatureTable(np.random.default_rng(0).normal(size=(10, 3)), np.array([0, 5, 10]))
    support = select(table, tasks, OBJECTIVE, refine=1, greedy=1).support
    assert sorted(support.tolist()) == [1, 2, 3, 4, 7, 8, 9]


def test_a_row_of_zeros_is_no_nan() -> None:
    array = np.random.default_rng(0).normal(size=(20, 6))
    array[3] = 0
    tasks = query_tasks([[0, 1]], [[2, 2]], [[[0, 3], [11]]])
    selection = select(FeatureTable(array, np.array([0, 10, 20])), tasks, OBJECTIVE)
    assert np.isfinite(selection.loss).all()
