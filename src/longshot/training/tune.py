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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from longshot.core.errors import UserError
from longshot.core.files import explain_disk_errors, hash_json, write_json
from longshot.core.progress import progress
from longshot.core.settings import nearest
from longshot.core.tuned import Tuned, write_tuned
from longshot.datasets.dataset import Dataset
from longshot.features.backbones import open_backbone
from longshot.testbeds.testbed import Testbed
from longshot.training.settings import TrainingSettings, training_settings
from longshot.training.spaces import Parameter, Space, Trial, get_space, space_of_call

if TYPE_CHECKING:
    from optuna import Study
    from optuna.distributions import BaseDistribution
    from optuna.samplers import BaseSampler

    from longshot.features.backbones import BackboneLike
    from longshot.features.backbones.base import Backbone, Precomputed

TestbedLike = Testbed | str | Path
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

    dataset: Dataset | str | Path
    settings: Mapping[str, Any]  # fields of TrainingSettings, the same for all trials
    curves: Callable[[Path], object] | None = None  # see ``train``

    @property
    def steps(self) -> int | None:  # type: ignore[override]
        """As set for all trials."""
        steps: int | None = self.settings.get("steps")
        return steps

    @property
    def identity(self) -> dict[str, Any]:
        """Dataset and the settings that all trials share."""
        return {
            "dataset": self.dataset.fingerprint if isinstance(self.dataset, Dataset) else str(self.dataset),
            "settings": {key: str(value) for key, value in sorted(self.settings.items())},
        }

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


@dataclass(frozen=True)
class TuningResult:
    """A finished search: its folder, the best settings (also in ``best.yaml``), and every trial as a row."""

    path: Path
    best: Tuned
    trials: list[dict[str, Any]]

    def __repr__(self) -> str:
        accuracy = self.best.story["validation_accuracy"]
        return f"TuningResult of {len(self.trials)} trials in {self.path}: accuracy {accuracy:.4f}\n  {self.best}"


def tune(
    space: str | Space,
    data: TestbedLike | Dataset | Sequence[TestbedLike],
    *,
    out: str | Path,
    backbone: BackboneLike | None = None,
    search: Mapping[str, str] | None = None,
    fix: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    trials: int | None = None,
    minutes: float | None = None,
    sampler: str = "tpe",
    datasets: Mapping[str, Any] | None = None,
    device: str = "auto",
    seed: int = 0,
    curves: Callable[[Path], object] | None = None,
) -> TuningResult:
    """Search for settings that do best on validation tasks.

    The same call goes on after an interruption; with more ``trials`` it extends the search.

    Parameters
    ----------
    space : str or Space
        A space that comes with Longshot (``longshot.training.list_spaces()``), a YAML file, or with ``search`` a
        method or an algorithm.
    data : testbed, list of testbeds, or dataset
        Testbeds (objects or .parquet files) judge a method through a fixed ``backbone``; with a dataset every trial
        trains a network.
    out : path
        Folder of the search; ``best.yaml`` in it serves ``train`` and ``evaluate``.
    backbone : str, array, Tensor, nn.Module or Features, optional
        Backbone or saved network (as ``embed`` takes it) through which a method's settings are searched.
    search : mapping, optional
        Setting → range: ``{"lr": "log(1e-4, 1e-1)", "steps": "choose(10, 50)", "scale": "uniform(0, 1)"}``.
    fix : mapping, optional
        Parameters of the space to hold at one value.
    settings : mapping, optional
        Parameters of ``train`` for all trials, such as ``{"steps": 500, "size": 28}``.
    trials : int, optional
        Trials in all; 20, or as many as ``minutes`` allow.
    minutes : float, optional
        Start no trial after so long.
    sampler : {"tpe", "random"}
        tpe learns from earlier trials.
    datasets : mapping, optional
        Name → where a testbed's dataset lives.
    device : str
        auto, cpu, cuda or mps.
    seed : int
        The root of every random stream.
    curves : callable, optional
        See ``train``.

    Returns
    -------
    TuningResult
        ``best`` settings, and the record of all ``trials``.

    Examples
    --------
    >>> tuned = tune("ridge", "easy.parquet", backbone="pixels", out="runs/tuned", trials=2,
    ...              search={"penalty": "log(0.1, 10)"})
    >>> len(tuned.trials)
    2
    """
    listed: list[Any] = list(data) if isinstance(data, list | tuple) else [data]
    trains = not all(isinstance(each, Testbed) or str(each).endswith(".parquet") for each in listed)
    if isinstance(space, str):
        space = space_of_call(space, search, trains=trains) if search else get_space(space)
    space = space.fixed(fix or {})
    _check_search(space, trains, listed, backbone, settings or {})
    objective: TrialObjective
    if trains:
        objective = TrainingTrial(listed[0], {**(settings or {}), "device": device, "seed": seed}, curves)
    else:
        assert backbone is not None
        opened = backbone if isinstance(backbone, str) else open_backbone(backbone, device)
        objective = Evaluating(listed, opened, datasets or {}, device, seed)
    best = run_search(space, objective, out, trials=trials, minutes=minutes, sampler=sampler, seed=seed)
    records = json.loads((Path(out) / "trials.json").read_text(encoding="utf-8"))
    return TuningResult(Path(out), best, records)


