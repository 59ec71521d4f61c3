"""Runs of submissions: trained in a box, handed the hidden tasks one by one, scored; and the worker that does them.

The organiser's process keeps all labels. A task's support goes in, the queries follow only after the learner has
fitted, and what comes back is an array that is checked before it is believed. Every task has a process of its own, or,
with ``isolation: run``, the one that meta-trained answers all of them. An attempt works in a folder of its own, which
takes its place as ``seed-N`` in the transaction that records the end. So a worker that dies leaves nothing that counts,
and one that is only late cannot touch its successor's files.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from longshot.arena import sandbox, submission_check
from longshot.arena.box import Box, BoxError
from longshot.arena.competition_data import CompetitionData, HiddenTask
from longshot.arena.inside import blind_tasks
from longshot.arena.inside.blind_tasks import score_answers, summarize
from longshot.arena.inside.wire import one_line
from longshot.arena.queue import Claim
from longshot.arena.result_pages import details_page, run_title, write_record
from longshot.arena.settings import FREE, META, RUN, TASK, Competition, Phase
from longshot.arena.submission_check import unpack
from longshot.base import Face, UserError, atomic, progress, write_json, write_text
from longshot.statistics import mean_interval


@dataclass(frozen=True)
class RunOutcome:
    """``scores`` of a run that went through, else the ``reason`` it failed.

    ``system`` is the reason without anything of the submission's making, for phases whose data are hidden.
    """

    scores: dict[str, Any] | None
    reason: str | None
    system: str | None = None


class SubmissionFailed(UserError):
    """A submission's own words, such as its traceback: shown as they are, whatever braces they hold."""

    def render(self, face: Face) -> str:
        return self.template


def run(
    data: CompetitionData,
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
    weights: tuple[Path, ...] = ()
    if league == META:
        weights = sandbox.weight_files(equipment.environment)
        equipment = replace(equipment, weights=None)

    def answers_of(
        channels: Callable[[], AbstractContextManager[blind_tasks.Channel]],
    ) -> list[dict[str, Any]]:
        """Hand out the tasks; the time left is that of tasks, for meta-training is over."""
        with progress("tasks", total=len(tasks), unit="tasks") as bar:
            return blind_tasks.answer_all(channels, tasks, images.__getitem__, lambda: bar.advance(1))

    start = time.monotonic()
    try:
        with Box(
            submission,
            files,
            phase.limits,
            folder / "log.txt",
            hidden=(*data.private(), *weights),
            from_nothing=league == META,
            stop=stop,
            trusted=trusted,
            equipment=equipment,
        ) as box:
            with box.process(trains=True) as channel:
                training = blind_tasks.begin(channel, seed)
                if competition.isolation == RUN:  # the same process goes on
                    answers = answers_of(lambda: nullcontext(channel))
            if competition.isolation == TASK:
                answers = answers_of(box.process)
    except BoxError as error:
        return RunOutcome(None, str(error), error.system)
    except blind_tasks.BadAnswer as error:
        return RunOutcome(None, str(error), blind_tasks.NO_PREDICTION)
    with atomic(folder / "answers.jsonl") as temporary:
        temporary.write_text("".join(json.dumps(answer) + "\n" for answer in answers), encoding="utf-8")
    timing = {"meta_training_seconds": training, "duration": time.monotonic() - start}
    scores = _score(data, phase, seed, tasks, answers, folder, {"official": not trusted, **timing})
    return RunOutcome(scores, None)


def score_run(
    data: CompetitionData, phase: Phase, seed: int, submission: int, folder: Path
) -> dict[str, Any]:
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
    data: CompetitionData,
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
    marked = {name: getattr(competition, name) for name in ("isolation", "pools", "draws")}
    scores |= {"phase": phase.name, "seed": seed, **marked, **facts}
    write_text(folder / "detailed_results.html", details_page(run_title(folder), scores))
    write_json(folder / "scores.json", scores)
    return scores


MOST = 8000  # letters of a failure in the participant's log


def outcome(
    competition: Competition,
    data: CompetitionData,
    claimed: Claim,
    source: Path,
    folder: Path,
    stop: threading.Event,
    equipment: sandbox.Equipment,
) -> RunOutcome:
    """Unpack, check, run; every failure of the submission is a RunOutcome, with its reason at the end of the log."""
    try:
        code = unpack(source, folder / "code")
        submission_check.check_code(code, claimed.league, f"{claimed.submission}")
    except UserError as error:
        ended = RunOutcome(None, str(error))
    else:
        phase = competition.phase(claimed.phase)
        ended = run(
            data,
            phase,
            code,
            folder,
            seed=claimed.seed,
            league=claimed.league,
            submission_number=claimed.submission,
            stop=stop,
            equipment=equipment,
        )
    shutil.rmtree(folder / "code", ignore_errors=True)
    return _logged(ended, folder, hidden=competition.phase(claimed.phase).logs == "system")


def _logged(ended: RunOutcome, folder: Path, *, hidden: bool) -> RunOutcome:
    """Write the participant's log.txt, and give the outcome as it may be told.

    ``hidden``: what it printed, and its own words on why it failed, go into printed.txt for the organiser alone.
    Otherwise they stand in the log, each line marked, so that none of them passes for a system message.
    """
    log, printed = folder / "log.txt", folder / "printed.txt"
    text = log.read_text(encoding="utf-8") if log.is_file() else ""
    if hidden:
        if text or (ended.system is not None and ended.reason != ended.system):
            with os.fdopen(os.open(printed, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="utf-8") as out:
                out.write(text if ended.reason is None else f"{text}\nfailed: {ended.reason}\n")
        ended = RunOutcome(ended.scores, ended.system or ended.reason)
        text = ""
    ending = "scored" if ended.reason is None else f"failed: {ended.reason}"
    lines = [f"| {line}\n" for line in text.splitlines()]
    write_text(log, "".join([*lines, f"{one_line(ending, MOST)}\n"]))
    return ended


def publish_run(folder: Path, final: Path) -> None:
    """Put an attempt's folder in its place; what other attempts left behind goes."""
    if not folder.exists():  # the end was recorded already when the database last failed to answer
        return
    shutil.rmtree(final, ignore_errors=True)
    folder.chmod(0o755)
    folder.rename(final)
    for abandoned in final.parent.glob(f"{final.name}.*"):
        shutil.rmtree(abandoned, ignore_errors=True)


@contextmanager
def signs_of_life(every: float, alive: Callable[[], bool]) -> Iterator[threading.Event]:
    """Ask ``alive`` every few seconds; the event is set when it says that the run is no longer this worker's."""
    end, taken_over = threading.Event(), threading.Event()

    def signal() -> None:
        while not end.wait(every):
            try:
                if not alive():
                    taken_over.set()
                    return
            except (sa.exc.SQLAlchemyError, UserError):  # busy or restarting: the next sign may get through
                continue

    thread = threading.Thread(target=signal, daemon=True)
    thread.start()
    try:
        yield taken_over
    finally:
        end.set()
        thread.join()


def runner_failed(error: Exception) -> str:
    """Say in short that the runner failed, honestly or not by the submission's doing; print it for the organiser."""
    for line in traceback.format_exception(error):
        for part in line.splitlines():  # marked: none of it passes for a line of the log
            print(f"  | {one_line(part)}", file=sys.stderr)
    return f"the runner failed ({type(error).__name__})"
