"""Entering submissions and handing their runs to workers, one worker each, whatever crashes in between."""

from __future__ import annotations

import math
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from longshot.arena import entry_rules, submission_check
from longshot.arena.database_tables import (
    ENDED,
    PLATFORM,
    facts,
    filled,
    now,
    runs,
    scores,
    scorings,
    submissions,
    workers,
)
from longshot.arena.settings import Competition, Phase
from longshot.arena.store import Store, note, read_secret
from longshot.arena.submission_check import unpack_any, write_zip
from longshot.base import UserError, hash_file

LEASE = 60.0  # seconds without a sign of life after which a worker counts as dead
ATTEMPTS = 2  # runs of one seed that may die with their worker: one retry, then it is the platform's error
PAUSED = "paused"  # the fact that says why no run is handed out


class Claim(NamedTuple):
    """A run that this worker, and no other, is to do."""

    run: int
    submission: int
    seed: int
    phase: str
    league: str
    attempt: int
    kind: str = "run"  # score: the answers are there already, and are scored anew


class Entry(NamedTuple):
    """What is known of a submission when it is taken."""

    phase: Phase
    league: str
    fact_sheet: str | None = None
    account: int | None = None
    job: str | None = None  # a name that one submission has, whoever asks how often


def archive_path(competition: Competition, submission: int) -> Path:
    """Return where a submission is stored, as ``submission.zip``, with what its runs wrote."""
    return competition.folder / "submissions" / f"{submission:06d}"


def run_folder(competition: Competition, submission: int, seed: int) -> Path:
    """Return where the log, the answers and the scores of a run lie."""
    return archive_path(competition, submission) / f"seed-{seed}"


def enter(
    competition: Competition,
    store: Store,
    source: Path,
    *,
    team: str,
    phase: str,
    league: str,
    fact_sheet: str | None = None,
    ranked: bool = True,
    pseudonym: str | None = None,
) -> int:
    """Take a submission into the queue and give its number.

    Its files are checked first; names, quotas and, in the final, what ``enter_final`` asks for are checked in the
    transaction that enters it.
    """
    entered = competition.phase(phase)
    entry_rules.check_open(entered)
    check_league(competition, league)
    name = entry_rules.tidy(team, "A team's name", entry_rules.LONGEST_NAME)
    if pseudonym is not None:
        pseudonym = entry_rules.tidy(pseudonym, "A pseudonym", entry_rules.LONGEST_PSEUDONYM)
    with staged(competition, source, league, source.name) as folder, alone(store) as connection:
        owner = entry_rules.team_number(connection, name, ranked, pseudonym)
        return admit(competition, connection, folder, owner, name, Entry(entered, league, fact_sheet))


def check_league(competition: Competition, league: str) -> None:
    """Raise UserError where there is no such league here."""
    if league not in competition.leagues:
        raise UserError(f"There is no league '{league}' here; there are: {', '.join(competition.leagues)}.")


def admit(
    competition: Competition, connection: Connection, folder: Path, team: int, name: str, entry: Entry
) -> int:
    """Enter a checked submission, whose files are in ``folder``, within the transaction of a writer alone."""
    entry_rules.check_quota(connection, team, entry.phase, entry.league, name)
    origin = None
    if entry.phase.name == competition.final.name:
        passed = entry_rules.check_final(competition, connection, team, entry.league, entry.fact_sheet, name)
        if passed is not None:
            entry = entry._replace(fact_sheet=passed.fact_sheet)
            original = archive_path(competition, passed.submission)
            origin = passed.submission if submission_check.same_files(folder, original) else None
    number = insert(competition, connection, team, entry, origin, folder / "submission.zip")
    target = archive_path(competition, number)
    if target.exists():  # left by an entry that was not committed
        shutil.rmtree(target)
    folder.rename(target)
    return number


