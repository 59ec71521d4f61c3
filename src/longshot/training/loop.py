"""The training loop: one folder per network, resumable to the bit, best network on validation tasks kept."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from longshot import __version__
from longshot.base import (
    Progress,
    UserError,
    claim_folder,
    explain_disk_errors,
    heartbeat,
    progress,
    write_json,
)
from longshot.data import Dataset, TaxonomyLike
from longshot.models import WEIGHTS_FILE, save_checkpoint, write_seen
from longshot.statistics import Interval, percent
from longshot.tasks import Classes, Shape
from longshot.training.base import Algorithm
from longshot.training.folders import (
    HISTORY,
    RECORD_FORMAT,
    STATE,
    TRAINING,
    TrainedNetwork,
    check_folder,
    cut_history,
    last_saved,
    load_state,
    read_facts,
    read_seconds,
    read_trained,
    save_state,
)
from longshot.training.settings import (
    CLASS_SETTINGS,
    TrainingSettings,
    ValidationTasks,
    open_for_training,
    plan_training,
)
from longshot.training.setup import Job, prepare
from longshot.training.steps import Diverged, Stepper
from longshot.training.training_episodes import Validation
from longshot.training.training_images import Prefetch, step_seed

if TYPE_CHECKING:
    from longshot.models import BackboneLike

_CHECKPOINT_SECONDS = 60.0
_RECORDS = 5  # history records between two validations


@dataclass
class _Facts:
    """What a checkpoint remembers beside tensors."""

    step: int = 0  # steps done
    records: int = 0  # lines of history
    part: int = 0  # images or episodes computed at a time; 0: all of a step
    loss: float = 0.0  # sums since the last record
    accuracy: float = 0.0
    counted: int = 0
    best: float | None = None
    best_interval: list[float] | None = None
    best_step: int = 0
    finished: bool = False


def train(
    algorithm: str | Algorithm,
    dataset: Dataset | str | Path,
    *,
    out: str | Path,
    network: str | None = None,
    start: str | Path | None = None,
    split: str | None = None,
    splits: str | Path | None = None,
    taxonomy: TaxonomyLike | None = None,
    holdout: float | None = None,
    rotations: bool = False,
    size: int | None = None,
    preprocessing: str | None = None,
    steps: int | None = None,
    epochs: float | None = None,
    minutes: float | None = None,
    batch: int | None = None,
    way: int | None = None,
    shot: int | None = None,
    query: int | None = None,
    shape: Shape | str | None = None,
    classes: Classes | str | None = None,
    level: int | None = None,
    alpha: float | None = None,
    beta: float | None = None,
    nearest: int | None = None,
    judge: BackboneLike | Sequence[BackboneLike] | None = None,
    coarsity: str | tuple[float, float] | None = None,
    distance: str | None = None,
    reduction: str | None = None,
    recipe: str | None = None,
    optimiser: str | None = None,
    schedule: str | None = None,
    augment: str | None = None,
    clip: float | None = None,
    validate_every: int | None = None,
    validation_tasks: int = 100,
    validation: ValidationTasks | None = None,
    checkpoint_every: int | None = None,
    seed: int = 0,
    device: str = "auto",
    precision: str = "auto",
    allow_download: bool = False,
    curves: Callable[[Path], object] | None = None,
) -> TrainedNetwork:
    """Train a network on the train classes of a dataset and keep the best one.

    The same call goes on where it was interrupted and ends with the same weights; on a finished folder it returns at
    once. A folder that holds another training is refused.

    Parameters
    ----------
    algorithm : str or Algorithm
        A way of training with its settings, ``protonet(way=20)``, or a ``best.yaml`` that ``tune`` wrote: its
        settings count where none is given here.
    dataset : Dataset, str or Path
        What ``open_dataset`` opens.
    out : folder
        Folder of the trained network. Afterwards it is a backbone.
    network : str, optional
        Network to train: cnn4, resnet12, resnet50, bit-r50x1, vit, timm:NAME, … Default: cnn4.
    start : str or path, optional
        Go on from a saved network (its folder) or from a backbone with weights. It stands in place of
        ``network``.
    split : str, optional
        Train on the classes of this split, or on all. Default: train, where there are splits.
    splits : optional
        As in ``sample``.
    holdout : float, optional
        Share of the classes held out for validation. Default: 0.1 without splits.
    rotations : bool
        Every train class in four orientations, as four classes.
    size : int, at least 1, optional
        Height and width of the images. Default: 84; with --start: the network's own.
    preprocessing : str, optional
        Whole preprocessing string in place of ``size``.
    steps : int, at least 1, optional
        Steps of the optimiser. Default: as the recipe.
    epochs : float, above 0, optional
        Passes over the images instead of steps (batch training).
    minutes : float, above 0, optional
        Stop after so many minutes, even if steps are left.
    batch : int, at least 1, optional
        Images of a step, or episodes of a step. Default: as the recipe.
    recipe : str, optional
        A named recipe of the algorithm, see 'longshot train --list'.
    optimiser : str, optional
        Such as "adam(lr=0.001)" or "sgd(lr=0.1, weight_decay=0.0005)". Default: as the recipe.
    schedule : str, optional
        One of constant, cosine(warmup=0.1), "step(at=[0.7, 0.9], factor=0.1)", "decay(every=500, rate=0.9)".
        Default: as the recipe.
    augment : str, optional
        Such as "crop(8)|flip|jitter(0.4)"; also zoom(s), rotate(d), grey(p). Default: as the recipe.
    clip : float, at least 0, optional
        Largest norm of the gradient. Default: not clipped.
    validate_every : int, at least 1, optional
        Steps between validations. Default: about 20 in a run.
    validation_tasks : int, at least 1
        Tasks of a validation.
    validation : ValidationTasks, optional
        What those tasks are and which method solves them, where it is not as the algorithm has it.
    checkpoint_every : int, at least 1, optional
        Steps between checkpoints. Default: a minute, and validations.
    precision : {"auto", "float32", "bfloat16"}
        Numbers to compute with; auto: bfloat16 on accelerators that have it.
    allow_download : bool
        Let timm: and hf: networks fetch their weights.
    shape, way, shot, query : optional
        As in ``sample``. Those of the algorithm unless given.
    classes, level, alpha, beta, nearest, judge, coarsity, distance, reduction, taxonomy : optional
        As in ``sample``.
    device : optional
        As in ``embed``.
    seed : int, at least 0
        Random seed. It is the root of every random stream.
    curves : callable, optional
        Called with the folder when training is over, to draw its learning curves.

    Returns
    -------
    TrainedNetwork
        Folder, validation accuracy with its 95 % interval, steps, seconds.

    Examples
    --------
    >>> network = train("protonet(way=3, shot=1, query=2)", "toybox", network="cnn4(width=4)", size=16, steps=3,
    ...                 validation_tasks=4, out="runs/proto")
    >>> network.steps
    3
    """
    values = locals()  # before any other name is bound
    names = (*TrainingSettings.model_fields, *CLASS_SETTINGS)
    algorithm, settings = plan_training(algorithm, {name: values[name] for name in names})
    claim_folder(out, "training", (TRAINING, WEIGHTS_FILE, STATE))
    dataset = open_for_training(dataset, splits, taxonomy, settings.classes)
    folder = Path(out)
    before = last_saved(folder)
    trained = _run(prepare(algorithm, dataset, settings), folder)
    if curves is not None and last_saved(folder) != before:
        curves(folder)
    return trained


def _run(job: Job, folder: Path) -> TrainedNetwork:
    run = _Training(job, folder)
    own = [job.device] if job.device.type == "cuda" else []
    with torch.random.fork_rng(own), torch.backends.cudnn.flags(deterministic=True, benchmark=False):
        run.resume()
        if not run.facts.finished:
            run.go()
    return read_trained(folder)


@dataclass
class _Training:
    job: Job
    folder: Path
    facts: _Facts = field(default_factory=_Facts)
    seconds: float = 0.0  # of time, which no checkpoint holds: equal trainings have equal ones

    def resume(self) -> None:
        """Go on from the checkpoint of the folder, or begin one."""
        job = self.job
        check_folder(self.folder, job.identity)
        loaded = load_state(self.folder, job.network, job.optimiser)
        if loaded is not None:
            self.facts, self.seconds = _Facts(**loaded[0]), read_seconds(self.folder)
            if self.facts.step < job.steps and not self._out_of_time():
                self.facts.finished = False  # the same training with more steps or minutes
            job.source.restore(self.facts.step, loaded[1])
        with explain_disk_errors(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        cut_history(self.folder / HISTORY, self.facts.records)
        self._write_record()
        if loaded is None:
            write_seen(self.folder, job.seen)
            self._checkpoint()

    def _write_record(self) -> None:
        facts = {"format": RECORD_FORMAT, "settings": self.job.identity, "notes": self.job.notes}
        versions = {"longshot": __version__, "torch": torch.__version__}
        write_json(self.folder / TRAINING, {**facts, "seconds": self.seconds, **versions})

    def go(self) -> None:
        """Run all steps that are missing."""
        job, facts = self.job, self.facts
        stepper = Stepper(job, facts.part or job.part)
        began, saved = time.monotonic() - self.seconds, time.monotonic()
        every = max(1, job.validate_every // _RECORDS)

        if facts.step == 0 and job.algorithm.judges_start and job.validation is not None:
            self._judge(job.validation)

        bar: Progress
        with (
            Prefetch(job.source.load, facts.step) as images,
            progress("train", job.steps, "steps") as bar,
            heartbeat(self.folder, "train", bar.state),
        ):
            bar.skip(facts.step)
            stop = facts.step >= job.steps
            while not stop:
                job.source.begin(facts.step, job.network)
                data = images.take(min(job.source.horizon(facts.step), job.steps))
                torch.manual_seed(step_seed(job.settings.seed, facts.step, 1_000))
                try:
                    loss, accuracy, rate = stepper.step(facts.step, data)
                except Diverged as trouble:
                    raise self._diverged(trouble) from None
                facts.step, facts.part = facts.step + 1, stepper.part
                facts.loss, facts.accuracy = facts.loss + loss, facts.accuracy + accuracy
                facts.counted += 1
                self.seconds = time.monotonic() - began
                stop = facts.step >= job.steps or self._out_of_time()
                judged = job.validation is not None and (stop or facts.step % job.validate_every == 0)
                if judged or stop or facts.step % every == 0:
                    self._record(rate, judged, began)
                bar.advance(1, self._note(loss))
                late = time.monotonic() - saved > _CHECKPOINT_SECONDS
                due = job.settings.checkpoint_every
                if not stop and (judged or (facts.step % due == 0 if due else late)):
                    self._checkpoint()
                    saved = time.monotonic()
        facts.finished = True
        if job.validation is None:
            facts.best_step = facts.step
            self._keep()
        self._checkpoint()

    def _out_of_time(self) -> bool:
        minutes = self.job.settings.minutes
        return minutes is not None and self.seconds >= 60 * minutes

    def _record(self, rate: float, judged: bool, began: float) -> None:
        """Validate where it is time, keep the network if it is the best, and write a line of history."""
        facts = self.facts
        accuracy = None
        if judged and self.job.validation is not None:
            accuracy = self._judge(self.job.validation)
            self.seconds = time.monotonic() - began
        line = {
            "step": facts.step,
            "seconds": round(self.seconds, 3),
            "loss": facts.loss / facts.counted,
            "train_accuracy": facts.accuracy / facts.counted,
            "lr": rate,
            "validation_accuracy": None if accuracy is None else accuracy.mean,
            "validation_interval": None if accuracy is None else [accuracy.low, accuracy.high],
            "best": facts.best,
        }
        with explain_disk_errors(self.folder), (self.folder / HISTORY).open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        facts.records += 1
        facts.loss = facts.accuracy = facts.counted = 0

    def _judge(self, validation: Validation) -> Interval:
        """Measure the network's accuracy on the validation tasks; keep the best network so far."""
        facts = self.facts
        self.job.algorithm.settle(self.job.network, validation)
        accuracy = validation.run(self.job.network)
        if facts.best is None or accuracy.mean > facts.best:
            facts.best, facts.best_step = accuracy.mean, facts.step
            ends = (accuracy.low, accuracy.high)
            facts.best_interval = None if None in ends else [float(end or 0.0) for end in ends]
            self._keep()
        return accuracy

    def _keep(self) -> None:
        """Save the network as it is now."""
        facts = self.facts
        validation = {
            "accuracy": facts.best,
            "interval": facts.best_interval,
            "step": facts.best_step,
            "tasks": self.job.settings.validation_tasks,
        }
        training = {**self.job.story["training"], "step": facts.best_step}
        story = {
            **self.job.story,
            "training": training,
            "validation": None if facts.best is None else validation,
        }
        save_checkpoint(self.folder, self.job.network, story)

    def _checkpoint(self) -> None:
        self._write_record()
        job = self.job
        save_state(self.folder, job.network, job.optimiser, job.source.state(), vars(self.facts))

    def _note(self, loss: float) -> str:
        best = "" if self.facts.best is None else f", validation {percent(self.facts.best)} %"
        return f"loss {loss:.3f}{best}"

    def _diverged(self, trouble: Diverged) -> UserError:
        saved = (read_facts(self.folder) or {"step": 0})["step"]
        remaining = f"the checkpoint of step {saved:,} is kept"
        if self.facts.best is not None:
            remaining += f", and the best network of step {self.facts.best_step:,}"
        return UserError(
            f"The loss became {trouble.loss} at step {trouble.step + 1:,} with learning rate {trouble.rate:g}: "
            f"training stopped, {remaining} in {self.folder}",
            f"lower the learning rate (as with {{optimiser:'adam(lr={trouble.rate / 10:g})'}}) or clip gradients "
            f"({{clip:1}}), in another folder",
        )
