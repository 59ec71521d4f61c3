"""Networks that a study trains itself: each in a folder named by what decides it, each with an estimate.

`NetworkSettings` is the setting ``networks`` of a study.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import numpy as np
from pydantic import AfterValidator, ConfigDict

from longshot.base import Record, UserError, hash_json
from longshot.studies.engine.comparisons import Text

if TYPE_CHECKING:
    from longshot.data import Dataset
    from longshot.studies.engine.study_folder import StudyFolder
    from longshot.training import TrainingJob


TRAININGS = "trainings"  # where networks lie in a study's folder


def slug(text: str) -> str:
    """Turn text into a file name.

    >>> slug("R = 0.04 maml 5-shot")
    'R-0.04-maml-5-shot'
    """
    return re.sub(r"[^A-Za-z0-9.]+", "-", text).strip("-")


@dataclass(frozen=True, eq=False)
class StudyTraining:
    """A network to train.

    ``identity`` is what another network would differ in: it names the folder. ``limits`` are options that may change
    in one folder, and that are tried again when they do.
    """

    label: str
    data: Dataset
    algorithm: str
    options: Mapping[str, Any]  # keyword arguments of ``train``
    identity: Any
    limits: Mapping[str, Any] = field(default_factory=dict)

    @property
    def folder(self) -> str:
        """Return the name of its folder."""
        return training_folder(self.label, self.identity)

    def run(self, folder: StudyFolder, device: str) -> str:
        """Return the path of the trained network; train it unless it is finished."""
        from longshot.reports import folder_curves
        from longshot.training import train

        path = folder.path / TRAININGS / self.folder

        def work() -> None:
            options = {**self.options, **self.limits, "device": device, "curves": folder_curves}
            train(self.algorithm, self.data, out=path, **options)

        folder.step(f"training {self.label}", self._inputs, [path / "training.json"], work)
        return str(path)

    def job(self, folder: StudyFolder, device: str) -> TrainingJob | None:
        """Return the training as a job for other machines; None where it is several calls of ``train``."""
        from longshot.training import TrainingJob

        if type(self) is not StudyTraining:
            return None
        options = {**self.options, **self.limits, "device": device}
        return TrainingJob(self.algorithm, options, folder.path / TRAININGS / self.folder, self.data)

    @property
    def _inputs(self) -> Any:
        return [self.folder, dict(self.limits)] if self.limits else self.folder

    def record(self, folder: StudyFolder, device: str) -> TrainingRecord:
        """Train, or find trained; then return the outcome."""
        path = Path(self.run(folder, device))
        own = {**self.options, **self.limits}
        outcome = training_outcome(path)
        limit, budget = own.get("minutes"), own.get("steps")
        late = limit is not None and outcome["seconds"] >= 59.9 * limit
        ceiling = late and (budget is None or outcome["steps"] < budget)
        return TrainingRecord(self.label, str(path), budget, limit, ceiling=ceiling, **outcome)

    def finished(self, folder: StudyFolder) -> bool:
        """Tell whether the study's folder has the network, trained to its end."""
        return folder.done(f"training {self.label}", self._inputs)

    def started_from(self, trained: Mapping[str, str]) -> StudyTraining:
        """Replace a start that names another network of the study by that network's path."""
        start = self.options.get("start")
        if start not in trained:
            return self
        path = trained[str(start)]
        return replace(
            self, options={**self.options, "start": path}, identity=[self.identity, Path(path).name]
        )

    @property
    def kind(self) -> str:
        """Hash what decides the cost of a step: trainings of one kind differ in classes, seed and steps."""
        shown = {key: str(value) for key, value in self.options.items() if key not in ("seed", "steps")}
        return hash_json([self.algorithm, shown])

    def cost(self, device: str, **options: Any) -> dict[str, Any]:
        """Measure ``seconds`` and ``bytes`` of the training on a few steps; ``options`` replace its own."""
        from longshot.training import estimate_training, plan_training

        own = {**self.options, **self.limits, **options, "device": device}
        algorithm, settings = plan_training(self.algorithm, own)
        return estimate_training(algorithm, self.data, settings)

    def begun_anew(self, start: StudyTraining) -> StudyTraining:
        """Return the training from where ``start`` began: as much work, and nothing to train before it."""
        names = ("network", "size", "preprocessing", "start")
        brought = {name: start.options[name] for name in names if name in start.options}
        own = {key: value for key, value in self.options.items() if key != "start"}
        return replace(self, options={**brought, **own})


_RATES = (1e-4, 1e-2)  # ends of the grid of learning rates


