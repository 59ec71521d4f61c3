"""Fine-tuning of the whole network to each task, its classifier being the means of the support.

The first half is what all methods share that train a network on a task: its support, losses, gradient steps that fit
into memory.
"""

from __future__ import annotations

import sys
import threading
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from longshot.base import (
    ImageTask,
    UserError,
    choice_field,
    count_field,
    number_field,
    out_of_memory,
    prototype_scores,
    prototypes,
    with_settings,
)
from longshot.models.methods.base import LOWEST, ImageMethod, Setting
from longshot.models.networks.base import Network
from longshot.models.networks.fixed_norms import trainable_copy


@dataclass(frozen=True)
class Support:
    """A task's support in an order of its own and with labels that skip absent classes.

    The order follows from the images alone. So what a method draws at random (minibatches, augmentation) belongs to
    images and not to places, and other names for the classes, which sort the support differently, change no score.
    """

    images: Tensor  # [S, 3, H, W]
    labels: Tensor  # [S] int64 in 0…P−1
    classes: Tensor  # [P] int64, the classes that have support
    way: int

    @classmethod
    def of(cls, task: ImageTask) -> Support:
        order = content_order(task.support)
        classes, labels = torch.unique(task.support_label[order], return_inverse=True)
        return cls(task.support[order], labels, classes, task.way)

    def __len__(self) -> int:
        return len(self.images)

    def spread(self, scores: Tensor) -> Tensor:
        """Widen scores [Q, P] of the classes that are there to [Q, way]; −∞ for the others."""
        wide = scores.new_full((len(scores), self.way), LOWEST)
        wide[:, self.classes] = scores.detach()
        return wide

    def first_seen(self) -> Tensor:
        """Rank the classes by their first image; [P]."""
        positions = torch.arange(len(self), device=self.labels.device)
        seen = torch.full((len(self.classes),), len(self), device=self.labels.device)
        first = seen.scatter_reduce(0, self.labels, positions, "amin")
        return first.argsort().argsort()


def content_order(images: Tensor) -> Tensor:
    """Order images [N, …] by what is in them, not by where they stand; [N]."""
    return content_key(images.flatten(1)).argsort()


def content_key(rows: Tensor) -> Tensor:
    """Compute a number for each row […, d] that other rows do not share, short of chance; […]."""
    # Weights that are no multiples of one another, so that images of equal brightness differ.
    weights = torch.arange(1, rows.shape[-1] + 1, device=rows.device).sqrt().frac() + 0.5
    return (rows * weights).sum(-1)


def mean_entropy(logits: Tensor) -> Tensor:
    """Mean over rows of H(softmax(logits)), in nats."""
    logs = logits.log_softmax(1)
    return -(logs.exp() * logs).sum(1).mean()


class Adapted(ImageMethod):
    """A method that learns from each task's support alone before it sees a query."""

    setting: ClassVar[Setting] = "inductive"

    @abstractmethod
    def adapted(self, task: ImageTask, network: Network) -> tuple[Network, Callable[[Tensor], Tensor]]:
        """Train once on the task; return the network as it is then, and what scores its vectors [Q, d] → [Q, way]."""

    def learned(self, task: ImageTask, network: Network) -> Callable[[Tensor], Tensor]:
        """Train once on the task, then score its queries."""
        model, score = self.adapted(task, network)
        return lambda query: score(embed(model, query))

    def scores(self, tasks: Sequence[ImageTask], network: Network) -> list[Tensor]:
        """Score the queries of each task as the class says; [Q, way] each."""
        return [self.learned(task, network)(task.query) for task in tasks]


# ---- gradient steps in pieces


