"""Shapes, classes and instances: what every drawn task must satisfy, and with which distribution."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from longshot.base import UserError
from longshot.data import Taxonomy
from longshot.tasks import AnyShape, FixedShape, SiblingClasses, Testbed, UniformClasses, sample

ALARM = 1e-4


def check_tasks(bed: Testbed, dataset: Any) -> None:
    """What holds for every task of every sampler."""
    class_of = dict(zip(dataset.keys.to_pylist(), np.array(dataset.class_ids)[dataset.labels], strict=True))
    for task in bed:
        assert len(set(task.classes)) == task.way == len(task.shots)
        assert not set(task.support) & set(task.query)
        assert len(set(task.support)) == len(task.support) and len(set(task.query)) == len(task.query)
        for keys, labels in ((task.support, task.support_label), (task.query, task.query_label)):
            assert [class_of[key] for key in keys] == [task.classes[label] for label in labels]
            assert np.all(np.diff(labels) >= 0), "class after class"
        assert np.bincount(task.support_label, minlength=task.way).tolist() == list(task.shots)


@settings(deadline=None, max_examples=40)
@given(
    sizes=st.lists(st.integers(6, 40), min_size=3, max_size=12),
    way=st.integers(2, 3),
    shot=st.integers(1, 3),
    query=st.integers(1, 3),
    seed=st.integers(0, 2**40),
)
def test_fixed_tasks_are_sound(make_dataset, sizes, way, shot, query, seed) -> None:
    dataset = make_dataset(sizes)
    bed = sample(dataset, tasks=12, shape=FixedShape(way, shot, query), seed=seed)
    check_tasks(bed, dataset)
    assert {(task.way, task.shots, len(task.query)) for task in bed} == {(way, (shot,) * way, way * query)}


@settings(deadline=None, max_examples=40)
@given(
    sizes=st.lists(st.integers(6, 40), min_size=2, max_size=12),
    max_way=st.integers(2, 15),
    max_shot=st.integers(1, 30),
    query=st.integers(1, 5),
    seed=st.integers(0, 2**40),
)
def test_any_way_any_shot_tasks_are_sound(make_dataset, sizes, max_way, max_shot, query, seed) -> None:
    dataset = make_dataset(sizes)
    shape = AnyShape(max_way=max_way, max_shot=max_shot, query=query)
    bed = sample(dataset, tasks=10, shape=shape, seed=seed, allow_repeats=True)
    check_tasks(bed, dataset)
    for task in bed:
        assert 2 <= task.way <= min(max_way, len(sizes))
        assert len(set(task.shots)) == 1 and 1 <= task.shots[0] <= min(max_shot, min(sizes) - query)


def test_any_way_any_shot_draws_uniform_ways_and_shots(make_dataset) -> None:
    bed = sample(make_dataset([35] * 30), tasks=8000, shape=AnyShape())
    ways, shots = bed.table.column("way").to_numpy(), bed.column("shots")
    shots = shots.values[shots.offsets[:-1]]
    assert stats.chisquare(np.bincount(ways, minlength=21)[2:]).pvalue > ALARM
    assert stats.chisquare(np.bincount(shots, minlength=16)[1:]).pvalue > ALARM, "at most 35 − 20 shots"
    table = np.histogram2d(ways, shots, bins=(19, 15))[0]
    assert stats.chi2_contingency(table).pvalue > ALARM, "ways and shots are independent"


def test_uniform_classes_draw_every_set_equally_often(make_dataset) -> None:
    bed = sample(make_dataset([30] * 6), tasks=20_000, shape=FixedShape(3, 1, 1))
    chosen = np.sort(bed.column("classes").values.reshape(-1, 3), axis=1)
    sets, counts = np.unique(chosen, axis=0, return_counts=True)
    assert len(sets) == len(list(combinations(range(6), 3)))
    assert stats.chisquare(counts).pvalue > ALARM


def test_every_image_is_equally_likely_in_support_and_query(make_dataset) -> None:
    dataset = make_dataset([25] * 4)
    bed = sample(dataset, tasks=10_000, shape=FixedShape(2, 3, 4))
    bound = bed.bind("small", dataset.keys, dataset.fingerprint)
    for rows in (bound.support, bound.query):
        assert stats.chisquare(np.bincount(rows.values, minlength=100)).pvalue > ALARM


def test_support_is_uniform_given_the_query(make_dataset) -> None:
    dataset = make_dataset([5, 5])
    bed = sample(dataset, tasks=20_000, shape=FixedShape(2, 1, 2), allow_repeats=True)
    bound = bed.bind("small", dataset.keys, dataset.fingerprint)
    support = bound.support.values.reshape(-1, 2) % 5
    query = np.sort(bound.query.values.reshape(-1, 2, 2) % 5, axis=2)
    cells = np.zeros((5, 5, 5))
    np.add.at(cells, (query[..., 0].ravel(), query[..., 1].ravel(), support.ravel()), 1)
    triples = [cells[a, b, c] for a, b in combinations(range(5), 2) for c in set(range(5)) - {a, b}]
    assert sum(triples) == 40_000 and stats.chisquare(triples).pvalue > ALARM


def test_queries_do_not_depend_on_shots_and_fewer_shots_begin_more(make_dataset) -> None:
    dataset = make_dataset([40] * 10)
    single, five = (sample(dataset, tasks=50, shape=FixedShape(5, shot, 6), seed=3) for shot in (1, 5))
    for a, b in zip(single, five, strict=True):
        assert a.query == b.query and a.classes == b.classes
        assert a.support == b.support[::5]


def test_the_first_tasks_do_not_depend_on_those_behind(make_dataset) -> None:
    dataset = make_dataset([4, 4, 4])  # few distinct tasks: some are redrawn
    short, long = (sample(dataset, tasks=n, shape=FixedShape(2, 1, 1), seed=1) for n in (100, 300))
    assert [(t.support, t.query) for t in short] == [(t.support, t.query) for t in long][:100]


FAMILIES = {
    **{f"a/p/{i}": 12 for i in range(4)},
    **{f"a/q/{i}": 12 for i in range(3)},
    **{f"b/r/{i}": 12 for i in range(6)},
}


def test_siblings_share_their_parent(make_dataset) -> None:
    dataset = make_dataset(FAMILIES)
    bed = sample(dataset, tasks=3000, shape=FixedShape(3, 1, 1), classes=SiblingClasses())
    check_tasks(bed, dataset)
    parents = [{c.rsplit("/", 1)[0] for c in task.classes} for task in bed]
    assert {len(p) for p in parents} == {1}
    _, counts = np.unique([p.pop() for p in parents], return_counts=True)
    assert len(counts) == 3 and stats.chisquare(counts).pvalue > ALARM, "uniform over super-classes"


def test_siblings_at_a_level_share_that_ancestor(make_dataset) -> None:
    bed = sample(
        make_dataset(FAMILIES), tasks=200, shape=FixedShape(5, 1, 1), classes=SiblingClasses(level=1)
    )
    assert {len({c.split("/")[0] for c in task.classes}) for task in bed} == {1}
    assert any(len({c.split("/")[1] for c in task.classes}) == 2 for task in bed)


def test_siblings_with_varying_ways_stay_within_their_super_class(make_dataset) -> None:
    shape = AnyShape(query=2)
    bed = sample(make_dataset(FAMILIES), tasks=400, shape=shape, classes=SiblingClasses())
    sizes = {"a/p": 4, "a/q": 3, "b/r": 6}
    seen = {(task.classes[0].rsplit("/", 1)[0], task.way) for task in bed}
    assert seen == {(parent, way) for parent, size in sizes.items() for way in range(2, size + 1)}


def test_siblings_on_a_dag_use_every_parent(make_dataset) -> None:
    flat = make_dataset([9] * 5)
    ids = flat.class_ids
    edges = [("root", "one"), ("root", "two"), *(("one", c) for c in ids[:3]), *(("two", c) for c in ids[2:])]
    dataset = type(flat)(**{**vars(flat), "taxonomy": Taxonomy.from_edges(edges)})
    bed = sample(dataset, tasks=100, shape=FixedShape(3, 1, 1), classes=SiblingClasses())
    assert {frozenset(task.classes) for task in bed} == {frozenset(ids[:3]), frozenset(ids[2:])}


def test_a_split_restricts_the_classes(make_dataset) -> None:
    splits = {"train": ("class000", "class001"), "test": ("class002", "class003", "class004")}
    bed = sample(make_dataset([20] * 5, splits=splits), tasks=50, shape=FixedShape(2, 1, 1), split="test")
    assert {c for task in bed for c in task.classes} == set(splits["test"])


def test_siblings_without_a_taxonomy(make_dataset) -> None:
    with pytest.raises(UserError, match=r"'small' has no taxonomy.*nest its class folders"):
        sample(make_dataset([20] * 5), classes=SiblingClasses(), shape=FixedShape(2, 1, 1))


def test_siblings_name_the_largest_super_class(make_dataset) -> None:
    with pytest.raises(UserError, match=r"has the 7 classes.*the largest, 'r', has 6; lower way .*level=1"):
        sample(make_dataset(FAMILIES), classes=SiblingClasses(), shape=FixedShape(7, 1, 1))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FixedShape(way=1), "The number for way is 1, but must be a whole number between 2"),
        (lambda: FixedShape(shot=0), "The number for shot is 0, but must be a whole number between 1"),
        (lambda: FixedShape(query=40_000), "The number for query is 40000"),
        (lambda: AnyShape(max_way=1), "The number for max_way is 1"),
        (
            lambda: AnyShape(min_shot=5, max_shot=4),
            "The number for max_shot is 4, but must be a whole number between 5",
        ),
        (lambda: SiblingClasses(level=0), "SiblingClasses's level is 0"),
    ],
)
def test_parameters_are_checked(make, message: str) -> None:
    with pytest.raises(UserError, match=message):
        make()


def test_uniform_needs_no_taxonomy_even_when_there_is_one(make_dataset) -> None:
    bed = sample(make_dataset(FAMILIES), tasks=100, shape=FixedShape(5, 1, 1), classes=UniformClasses())
    assert any(len({c.split("/")[0] for c in task.classes}) == 2 for task in bed)
