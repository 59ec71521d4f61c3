"""Shares of attribute values among the images of tasks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from longshot.base import UserError
from longshot.data import Dataset
from longshot.tasks import FixedShape, ImageLimits, Testbed, attribute_shares, sample

SHAPE = FixedShape(way=3, shot=2, query=2)


@pytest.fixture(scope="module")
def dataset(make_dataset) -> Dataset:
    bare = make_dataset([24] * 5)
    views = [("front", "back", "side", None)[i % 4] for i in range(len(bare))]
    return replace(bare, attributes=pa.table({"viewpoint": views}))


@pytest.fixture(scope="module")
def bed(dataset: Dataset) -> Testbed:
    return sample(dataset, tasks=20, shape=SHAPE, limits=ImageLimits(query_where="viewpoint == front"))


def test_shares_are_counted_task_by_task(bed: Testbed, dataset: Dataset) -> None:
    view = dict(zip(dataset.keys.to_pylist(), dataset.attributes["viewpoint"].to_pylist(), strict=True))
    by_value = attribute_shares(bed, dataset, "viewpoint")
    assert list(by_value) == ["back", "front", "side"]
    for value, shares in by_value.items():
        assert shares.tolist() == [np.mean([view[key] == value for key in task.support]) for task in bed]


def test_queries_under_a_rule_are_all_alike(bed: Testbed, dataset: Dataset) -> None:
    shares = attribute_shares(bed, dataset, "viewpoint", part="query")
    assert shares["front"].tolist() == [1.0] * 20 and not shares["side"].any()


def test_an_unknown_attribute_is_told(bed: Testbed, dataset: Dataset) -> None:
    with pytest.raises(UserError, match="no attribute 'view'; it has: viewpoint"):
        attribute_shares(bed, dataset, "view")
