"""sample(): determinism, eligibility, repeats, several datasets, measured columns."""

from __future__ import annotations

import hashlib
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from longshot.base import UserError
from longshot.tasks import (
    AnyShape,
    FixedShape,
    Pool,
    SiblingClasses,
    Testbed,
    UniformClasses,
    UniformInstances,
    sample,
)
from longshot.tasks.drawing import count_tasks


@pytest.mark.parametrize("shape", [FixedShape(5, 5, 10), AnyShape(query=10)], ids=["fixed", "any"])
def test_files_are_identical_whatever_workers_and_blocks(make_dataset, tmp_path: Path, shape) -> None:
    dataset = make_dataset([40, 17, 60, 33, 25, 80, 41])
    digests = set()
    for workers, block in ((1, 4096), (1, 1), (2, 7), (4, 64)):
        path = tmp_path / f"{workers}-{block}.parquet"
        sample(dataset, tasks=150, shape=shape, seed=9, workers=workers, block=block).save(path)
        digests.add(hashlib.sha256(path.read_bytes()).hexdigest())
    assert len(digests) == 1


def test_another_seed_gives_other_tasks(make_dataset) -> None:
    dataset = make_dataset([40] * 8)
    first, second = (sample(dataset, tasks=20, seed=seed) for seed in (0, 1))
    assert all(a.query != b.query for a, b in zip(first, second, strict=True))


def test_the_settings_are_in_the_metadata(make_dataset) -> None:
    dataset = make_dataset({"a/x": 9, "a/y": 9, "b/z": 2})
    bed = sample(
        dataset, tasks=4, shape=FixedShape(2, 2, 3), classes=SiblingClasses(level=1), seed=5, drop_small=True
    )
    assert bed.meta["sampler"] == {
        "tasks": 4,
        "shape": {"name": "fixed", "way": 2, "shot": 2, "query": 3},
        "classes": {"name": "siblings", "level": 1},
        "instances": {"name": "uniform"},
        "split": None,
        "allow_repeats": False,
        "dropped_classes": 1,
        "copies": {"name": "apart"},
    }
    assert bed.meta["seed"] == 5 and bed.datasets == {"small": dataset.fingerprint}


def test_a_small_class_is_named_with_counts_and_remedy(make_dataset) -> None:
    message = (
        r"Class 'class001' of 'small' has 7 images, but a task needs 15 .*, and 6 of 8 classes have enough; "
        r"leave the small ones out with drop_small=True, or lower shot or query"
    )
    with pytest.raises(UserError, match=message):
        sample(make_dataset([20, 7, 20, 9, 20, 20, 20, 20]))


def test_no_class_with_enough_images_is_an_error_even_with_drop_small(make_dataset) -> None:
    with pytest.raises(
        UserError, match=r"has 3 images, but a task needs 15 .*, and 0 of 6 classes have enough"
    ):
        sample(make_dataset([4, 3, 4, 4, 4, 4]), drop_small=True)


def test_drop_small_leaves_classes_out(make_dataset) -> None:
    bed = sample(make_dataset([20, 7, 20, 9, 20, 20, 20, 20]), tasks=100, drop_small=True)
    assert {c for task in bed for c in task.classes}.isdisjoint({"class001", "class003"})


def test_fewer_classes_than_ways(make_dataset) -> None:
    with pytest.raises(UserError, match=r"There are 4 classes in 'small', but a task needs 5; lower way"):
        sample(make_dataset([20] * 4))


def test_too_many_ways_are_said_before_small_classes(make_dataset) -> None:
    with pytest.raises(UserError, match=r"There are 6 classes in 'small', but a task needs 100; lower way"):
        sample(make_dataset([4] * 6), way=100)


def test_fewer_classes_than_ways_after_dropping(make_dataset) -> None:
    with pytest.raises(
        UserError, match=r"There are 4 classes .*\(2 smaller ones left out\), but a task needs 5"
    ):
        sample(make_dataset([20, 20, 20, 20, 2, 2]), drop_small=True)


def test_a_split_without_enough_classes_is_named(make_dataset) -> None:
    dataset = make_dataset([20] * 6, splits={"test": ("class000",)})
    with pytest.raises(UserError, match="There are 1 classes in the test split of 'small'"):
        sample(dataset, split="test")


@pytest.mark.parametrize(("tasks", "seed"), [(0, 0), (5, -1)])
def test_counts_and_seeds_are_checked(make_dataset, tasks: int, seed: int) -> None:
    with pytest.raises(UserError, match="must be"):
        sample(make_dataset([20] * 6), tasks=tasks, seed=seed)


