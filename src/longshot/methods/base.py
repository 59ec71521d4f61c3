"""What every feature-space method takes (a batch of tasks) and gives (scores), and what methods share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal, NamedTuple

import torch
from torch import Tensor

from longshot.calls import Called

Setting = Literal["inductive", "transductive"]
Kind = Literal["frozen", "adapted", "meta-trained"]
LOWEST = float("-inf")  # score of a class that cannot be predicted: softmax gives it probability 0


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
        """Padded sizes shared by the tasks of the batch."""
        return TaskShape(self.way, self.support.shape[1], self.query.shape[1], self.support.shape[2])

    @cached_property
    def one_hot(self) -> Tensor:
        """[B, S, W] float32: 1 where support row s has label w; padding rows are all zero."""
        classes = torch.arange(self.way, device=self.support.device)
        return (self.support_label.unsqueeze(2) == classes).to(self.support.dtype)

    @cached_property
    def counts(self) -> Tensor:
        """[B, W] float32: support rows per class; 0 for padding columns and for classes without support."""
        if self.shot is not None:
            return torch.full((len(self), self.way), float(self.shot), device=self.support.device)
        return self.one_hot.sum(1)

    @property
    def present(self) -> Tensor:
        """[B, W] bool: classes with at least one support row, the only ones a method may predict."""
        return self.counts > 0

    def class_means(self, rows: Tensor | None = None) -> Tensor:
        """[B, W, d]: mean of ``rows`` per class, p_w = Σ_{s: y_s = w} x_s / n_w.

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
        """The same tasks seen through each backbone on its own (for methods that weigh several backbones)."""
        supports = torch.split(self.support, list(self.blocks), dim=2)
        queries = torch.split(self.query, list(self.blocks), dim=2)
        return [
            TaskBatch(
                support=support,
                support_label=self.support_label,
                query=query,
                query_mask=self.query_mask,
                ways=self.ways,
                way=self.way,
                seeds=self.seeds,
                blocks=(support.shape[2],),
                shot=self.shot,
                index=self.index,
            )
            for support, query in zip(supports, queries, strict=True)
        ]

    def normal(self, *shape: int, stream: int = 0) -> Tensor:
        """[B, *shape] standard normal numbers; a task's numbers depend on its seed and ``stream`` only.

        Drawn on the CPU, task by task, so that neither the batch size nor the device changes them.
        """
        drawn = torch.empty(len(self), *shape)
        generator = torch.Generator()
        for row, seed in zip(drawn, self.seeds.tolist(), strict=True):
            generator.manual_seed((seed + stream * 0x9E3779B97F4A7C15) % 2**63)
            row.normal_(generator=generator)
        return drawn.to(self.support.device)


class AnyMethod(Called, ABC):
    """What all methods have in common: a name, what they may look at, settings and an identity.

    A subclass's constructor takes keyword settings with defaults, checks them and stores each under its own
    name; nothing else. ``call`` is the ``method`` column of results.
    """

    setting: ClassVar[Setting]  # transductive: also looks at the other queries of the same task
    family: ClassVar[str]  # one or two words for the list of methods
    paper: ClassVar[str]  # who proposed it, or ""
    kind: ClassVar[Kind] = "frozen"  # what happens to the network, for tables and plots
    version: ClassVar[int] = 1  # raise when the same settings give other scores: old results are not mixed in

    @property
    def identity(self) -> str:
        """What decides the scores; part of a result's id. A method read from a file adds the file's hash."""
        return f"{self.call}@{self.version}"


class Method(AnyMethod):
    """A way to classify queries from a support set by their features, over a batch of tasks at once.

    ``scores`` must treat tasks independently: a task's scores do not depend on which other tasks are in the batch,
    nor on padding. It is called without gradient tracking: a method that trains enters ``torch.enable_grad()``
    itself. (Methods that need the images and the network are in ``images.py``.)
    """

    # Memory of a batch on a CPU: some 40 tasks of 5 ways and 5 shots. Fewer, and the cost of calling torch shows; more,
    # and the batch no longer stays in the processor's cache between one operation and the next.
    batch_bytes: ClassVar[int] = 16 << 20
    tolerance: ClassVar[float] = (
        1e-4  # how far scores may move with batch size and order of examples (relative)
    )

    @abstractmethod
    def scores(self, batch: TaskBatch) -> Tensor:
        """[B, Q, W] float logits (softmax over W gives probabilities).

        −∞ for columns ≥ ways and for classes without support (``mask_absent`` does both). Values in padded
        query rows are ignored.
        """

    def floats_per_task(self, shape: TaskShape) -> int:
        """Working numbers (float32) that ``scores`` needs per task beyond its input.

        The runner chooses the batch size by it.

        Covers one copy of support and queries, the one-hot matrix, class vectors and three arrays of scores.
        """
        way, support, query, dim = shape
        return (support + query + 2 * way) * dim + (support + 3 * query) * way


def mask_absent(scores: Tensor, batch: TaskBatch) -> Tensor:
    """Set the columns of classes without support (and padding columns) to −∞, in place. scores: [B, Q, W]."""
    if batch.shot is None:
        scores.masked_fill_(~batch.present.unsqueeze(1), LOWEST)
    return scores
