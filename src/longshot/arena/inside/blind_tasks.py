"""Blind tasks: handed to a submission one by one, support first, queries only after it has fitted; answered, scored.

Scores are normalised accuracy and its companions per task, overall and by dataset, ways and shots.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from . import wire

# of the 95 % interval of a mean; None for one value
HalfWidth: TypeAlias = Callable[[Sequence[float]], float | None]
WIDEST = 0.5  # half width of an interval from guessing to no mistake: a wider one says nothing
METRICS = ("normalized_accuracy", "accuracy", "macro_f1", "macro_precision", "macro_recall")


@dataclass(frozen=True)
class Truth:
    """What scoring knows of a task."""

    dataset: str
    ways: int
    shots: int
    labels: NDArray[np.int64]  # [n] of the queries, in 0…N−1


@dataclass(frozen=True)
class TaskScore:
    """One task of a phase, answered."""

    dataset: str
    ways: int
    shots: int
    seconds: float
    scores: Mapping[str, float]


def labels_from(predicted: NDArray[Any], queries: int, ways: int) -> NDArray[np.int64]:
    """Return labels [n] from labels [n] or probabilities [n, N]; raise ValueError for anything else.

    A label outside 0…N−1 stays as it is: it is a mistake on that example, not a broken answer.
    """
    if predicted.shape == (queries, ways) and predicted.dtype.kind == "f":
        if not np.isfinite(predicted).all():
            bad = int((~np.isfinite(predicted)).sum())
            raise ValueError(f"{bad:,} of its {predicted.size:,} probabilities are NaN or infinite")
        return np.asarray(predicted.argmax(1), np.int64)
    if predicted.shape != (queries,):
        raise ValueError(
            f"it predicted an array of the shape {list(predicted.shape)}, [{queries}] labels or "
            f"[{queries}, {ways}] probabilities are needed"
        )
    if predicted.dtype.kind == "f":
        if not np.isfinite(predicted).all() or (predicted != np.round(predicted)).any():
            raise ValueError("its labels are not whole numbers")
        return np.asarray(np.clip(predicted, -1, ways), np.int64)
    return np.asarray(predicted, np.int64)


def score_task(predicted: NDArray[np.int64], truth: NDArray[np.int64], ways: int) -> dict[str, float]:
    """Compute the metrics of one task with N classes, all of them present in ``truth``.

    bac = mean over classes of recall; normalised = (bac − 1/N) / (1 − 1/N). A prediction outside 0…N−1 counts as
    wrong and adds no class of its own; precision of a class that is never predicted is 0, as its F1.
    """
    inside = (predicted >= 0) & (predicted < ways)
    table = np.zeros((ways, ways), np.int64)  # [true, predicted]
    np.add.at(table, (truth[inside], predicted[inside]), 1)
    right, actual, claimed = table.diagonal(), np.bincount(truth, minlength=ways), table.sum(0)
    recall = right / actual
    precision = np.divide(right, claimed, out=np.zeros(ways), where=claimed > 0)
    total = precision + recall
    f1 = np.divide(2 * precision * recall, total, out=np.zeros(ways), where=total > 0)
    return {
        "normalized_accuracy": float((recall.mean() - 1 / ways) / (1 - 1 / ways)),
        "accuracy": float(right.sum() / len(truth)),
        "macro_f1": float(f1.mean()),
        "macro_precision": float(precision.mean()),
        "macro_recall": float(recall.mean()),
    }


def score_answers(truths: Sequence[Truth], answers: Sequence[Mapping[str, Any]]) -> list[TaskScore]:
    """Score answers ({"predicted": labels [n], "seconds"}) in the order of their tasks."""
    return [
        TaskScore(
            truth.dataset,
            truth.ways,
            truth.shots,
            float(answer["seconds"]),
            score_task(
                labels_from(np.asarray(answer["predicted"]), len(truth.labels), truth.ways),
                truth.labels,
                truth.ways,
            ),
        )
        for truth, answer in zip(truths, answers, strict=True)
    ]


def summarize(tasks: Sequence[TaskScore], half_width: HalfWidth) -> dict[str, Any]:
    """Summarise mean, 95 % half width and number of tasks per metric: overall, by dataset, ways and shots."""

    def grouped(key: str) -> dict[str, Any]:
        values = sorted({getattr(task, key) for task in tasks})
        groups = {value: [task for task in tasks if getattr(task, key) == value] for value in values}
        return {str(value): _means(group, half_width) for value, group in groups.items()}

    return {
        "overall": _means(tasks, half_width),
        "by_dataset": grouped("dataset"),
        "by_ways": grouped("ways"),
        "by_shots": grouped("shots"),
        "seconds": float(sum(task.seconds for task in tasks)),
    }


def telling_half(values: Mapping[str, Any], metric: str) -> float | None:
    """Return the half width of a group's interval; None where there is none or it says nothing (0.55 ± 4.76)."""
    return telling(values[f"{metric}_ci95"])


