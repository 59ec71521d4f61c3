"""No sampler puts copies on both sides of a task or in two of its classes, whatever groups are planted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib import import_module
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from longshot import UserError
from longshot.audit import CopyGroups
from longshot.data import Dataset
from longshot.models import Features, embed
from longshot.tasks import (
    AnyShape,
    BigEpisode,
    BilevelClasses,
    DifficultInstances,
    EasyInstances,
    FixedShape,
    GreedyInstances,
    HierarchicalClasses,
    ImageLimits,
    MatchedInstances,
    MetaDatasetShape,
    SemanticClasses,
    ShiftedInstances,
    SiblingClasses,
    Testbed,
    UniformClasses,
    UniformInstances,
    sample,
    shuffled_splits,
    straddling_tasks,
)

PER_CLASS, VERSIONS = 40, 2  # photo 2n and its altered version 2n + 1
RULE = {"query_where": "altered", "support_where": "not altered"}
SHAPES = (
    FixedShape(3, 2, 3),
    AnyShape(max_way=4, max_shot=4, query=3),
    MetaDatasetShape(min_way=3, max_support=40, max_query=4),
)
CLASSES = (
    UniformClasses(),
    SiblingClasses(),
    BilevelClasses(1),
    HierarchicalClasses(),
    SemanticClasses(0.05, distinct=False),
)
UNJUDGED = (UniformInstances(), ShiftedInstances(**RULE), MatchedInstances(**RULE))
JUDGED: dict[str, Callable[[Features], Any]] = {
    "difficult": lambda features: DifficultInstances(features, greedy=1),
    "half difficult": lambda features: DifficultInstances(features, difficulty=0.5),
    "random start": lambda features: DifficultInstances(features, start="random", steps=2),
    "two judges": lambda features: DifficultInstances(
        [features, replace(features, array=features.array[:, ::2], hash="b", weights_hash="other")]
    ),
    "easy": EasyInstances,
    "greedy": lambda features: GreedyInstances(features, rounds=1),
    "ridge": lambda features: DifficultInstances(features, objective="ridge"),
    "task2vec": lambda features: DifficultInstances(features, objective="task2vec"),
    "shifted": lambda features: DifficultInstances(features, greedy=1, base=ShiftedInstances(**RULE)),
}


@pytest.fixture(scope="module")
def dataset(make_dataset) -> Dataset:
    bare = make_dataset({f"{g}/{c}": PER_CLASS for g in "abc" for c in range(4)})
    return replace(bare, attributes=pa.table({"altered": np.arange(len(bare)) % VERSIONS == 1}))


@pytest.fixture(scope="module")
def features(dataset: Dataset) -> Features:
    narrow = np.random.default_rng(0).normal(size=(len(dataset), 8)).astype(np.float32)
    return replace(embed(dataset, "pixels"), array=narrow)


def joined(pairs: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The first row of those that pairs connect each row with: labels are lowered until none changes."""
    first = rows.copy()
    while True:
        before = first.copy()
        for a, b, *_ in pairs.tolist():
            first[a] = first[b] = min(first[a], first[b])
        if (first == before).all():
            return first


def plant(dataset: Dataset, seed: int, versions: bool = False) -> CopyGroups:
    """Chains of copies within classes, some across; with ``versions`` a photo and its altered version are one group."""
    rng, rows = np.random.default_rng(seed), np.arange(len(dataset))
    pairs = [(row, row + 1, 1) for row in rows[::VERSIONS]] if versions else []
    for start in dataset.offsets[:-1]:
        inside = start + rng.integers(0, PER_CLASS, (3 if versions else 12, 2))
        pairs += [(a, b, kind) for (a, b), kind in zip(inside, rng.integers(0, 2, len(inside)), strict=True)]
    across = rng.integers(0, len(dataset), (4, 2))
    pairs += [(a, b, number % 2) for number, (a, b) in enumerate(across)]
    links = np.array(pairs, np.int64)
    return CopyGroups(joined(links[links[:, 2] == 0], rows), joined(links, rows), True)


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, CopyGroups]]:
    """Under "groups" what the search for copies finds."""
    holder: dict[str, CopyGroups] = {}
    for name in ("sampling", "big_episode"):
        module = import_module(f"longshot.tasks.{name}")
        monkeypatch.setattr(module, "find_copies", lambda *_: ("apart", holder["groups"]))
    yield holder


