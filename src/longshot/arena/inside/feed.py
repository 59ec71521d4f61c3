"""Meta-training data as a submission sees it: tasks or batches drawn from read-only arrays in the sandbox.

The folder holds ``index.json`` ({"datasets": [{"name", "file", "offsets", "classes"}]}) and one uint8 array
[N, H, W, 3] per dataset, class-major. Images are handed out as float32 [n, 3, H, W] in 0…1.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

VALID = {"N": None, "min_N": 2, "max_N": 20, "k": None, "min_k": 1, "max_k": 20, "query_images_per_class": 20}
TASKS = {**VALID, "N": 5, "min_N": None, "max_N": None}
CONFIG: dict[str, Any] = {
    "train_data_format": "task",
    "batch_size": 16,
    "validation_datasets": None,
    "train_config": TASKS,
    "valid_config": VALID,
}


class ConfigError(Exception):
    """The submission's config.json asks for something that cannot be had."""


@dataclass
class TrainingTask:
    """One training task; ``support_set`` and ``query_set`` are (X, y, original_y)."""

    num_ways: int
    num_shots: int
    support_set: tuple[torch.Tensor, torch.Tensor, torch.Tensor]
    query_set: tuple[torch.Tensor, torch.Tensor, torch.Tensor]
    original_class_idx: np.ndarray[Any, Any]
    dataset: str


@dataclass(frozen=True)
class FeedSource:
    """One dataset: pixels uint8 [N, H, W, 3], class-major, and the number of its first class among all.

    ``chosen`` are the positions of the classes in use; all where it is None.
    """

    name: str
    pixels: np.ndarray[Any, Any]
    offsets: np.ndarray[Any, Any]
    first_class: int
    chosen: np.ndarray[Any, Any] | None = None

    @property
    def classes(self) -> np.ndarray[Any, Any]:
        """Return the positions of its classes."""
        return np.arange(len(self.offsets) - 1) if self.chosen is None else self.chosen

    @property
    def sizes(self) -> np.ndarray[Any, Any]:
        """Count the images of each class."""
        sizes: np.ndarray[Any, Any] = np.diff(self.offsets)[self.classes]
        return sizes

    @property
    def starts(self) -> np.ndarray[Any, Any]:
        """Return the row of each class's first image."""
        starts: np.ndarray[Any, Any] = self.offsets[self.classes]
        return starts

    @property
    def numbers(self) -> np.ndarray[Any, Any]:
        """Return each class's number among those of all datasets."""
        return self.first_class + self.classes


def images(pixels: np.ndarray[Any, Any]) -> torch.Tensor:
    """Convert uint8 [n, H, W, 3] to float32 [n, 3, H, W] in 0…1."""
    return torch.from_numpy(np.ascontiguousarray(pixels)).permute(0, 3, 1, 2).contiguous().float().div_(255)


def read_config(path: Path) -> dict[str, Any]:
    """Read the submission's config.json over the defaults; unknown keys are an error."""
    config = {**CONFIG, "train_config": dict(TASKS), "valid_config": dict(VALID)}
    if not path.is_file():
        return config
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ConfigError(f"config.json is not JSON: {error}") from error
    if not isinstance(settings, dict):
        raise ConfigError("config.json must hold an object")
    for key, value in settings.items():
        if key not in CONFIG:
            raise ConfigError(f"config.json has an unknown key {key!r}; there are: {', '.join(CONFIG)}")
        if key.endswith("_config"):
            unknown = sorted(set(value or {}) - set(TASKS))
            if unknown:
                raise ConfigError(f"{key} has an unknown key {unknown[0]!r}; there are: {', '.join(TASKS)}")
            config[key].update(value or {})
        else:
            config[key] = value
    if config["train_data_format"] not in ("task", "batch"):
        raise ConfigError(
            f"train_data_format is {config['train_data_format']!r}; it must be 'task' or 'batch'"
        )
    return config


def open_sources(folder: Path) -> list[FeedSource]:
    """Open the training datasets, memory-mapped."""
    sources, first = [], 0
    for entry in json.loads((folder / "index.json").read_text(encoding="utf-8"))["datasets"]:
        pixels = np.load(folder / entry["file"], mmap_mode="r", allow_pickle=False)
        sources.append(FeedSource(entry["name"], pixels, np.asarray(entry["offsets"], np.int64), first))
        first += len(entry["offsets"]) - 1
    return sources


def image_size(folder: Path) -> int:
    """Return the pixels of a side of the images."""
    entry = json.loads((folder / "index.json").read_text(encoding="utf-8"))["datasets"][0]
    return int(np.load(folder / entry["file"], mmap_mode="r", allow_pickle=False).shape[1])


