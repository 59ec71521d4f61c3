"""Augmentation of a batch of images on its device, as a readable string: ``crop(8)|flip|jitter(0.4)|rotate(10)``.

Every image of the batch gets numbers of its own. They are drawn on the CPU from one generator, so a step's pictures
depend on its seed alone, whatever the device.
"""

from __future__ import annotations

import math
import re
import warnings
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor
from torch.nn import functional

from longshot.base import Preprocessing, UserError
from longshot.data import Dataset

STEPS = {
    "crop": "crop(p): shifted by up to p pixels each way, the border repeated",
    "zoom": "zoom(s): a window of s … 1 of each side, resized back",
    "flip": "flip: left and right swapped in half of the images",
    "rotate": "rotate(d): turned by up to d degrees either way, the border repeated",
    "jitter": "jitter(a): brightness, contrast and saturation times 1 − a … 1 + a",
    "grey": "grey(p): without colour with probability p",
}
# name → how many numbers it takes and where they may lie
_RANGES = {"crop": (1, 1024), "zoom": (0.05, 1), "rotate": (0, 180), "jitter": (0, 1), "grey": (0, 1)}
_STEP = re.compile(r"^([a-z]+)(?:\(([^()]*)\))?$")

Move: TypeAlias = Callable[[Tensor, float, Generator], Tensor]


@dataclass(frozen=True)
class Augmentation:
    """A parsed string. ``text`` is canonical: ``parse_augmentation(a.text).text == a.text``."""

    text: str
    moves: tuple[tuple[str, float], ...]

    def __call__(self, images: Tensor, generator: Generator) -> Tensor:
        """Change images [B, 3, H, W], floats in 0 … 1, within the same shape and range."""
        for name, amount in self.moves:
            images = _MOVES[name](images, amount, generator)
        return images


def parse_augmentation(text: str) -> Augmentation:
    """Parse an augmentation string (empty: nothing is done); a UserError names the step that is wrong."""
    moves: list[tuple[str, float]] = []
    for word in [word.strip() for word in text.split("|")] if text.strip() else []:
        match = _STEP.match(word)
        if not match or match.group(1) not in STEPS:
            steps = "; ".join(STEPS.values())
            raise UserError(f"There is no step '{word}' in the augmentation '{text}'; the steps are {steps}.")
        name, argument = match.group(1), match.group(2)
        if name == "flip":
            if argument:
                raise UserError(f"'{word}' in the augmentation '{text}' takes no number; write flip.")
            moves.append((name, 0.5))
            continue
        low, high = _RANGES[name]
        try:
            amount = float(argument)
        except (TypeError, ValueError):
            amount = math.nan
        if not low <= amount <= high:
            raise UserError(
                f"'{word}' in the augmentation '{text}' needs one number between {low:g} and {high:g}: {STEPS[name]}."
            )
        moves.append((name, amount))
    shown = [name if name == "flip" else f"{name}({amount:g})" for name, amount in moves]
    return Augmentation("|".join(shown), tuple(moves))


def _numbers(images: Tensor, generator: Generator, low: float, high: float) -> Tensor:
    """Draw uniform numbers on the images' device; [B, 1, 1, 1]."""
    numbers = torch.rand(len(images), generator=generator) * (high - low) + low
    return numbers.to(images.device, images.dtype).view(-1, 1, 1, 1)


def _crop(images: Tensor, amount: float, generator: Generator) -> Tensor:
    """Shift by whole pixels: a gather whose indices stop at the border, so no padded copy is made."""
    count, _, height, width = images.shape
    most = int(amount)
    shift = torch.randint(-most, most + 1, (2, count, 1), generator=generator).to(images.device)
    rows = (torch.arange(height, device=images.device) + shift[0]).clamp(0, height - 1)  # [B, H]
    columns = (torch.arange(width, device=images.device) + shift[1]).clamp(0, width - 1)  # [B, W]
    which = torch.arange(count, device=images.device)
    # Indexed behind the channels, so that the result keeps the layout in which channels lie together.
    moved = images.permute(0, 2, 3, 1)[which[:, None, None], rows[:, :, None], columns[:, None, :]]
    return moved.permute(0, 3, 1, 2)


def _warp(images: Tensor, matrices: Tensor) -> Tensor:
    """Map images [B, 3, H, W] by affine maps [B, 2, 3] of output to input coordinates (−1 … 1)."""
    grid = functional.affine_grid(matrices.to(images.dtype), list(images.shape), align_corners=False)
    return functional.grid_sample(images, grid, padding_mode="border", align_corners=False)


