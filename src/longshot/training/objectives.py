"""What a trial of a search is worth: a method's accuracy on testbeds, or a trained network's on validation tasks."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from longshot.core.errors import UserError
from longshot.core.files import hash_json
from longshot.core.tuned import Tuned
from longshot.datasets.dataset import Dataset
from longshot.testbeds.testbed import Testbed
from longshot.training.elsewhere import TrainingJob, train_elsewhere
from longshot.training.settings import training_settings
from longshot.training.spaces import Trial

if TYPE_CHECKING:
    from longshot.evaluation.results import Results
    from longshot.features.backbones.base import Backbone, Precomputed

TestbedLike = Testbed | str | Path


class TrialObjective(ABC):
    """What a trial is worth: mean accuracy over validation tasks."""

    @property
    @abstractmethod
    def identity(self) -> dict[str, Any]:
        """What decides the values: another identity is another search."""

    @abstractmethod
    def value(self, trial: Trial, folder: Path) -> float:
        """The accuracy; UserError where the trial fails."""

    def values(self, trials: Sequence[Trial], folder: Path) -> list[float | UserError]:
        """The accuracies of trials that do not depend on each other; the error of those that fail."""
        outcomes: list[float | UserError] = []
        for trial in trials:
            try:
                outcomes.append(self.value(trial, folder))
            except UserError as error:
                outcomes.append(error)
        return outcomes

    def best(self, trial: Trial, folder: Path) -> Tuned:
        """The trial for people and commands to use."""
        return Tuned(method=trial.method)


@dataclass(frozen=True)
class Evaluating(TrialObjective):
    """A method on testbeds of validation tasks, through a fixed backbone."""

    testbeds: Sequence[TestbedLike]
    backbone: str | Backbone | Precomputed
    datasets: Mapping[str, Any] = field(default_factory=dict)
    device: str = "auto"
    seed: int = 0

    @property
    def identity(self) -> dict[str, Any]:
        """Contents of the testbeds, backbone and seed."""
        opened = [each if isinstance(each, Testbed) else Testbed.load(each) for each in self.testbeds]
        hashes = [testbed.content_hash for testbed in opened]
        name = self.backbone if isinstance(self.backbone, str) else self.backbone.name
        return {"testbeds": hashes, "backbone": name, "seed": self.seed}

    def values(self, trials: Sequence[Trial], folder: Path) -> list[float | UserError]:
        """All methods in one evaluation, whose units spread over the cluster; one by one where one of them fails."""
        from longshot.methods.registry import get_method

        if len(trials) > 1:
            with contextlib.suppress(UserError):
                self._evaluate([get_method(trial.method or "") for trial in trials], folder)
        return super().values(trials, folder)  # rows that are there are only read

    def _evaluate(self, methods: Sequence[Any], folder: Path) -> Results:
        from longshot.evaluation.runner import evaluate

        return evaluate(
            self.testbeds,
            backbones=self.backbone,
            methods=list(methods),
            out=folder / "run",
            datasets=self.datasets,
            device=self.device,
            seed=self.seed,
        )

    def value(self, trial: Trial, folder: Path) -> float:
        """Mean over all tasks of all testbeds; rows of methods that were run before are not computed again."""
        from longshot.methods.registry import get_method

        assert trial.method is not None
        method = get_method(trial.method)
        results = self._evaluate([method], folder)
        records = [record for record in results.summary() if record["method"] == method.call]
        tasks = sum(record["tasks"] for record in records)
        return float(sum(record["accuracy"] * record["tasks"] for record in records) / tasks)


@dataclass(frozen=True)
class TrainingTrial(TrialObjective):
    """An algorithm's network on tasks of the dataset's validation classes, by its method or the space's."""

    dataset: Dataset | str | Path
    settings: Mapping[str, Any]  # fields of TrainingSettings, the same for all trials
    curves: Callable[[Path], object] | None = None  # see ``train``

    @property
    def identity(self) -> dict[str, Any]:
        """Dataset and the settings that all trials share."""
        return {
            "dataset": self.dataset.fingerprint if isinstance(self.dataset, Dataset) else str(self.dataset),
            "settings": {key: str(value) for key, value in sorted(self.settings.items())},
        }

    def values(self, trials: Sequence[Trial], folder: Path) -> list[float | UserError]:
        """Trainings side by side on a cluster, their networks brought back; then what each is worth."""
        jobs = []
        for trial in trials:
            assert trial.algorithm is not None
            options = {**self.settings, **trial.train}
            jobs.append(TrainingJob(trial.algorithm, options, self._network_folder(trial, folder)))
        errors = train_elsewhere(jobs, self.dataset, self.curves)
        outcomes = super().values(
            [t for t, error in zip(trials, errors, strict=True) if error is None], folder
        )
        trained = iter(outcomes)
        return [next(trained) if error is None else error for error in errors]

    def value(self, trial: Trial, folder: Path) -> float:
        """Accuracy on the validation tasks of the best network of the training."""
        from longshot.features.networks import load_network
        from longshot.training.loop import train
        from longshot.training.setup import prepare

        assert trial.algorithm is not None
        settings = {**self.settings, **trial.train}
        out = self._network_folder(trial, folder)
        trained = train(trial.algorithm, self.dataset, out=out, curves=self.curves, **settings)
        if trained.validation_accuracy is None:
            raise UserError(
                f"A search needs validation tasks, and there are none: {'; '.join(trained.notes)}. Use a dataset with "
                f"validation classes, or add holdout=0.1 to {{settings}}."
            )
        if trial.method is None:
            return trained.validation_accuracy
        job = prepare(trial.algorithm, self.dataset, training_settings(**settings))
        assert job.validation is not None
        network, _ = load_network(trained.path)
        return replace(job.validation, method=trial.method).run(network.to(job.device)).mean

    def best(self, trial: Trial, folder: Path) -> Tuned:
        """The training with all its settings, and the network that came out of it."""
        from longshot.training.registry import get_algorithm

        assert trial.algorithm is not None
        algorithm = get_algorithm(trial.algorithm)
        return Tuned(
            method=trial.method or algorithm.method,
            algorithm=algorithm.call,
            train={**self.settings, **trial.train},
            network=str(self._network_folder(trial, folder)),
        )

    def _network_folder(self, trial: Trial, folder: Path) -> Path:
        return folder / "networks" / hash_json([trial.algorithm, dict(trial.train)])[:12]
