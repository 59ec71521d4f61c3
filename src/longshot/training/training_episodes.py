"""What training reads step by step, a pure function of the seed and the step's number; and the validation tasks."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from longshot.base import (
    Episode,
    Floats,
    ImageTask,
    Ragged,
    TaskRows,
    UserError,
    rows_of_classes,
    same_shape,
    task_seeds,
)
from longshot.models import Features, Gatherer, ImageMethod, Network, accuracies, get_method
from longshot.statistics import Interval, mean_interval
from longshot.tasks import Classes, Instances, Pool, Shape, Streams, settings_of
from longshot.training.base import ImageBatch
from longshot.training.training_images import Augmentation, TrainingImages, step_generator

CHUNK = 64  # episodes drawn together: drawing one costs nearly as much as drawing many
_FORWARD = 256  # images embedded at a time

StepData: TypeAlias = ImageBatch | Sequence[Episode]


class TrainingSource(ABC):
    """What a step is trained on."""

    total: int  # images or episodes of a step

    @abstractmethod
    def load(self, step: int) -> StepData:
        """Read the data of one step to the device; called from another thread."""

    def horizon(self, step: int) -> int:
        """Return the first step after ``step`` that cannot be loaded before the steps in between are done."""
        return sys.maxsize

    def begin(self, step: int, network: Network) -> None:
        """Prepare a step, with the network as it is then; called before every step."""
        return

    def state(self) -> dict[str, Tensor]:
        """Return what cannot be drawn again from the seed alone, for the checkpoint."""
        return {}

    def restore(self, step: int, state: Mapping[str, Tensor]) -> None:
        """Take back what ``state`` gave when ``step`` was the next."""
        return


class Shuffled(TrainingSource):
    """Batches of images: every epoch is a permutation of all rows of the train classes, cut into batches of ``total``.

    A batch may run over the end of an epoch, so all have the same size.
    """

    def __init__(
        self, images: TrainingImages, pool: Pool, total: int, seed: int, augment: Augmentation
    ) -> None:
        self.images, self.total, self.seed, self.augment = images, total, seed, augment
        offsets = pool.dataset.offsets
        self.rows = rows_of_classes(offsets, pool.classes)
        sizes = pool.sizes[pool.classes]
        self.labels = np.repeat(np.arange(len(pool.classes)), sizes)
        self._epochs: dict[int, NDArray[np.int64]] = {}

    def positions(self, step: int) -> NDArray[np.int64]:
        """Return the places in ``rows`` that the step reads; [total]."""
        places = np.arange(step * self.total, (step + 1) * self.total)
        epochs, inside = np.divmod(places, len(self.rows))
        positions = np.empty_like(places)
        for epoch in np.unique(epochs).tolist():
            here = epochs == epoch
            positions[here] = self._epoch(epoch)[inside[here]]
        return positions

    def _epoch(self, number: int) -> NDArray[np.int64]:
        if number not in self._epochs:
            order = np.random.default_rng([self.seed, number]).permutation(len(self.rows))
            previous = {key: value for key, value in self._epochs.items() if key == number - 1}
            self._epochs = {**previous, number: order}
        return self._epochs[number]

    def load(self, step: int) -> ImageBatch:
        """Read the images of the step."""
        positions = self.positions(step)
        generator = step_generator(self.seed, step, 1)
        images = self.images.read(self.rows[positions], self.augment, generator)
        return ImageBatch(images, torch.from_numpy(self.labels[positions]).to(images.device))


@dataclass(eq=False)
class EpisodeSource(TrainingSource):
    """``total`` episodes per step from any sampler of testbeds; chunk c of them is drawn with c as the attempt number.

    So episode i depends on the seed and on i alone, and a resumed run sees the same ones.
    """

    images: TrainingImages
    pool: Pool
    total: int
    seed: int
    augment: Augmentation
    shape: Shape
    classes: Classes
    instances: Instances
    refresh: int = 0
    chosen: Callable[[Features], Instances] | None = None

    def __post_init__(self) -> None:
        self.chunk = self.refresh * self.total or CHUNK
        self.current: tuple[int, TaskRows] | None = None  # the chunk that the last step was taken from

    def draw(self, number: int) -> TaskRows:
        """Draw chunk ``number``: ``chunk`` tasks as rows of the pool's dataset."""
        samplers = (self.shape, self.classes, self.instances)
        return draw_tasks(self.pool, self.chunk, self.seed, *samplers, attempt=number)

    def tasks(self, step: int) -> list[TaskRows]:
        """Return the episodes of a step, one by one."""
        episodes = []
        for number in range(step * self.total, (step + 1) * self.total):
            chunk, position = divmod(number, self.chunk)
            if self.current is None or self.current[0] != chunk:
                self.current = (chunk, self.draw(chunk))
            episodes.append(self.current[1].take([position]))
        return episodes

    def load(self, step: int) -> list[Episode]:
        """Read the episodes of the step, each with a stream of its own."""
        return [
            read_episode(self.images, task, self.augment, step_generator(self.seed, step, number))
            for number, task in enumerate(self.tasks(step), 1)
        ]

    def horizon(self, step: int) -> int:
        """Return the step of the next refresh."""
        return (step // self.refresh + 1) * self.refresh if self.refresh else sys.maxsize

    def begin(self, step: int, network: Network) -> None:
        """Choose the images of the next steps' episodes by what the network sees in them now."""
        if self.chosen is None or not self.refresh:
            return
        chunk = step // self.refresh
        if self.current is None or self.current[0] != chunk:
            self.instances = self.chosen(network_features(network, self.images, self.pool))
            self.current = (chunk, self.draw(chunk))

    def state(self) -> dict[str, Tensor]:
        """Return the chosen episodes: the network that chose them is gone."""
        return tasks_to_tensors(self.current[1]) if self.refresh and self.current else {}

    def restore(self, step: int, state: Mapping[str, Tensor]) -> None:
        """Take the chosen episodes back, unless ``step`` is the first of new ones."""
        if self.refresh and state and step % self.refresh:
            self.current = (step // self.refresh, tasks_from_tensors(state))


def network_features(network: Network, images: TrainingImages, pool: Pool) -> Features:
    """Compute the network's vectors of the pool's classes, as rows of its dataset; zero for other classes."""
    dataset = pool.dataset
    rows = rows_of_classes(dataset.offsets, pool.classes)
    array = np.zeros((len(dataset), network.dim), np.float32)
    array[rows] = embed_rows(network, images, rows).cpu().numpy()
    return Features(
        array=array,
        keys=dataset.keys,
        class_ids=dataset.class_ids,
        offsets=dataset.offsets,
        dataset=dataset.name,
        fingerprint=dataset.fingerprint,
        backbone=network.call,
        weights_hash="",
        preprocessing=images.transform.text,
        hash="",
    )


def embed_rows(network: Network, images: TrainingImages, rows: NDArray[np.int64]) -> Tensor:
    """Compute vectors [M, d] of rows of the images, the network in evaluation mode."""
    training = network.training
    network.eval()
    try:
        with torch.no_grad():
            parts = [
                network(images.read(rows[start : start + _FORWARD])).float()
                for start in range(0, len(rows), _FORWARD)
            ]
    finally:
        network.train(training)
    return torch.cat(parts)


def draw_tasks(
    pool: Pool, count: int, seed: int, shape: Shape, classes: Classes, instances: Instances, attempt: int = 0
) -> TaskRows:
    """Draw ``count`` tasks as rows of the pool's dataset; ``attempt`` numbers independent draws of one seed."""
    streams = Streams.of(seed, count, pool.dataset.fingerprint).take(slice(None), attempt)
    plan = shape.counts(streams, classes.draw(streams, shape, pool), pool)
    return instances.draw(streams, pool, plan)


def read_episode(
    images: TrainingImages,
    task: TaskRows,
    augment: Augmentation | None = None,
    generator: torch.Generator | None = None,
) -> Episode:
    """Read the one task of ``task`` as images."""
    rows = np.concatenate([task.support.values, task.query.values])
    pictures = images.read(rows, augment, generator)
    support, query = pictures.tensor_split([len(task.support.values)])
    labels = [
        torch.from_numpy(part.values.astype(np.int64)).to(pictures.device)
        for part in (task.support_label, task.query_label)
    ]
    return Episode(support, labels[0], query, int(task.ways[0]), query_label=labels[1])


def tasks_to_tensors(tasks: TaskRows) -> dict[str, Tensor]:
    """Convert tasks to plain tensors for a checkpoint."""
    lists = {name: getattr(tasks, name) for name in ("support", "support_label", "query", "query_label")}
    tensors = {"ways": torch.from_numpy(tasks.ways.astype(np.int64))}
    for name, ragged in lists.items():
        tensors[f"{name}.values"] = torch.from_numpy(ragged.values.astype(np.int64))
        tensors[f"{name}.offsets"] = torch.from_numpy(ragged.offsets.astype(np.int64))
    return tensors


def tasks_from_tensors(tensors: Mapping[str, Tensor]) -> TaskRows:
    """Convert tensors back to tasks; the inverse of ``tasks_to_tensors``."""
    ways = tensors["ways"].numpy()
    lists = [
        Ragged(tensors[f"{name}.values"].numpy(), tensors[f"{name}.offsets"].numpy())
        for name in ("support", "support_label", "query", "query_label")
    ]
    return TaskRows(np.arange(len(ways)), ways, *lists)


def sampler_settings(shape: Shape, classes: Classes) -> dict[str, Any]:
    """Describe how episodes are drawn, as JSON."""
    return {"shape": settings_of(shape), "classes": settings_of(classes)}


def check_enough(pool: Pool, shape: Shape, split: str) -> Pool:
    """Keep the pool's classes with enough images for episodes of this shape; UserError where they are too few."""
    sizes = pool.sizes[pool.classes]
    usable = pool.classes[sizes >= shape.min_images]
    if len(usable) >= shape.min_way:
        return pool.take_classes(usable)
    raise UserError(
        f"There are {len(pool.classes):,} {split} classes in '{pool.dataset.name}', {len(usable):,} of them with the "
        f"{shape.min_images} images that an episode takes of each (shots + queries), but an episode needs "
        f"{shape.min_way}",
        "lower {way}, {shot} or {query}, or add classes",
    )


@dataclass(frozen=True, eq=False)
class Validation:
    """Tasks of the validation classes as rows of ``images``, drawn once, and the call of the method to solve them."""

    tasks: TaskRows
    images: TrainingImages
    method: str

    @property
    def images_read(self) -> int:
        """Count the images that go through the network: every image once, or every task's own."""
        rows = np.concatenate([self.tasks.support.values, self.tasks.query.values])
        return len(rows) if isinstance(get_method(self.method), ImageMethod) else len(np.unique(rows))

    def accuracies(self, network: Network) -> Floats:
        """Measure the share of each task's queries that the method gets right, in evaluation mode; [T]."""
        solver = get_method(self.method)
        if isinstance(solver, ImageMethod):
            return self._by_images(solver, network)
        tasks, gatherer = self.by_features(network)
        return accuracies(tasks, solver, gatherer)

    def run(self, network: Network) -> Interval:
        """Mean accuracy over the tasks with its 95 % interval."""
        return mean_interval(self.accuracies(network))

    def by_features(self, network: Network, blocks: Sequence[int] = ()) -> tuple[TaskRows, Gatherer]:
        """Express all tasks by the network's vectors, as rows of a Gatherer; ``blocks``: widths of its parts."""
        # Tasks share images: every image goes through the network once.
        rows = np.unique(np.concatenate([self.tasks.support.values, self.tasks.query.values]))
        vectors = embed_rows(network, self.images, rows).cpu()
        widths = list(blocks) or [vectors.shape[1]]
        parts = [part.contiguous().numpy() for part in torch.split(vectors, widths, 1)]
        support, query = (
            side.with_values(np.searchsorted(rows, side.values))
            for side in (self.tasks.support, self.tasks.query)
        )
        return replace(self.tasks, support=support, query=query), Gatherer(parts, self.images.device)

    def _by_images(self, method: ImageMethod, network: Network) -> Floats:
        training = network.training
        trained = [parameter.requires_grad for parameter in network.parameters()]
        network.eval().requires_grad_(False)
        accuracies = np.empty(len(self.tasks))
        try:
            with torch.no_grad():
                for positions in same_shape(self.tasks, method.at_once):
                    pairs = [self._image_task(position) for position in positions.tolist()]
                    scores = method.scores([task for task, _ in pairs], network)
                    for position, guesses, (_, label) in zip(positions, scores, pairs, strict=True):
                        accuracies[position] = float((guesses.argmax(1) == label).float().mean())
        finally:
            network.train(training)
            for parameter, was_trained in zip(network.parameters(), trained, strict=True):
                parameter.requires_grad_(was_trained)
        return accuracies

    def _image_task(self, position: int) -> tuple[ImageTask, torch.Tensor]:
        episode = read_episode(self.images, self.tasks.take([position]))
        seed = int(task_seeds(0, np.array([position]))[0])
        task = ImageTask(
            episode.support, episode.support_label, episode.query, episode.way, seed, index=position
        )
        return task, episode.query_label
