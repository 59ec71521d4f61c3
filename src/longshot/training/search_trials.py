"""The search itself: Optuna proposes, an objective judges, every trial is kept; the same call goes on.

The folder of a search:

    tune.json        what is searched, on what: another search is refused
    study.journal    Optuna's own record of all trials; ``optuna.load_study`` opens it
    trials.json      every trial with its parameters, calls, accuracy and time
    best.yaml        the best calls and settings, for ``train`` and ``evaluate``
    run/             results of evaluated methods, one row per task: ``report`` reads it
    networks/…       trained networks; trials that differ only in how tasks are solved share one
"""

from __future__ import annotations

import json
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from longshot.base import (
    Tuned,
    UserError,
    claim_folder,
    executor,
    explain_disk_errors,
    progress,
    write_json,
    write_tuned,
)
from longshot.statistics import percent
from longshot.training.spaces import Space, Trial

if TYPE_CHECKING:
    from optuna import Study


SAMPLERS = {"tpe": "TPESampler", "random": "RandomSampler"}
TRIALS = 20
_RANDOM_FIRST = 10  # trials that TPE draws at random before it learns
_PATIENCE = 3  # failures in a row, with nothing found yet, that stop a search


class TrialObjective(ABC):
    """What a trial is worth: mean accuracy over validation tasks."""

    @property
    @abstractmethod
    def identity(self) -> dict[str, Any]:
        """Return what decides the values: another identity is another search."""

    @abstractmethod
    def value(self, trial: Trial, folder: Path) -> float:
        """Measure the accuracy of a trial; UserError where the trial fails."""

    def values(self, trials: Sequence[Trial], folder: Path) -> list[float | UserError]:
        """Measure trials that do not depend on each other: the accuracy, or the error of one that fails."""
        outcomes: list[float | UserError] = []
        for trial in trials:
            try:
                outcomes.append(self.value(trial, folder))
            except UserError as error:
                outcomes.append(error)
        return outcomes

    def best(self, trial: Trial, folder: Path) -> Tuned:
        """Return the trial for people and commands to use."""
        return Tuned(method=trial.method)


def run_search(
    space: Space,
    objective: TrialObjective,
    out: str | Path,
    *,
    trials: int | None = None,
    minutes: float | None = None,
    sampler: str = "tpe",
    seed: int = 0,
    at_once: int = 1,
) -> Tuned:
    """Search ``space`` until there are ``trials`` in all or ``minutes`` have passed; the best is in ``best.yaml``.

    The same call goes on after an interruption: the trial that was cut off is proposed again, since what is proposed
    depends on the seed and on the finished trials alone. Where the space has no more points than ``trials``, each is
    tried once. ``sampler``: 'tpe' learns from earlier trials, 'random' does not. ``at_once`` trials are proposed
    together, and then know nothing of each other; those that would not learn anyway run side by side where there is
    room, which changes no proposal.
    """
    optuna = need_optuna()
    if sampler not in SAMPLERS:
        raise UserError(f"There is no sampler '{sampler}'; choose {' or '.join(SAMPLERS)}.")
    folder = Path(out)
    most = trials if trials is not None else (10**9 if minutes is not None else TRIALS)
    if at_once < 1:
        raise UserError(f"{{at_once}} is {at_once}, but at least 1 trial is proposed at a time.")
    identity = {"space": space.as_dict(), "sampler": sampler, "seed": seed, **objective.identity}
    if at_once > 1:  # it decides what is proposed
        identity["at_once"] = at_once
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
            free = points is not None or sampler == "random"
            number = min(_together(len(done), at_once, free), total - len(done))
            proposals: list[Any] = []
            for further in range(number):
                study.sampler = getattr(optuna.samplers, SAMPLERS[sampler])(seed=seed + len(done) + further)
                if points is not None:
                    tried = [trial.params for trial in (*done, *proposals)]
                    study.enqueue_trial(next(point for point in points if point not in tried))
                proposals.append(study.ask(space.distributions()))
            _try(optuna, study, space, objective, folder, proposals)
            done = _finished(study)
            _write(study, space, objective, folder)
            bar.advance(number, _note(done))
    if not any(trial.value is not None for trial in done):
        reason = (
            f"the last one failed: {done[-1].user_attrs['failed']}" if done else "there was no time for one."
        )
        raise UserError(f"No trial of the search in {folder} has succeeded; {reason}")
    return _write(study, space, objective, folder)


def need_optuna() -> Any:
    """Import the package that proposes trials; UserError where it is not installed."""
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
    claim_folder(folder, "search", ("tune.json",))
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
    """List the trials that count: with a value, or failed for a reason of their own."""
    return [trial for trial in study.get_trials() if trial.value is not None or "failed" in trial.user_attrs]


def _together(done: int, at_once: int, free: bool) -> int:
    """Return how many trials to propose now: ``at_once``, or as many as run side by side where none would learn.

    TPE's first trials are drawn at random.
    """
    slots = executor().slots
    unlearned = slots if free else max(0, min(slots, _RANDOM_FIRST - done))
    return max(at_once, unlearned) if free or not done % at_once else at_once


def _try(
    optuna: Any, study: Study, space: Space, objective: TrialObjective, folder: Path, proposals: Sequence[Any]
) -> None:
    """Run trials side by side and record their values in the order of the proposals."""
    trials = [space.trial(proposal.params) for proposal in proposals]
    began = time.monotonic()
    outcomes = objective.values(trials, folder)
    seconds = round((time.monotonic() - began) / len(trials), 1)
    for proposal, outcome in zip(proposals, outcomes, strict=True):
        if not isinstance(outcome, UserError):
            proposal.set_user_attr("seconds", seconds)
            study.tell(proposal, outcome)
            continue
        proposal.set_user_attr("failed", str(outcome))
        study.tell(proposal, state=optuna.trial.TrialState.FAIL)
        done = _finished(study)
        if len(done) >= _PATIENCE and not any(trial.value is not None for trial in done):
            raise UserError(
                f"The first {len(done)} trials all failed; the last one: {outcome.template}"
            ) from outcome


def _write(study: Study, space: Space, objective: TrialObjective, folder: Path) -> Tuned:
    """Write trials.json, and best.yaml where a trial has succeeded."""
    done = _finished(study)
    records = []
    for number, recorded in enumerate(done, 1):
        trial = space.trial(recorded.params)
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
    settings = objective.best(space.trial(best["parameters"]), folder)
    story = {
        "space": space.name,
        "trial": f"{best['trial']} of {len(records)}",
        "validation_accuracy": round(best["accuracy"], 5),
        "parameters": best["parameters"],
    }
    tuned = settings.model_copy(update={"story": story})
    write_tuned(folder / "best.yaml", tuned)
    return tuned


def _note(done: Sequence[Any]) -> str:
    values = [trial.value for trial in done if trial.value is not None]
    return f"best {percent(max(values), 2)} %" if values else "none succeeded yet"
