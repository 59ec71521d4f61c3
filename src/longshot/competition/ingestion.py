"""One run of a submission: meta-train it in its box, hand it the hidden tasks one by one, score what comes back.

The organiser's process keeps all labels. A task's support goes in, the queries follow only after the learner has
fitted, and what comes back is an array that is checked before it is believed. Every task has a process of its own, or,
with ``isolation: run``, the one that meta-trained answers all of them.
"""

from __future__ import annotations

import json
import threading
import time
from contextlib import nullcontext
from pathlib import Path

from longshot.competition import leagues, sandbox
from longshot.competition.box import Box, BoxError
from longshot.competition.data import CompetitionData
from longshot.competition.difficulty import write_record
from longshot.competition.inside import drive
from longshot.competition.inside.scoring import score_answers, summarize
from longshot.competition.outcomes import RunOutcome
from longshot.competition.pages import details_page, run_title
from longshot.competition.settings import RUN, TASK, Phase
from longshot.core.files import atomic, write_json, write_text
from longshot.core.progress import progress
from longshot.statistics.intervals import mean_interval


def run(
    data: CompetitionData,
    phase: Phase,
    submission: Path,
    folder: Path,
    *,
    seed: int,
    league: str = leagues.FREE,
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
    weights = sandbox.weight_files(equipment.environment) if league == leagues.META else ()
    start = time.monotonic()
    try:
        with (
            Box(
                submission,
                files,
                phase.limits,
                folder / "log.txt",
                hidden=(*data.private(), *weights),
                from_nothing=league == leagues.META,
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
    scored = score_answers([task.truth for task in tasks], answers)
    write_record(folder, tasks, scored)
    scores = summarize(scored, lambda values: mean_interval(values).half)
    scores |= {
        "phase": phase.name,
        "seed": seed,
        "official": not trusted,
        "isolation": competition.isolation,
        "pools": competition.pools,
        "draws": competition.draws,
        "meta_training_seconds": training,
        "duration": time.monotonic() - start,
    }
    write_text(folder / "detailed_results.html", details_page(run_title(folder), scores))
    write_json(folder / "scores.json", scores)
    return RunOutcome(scores, None)
