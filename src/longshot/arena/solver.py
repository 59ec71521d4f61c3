"""A Longshot method as a competitor: what the ``model.py`` of 'longshot compete make-submission' calls in the sandbox.

``settings.json`` beside it names the method (``method``) and either frozen ``backbones`` or a training (``train``) that
``meta_fit`` carries out on the tasks or batches it is given. ``{here}`` in a name stands for the submission's folder.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from longshot.base import (
    ImageTask,
    Ints,
    Preprocessing,
    TaskBatch,
    UserError,
    parse_preprocessing,
    pick_device,
)
from longshot.models import (
    Backbone,
    ImageMethod,
    ModuleBackbone,
    Network,
    get_method,
    load_backbone,
    no_network,
    prepare_fixed_norms,
)

SETTINGS = "settings.json"
HERE = "{here}"
TELL = 50  # steps of training between two lines in the log
Generator: TypeAlias = Callable[[int], Iterable[Any]]


class Solver:
    """The method and the networks of one submission; made once, used for every task."""

    def __init__(self, folder: Path) -> None:
        text = (folder / SETTINGS).read_text(encoding="utf-8")
        settings = json.loads(text.replace(HERE, str(folder)))
        self.method = get_method(settings["method"])
        self.training: dict[str, Any] | None = settings.get("train")
        self.trained: tuple[Network, str] | None = None  # by ``train``, with its preprocessing
        self.names: list[str] = list(settings.get("backbones", ()))
        self.backbones: list[Backbone] = []

    def train(self, generator: Generator, classes: int) -> None:
        """Train the network of the settings on tasks or batches; nothing to do where backbones are frozen."""
        if self.training is not None:
            self.trained = train_network(self.training, generator, classes)

    def save(self, folder: str) -> None:
        """Write what was trained into the folder; frozen backbones are in the submission already."""
        from longshot.models import save_checkpoint

        if self.trained is not None:
            network, preprocessing = self.trained
            save_checkpoint(folder, network, {"preprocessing": preprocessing, "training": self.training})

    def load(self, folder: str) -> None:
        """Make the networks ready: once, although every task asks for it."""
        if not self.backbones:
            names = [folder] if self.training is not None else self.names
            self.backbones = [_images_only(load_backbone(name), name) for name in names]

    def fit(self, images: Tensor, labels: Tensor, ways: int) -> FittedTask:
        """Fit ``images`` [S, 3, H, W] in 0…1 with labels [S]; the task's seed is the one torch was seeded with last."""
        order = torch.argsort(labels, stable=True)  # methods rely on classes in order
        return FittedTask(self, self.seen(images[order]), labels[order], ways, torch.initial_seed() % 2**63)

    @torch.no_grad()
    def seen(self, images: Tensor) -> Tensor:
        """Return images [n, 3, H, W] in 0…1 as the method wants them: vectors [n, d], or images for the network."""
        if isinstance(self.method, ImageMethod):
            backbone = self._adaptable()
            return backbone.images(prepared(backbone.transform, images, backbone.device))
        return torch.cat([vectors(backbone, images) for backbone in self.backbones], 1)

    @torch.no_grad()
    def scores(self, task: FittedTask, query: Tensor) -> Tensor:
        """Score the queries ``query``, as ``seen`` gives them: [Q, N]."""
        labels = task.labels.to(query.device)
        if isinstance(self.method, ImageMethod):
            image_task = ImageTask(task.support, labels, query, task.ways, task.seed)
            return self.method.scores([image_task], self._network())[0]
        shots = torch.bincount(labels, minlength=task.ways)
        batch = TaskBatch(
            support=task.support[None],
            support_label=labels[None],
            query=query[None],
            query_mask=torch.ones(1, len(query), dtype=torch.bool, device=query.device),
            ways=torch.tensor([task.ways], device=query.device),
            way=task.ways,
            seeds=torch.tensor([task.seed]),
            blocks=tuple(backbone.dim for backbone in self.backbones),
            shot=int(shots[0]) if (shots == shots[0]).all() else None,
        )
        return self.method.scores(batch)[0]

    def _adaptable(self) -> ModuleBackbone:
        backbone = self.backbones[0]
        if not isinstance(backbone, ModuleBackbone):
            raise no_network(backbone.name)
        return backbone

    def _network(self) -> Network:
        backbone = self._adaptable()
        network = backbone.network()
        if backbone.channels_last:
            network = network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        prepare_fixed_norms(network)
        return network


