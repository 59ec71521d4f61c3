"""One run of a submission: meta-train it in its box, hand it the hidden tasks one by one, score what comes back.

The organiser's process keeps all labels. A task's support goes in, the queries follow only after the learner has
fitted, and what comes back is an array that is checked before it is believed.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from longshot.competition import leagues, sandbox
from longshot.competition.box import Box, BoxError
from longshot.competition.data import Data, HiddenTask
from longshot.competition.scoring import TaskScore, labels_from, score_task, summarize
from longshot.competition.settings import Phase
from longshot.files import atomic, write_json
from longshot.progress import progress


@dataclass(frozen=True)
class Outcome:
    """How a run ended: ``scores`` of a run that went through, else the ``reason`` it failed."""

    scores: dict[str, Any] | None
    reason: str | None


def run(
    data: Data,
    phase: Phase,
    submission: Path,
    folder: Path,
    *,
    seed: int,
    league: str = leagues.FREE,
    slot: int = 0,
    trusted: bool = False,
) -> Outcome:
    """Run the unpacked ``submission`` once; ``folder`` receives log.txt, answers.jsonl and scores.json.

    A failure of the submission is an Outcome, not an exception. ``trusted`` needs no sandbox and gives an
    unofficial result.
    """
    if not trusted:
        sandbox.require()
    folder.mkdir(parents=True, exist_ok=True)
    tasks = data.test_tasks(phase, seed)
    hidden = sandbox.weight_files() if league == leagues.META else ()
    start = time.monotonic()
    try:
        with Box(
            submission,
            data.training_files(phase),
            phase.limits,
            folder / "log.txt",
            slot=slot,
            hidden=hidden,
            trusted=trusted,
        ) as box:
            box.send("begin", {"seed": seed})
            training = float(box.receive("trained").fields.get("seconds", 0.0))
            answers = _answer_all(box, data, tasks)
            box.send("end")
    except BoxError as error:
        return Outcome(None, str(error))
    with atomic(folder / "answers.jsonl") as temporary:
        temporary.write_text("".join(json.dumps(answer) + "\n" for answer in answers), encoding="utf-8")
    scores = summarize(score_answers(tasks, answers))
    scores |= {
        "phase": phase.name,
        "seed": seed,
        "official": not trusted,
        "meta_training_seconds": training,
        "duration": time.monotonic() - start,
    }
    write_json(folder / "scores.json", scores)
    return Outcome(scores, None)


def _answer_all(box: Box, data: Data, tasks: list[HiddenTask]) -> list[dict[str, Any]]:
    answers = []
    with progress("tasks", total=len(tasks), unit="tasks") as bar:
        for position, task in enumerate(tasks):
            pixels = data.pixels(task.dataset)
            begun = time.monotonic()
            fields = {"ways": task.ways, "shots": task.shots, "seed": task.seed}
            box.send("task", fields, support=pixels[task.support], labels=task.support_label)
            box.receive("fitted")
            box.send("query", query=pixels[task.query])
            predicted = box.receive("predicted").arrays.get("predicted")
            try:
                if predicted is None:
                    raise ValueError("it sent no prediction")
                labels = labels_from(predicted, len(task.query), task.ways)
            except ValueError as error:
                raise BoxError(f"in task {position + 1} of {len(tasks)}, {error}") from error
            answers.append({"predicted": labels.tolist(), "seconds": time.monotonic() - begun})
            bar.advance(1)
    return answers


def score_answers(tasks: list[HiddenTask], answers: list[dict[str, Any]]) -> list[TaskScore]:
    """The scores of answers in the order of their tasks."""
    import numpy as np

    scored = []
    for task, answer in zip(tasks, answers, strict=True):
        values = score_task(np.asarray(answer["predicted"], np.int64), task.query_label, task.ways)
        scored.append(TaskScore(task.dataset, task.ways, task.shots, float(answer["seconds"]), values))
    return scored
