"""Networks of the study of domains: trained leg by leg, judged after each on validation tasks, the best one kept.

``training.loop.train`` validates on tasks of the shape it trains on. The paper trains on 10 shots and validates on 5,
every task inside one domain, each baseline by its own learner; so here a training runs without validation up to the
next multiple of the cadence, is judged, and goes on.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from longshot.core.calls import format_call
from longshot.core.files import hash_json, write_json
from longshot.core.ragged import Ragged
from longshot.studies.cross_domain.plan import METHODS, RANDOM, fitted, solver
from longshot.testbeds.base import Pool, Shape
from longshot.testbeds.classes import draw_within
from longshot.testbeds.shapes import FixedShape
from longshot.testbeds.streams import Streams

if TYPE_CHECKING:
    from longshot.datasets.dataset import Dataset
    from longshot.training.validation import Validation

WEIGHTS, RECORD = "network.safetensors", "validation.json"
_BATCH = {"multiclass": 16, "fomaml": 2, "protonet": 1, "matching": 1}  # images, or episodes, of a step
_VALIDATION_SEED = 1_000_003  # validation tasks are the same for every baseline


@dataclass(frozen=True)
class OneBranch:
    """All classes of a task belong to one branch of the class ids, drawn uniformly: tasks never mix domains."""

    name: ClassVar[str] = "one-branch"

    def groups(self, shape: Shape, pool: Pool) -> Ragged:
        """The pool's classes of each branch that has enough for a task."""
        found: dict[str, list[int]] = {}
        for class_id, number in zip(pool.class_ids, pool.classes.tolist(), strict=True):
            found.setdefault(class_id.split("/", 1)[0], []).append(number)
        return Ragged.from_lists([members for members in found.values() if len(members) >= shape.min_way])

    def draw(self, streams: Streams, shape: Shape, pool: Pool) -> Ragged:
        """Class numbers of each task."""
        groups = self.groups(shape, pool)
        return draw_within(streams, shape, groups, streams.stage("group").below(len(groups)))


