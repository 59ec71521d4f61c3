"""Tasks as tensors on a device, which methods, selection and training compute with, and the prototype classifier."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional


class TaskShape(NamedTuple):
    """Sizes after padding of one task in a batch: W classes, S support rows, Q query rows of d numbers."""

    way: int
    support: int
    query: int
    dim: int


@dataclass(frozen=True)
class TaskBatch:
    """B tasks as padded tensors on one device. Query labels are not here: a method cannot see them.

    Shapes: W = ``way``, the largest number of classes in the batch; S and Q the padded sizes; d the feature
    width. Support rows are sorted by label. Padding rows hold zeros, carry label −1 (support) or mask False
    (query), and come last.
    """

    support: Tensor  # [B, S, d] float32
    support_label: Tensor  # [B, S] int64 in 0…ways−1; −1 marks padding
    query: Tensor  # [B, Q, d] float32
    query_mask: Tensor  # [B, Q] bool; False marks padding
    ways: Tensor  # [B] int64, number of classes of each task
    way: int  # W, max of ways (or more)
    seeds: Tensor  # [B] int64, on the CPU; the only source of randomness a method may use
    blocks: tuple[int, ...]  # widths of the backbones side by side in d; (d,) for a single backbone
    shot: int | None = (
        None  # k when every task has exactly W classes of k rows each, sorted by label, no padding
    )
    index: Tensor | None = None  # [B] int64, on the CPU: numbers of the tasks in their testbed, for messages

    def __len__(self) -> int:
        return int(self.support.shape[0])

    @property
    def shape(self) -> TaskShape:
        """Return padded sizes shared by the tasks of the batch."""
        return TaskShape(self.way, self.support.shape[1], self.query.shape[1], self.support.shape[2])

    @cached_property
    def one_hot(self) -> Tensor:
        """Return 1 where support row s has label w; padding rows are all zero. float32 [B, S, W]"""
        classes = torch.arange(self.way, device=self.support.device)
        return (self.support_label.unsqueeze(2) == classes).to(self.support.dtype)

    @cached_property
    def counts(self) -> Tensor:
        """Count support rows per class; 0 for padding columns and for classes without support. float32 [B, W]"""
        if self.shot is not None:
            return torch.full((len(self), self.way), float(self.shot), device=self.support.device)
        return self.one_hot.sum(1)

    @property
    def present(self) -> Tensor:
        """Tell which classes have a support row, the only ones a method may predict. bool [B, W]"""
        return self.counts > 0

    def class_means(self, rows: Tensor | None = None) -> Tensor:
        """Compute the mean of ``rows`` per class, p_w = Σ_{s: y_s = w} x_s / n_w. [B, W, d]

        ``rows`` is [B, S, d], by default the support. One matrix product with the transposed one-hot matrix;
        zero for classes without support.
        """
        values = self.support if rows is None else rows
        if self.shot is not None:
            # Sorted and equal shots: the rows of a class are neighbours and the sum needs no product.
            grouped = values.view(len(self), self.way, self.shot, -1)
            return grouped.squeeze(2) if self.shot == 1 else grouped.sum(2).div_(self.shot)
        sums = torch.bmm(self.one_hot.transpose(1, 2), values)
        return sums / self.counts.clamp(min=1).unsqueeze(2)

    def split(self) -> list[TaskBatch]:
        """Return the same tasks seen through each backbone on its own (for methods that weigh several backbones)."""
        supports = torch.split(self.support, list(self.blocks), dim=2)
        queries = torch.split(self.query, list(self.blocks), dim=2)
        return [
            replace(self, support=support, query=query, blocks=(support.shape[2],))
            for support, query in zip(supports, queries, strict=True)
        ]

    def normal(self, *shape: int, stream: int = 0) -> Tensor:
        """Draw standard normal numbers; a task's numbers depend on its seed and ``stream`` only. [B, *shape]

        Drawn on the CPU, task by task, so that neither the batch size nor the device changes them.
        """
        numbers = torch.empty(len(self), *shape)
        generator = torch.Generator()
        for row, seed in zip(numbers, self.seeds.tolist(), strict=True):
            generator.manual_seed((seed + stream * 0x9E3779B97F4A7C15) % 2**63)
            row.normal_(generator=generator)
        return numbers.to(self.support.device)


@dataclass(frozen=True)
class ImageTask:
    """One task as images, preprocessed for the network and on its device. Query labels are not here."""

    support: Tensor  # [S, 3, H, W] float32, sorted by label
    support_label: Tensor  # [S] int64 in 0…way−1
    query: Tensor  # [Q, 3, H, W] float32
    way: int
    seed: int  # the only source of randomness a method may use (``generator``)
    index: int = -1  # number of the task in its testbed, for messages

    @property
    def present(self) -> Tensor:
        """Tell which classes have a support image, the only ones a method may predict. bool [way]"""
        return torch.bincount(self.support_label, minlength=self.way) > 0

    def generator(self, stream: int = 0) -> torch.Generator:
        """Return a generator on the CPU that depends on the task and ``stream`` only, so that devices agree."""
        return torch.Generator().manual_seed((self.seed + stream * 0x9E3779B97F4A7C15) % 2**63)


@dataclass(frozen=True)
class Episode(ImageTask):
    """A training task: an :class:`ImageTask` with its answers."""

    query_label: Tensor = field(kw_only=True)  # [Q] int64 in 0…way−1
    seed: int = 0


# ---- the prototype classifier (Snell et al. 2017): a class is the mean of its support, a query goes to the nearest
# class. Both functions are differentiable, work under ``torch.func.vmap`` and take any leading batch dimensions.

PROTOTYPE_SCALES = {
    "euclidean": 1.0,
    "cosine": 10.0,
}  # distance → the scale of its scores unless another is chosen


def prototypes(vectors: Tensor, labels: Tensor, way: int) -> Tensor:
    """Mean vector of each class: p_w = Σ_{s: y_s = w} x_s / n_w.

    Parameters
    ----------
    vectors : Tensor [..., S, d]
        Support vectors.
    labels : Tensor [..., S]
        Whole numbers in 0…way−1; rows of another label (−1 marks padding) belong to no class.
    way : int
        W, the number of classes.

    Returns
    -------
    Tensor [..., W, d]
        Zero for classes without support.

    Examples
    --------
    >>> prototypes(torch.tensor([[0.0, 0.0], [2.0, 4.0], [5.0, 5.0]]), torch.tensor([0, 0, 1]), 2).tolist()
    [[1.0, 2.0], [5.0, 5.0]]
    """
    classes = torch.arange(way, device=labels.device)
    one_hot = (labels.unsqueeze(-1) == classes).to(vectors.dtype)  # [..., S, W]
    return one_hot.transpose(-1, -2) @ vectors / one_hot.sum(-2).clamp(min=1).unsqueeze(-1)


def prototype_scores(
    queries: Tensor, prototypes: Tensor, *, distance: str = "euclidean", scale: float | None = None
) -> Tensor:
    """Compute scores of queries against class vectors; the largest is the nearest class.

    euclidean:  −scale · ‖q − p_w‖² + scale · ‖q‖² = scale · (2⟨q, p_w⟩ − ‖p_w‖²)
    cosine:     scale · ⟨q, p_w⟩ / (‖q‖ ‖p_w‖)

    ‖q‖² is the same for all classes of a query and so without effect on a softmax over classes: it is left out.

    Parameters
    ----------
    queries : Tensor [..., Q, d]
    prototypes : Tensor [..., W, d]
    distance : {"euclidean", "cosine"}
    scale : float, optional
        1 for Euclidean and 10 for cosine unless given.

    Returns
    -------
    Tensor [..., Q, W]

    Examples
    --------
    >>> classes = torch.tensor([[1.0, 0.0], [0.0, 2.0]])
    >>> prototype_scores(torch.tensor([[1.0, 1.0]]), classes).tolist()
    [[1.0, 0.0]]
    """
    factor = PROTOTYPE_SCALES[distance] if scale is None else scale
    if distance == "cosine":
        unit = functional.normalize(prototypes, dim=-1)
        return factor * functional.normalize(queries, dim=-1) @ unit.transpose(-1, -2)
    squares = prototypes.square().sum(-1).unsqueeze(-2)  # [..., 1, W]
    scores = 2 * (queries @ prototypes.transpose(-1, -2)) - squares
    return scores if factor == 1 else factor * scores
