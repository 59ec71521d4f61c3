"""Shapes copied from another testbed."""

from __future__ import annotations

import pytest

from longshot.base import UserError
from longshot.tasks import MetaDatasetShape, SemanticClasses, ShapeLike, Testbed, sample


@pytest.fixture(scope="module")
def varied(make_dataset) -> Testbed:
    """Variable way and shot on another dataset."""
    return sample(make_dataset([60] * 12, name="other"), tasks=40, shape=MetaDatasetShape(max_way=9))


@pytest.fixture(scope="module")
def dataset(make_dataset):
    return make_dataset({f"{g}/{c}": 120 for g in "abc" for c in range(6)})


def shapes(bed: Testbed) -> list[tuple]:
    return [
        (task.way, task.shots, tuple((task.query_label == label).sum() for label in range(task.way)))
        for task in bed
    ]


@pytest.mark.parametrize("classes", [None, SemanticClasses(alpha=0.1)])
def test_ways_shots_and_queries_are_those_of_the_other(varied: Testbed, dataset, classes) -> None:
    bed = sample(dataset, tasks=40, shape=ShapeLike(varied), classes=classes, seed=9)
    assert shapes(bed) == shapes(varied)


def test_fewer_tasks_take_the_first_shapes(varied: Testbed, dataset) -> None:
    assert shapes(sample(dataset, tasks=7, shape=ShapeLike(varied))) == shapes(varied)[:7]


def test_more_tasks_than_the_other_has(varied: Testbed, dataset) -> None:
    with pytest.raises(UserError, match=r"has 40 tasks, but task 50 was asked for; ask for at most tasks=40"):
        sample(dataset, tasks=50, shape=ShapeLike(varied))


def test_the_metadata_names_the_other_by_its_hash(varied: Testbed, dataset) -> None:
    settings = sample(dataset, tasks=3, shape=ShapeLike(varied)).meta["sampler"]["shape"]
    assert settings == {"name": "like", "content_hash": varied.content_hash}


def test_classes_too_small_for_the_largest_shape(varied: Testbed, make_dataset) -> None:
    with pytest.raises(UserError, match=r"has 20 images, but a task needs \d\d of each class"):
        sample(make_dataset([20] * 12), tasks=3, shape=ShapeLike(varied))
