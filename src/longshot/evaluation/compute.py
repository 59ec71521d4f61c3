"""One unit of work: gather, score, measure, and the rows that come out of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from longshot.errors import UserError
from longshot.evaluation.inputs import Source
from longshot.evaluation.metrics import Metrics, task_metrics
from longshot.evaluation.results import METRICS
from longshot.evaluation.units import Unit, ragged_list
from longshot.methods.base import Method, TaskBatch
from longshot.methods.batching import Gatherer, Tasks, batches
from longshot.testbeds.bound import BoundTasks


class Stopped(Exception):
    """The run was interrupted while a unit was being computed."""


@dataclass(frozen=True, eq=False)
class Work:
    """A unit with what it takes to compute it."""

    unit: Unit
    method: Method
    source: Source
    bound: BoundTasks
    coarsity: NDArray[np.float64] | None  # [tasks of the testbed], NaN where it was not measured


@dataclass(frozen=True, eq=False)
class Outcome:
    """The rows of a unit, in the order of its tasks."""

    columns: dict[str, Any]
    seconds: NDArray[np.float64]
    scores: Any | None


@torch.no_grad()
def compute(work: Work, device: torch.device, keep_scores: bool, tick: Callable[[int], None]) -> Outcome:
    """Run the method over the unit's tasks. ``tick(n)`` is called after every n tasks and may raise Stopped."""
    unit, method = work.unit, work.method
    tasks = Tasks.from_bound(work.bound, unit.start, unit.stop, unit.seed)
    gatherer = Gatherer([features.array for features in work.source.features], device)
    order: list[NDArray[np.int64]] = []
    measured: list[Metrics] = []
    kept: list[torch.Tensor] = []
    seconds = np.zeros(len(tasks))
    clock = time.perf_counter()
    for chosen, batch, labels in batches(tasks, method, gatherer):
        scores = method.scores(batch)
        _check_shape(scores, batch, method)
        if device.type != "cpu":
            torch.accelerator.synchronize()
        now = time.perf_counter()
        seconds[chosen] = (now - clock) / len(chosen)
        order.append(chosen)
        measured.append(task_metrics(scores, labels, batch.ways))
        if keep_scores:
            kept.append(scores.float())
        tick(len(chosen))
        clock = time.perf_counter()
    return _assemble(work, tasks, order, measured, kept if keep_scores else None, seconds)


def _check_shape(scores: torch.Tensor, batch: TaskBatch, method: Method) -> None:
    wanted = (len(batch), batch.query.shape[1], batch.way)
    if tuple(scores.shape) != wanted:
        raise UserError(
            f"The method {method.call} returned scores of the shape {tuple(scores.shape)}, but "
            f"{wanted} (tasks, queries, classes) is needed; see 'longshot methods'."
        )


def _assemble(
    work: Work,
    tasks: Tasks,
    order: Sequence[NDArray[np.int64]],
    measured: Sequence[Metrics],
    kept: Sequence[torch.Tensor] | None,
    seconds: NDArray[np.float64],
) -> Outcome:
    """Bring the batches back into task order, off the device."""
    back = np.argsort(np.concatenate(order))

    def flat(name: str) -> NDArray[Any]:
        values: NDArray[Any] = torch.cat([getattr(metrics, name) for metrics in measured]).cpu().numpy()
        return values[back]

    invalid = flat("invalid")
    if invalid.any():
        _explain_invalid(work, tasks, int(invalid.argmax()))
    queries = np.diff(tasks.query_offsets)
    rows: Mapping[str, Any] = {name: flat(name).astype(np.float64) for name in METRICS}
    predictions = _cut([metrics.prediction.cpu().numpy() for metrics in measured], back, queries)
    scores = None
    if kept is not None:
        wide = _cut([scores.cpu().numpy() for scores in kept], back, queries)
        scores = ragged_list([s[:, :way].reshape(-1) for s, way in zip(wide, tasks.ways, strict=True)])
    coarsity = np.full(len(tasks), np.nan) if work.coarsity is None else work.coarsity[tasks.index]
    columns = {
        **rows,
        "task": tasks.index,
        "way": tasks.ways.astype(np.int16),
        "mean_shot": np.diff(tasks.support_offsets) / tasks.ways,
        "coarsity": [None if np.isnan(value) else value for value in coarsity.tolist()],
        "prediction": ragged_list(predictions),
    }
    return Outcome(columns, seconds, scores)


def _cut(
    batches: Sequence[NDArray[Any]], back: NDArray[np.int64], lengths: NDArray[np.int64]
) -> list[NDArray[Any]]:
    """Per task, in task order, its own queries without padding."""
    rows = [row for batch in batches for row in batch]
    return [rows[position][:length] for position, length in zip(back, lengths, strict=True)]


def _explain_invalid(work: Work, tasks: Tasks, position: int) -> None:
    """Say whether the features or the method brought NaN or infinite scores into a task."""
    unit = work.unit
    where = f"task {tasks.index[position]} of testbed '{unit.testbed_name}'"
    rows = np.concatenate(
        [
            tasks.support[tasks.support_offsets[position] : tasks.support_offsets[position + 1]],
            tasks.query[tasks.query_offsets[position] : tasks.query_offsets[position + 1]],
        ]
    )
    for features in work.source.features:
        bad = rows[~np.isfinite(features.array[rows].astype(np.float32)).all(1)]
        if len(bad):
            raise UserError(
                f"The features '{features.backbone}' of '{unit.dataset}' hold NaN or infinite numbers for "
                f"{len(bad)} images of {where}, for example '{features.keys[int(bad[0])]}'; embed them again."
            )
    raise UserError(
        f"The method {unit.method} returned NaN or infinite scores for {where}, although its features are finite; "
        f"choose other settings."
    )