@dataclass(frozen=True, eq=False)
class TunedTraining(StudyTraining):
    """The best of ``trials`` trainings by accuracy on validation tasks; learning rates of a logarithmic grid.

    Every trial has the whole budget. ``longshot.tune`` runs them, so that a search that was interrupted goes on.
    """

    trials: int = 2

    def run(self, folder: StudyFolder, device: str) -> str:
        """Return the path of the best network; search for it unless the search is finished."""
        from longshot import tune
        from longshot.base import read_tuned
        from longshot.training import Parameter, Space

        path = folder.path / TRAININGS / self.folder
        rates = tuple(float(f"{rate:.3g}") for rate in np.geomspace(*_RATES, self.trials))
        space = Space(
            self.label,
            self.algorithm,
            None,
            {"lr": Parameter("choose", rates)},
            {"optimiser": "adam(lr={lr})"},
        )
        settings = {**self.options, **self.limits}
        seed = settings.pop("seed", 0)

        def work() -> None:
            options: dict[str, Any] = {"settings": settings, "seed": seed, "device": device}
            tune(space, self.data, out=path, trials=self.trials, **options)

        folder.step(f"training {self.label}", self._inputs, [path / "best.yaml"], work)
        best = Path(read_tuned(path / "best.yaml").network or "").name
        return str(path / "networks" / best)

    @property
    def _inputs(self) -> Any:
        return [super()._inputs, self.trials]

    def record(self, folder: StudyFolder, device: str) -> TrainingRecord:
        """Record the best network; the search hit its ceiling where any of its trials did."""
        best = super().record(folder, device)
        outcomes = [training_outcome(path) for path in Path(best.path).parent.iterdir()]
        cut = best.minutes is not None and any(each["steps"] < (best.budget or 0) for each in outcomes)
        return replace(best, label=f"{self.label}, best of {self.trials}", ceiling=cut)

    def cost(self, device: str, **options: Any) -> dict[str, Any]:
        """Measure the cost of all trials."""
        cost = super().cost(device, **options)
        return {**cost, **{name: self.trials * cost[name] for name in ("seconds", "bytes")}}


@dataclass(frozen=True)
class TrainingRecord:
    """What a training came to: steps done of its budget, and whether it ended at its ceiling in time.

    A cell of a comparison whose training hit the ceiling had a smaller budget than its neighbours: mark it, and leave
    it out of slopes.
    """

    label: str
    path: str
    budget: int | None  # steps that were asked for
    minutes: float | None  # the ceiling in time
    steps: int
    best_step: int
    seconds: float
    validation_accuracy: float | None
    ceiling: bool = False
    notes: tuple[str, ...] = ()  # what the training itself had to tell

    @property
    def in_words(self) -> str:
        """Summarise the steps and the time: ``120 of 400 steps in 2 minutes``."""
        budget = "" if self.budget is None else f" of {self.budget:,}"
        return f"{self.steps:,}{budget} steps in {self.seconds / 60:.1f} minutes"


def training_folder(label: str, identity: Any) -> str:
    """Make a readable folder name that no other identity shares."""
    return f"{slug(label)}-{hash_json(identity)[:8]}"


def training_step(label: str, images: int, seconds: float, size: int = 0) -> dict[str, Any]:
    """Describe a training as a step of a study's estimate."""
    step = {"step": f"train {label}", "testbed": "", "method": "", "left": images}
    return {**step, "seconds": seconds, "bytes": size}


def training_outcome(path: Path) -> dict[str, Any]:
    """Return the outcome of a training: steps, the step that was kept, seconds, validation accuracy."""
    from longshot.training import read_trained

    trained = read_trained(path)
    return {
        "steps": trained.steps,
        "best_step": trained.best_step,
        "seconds": round(trained.seconds, 1),
        "validation_accuracy": trained.validation_accuracy,
        "notes": trained.notes,
    }


def _algorithm_call(text: str) -> str:
    from longshot.training import get_algorithm

    return get_algorithm(text).call


class NetworkSettings(Record):
    """A network to train: its algorithm, and any option of ``longshot.train`` beside the study's own settings."""

    model_config = ConfigDict(extra="allow")
    algorithm: Annotated[Text, AfterValidator(_algorithm_call)]

    @property
    def options(self) -> dict[str, Any]:
        """Return the options of ``longshot.train`` that were given."""
        return dict(self.model_extra or {})

    @property
    def start(self) -> str | None:
        """Return the network of the study, or the saved one, that training starts from."""
        return self.options.get("start")


NetworkType = TypeVar("NetworkType", bound=NetworkSettings)


def check_options(networks: Mapping[str, NetworkType], closed: tuple[str, ...] = ()) -> None:
    """Raise UserError for an option that ``longshot.train`` does not have, or that the study sets itself."""
    from longshot.training import TrainingSettings

    closed = (*closed, "seed", "device")  # the study's own
    options = [option for option in TrainingSettings.model_fields if option not in closed]
    for name, network in networks.items():
        unknown = [option for option in network.options if option not in options]
        if unknown:
            names = ", ".join([*type(network).model_fields, *options])
            raise UserError(f"The network '{name}' has no '{unknown[0]}'; it takes {names}.")
