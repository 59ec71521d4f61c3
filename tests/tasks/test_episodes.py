"""Episodes in a real PyTorch DataLoader, and in easyfsl's own evaluation."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

from benchmarks._easyfsl import load_module
from longshot.base import UserError, parse_preprocessing
from longshot.data import open_dataset
from longshot.evaluation import evaluate
from longshot.models import embed
from longshot.tasks import AnyShape, FixedShape, sample


def lengths(name: str, keys: Sequence[str]) -> torch.Tensor:
    """A loader of one's own: anything with one row per key."""
    return torch.tensor([[float(len(key))] for key in keys])


def test_an_episode_is_support_and_query_with_labels(make_dataset) -> None:
    dataset = make_dataset([20] * 6)
    bed = sample(dataset, tasks=4, shape=FixedShape(3, 2, 5))
    episodes = bed.episodes(images="decode|resize(16,16)|value_range(0,255)", datasets={"small": dataset})
    assert len(episodes) == 4
    support, support_label, query, query_label = episodes[1]
    assert support.shape == (6, 3, 16, 16) and query.shape == (15, 3, 16, 16)
    assert support_label.tolist() == bed[1].support_label.tolist() and query_label.dtype == torch.int64
    rows = dataset.find_rows(bed.table.column("query")[1].values)
    assert query.mean((1, 2, 3)).round().tolist() == (rows % 256).tolist()


@pytest.mark.parametrize("workers", [0, 2])
def test_photos_go_through_a_data_loader(photos: Path, workers: int) -> None:
    dataset = open_dataset(photos)
    bed = sample(dataset, tasks=6, shape=AnyShape(max_way=4, max_shot=3, query=2))
    episodes = bed.episodes()  # pictures are found through the registry
    loader = DataLoader(pickle.loads(pickle.dumps(episodes)), batch_size=None, num_workers=workers)
    for task, (support, support_label, query, query_label) in zip(bed, loader, strict=True):
        assert support.shape == (len(task.support), 3, 84, 84) and support.dtype == torch.float32
        assert query.shape == (len(task.query), 3, 84, 84)
        assert 0 <= float(query.min()) < float(query.max()) <= 1
        assert support_label.tolist() == task.support_label.tolist()
        assert query_label.tolist() == task.query_label.tolist()
    row = dataset.find_rows(bed.table.column("query")[5].values)[-1]
    plain = parse_preprocessing("decode|resize(96)|central_crop(84)|value_range(0,1)")(
        dataset.image(int(row))
    )
    assert np.array_equal(query[-1].numpy(), plain)


def test_a_loader_of_ones_own_needs_no_dataset(make_dataset) -> None:
    bed = sample(make_dataset([20] * 6), tasks=2, shape=FixedShape(2, 1, 3))
    support, _, query, _ = bed.episodes(images=lengths)[0]
    assert support.tolist() == [[float(len(key))] for key in bed[0].support] and len(query) == 6


def test_a_loader_that_loses_rows_is_told(make_dataset) -> None:
    bed = sample(make_dataset([20] * 6), tasks=2, shape=FixedShape(2, 1, 3))
    with pytest.raises(UserError, match="gave 7 rows for 8 keys of task 0"):
        bed.episodes(images=lambda name, keys: torch.zeros(len(keys) - 1, 2))[0]


def test_a_dataset_that_changed_is_refused_at_once(make_dataset) -> None:
    bed = sample(make_dataset([20] * 6), tasks=2, identity="names")
    with pytest.raises(UserError, match="has changed since the testbed was drawn"):
        bed.episodes(datasets={"small": make_dataset([21] * 6)})


def test_an_unknown_dataset_name_is_refused(make_dataset) -> None:
    bed = sample(make_dataset([20] * 6), tasks=2)
    with pytest.raises(UserError, match="no dataset 'other'; it has: small"):
        bed.episodes(datasets={"other": make_dataset([20] * 6)})


def test_features_take_the_place_of_pictures(photos: Path) -> None:
    dataset = open_dataset(photos)
    bed = sample(dataset, tasks=3, shape=FixedShape(3, 2, 2))
    features = embed(dataset, "pixels")
    support, _, query, _ = bed.episodes(features)[2]
    rows = dataset.find_rows(bed.table.column("query")[2].values)
    assert support.shape == (6, features.dim) and support.dtype == torch.float32
    assert np.array_equal(query.numpy(), features.array[rows].astype(np.float32))


def test_features_of_another_dataset_are_refused(photos: Path, make_dataset) -> None:
    bed = sample(make_dataset([20] * 6), tasks=2)
    with pytest.raises(UserError, match=r"features are of 'photos.*', but the testbed has tasks of 'small'"):
        bed.episodes(embed(photos, "pixels"))


easyfsl_here = pytest.mark.skipif(
    load_module("easyfsl.utils") is None,
    reason="needs easyfsl: pip install --no-deps easyfsl==1.5.0 (and tqdm)",
)


@easyfsl_here
def test_easyfsl_measures_on_features_what_longshot_does(photos: Path) -> None:
    """Its own evaluate, its own prototypes; a task has as many queries as any other, so its one ratio is our mean."""
    dataset = open_dataset(photos)
    bed = sample(dataset, tasks=20, shape=FixedShape(5, 1, 6))
    features = embed(dataset, "pixels")
    model = load_module("easyfsl.methods").PrototypicalNetworks(nn.Identity())
    loader = bed.episodes(features).to_easyfsl()
    accuracy = load_module("easyfsl.utils").evaluate(model, loader, device="cpu", use_tqdm=False)
    (row,) = evaluate(bed, backbones=features, methods="protonet").summary()
    assert accuracy == pytest.approx(row["accuracy"], abs=1 / (20 * 30))  # a query may be a tie in float32
    assert 0.2 < accuracy < 1


@easyfsl_here
def test_easyfsl_reads_pictures_through_a_network_of_its_own(photos: Path) -> None:
    bed = sample(open_dataset(photos), tasks=4, shape=AnyShape(max_way=4, max_shot=3, query=2))
    network = nn.Sequential(nn.AdaptiveAvgPool2d(4), nn.Flatten())
    model = load_module("easyfsl.methods").SimpleShot(network)
    loader = bed.episodes("decode|resize(16,16)|value_range(0,1)").to_easyfsl(workers=1)
    accuracy = load_module("easyfsl.utils").evaluate(model, loader, device="cpu", use_tqdm=False)
    total = sum(len(task.query) for task in bed)
    assert accuracy * total == pytest.approx(round(accuracy * total)) and accuracy > 0.25
    classes = sorted({class_id for task in bed for class_id in task.classes})
    for task, (*_, numbers) in zip(bed, loader, strict=True):
        assert [classes[number] for number in numbers] == list(task.classes)


def test_easyfsl_cannot_have_classes_without_support(make_dataset) -> None:
    import pyarrow as pa

    bed = sample(make_dataset([20] * 6), tasks=3, shape=FixedShape(2, 1, 3))
    rows = bed.table.to_pylist()
    rows[1].update(support=rows[1]["support"][:1], support_label=[0], shots=[1, 0])
    with pytest.raises(UserError, match="Task 1 has a class without support, and so have 0 others of 3"):
        bed.changed(pa.Table.from_pylist(rows)).episodes(images=lengths).to_easyfsl()
