"""Every shape with every choice of classes and of images."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from longshot.data import Dataset
from longshot.tasks import (
    AnyShape,
    BilevelClasses,
    CoarsityClasses,
    FixedShape,
    HierarchicalClasses,
    MatchedInstances,
    MetaDatasetShape,
    SemanticClasses,
    ShapeLike,
    ShiftedInstances,
    SiblingClasses,
    Testbed,
    UniformClasses,
    UniformInstances,
    sample,
)

CLASSES = (
    UniformClasses(),
    SiblingClasses(),
    BilevelClasses(level=1),
    HierarchicalClasses(),
    SemanticClasses(alpha=0.05, distinct=False),
    CoarsityClasses(0, 1000),
)
RULE = {"query_where": "even", "support_where": "not even"}
INSTANCES = (UniformInstances(), ShiftedInstances(**RULE), MatchedInstances(**RULE))


@pytest.fixture(scope="module")
def dataset(make_dataset) -> Dataset:
    bare = make_dataset({f"{g}/{h}/{c}": 40 + c for g in "ab" for h in "xy" for c in range(6)})
    return replace(bare, attributes=pa.table({"even": np.arange(len(bare)) % 2 == 0}))


@pytest.fixture(scope="module")
def shapes(dataset: Dataset) -> dict[str, object]:
    other = sample(
        dataset, tasks=10, shape=MetaDatasetShape(min_way=3, max_way=5, max_query=4, max_support=20), seed=7
    )
    return {
        "fixed": FixedShape(4, 2, 3),
        "any": AnyShape(max_way=5, max_shot=4, query=3),
        "meta-dataset": MetaDatasetShape(min_way=3, max_support=60),
        "like": ShapeLike(other),
    }


@pytest.mark.parametrize("shape", ["fixed", "any", "meta-dataset", "like"])
@pytest.mark.parametrize("classes", CLASSES, ids=lambda choice: choice.name)
@pytest.mark.parametrize("instances", INSTANCES, ids=lambda choice: choice.name)
def test_they_combine(dataset: Dataset, shapes, shape: str, classes, instances, tmp_path) -> None:
    bed = sample(dataset, tasks=10, shape=shapes[shape], classes=classes, instances=instances, seed=2)
    own = dict(zip(dataset.keys.to_pylist(), np.array(dataset.class_ids)[dataset.labels], strict=True))
    for task in bed:
        assert len(set(task.classes)) == task.way >= 2 and min(task.shots) >= 1
        assert not set(task.support) & set(task.query)
        assert len(set(task.support)) == len(task.support) and len(set(task.query)) == len(task.query)
        assert [own[key] for key in task.support] == [task.classes[label] for label in task.support_label]
        assert [own[key] for key in task.query] == [task.classes[label] for label in task.query_label]
        assert task.measured["coarsity"] > 0
    bed.save(tmp_path / "bed.parquet")
    assert Testbed.load(tmp_path / "bed.parquet").content_hash == bed.content_hash


@pytest.mark.parametrize("classes", CLASSES, ids=lambda choice: choice.name)
def test_neither_workers_nor_blocks_change_a_task(dataset: Dataset, shapes, classes) -> None:
    choices = {
        "shape": shapes["meta-dataset"],
        "classes": classes,
        "instances": ShiftedInstances(**RULE),
        "tasks": 30,
    }
    assert (
        sample(dataset, **choices).content_hash == sample(dataset, **choices, workers=3, block=7).content_hash
    )