def _check_search(
    space: Space, trains: bool, data: Sequence[Any], backbone: object, settings: Mapping[str, Any]
) -> None:
    """What does not go together, in a sentence."""
    if not trains:
        if space.algorithm is not None:
            raise UserError(
                f"The space '{space.name}' trains networks, so it needs a dataset, not {data[0]}."
            )
        if backbone is None:
            raise UserError(
                "Settings of a method are searched through a fixed backbone", "name one: {backbone:NAME}"
            )
        if settings:
            raise UserError("{settings} is for searches that train", "give a method's settings in its call")
        return
    if space.algorithm is None:
        raise UserError(
            f"The space '{space.name}' searches a method, so it needs testbeds of validation tasks (.parquet, from "
            f"{{sample(DATASET, split=validation)}}), not '{data[0]}'."
        )
    if len(data) > 1:
        raise UserError(f"A search that trains takes 1 dataset, not {len(data)}.")
    if backbone is not None:
        raise UserError("A search that trains makes its own networks", "leave {backbone} out")
    for name in settings:
        if name in space.train:
            raise UserError(f"The space '{space.name}' sets {name} itself", "use {fix} for its parameters")
        if name not in TrainingSettings.model_fields:
            hint = nearest(name, TrainingSettings.model_fields, "there are")
            raise UserError(f"Training has no setting '{name}' for {{settings}}; {hint}")
    if "schedule" in space.train and "steps" not in settings:
        raise UserError(
            f"The space '{space.name}' lets the learning rate decay, so it must know how long a training is",
            "add steps=1000 to {settings}",
        )


def run_search(
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
    most = trials if trials is not None else (10**9 if minutes is not None else TRIALS)
    identity = {"space": space.as_dict(), "sampler": sampler, "seed": seed, **objective.identity}
    with explain_disk_errors(folder):
        _claim(folder, identity)
    study = _study(optuna, folder)
    points = space.points(most)
    total = most if points is None else len(points)
    until = math.inf if minutes is None else time.monotonic() + 60 * minutes
    with progress("tune", None if most == 10**9 and points is None else total, "trials") as bar:
        done = _finished(study)
        bar.skip(len(done))
        while len(done) < total and time.monotonic() < until:
            study.sampler = _sampler(optuna, sampler, seed + len(done))
            _try(optuna, study, space, objective, folder, _proposed(points, done))
            done = _finished(study)
            _write(study, space, objective, folder)
            bar.advance(1, _note(done))
    if not any(trial.value is not None for trial in done):
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
    path = folder / "tune.json"
    if path.is_file():
        try:
            earlier = json.loads(path.read_text(encoding="utf-8"))
        except ValueError:
            raise UserError(f"{path} is damaged", "choose another folder {out}") from None
        now = json.loads(json.dumps(identity))
        different = [key for key in {**earlier, **now} if earlier.get(key) != now.get(key)]
        if different:
            raise UserError(
                f"The folder {folder} holds another search (its {' and '.join(different)} differ)",
                "choose another folder {out}, or repeat its settings to go on with it",
            )
        return
    folder.mkdir(parents=True, exist_ok=True)
    write_json(path, identity)


def _study(optuna: Any, folder: Path) -> Study:
    backend = optuna.storages.journal.JournalFileBackend(str(folder / "study.journal"))
    study: Study = optuna.create_study(
        storage=optuna.storages.JournalStorage(backend),
        study_name="longshot",
        direction="maximize",
        load_if_exists=True,
    )
    for trial in study.get_trials(states=[optuna.trial.TrialState.RUNNING]):
        # It was cut off; without a reason it does not count.
        study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
    return study


def _finished(study: Study) -> list[Any]:
    """Trials that count: with a value, or failed for a reason of their own."""
    return [trial for trial in study.get_trials() if trial.value is not None or "failed" in trial.user_attrs]


def _proposed(points: list[dict[str, Any]] | None, done: Sequence[Any]) -> dict[str, Any] | None:
    """The first point that was not tried, where all points are to be tried."""
    if points is None:
        return None
    tried = [trial.params for trial in done]
    return next(point for point in points if point not in tried)


def _try(
    optuna: Any,
    study: Study,
    space: Space,
    objective: TrialObjective,
    folder: Path,
    point: dict[str, Any] | None,
) -> None:
    """One trial, from the proposal to the record of its value."""
    if point is not None:
        study.enqueue_trial(point)
    proposal = study.ask({name: _distribution(optuna, values) for name, values in space.parameters.items()})
    trial = space.trial(proposal.params, objective.steps)
    began = time.monotonic()
    try:
        value = objective.value(trial, folder)
    except UserError as error:
        proposal.set_user_attr("failed", str(error))
        study.tell(proposal, state=optuna.trial.TrialState.FAIL)
        done = _finished(study)
        if len(done) >= _PATIENCE and not any(trial.value is not None for trial in done):
            raise UserError(
                f"The first {len(done)} trials all failed; the last one: {error.template}"
            ) from error
        return
    proposal.set_user_attr("seconds", round(time.monotonic() - began, 1))
    study.tell(proposal, value)


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
    for number, recorded in enumerate(done, 1):
        trial = space.trial(recorded.params, objective.steps)
        records.append(
            {
                "trial": number,
                "accuracy": recorded.value,
                "parameters": recorded.params,
                "algorithm": trial.algorithm,
                "method": trial.method,
                "seconds": recorded.user_attrs.get("seconds"),
                "failed": recorded.user_attrs.get("failed"),
            }
        )
    write_json(folder / "trials.json", records)
    good = [record for record in records if record["accuracy"] is not None]
    if not good:
        return Tuned()
    best = max(good, key=lambda record: record["accuracy"])  # the first of equals
    settings = objective.best(space.trial(best["parameters"], objective.steps), folder)
    story = {
        "space": space.name,
        "trial": f"{best['trial']} of {len(records)}",
        "validation_accuracy": round(best["accuracy"], 5),
        "parameters": best["parameters"],
    }
    tuned = replace(settings, story=story)
    write_tuned(folder / "best.yaml", tuned)
    return tuned


def _note(done: Sequence[Any]) -> str:
    values = [trial.value for trial in done if trial.value is not None]
    return f"best {100 * max(values):.2f} %" if values else "none succeeded yet"
