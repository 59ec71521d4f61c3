"""``tune``: search for settings on validation tasks; the best goes to a file that ``train`` and ``evaluate`` take."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from longshot.base import Tuned, UserError, hash_json, nearest_name, with_engine, with_executor
from longshot.data import Dataset
from longshot.models import open_backbone
from longshot.reports import folder_curves
from longshot.tasks import Testbed
from longshot.training import (
    Space,
    TrainingJob,
    TrainingSettings,
    Trial,
    TrialObjective,
    get_space,
    run_search,
    space_of_call,
    train_elsewhere,
    training_settings,
)

if TYPE_CHECKING:
    from longshot.evaluation import Results
    from longshot.models import Backbone, BackboneLike, Precomputed


TestbedLike: TypeAlias = Testbed | str | Path


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
        """Return contents of the testbeds, backbone and seed."""
        opened = [each if isinstance(each, Testbed) else Testbed.load(each) for each in self.testbeds]
        hashes = [testbed.content_hash for testbed in opened]
        name = self.backbone if isinstance(self.backbone, str) else self.backbone.name
        return {"testbeds": hashes, "backbone": name, "seed": self.seed}

    def values(self, trials: Sequence[Trial], folder: Path) -> list[float | UserError]:
        """Evaluate all methods at once, whose units spread over the cluster; one by one where one of them fails."""
        from longshot.models import get_method

        if len(trials) > 1:
            with contextlib.suppress(UserError):
                self._evaluate([get_method(trial.method or "") for trial in trials], folder)
        return super().values(trials, folder)  # rows that are there are only read

    def _evaluate(self, methods: Sequence[Any], folder: Path) -> Results:
        from longshot.evaluation import evaluate

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
        from longshot.models import get_method

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

    @property
    def identity(self) -> dict[str, Any]:
        """Return the dataset and the settings that all trials share."""
        return {
            "dataset": self.dataset.fingerprint if isinstance(self.dataset, Dataset) else str(self.dataset),
            "settings": {key: str(value) for key, value in sorted(self.settings.items())},
        }

    def values(self, trials: Sequence[Trial], folder: Path) -> list[float | UserError]:
        """Train side by side on a cluster, bring the networks back, and measure each."""
        jobs = []
        for trial in trials:
            assert trial.algorithm is not None
            options = {**self.settings, **trial.train}
            jobs.append(TrainingJob(trial.algorithm, options, self._network_folder(trial, folder)))
        errors = train_elsewhere(jobs, self.dataset, folder_curves)
        outcomes = super().values(
            [t for t, error in zip(trials, errors, strict=True) if error is None], folder
        )
        trained = iter(outcomes)
        return [next(trained) if error is None else error for error in errors]

    def value(self, trial: Trial, folder: Path) -> float:
        """Measure accuracy on the validation tasks of the best network of the training."""
        from longshot.models import load_checkpoint
        from longshot.training import prepare, train

        assert trial.algorithm is not None
        settings = {**self.settings, **trial.train}
        out = self._network_folder(trial, folder)
        trained = train(trial.algorithm, self.dataset, out=out, curves=folder_curves, **settings)
        if trained.validation_accuracy is None:
            raise UserError(
                f"A search needs validation tasks, and there are none: {'; '.join(trained.notes)}. Use a dataset with "
                f"validation classes, or add holdout=0.1 to {{settings}}."
            )
        if trial.method is None:
            return trained.validation_accuracy
        job = prepare(trial.algorithm, self.dataset, training_settings(**settings))
        assert job.validation is not None
        network, _ = load_checkpoint(trained.path)
        return replace(job.validation, method=trial.method).run(network.to(job.device)).mean

    def best(self, trial: Trial, folder: Path) -> Tuned:
        """Return the training with all its settings, and the network that came out of it."""
        from longshot.training import get_algorithm

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


@with_engine
@with_executor
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
    engine: str | None = None,
    seed: int = 0,
    at_once: int = 1,
    on: str | None = None,
    gpus_per_worker: float | None = None,
    retry_failed: bool | None = None,
) -> TuningResult:
    """Search for settings that do best on validation tasks.

    The same call goes on after an interruption; with more ``trials`` it extends the search.

    Parameters
    ----------
    space : str or Space
        A space that comes with Longshot (``longshot.training.list_spaces()``), a YAML file, or with ``search``
        a method or an algorithm.
    data : testbed, list of testbeds, or dataset
        Testbeds (objects or .parquet files) judge a method through a fixed ``backbone``; with a dataset every
        trial trains a network.
    out : folder
        Folder of the search. ``best.yaml`` in it serves ``train`` and ``evaluate``.
    backbone : str, array, Tensor, nn.Module or Features, optional
        Backbone or saved network through which a method's settings are searched. As ``embed`` takes it.
    search : NAME=RANGE, mapping, optional
        Setting to search: "lr=log(1e-4, 1e-1)", "steps=choose(10, 50)", "x=uniform(0, 1)"; repeat for several.
    fix : NAME=VALUE, mapping, optional
        Hold a parameter of the space at one value.
    settings : NAME=VALUE, mapping, optional
        Setting of 'longshot train' for all trials, such as steps=500 or size=28.
    trials : int, at least 1, optional
        Trials in all. Default: 20, or as many as --minutes allow.
    minutes : float, above 0, optional
        Start no new trial after so many minutes.
    sampler : {"tpe", "random"}
        How trials are proposed; tpe learns from earlier trials.
    at_once : int, at least 1
        Trials proposed together: they run side by side on a cluster, and do not learn from each other. Another
        number is another search. Trials of a grid, random ones and TPE's first ten run side by side anyway.
    datasets : optional
        As in ``evaluate``.
    device, engine, on, gpus_per_worker, retry_failed : optional
        As in ``embed``.
    seed : int, at least 0
        Random seed. It is the root of every random stream.

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
        objective = TrainingTrial(listed[0], {**(settings or {}), "device": device, "seed": seed})
    else:
        assert backbone is not None
        opened = backbone if isinstance(backbone, str) else open_backbone(backbone, device)
        objective = Evaluating(listed, opened, datasets or {}, device, seed)
    options: dict[str, Any] = {"trials": trials, "minutes": minutes, "sampler": sampler, "seed": seed}
    best = run_search(space, objective, out, at_once=at_once, **options)
    records = json.loads((Path(out) / "trials.json").read_text(encoding="utf-8"))
    return TuningResult(Path(out), best, records)


def _check_search(
    space: Space, trains: bool, data: Sequence[Any], backbone: object, settings: Mapping[str, Any]
) -> None:
    """Raise UserError for what does not go together."""
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
            hint = nearest_name(name, TrainingSettings.model_fields, "there are")
            raise UserError(f"Training has no setting '{name}' for {{settings}}; {hint}")
