"""Which rows a step reads: every epoch all of them, episodes from any sampler, rotations as classes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from longshot.base import parse_preprocessing
from longshot.data import Dataset, open_dataset
from longshot.models import embed, get_network
from longshot.tasks import (
    AnyShape,
    DifficultInstances,
    FixedShape,
    Judge,
    MetaDatasetShape,
    Pool,
    Shape,
    SiblingClasses,
    UniformClasses,
    UniformInstances,
)
from longshot.training import ValidationTasks, get_algorithm, parse_augmentation, training_settings
from longshot.training.episodic_algorithms import Mixed
from longshot.training.settings import make_validation
from longshot.training.training_episodes import EpisodeSource, Shuffled, network_features
from longshot.training.training_images import Prefetch, TrainingImages, with_rotations

PLAIN = parse_augmentation("")


@pytest.fixture(scope="module")
def dataset(photos: Path) -> Dataset:
    return open_dataset(photos)


@pytest.fixture
def images(dataset: Dataset) -> TrainingImages:
    transform = parse_preprocessing("decode|resize(16,16)|normalize(imagenet)")
    pixels = np.stack([transform.pixels(dataset.image(row)) for row in range(len(dataset))])
    return TrainingImages(pixels, transform, torch.device("cpu"))


def pool_of(dataset: Dataset, classes: list[int] | None = None) -> Pool:
    return Pool(dataset, np.arange(len(dataset.class_ids)) if classes is None else np.array(classes))


def test_images_are_those_of_the_preprocessing(dataset: Dataset, images: TrainingImages) -> None:
    rows = np.array([7, 200, 0])
    expected = np.stack([images.transform(dataset.image(int(row))) for row in rows])
    np.testing.assert_allclose(images.read(rows).numpy(), expected, atol=1e-5)


def test_every_epoch_reads_every_image_once(dataset: Dataset, images: TrainingImages) -> None:
    source = Shuffled(images, pool_of(dataset, [1, 4, 6]), 20, 0, PLAIN)  # 90 images: 4.5 batches
    read = np.concatenate([source.positions(step) for step in range(9)])
    first, second = read[:90], read[90:]
    assert sorted(first) == sorted(second) == list(range(90))
    assert not np.array_equal(first, second)
    batch = source.load(0)
    expected = dataset.labels[source.rows[source.positions(0)]]
    assert np.array_equal(np.array([1, 4, 6])[batch.labels.numpy()], expected)


def episodes(images: TrainingImages, pool: Pool, total: int = 3, **choices: object) -> EpisodeSource:
    settings = {
        "shape": FixedShape(3, 2, 4),
        "classes": UniformClasses(),
        "instances": UniformInstances(),
        **choices,
    }
    return EpisodeSource(images, pool, total, 0, PLAIN, **settings)  # type: ignore[arg-type]


def test_few_validation_classes_reduce_the_tasks_with_a_note(
    dataset: Dataset, images: TrainingImages
) -> None:
    def ways(held: list[int], shape: Shape, **settings: object) -> tuple[set[int], list[str]]:
        notes: list[str] = []
        chosen = training_settings(validation_tasks=6, **settings)
        algorithm = get_algorithm("protonet")
        made = make_validation(dataset, np.array(held), algorithm, shape, images, chosen, notes)
        return (set() if made is None else set(made.tasks.ways.tolist())), notes

    assert ways([0, 1, 2], MetaDatasetShape()) == (
        {3},
        ["validation tasks have 3 ways instead of 5 or more: there are 3 validation classes to a task"],
    )
    fixed, notes = ways([0, 1, 2], FixedShape(5, 5, 5))
    assert fixed == {3} and notes[0].startswith(
        "validation tasks have 3 ways, 5 shots and 5 queries instead of 5"
    )
    assert ways(list(range(6)), MetaDatasetShape())[1] == []
    alone, notes = ways([0, len(dataset.class_ids) - 1], MetaDatasetShape(), classes=SiblingClasses())
    assert not alone and "no validation" in notes[0]


def test_an_episode_depends_on_its_number_alone(dataset: Dataset, images: TrainingImages) -> None:
    forward = episodes(images, pool_of(dataset))
    seen = [[task.support.values for task in forward.tasks(step)] for step in range(50)]
    fresh = episodes(images, pool_of(dataset))
    for step in (49, 0, 22):  # other chunks, in another order
        assert all(
            np.array_equal(a, b.support.values) for a, b in zip(seen[step], fresh.tasks(step), strict=True)
        )
    everything = [tuple(rows) for step in seen for rows in step]
    assert len(set(everything)) == len(everything)


def test_an_episode_has_its_images_and_labels(dataset: Dataset, images: TrainingImages) -> None:
    source = episodes(images, pool_of(dataset, [0, 2, 3, 5, 7]))
    task = source.tasks(1)[2]
    episode = source.load(1)[2]
    assert episode.way == 3
    assert episode.support_label.tolist() == [0, 0, 1, 1, 2, 2]
    classes = dataset.labels[task.support.values].reshape(3, 2)
    assert (classes[:, 0] == classes[:, 1]).all()
    assert set(classes[:, 0]) <= {0, 2, 3, 5, 7}
    assert np.array_equal(classes[:, 0][episode.query_label.numpy()], dataset.labels[task.query.values])
    assert not set(task.support.values) & set(task.query.values)
    assert torch.equal(episode.support, images.read(task.support.values))


def test_any_sampler_will_do(dataset: Dataset, images: TrainingImages) -> None:
    varied = episodes(images, pool_of(dataset), shape=AnyShape(query=5))
    assert len({int(task.ways[0]) for step in range(10) for task in varied.tasks(step)}) > 3
    alike = episodes(images, pool_of(dataset), classes=SiblingClasses())
    for task in alike.tasks(0):
        assert len({dataset.class_ids[c].split("/")[0] for c in dataset.labels[task.query.values]}) == 1


def test_rotations_are_classes_of_their_own(dataset: Dataset, images: TrainingImages) -> None:
    turned, sources, quarters = with_rotations(dataset, np.array([2, 5]))
    assert len(turned.class_ids) == 8
    assert list(turned.class_ids) == sorted(turned.class_ids)
    seen = TrainingImages(images.pixels, images.transform, images.device, sources, quarters)
    for number, name in enumerate(turned.class_ids):
        base, _, degrees = name.partition("@")
        rows = np.arange(turned.offsets[number], turned.offsets[number + 1])
        original = dataset.rows(dataset.class_index(base))
        plain = images.read(np.arange(original.start, original.stop))
        assert torch.equal(seen.read(rows), torch.rot90(plain, int(degrees) // 90, (2, 3)))


def test_difficult_episodes_are_a_share_of_them(dataset: Dataset, images: TrainingImages) -> None:
    """Where a task is difficult, its support is the one that FastDiffSel takes; otherwise the uniform one."""
    pool = pool_of(dataset, [0, 1, 2, 3, 4])
    network = get_network("cnn4(width=4)", size=(16, 16))
    before = {name: value.clone() for name, value in network.state_dict().items()}
    features = network_features(network, images, pool)
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    uniform = episodes(images, pool).draw(0)
    hard = episodes(images, pool, instances=DifficultInstances(features)).draw(0)
    mixed = episodes(images, pool, instances=Mixed(DifficultInstances(features), 0.5)).draw(0)
    assert np.array_equal(uniform.query.values, mixed.query.values)
    same = [
        (
            np.array_equal(mixed.support.row(i), hard.support.row(i)),
            np.array_equal(mixed.support.row(i), uniform.support.row(i)),
        )
        for i in range(len(mixed))
    ]
    assert all(first or other for first, other in same)
    assert 15 < sum(first for first, _ in same) < 49  # of 64


def test_other_networks_choose_beside_the_one_that_learns(dataset: Dataset, images: TrainingImages) -> None:
    """The loss is the mean of both judges', and the dial exchanges 0.5^0.7 of the images."""
    pool = pool_of(dataset, [0, 1, 2, 3, 4])
    features = network_features(get_network("cnn4(width=4)", size=(16, 16)), images, pool)
    pixels = Judge(embed(dataset, "pixels"))
    adversarial = get_algorithm("adversarial(difficult=1.0, judge='pixels')")
    halved = get_algorithm("adversarial(difficult=1.0, judge=['pixels'], difficulty=0.5)")
    assert adversarial.judges == halved.judges == ["pixels"]
    supports = {
        "uniform": UniformInstances(),
        "both": DifficultInstances([features, pixels], objective="error", refine=0, greedy=0),
        "trained": adversarial.instances(features, [pixels]),
        "halved": halved.instances(features, [pixels]),
    }
    rows = {name: episodes(images, pool, instances=each).draw(0) for name, each in supports.items()}
    assert np.array_equal(rows["trained"].support.values, rows["both"].support.values)
    exchanged = {
        name: np.mean(
            [
                len(np.setdiff1d(own.support.row(i), rows["uniform"].support.row(i)))
                for i in range(len(own.support))
            ]
        )
        for name, own in rows.items()
    }
    assert exchanged["halved"] == pytest.approx(exchanged["trained"] * 0.5**0.7, rel=0.1)
    assert exchanged["trained"] > 1