@dataclass(frozen=True)
class DomainTraining:
    """One network: ``domain`` is None for the one that the domains of a run share."""

    run: int
    domain: str | None
    algorithm: str

    @property
    def label(self) -> str:
        """A name for people and folders."""
        return f"run {self.run + 1} {self.domain or 'other domains'} {self.algorithm}"

    def amounts(self, settings: Mapping[str, Any]) -> tuple[int, int, int]:
        """Training tasks (or batches), those between validations, and tasks of a validation."""
        prefix = "" if self.domain is None else "within_"
        names = ("train_tasks", "validate_every", "validation_tasks")
        total, every, tasks = (int(settings[f"{prefix}{name}"]) for name in names)
        return total, every, tasks

    def legs(self, settings: Mapping[str, Any]) -> list[int]:
        """Steps of the optimiser after which the network is judged, the last one at the end."""
        total, every, _ = self.amounts(settings)
        at_once = 1 if self.algorithm == "multiclass" else _BATCH[self.algorithm]
        ends = [*range(every, total, every), total]
        return sorted({max(1, -(-end // at_once)) for end in ends})


@dataclass(frozen=True, eq=False)
class Trainer:
    """Trains and judges in a study's folder; a leg that is recorded is not done again."""

    settings: Mapping[str, Any]
    folder: Path
    device: str

    def place(self, one: DomainTraining, data: Dataset, seed: int) -> Path:
        """The folder of a training; other classes, amounts or networks have another."""
        facts = [
            data.fingerprint,
            {part: list(members) for part, members in data.splits.items()},
            [one.algorithm, self.call(one, data), seed],
            {key: self.settings[key] for key in ("network", "backbone", "size", "learner_steps")},
            one.amounts(self.settings),
        ]
        name = re.sub(r"[^A-Za-z0-9.]+", "-", one.label).strip("-")
        return self.folder / "trainings" / f"{name}-{hash_json(facts)[:8]}"

    def finished(self, one: DomainTraining, place: Path) -> bool:
        """Whether every leg is recorded and the network is there."""
        return (place / "network" / WEIGHTS).is_file() and len(_recorded(place)) == len(
            one.legs(self.settings)
        )

    def train(self, one: DomainTraining, data: Dataset, seed: int) -> tuple[Path, str]:
        """The folder of the network that did best on validation tasks, and whether it was "kept" or "written".

        ``data`` has the splits to use.
        """
        from longshot.features.networks import load_network
        from longshot.networks import checkpoint
        from longshot.reports.learning_curves import folder_curves
        from longshot.training.folders import read_facts
        from longshot.training.loop import train

        place = self.place(one, data, seed)
        if self.finished(one, place):
            return place / "network", "kept"
        done = _recorded(place) if (place / "network" / WEIGHTS).is_file() else []
        facts = read_facts(place / "training")
        if facts is not None and facts["step"] > one.legs(self.settings)[len(done)]:
            shutil.rmtree(
                place / "training"
            )  # it went through legs that are not on record any more: from the start
            done = []
        judge: Validation | None = None
        for steps in one.legs(self.settings)[len(done) :]:
            train(
                self.call(one, data),
                data,
                out=place / "training",
                curves=folder_curves,
                seed=seed,
                **self.amounts(one) | {"steps": steps},
            )
            network, story = load_network(place / "training")
            judge = judge or self._judge(one, data, story["preprocessing"])
            found = judge.run(network.to(judge.images.device))
            judged = {"step": steps, "accuracy": found.mean, "low": found.low, "high": found.high}
            if all(found.mean > earlier["accuracy"] for earlier in done):
                told = {"accuracy": found.mean, "interval": [found.low, found.high], "step": steps}
                checkpoint.save(place / "network", network.cpu(), {**story, "validation": told})
            # After the network: a kill in between judges this leg again, with the same outcome.
            done.append(judged)
            write_json(place / RECORD, done)
        return place / "network", "written"

    def amounts(self, one: DomainTraining) -> dict[str, Any]:
        """What ``longshot train`` is told beside data and seed; steps are those of the whole training."""
        weights = (
            {"network": self.settings["network"]}
            if self.settings["backbone"] == RANDOM
            else {"start": self.settings["backbone"]}
        )
        episodes = {} if one.algorithm == "multiclass" else {"classes": OneBranch()}
        return {
            **weights,
            **episodes,
            "split": "train",
            "holdout": 0.0,
            "size": self.settings["size"],
            "batch": _BATCH[one.algorithm],
            "steps": one.legs(self.settings)[-1],
            "device": self.device,
        }

    def seconds(self, one: DomainTraining, data: Dataset) -> float:
        """What the steps of a training would take, from a few on black pictures."""
        from longshot.training.cost import estimate
        from longshot.training.settings import training_settings

        return float(estimate(self.call(one, data), data, training_settings(**self.amounts(one)))["seconds"])

    def call(self, one: DomainTraining, data: Dataset) -> str:
        """The algorithm with its episodes, as ``longshot train`` takes it."""
        if one.algorithm == "multiclass":
            return one.algorithm
        shape = self._shape(data, "train", self.settings["train_shot"])
        return format_call(one.algorithm, {"way": shape.way, "shot": shape.shot, "query": shape.query})

    def _shape(self, data: Dataset, part: str, shot: int) -> FixedShape:
        """Episodes that every domain among the part's classes can give."""
        members = data.split_classes(part)
        counted: dict[str, int] = {}
        for number in members.tolist():
            branch = data.class_ids[number].split("/", 1)[0]
            counted[branch] = counted.get(branch, 0) + 1
        smallest = int(data.sizes[members].min())
        return fitted(self.settings["way"], shot, self.settings["query"], min(counted.values()), smallest)

    def _judge(self, one: DomainTraining, data: Dataset, preprocessing: str) -> Validation:
        """Validation tasks of the validation classes, each inside one domain, solved as the test tasks will be."""
        from longshot.core.devices import pick_device
        from longshot.core.preprocess import parse
        from longshot.features.pixels_cache import pixels
        from longshot.testbeds.instances import UniformInstances
        from longshot.training.episodes import draw_tasks
        from longshot.training.images import TrainingImages
        from longshot.training.validation import Validation

        transform = parse(preprocessing)
        tasks = draw_tasks(
            Pool(data, data.split_classes("validation")),
            one.amounts(self.settings)[2],
            _VALIDATION_SEED,
            shape=self._shape(data, "validation", self.settings["shot"]),
            classes=OneBranch(),
            instances=UniformInstances(),
        )
        method = next(name for name, (algorithm, _) in METHODS.items() if algorithm == one.algorithm)
        images = TrainingImages(pixels(data, transform), transform, pick_device(self.device))
        return Validation(tasks, images, solver(self.settings, method))


def random_network(settings: Mapping[str, Any], path: Path) -> Path:
    """A network that was not trained, for the baseline that begins anew on every task; only its architecture counts."""
    from longshot.features.networks import open_network
    from longshot.networks import checkpoint

    side = settings["size"]
    call = settings["network"] if settings["backbone"] == RANDOM else settings["backbone"]
    network = open_network(call, size=(side, side), seed=settings["seed"])
    text = f"decode|resize({side})|central_crop({side})|normalize(imagenet)"
    return checkpoint.save(path, network, {"preprocessing": text})


def seconds_of(network: Path) -> float:
    """How long the training behind a kept network took, without validations."""
    from longshot.training.folders import read_trained

    return read_trained(network.parent / "training").seconds


def kept(network: Path) -> dict[str, Any]:
    """The validation that chose the network: step, accuracy, low, high."""
    listed = _recorded(network.parent)
    return listed[int(np.argmax([one["accuracy"] for one in listed]))]


def _recorded(place: Path) -> list[dict[str, Any]]:
    """The validations of a training so far."""
    if not (place / RECORD).is_file():
        return []
    found: list[dict[str, Any]] = json.loads((place / RECORD).read_text(encoding="utf-8"))
    return found
