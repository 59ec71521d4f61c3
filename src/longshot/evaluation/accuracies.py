"""The accuracy of a method on tasks, from features at hand, by whatever executor there is."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from longshot.base import Crew, Floats, TaskRows, Tick, executor
from longshot.evaluation.dispatch import renumbered
from longshot.evaluation.inputs import used_rows
from longshot.models import Gatherer, Method, accuracies


class Scorer:
    """A worker: it holds features and a method."""

    def __init__(self, array: NDArray[Any], method: Method, device: torch.device) -> None:
        self.method, self.gatherer = method, Gatherer([array], device)

    def __call__(self, tasks: TaskRows, tick: Tick) -> Floats:
        """[T] of some tasks."""
        return accuracies(tasks, self.method, self.gatherer)


def spread_accuracies(tasks: TaskRows, method: Method, array: NDArray[Any], device: torch.device) -> Floats:
    """Share of each task's queries that a method gets right, [T]; ``array`` [N, d] are the features."""
    pool = executor()
    if pool.distant and len(tasks):  # only rows in use travel
        rows = used_rows([tasks])
        tasks, array = renumbered(tasks, rows), np.asarray(array[rows])
    step = max(1, -(-len(tasks) // (4 * pool.slots))) if pool.slots > 1 else max(1, len(tasks))
    parts = [tasks.slice(start, min(start + step, len(tasks))) for start in range(0, len(tasks), step)]
    crew = Crew(Scorer, (array, method, device), torch.get_num_threads())
    shares = pool.gather(crew, parts, count=len(parts), chunk=1)
    return np.concatenate(shares) if shares else np.empty(0)