def _zoom(images: Tensor, amount: float, generator: Generator) -> Tensor:
    scale = torch.rand(len(images), generator=generator) * (1 - amount) + amount
    shift = (torch.rand(2, len(images), generator=generator) * 2 - 1) * (1 - scale)
    zero = torch.zeros_like(scale)
    matrices = torch.stack([scale, zero, shift[0], zero, scale, shift[1]], 1).view(-1, 2, 3)
    return _warp(images, matrices.to(images.device))


def _rotate(images: Tensor, amount: float, generator: Generator) -> Tensor:
    angle = (torch.rand(len(images), generator=generator) * 2 - 1) * math.radians(amount)
    cos, sin, zero = angle.cos(), angle.sin(), torch.zeros_like(angle)
    ratio = images.shape[2] / images.shape[3]  # coordinates run from −1 to 1 on both sides, however long
    matrices = torch.stack([cos, -sin * ratio, zero, sin / ratio, cos, zero], 1).view(-1, 2, 3)
    return _warp(images, matrices.to(images.device))


def _flip(images: Tensor, amount: float, generator: Generator) -> Tensor:
    return torch.where(_numbers(images, generator, 0, 1) < amount, images.flip(3), images)


def _grey_of(images: Tensor) -> Tensor:
    """Compute the luma of images (ITU-R 601); [B, 1, H, W]."""
    red, green, blue = images.unbind(1)
    return (0.299 * red + 0.587 * green + 0.114 * blue).unsqueeze(1)


def _jitter(images: Tensor, amount: float, generator: Generator) -> Tensor:
    bright, contrast, colour = (_numbers(images, generator, 1 - amount, 1 + amount) for _ in range(3))
    images = images * bright
    grey = _grey_of(images)
    middle = grey.mean((2, 3), keepdim=True)
    images = middle + contrast * (images - middle)
    grey = middle + contrast * (grey - middle)
    return (grey + colour * (images - grey)).clamp(0, 1)


def _grey(images: Tensor, amount: float, generator: Generator) -> Tensor:
    return torch.where(_numbers(images, generator, 0, 1) < amount, _grey_of(images), images)


_MOVES: dict[str, Move] = {
    "crop": _crop,
    "zoom": _zoom,
    "flip": _flip,
    "rotate": _rotate,
    "jitter": _jitter,
    "grey": _grey,
}


QUARTERS = 4
T = TypeVar("T")


def step_seed(seed: int, step: int, stream: int = 0) -> int:
    """Derive a seed for every (seed, step, stream): nothing random is carried from one step to the next."""
    words = np.random.SeedSequence([seed, step, stream]).generate_state(1, np.uint64)
    return int(words[0] >> np.uint64(1))


def step_generator(seed: int, step: int, stream: int = 0) -> Generator:
    """Make a generator on the CPU that depends on its arguments only."""
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
        """Read rows as the network takes them, the channels of a pixel together; [B, 3, H, W] float32 on the device."""
        positions = rows if self.sources is None else self.sources[rows]
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*not writable.*")
            read = torch.from_numpy(self.pixels[positions])
        bytes_ = read.to(self.device, non_blocking=True).permute(0, 3, 1, 2)
        if self.quarters is not None:
            bytes_ = turned(bytes_, torch.from_numpy(self.quarters[rows]).to(self.device))
        values = bytes_.to(torch.float32)
        if augment is not None and augment.moves:
            assert generator is not None
            values = augment(values / 255, generator) * 255
        return self.transform.values(values)


def turned(images: Tensor, turns: Tensor) -> Tensor:
    """Turn image b by ``turns[b]`` quarters, counter-clockwise; [B, 3, H, H]."""
    views = images.clone()
    for quarter in range(1, QUARTERS):
        chosen = (turns == quarter).nonzero().squeeze(1)
        views[chosen] = torch.rot90(images[chosen], quarter, (2, 3))
    return views


def with_rotations(
    dataset: Dataset, classes: NDArray[np.int64]
) -> tuple[Dataset, NDArray[np.int64], NDArray[np.int64]]:
    """Make four classes of each given class, turned by 0, 90, 180 and 270 degrees.

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
    """Refuse images that are not square: turned ones must fit where the others do."""
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
        """Return the next step's data; ``horizon`` is the first step that must not be prepared yet."""
        ahead = self._depth + 1
        while len(self._waiting) < ahead and self._next < horizon:
            self._waiting.append(self._threads.submit(self._make, self._next))
            self._next += 1
        return self._waiting.popleft().result()

    def __enter__(self) -> Prefetch[T]:
        return self

    def __exit__(self, *problem: Any) -> None:
        self._threads.shutdown(wait=True, cancel_futures=True)
