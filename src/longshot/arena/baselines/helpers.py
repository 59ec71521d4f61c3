"""What the baselines share: a network, its start, saving, the choice of the best learner, training on tasks."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from api import Learner, MetaLearner, Predictor
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from longshot.arena.inside.blind_tasks import score_task
from longshot.base import prototypes
from longshot.models import Network, get_network, load_backbone

SIDE = int(os.environ.get("IMAGE_SIZE", "128"))  # of the competition's images, told by its host
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
NONE = "none"  # weights that stand for random ones


def settings(model_file: str) -> dict[str, Any]:
    """Read the submission's settings.json; ``{here}`` in it stands for the submission's folder."""
    path = Path(model_file).with_name("settings.json")
    values: dict[str, Any] = json.loads(path.read_text(encoding="utf-8").replace("{here}", str(path.parent)))
    return values


class Sight(nn.Module):
    """Images [n, 3, S, S] in 0…1 → [n, d]: brought to the network's size and scale, then through the network."""

    def __init__(self, network: Network, scale: tuple[float, ...], shift: tuple[float, ...]) -> None:
        super().__init__()
        self.network, self.dim = network, network.dim
        for name, value in (("scale", scale), ("shift", shift)):
            self.register_buffer(name, torch.tensor(value).view(3, 1, 1), persistent=False)

    def prepare(self, images: Tensor) -> Tensor:
        """Resize bilinearly without aliasing where the size differs, then return value · scale + shift."""
        images = images.to(DEVICE)
        if images.shape[2:] != self.network.size:
            images = F.interpolate(images, self.network.size, mode="bilinear", antialias=True)
        return images * self.scale + self.shift

    def forward(self, images: Tensor) -> Tensor:
        vectors: Tensor = self.network(self.prepare(images))
        return vectors


def backbone(values: dict[str, Any]) -> Sight:
    """Build the network of the settings: ``weights`` that were learned before, or ``network`` with random ones."""
    side = values.get("size", SIDE)
    if values["weights"] == NONE:
        network = get_network(values["network"], size=(side, side), seed=torch.initial_seed() % 2**63)
        return Sight(network, (2.0,) * 3, (-1.0,) * 3).to(DEVICE)
    return copy.deepcopy(pretrained(values["weights"], side)).to(DEVICE)


@cache
def pretrained(weights: str, side: int) -> Sight:
    """Load a backbone with the weights and the scale it was trained with; opened once."""
    transform = load_backbone(weights, "cpu").transform
    network = get_network(weights, size=(side, side))
    return Sight(network, tuple(255 * scale for scale in transform.scale), transform.shift)


@torch.no_grad()
def embed(network: nn.Module, images: Tensor, piece: int = 64) -> Tensor:
    """Compute features [n, d] in pieces, so that a large query set fits into memory."""
    network.eval()
    return torch.cat([network(part) for part in images.split(piece)])


def save(module: nn.Module, folder: str) -> None:
    """Write the weights into the folder."""
    save_file(
        {name: value.contiguous() for name, value in module.state_dict().items()},
        Path(folder, "w.safetensors"),
    )


def load(module: nn.Module, folder: str) -> nn.Module:
    """Read the weights back."""
    module.load_state_dict(load_file(Path(folder, "w.safetensors")))
    return module.to(DEVICE)


def prototype_scores(support: Tensor, labels: Tensor, query: Tensor, ways: int) -> Tensor:
    """Return −‖q − p_w‖² as scores [n, N]."""
    return -torch.cdist(query, prototypes(support, labels.to(support.device), ways)).square()


def matching_scores(support: Tensor, labels: Tensor, query: Tensor, ways: int) -> Tensor:
    """Return the log of the attention, softmax(10 · cos), on the support images of each class: [n, N]."""
    attention = (10 * F.normalize(query, dim=1) @ F.normalize(support, dim=1).T).softmax(1)
    chosen = F.one_hot(labels.to(support.device), ways).to(support.dtype)
    return (attention @ chosen).clamp(min=1e-9).log()


def descend(model: nn.Module, inputs: Tensor, labels: Tensor, rate: float, steps: int, batch: int) -> None:
    """Fit a model to a task's support set: Adam on ``steps`` batches, drawn with repeats."""
    optimiser = torch.optim.Adam(model.parameters(), rate)
    for _ in range(steps):
        chosen = torch.randint(len(inputs), (min(batch, len(inputs)),))
        loss = F.cross_entropy(model(inputs[chosen]), labels[chosen].to(DEVICE))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()


class Scored(Predictor):
    """Predicts by ``scores``, a function of queries that gives [n, N]."""

    def __init__(self, scores: Callable[[Tensor], Tensor]) -> None:
        self.scores = scores

    @torch.no_grad()
    def predict(self, query_set: Tensor) -> np.ndarray[Any, Any]:
        """Return the softmax of the scores, as the competition wants it."""
        shares: np.ndarray[Any, Any] = self.scores(query_set).softmax(1).cpu().numpy()
        return shares


class SavedLearner(Learner):
    """A learner whose ``module`` is all that ``load`` needs."""

    module: nn.Module

    def save(self, path_to_save: str) -> None:
        save(self.module, path_to_save)

    def load(self, path_to_load: str) -> None:
        load(self.module, path_to_load)


