"""Search for settings on validation tasks: Optuna proposes, Longshot trains or evaluates, the best goes to a file.

The folder of a search:

    tune.json        what is searched, on what: another search is refused
    study.journal    Optuna's own record of all trials; ``optuna.load_study`` opens it
    trials.json      every trial with its parameters, calls, accuracy and time
    best.yaml        the best calls and settings, for ``longshot train`` and ``longshot evaluate``
    run/             results of evaluated methods, one row per task: ``longshot report`` reads it
    networks/…       trained networks; trials that differ only in how tasks are solved share one
"""

from __future__ import annotations

import json
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from longshot.core.errors import UserError
from longshot.core.files import explain_disk_errors, hash_json, write_json
from longshot.core.progress import progress
from longshot.core.tuned import Tuned, write_tuned
from longshot.training.spaces import Parameter, Space, Trial

if TYPE_CHECKING:
    from optuna import Study
    from optuna.distributions import BaseDistribution
    from optuna.samplers import BaseSampler

SAMPLERS = ("tpe", "random")
TRIALS = 20
_PATIENCE = 3  # failures in a row, with nothing found yet, that stop a search


class TrialObjective(ABC):
    """What a trial is worth: mean accuracy over validation tasks."""

    steps: int | None = None  # length of a training, where the trials train

    @property
    @abstractmethod
    def identity(self) -> dict[str, Any]:
        """What decides the values: another identity is another search."""

    @abstractmethod
    def value(self, trial: Trial, folder: Path) -> float:
        """The accuracy; UserError where the trial fails."""

    def best(self, trial: Trial, folder: Path) -> Tuned:
        """The trial for people and commands to use."""
        return Tuned(method=trial.method)


@dataclass(frozen=True)
class Evaluating(TrialObjective):
    """A method on testbeds of validation tasks, through a fixed backbone."""

    testbeds: Sequence[str | Path]
    backbone: str
    datasets: Mapping[str, Any] = field(default_factory=dict)
    device: str = "auto"
    seed: int = 0

    @property
    def identity(self) -> dict[str, Any]:
        """Contents of the testbeds, backbone and seed."""
        from longshot.testbeds.testbed import Testbed

        hashes = [Testbed.load(path).content_hash for path in self.testbeds]
        return {"testbeds": hashes, "backbone": self.backbone, "seed": self.seed}

    def value(self, trial: Trial, folder: Path) -> float:
        """Mean over all tasks of all testbeds; rows of methods that were run before are not computed again."""
        from longshot.evaluation.runner import evaluate
        from longshot.methods.registry import get_method

        assert trial.method is not None
        method = get_method(trial.method)
        results = evaluate(
            self.testbeds,
            backbones=self.backbone,
            methods=[method],
            out=folder / "run",
            datasets=self.datasets,
            device=self.device,
            seed=self.seed,
        )
        records = [record for record in results.summary() if record["method"] == method.call]
        tasks = sum(record["tasks"] for record in records)
        return float(sum(record["accuracy"] * record["tasks"] for record in records) / tasks)


@dataclass(frozen=True)
class TrainingTrial(TrialObjective):
    """An algorithm's network on tasks of the dataset's validation classes, by its method or the space's."""

    dataset: str
    settings: Mapping[str, Any]  # fields of training's Settings, the same for all trials

    @property
    def steps(self) -> int | None:  # type: ignore[override]
        """As set for all trials."""
        steps: int | None = self.settings.get("steps")
        return steps

    @property
    def identity(self) -> dict[str, Any]:
        """Dataset and the settings that all trials share."""
        return {
            "dataset": self.dataset,
            "settings": {key: str(value) for key, value in sorted(self.settings.items())},
        }

    def value(self, trial: Trial, folder: Path) -> float:
        """Accuracy on the validation tasks of the best network of the training."""
        from longshot.features.networks import load_network
        from longshot.training.data import Settings
        from longshot.training.loop import train
        from longshot.training.setup import prepare

        assert trial.algorithm is not None
        settings = {**self.settings, **trial.train}
        done = train(self.dataset, trial.algorithm, out=self._place(trial, folder), **settings)
        if done.validation_accuracy is None:
            raise UserError(
                f"A search needs validation tasks, and there are none: {'; '.join(done.notes)}. Use a dataset with "
                f"validation classes, or --set holdout=0.1."
            )
        if trial.method is None:
            return done.validation_accuracy
        job = prepare(self.dataset, trial.algorithm, Settings(**settings))
        assert job.validation is not None
        network, _ = load_network(done.path)
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
            network=str(self._place(trial, folder)),
        )

    def _place(self, trial: Trial, folder: Path) -> Path:
        return folder / "networks" / hash_json([trial.algorithm, dict(trial.train)])[:12]


def tune(
    space: Space,
    objective: TrialObjective,
    out: str | Path,
    *,
    trials: int | None = None,
    minutes: float | None = None,
    sampler: str = "tpe",
    seed: int = 0,
) -> Tuned:
    """Search ``space`` until there are ``trials`` in all or ``minutes`` have passed; the best is in ``best.yaml``.

    The same call goes on after an interruption: the trial that was cut off is proposed again, since what is proposed
    depends on the seed and on the finished trials alone. Where the space has no more points than ``trials``, each is
    tried once. ``sampler``: 'tpe' learns from earlier trials, 'random' does not.
    """
    optuna = _optuna()
    if sampler not in SAMPLERS:
        raise UserError(f"There is no sampler '{sampler}'; choose {' or '.join(SAMPLERS)}.")
    folder = Path(out)
    wanted = trials if trials is not None else (10**9 if minutes is not None else TRIALS)
    identity = {"space": space.as_dict(), "sampler": sampler, "seed": seed, **objective.identity}
    with explain_disk_errors(folder):
        _claim(folder, identity)
    study = _study(optuna, folder)
    points = space.points(wanted)
    total = wanted if points is None else len(points)
    until = math.inf if minutes is None else time.monotonic() + 60 * minutes
    with progress("tune", None if wanted == 10**9 and points is None else total, "trials") as bar:
        done = _finished(study)
        bar.skip(len(done))
        while len(done) < total and time.monotonic() < until:
            _one(optuna, study, space, objective, folder, _proposed(points, done), sampler, seed + len(done))
            done = _finished(study)
            _write(study, space, objective, folder)
            bar.advance(1, _note(done))
    if not any(one.value is not None for one in done):
        reason = (
            f"the last one failed: {done[-1].user_attrs['failed']}" if done else "there was no time for one."
        )
        raise UserError(f"No trial of the search in {folder} has succeeded; {reason}")
    return _write(study, space, objective, folder)