def check(bed: Testbed, groups: CopyGroups, dataset: Dataset) -> None:
    """By sets, task by task, and by the count that ``inspect`` prints."""
    clashing = {
        row
        for first in np.unique(groups.equal)
        if len(set(dataset.labels[groups.equal == first])) > 1
        for row in np.flatnonzero(groups.equal == first).tolist()
    }
    row_of = {key: row for row, key in enumerate(dataset.keys.to_pylist())}
    for task in bed:
        support, query = ([row_of[key] for key in part] for part in (task.support, task.query))
        assert not {groups.group[row] for row in support} & {groups.group[row] for row in query}
        classes = {groups.group[row]: set[int]() for row in [*support, *query]}
        for row in [*support, *query]:
            classes[groups.group[row]].add(int(dataset.labels[row]))
        assert all(len(labels) == 1 for labels in classes.values())
        assert not clashing & {*support, *query}
        assert len({groups.group[row] for row in support}) == len(support)  # nor twice on one side
    used = dataset.find_rows(bed.keys(dataset.name))
    assert straddling_tasks(bed, {dataset.name: groups.take(used)}) == 0


LEAN = settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@settings(LEAN, max_examples=2)
@given(seed=st.integers(0, 2**31), disjoint=st.booleans())
def test_every_shape_with_every_choice(dataset: Dataset, planted, seed: int, disjoint: bool) -> None:
    for versions in (False, True):
        planted["groups"] = groups = plant(dataset, seed, versions)
        for shape, classes, instances in product(SHAPES, CLASSES, UNJUDGED):
            bed = sample(
                dataset,
                tasks=6,
                shape=shape,
                classes=classes,
                instances=instances,
                limits=ImageLimits(disjoint=disjoint),
                seed=seed % 7,
                allow_repeats=True,
                drop_small=True,  # copies and rules may leave a class without support
                identity="names",
            )
            check(bed, groups, dataset)
            if disjoint:
                sides = (
                    {
                        groups.group[row]
                        for row in dataset.find_rows(
                            pa.array(sorted({k for t in bed for k in getattr(t, part)}))
                        )
                    }
                    for part in ("support", "query")
                )
                assert not next(sides) & next(sides)


@pytest.mark.parametrize("kind", JUDGED)
@settings(LEAN, max_examples=2)
@given(seed=st.integers(0, 2**31))
def test_supports_that_are_chosen_by_judges(
    dataset: Dataset, features: Features, planted, kind: str, seed: int
) -> None:
    for versions, limits in product((False, True), (ImageLimits(), ImageLimits(**RULE))):
        if kind == "shifted" and limits.query_where:
            continue
        planted["groups"] = groups = plant(dataset, seed, versions)
        common: dict[str, Any] = {
            "tasks": 5,
            "shape": SHAPES[0],
            "limits": limits,
            "seed": seed % 5,
            "identity": "names",
        }
        bed = sample(dataset, instances=JUDGED[kind](features), **common)
        check(bed, groups, dataset)
        base = ShiftedInstances(**RULE) if kind == "shifted" else UniformInstances()
        uniform = sample(dataset, instances=base, **common)
        assert [task.query for task in bed] == [task.query for task in uniform]


def test_shifted_and_matched_tasks_ask_the_same_and_lose_no_version(dataset: Dataset, planted) -> None:
    planted["groups"] = groups = plant(dataset, 1, versions=True)
    shifted, matched = (
        sample(dataset, tasks=60, shape=SHAPES[0], instances=kind(**RULE), identity="names")
        for kind in (ShiftedInstances, MatchedInstances)
    )
    assert [task.query for task in shifted] == [task.query for task in matched]
    altered = [
        {int(key[-8:-4]) % 2 for task in shifted for key in part}
        for part in ([k for t in shifted for k in t.query], [k for t in shifted for k in t.support])
    ]
    assert altered == [{1}, {0}]
    check(shifted, groups, dataset)
    check(matched, groups, dataset)


def test_of_an_altered_photo_every_version_is_drawn(dataset: Dataset, planted) -> None:
    """Without a rule the version is a matter of the seed: about half of the groups give either."""
    planted["groups"] = plant(dataset, 1, versions=True)
    bed = sample(dataset, tasks=200, shape=SHAPES[0], identity="names")
    share = np.mean([int(key[-8:-4]) % 2 for key in bed.keys(dataset.name).to_pylist()])
    assert 0.4 < share < 0.6