def test_prefetching_stops_at_the_horizon() -> None:
    made: list[int] = []

    def make(step: int) -> int:
        made.append(step)
        return step

    with Prefetch(make, 5) as images:
        assert [images.take(7) for _ in range(2)] == [5, 6]
        assert made == [5, 6]
        assert images.take(100) == 7
    assert made[:3] == [5, 6, 7]


def test_a_mistake_in_the_thread_arrives() -> None:
    def make(step: int) -> int:
        raise ValueError("no such image")

    with Prefetch(make, 0) as images, pytest.raises(ValueError, match="no such image"):
        images.take(9)


def test_a_training_may_say_what_it_is_judged_on(dataset: Dataset, images: TrainingImages) -> None:
    """A shape, classes and a method of its own, whatever the algorithm trains on and with."""
    judged = ValidationTasks(FixedShape(2, 3, 4), SiblingClasses(level=1), "nearest-neighbour")
    held = np.arange(len(dataset.class_ids))
    settings = training_settings(validation_tasks=5, validation=judged)
    validation = make_validation(
        dataset, held, get_algorithm("protonet"), FixedShape(4, 1, 1), images, settings, []
    )
    assert validation is not None and validation.method == "nearest-neighbour"
    assert validation.tasks.ways.tolist() == [2] * 5
    assert validation.tasks.support.lengths.tolist() == [6] * 5
    assert validation.tasks.query.lengths.tolist() == [8] * 5
    parents = [class_id.split("/")[0] for class_id in dataset.class_ids]
    for rows in validation.tasks.support.values.reshape(5, 6):
        assert len({parents[label] for label in dataset.labels[rows]}) == 1