def _optuna() -> Any:
    try:
        import optuna
    except ImportError as error:
        raise UserError(
            "Searching needs the package optuna, which is not installed: pip install 'longshot[tune]'."
        ) from error
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


def _claim(folder: Path, identity: dict[str, Any]) -> None:
    place = folder / "tune.json"
    if place.is_file():
        try:
            found = json.loads(place.read_text(encoding="utf-8"))
        except ValueError:
            raise UserError(f"{place} is damaged; choose another folder with -o.") from None
        told = json.loads(json.dumps(identity))
        different = [key for key in {**found, **told} if found.get(key) != told.get(key)]
        if different:
            raise UserError(
                f"The folder {folder} holds another search (its {' and '.join(different)} differ); choose another "
                f"folder with -o, or repeat its settings to go on with it."
            )
        return
    folder.mkdir(parents=True, exist_ok=True)
    write_json(place, identity)


def _study(optuna: Any, folder: Path) -> Study:
    backend = optuna.storages.journal.JournalFileBackend(str(folder / "study.journal"))
    study: Study = optuna.create_study(
        storage=optuna.storages.JournalStorage(backend),
        study_name="longshot",
        direction="maximize",
        load_if_exists=True,
    )
    for one in study.get_trials(states=[optuna.trial.TrialState.RUNNING]):
        study.tell(
            one.number, state=optuna.trial.TrialState.FAIL
        )  # cut off; without a reason it does not count
    return study


def _finished(study: Study) -> list[Any]:
    """Trials that count: with a value, or failed for a reason of their own."""
    return [one for one in study.get_trials() if one.value is not None or "failed" in one.user_attrs]


def _proposed(points: list[dict[str, Any]] | None, done: Sequence[Any]) -> dict[str, Any] | None:
    """The first point that was not tried, where all points are to be tried."""
    if points is None:
        return None
    tried = [one.params for one in done]
    return next(point for point in points if point not in tried)


def _one(
    optuna: Any,
    study: Study,
    space: Space,
    objective: TrialObjective,
    folder: Path,
    point: dict[str, Any] | None,
    sampler: str,
    seed: int,
) -> None:
    """One trial, from the proposal to the record of its value."""
    if point is not None:
        study.enqueue_trial(point)
    study.sampler = _sampler(optuna, sampler, seed)
    asked = study.ask({name: _distribution(optuna, one) for name, one in space.parameters.items()})
    trial = space.trial(asked.params, objective.steps)
    began = time.monotonic()
    try:
        value = objective.value(trial, folder)
    except UserError as error:
        asked.set_user_attr("failed", str(error))
        study.tell(asked, state=optuna.trial.TrialState.FAIL)
        done = _finished(study)
        if len(done) >= _PATIENCE and not any(one.value is not None for one in done):
            raise UserError(f"The first {len(done)} trials all failed; the last one: {error}") from error
        return
    asked.set_user_attr("seconds", round(time.monotonic() - began, 1))
    study.tell(asked, value)


def _sampler(optuna: Any, name: str, seed: int) -> BaseSampler:
    kind = optuna.samplers.TPESampler if name == "tpe" else optuna.samplers.RandomSampler
    made: BaseSampler = kind(seed=seed)
    return made


def _distribution(optuna: Any, parameter: Parameter) -> BaseDistribution:
    kinds = optuna.distributions
    made: BaseDistribution = (
        kinds.CategoricalDistribution(parameter.values)
        if parameter.kind == "choose"
        else kinds.FloatDistribution(*parameter.values, log=parameter.kind == "log")
    )
    return made


def _write(study: Study, space: Space, objective: TrialObjective, folder: Path) -> Tuned:
    """trials.json, and best.yaml where a trial has succeeded."""
    done = _finished(study)
    records = []
    for number, one in enumerate(done, 1):
        trial = space.trial(one.params, objective.steps)
        records.append(
            {
                "trial": number,
                "accuracy": one.value,
                "parameters": one.params,
                "algorithm": trial.algorithm,
                "method": trial.method,
                "seconds": one.user_attrs.get("seconds"),
                "failed": one.user_attrs.get("failed"),
            }
        )
    write_json(folder / "trials.json", records)
    good = [record for record in records if record["accuracy"] is not None]
    if not good:
        return Tuned()
    best = max(good, key=lambda record: record["accuracy"])  # the first of equals
    found = objective.best(space.trial(best["parameters"], objective.steps), folder)
    story = {
        "space": space.name,
        "trial": f"{best['trial']} of {len(records)}",
        "validation_accuracy": round(best["accuracy"], 5),
        "parameters": best["parameters"],
    }
    tuned = replace(found, story=story)
    write_tuned(folder / "best.yaml", tuned)
    return tuned


def _note(done: Sequence[Any]) -> str:
    values = [one.value for one in done if one.value is not None]
    return f"best {100 * max(values):.2f} %" if values else "none succeeded yet"
