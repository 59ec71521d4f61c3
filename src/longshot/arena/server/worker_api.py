"""What workers elsewhere do: take runs, fetch what they read, and bring back what they wrote.

A worker needs neither the database nor other participants' data. What it may touch is the run that it holds: every
call names the attempt, and an attempt that is no longer this worker's changes nothing. Ends may be told twice.
"""

from __future__ import annotations

import json
import math
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import sqlalchemy as sa

from longshot.arena import queue
from longshot.arena.competition_data import Blob, RunFiles
from longshot.arena.database_tables import filled, runs, submissions, workers
from longshot.arena.environments import lent_weights
from longshot.arena.inside.wire import one_line, readable
from longshot.arena.policy import Person, Refusal, not_there, permit
from longshot.arena.queue import Claim, archive_path
from longshot.arena.result_pages import details_page
from longshot.arena.server.server_context import AttemptNumber, Line, LongText, Offset, ServerContext
from longshot.arena.server.submissions import live_log
from longshot.arena.submission_runs import publish_run, signs_of_life
from longshot.base import UserError, hash_file, write_json, write_text

FILES: dict[str, int] = {  # what a run may bring back → most bytes
    "log.txt": 4 << 20,
    "printed.txt": 4 << 20,
    "answers.jsonl": 64 << 20,
    "scores.json": 4 << 20,
    "task_scores.json": 64 << 20,
}
LIVE = 1 << 20  # bytes of a log while it runs
_WORKER = re.compile(r"[\w.:@-]{1,60}")


class Job(NamedTuple):
    """A run for a worker, and all that it must fetch."""

    run: int
    submission: int
    seed: int
    phase: str
    league: str
    attempt: int
    kind: str  # run; score: the answers are there and are scored anew
    lease: float  # seconds after which a silent worker loses the run
    archive: Blob | None  # none where nothing of it runs
    files: RunFiles


class WorkSettings(NamedTuple):
    """What a worker must know of the competition; no path, no database, no secret."""

    id: str
    settings: dict[str, Any]
    requirements: str
    weights: list[Blob]  # that every submission may read


def work_settings(context: ServerContext, person: Person) -> WorkSettings:
    """Return the competition's settings without what concerns this machine alone."""
    permit(person, "work.read")
    competition = context.competition
    settings = competition.model_dump(mode="json", exclude={"folder", "database", "server"})
    settings["datasets"] = dict.fromkeys(competition.datasets, "blob")
    file = context.folder / competition.requirements if competition.requirements else None
    requirements = file.read_text(encoding="utf-8") if file is not None and file.is_file() else ""
    lent = context.blobs.keep_folder(lent_weights(competition))
    return WorkSettings(context.id, settings, requirements, lent)


class Claiming(NamedTuple):
    """The next run; none where nothing waits, or not yet."""

    job: Job | None
    wait: str | None = None  # why a run that waits is not handed out yet


def claim_job(context: ServerContext, person: Person, *, worker: Line) -> Claiming:
    """Give the oldest waiting run to this worker; none while the disk is full or data are decoded."""
    permit(person, "work.claim")
    name = worker_name(person, worker)
    competition = context.competition
    try:
        context.room()
        waiting = sa.select(submissions.c.phase).join(runs, runs.c.submission == submissions.c.id).distinct()
        names = {row["phase"] for row in context.store.rows(waiting.where(runs.c.state == "queued"))}
        phases = [phase for phase in competition.phases if phase.name in names]
        ready = context.blobs.ready(competition, phases, wait=context.lease is not None)
        why = None if ready else "the competition's images are being decoded"
    except Refusal as error:
        why = error.fact
    except (UserError, OSError) as error:
        raise _no_data(error) from error
    if why is not None:
        with context.store.change() as connection:
            queue.sign(connection, name, "paused", why)
        return Claiming(None, why)
    claimed = queue.claim(context.store, name, math.inf if context.lease is None else context.lease)
    if claimed is None:
        return Claiming(None)
    lease = queue.LEASE if context.lease is None else context.lease
    try:
        with signs_of_life(lease / 4, lambda: queue.alive(context.store, claimed, name)):  # tasks are drawn
            phase = competition.phase(claimed.phase)
            files = context.blobs.files(competition, phase, claimed.seed, claimed.submission)
        archive = None if claimed.kind == "score" else archive_blob(context, claimed.submission)
        return Claiming(Job(*claimed, queue.LEASE, archive, files))
    except (UserError, OSError) as error:
        line = f"its data could not be handed out: {error}"
        queue.release(context.store, claimed, name, one_line(line), counted=False)
        raise _no_data(error) from error
    except BaseException:
        queue.release(context.store, claimed, name, "the server was stopped", counted=False)
        raise


