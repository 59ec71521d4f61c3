"""What methods share that train a network on a task: its support, losses, gradient steps that fit into memory."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from longshot.base import ImageTask, out_of_memory
from longshot.models.methods.base import LOWEST, Setting
from longshot.models.methods.images import ImageMethod
from longshot.models.networks.base import Network


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
        """[Q, way] from scores [Q, P] of the classes that are there; −∞ for the others."""
        wide = scores.new_full((len(scores), self.way), LOWEST)
        wide[:, self.classes] = scores.detach()
        return wide

    def first_seen(self) -> Tensor:
        """[P] the place of each class when classes are lined up by their first image."""
        positions = torch.arange(len(self), device=self.labels.device)
        seen = torch.full((len(self.classes),), len(self), device=self.labels.device)
        first = seen.scatter_reduce(0, self.labels, positions, "amin")
        return first.argsort().argsort()


def content_order(images: Tensor) -> Tensor:
    """[N] an order of images [N, …] that depends on what is in them, not on where they stand."""
    return content_key(images.flatten(1)).argsort()


def content_key(rows: Tensor) -> Tensor:
    """[…] a number for each row […, d] that other rows do not share, short of chance."""
    # Weights that are no multiples of one another, so that images of equal brightness differ.
    weights = torch.arange(1, rows.shape[-1] + 1, device=rows.device).sqrt().frac() + 0.5
    return (rows * weights).sum(-1)


def class_means(vectors: Tensor, labels: Tensor, classes: int) -> Tensor:
    """[P, d] means of vectors [S, d] by class."""
    sums = vectors.new_zeros(classes, vectors.shape[1]).index_add(0, labels, vectors)
    return sums / torch.bincount(labels, minlength=classes).clamp(min=1).unsqueeze(1)


def mean_entropy(logits: Tensor) -> Tensor:
    """Mean over rows of H(softmax(logits)), in nats."""
    logs = logits.log_softmax(1)
    return -(logs.exp() * logs).sum(1).mean()


class Adapted(ImageMethod):
    """A method that learns from each task's support alone before it sees a query."""

    setting: ClassVar[Setting] = "inductive"

    def scores(self, tasks: Sequence[ImageTask], network: Network) -> list[Tensor]:
        """Per task [Q, way]; see the class."""
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
    network: Network,
    images: Tensor,
    loss: Callable[[Tensor], Tensor],
    optimiser: torch.optim.Optimizer,
) -> None:
    """One step of the optimiser on ``loss(network(images))``; images [N, 3, H, W], the loss of vectors [N, d].

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
    """[N, d] vectors of images [N, 3, H, W], without a graph."""
    while True:
        limit = min(ROOM.limit or len(images), len(images))
        try:
            return torch.cat([network(piece) for piece in torch.split(images, limit)])
        except (RuntimeError, MemoryError) as error:
            ROOM.halve(limit, error)
