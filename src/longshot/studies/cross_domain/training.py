"""Networks of the study of domains: the two starts, and what is trained from them with equal budgets."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from longshot.base import Ragged, UserError, format_call
from longshot.studies.cross_domain.cells import BASELINES, network_name, start_name
from longshot.studies.cross_domain.plan import DomainData, Repetition, fitted
from longshot.studies.cross_domain.settings import PRETRAINED, RANDOM, CrossDomainSettings
from longshot.studies.engine.training import TRAININGS, StudyTraining, TrainingRecord
from longshot.tasks import FixedShape, Pool, Shape, Streams, draw_within

if TYPE_CHECKING:
    from longshot.data import Dataset
    from longshot.models import Network
    from longshot.studies.engine.folder import StudyFolder

_PRETRAINING_BATCH = 64


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


@dataclass(frozen=True, eq=False)
class StartWeights(StudyTraining):
    """A network that is not trained here: random weights, or the pre-trained ones that were given.

    Those must have the ``architecture`` of the random ones.
    """

    architecture: str = ""

    def run(self, folder: StudyFolder, device: str) -> str:
        """Save the network as the trainings of the study find it; one that is there is not touched."""
        from longshot.models import WEIGHTS_FILE, save_checkpoint

        path = folder.path / TRAININGS / self.folder
        side = self.options["size"]
        text = f"decode|resize({side})|central_crop({side})|normalize(imagenet)"

        def work() -> None:
            save_checkpoint(path, self._network(), {"preprocessing": text})

        folder.step(f"training {self.label}", self.folder, [path / WEIGHTS_FILE], work)
        return str(path)

    def _network(self) -> Network:
        side, call = self.options["size"], self.architecture
        if "start" not in self.options:
            return random_network(self.options["network"], side, self.options["seed"])
        weights = open_weights(self.options["start"], side)
        shapes = [
            sorted(tuple(parameter.shape) for parameter in network.parameters())
            for network in (weights, random_network(call, side, 0))
        ]
        if shapes[0] != shapes[1]:
            raise UserError(
                f"The pre-trained weights '{self.options['start']}' are those of another architecture than "
                f"'{call}', so starts would differ in more than their weights",
                "give {network} and {pretrained} of one architecture; both may be the same name",
            )
        return weights

    def record(self, folder: StudyFolder, device: str) -> TrainingRecord:
        """No step, no time."""
        return TrainingRecord(self.label, self.run(folder, device), 0, None, 0, 0, 0.0, None)

    def cost(self, device: str, **options: Any) -> dict[str, Any]:
        """Nothing."""
        return {"seconds": 0.0, "bytes": 0, "steps": 0}


def random_network(call: str, side: int, seed: int) -> Network:
    """The architecture with random weights, whatever weights it comes with."""
    from longshot.models import is_own_network, restart_layers

    network = open_weights(call, side, seed)
    if not is_own_network(call):
        restart_layers(network, torch.Generator().manual_seed(seed))
    return network


def open_weights(call: str, side: int, seed: int = 0) -> Network:
    """A network by name for pictures of so many pixels."""
    from longshot.models import open_network

    return open_network(call, size=(side, side), seed=seed)


def all_trainings(settings: CrossDomainSettings, data: DomainData) -> dict[str, StudyTraining]:
    """Every network by name, those that others start from first."""
    networks = _starts(settings, data)
    for run in data.runs:
        shared = run.split.apply(data.dataset)
        for start in settings.starts:
            for method in settings.methods:
                if BASELINES[method].algorithm is None:
                    continue
                for domain in run.test:
                    name = network_name(run, domain.name, start, method)
                    networks[name] = _training(settings, run, name, domain.data, start, method)
                name = network_name(run, None, start, method)
                networks[name] = _training(settings, run, name, shared, start, method)
    return networks


def _starts(settings: CrossDomainSettings, data: DomainData) -> dict[str, StudyTraining]:
    networks: dict[str, StudyTraining] = {}
    common = {"network": settings.network, "size": settings.size}
    for run in data.runs if RANDOM in settings.starts else ():
        name, options = start_name(run, RANDOM), {**common, "seed": run.seed}
        networks[name] = StartWeights(name, data.dataset, "none", options, options)
    if PRETRAINED not in settings.starts:
        return networks
    name = start_name(data.runs[0], PRETRAINED)
    if settings.pretrained:
        options = {"start": settings.pretrained, "size": settings.size}
        identity: Any = [options, settings.network]
        networks[name] = StartWeights(
            name, data.dataset, "none", options, identity, architecture=settings.network
        )
        return networks
    steps = {"steps": settings.pretrain_steps, "batch": _PRETRAINING_BATCH, "seed": settings.seed}
    options = {**common, **steps, "split": "train", "holdout": 0.0}
    identity = [data.dataset.fingerprint, list(data.reserved), options]
    networks[name] = StudyTraining(name, data.pretraining, "multiclass", options, identity)
    return networks


def _training(
    settings: CrossDomainSettings, run: Repetition, name: str, data: Dataset, start: str, method: str
) -> StudyTraining:
    """A baseline's network on the train classes of ``data``, judged on its validation classes."""
    from longshot.training import ValidationTasks

    recipe = BASELINES[method]
    assert recipe.algorithm is not None
    call, episodes = recipe.algorithm, {}
    if recipe.episodic:
        shape = _shape(settings, data, "train", settings.train_shot)
        call = format_call(call, {"way": shape.way, "shot": shape.shot, "query": shape.query})
        episodes = {"classes": OneBranch()}
    judged = _shape(settings, data, "validation", settings.shot)
    solver = recipe.call(settings, start)
    options: dict[str, Any] = {
        "start": start_name(run, start),
        **episodes,
        "split": "train",
        "size": settings.size,
        "batch": recipe.batch,
        "steps": recipe.steps(settings.train_tasks),
        "validate_every": recipe.steps(settings.validate_every),
        "validation_tasks": settings.validation_tasks,
        "validation": ValidationTasks(judged, OneBranch(), solver),
        "seed": run.seed,
    }
    plain = {key: value for key, value in options.items() if key not in ("classes", "validation", "start")}
    members = {part: list(names) for part, names in data.splits.items()}
    identity = [data.fingerprint, members, call, plain, [judged.way, judged.shot, judged.query, solver]]
    limits = {} if settings.minutes is None else {"minutes": settings.minutes}
    return StudyTraining(name, data, call, options, identity, limits)


def _shape(settings: CrossDomainSettings, data: Dataset, part: str, shot: int) -> FixedShape:
    """Episodes that every domain among the part's classes can give."""
    members = data.split_classes(part)
    counts = Counter(data.class_ids[number].split("/", 1)[0] for number in members.tolist())
    smallest = int(data.sizes[members].min())
    return fitted(settings.way, shot, settings.query, min(counts.values()), smallest)
