"""How difficult the datasets of a phase are, by the scores of all its entries task by task."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from longshot.arena.inside.drive import BlindTask
from longshot.arena.inside.scoring import METRICS, TaskScore
from longshot.base import Record, read_json, write_json
from longshot.statistics import DatasetDifficulty, dataset_difficulty, unpaired_difficulty

FILE = "task_scores.json"  # beside scores.json, for the organiser alone


class TaskRecord(Record):
    """Normalised accuracy of one run task by task, in the order of its tasks."""

    draw: str  # digest over the tasks: equal where two runs answered the same
    dataset: tuple[str, ...]
    normalized_accuracy: tuple[float, ...]


@dataclass(frozen=True)
class PhaseDifficulty:
    """The datasets of a phase seen through all its entries."""

    entries: tuple[str, ...]  # names, in the order that ``best`` and ``worst`` count in
    datasets: tuple[DatasetDifficulty, ...]
    paired: bool  # all entries answered the same tasks
    left_out: int  # entries whose runs have no record


def write_record(folder: Path, tasks: Sequence[BlindTask], scored: Sequence[TaskScore]) -> None:
    """Keep what a run scored in each task."""
    digest = hashlib.sha256()
    for task in tasks:
        digest.update(f"{task.dataset} {task.ways} {task.shots} ".encode())
        for rows in (task.support, task.support_label, task.query):
            digest.update(np.ascontiguousarray(rows, np.int64).tobytes())
    record = TaskRecord(
        draw=digest.hexdigest(),
        dataset=tuple(score.dataset for score in scored),
        normalized_accuracy=tuple(score.scores[METRICS[0]] for score in scored),
    )
    write_json(folder / FILE, record.model_dump())


def read_records(folders: Sequence[Path]) -> list[TaskRecord] | None:
    """The records of an entry's runs, one per seed; None where one is missing."""
    paths = [folder / FILE for folder in folders]
    if not all(path.is_file() for path in paths):
        return None
    return [read_json(TaskRecord, path, "The record of a run's tasks") for path in paths]


def phase_difficulty(entries: Mapping[str, Sequence[TaskRecord] | None]) -> PhaseDifficulty | None:
    """Intrinsic (1 − best) and modelling (best − worst) difficulty of every dataset over all entries.

    The mean of an entry is that over the tasks of all its runs. Where all entries answered the same tasks the interval
    of best − worst is that of the paired difference, otherwise Welch's.

    Parameters
    ----------
    entries : mapping
        Name of an entry → its records, one per seed; None where it has none.

    Returns
    -------
    PhaseDifficulty or None
        Of the datasets that all entries have tasks of; None where there are none.
    """
    recorded = {name: list(records) for name, records in entries.items() if records}
    if not recorded:
        return None
    tasks = [
        [pair for run in runs for pair in zip(run.dataset, run.normalized_accuracy, strict=True)]
        for runs in recorded.values()
    ]
    shared = set.intersection(*({dataset for dataset, _ in pairs} for pairs in tasks))
    names = [[dataset for dataset, _ in pairs if dataset in shared] for pairs in tasks]
    scores = [[score for dataset, score in pairs if dataset in shared] for pairs in tasks]
    paired = len({tuple(run.draw for run in runs) for runs in recorded.values()}) == 1
    if not shared:
        return None
    datasets = (
        dataset_difficulty(np.array(scores).T, names[0]) if paired else unpaired_difficulty(scores, names)
    )
    ordered = sorted(datasets, key=lambda dataset: dataset.dataset)
    return PhaseDifficulty(tuple(recorded), tuple(ordered), paired, len(entries) - len(recorded))
