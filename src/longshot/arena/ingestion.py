"""One run of a submission: meta-train it in its box, hand it the hidden tasks one by one, score what comes back.

The organiser's process keeps all labels. A task's support goes in, the queries follow only after the learner has
fitted, and what comes back is an array that is checked before it is believed. Every task has a process of its own, or,
with ``isolation: run``, the one that meta-trained answers all of them.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from longshot.arena import sandbox
from longshot.arena.box import Box, BoxError
from longshot.arena.data import HiddenTask
from longshot.arena.difficulty import write_record
from longshot.arena.inside import drive
from longshot.arena.inside.scoring import score_answers, summarize
from longshot.arena.outcomes import RunOutcome
from longshot.arena.pages import details_page, run_title
from longshot.arena.settings import FREE, META, RUN, TASK, Competition, Phase
from longshot.base import atomic, progress, write_json, write_text
from longshot.statistics import mean_interval


class RunData(Protocol):
    """What a run reads: of the competition in this folder, or fetched from a server."""

    @property
    def competition(self) -> Competition: ...

    def training_files(self, phase: Phase) -> dict[str, Path]: ...

    def pixels(self, name: str) -> NDArray[np.uint8]: ...

    def test_tasks(self, phase: Phase, seed: int, submission: int | None = None) -> list[HiddenTask]: ...

    def private(self) -> list[Path]: ...


def run(
    data: RunData,
    phase: Phase,
    submission: Path,
    folder: Path,
    *,
    seed: int,
    league: str = FREE,
    submission_number: int | None = None,
    stop: threading.Event | None = None,
    trusted: bool = False,
    equipment: sandbox.Equipment = sandbox.BARE,
) -> RunOutcome:
    """Run the unpacked ``submission`` once; ``folder`` receives its log, answers.jsonl and its scores, also by task.

    A failure of the submission is a RunOutcome, not an exception. ``submission_number`` is that of an entry, whose
    tasks are its own where the competition draws per submission. ``stop`` ends the run from another thread. ``trusted``
    needs no sandbox and gives an unofficial result. The images are decoded before the submission's time begins: whoever
    runs first has as much of it as all others.
    """
    if not trusted:
        sandbox.require()
    folder.mkdir(parents=True, exist_ok=True)
    competition = data.competition
    tasks = data.test_tasks(phase, seed, submission_number)
    files, images = data.training_files(phase), {name: data.pixels(name) for name in phase.test}
    weights = sandbox.weight_files(equipment.environment) if league == META else ()
    start = time.monotonic()
    try:
        with (
            Box(
                submission,
                files,
                phase.limits,
                folder / "log.txt",
                hidden=(*data.private(), *weights),
                from_nothing=league == META,
                stop=stop,
                trusted=trusted,
                equipment=equipment,
            ) as box,
            progress("tasks", total=len(tasks), unit="tasks") as bar,
        ):
            with box.process(trains=True) as channel:
                training = drive.begin(channel, seed)
                if competition.isolation == RUN:  # the same process goes on
                    answers = drive.answer_all(
                        lambda: nullcontext(channel), tasks, images.__getitem__, lambda: bar.advance(1)
                    )
            if competition.isolation == TASK:
                answers = drive.answer_all(box.process, tasks, images.__getitem__, lambda: bar.advance(1))
    except BoxError as error:
        return RunOutcome(None, str(error), error.system)
    except drive.BadAnswer as error:
        return RunOutcome(None, str(error), drive.NO_PREDICTION)
    with atomic(folder / "answers.jsonl") as temporary:
        temporary.write_text("".join(json.dumps(answer) + "\n" for answer in answers), encoding="utf-8")
    timing = {"meta_training_seconds": training, "duration": time.monotonic() - start}
    scores = _score(data, phase, seed, tasks, answers, folder, {"official": not trusted, **timing})
    return RunOutcome(scores, None)


def score_run(data: RunData, phase: Phase, seed: int, submission: int, folder: Path) -> dict[str, Any]:
    """Score the answers.jsonl in ``folder`` anew and write what ``run`` writes; nothing of the submission runs.

    How long the run took is taken over from the scores.json before, where it is there.
    """
    text = (folder / "answers.jsonl").read_text(encoding="utf-8")
    answers = [json.loads(line) for line in text.splitlines() if line]
    before: dict[str, Any] = {}
    if (folder / "scores.json").is_file():
        before = json.loads((folder / "scores.json").read_text(encoding="utf-8"))
    names = {"official": True, "meta_training_seconds": 0.0, "duration": 0.0}
    facts = {name: before.get(name, value) for name, value in names.items()}
    return _score(data, phase, seed, data.test_tasks(phase, seed, submission), answers, folder, facts)


def _score(
    data: RunData,
    phase: Phase,
    seed: int,
    tasks: list[HiddenTask],
    answers: Sequence[Mapping[str, Any]],
    folder: Path,
    facts: Mapping[str, Any],
) -> dict[str, Any]:
    """Score answers and write scores.json, task_scores.json and the page of the run."""
    competition = data.competition
    scored = score_answers([task.truth for task in tasks], answers)
    write_record(folder, tasks, scored)
    scores = summarize(scored, lambda values: mean_interval(values).half)
    scores |= {
        "phase": phase.name,
        "seed": seed,
        "official": facts["official"],
        "isolation": competition.isolation,
        "pools": competition.pools,
        "draws": competition.draws,
        "meta_training_seconds": facts["meta_training_seconds"],
        "duration": facts["duration"],
    }
    write_text(folder / "detailed_results.html", details_page(run_title(folder), scores))
    write_json(folder / "scores.json", scores)
    return scores