class Room:
    """How many images go through a network at once; all until memory runs out, then half as many, and so on."""

    def __init__(self) -> None:
        self.limit: int | None = None
        self._lock = threading.Lock()

    def halve(self, tried: int, error: Exception) -> None:
        """Remember that ``tried`` images were too many; the error itself where it is another or 1 was too many."""
        if not out_of_memory(error) or tried <= 1:
            raise error
        with self._lock:
            told_before = self.limit is not None
            self.limit = min(self.limit or tried, (tried + 1) // 2)
        if not told_before:
            print(
                f"note: not enough memory for {tried} images in one pass through the network; "
                f"they go in halves, with the same result in more time",
                file=sys.stderr,
            )


ROOM = Room()


def descend(
    network: Network, images: Tensor, loss: Callable[[Tensor], Tensor], optimiser: torch.optim.Optimizer
) -> None:
    """Make one step of the optimiser on ``loss(network(images))``; images [N, 3, H, W], the loss of vectors [N, d].

    Images that do not fit into memory at once go in pieces: first their vectors without a graph, then the loss's
    gradient to the vectors, then piece by piece a second pass that carries it into the weights. The sum is the same
    because no layer mixes images in evaluation mode.
    """
    while True:
        limit = min(ROOM.limit or len(images), len(images))
        optimiser.zero_grad(set_to_none=True)
        try:
            with torch.enable_grad():
                if limit == len(images):
                    loss(network(images)).backward()  # type: ignore[no-untyped-call]
                else:
                    _backward_in_pieces(network, torch.split(images, limit), loss)
            break
        except (RuntimeError, MemoryError) as error:
            ROOM.halve(limit, error)
    optimiser.step()


def _backward_in_pieces(
    network: Network, pieces: tuple[Tensor, ...], loss: Callable[[Tensor], Tensor]
) -> None:
    with torch.no_grad():
        vectors = torch.cat([network(piece) for piece in pieces])
    vectors.requires_grad_()
    loss(vectors).backward()  # type: ignore[no-untyped-call]
    assert vectors.grad is not None
    for piece, slope in zip(pieces, torch.split(vectors.grad, len(pieces[0])), strict=True):
        network(piece).backward(slope)


@torch.no_grad()
def embed(network: Network, images: Tensor) -> Tensor:
    """Compute vectors [N, d] of images [N, 3, H, W], without a graph."""
    while True:
        limit = min(ROOM.limit or len(images), len(images))
        try:
            return torch.cat([network(piece) for piece in torch.split(images, limit)])
        except (RuntimeError, MemoryError) as error:
            ROOM.halve(limit, error)


_RATES = (1e-4, 1e-3, 1e-2)
_SHIFT = 1 / 8  # of a side, in augmentation


class Prototypes:
    """Loss and scores of the prototype classifier under a moving network, for one task.

    p_c = mean of f(x) over the support of class c; logits 10 · cos(f(x), p_c) or −‖f(x) − p_c‖².
    """

    def __init__(self, task: ImageTask, distance: str) -> None:
        self.support, self.query = Support.of(task), task.query
        self.distance = distance

    def logits(self, vectors: Tensor, support: Tensor) -> Tensor:
        """Compute logits [N, P] of vectors [N, d], given the support's vectors [S, d]."""
        means = prototypes(support, self.support.labels, len(self.support.classes))
        return prototype_scores(vectors, means, distance=self.distance)

    def loss(self, vectors: Tensor, entropy: float = 0.0) -> Tensor:
        """Compute the loss of vectors of the support, then (if there are more) the augmented support, then queries.

        Cross-entropy of the (augmented) support, plus entropy · mean_q H(p(q)).
        """
        shots = len(self.support)
        labelled = vectors[: len(vectors) - len(self.query)] if entropy else vectors
        loss = F.cross_entropy(self.logits(labelled[-shots:], labelled[:shots]), self.support.labels)
        if entropy:
            loss = loss + entropy * mean_entropy(self.logits(vectors[len(labelled) :], labelled[:shots]))
        return loss

    def after(self, network: Network) -> tuple[Network, Callable[[Tensor], Tensor]]:
        """Return the network as it is, and what scores its vectors [Q, d] → [Q, way]."""
        support = embed(network, self.support.images)
        return network, lambda vectors: self.support.spread(self.logits(vectors, support))


@with_settings
class FinetuneAll(Adapted):
    """All layers trained on the support for ``steps`` of Adam, as P>M>F does: no head, the class means classify.

    Each step compares the support, augmented with probability ``augmentation``, with the class means of the support as
    it is; both come from the network of that step. At 0 steps it is the prototype classifier. ``lr=None``: the best of
    1e-4, 1e-3 and 1e-2 on five validation tasks.
    """

    name = "finetune-all"
    family = "fine-tuning"
    paper = "Hu et al. 2022"
    validation: ClassVar[int] = 5
    step_cost: ClassVar[float] = 3.0  # of an image in a gradient step, in forward passes

    steps: int = count_field(50)
    lr: float | None = number_field(None, above=0)
    augmentation: float = number_field(0.9)
    distance: str = choice_field("cosine", "cosine", "euclidean")

    def candidates(self) -> Sequence[ImageMethod]:
        """List the three learning rates, unless one is given or none is needed."""
        if self.lr is not None or self.steps == 0:
            return ()
        return [type(self)(**{**self.settings, "lr": rate}) for rate in _RATES]

    def adapted(self, task: ImageTask, network: Network) -> tuple[Network, Callable[[Tensor], Tensor]]:
        """Train on the task; the class means classify."""
        prototypes = Prototypes(task, self.distance)
        if self.steps == 0:
            return prototypes.after(network)
        if self.lr is None:
            raise UserError(f"{self.name} has no learning rate yet; give one, as in {self.name}(lr=0.001).")
        generator = task.generator()
        model, moving = self._model(network, generator)
        optimiser = torch.optim.Adam(moving, lr=self.lr, fused=True)
        loss = self._loss(prototypes)
        for _ in range(self.steps):
            images = [prototypes.support.images]
            if float(torch.rand((), generator=generator)) < self.augmentation:
                images.append(augment(prototypes.support.images, generator))
            descend(model, torch.cat((*images, *self._beside(task))), loss, optimiser)
        return prototypes.after(model)

    def _model(self, network: Network, generator: torch.Generator) -> tuple[Network, Sequence[nn.Parameter]]:
        """Copy the network for one task; return also those of its parameters that are trained."""
        model = trainable_copy(network)
        return model, list(model.parameters())

    def _loss(self, prototypes: Prototypes) -> Callable[[Tensor], Tensor]:
        return prototypes.loss

    def _beside(self, task: ImageTask) -> Sequence[Tensor]:
        """Return the images that a step sees beside the support."""
        return ()

    def flops_per_task(self, way: int, support: int, query: int, forward: float) -> float:
        """Count the support and its augmented copy in every step, and the support and the queries at the end."""
        seen = support * (1 + min(self.augmentation, 1))
        return forward * (self.step_cost * self.steps * seen + support + query)


@with_settings
class TransductiveFinetuneAll(FinetuneAll):
    """``finetune-all`` with the queries in every step: loss = CE(support) + entropy · mean_q H(p(q))."""

    name = "transductive-finetune-all"
    setting = "transductive"
    paper = "Dhillon et al. 2020"

    entropy: float = number_field(1.0, above=0)

    def _loss(self, prototypes: Prototypes) -> Callable[[Tensor], Tensor]:
        return lambda vectors: prototypes.loss(vectors, self.entropy)

    def _beside(self, task: ImageTask) -> Sequence[Tensor]:
        return (task.query,)

    def flops_per_task(self, way: int, support: int, query: int, forward: float) -> float:
        """Count the queries in every step as well."""
        beside = forward * self.step_cost * self.steps * query
        return super().flops_per_task(way, support, query, forward) + beside


@with_settings
class Finetune5(Adapted):
    """The embedding moved by 5 gradient steps on the support, then the prototype classifier.

    Plain gradient descent on the cross-entropy of the support against its own class means, all layers, no augmentation.
    """

    name = "finetune-5"
    family = "fine-tuning"
    paper = "Arnold and Sha 2021"

    steps: int = count_field(5)
    lr: float = number_field(0.01, above=0)
    distance: str = choice_field("cosine", "cosine", "euclidean")

    def adapted(self, task: ImageTask, network: Network) -> tuple[Network, Callable[[Tensor], Tensor]]:
        """Train on the task; the class means classify."""
        prototypes = Prototypes(task, self.distance)
        model = trainable_copy(network)
        optimiser = torch.optim.SGD(model.parameters(), lr=self.lr)
        for _ in range(self.steps):
            descend(model, prototypes.support.images, prototypes.loss, optimiser)
        return prototypes.after(model)

    def flops_per_task(self, way: int, support: int, query: int, forward: float) -> float:
        """Count the support in every step, and the support and the queries at the end."""
        return forward * (3 * self.steps * support + support + query)


# ---- augmentation of a support set, as P>M>F varies it (DiffAugment's colours and shifts)


def augment(images: Tensor, generator: torch.Generator) -> Tensor:
    """Change each image [N, 3, H, W] on its own, by numbers from a generator on the CPU.

    Colour: brightness x + u (u in ±0.5), saturation around the grey image (× 0 … 2), contrast around the mean
    (× 0.5 … 1.5), in units of the preprocessed values. Then a shift of up to an eighth of each side, zeros moving in.
    """
    count, _, height, width = images.shape
    uniform = torch.rand(5, count, generator=generator).to(images.device)
    brightness, saturation, contrast = (part.view(-1, 1, 1, 1) for part in uniform[:3])
    changed = images + (brightness - 0.5)
    grey = changed.mean(1, keepdim=True)
    changed = (changed - grey) * (2 * saturation) + grey
    middle = changed.mean((1, 2, 3), keepdim=True)
    changed = (changed - middle) * (contrast + 0.5) + middle
    return _shift(changed, _pixels(uniform[3], height), _pixels(uniform[4], width))


def _pixels(uniform: Tensor, side: int) -> Tensor:
    """Turn numbers in 0 … 1 into whole shifts in −side/8 … side/8."""
    most = int(side * _SHIFT + 0.5)
    return (uniform * (2 * most + 1)).long().clamp(max=2 * most) - most


def _shift(images: Tensor, down: Tensor, right: Tensor) -> Tensor:
    """Move image n by down[n] and right[n] pixels, zeros where nothing was."""
    count, _, height, width = images.shape
    rows = torch.arange(height, device=images.device) - down.unsqueeze(1)  # [N, H] where each row comes from
    columns = torch.arange(width, device=images.device) - right.unsqueeze(1)
    inside = _within(rows, height)[:, None, :, None] & _within(columns, width)[:, None, None, :]
    which = torch.arange(count, device=images.device).view(count, 1, 1)
    moved = images.permute(0, 2, 3, 1)[
        which, rows.clamp(0, height - 1).unsqueeze(2), columns.clamp(0, width - 1).unsqueeze(1)
    ]
    return moved.permute(0, 3, 1, 2) * inside


def _within(places: Tensor, side: int) -> Tensor:
    return (places >= 0) & (places < side)