def _no_data(error: Exception) -> Refusal:
    print(f"the competition's data: {error}", file=sys.stderr)
    return Refusal(503, "The competition's data cannot be handed out", "see the server's log", retry=30.0)


def held_claim(
    context: ServerContext, person: Person, action: str, run: int, attempt: int, worker: str
) -> Claim:
    """Return the claim of a run that this worker holds now; raise Refusal where it does not, whoever does."""
    permit(person, action)
    name = worker_name(person, worker)
    query = (
        sa.select(runs, submissions.c.phase, submissions.c.league)
        .join(submissions, submissions.c.id == runs.c.submission)
        .where(runs.c.id == run, runs.c.attempt == attempt, runs.c.worker == name, runs.c.state == "running")
    )
    rows = context.store.rows(query) if 0 < run < 2**31 else []
    if not rows:
        raise Refusal(409, "The run is not this worker's (any more).")
    return filled(Claim, rows[0], run=run)


def beat(
    context: ServerContext, person: Person, run: int, *, attempt: AttemptNumber, worker: Line
) -> dict[str, bool]:
    """Record a sign of life; not held when the run was cancelled, or another worker took it over."""
    permit(person, "work.write")
    claimed = Claim(run, 0, 0, "", "", attempt)
    return {"held": queue.alive(context.store, claimed, worker_name(person, worker))}


def archive_blob(context: ServerContext, submission: int) -> Blob:
    """Return a submission's archive by its hash."""
    path = archive_path(context.competition, submission) / "submission.zip"
    return Blob("submission.zip", hash_file(path), path.stat().st_size)


def archive_file(
    context: ServerContext, person: Person, run: int, *, attempt: AttemptNumber, worker: Line
) -> Path:
    """Return the archive of the submission that this worker runs, and of no other."""
    claimed = held_claim(context, person, "work.read", run, attempt, worker)
    return archive_path(context.competition, claimed.submission) / "submission.zip"


def answers_file(
    context: ServerContext, person: Person, run: int, *, attempt: AttemptNumber, worker: Line
) -> Path:
    """Return the answers of a run that is scored anew."""
    claimed = held_claim(context, person, "work.read", run, attempt, worker)
    path = archive_path(context.competition, claimed.submission) / f"seed-{claimed.seed}" / "answers.jsonl"
    if claimed.kind != "score" or not path.is_file():
        raise not_there("file", "of answers")
    return path


def append_log(
    context: ServerContext,
    person: Person,
    run: int,
    *,
    attempt: AttemptNumber,
    worker: Line,
    offset: Offset,
    data: bytes,
) -> dict[str, int]:
    """Append what a run printed since the last time; return the bytes that are there. Nothing in hidden phases."""
    claimed = held_claim(context, person, "work.write", run, attempt, worker)
    if context.competition.phase(claimed.phase).logs == "system":
        return {"bytes": 0}
    path = live_log(archive_path(context.competition, claimed.submission), claimed.seed, attempt)
    size = path.stat().st_size if path.is_file() else 0
    if offset != size or size >= LIVE:
        return {"bytes": size}
    with path.open("ab") as out:
        return {"bytes": size + out.write(data[: LIVE - size])}


def put_file(
    context: ServerContext,
    person: Person,
    run: int,
    *,
    attempt: AttemptNumber,
    worker: Line,
    name: str,
    data: bytes,
) -> None:
    """Store one file that a run wrote; it counts when the run's end is told."""
    claimed = held_claim(context, person, "work.write", run, attempt, worker)
    if name not in FILES:
        raise not_there("file", f"'{one_line(name, 40)}' among those that a run brings back")
    if len(data) > FILES[name]:
        raise Refusal(413, f"The file {name} has {len(data):,} bytes, at most {FILES[name]:,} are allowed.")
    folder = _attempt_folder(context, claimed)
    folder.mkdir(exist_ok=True, mode=0o700)
    target = folder / name
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".incoming-", delete=False) as out:
        out.write(data)
    Path(out.name).chmod(0o600 if name == "printed.txt" else 0o644)
    Path(out.name).rename(target)


