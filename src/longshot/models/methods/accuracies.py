"""How often a method is right: its accuracy on tasks over features, here or by any executor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from longshot.base import Crew, Floats, TaskRows, Tick, executor, pick_device, renumbered, used_rows
from longshot.models.methods.base import Gatherer, Method, padded_batches

if TYPE_CHECKING:
    from longshot.models.features import Features


def accuracies(tasks: TaskRows, method: Method, gatherer: Gatherer) -> Floats:
    """Share of each task's queries that a method gets right, [T]."""
    shares = np.empty(len(tasks))
    with torch.no_grad():
        for chosen, batch, targets in padded_batches(tasks, method, gatherer):
            right = (method.scores(batch).argmax(2) == targets) & batch.query_mask
            shares[chosen] = (right.sum(1) / batch.query_mask.sum(1)).cpu().numpy()
    return shares


class Scorer:
    """A worker: it holds features and a method."""

    def __init__(self, array: NDArray[Any], method: Method, device: torch.device) -> None:
        self.method, self.gatherer = method, Gatherer([array], device)

    def __call__(self, tasks: TaskRows, tick: Tick) -> Floats:
        """Return the method's accuracy on each of some tasks, [T]."""
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


def method_accuracies(
    call: str, tasks: TaskRows, features: Features, device: str = "auto"
) -> tuple[str, Floats]:
    """Return the method's full call, and its accuracy on each task, [T]."""
    from longshot.models.methods import feature_method

    method = feature_method(call)
    return method.call, spread_accuracies(tasks, method, features.array, pick_device(device))
