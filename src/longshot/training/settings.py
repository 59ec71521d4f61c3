"""What a user may choose of a training, declared once, and what it reads then: classes, episodes, validation tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, PlainValidator

from longshot.base import (
    Ints,
    Record,
    UserError,
    is_tuned,
    nearest_name,
    read_parameters,
    rows_of_classes,
    tuned_training,
)
from longshot.data import Dataset, DatasetLike, TaxonomyLike
from longshot.models import Features
from longshot.tasks import (
    AnyShape,
    Classes,
    FixedShape,
    Instances,
    Judge,
    MetaDatasetShape,
    Pool,
    Shape,
    SiblingClasses,
    UniformClasses,
    UniformInstances,
    check_sampler_settings,
    embedded_judges,
    make_classes,
    make_shape,
    open_with_splits,
)
from longshot.training.base import Algorithm, TrainingDefaults
from longshot.training.training_episodes import (
    EpisodeSource,
    Shuffled,
    TrainingSource,
    Validation,
    check_enough,
    draw_tasks,
)
from longshot.training.training_images import Augmentation, TrainingImages

Count = Annotated[int, Field(ge=1)]
Amount = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(ge=0, lt=1)]


def _is_sampler(value: Any) -> Any:
    if value is not None and (isinstance(value, str) or not hasattr(value, "name")):
        raise ValueError("it must be a sampler's object, such as longshot.FixedShape(way=5)")
    return value


@dataclass(frozen=True)
class ValidationTasks:
    """What a training is judged on where tasks like its own episodes, solved as its algorithm has it, do not do.

    Parameters
    ----------
    shape : Shape
        Ways, shots and queries.
    classes : Classes
        How the classes of a task are drawn from the validation classes.
    method : str
        Call of the method that solves them.
    """

    shape: Shape
    classes: Classes
    method: str


def _is_validation(value: Any) -> ValidationTasks | None:
    if value is not None and not isinstance(value, ValidationTasks):
        raise ValueError("it must be a ValidationTasks")
    return value


class TrainingSettings(Record):
    """The parameters of ``train`` but algorithm, dataset and folder; None: as the recipe or the network has it."""

    network: str | None = None
    split: str | None = None
    size: Count | None = None
    preprocessing: str | None = None
    steps: Count | None = None
    epochs: Amount | None = None
    minutes: Amount | None = None
    batch: Count | None = None
    way: int | None = None
    shot: int | None = None
    query: int | None = None
    shape: Annotated[Shape | None, PlainValidator(_is_sampler)] = None
    classes: Annotated[Classes | None, PlainValidator(_is_sampler)] = None
    rotations: bool = False
    holdout: Share | None = None
    recipe: str | None = None
    optimiser: str | None = None
    schedule: str | None = None
    augment: str | None = None
    clip: Annotated[float, Field(ge=0)] | None = None
    validate_every: Count | None = None
    validation_tasks: Annotated[int, Field(ge=2)] = 100
    validation: Annotated[Any, PlainValidator(_is_validation)] = None  # ValidationTasks
    checkpoint_every: Count | None = None
    start: str | Path | None = None
    seed: Annotated[int, Field(ge=0)] = 0
    device: str = "auto"
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    allow_download: bool = False

    @property
    def episode_settings(self) -> dict[str, int]:
        """Return those of way, shot and query that are given."""
        named = {"way": self.way, "shot": self.shot, "query": self.query}
        return {name: value for name, value in named.items() if value is not None}


def training_settings(**values: Any) -> TrainingSettings:
    """Check ``values`` as settings; a UserError names the parameter that is wrong or does not exist.

    Examples
    --------
    >>> training_settings(steps=500).steps
    500
    >>> training_settings(steps=0)
    Traceback (most recent call last):
        ...
    longshot.base.errors.UserError: steps is 0, but it must be a whole number of 1 or more.
    """
    return read_parameters(TrainingSettings, values, "train")


CLASS_SETTINGS = ("level", "alpha", "beta", "nearest", "judge", "coarsity", "distance", "reduction")


def choose_episodes(values: Mapping[str, Any]) -> dict[str, Any]:
    """Make objects of samplers that ``values`` name by words, with their settings.

    Examples
    --------
    >>> choose_episodes({"classes": "siblings", "level": 1})
    {'classes': SiblingClasses(level=1)}
    """
    shape, classes = values.get("shape") or "fixed", values.get("classes") or "uniform"
    words = {name: values.get(name) for name in CLASS_SETTINGS}
    if isinstance(shape, str):
        words |= {name: values.get(name) for name in ("way", "shot", "query")}
    check_sampler_settings(words, shape=shape, classes=classes)
    if words["reduction"] is not None and classes == "uniform" and not words["coarsity"]:
        raise UserError(
            "{reduction} goes with {classes:semantic} or {coarsity} only", "leave it out or add that"
        )
    chosen = {name: value for name, value in values.items() if name not in CLASS_SETTINGS}
    if isinstance(shape, str) and shape != "fixed":
        chosen |= {"way": None, "shot": None, "query": None, "shape": make_shape(shape, words)}
    elif shape == "fixed":
        chosen.pop("shape", None)  # that of the algorithm, or way, shot and query
    if isinstance(classes, str) and (classes != "uniform" or words["coarsity"]):
        chosen["classes"] = make_classes(classes, words, allow_repeats=True)
    elif classes == "uniform":
        chosen.pop("classes", None)
    return chosen


def plan_training(
    algorithm: str | Algorithm, values: Mapping[str, Any]
) -> tuple[str | Algorithm, TrainingSettings]:
    """Return algorithm and settings of a training; ``algorithm`` may be a file that ``tune`` wrote.

    Of such a file count the settings that ``values`` leave at their defaults.
    """
    values = choose_episodes(values)
    if not isinstance(algorithm, str) or not is_tuned(algorithm):
        return algorithm, training_settings(**values)
    name, tuned = tuned_training(algorithm)
    fields = TrainingSettings.model_fields
    unknown = [key for key in tuned if key not in fields]
    if unknown:
        hint = nearest_name(unknown[0], fields, "its settings are")
        raise UserError(f"{algorithm} sets '{unknown[0]}', which training does not have; {hint}")
    chosen = {
        key: value for key, value in values.items() if key not in fields or value != fields[key].default
    }
    return name, training_settings(**{**tuned, **chosen})


HOLDOUT = 0.1  # share of the classes kept for validation where a dataset has no split of its own
_VALIDATION_SEED = 1_000_003  # validation classes and tasks are the same for every seed of training


def open_for_training(
    dataset: DatasetLike, splits: str | Path | None, taxonomy: TaxonomyLike | None, classes: Classes | None
) -> Dataset:
    """Open the dataset with the splits and the taxonomy given; ``classes`` decide the classes of episodes."""
    uniform = classes is None or isinstance(classes, UniformClasses)
    if taxonomy is not None and uniform and splits is None:
        raise UserError(
            "{taxonomy} is for episodes and splits whose classes it decides, and these are uniform",
            "leave it out or choose {classes:semantic}, or siblings, bilevel or hierarchical classes",
        )
    return open_with_splits(dataset, splits, taxonomy=taxonomy)


def choose_shape(algorithm: Algorithm, settings: TrainingSettings) -> Shape | None:
    """Choose how many ways, shots and queries an episode has: as asked for, else as the algorithm says."""
    chosen = settings.episode_settings
    first = next(iter(chosen), "shape" if settings.shape else "classes")
    if not algorithm.episodic:
        if chosen or settings.shape or settings.classes:
            raise UserError(f"{algorithm.name} trains on batches, not on episodes", f"leave {{{first}}} out")
        return None
    if settings.shape is not None:
        if chosen:
            raise UserError("The shape of episodes is given already", f"leave {{{first}}} out")
        return settings.shape
    sides = ("way", "shot", "query")
    own = {name: getattr(algorithm, name) for name in sides if getattr(algorithm, name, None) is not None}
    return FixedShape(**{**own, **chosen})


def choose_classes(
    data: Dataset, settings: TrainingSettings, shape: Shape | None, notes: list[str]
) -> tuple[Ints, Ints]:
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
                f"needs {needed}",
                "lower {holdout} or {way}",
            )
        notes.append(f"no validation: {len(train)} classes are too few to hold some out")
        return train, train[:0]
    order = np.random.default_rng(_VALIDATION_SEED).permutation(len(train))
    notes.append(f"{count} of {len(train)} classes are held out for validation")
    return np.sort(train[order[count:]]), np.sort(train[order[:count]])


def make_source(
    algorithm: Algorithm,
    settings: TrainingSettings,
    recipe: TrainingDefaults,
    images: TrainingImages,
    pool: Pool,
    shape: Shape | None,
    augment: Augmentation,
) -> TrainingSource:
    """Make the source of batches of images, or of episodes where there is a shape."""
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
        chosen=_chooser(algorithm, pool, settings.device) if algorithm.refresh else None,
    )


def _chooser(algorithm: Algorithm, pool: Pool, device: str) -> Callable[[Features], Instances]:
    """Make the algorithm's choice of images; other judges' features are computed on first use."""
    judges: list[Judge] = []

    def choose(features: Features) -> Instances:
        if algorithm.judges and not judges:
            rows = rows_of_classes(pool.dataset.offsets, pool.classes)
            judges.extend(embedded_judges(pool.dataset, algorithm.judges, rows, device))
        return algorithm.instances(features, judges)

    return choose


def make_validation(
    data: Dataset,
    held: Ints,
    algorithm: Algorithm,
    shape: Shape | None,
    images: TrainingImages,
    settings: TrainingSettings,
    notes: list[str],
) -> Validation | None:
    """Draw tasks of the held-out classes, no larger than these allow; None where they allow for none of two ways.

    Where the settings say what the tasks are, they are that.
    """
    if len(held) < 2:
        return None
    classes = settings.classes or UniformClasses()
    pool = Pool(data, held)
    own: ValidationTasks | None = settings.validation
    most = _most_ways(pool, classes)
    if own is not None:
        shape, classes = own.shape, own.classes
    elif most < 2:
        notes.append(f"no validation: no task of two ways can be made of the {len(held)} validation classes")
        return None
    elif shape is None or isinstance(shape, FixedShape):
        usual = FixedShape(*algorithm.validation_shape) if algorithm.validation_shape else FixedShape()
        largest = shape or usual
        smallest = int(pool.sizes[held].min())
        shot = min(largest.shot, max(1, smallest - 1))
        fitting = FixedShape(min(largest.way, most), shot, max(1, min(largest.query, smallest - shot)))
        if fitting != largest:
            notes.append(
                f"validation tasks have {fitting.way} ways, {fitting.shot} shots and {fitting.query} queries instead "
                f"of {largest.way}, {largest.shot} and {largest.query}: there are {most} validation classes to a task, "
                f"the smallest with {smallest} images"
            )
        shape = fitting
    elif isinstance(shape, AnyShape | MetaDatasetShape) and most < shape.min_way:
        notes.append(
            f"validation tasks have {most} ways instead of {shape.min_way} or more: there are {most} validation "
            "classes to a task"
        )
        shape = replace(shape, min_way=most)
    pool = check_enough(pool, shape, "validation")
    samplers = (shape, classes, UniformInstances())
    tasks = draw_tasks(pool, settings.validation_tasks, _VALIDATION_SEED, *samplers)
    return Validation(tasks, images, own.method if own else algorithm.method)


def _most_ways(pool: Pool, classes: Classes) -> int:
    """Count the most classes that one task of the pool can have."""
    if not isinstance(classes, SiblingClasses):
        return len(pool.classes)
    try:
        return int(classes.groups(FixedShape(way=2), pool).lengths.max())
    except UserError:
        return 0  # no two siblings


def images_per_step(source: TrainingSource, shape: Shape | None) -> int:
    """Count the images that a step reads, on average where episodes differ."""
    if isinstance(source, EpisodeSource) and shape is not None:
        tasks = source.draw(0) if not source.refresh else None
        if tasks is None:
            return source.total * shape.min_way * shape.min_images
        return round(source.total * (len(tasks.support.values) + len(tasks.query.values)) / len(tasks))
    return source.total
