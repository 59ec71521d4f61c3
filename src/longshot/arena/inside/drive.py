"""Handing tasks to a submission and taking its answers: support first, queries only after it has fitted."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from . import scoring, wire


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
    """Have the submission meta-trained; gives the seconds it took."""
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
    """One answer per task: predicted labels [n] and the seconds it took, from the start of its process.

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
            labels = scoring.labels_from(predicted, len(task.query), task.ways)
        except (ValueError, BadAnswer, wire.WireError) as error:
            raise BadAnswer(f"in task {position + 1} of {len(tasks)}, {error}") from error
        answers.append({"predicted": labels.tolist(), "seconds": time.monotonic() - begun})
        tick()
    return answers