@dataclass(frozen=True, eq=False)
class FittedTask:
    """A task's support set, ready for its queries."""

    solver: Solver
    support: Tensor  # as ``Solver.seen`` gives it, sorted by label
    labels: Tensor
    ways: int
    seed: int

    def predict(self, images: Tensor) -> Ints:
        """Predict labels [n] of images [n, 3, H, W] in 0…1."""
        scores = self.solver.scores(self, self.solver.seen(images))
        if scores.isnan().any():
            raise UserError(f"The method {self.solver.method.call} gave scores that are no numbers.")
        labels: Ints = scores.argmax(1).cpu().numpy()
        return labels


def as_bytes(images: Tensor) -> NDArray[np.uint8]:
    """Convert [n, 3, H, W] in 0…1 to bytes [n, H, W, 3]: the very bytes that the competition divided by 255."""
    levels = images.mul(255).round().clamp(0, 255).to(torch.uint8)
    pixels: NDArray[np.uint8] = levels.permute(0, 2, 3, 1).contiguous().cpu().numpy()
    return pixels


def prepared(transform: Preprocessing, images: Tensor, device: torch.device) -> Tensor:
    """Bring images in 0…1 to the size, scale and shift of a network: [n, 3, H, W]."""
    pixels = np.stack([transform.pixels(Image.fromarray(image)) for image in as_bytes(images)])
    return transform.values(torch.from_numpy(pixels).to(device).permute(0, 3, 1, 2).float())


def vectors(backbone: Backbone, images: Tensor) -> Tensor:
    """Compute [n, d] in blocks of one shape, rounded to float16 as 'longshot embed' does: the same numbers."""
    count, size = len(images), backbone.block
    pixels = prepared(backbone.transform, images, backbone.device)
    pixels = torch.cat([pixels, pixels.new_zeros(-count % size, *pixels.shape[1:])])
    return torch.cat([backbone(block) for block in torch.split(pixels, size)])[:count].half().float()


def train_network(plan: dict[str, Any], generator: Generator, classes: int) -> tuple[Network, str]:
    """Train the network that ``plan`` (settings.json's ``train``) names on what ``generator`` yields.

    Also gives its preprocessing.
    """
    from longshot.models import get_network
    from longshot.training import get_algorithm, make_optimiser, make_schedule

    algorithm, transform = get_algorithm(plan["algorithm"]), parse_preprocessing(plan["preprocessing"])
    device = pick_device()
    seed = torch.initial_seed() % 2**63
    network = get_network(algorithm.network(plan["network"]), size=transform.size, seed=seed)
    for name, value in algorithm.extras(network, classes).items():
        network.extras[name] = torch.nn.Parameter(value.detach().clone())
    network.to(device).train()
    algorithm.begin(network)
    optimiser = make_optimiser(plan["optimiser"], algorithm.groups(network))
    rates = [group["lr"] for group in optimiser.param_groups]
    factor = make_schedule(plan["schedule"], plan["steps"])
    steps = _episodes if algorithm.episodic else _batches
    for step, data in enumerate(steps(plan, generator, transform, device)):
        for group, rate in zip(optimiser.param_groups, rates, strict=True):
            group["lr"] = rate * factor(step)
        outcome = algorithm.loss(network, data)
        optimiser.zero_grad(set_to_none=True)
        outcome.loss.backward()  # type: ignore[no-untyped-call]
        if plan["clip"]:
            torch.nn.utils.clip_grad_norm_(network.parameters(), plan["clip"])
        optimiser.step()
        if step % TELL == 0 or step + 1 == plan["steps"]:
            print(
                f"step {step + 1:,} of {plan['steps']:,}: loss {outcome.loss.item():.4f}, accuracy "
                f"{outcome.accuracy.item():.3f}",
                flush=True,
            )
    return network.eval().requires_grad_(False), transform.text


def _episodes(
    plan: dict[str, Any], generator: Generator, transform: Preprocessing, device: torch.device
) -> Iterator[Any]:
    """Yield the episodes of every step."""
    from longshot.base import Episode

    episodes = []
    for task in generator(plan["steps"] * plan["batch"]):
        support, query = task.support_set, task.query_set
        order = torch.argsort(support[1], stable=True)
        episode = Episode(
            prepared(transform, support[0][order], device),
            support[1][order].to(device),
            prepared(transform, query[0], device),
            task.num_ways,
            query_label=query[1].to(device),
        )
        episodes.append(episode)
        if len(episodes) == plan["batch"]:
            yield episodes
            episodes = []


def _batches(
    plan: dict[str, Any], generator: Generator, transform: Preprocessing, device: torch.device
) -> Iterator[Any]:
    """Yield the batch of every step; its size is that of config.json."""
    from longshot.training import ImageBatch

    for images, labels in generator(plan["steps"]):
        yield ImageBatch(prepared(transform, images, device), labels.to(device))


def _images_only(backbone: Any, name: str) -> Backbone:
    if not isinstance(backbone, Backbone):
        raise UserError(f"The backbone '{name}' holds features of a dataset and cannot see a new image.")
    return backbone