def identity(task) -> tuple[frozenset[str], frozenset[str]]:
    return frozenset(task.support), frozenset(task.query)


def test_all_distinct_tasks_can_be_had(make_dataset) -> None:
    # 3 pairs of classes × (2 query choices × 1 support choice)² = 12 tasks
    bed = sample(make_dataset([2, 2, 2]), tasks=12, shape=FixedShape(2, 1, 1))
    assert len({identity(task) for task in bed}) == 12


def test_fewer_distinct_tasks_than_wanted_says_how_many(make_dataset) -> None:
    with pytest.raises(
        UserError, match=r"only 12 distinct tasks of this kind, but 13 were asked for.*tasks=12"
    ):
        sample(make_dataset([2, 2, 2]), tasks=13, shape=FixedShape(2, 1, 1))


def test_repeats_can_be_allowed(make_dataset) -> None:
    bed = sample(make_dataset([2, 2, 2]), tasks=13, shape=FixedShape(2, 1, 1), allow_repeats=True)
    assert len(bed) == 13


def test_allowing_repeats_changes_nothing_where_there_are_none(make_dataset) -> None:
    dataset = make_dataset([40] * 8)
    repeating, distinct = (sample(dataset, tasks=30, allow_repeats=flag) for flag in (True, False))
    assert repeating.table.equals(distinct.table)


def brute_force(sizes: dict[str, int], groups: list[list[str]], ways: range, shots: range, query: int) -> int:
    possible = set()
    for group in groups:
        for way in ways:
            for chosen in combinations(group, way):
                for shot in shots:
                    possible |= _tasks_of(chosen, sizes, shot, query)
    return len(possible)


def _tasks_of(classes, sizes, shot: int, query: int) -> set:
    partial = {(frozenset(), frozenset())}
    for c in classes:
        images = [(c, i) for i in range(sizes[c])]
        parts = [
            (frozenset(support), frozenset(queries))
            for queries in combinations(images, query)
            for support in combinations([i for i in images if i not in queries], shot)
        ]
        partial = {(s | a, q | b) for s, q in partial for a, b in parts}
    return partial


def test_the_number_of_distinct_tasks_equals_brute_force(make_dataset) -> None:
    sizes = {"a/x": 3, "a/y": 2, "a/z": 4, "b/u": 2, "b/v": 3}
    pool = Pool(make_dataset(sizes), np.arange(len(sizes)))
    families = [["a/x", "a/y", "a/z"], ["b/u", "b/v"]]
    everything = [sorted(sizes)]
    cases = [
        (FixedShape(2, 1, 1), UniformClasses(), everything, range(2, 3), range(1, 2)),
        (FixedShape(2, 1, 1), SiblingClasses(), families, range(2, 3), range(1, 2)),
        (AnyShape(max_way=3, query=1), SiblingClasses(), families, range(2, 4), range(1, 2)),
    ]
    for shape, classes, groups, ways, shots in cases:
        counted = count_tasks(shape, classes, UniformInstances(), pool, limit=10**9)
        assert counted == brute_force(sizes, groups, ways, shots, 1)


def test_counting_stops_at_the_limit(make_dataset) -> None:
    pool = Pool(make_dataset([1000] * 200), np.arange(200))
    assert count_tasks(FixedShape(), UniformClasses(), UniformInstances(), pool, limit=77) == 77


def test_several_datasets_are_the_single_ones_joined(make_dataset) -> None:
    small, large = make_dataset([20] * 6, name="one"), make_dataset([30] * 7, name="two")
    together = sample([small, large], tasks=10)
    joined = Testbed.concat([sample(small, tasks=10), sample(large, tasks=10)])
    assert together.content_hash == joined.content_hash
    assert [task.dataset for task in together] == ["one"] * 10 + ["two"] * 10
    assert [task.index for task in together] == list(range(20))


def test_a_dataset_given_twice_is_refused(make_dataset) -> None:
    dataset = make_dataset([20] * 6)
    with pytest.raises(UserError, match="'small' is given twice"):
        sample([dataset, dataset], tasks=10)


def test_measures_become_columns_in_any_block_size(make_dataset) -> None:
    dataset = make_dataset([20] * 6)

    def mean_row(pool, plan, rows) -> dict[str, np.ndarray]:
        return {"mean_row": rows.query.padded(0).mean(1)}

    beds = [sample(dataset, tasks=25, measures=[mean_row], block=block) for block in (4096, 4)]
    assert beds[0].content_hash == beds[1].content_hash
    assert beds[0].measured == ("mean_row",)
    rows = dataset.find_rows(beds[0].table.column("query")[3].values)
    assert beds[0][3].measured["mean_row"] == rows.mean()
