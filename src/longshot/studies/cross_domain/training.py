"""Networks of the study of domains: trained leg by leg, judged after each on validation tasks, the best one kept.

``training.loop.train`` validates on tasks of the shape it trains on. The paper trains on 10 shots and validates on 5,
every task inside one domain, each baseline by its own learner; so here a training runs without validation up to the
next multiple of the cadence, is judged, and goes on.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from longshot.core.calls import format_call
from longshot.core.devices import pick_device
from longshot.core.files import write_json
from longshot.core.preprocess import parse
from longshot.core.ragged import Ragged
from longshot.studies.cross_domain.plan import METHODS, RANDOM, fitted, solver
from longshot.studies.cross_domain.settings import CrossDomainSettings
from longshot.studies.engine.training import TRAININGS, StudyTraining, training_outcome
from longshot.testbeds.base import Pool, Shape
from longshot.testbeds.classes import draw_within
from longshot.testbeds.instances import UniformInstances
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
        branches: dict[str, list[int]] = {}
        for class_id, number in zip(pool.class_ids, pool.classes.tolist(), strict=True):
            branches.setdefault(class_id.split("/", 1)[0], []).append(number)
        return Ragged.from_lists([members for members in branches.values() if len(members) >= shape.min_way])

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

    def amounts(self, settings: CrossDomainSettings) -> tuple[int, int, int]:
        """Training tasks (or batches), those between validations, and tasks of a validation."""
        if self.domain is None:
            return settings.train_tasks, settings.validate_every, settings.validation_tasks
        every, tasks = settings.within_validate_every, settings.within_validation_tasks
        return settings.within_train_tasks, every, tasks

    def legs(self, settings: CrossDomainSettings) -> list[int]:
        """Steps of the optimiser after which the network is judged, the last one at the end."""
        total, every, _ = self.amounts(settings)
        at_once = 1 if self.algorithm == "multiclass" else _BATCH[self.algorithm]
        ends = [*range(every, total, every), total]
        return sorted({max(1, -(-end // at_once)) for end in ends})


@dataclass(frozen=True, eq=False)
class DomainTrainer:
    """Trains and judges in a study's folder; a leg that is recorded is not done again."""

    settings: CrossDomainSettings
    folder: Path
    device: str

    def training(self, network: DomainTraining, data: Dataset, seed: int) -> StudyTraining:
        """The training to its end; other classes, amounts or networks have another folder."""
        settings = self.settings
        call = self._call(network, data)
        weights = (
            {"network": settings.network} if settings.backbone == RANDOM else {"start": settings.backbone}
        )
        episodes = {} if network.algorithm == "multiclass" else {"classes": OneBranch()}
        options = {
            **weights,
            **episodes,
            "split": "train",
            "holdout": 0.0,
            "size": settings.size,
            "batch": _BATCH[network.algorithm],
            "steps": network.legs(settings)[-1],
        }
        identity = [
            data.fingerprint,
            {part: list(members) for part, members in data.splits.items()},
            [network.algorithm, call, seed],
            {key: getattr(settings, key) for key in ("network", "backbone", "size", "learner_steps")},
            network.amounts(settings),
        ]
        return StudyTraining(network.label, data, call, options, identity)

    def path(self, network: DomainTraining, data: Dataset, seed: int) -> Path:
        """The folder of a training: its legs in ``training``, the best network in ``network``."""
        return self.folder / TRAININGS / self.training(network, data, seed).folder

    def finished(self, network: DomainTraining, path: Path) -> bool:
        """Whether every leg is recorded and the network is there."""
        saved = (path / "network" / WEIGHTS).is_file()
        return saved and len(_validations(path)) == len(network.legs(self.settings))

    def train(self, network: DomainTraining, data: Dataset, seed: int) -> tuple[Path, str]:
        """The folder of the network that did best on validation tasks, and whether it was "kept" or "written".

        ``data`` has the splits to use.
        """
        from longshot.features.networks import load_network
        from longshot.networks import checkpoint
        from longshot.reports.learning_curves import folder_curves
        from longshot.training.folders import read_facts
        from longshot.training.loop import train

        path, legs = self.path(network, data, seed), network.legs(self.settings)
        if self.finished(network, path):
            return path / "network", "kept"
        done = _validations(path) if (path / "network" / WEIGHTS).is_file() else []
        facts = read_facts(path / "training")
        if facts is not None and facts["step"] > legs[len(done)]:
            # It went through legs that are not on record any more: from the start.
            shutil.rmtree(path / "training")
            done = []
        training = self.training(network, data, seed)
        judge: Validation | None = None
        for steps in legs[len(done) :]:
            options = {**training.options, "steps": steps, "seed": seed, "device": self.device}
            train(training.algorithm, data, out=path / "training", curves=folder_curves, **options)
            trained, story = load_network(path / "training")
            judge = judge or self._judge(network, data, story["preprocessing"])
            accuracy = judge.run(trained.to(judge.images.device))
            ends = {"low": accuracy.low, "high": accuracy.high}
            if all(accuracy.mean > earlier["accuracy"] for earlier in done):
                interval = [accuracy.low, accuracy.high]
                validation = {"accuracy": accuracy.mean, "interval": interval, "step": steps}
                checkpoint.save(path / "network", trained.cpu(), {**story, "validation": validation})
            # After the network: a kill in between judges this leg again, with the same outcome.
            done.append({"step": steps, "accuracy": accuracy.mean, **ends})
            write_json(path / RECORD, done)
        return path / "network", "written"

    def _call(self, network: DomainTraining, data: Dataset) -> str:
        """The algorithm with its episodes, as ``longshot.train`` takes it."""
        if network.algorithm == "multiclass":
            return network.algorithm
        shape = self._shape(data, "train", self.settings.train_shot)
        return format_call(network.algorithm, {"way": shape.way, "shot": shape.shot, "query": shape.query})

    def _shape(self, data: Dataset, part: str, shot: int) -> FixedShape:
        """Episodes that every domain among the part's classes can give."""
        members = data.split_classes(part)
        counts = Counter(data.class_ids[number].split("/", 1)[0] for number in members.tolist())
        smallest = int(data.sizes[members].min())
        return fitted(self.settings.way, shot, self.settings.query, min(counts.values()), smallest)

    def _judge(self, network: DomainTraining, data: Dataset, preprocessing: str) -> Validation:
        """Validation tasks of the validation classes, each inside one domain, solved as the test tasks will be."""
        from longshot.features.pixels_cache import pixels
        from longshot.training.episodes import draw_tasks
        from longshot.training.images import TrainingImages
        from longshot.training.validation import Validation

        transform = parse(preprocessing)
        tasks = draw_tasks(
            Pool(data, data.split_classes("validation")),
            network.amounts(self.settings)[2],
            _VALIDATION_SEED,
            shape=self._shape(data, "validation", self.settings.shot),
            classes=OneBranch(),
            instances=UniformInstances(),
        )
        method = next(name for name, (algorithm, _) in METHODS.items() if algorithm == network.algorithm)
        images = TrainingImages(pixels(data, transform), transform, pick_device(self.device))
        return Validation(tasks, images, solver(self.settings, method))


def random_network(settings: CrossDomainSettings, path: Path) -> Path:
    """A network that was not trained, for the baseline that begins anew on every task; only its architecture counts."""
    from longshot.features.networks import open_network
    from longshot.networks import checkpoint

    side = settings.size
    call = settings.network if settings.backbone == RANDOM else settings.backbone
    network = open_network(call, size=(side, side), seed=settings.seed)
    text = f"decode|resize({side})|central_crop({side})|normalize(imagenet)"
    return checkpoint.save(path, network, {"preprocessing": text})


def seconds_of(network: Path) -> float:
    """How long the training behind a kept network took, without validations."""
    return float(training_outcome(network.parent / "training")["seconds"])


def best_validation(network: Path) -> dict[str, Any]:
    """The validation that chose the network: step, accuracy, low, high."""
    return max(_validations(network.parent), key=lambda validation: validation["accuracy"])


def _validations(path: Path) -> list[dict[str, Any]]:
    """The validations of a training so far."""
    if not (path / RECORD).is_file():
        return []
    validations: list[dict[str, Any]] = json.loads((path / RECORD).read_text(encoding="utf-8"))
    return validations