def telling(half: float | None) -> float | None:
    """Return a half width; None where there is none or where it says nothing."""
    return None if half is None or half > WIDEST else float(half)


def student(factors: Mapping[int, float]) -> HalfWidth:
    """Return t(n) · s / √n, given the two-sided 95 % factors of Student's t by number of values."""

    def half_width(values: Sequence[float]) -> float | None:
        count = len(values)
        return None if count < 2 else float(factors[count] * np.std(values, ddof=1) / np.sqrt(count))

    return half_width


def _means(tasks: Sequence[TaskScore], half_width: HalfWidth) -> dict[str, Any]:
    """Mean of each metric with its Student-t interval over tasks; one task gives no interval."""
    out: dict[str, Any] = {"tasks": len(tasks)}
    for metric in METRICS:
        values = [task.scores[metric] for task in tasks]
        out[metric], out[f"{metric}_ci95"] = float(np.mean(values)), half_width(values)
    return out


class Channel(Protocol):
    """Both directions of the pipe to a submission; failures of the submission are raised."""

    def send(
        self, kind: str, fields: dict[str, Any] | None = None, **arrays: np.ndarray[Any, Any]
    ) -> None: ...

    def receive(self, kind: str) -> wire.Message: ...


@dataclass(frozen=True)
class BlindTask:
    """A test task without the labels of its queries; rows count in its dataset's images."""

    dataset: str
    ways: int
    shots: int
    seed: int
    support: np.ndarray[Any, Any]  # int64 [N·k] rows, in an order that says nothing
    support_label: np.ndarray[Any, Any]  # int64 [N·k] in 0…N−1
    query: np.ndarray[Any, Any]  # int64 [n] rows


NO_PREDICTION = "what it answered is no prediction: n labels or n × N probabilities are needed"


class BadAnswer(Exception):
    """The submission answered with something that is no prediction."""


def begin(channel: Channel, seed: int) -> float:
    """Let the submission meta-train; return the seconds it took."""
    begun = time.monotonic()  # our clock: what it says itself is not to be believed
    channel.send("begin", {"seed": seed})
    channel.receive("trained")
    return time.monotonic() - begun


def answer_all(
    channels: Callable[[], AbstractContextManager[Channel]],
    tasks: Sequence[BlindTask],
    pixels: Callable[[str], np.ndarray[Any, Any]],
    tick: Callable[[], None] = lambda: None,
) -> list[dict[str, Any]]:
    """Collect one answer per task: predicted labels [n] and the seconds from the start of its process.

    ``channels()`` opens the channel of one task and closes it with all that is behind it; ``pixels(dataset)`` gives
    uint8 [N, H, W, 3].
    """
    answers = []
    support = pixels(tasks[0].dataset)[tasks[0].support]
    for position, task in enumerate(tasks):
        begun = time.monotonic()
        try:
            with channels() as channel:
                fields = {"ways": task.ways, "shots": task.shots, "seed": task.seed}
                channel.send("task", fields, support=support, labels=task.support_label)
                query = pixels(task.dataset)[task.query]  # gathered while the submission fits
                channel.receive("fitted")
                channel.send("query", query=query)
                for following in tasks[position + 1 : position + 2]:  # and this while it predicts
                    support = pixels(following.dataset)[following.support]
                predicted = channel.receive("predicted").arrays.get("predicted")
            if predicted is None:
                raise ValueError("it sent no prediction")
            labels = labels_from(predicted, len(task.query), task.ways)
        except (ValueError, BadAnswer, wire.WireError) as error:
            raise BadAnswer(f"in task {position + 1} of {len(tasks)}, {error}") from error
        answers.append({"predicted": labels.tolist(), "seconds": time.monotonic() - begun})
        tick()
    return answers