class BestLearner:
    """The learner that did best on validation tasks so far: of the held-out datasets, ``valid_tasks`` each time.

    Every validation and the final choice are a line of JSON in the log. Without held-out datasets the last learner is
    taken, which is said too. ``fixed``: the same tasks every time, kept as bytes.
    """

    def __init__(
        self,
        learner: SavedLearner,
        generator: Callable[[int], Iterable[Any]] | None,
        values: dict[str, Any],
        *,
        fixed: bool = False,
    ) -> None:
        self.learner, self.generator = learner, generator
        self.every, self.count = int(values["valid_every"]), int(values["valid_tasks"])
        self.tasks = [packed(task) for task in generator(self.count)] if fixed and generator else None
        self.step, self.accuracy, self.judged_at = 0, -np.inf, -1
        self.state: dict[str, Tensor] = {}

    def after(self, step: int, last: int) -> None:
        """Judge the learner if it is time: every ``valid_every`` steps, and after the ``last``."""
        if step % self.every == 0 or step == last:
            self.judge(step)

    def judge(self, step: int) -> None:
        """Measure the mean normalised accuracy, and keep a copy of the weights where none was better."""
        if self.generator is None or step == self.judged_at:
            return
        accuracy, datasets = judged(self.learner, self._drawn())
        self.learner.module.train()
        if accuracy > self.accuracy:
            self.step, self.accuracy = step, accuracy
            state = self.learner.module.state_dict()  # heads over training classes serve training alone
            self.state = {name: state[name].detach().clone() for name in state if ".head_" not in name}
        self.judged_at = step
        line = {
            "validation": step,
            "tasks": self.count,
            "datasets": datasets,
            "normalized_accuracy": round(accuracy, 4),
        }
        print(json.dumps({**line, "best_so_far": self.step}), flush=True)

    def chosen(self) -> SavedLearner:
        """Return the learner with the best weights."""
        if not self.state:
            why = "no dataset is held out" if self.generator is None else "it was never validated"
            print(json.dumps({"chosen": f"the last learner: {why}"}), flush=True)
            return self.learner
        self.learner.module.load_state_dict(self.state)
        print(json.dumps({"chosen": self.step, "normalized_accuracy": round(self.accuracy, 4)}), flush=True)
        return self.learner

    def _drawn(self) -> Iterator[Any]:
        assert self.generator is not None
        yield from self.generator(self.count) if self.tasks is None else map(unpacked, self.tasks)


def judged(learner: Learner, tasks: Iterable[Any]) -> tuple[float, list[str]]:
    """Mean normalised accuracy of a learner over tasks, and the datasets they are of."""
    scores, datasets = [], set()
    for task in tasks:
        predictor = learner.fit((*task.support_set, task.num_ways, task.num_shots))
        predicted = np.asarray(predictor.predict(task.query_set[0]))
        labels = predicted.argmax(1) if predicted.ndim == 2 else predicted
        scores.append(score_task(labels, task.query_set[1].numpy(), task.num_ways)["normalized_accuracy"])
        datasets.add(task.dataset)
    return float(np.mean(scores)), sorted(datasets)


def packed(task: Any) -> Any:
    """Return the task with its images as bytes: a quarter of the memory."""
    return _with_images(task, lambda images: images.mul(255).round().to(torch.uint8))


def unpacked(task: Any) -> Any:
    """Return the task with its images in 0…1 again."""
    return _with_images(task, lambda images: images.float().div(255))


def _with_images(task: Any, change: Callable[[Tensor], Tensor]) -> Any:
    changed = copy.copy(task)
    changed.support_set = (change(task.support_set[0]), *task.support_set[1:])
    changed.query_set = (change(task.query_set[0]), *task.query_set[1:])
    return changed


def train(
    meta_learner: MetaLearner,
    learner: SavedLearner,
    parameters: Iterable[Tensor],
    passes: Iterable[tuple[Any, Tensor, Tensor]],
    best: BestLearner,
    rate: float,
    total: int,
) -> SavedLearner:
    """Train by cross-entropy, a step for each of ``total`` passes (data, scores, labels); return the best learner."""
    optimiser = torch.optim.Adam(parameters, rate)
    learner.module.train()
    for step, (data, scores, labels) in enumerate(passes):
        loss = F.cross_entropy(scores, labels.to(DEVICE))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        if step % 100 == 0:
            meta_learner.log(data, scores.detach().argmax(1).cpu().numpy(), loss.item())
        best.after(step + 1, total)
    return best.chosen()


class EpisodicMetaLearner(MetaLearner):
    """Trains a network on tasks: cross-entropy of ``learner.scores`` on the queries, one task a step."""

    learner: Any  # class of the learner; a subclass says which
    settings: dict[str, Any]

    def meta_fit(self, meta_train_generator, meta_valid_generator):  # type: ignore[no-untyped-def]
        learner, total = self.learner(), self.settings["train_tasks"]
        network = learner.module

        def answered(task):  # type: ignore[no-untyped-def]
            support, labels, _ = task.support_set
            query, truth, _ = task.query_set
            features = network(torch.cat([support, query])).split([len(support), len(query)])
            return task, self.learner.scores(features[0], labels, features[1], task.num_ways), truth

        best = BestLearner(learner, meta_valid_generator, self.settings)
        passes = map(answered, meta_train_generator(total))
        return train(self, learner, network.parameters(), passes, best, self.settings["lr"], total)


class EpisodicLearner(SavedLearner):
    """Scores queries by their features and those of the support set; nothing is trained on a task."""

    settings: dict[str, Any]
    scores: Any  # (support, labels, query, ways) → [n, N]; a subclass says which

    def __init__(self) -> None:
        self.module = backbone(self.settings)

    def fit(self, support_set):  # type: ignore[no-untyped-def]
        images, labels, _, ways, _ = support_set
        support = embed(self.module, images)
        return Scored(lambda query: self.scores(support, labels, embed(self.module, query), ways))
