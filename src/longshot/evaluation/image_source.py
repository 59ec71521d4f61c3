"""A dataset as images and the network they go through, for methods that adapt the network to a task."""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from longshot.base import ImageTask, Ints, TaskRows, hash_text, task_seeds
from longshot.models import prepare_fixed_norms, read_pixels

if TYPE_CHECKING:
    from longshot.base import Ragged
    from longshot.data import Dataset, ImageStore
    from longshot.models import ModuleBackbone, Network


_DECODE_ALL = 2 << 30  # bytes up to which the images of the tasks are decoded once, and kept in the cache


@dataclass(frozen=True, eq=False)
class ImageSource:
    """One dataset's images, preprocessed as one backbone wants them, and the backbone's network."""

    backbone: ModuleBackbone
    dataset: Dataset
    used: Ints | None = None  # rows of the images that tasks use, sorted; None: all may be
    _local: threading.local = field(default_factory=threading.local, init=False, repr=False)

    @cached_property
    def hash(self) -> str:
        """Return the hash of weights and preprocessing, for a unit's id in place of the features' hash."""
        return hash_text("network", self.backbone.weights_hash, self.backbone.preprocessing)

    @cached_property
    def network(self) -> Network:
        """Return the network, frozen and in evaluation mode; built on first use (from one thread)."""
        network = self.backbone.network()
        if self.backbone.channels_last:  # a third faster on a CPU
            network = network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        prepare_fixed_norms(network)
        return network

    def portable(self, store: ImageStore) -> tuple[ModuleBackbone, Network, ImageStore]:
        """Return what ``sent_images`` needs in another process, whose images come from ``store``."""
        return self.backbone.portable(network=False), self.network, store

    def story(self) -> dict[str, Any]:
        """Describe the source for run.json: a part of what ``Source.story`` says about the same backbone."""
        facts = {
            "backbone": self.backbone.name,
            "weights_hash": self.backbone.weights_hash,
            "preprocessing": self.backbone.preprocessing,
            "identity": self.backbone.identity,
            "images": self.dataset.identity,
        }
        return {"dataset": self.dataset.name, "networks": [facts]}

    def tasks(self, tasks: TaskRows, chosen: Ints, seed: int = 0) -> tuple[list[ImageTask], torch.Tensor]:
        """Read the tasks at positions ``chosen`` (all of one shape) with images, and query labels [B, Q]."""
        made, labels = [], []
        for position in chosen.tolist():
            support, query = tasks.support.row(position), tasks.query.row(position)
            images = self._images(np.concatenate((support, query)))
            made.append(_image_task(tasks, position, seed, images[: len(support)], images[len(support) :]))
            labels.append(_labels(tasks.query_label, position, images))
        return made, torch.stack(labels)

    def in_blocks(
        self, tasks: TaskRows, position: int, block: int, seed: int = 0
    ) -> tuple[ImageTask, torch.Tensor, Iterator[torch.Tensor]]:
        """Return the task without queries, its query labels [Q] and its query images, ``block`` at a time."""
        images, query = self._images(tasks.support.row(position)), tasks.query.row(position)
        task = _image_task(tasks, position, seed, images, images[:0])
        blocks = (self._images(query[start : start + block]) for start in range(0, len(query), block))
        return task, _labels(tasks.query_label, position, images), blocks

    def bytes_per_task(self, support: int) -> int:
        """Estimate the memory of adapting to a task: weights, gradient and moments, and what layers keep.

        Networks of this project keep 100 to 400 times the bytes of their input until the gradient is taken.
        """
        height, width = self.backbone.transform.size
        weights = sum(parameter.numel() for parameter in self.network.parameters())
        return 4 * 4 * weights + support * 4 * 3 * height * width * 256

    def _images(self, rows: Ints) -> torch.Tensor:
        """Return images as float32 on the network's device, [n, 3, H, W]."""
        transform, device = self.backbone.transform, self.backbone.device
        scale, shift = (
            torch.tensor(v, device=device).view(3, 1, 1) for v in (transform.scale, transform.shift)
        )
        pixels = torch.from_numpy(self._pixels(rows)).to(device).permute(0, 3, 1, 2)
        return self.backbone.images(pixels.float()).mul_(scale).add_(shift)

    def prepare(self) -> None:
        """Build the network and decode a small dataset once, before threads meet in them."""
        _ = self.network, self._decoded

    def _pixels(self, rows: Ints) -> NDArray[np.uint8]:
        """Read images as bytes, each thread through its own copy of the store; [n, H, W, 3]."""
        if self._decoded is not None:
            return self._decoded[rows if self._where is None else self._where[rows]]
        if not hasattr(self._local, "store"):
            self._local.store = copy.deepcopy(self.dataset.store)
        transform = self.backbone.transform
        return np.stack([read_pixels(self._local.store, transform, row) for row in rows.tolist()])

    @cached_property
    def _decoded(self) -> NDArray[np.uint8] | None:
        """Decode the images in use; None when so many that each is better read when wanted. [n, H, W, 3]"""
        from longshot.models import cached_pixels

        height, width = self.backbone.transform.size
        count = len(self.dataset) if self.used is None else len(self.used)
        if count * height * width * 3 > _DECODE_ALL:
            return None
        return cached_pixels(self.dataset, self.backbone.transform, rows=self.used)

    @cached_property
    def _where(self) -> Ints | None:
        """Return where each image of the dataset lies in ``_decoded``; None: in the dataset's order. [N]"""
        from longshot.models import row_positions

        return None if self.used is None else row_positions(self.used, len(self.dataset))


@dataclass(frozen=True, eq=False)
class _StoreOnly:
    """As much of a dataset as a worker needs."""

    store: ImageStore


def sent_images(backbone: ModuleBackbone, network: Network, store: ImageStore) -> ImageSource:
    """Build the source in a worker of a cluster: the network came along, images are read task by task."""
    source = ImageSource(backbone, cast("Dataset", _StoreOnly(store)))
    prepare_fixed_norms(network)
    source.__dict__.update(network=network, _decoded=None)  # cached properties of a frozen dataclass
    return source


def free_memory() -> int:
    """Return the bytes to be had without swapping; half of a machine of 8 GB where the system is silent."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        facts = dict(line.split(":", 1) for line in lines)
        return int(facts["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return 4 << 30


def _image_task(
    tasks: TaskRows, position: int, seed: int, support: torch.Tensor, query: torch.Tensor
) -> ImageTask:
    """Read the images of the task at ``position``; ``seed`` is that of the run."""
    return ImageTask(
        support=support,
        support_label=_labels(tasks.support_label, position, support),
        query=query,
        way=int(tasks.ways[position]),
        seed=int(task_seeds(seed, tasks.tasks[[position]])[0]),
        index=int(tasks.tasks[position]),
    )


def _labels(labels: Ragged, position: int, images: torch.Tensor) -> torch.Tensor:
    """Return the labels of one task, int64, on the device of its images."""
    return torch.from_numpy(labels.row(position).astype(np.int64)).to(images.device)
