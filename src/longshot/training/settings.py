"""What a user may choose of a training, declared once: types, bounds and defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, PlainValidator

from longshot.base import Record, UserError, is_tuned, nearest, read_parameters, tuned_training
from longshot.tasks import Classes, Shape, check_sampler_settings, make_classes, make_shape
from longshot.training.base import Algorithm

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
    devices: Count = 1
    allow_download: bool = False

    @property
    def episode_settings(self) -> dict[str, int]:
        """Those of way, shot and query that are given."""
        named = {"way": self.way, "shot": self.shot, "query": self.query}
        return {name: value for name, value in named.items() if value is not None}


def training_settings(**values: Any) -> TrainingSettings:
    """``values`` as checked settings; a UserError names the parameter that is wrong or does not exist.

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


CLASS_SETTINGS = ("level", "alpha", "beta", "coarsity", "distance", "reduction")


def choose_episodes(values: Mapping[str, Any]) -> dict[str, Any]:
    """``values`` with samplers that are named by words, and their settings, made into objects.

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


def planned(
    algorithm: str | Algorithm, values: Mapping[str, Any]
) -> tuple[str | Algorithm, TrainingSettings]:
    """Algorithm and settings of a training; ``algorithm`` may be a file that ``tune`` wrote.

    Of such a file count the settings that ``values`` leave at their defaults.
    """
    values = choose_episodes(values)
    if not isinstance(algorithm, str) or not is_tuned(algorithm):
        return algorithm, training_settings(**values)
    name, tuned = tuned_training(algorithm)
    fields = TrainingSettings.model_fields
    unknown = [key for key in tuned if key not in fields]
    if unknown:
        hint = nearest(unknown[0], fields, "its settings are")
        raise UserError(f"{algorithm} sets '{unknown[0]}', which training does not have; {hint}")
    chosen = {
        key: value for key, value in values.items() if key not in fields or value != fields[key].default
    }
    return name, training_settings(**{**tuned, **chosen})
