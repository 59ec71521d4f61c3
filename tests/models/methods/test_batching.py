from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from longshot.base import Ragged, TaskBatch, TaskRows, TaskShape, task_seeds
from longshot.models import Gatherer, Method, bytes_per_task, get_method
from longshot.models.methods.base import MAX_BATCH, MAX_PADDING, batch_size, plan

CPU = torch.device("cpu")
SIZES = st.lists(st.tuples(st.integers(1, 6), st.integers(1, 5), st.integers(1, 9)), min_size=1, max_size=40)


def make(sizes: list[tuple[int, int, int]], rows: int = 50) -> TaskRows:
    """Tasks of (way, shot, queries) with random rows; labels in mixed order."""
    rng = np.random.default_rng(len(sizes))
    labels = [rng.permutation(np.repeat(np.arange(way), shot)) for way, shot, _ in sizes]
    queries = [rng.integers(0, way, query) for way, _, query in sizes]
    return (
        TaskRows(
            tasks=np.arange(len(sizes)) + 7,
            ways=np.array([way for way, _, _ in sizes]),
            support=Ragged.from_lists([rng.integers(0, rows, len(label)) for label in labels]),
            support_label=Ragged.from_lists(labels, "int16"),
            query=Ragged.from_lists([rng.integers(0, rows, len(query)) for query in queries]),
            query_label=Ragged.from_lists(queries, "int16"),
        )
    ).by_label()


@settings(deadline=None)
@given(SIZES, st.sampled_from([None, 1, 3]))
def test_every_task_is_in_one_batch_with_little_padding(
    sizes: list[tuple[int, int, int]], limit: int | None
) -> None:
    tasks = make(sizes)
    batches = plan(tasks, get_method("protonet"), 8, CPU, limit)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(sizes)))
    assert all(len(batch) <= min(limit or MAX_BATCH, MAX_BATCH) for batch in batches)
    support, query = tasks.support.lengths, tasks.query.lengths
    for batch in batches:
        padded = len(batch) * (support[batch].max() + query[batch].max())
        assert 1 - (support[batch] + query[batch]).sum() / padded <= MAX_PADDING + 1e-9


@settings(deadline=None)
@given(SIZES)
def test_a_batch_holds_its_tasks_rows_and_zeros(sizes: list[tuple[int, int, int]]) -> None:
    tasks = make(sizes)
    features = np.random.default_rng(0).standard_normal((50, 4)).astype(np.float32)
    batch, targets = Gatherer([features], CPU).batch(tasks, np.arange(len(sizes)))
    for t in range(len(sizes)):
        n, m = len(tasks.support.row(t)), len(tasks.query.row(t))
        assert np.array_equal(batch.support[t, :n].numpy(), features[tasks.support.row(t)])
        assert batch.support_label[t].tolist() == [
            *sorted(tasks.support_label.row(t)),
            *[-1] * (batch.support.shape[1] - n),
        ]
        assert np.array_equal(batch.query[t, :m].numpy(), features[tasks.query.row(t)])
        assert targets[t].tolist() == [*tasks.query_label.row(t), *[-1] * (batch.query.shape[1] - m)]
        assert not batch.support[t, n:].any()
        assert not batch.query[t, m:].any()
        assert batch.query_mask[t].tolist() == [True] * m + [False] * (batch.query.shape[1] - m)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_backbones_stand_side_by_side(dtype: str) -> None:
    tasks = make([(3, 2, 4)] * 5)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((50, width)).astype(dtype) for width in (4, 7)]
    batch, _ = Gatherer(arrays, CPU).batch(tasks, np.arange(5))
    assert batch.blocks == (4, 7)
    first, second = batch.split()
    rows = tasks.support.row(0)
    assert np.array_equal(first.support[0].numpy(), arrays[0][rows].astype(np.float32))
    assert np.array_equal(second.support[0].numpy(), arrays[1][rows].astype(np.float32))


def test_equal_shots_are_noticed_and_unequal_ones_too() -> None:
    features = np.zeros((50, 4), np.float32)
    equal, _ = Gatherer([features], CPU).batch(make([(3, 2, 4)] * 2), np.arange(2))
    unequal, _ = Gatherer([features], CPU).batch(make([(3, 2, 4), (3, 1, 4)]), np.arange(2))
    assert (equal.shot, unequal.shot) == (2, None)


def test_class_means_are_the_same_by_view_and_by_product() -> None:
    features = np.random.default_rng(0).standard_normal((50, 6)).astype(np.float32)
    batch, _ = Gatherer([features], CPU).batch(make([(4, 3, 2)] * 6), np.arange(6))
    product = TaskBatch(**{**batch.__dict__, "shot": None})
    torch.testing.assert_close(batch.class_means(), product.class_means())
    torch.testing.assert_close(batch.counts, product.counts)


class Hungry(type(get_method("protonet"))):  # type: ignore[misc]
    def floats_per_task(self, shape: TaskShape) -> int:
        return 1 << 40


@pytest.mark.parametrize(
    "shape", [(5, 25, 50, 640), (100, 500, 1000, 640), (100, 1000, 2000, 4096), (5, 5, 5, 8)]
)
def test_the_chosen_batch_stays_within_two_gigabytes(shape: tuple[int, int, int, int]) -> None:
    method = get_method("protonet")
    size = batch_size(method, TaskShape(*shape), CPU)
    assert 1 <= size <= MAX_BATCH
    assert size * bytes_per_task(method, TaskShape(*shape)) < 2 << 30


def test_a_method_that_needs_more_memory_gets_smaller_batches() -> None:
    hungry: Method = Hungry()
    assert batch_size(hungry, TaskShape(5, 25, 50, 64), CPU) == 1


def test_seeds_differ_by_task_and_by_run_and_are_not_negative() -> None:
    index = np.arange(10_000)
    first, second = task_seeds(0, index), task_seeds(1, index)
    assert len(set(first.tolist()) | set(second.tolist())) == 20_000
    assert min(first.min(), second.min()) >= 0


def test_a_task_draws_the_same_numbers_in_any_batch() -> None:
    tasks = make([(3, 2, 4)] * 4)
    gatherer = Gatherer([np.zeros((50, 4), np.float32)], CPU)
    all_of_them = gatherer.batch(tasks, np.arange(4))[0].normal(3, 5)
    alone = gatherer.batch(tasks, np.array([2]))[0].normal(3, 5)
    assert torch.equal(all_of_them[2], alone[0])
    assert not torch.equal(all_of_them[1], all_of_them[2])
    assert not torch.equal(alone, gatherer.batch(tasks, np.array([2]))[0].normal(3, 5, stream=1))


def test_a_batch_that_is_still_in_use_keeps_its_rows_when_its_gatherer_is_gone() -> None:
    tasks = make([(3, 2, 4)] * 5)
    ones, zeros = np.ones((50, 4), np.float32), np.zeros((50, 4), np.float32)
    batch, _ = Gatherer([ones], CPU).batch(tasks, np.arange(5))
    view = batch.query[2:, 1:]
    del batch
    Gatherer([zeros], CPU).batch(tasks, np.arange(5))
    Gatherer([zeros], CPU).batch(tasks, np.arange(5))
    assert view.min() == 1


def test_memory_goes_from_one_gatherer_to_the_next() -> None:
    tasks = make([(3, 2, 4)] * 5)
    places = []
    for value in range(3):
        batch, _ = Gatherer([np.full((50, 4), value, np.float32)], CPU).batch(tasks, np.arange(5))
        places.append(batch.support.data_ptr())
        assert batch.support.max() == value
        del batch
    assert len(set(places)) == 1
