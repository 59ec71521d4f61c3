"""Trainings side by side on the workers of a cluster: a training is one unit, and its folder comes back."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import torch

from longshot.base import HEARTBEAT_FILE as HEARTBEAT
from longshot.base import Crew, Tick, UserError, atomic, executor, progress
from longshot.data import Dataset, as_dataset, portable_dataset
from longshot.training.folders import TRAINING, read_facts

Files: TypeAlias = dict[str, bytes]
Curves: TypeAlias = Callable[[Path], object]


@dataclass(frozen=True)
class TrainingJob:
    """One call of ``train``."""

    algorithm: str
    options: Mapping[str, Any]
    out: Path
    dataset: Dataset | str | Path | None = None  # that of all jobs where it is not said


@dataclass(frozen=True)
class _Sent:
    """A job on its way: the number of its dataset, and what its folder holds so far."""

    job: TrainingJob
    dataset: int
    files: Files


class Trainer:
    """A worker: it holds the datasets, trains in a folder of its own and answers with the files."""

    def __init__(self, datasets: Sequence[Dataset], curves: Curves | None) -> None:
        self.datasets, self.curves = datasets, curves

    def __call__(self, sent: _Sent, tick: Tick) -> Files | tuple[str, str]:
        """Train and return the folder's files, or the two parts of a UserError where the training cannot be done."""
        from longshot.training.loop import train

        with tempfile.TemporaryDirectory(prefix="longshot-training-") as folder:
            out = Path(folder)
            write_files(out, sent.files)
            data = self.datasets[sent.dataset]
            try:
                train(sent.job.algorithm, data, out=out, curves=self.curves, **sent.job.options)
            except UserError as error:
                return error.fact, error.remedy
            tick(1)
            return read_files(out)


def train_elsewhere(
    jobs: Sequence[TrainingJob], dataset: Dataset | str | Path | None, curves: Curves | None
) -> list[UserError | None]:
    """Train on the workers of a cluster what is not trained yet; the error of each job that failed.

    Here nothing is done: ``train`` does it when it is called. What an interrupted training had reached goes along.
    """
    pool = executor()
    errors: list[UserError | None] = [None] * len(jobs)
    todo = [number for number, job in enumerate(jobs) if not _finished(job)]
    if not pool.distant or not todo:
        return errors
    opened: dict[int, Dataset] = {}
    numbers: dict[int, int] = {}
    for number in todo:
        own = jobs[number].dataset
        data = as_dataset(dataset if own is None else own)  # type: ignore[arg-type]
        opened[number] = data
        numbers.setdefault(id(data), len(numbers))
    unique = {numbers[id(data)]: data for data in opened.values()}
    portable = [portable_dataset(pool, unique[number]) for number in range(len(unique))]
    crew = Crew(Trainer, (portable, curves), torch.get_num_threads())

    def sent() -> Any:
        for number in todo:
            job = replace(jobs[number], dataset=None)
            yield number, _Sent(job, numbers[id(opened[number])], read_files(jobs[number].out))

    with (
        progress("train", len(todo), "networks") as bar,
        closing(pool.map(crew, sent(), bar, count=len(todo), chunk=1)) as trained,
    ):
        for number, answer in trained:
            if isinstance(answer, tuple):
                errors[number] = UserError(*answer)
            else:
                write_files(jobs[number].out, answer)
    return errors


def read_files(folder: Path) -> Files:
    """Read every file of a folder: relative path → content; nothing where there is no folder."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != HEARTBEAT)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def write_files(folder: Path, files: Files) -> None:
    """Write files into a folder, the one that says what the folder is last."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in sorted(files, key=lambda name: (name == TRAINING, name)):
        with atomic(folder / name) as temporary:
            temporary.write_bytes(files[name])


def _finished(job: TrainingJob) -> bool:
    facts = read_facts(job.out)
    return facts is not None and bool(facts.get("finished"))
