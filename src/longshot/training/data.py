"""What a training reads: which classes, what episodes look like, which tasks it is judged on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from longshot.core.errors import UserError
from longshot.datasets.dataset import Dataset
from longshot.testbeds.base import Classes, Pool, Shape
from longshot.testbeds.classes import UniformClasses
from longshot.testbeds.instances import UniformInstances
from longshot.testbeds.shapes import FixedShape
from longshot.training.augment import Augmentation
from longshot.training.base import Algorithm, TrainingDefaults
from longshot.training.episodes import EpisodeSource, Shuffled, TrainingSource, check_enough, draw_tasks
from longshot.training.images import TrainingImages
from longshot.training.validation import Validation

HOLDOUT = 0.1  # share of the classes kept for validation where a dataset has no split of its own
_VALIDATION_SEED = 1_000_003  # validation classes and tasks are the same for every seed of training


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a user may choose; None: as the algorithm's recipe or the network has it. See ``train``."""

    network: str | None = None
    split: str | None = None
    size: int | None = None
    preprocessing: str | None = None
    steps: int | None = None
    epochs: float | None = None
    minutes: float | None = None
    batch: int | None = None
    way: int | None = None
    shot: int | None = None
    query: int | None = None
    shape: Shape | None = None
    classes: Classes | None = None
    rotations: bool = False
    holdout: float | None = None
    recipe: str | None = None
    optimiser: str | None = None
    schedule: str | None = None
    augment: str | None = None
    clip: float | None = None
    validate_every: int | None = None
    validation_tasks: int = 100
    checkpoint_every: int | None = None
    start: str | Path | None = None
    seed: int = 0
    device: str = "auto"
    precision: str = "auto"
    devices: int = 1
    allow_download: bool = False


def choose_shape(algorithm: Algorithm, settings: Settings) -> Shape | None:
    """How many ways, shots and queries an episode has: as asked for, else as the algorithm says."""
    named = {name: getattr(settings, name) for name in ("way", "shot", "query")}
    given = {name: value for name, value in named.items() if value is not None}
    if not algorithm.episodic:
        if given or settings.shape or settings.classes:
            what = f"--{next(iter(given))}" if given else "a sampler"
            raise UserError(f"{algorithm.name} trains on batches, not on episodes; leave {what} out.")
        return None
    if settings.shape is not None:
        if given:
            raise UserError(f"The shape of episodes is given already; leave --{next(iter(given))} out.")
        return settings.shape
    own = {name: getattr(algorithm, name) for name in named if getattr(algorithm, name, None) is not None}
    return FixedShape(**{**own, **given})


def choose_classes(
    data: Dataset, settings: Settings, shape: Shape | None, notes: list[str]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Train classes and validation classes, disjoint."""
    split = settings.split
    if split is None and "train" in data.splits:
        split = "train"
    everything = split is None or split == "all"
    train = data.split_classes(None if everything else split)
    if split == "train" and "validation" in data.splits and settings.holdout is None:
        return train, data.split_classes("validation")
    share = settings.holdout if settings.holdout is not None else (0.0 if split == "all" else HOLDOUT)
    if not share:
        notes.append("no validation: no class is held out, so the last network is kept")
        return train, train[:0]
    needed = shape.min_way if shape else 2
    count = max(5, round(share * len(train)))
    if len(train) - count < needed:
        if settings.holdout is not None:
            raise UserError(
                f"Holding out {count} of {len(train)} classes for validation leaves {len(train) - count}, but training "
                f"needs {needed}; lower --holdout or --way."
            )
        notes.append(f"no validation: {len(train)} classes are too few to hold some out")
        return train, train[:0]
    order = np.random.default_rng(_VALIDATION_SEED).permutation(len(train))
    notes.append(f"{count} of {len(train)} classes are held out for validation")
    return np.sort(train[order[count:]]), np.sort(train[order[:count]])


def make_source(
    algorithm: Algorithm,
    settings: Settings,
    recipe: TrainingDefaults,
    images: TrainingImages,
    pool: Pool,
    shape: Shape | None,
    augment: Augmentation,
) -> TrainingSource:
    if shape is None:
        return Shuffled(images, pool, recipe.batch, settings.seed, augment)
    return EpisodeSource(
        images,
        pool,
        recipe.batch,
        settings.seed,
        augment,
        shape=shape,
        classes=settings.classes or UniformClasses(),
        instances=UniformInstances(),
        refresh=algorithm.refresh,
        chosen=algorithm.instances if algorithm.refresh else None,
    )


def make_validation(
    data: Dataset,
    held: NDArray[np.int64],
    algorithm: Algorithm,
    shape: Shape | None,
    images: TrainingImages,
    settings: Settings,
    notes: list[str],
) -> Validation | None:
    if len(held) < 2:
        return None
    pool = Pool(data, held)
    if shape is None or isinstance(shape, FixedShape):
        wanted = shape if isinstance(shape, FixedShape) else FixedShape()
        smallest = int(pool.sizes[held].min())
        shot = min(wanted.shot, max(1, smallest - 1))
        shape = FixedShape(min(wanted.way, len(held)), shot, max(1, min(wanted.query, smallest - shot)))
    pool = check_enough(pool, shape, "validation")
    tasks = draw_tasks(
        pool,
        settings.validation_tasks,
        _VALIDATION_SEED,
        shape=shape,
        classes=settings.classes or UniformClasses(),
        instances=UniformInstances(),
    )
    return Validation(tasks, images, algorithm.method)


def images_per_step(source: TrainingSource, shape: Shape | None) -> int:
    if isinstance(source, EpisodeSource) and shape is not None:
        tasks = source.draw(0) if not source.refresh else None
        if tasks is None:
            return source.total * shape.min_way * shape.min_images
        return round(source.total * (len(tasks.support.values) + len(tasks.query.values)) / len(tasks))
    return source.total
