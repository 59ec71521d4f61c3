"""Images of a dataset as training reads them: rows of a cache of bytes, turned, augmented and scaled on the device."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor

from longshot.base import Preprocessing, UserError
from longshot.data import Dataset
from longshot.training.augment import Augmentation

QUARTERS = 4
T = TypeVar("T")


def step_seed(seed: int, step: int, stream: int = 0) -> int:
    """A seed of its own for every (seed, step, stream): nothing random is carried from one step to the next."""
    words = np.random.SeedSequence([seed, step, stream]).generate_state(1, np.uint64)
    return int(words[0] >> np.uint64(1))


def step_generator(seed: int, step: int, stream: int = 0) -> Generator:
    """A generator on the CPU that depends on its arguments only."""
    return torch.Generator().manual_seed(step_seed(seed, step, stream))


@dataclass(frozen=True, eq=False)
class TrainingImages:
    """``read(rows)`` gives the images of rows of a dataset, or of its rotated version (``sources``, ``quarters``)."""

    pixels: NDArray[np.uint8]  # [N, H, W, 3], usually a memory map
    transform: Preprocessing
    device: torch.device
    sources: NDArray[np.int64] | None = None  # [M] row of ``pixels`` behind each row; None: the same
    quarters: NDArray[np.int64] | None = None  # [M] quarter turns of each row

    def read(
        self, rows: NDArray[np.int64], augment: Augmentation | None = None, generator: Generator | None = None
    ) -> Tensor:
        """[B, 3, H, W] float32 on the device, as the network wants it; the channels of a pixel lie together."""
        positions = rows if self.sources is None else self.sources[rows]
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*not writable.*")
            read = torch.from_numpy(self.pixels[positions])
        bytes_ = read.to(self.device, non_blocking=True).permute(0, 3, 1, 2)
        if self.quarters is not None:
            bytes_ = turned(bytes_, torch.from_numpy(self.quarters[rows]).to(self.device))
        values = bytes_.to(torch.float32)
        scale, shift = (
            torch.tensor(numbers, device=self.device).view(1, 3, 1, 1)
            for numbers in (self.transform.scale, self.transform.shift)
        )
        if augment is not None and augment.moves:
            assert generator is not None
            values = augment(values / 255, generator) * 255
        return values.mul(scale).add_(shift)


def turned(images: Tensor, turns: Tensor) -> Tensor:
    """[B, 3, H, H], image b turned by ``turns[b]`` quarters, counter-clockwise."""
    views = images.clone()
    for quarter in range(1, QUARTERS):
        chosen = (turns == quarter).nonzero().squeeze(1)
        views[chosen] = torch.rot90(images[chosen], quarter, (2, 3))
    return views


def with_rotations(
    dataset: Dataset, classes: NDArray[np.int64]
) -> tuple[Dataset, NDArray[np.int64], NDArray[np.int64]]:
    """The given classes in four versions each, turned by 0, 90, 180 and 270 degrees: four classes out of one.

    Returns the dataset of 4 · len(classes) classes, the row of ``dataset`` behind each of its rows, and the quarter
    turns of each of its rows. It has no taxonomy and no attributes.
    """
    named = sorted(
        (f"{dataset.class_ids[c]}@{90 * quarter:03d}", int(c), quarter)
        for c in classes
        for quarter in range(QUARTERS)
    )
    ranges = [np.arange(dataset.offsets[c], dataset.offsets[c + 1]) for _, c, _ in named]
    sources = np.concatenate(ranges)
    quarters = np.repeat([quarter for _, _, quarter in named], [len(rows) for rows in ranges])
    old = dataset.keys.take(pa.array(sources)).to_pylist()
    keys = [f"{key}@{90 * quarter:03d}" for key, quarter in zip(old, quarters.tolist(), strict=True)]
    offsets = np.concatenate([[0], np.cumsum([len(rows) for rows in ranges])])
    rotated = Dataset(
        name=dataset.name,
        class_ids=tuple(name for name, _, _ in named),
        offsets=offsets,
        keys=pa.array(keys, pa.string()),
        store=dataset.store,
        source=dataset.source,
    )
    return rotated, sources, quarters.astype(np.int64)


def check_square(transform: Preprocessing) -> None:
    """Turned images must fit where the others do."""
    height, width = transform.size
    if height != width:
        raise UserError(
            f"Rotations need square images, but the preprocessing '{transform.text}' gives {height} × {width}; "
            f"end it with central_crop({min(height, width)}) or leave the rotations out."
        )


class Prefetch(Generic[T]):
    """``make(step)`` for steps in order, a few steps ahead in a thread of its own.

    The thread never goes past the ``horizon`` it was last given: what lies behind may depend on what is learned
    until there.
    """

    def __init__(self, make: Callable[[int], T], first: int, depth: int = 2) -> None:
        self._make, self._next, self._depth = make, first, depth
        self._waiting: deque[Future[T]] = deque()
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="longshot-images")

    def take(self, horizon: int) -> T:
        """The next step's data; ``horizon`` is the first step that must not be prepared yet."""
        ahead = self._depth + 1
        while len(self._waiting) < ahead and self._next < horizon:
            self._waiting.append(self._threads.submit(self._make, self._next))
            self._next += 1
        return self._waiting.popleft().result()

    def __enter__(self) -> Prefetch[T]:
        return self

    def __exit__(self, *problem: Any) -> None:
        self._threads.shutdown(wait=True, cancel_futures=True)
