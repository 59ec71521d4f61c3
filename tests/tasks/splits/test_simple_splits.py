"""Random and semantic splits."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from longshot.base import UserError
from longshot.data import Dataset, Taxonomy
from longshot.tasks.splits.published_splits import random_split, semantic_split, super_classes

Make = Callable[..., Dataset]
CIFAR_LIKE = [f"family{f:02d}/class{c}" for f in range(20) for c in range(5)]


def test_a_random_split_has_the_papers_sizes_and_its_seed(dataset_of: Make) -> None:
    dataset = dataset_of([f"c{i:02d}" for i in range(62)])
    split = random_split(dataset)
    assert split.sizes == {"train": 38, "validation": 12, "test": 12}
    assert sorted(split.train + split.validation + split.test) == list(dataset.class_ids)
    assert split == random_split(dataset)
    assert split.test != random_split(dataset, seed=1).test


def test_a_semantic_split_keeps_super_classes_whole(dataset_of: Make) -> None:
    split = semantic_split(dataset_of(CIFAR_LIKE))
    families = {part: {c.split("/")[0] for c in members} for part, members in split.parts.items()}
    assert split.sizes == {"train": 60, "validation": 20, "test": 20}  # as FC100's 12, 4 and 4 of 20
    assert {part: len(names) for part, names in families.items()} == {"train": 12, "validation": 4, "test": 4}
    assert not families["train"] & families["test"]
    assert not families["train"] & families["validation"]
    assert split.made["super_classes"]["test"] == sorted(families["test"])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=50)
@given(st.lists(st.integers(1, 12), min_size=3, max_size=15), st.integers(0, 20))
def test_semantic_parts_are_disjoint_exhaustive_and_never_empty(
    dataset_of: Make, sizes: list[int], seed: int
) -> None:
    ids = [f"f{f:02d}/c{c:02d}" for f, size in enumerate(sizes) for c in range(size)]
    if len(ids) < 5:
        return  # too few for any split
    dataset = dataset_of(ids)
    split = semantic_split(dataset, seed=seed)
    assert sorted(split.train + split.validation + split.test) == list(dataset.class_ids)
    assert all(split.sizes.values())
    homes = [{c.split("/")[0] for c in members} for members in split.parts.values()]
    assert sum(map(len, homes)) == len(set.union(*homes))


def test_sums_come_as_near_as_whole_super_classes_allow(dataset_of: Make) -> None:
    ids = [
        f"f{f}/c{c:02d}" for f, size in enumerate([7, 9, 3, 6, 5]) for c in range(size)
    ]  # 30 classes, 6 wanted
    assert semantic_split(dataset_of(ids)).sizes == {"train": 19, "validation": 5, "test": 6}


def test_levels_choose_coarser_super_classes(dataset_of: Make) -> None:
    dataset = dataset_of([f"{a}/{b}/{c}" for a in "xyz" for b in "pqr" for c in range(3)])
    assert len(super_classes(dataset.taxonomy, dataset.class_ids)) == 9
    split = semantic_split(dataset, level=1)
    assert sorted(name for names in split.made["super_classes"].values() for name in names) == ["x", "y", "z"]


def test_super_classes_that_share_a_class_are_one() -> None:
    edges = [("r", "a"), ("r", "b"), ("r", "c"), ("a", "1"), ("a", "2"), ("b", "2"), ("b", "3"), ("c", "4")]
    families = super_classes(Taxonomy.from_edges(edges), ["1", "2", "3", "4"])
    assert families == [("a + b", ("1", "2", "3")), ("c", ("4",))]


def test_what_a_semantic_split_needs_is_told(dataset_of: Make) -> None:
    with pytest.raises(UserError, match="has no taxonomy"):
        semantic_split(dataset_of(CIFAR_LIKE, taxonomy=None))
    flat = dataset_of([f"c{i}" for i in range(10)])
    with pytest.raises(UserError, match=r"has 1 super-class at the parents .* needs 3; give another level"):
        semantic_split(flat)
