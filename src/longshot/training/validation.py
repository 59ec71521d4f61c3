"""Accuracy on tasks of the validation classes, drawn once and solved by the same methods as any testbed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from longshot.base import Floats, ImageTask, TaskRows, task_seeds
from longshot.models import Gatherer, ImageMethod, Network, accuracies, get_method
from longshot.statistics import Interval, mean_interval
from longshot.training.episodes import embed_rows, read_episode
from longshot.training.images import TrainingImages


@dataclass(frozen=True, eq=False)
class Validation:
    """Tasks as rows of ``images``, and the call of the method that solves them."""

    tasks: TaskRows
    images: TrainingImages
    method: str

    @property
    def images_read(self) -> int:
        """Images that go through the network: every image once, or every task's own."""
        rows = np.concatenate([self.tasks.support.values, self.tasks.query.values])
        return len(rows) if isinstance(get_method(self.method), ImageMethod) else len(np.unique(rows))

    def accuracies(self, network: Network) -> Floats:
        """[T] share of each task's queries that the method gets right, the network in evaluation mode."""
        solver = get_method(self.method)
        if isinstance(solver, ImageMethod):
            return self._by_images(solver, network)
        tasks, gatherer = self.by_features(network)
        return accuracies(tasks, solver, gatherer)

    def run(self, network: Network) -> Interval:
        """Mean accuracy over the tasks with its 95 % interval."""
        return mean_interval(self.accuracies(network))

    def by_features(self, network: Network, blocks: Sequence[int] = ()) -> tuple[TaskRows, Gatherer]:
        """All tasks by the network's vectors, as rows of what a Gatherer reads; ``blocks``: widths of its parts."""
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
                for positions in self._groups(method.at_once):
                    pairs = [self._image_task(position) for position in positions]
                    scores = method.scores([task for task, _ in pairs], network)
                    for position, guesses, (_, label) in zip(positions, scores, pairs, strict=True):
                        accuracies[position] = float((guesses.argmax(1) == label).float().mean())
        finally:
            network.train(training)
            for parameter, was_trained in zip(network.parameters(), trained, strict=True):
                parameter.requires_grad_(was_trained)
        return accuracies

    def _groups(self, most: int) -> Iterator[list[int]]:
        """Positions of tasks of the same shape, ``most`` at a time."""
        shapes: dict[tuple[int, int, int], list[int]] = {}
        sizes = zip(self.tasks.ways, self.tasks.support.lengths, self.tasks.query.lengths, strict=True)
        for position, (way, support, query) in enumerate(sizes):
            shapes.setdefault((int(way), int(support), int(query)), []).append(position)
        for alike in shapes.values():
            for start in range(0, len(alike), most):
                yield alike[start : start + most]

    def _image_task(self, position: int) -> tuple[ImageTask, torch.Tensor]:
        episode = read_episode(self.images, self.tasks.take([position]))
        seed = int(task_seeds(0, np.array([position]))[0])
        task = ImageTask(
            episode.support, episode.support_label, episode.query, episode.way, seed, index=position
        )
        return task, episode.query_label