def hold_out(
    sources: list[FeedSource], validation: Any, rng: np.random.Generator
) -> tuple[list[FeedSource], list[FeedSource]]:
    """Split training from validation datasets: ``validation`` is None, a number, a share, or their names.

    Of a single dataset a share means classes: there is nothing else to hold out.
    """
    if not validation:
        return sources, []
    names = [source.name for source in sources]
    if isinstance(validation, float):
        if not 0 < validation < 1:
            raise ConfigError(f"validation_datasets is {validation:g}; a share must lie between 0 and 1")
        if len(sources) == 1:
            return hold_out_classes(sources[0], validation, rng)
        validation = min(max(1, round(validation * len(sources))), len(sources) - 1)
    if isinstance(validation, int):
        if validation >= len(sources):
            raise ConfigError(
                f"{validation} validation datasets are wanted and there are {len(sources)} in all"
            )
        chosen = {names[i] for i in rng.permutation(len(names))[:validation]}
    else:
        chosen = set(validation)
        unknown = sorted(chosen - set(names))
        if unknown:
            raise ConfigError(
                f"there is no dataset {unknown[0]!r} to validate on; there are: {', '.join(names)}"
            )
        if len(chosen) == len(names):
            raise ConfigError("all datasets are held out for validation and none is left to train on")
    train = [source for source in sources if source.name not in chosen]
    return train, [source for source in sources if source.name in chosen]


def hold_out_classes(
    source: FeedSource, share: float, rng: np.random.Generator
) -> tuple[list[FeedSource], list[FeedSource]]:
    """Split one dataset into two with different classes; at least two each, without which there are no tasks."""
    count = max(2, round(share * len(source.classes)))
    if len(source.classes) - count < 2:
        raise ConfigError(
            f"dataset {source.name!r} has {len(source.classes)} classes; {count} to validate on and 2 to train on are "
            f"needed"
        )
    order = rng.permutation(source.classes)
    held, train = (replace(source, chosen=np.sort(part)) for part in (order[:count], order[count:]))
    return [train], [held]


def task_generator(
    sources: list[FeedSource], config: dict[str, Any], rng: np.random.Generator
) -> Callable[[int], Iterator[TrainingTask]]:
    """Return ``generator(n)``, which yields n tasks, each inside one dataset that is drawn uniformly."""

    def generate(count: int) -> Iterator[TrainingTask]:
        for _ in range(int(count)):
            yield draw_task(sources[rng.integers(len(sources))], config, rng)

    return generate


def draw_task(source: FeedSource, config: dict[str, Any], rng: np.random.Generator) -> TrainingTask:
    """Draw N ~ U{min_N … max_N} or fixed, k ~ U{min_k … max_k} or fixed, as far as the dataset's classes allow."""
    queries = int(config["query_images_per_class"])
    able = np.flatnonzero(source.sizes > queries)
    ways = _amount(config, "N", len(able), rng)
    if len(able) < max(ways, 2):
        raise ConfigError(
            f"dataset {source.name!r} has {len(able)} classes of more than {queries} images, {ways} are needed"
        )
    room = int(source.sizes[able].min()) - queries
    shots = _amount(config, "k", room, rng)
    classes = rng.choice(able, ways, replace=False)
    rows = np.stack(
        [source.starts[c] + rng.choice(source.sizes[c], shots + queries, replace=False) for c in classes]
    )
    return TrainingTask(
        num_ways=ways,
        num_shots=shots,
        support_set=_set(source, rows[:, :shots], classes),
        query_set=_set(source, rows[:, shots:], classes),
        original_class_idx=source.numbers[classes],
        dataset=source.name,
    )


def _amount(config: dict[str, Any], name: str, room: int, rng: np.random.Generator) -> int:
    """Return a fixed number, or draw one between the bounds; never more than there is room for."""
    fixed = config[name]
    if fixed is not None:
        return min(int(fixed), room)
    low, high = int(config[f"min_{name}"] or 1), int(config[f"max_{name}"] or room)
    high = max(min(high, room), 1)
    return int(rng.integers(min(low, high), high + 1))


def _set(
    source: FeedSource, rows: np.ndarray[Any, Any], classes: np.ndarray[Any, Any]
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return (X, y, original_y) of rows [N, k]."""
    each = rows.shape[1]
    labels = np.repeat(np.arange(len(classes)), each)
    original = np.repeat(source.numbers[classes], each)
    return images(source.pixels[rows.reshape(-1)]), torch.from_numpy(labels), torch.from_numpy(original)


def batch_generator(
    sources: list[FeedSource], size: int, rng: np.random.Generator
) -> Callable[[int], Iterator[tuple[torch.Tensor, torch.Tensor]]]:
    """Return ``generator(n)``, which yields n batches (X, y) of all datasets; y is in 0 … total−1."""
    lengths = np.array([source.sizes.sum() for source in sources])
    starts = np.cumsum(lengths) - lengths
    places, labels, base = [], [], 0  # of the images of each dataset: row and label
    for source in sources:  # counted among the training datasets, so that held-out classes leave no gap
        pairs = zip(source.starts, source.sizes, strict=True)
        places.append(np.concatenate([np.arange(start, start + size) for start, size in pairs]))
        labels.append(base + np.repeat(np.arange(len(source.sizes)), source.sizes))
        base += len(source.sizes)

    def generate(count: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        for _ in range(int(count)):
            rows = np.sort(rng.choice(lengths.sum(), size, replace=size > lengths.sum()))
            owner = np.searchsorted(starts, rows, side="right") - 1
            parts = []
            for i in np.unique(owner):
                own = rows[owner == i] - starts[i]
                parts.append((sources[i].pixels[places[i][own]], labels[i][own]))
            order = rng.permutation(size)
            pixels = np.concatenate([part[0] for part in parts])[order]
            yield images(pixels), torch.from_numpy(np.concatenate([part[1] for part in parts])[order])

    return generate