@pytest.mark.parametrize("instances", UNJUDGED, ids=lambda choice: choice.name)
def test_neither_workers_nor_blocks_nor_their_number_change_a_task(
    dataset: Dataset, planted, instances
) -> None:
    planted["groups"] = plant(dataset, 5, versions=True)
    common: dict[str, Any] = {"shape": SHAPES[0], "instances": instances, "identity": "names", "seed": 3}
    bed = sample(dataset, tasks=30, **common)
    assert sample(dataset, tasks=30, workers=2, block=7, **common).table.equals(bed.table)
    assert [task.support for task in sample(dataset, tasks=11, **common)] == [task.support for task in bed][
        :11
    ]


def test_without_copies_tasks_are_what_they_were(dataset: Dataset, planted) -> None:
    rows = np.arange(len(dataset))
    planted["groups"] = CopyGroups(rows, rows, True)
    for instances, limits in ((UniformInstances(), ImageLimits(disjoint=True)), (UNJUDGED[1], ImageLimits())):
        common: dict[str, Any] = {
            "tasks": 9,
            "shape": SHAPES[0],
            "instances": instances,
            "limits": limits,
            "identity": "names",
        }
        apart = sample(dataset, **common)
        planted["groups"] = None  # type: ignore[assignment]
        assert apart.table.equals(sample(dataset, **common).table)
        planted["groups"] = CopyGroups(rows, rows, True)


def test_what_is_counted_and_recorded(make_dataset, planted) -> None:
    """One class of six with rows 0 = 1 and 2 ~ 3; row 5 equals row 6 of the second class; row 4 is near row 7."""
    dataset = make_dataset({"a": 6, "b": 6})
    rows = np.arange(12)
    links = np.array([(0, 1, 0), (2, 3, 1), (5, 6, 0), (4, 7, 1)])
    planted["groups"] = CopyGroups(joined(links[links[:, 2] == 0], rows), joined(links, rows), True)
    bed = sample(dataset, tasks=3, way=2, shot=1, query=2, allow_repeats=True, identity="names")
    assert bed.meta["sampler"]["copies"] == {"name": "apart", "equal": 2, "near": 2, "contradicting": 2}
    # a: {0, 1}, {2, 3}, 4 are left; b: 8 … 11
    with pytest.raises(
        UserError,
        match="Class 'a' of 'small' has 3 images, 3 of 6 being left out as copies, but a task needs 4",
    ):
        sample(dataset, tasks=3, way=2, shot=2, query=2, identity="names")


def test_the_number_of_distinct_tasks_counts_copies_once(make_dataset, planted) -> None:
    """Two classes of three different images: 3 · 2 pairs of query and support each, 36 tasks."""
    dataset = make_dataset({"a": 4, "b": 4})
    rows = np.arange(8)
    group = np.array([0, 1, 2, 2, 4, 5, 6, 6])
    planted["groups"] = CopyGroups(group, group, False)
    with pytest.raises(UserError, match="only 36 distinct tasks of this kind, but 40"):
        sample(dataset, tasks=40, way=2, shot=1, query=1, identity="names")
    planted["groups"] = CopyGroups(rows, rows, False)
    assert len(sample(dataset, tasks=40, way=2, shot=1, query=1, identity="names")) == 40


def test_a_copy_in_another_split_is_none_of_its_tasks(make_dataset, planted) -> None:
    dataset = make_dataset({"a": 5, "b": 5, "c": 5}, splits={"train": ("c",), "test": ("a", "b")})
    group = np.arange(15)
    group[12] = group[0]  # an image of a under c
    planted["groups"] = CopyGroups(group, group, False)
    bed = sample(dataset, tasks=2, way=2, shot=2, query=3, split="test", identity="names")
    assert bed.meta["sampler"]["copies"] == {"name": "apart"} and len(bed.keys("small")) == 10


@LEAN
@given(seed=st.integers(0, 2**31))
def test_big_episodes(dataset: Dataset, planted, seed: int) -> None:
    planted["groups"] = groups = plant(dataset, seed)
    data = shuffled_splits(dataset, seed % 100)
    episode = BigEpisode(train=60, validation=20)
    for bed in (episode.final(data.with_identity("names")), episode.choice(data.with_identity("names"))):
        (task,) = bed
        support, query = (groups.group[data.find_rows(pa.array(part))] for part in (task.support, task.query))
        assert not set(support) & set(query) and len(support) in (60, 80)
        used = data.find_rows(bed.keys(data.name))
        assert straddling_tasks(bed, {data.name: groups.take(used)}) == 0