def insert(
    competition: Competition,
    connection: Connection,
    team: int,
    entry: Entry,
    origin: int | None = None,
    archive: Path | None = None,
) -> int:
    """Insert a queued submission with one queued run per seed of its phase; return its number."""
    phase = entry.phase
    values: dict[str, Any] = {
        "team": team,
        "phase": phase.name,
        "league": entry.league,
        "created": now(),
        "state": "queued",
        "fact_sheet": entry.fact_sheet,
        "origin": origin,
        "account": entry.account,
        "job": entry.job,
        "target": entry_rules.target(competition, phase, read_secret(competition)),
        "version": scoring_version(connection, phase.name),
    }
    if archive is not None and archive.is_file():
        values |= {"sha256": hash_file(archive), "bytes": archive.stat().st_size}
    number = int(connection.execute(submissions.insert().values(**values)).inserted_primary_key[0])  # type: ignore[index]
    for seed in phase.seeds:
        connection.execute(runs.insert().values(submission=number, seed=seed, attempt=0, state="queued"))
    note(connection, number, f"entered into phase {phase.name}, league {entry.league}")
    return number


def scoring_version(connection: Connection, phase: str) -> int:
    """Return the version of a phase's scores: 1, and one more for every rescoring."""
    query = sa.select(sa.func.max(scorings.c.version)).where(scorings.c.phase == phase)
    return int(connection.execute(query).scalar() or 1)


def claim(store: Store, worker: str, lease: float = LEASE) -> Claim | None:
    """Give the oldest waiting run to this worker; None when nothing waits. Runs of dead workers wait again."""
    with alone(store) as connection:
        revive(connection, lease)
        sign(connection, worker, "idle")
        if connection.execute(sa.select(facts.c.value).where(facts.c.name == PAUSED)).first() is not None:
            return None
        waiting = (
            sa.select(runs, submissions.c.phase, submissions.c.league)
            .join(submissions, submissions.c.id == runs.c.submission)
            .where(runs.c.state == "queued")
            .order_by(runs.c.id)
            .limit(1)
        )
        row = connection.execute(waiting).mappings().first()
        if row is None:
            return None
        connection.execute(
            runs.update()
            .where(runs.c.id == row["id"])
            .values(state="running", worker=worker, seen=time.time(), attempt=row["attempt"] + 1)
        )
        sign(connection, worker, "running")
        own = submissions.update().where(submissions.c.id == row["submission"])
        connection.execute(own.values(state="running"))
        # Charged once, when the first of its runs begins.
        connection.execute(own.where(submissions.c.charged.is_(None)).values(charged=now()))
        note(connection, row["submission"], f"seed {row['seed']}: attempt {row['attempt'] + 1} began")
        return filled(Claim, dict(row), run=row["id"], attempt=row["attempt"] + 1)


def alive(store: Store, claimed: Claim, worker: str) -> bool:
    """Record a sign of life; False when the run is no longer this worker's."""
    with store.change() as connection:
        sign(connection, worker, "running")
        return connection.execute(_own(claimed, worker).values(seen=time.time())).rowcount == 1


def sign(connection: Connection, worker: str, state: str, why: str | None = None) -> None:
    """Note that a worker lives, and what it does; everybody sees it."""
    values: dict[str, Any] = {"seen": time.time(), "state": state, "why": why}
    known_name = workers.c.name == worker
    if connection.execute(workers.update().where(known_name).values(**values)).rowcount == 0:
        connection.execute(workers.insert().values(name=worker, **values))


