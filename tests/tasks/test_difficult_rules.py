"""Supports selected under rules and from disjoint pools, in Python and through the real command."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

from longshot.data import Dataset, open_dataset
from longshot.models import Features, embed
from longshot.tasks import (
    DifficultInstances,
    EasyInstances,
    FixedShape,
    GreedyInstances,
    ImageLimits,
    MetaDatasetShape,
    ShiftedInstances,
    Testbed,
    attribute_shares,
    sample,
)

SHAPE = FixedShape(way=4, shot=2, query=3)
VIEWS = ("front", "back", "side")
KINDS = {
    "difficult": lambda features: DifficultInstances(features, refine=2, greedy=1),
    "random start": lambda features: DifficultInstances(features, start="random"),
    "easy": EasyInstances,
    "greedy": lambda features: GreedyInstances(features, rounds=1),
    "ridge": lambda features: DifficultInstances(features, objective="ridge", refine=1),
    "task2vec": lambda features: DifficultInstances(features, objective="task2vec", refine=1),
}
every_kind = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture(scope="module")
def seen(photos: Path) -> tuple[Dataset, Features]:
    """Small photos with a made-up viewpoint."""
    dataset = open_dataset(photos)
    views = pa.table({"viewpoint": [VIEWS[i % 3] for i in range(len(dataset))]})
    features = embed(dataset, "pixels")
    narrow = np.ascontiguousarray(features.array[:, ::64])  # 48 of 3,072 numbers: ridge solves d×d systems
    return replace(dataset, attributes=views), replace(features, array=narrow)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of 6 classes, 24 small pictures each, with their viewpoint."""
    root = tmp_path_factory.mktemp("seen")
    with (root / "seen.csv").open("w", newline="") as lines:
        rows = csv.writer(lines)
        rows.writerow(["image", "class", "viewpoint"])
        for number in range(6 * 24):
            name = f"{number:03d}.png"
            Image.new("RGB", (8, 8), (number // 24 * 40, number % 24 * 10, number * 37 % 256)).save(
                root / name
            )
            rows.writerow([name, f"class{number // 24}", VIEWS[number % 3]])
    return root / "seen.csv"


@every_kind
def test_a_rule_for_the_support_is_kept(seen: tuple[Dataset, Features], kind: str) -> None:
    dataset, features = seen
    limits = ImageLimits(support_where="viewpoint in (back, side)")
    bed = sample(dataset, tasks=10, shape=SHAPE, instances=KINDS[kind](features), limits=limits)
    uniform = sample(dataset, tasks=10, shape=SHAPE, limits=limits)
    assert not attribute_shares(bed, dataset, "viewpoint")["front"].any()
    assert [task.query for task in bed] == [task.query for task in uniform]
    assert all(not set(task.support) & set(task.query) for task in bed)


@every_kind
def test_disjoint_pools_hold_over_the_whole_testbed(seen: tuple[Dataset, Features], kind: str) -> None:
    dataset, features = seen
    bed = sample(
        dataset, tasks=20, shape=SHAPE, instances=KINDS[kind](features), limits=ImageLimits(disjoint=True)
    )
    assert not {key for task in bed for key in task.support} & {key for task in bed for key in task.query}


def test_a_selected_support_is_harder_than_the_uniform_one(seen: tuple[Dataset, Features]) -> None:
    dataset, features = seen
    limits = ImageLimits("viewpoint == front", "viewpoint == side")
    bed = sample(dataset, tasks=20, shape=SHAPE, instances=DifficultInstances(features), limits=limits)
    assert np.all(bed.table["loss_after"].to_numpy() >= bed.table["loss_before"].to_numpy() - 1e-6)
    assert bed.table["loss_after"].to_numpy().mean() > bed.table["loss_before"].to_numpy().mean()


def test_difficult_supports_for_shifted_tasks(seen: tuple[Dataset, Features]) -> None:
    dataset, features = seen
    base = ShiftedInstances(query_where="viewpoint == front", support_where="viewpoint == side")
    bed = sample(dataset, tasks=10, shape=SHAPE, instances=DifficultInstances(features, base=base))
    assert attribute_shares(bed, dataset, "viewpoint")["side"].tolist() == [1.0] * 10
    assert attribute_shares(bed, dataset, "viewpoint", part="query")["front"].tolist() == [1.0] * 10


def test_blocks_and_workers_do_not_change_a_limited_testbed(seen: tuple[Dataset, Features]) -> None:
    dataset, features = seen
    hashes = {
        sample(
            dataset,
            tasks=20,
            shape=MetaDatasetShape(min_way=3, max_query=3, max_support=20),
            instances=DifficultInstances(features, refine=1, greedy=1),
            limits=ImageLimits(support_where="viewpoint != front", disjoint=True),
            block=block,
            workers=workers,
        ).content_hash
        for block, workers in ((4096, 1), (7, 2))
    }
    assert len(hashes) == 1


@pytest.mark.parametrize("kind", ["difficult", "easy", "greedy"])
def test_the_command_takes_a_rule_for_the_support(table: Path, run_cli, tmp_path: Path, kind: str) -> None:
    out = tmp_path / "side.parquet"
    rule = ("--support-where", "viewpoint == side", "--query-where", "viewpoint in (front, back)")
    args = ("--instances", kind, "--backbone", "pixels", *rule, "--tasks", "5")
    run_cli("sample", table, *args, "--shot", "2", "--query", "3", "-o", out)
    shares = attribute_shares(Testbed.load(out), open_dataset(table), "viewpoint")
    assert shares["side"].tolist() == [1.0] * 5


def test_the_command_takes_disjoint_pools(table: Path, run_cli, tmp_path: Path) -> None:
    out = tmp_path / "disjoint.parquet"
    args = ("--instances", "difficult", "--backbone", "pixels", "--disjoint-pools", "--tasks", "30")
    run_cli("sample", table, *args, "--shot", "4", "--query", "4", "-o", out)
    bed = Testbed.load(out)
    assert bed.meta["sampler"]["disjoint_pools"] is True
    assert not {key for task in bed for key in task.support} & {key for task in bed for key in task.query}