def finish_job(
    context: ServerContext,
    person: Person,
    run: int,
    *,
    attempt: AttemptNumber,
    worker: Line,
    duration: float,
    reason: LongText | None = None,
) -> dict[str, bool]:
    """Record the end of a run, once; told again, it is held still. The score is read from scores.json."""
    permit(person, "work.write")
    name = worker_name(person, worker)
    done = (runs.c.id == run, runs.c.attempt == attempt, runs.c.worker == name)
    ended = sa.select(runs.c.id).where(*done, runs.c.state.in_(("scored", "failed")))
    if context.store.rows(ended):
        return {"held": True}
    claimed = held_claim(context, person, "work.write", run, attempt, worker)
    folder = _attempt_folder(context, claimed)
    folder.mkdir(exist_ok=True, mode=0o700)
    final = archive_path(context.competition, claimed.submission) / f"seed-{claimed.seed}"
    score, half = None, None
    if reason is None:
        scores = read_scores(folder / "scores.json")
        if claimed.kind == "score" and (final / "scores.json").is_file():
            before = read_scores(final / "scores.json")  # how long the run took is not the scorer's to say
            scores |= {name: before[name] for name in ("meta_training_seconds", "duration", "official")}
            write_json(folder / "scores.json", scores)
        overall = scores["overall"]
        score, half = overall["normalized_accuracy"], overall.get("normalized_accuracy_ci95")
        write_text(folder / "detailed_results.html", details_page(f"Submission {claimed.submission}", scores))
        if claimed.kind == "score" and (final / "log.txt").is_file():
            for kept_file in ("log.txt", "printed.txt", "answers.jsonl"):
                if (final / kept_file).is_file() and not (folder / kept_file).exists():
                    shutil.copy2(final / kept_file, folder / kept_file)

    def publish() -> None:
        publish_run(folder, final)
        for live in final.parent.glob(f"seed-{claimed.seed}.live-*.txt"):
            live.unlink(missing_ok=True)

    recorded = queue.finish(
        context.store,
        claimed,
        name,
        score=score,
        half=half,
        duration=duration if math.isfinite(duration) else 0.0,
        reason=None if reason is None else readable(reason)[:8000],
        publish=publish,
    )
    return {"held": recorded}


def release_job(
    context: ServerContext,
    person: Person,
    run: int,
    *,
    attempt: AttemptNumber,
    worker: Line,
    why: LongText,
    counted: bool,
) -> None:
    """Give an unfinished run back; ``counted``: this attempt failed by the platform's fault."""
    claimed = held_claim(context, person, "work.write", run, attempt, worker)
    queue.release(context.store, claimed, worker_name(person, worker), one_line(why), counted=counted)
    shutil.rmtree(_attempt_folder(context, claimed), ignore_errors=True)


def stop_worker(context: ServerContext, person: Person, *, worker: Line, why: Line = "") -> None:
    """Note that a worker ends by itself, or why it pauses."""
    permit(person, "work.write")
    with context.store.change() as connection:
        own = workers.update().where(workers.c.name == worker_name(person, worker))
        connection.execute(own.values(state="paused" if why else "stopped", why=one_line(why) or None))


def worker_name(person: Person, worker: str) -> str:
    """Put its token's number before a worker's name: no token can speak for another's worker."""
    if not _WORKER.fullmatch(worker):
        raise UserError("A worker's name has 1 to 60 letters, digits, dots, dashes, colons or at-signs.")
    return f"{person.token}/{worker}"


def read_scores(path: Path) -> dict[str, Any]:
    """Read scores.json of a run as it may be believed: the groups are there and their numbers are finite."""
    try:
        scores = json.loads(path.read_text(encoding="utf-8"))
        groups = [scores["overall"], *(group for key in _GROUPS for group in scores[key].values())]
        numbers = [value for group in groups for value in group.values() if value is not None]
        sound = all(isinstance(value, int | float) and math.isfinite(value) for value in numbers)
        sound = sound and all("normalized_accuracy" in group for group in groups)
        settings = [scores[key] for key in ("phase", "seed", "official", "meta_training_seconds", "duration")]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UserError(
            "The run's scores.json is missing or holds no scores", "bring it with the end"
        ) from error
    if not sound or len(settings) != 5:
        raise UserError(
            "The run's scores.json holds numbers that are not finite, and no run counts with those."
        )
    return dict(scores)


_GROUPS = ("by_dataset", "by_ways", "by_shots")


def _attempt_folder(context: ServerContext, claimed: Claim) -> Path:
    folder = archive_path(context.competition, claimed.submission)
    return folder / f"seed-{claimed.seed}.{claimed.run}-{claimed.attempt}"