def finish(
    store: Store,
    claimed: Claim,
    worker: str,
    *,
    score: float | None,
    duration: float,
    reason: str | None,
    half: float | None = None,
    publish: Callable[[], None] = lambda: None,
) -> bool:
    """Record the end of a run, once; False when it was no longer this worker's and nothing was recorded.

    ``publish`` puts the run's files in their place while no other worker can have the run: a crash before the end of
    the transaction leaves files of a run that is done again, never a score without files.
    """
    if score is not None and not math.isfinite(score):
        score, reason = None, "its score is not a finite number"
    half = None if half is None or not math.isfinite(half) else half
    state = "failed" if score is None else "scored"
    with alone(store) as connection:
        ended = _own(claimed, worker).values(state=state, score=score, half=half, duration=duration)
        if connection.execute(ended).rowcount != 1:
            return False
        publish()
        ending = f"failed: {reason}" if score is None else f"scored {score:.4f} in {duration:.1f} s"
        note(connection, claimed.submission, f"seed {claimed.seed}: {ending}")
        if score is not None:
            _record_score(connection, claimed, score, half)
        settle(connection, claimed.submission, reason)
    return True


def _record_score(connection: Connection, claimed: Claim, score: float, half: float | None) -> None:
    """Add a row to all scores there ever were, under the version and target that the submission has now."""
    columns = sa.select(submissions.c.version, submissions.c.target)
    row = connection.execute(columns.where(submissions.c.id == claimed.submission)).one()
    values = {"submission": claimed.submission, "seed": claimed.seed, "score": score, "half": half}
    connection.execute(scores.insert().values(**values, version=row[0], target=row[1], time=now()))


def release(store: Store, claimed: Claim, worker: str, why: str, *, counted: bool) -> None:
    """Give an unfinished run back: it waits again; where this attempt is ``counted`` and was the last, it ends.

    That is the platform's error then, and costs no quota.
    """
    with alone(store) as connection:
        again = not counted or claimed.attempt < ATTEMPTS
        values: dict[str, Any] = {"state": "queued" if again else PLATFORM, "worker": None}
        values["attempt"] = claimed.attempt if counted else claimed.attempt - 1
        if connection.execute(_own(claimed, worker).values(**values)).rowcount != 1:
            return
        waits = "; it waits again" if again else ""
        note(connection, claimed.submission, f"seed {claimed.seed}: {why}{waits}")
        if not again:
            settle(connection, claimed.submission, why)


def _own(claimed: Claim, worker: str) -> sa.Update:
    """Build a change of a run that is made only while this attempt of this worker has it."""
    attempt = (runs.c.id == claimed.run, runs.c.attempt == claimed.attempt)
    return runs.update().where(*attempt, runs.c.worker == worker, runs.c.state == "running")


def rerun(store: Store, number: int) -> None:
    """Put every run of an ended submission back into the queue."""
    submission = store.submission(number)
    with alone(store) as connection:
        ended = (submissions.c.id == number, submissions.c.state.in_(ENDED))
        values: dict[str, Any] = {"state": "queued", "reason": None, "score": None}
        if connection.execute(submissions.update().where(*ended).values(**values)).rowcount != 1:
            raise UserError(
                f"Submission {number} is {submission['state']}; only one that has ended can be run again."
            )
        requeue(connection, runs.c.submission == number)
        note(connection, number, "put back into the queue")


def requeue(connection: Connection, which: sa.ColumnElement[bool], kind: str = "run") -> None:
    """Let runs wait again as if they had never begun."""
    again: dict[str, Any] = {"state": "queued", "score": None, "half": None, "worker": None, "attempt": 0}
    connection.execute(runs.update().where(which).values(**again, kind=kind))


def cancel(store: Store, number: int, who: str) -> str:
    """End a submission that waits or runs; gives the state it was in. UserError where it has ended already.

    One that had not begun costs no quota. Its worker hears of it with its next sign of life and ends the box.
    """
    submission = store.submission(number)
    with alone(store) as connection:
        going = (submissions.c.id == number, submissions.c.state.in_(("queued", "running")))
        row = connection.execute(sa.select(submissions.c.state).where(*going)).first()
        if row is None:
            raise UserError(
                f"Submission {number} is {submission['state']}; only one that waits or runs can be cancelled."
            )
        values: dict[str, Any] = {"state": "cancelled", "reason": f"cancelled by {who}"}
        connection.execute(submissions.update().where(*going).values(**values))
        unfinished = (runs.c.submission == number, runs.c.state.in_(("queued", "running")))
        connection.execute(runs.update().where(*unfinished).values(state="cancelled", worker=None))
        note(connection, number, f"cancelled by {who} while it was {row[0]}")
        return str(row[0])


