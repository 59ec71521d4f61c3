"""Tasks as tensors on a device: what methods, selection and training compute with."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor


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
        """[way] bool: classes with at least one support image, the only ones a method may predict."""
        return torch.bincount(self.support_label, minlength=self.way) > 0

    def generator(self, stream: int = 0) -> torch.Generator:
        """A generator on the CPU that depends on the task and ``stream`` only, so that devices agree."""
        return torch.Generator().manual_seed((self.seed + stream * 0x9E3779B97F4A7C15) % 2**63)


@dataclass(frozen=True)
class Episode(ImageTask):
    """A training task: an :class:`ImageTask` with its answers."""

    query_label: Tensor = field(kw_only=True)  # [Q] int64 in 0…way−1
    seed: int = 0