def settle(connection: Connection, number: int, reason: str | None) -> None:
    """Give a submission its state: failed with the first failed run, scored (by the worst seed) with the last.

    The platform's error is refunded, once: the charge is taken back with the state that says so.
    """
    every_run = sa.select(runs.c.state, runs.c.score).where(runs.c.submission == number)
    ends = connection.execute(every_run).all()
    states = [state for state, _ in ends]
    changed: dict[str, Any] | None = None
    failure = next((state for state in ("failed", PLATFORM) if state in states), None)
    if failure is not None:
        changed = {"state": failure, "reason": reason}
        if failure == PLATFORM:
            changed |= {"reason": f"platform error: {reason}; it costs no quota", "charged": None}
        waiting = (runs.c.submission == number, runs.c.state == "queued")
        connection.execute(runs.update().where(*waiting).values(state=failure))  # no use in the other seeds
    elif all(state == "scored" for state in states):
        changed = {"state": "scored", "score": min(score for _, score in ends)}
    if changed is not None:
        unsettled = (submissions.c.id == number, submissions.c.state.in_(("queued", "running")))
        connection.execute(submissions.update().where(*unsettled).values(**changed))


@contextmanager
def alone(store: Store) -> Iterator[Connection]:
    """Open one transaction of one writer at a time: SQLite queues them by itself, PostgreSQL is asked to.

    Otherwise the last two seeds of a submission, ending at once, would each see the other as running.
    """
    with store.change() as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(sa.text("LOCK TABLE runs IN EXCLUSIVE MODE"))
        yield connection


@contextmanager
def staged(
    competition: Competition, source: Path, league: str, name: str, *, link: bool = False
) -> Iterator[Path]:
    """Check the submission and copy it to where a rename takes it into its place: nobody waits for the copying.

    The copy is checked, not what it was copied from, which may change meanwhile. What fails uses no quota. ``link``:
    the file is the server's own and need not be copied. Errors call it ``name``.
    """
    submission_check.check_size(source)
    archives = competition.folder / "submissions"
    archives.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=".incoming-", dir=archives))
    try:
        folder.chmod(0o755)
        copy = folder / "submission.zip"
        if source.is_dir():
            with tempfile.TemporaryDirectory(prefix="longshot-enter-") as temporary:
                write_zip(unpack_any(source, Path(temporary, "submission")), copy)
        elif link:
            copy.hardlink_to(source)
        else:
            shutil.copyfile(source, copy)
        submission_check.check_files(copy, league, name)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def grace(connection: Connection) -> None:
    """Let the leases of all runs begin anew: the server or its database was away, and nobody could give a sign."""
    connection.execute(runs.update().where(runs.c.state == "running").values(seen=time.time()))


def revive(connection: Connection, lease: float) -> None:
    """Return runs whose worker gave no sign of life to the queue; those that died too often end as platform errors."""
    silent = sa.select(runs).where(runs.c.state == "running", runs.c.seen < time.time() - lease)
    for row in connection.execute(silent).mappings().all():
        again = row["attempt"] < ATTEMPTS
        unchanged = (runs.c.id == row["id"], runs.c.state == "running", runs.c.seen == row["seen"])
        state = "queued" if again else PLATFORM
        if connection.execute(runs.update().where(*unchanged).values(state=state, worker=None)).rowcount != 1:
            continue
        fate = "its worker died" + ("; it waits again" if again else f" {ATTEMPTS} times")
        note(connection, row["submission"], f"seed {row['seed']}: {fate}")
        if not again:
            settle(connection, row["submission"], f"the process that ran it died {ATTEMPTS} times")
