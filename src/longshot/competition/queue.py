"""Entering submissions and handing their runs to workers, one worker each, whatever crashes in between."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from longshot.competition import check, rules
from longshot.competition.archive import unpack_any
from longshot.competition.settings import Competition, Phase
from longshot.competition.store import Store, note, now, runs, submissions
from longshot.core.errors import UserError

LEASE = 60.0  # seconds without a sign of life after which a worker counts as dead
ATTEMPTS = 3  # runs of one seed that may die with their worker before the submission is given up


class Claim(NamedTuple):
    """A run that this worker, and no other, is to do."""

    run: int
    submission: int
    seed: int
    phase: str
    league: str
    attempt: int


def archive_path(competition: Competition, submission: int) -> Path:
    """Where a submission is kept as it came: ``submission.zip``, or a folder of that name."""
    return competition.folder / "submissions" / f"{submission:06d}"


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
    rules.check_open(entered)
    if league not in competition.leagues:
        raise UserError(f"There is no league '{league}' here; there are: {', '.join(competition.leagues)}.")
    name = rules.tidy(team, "A team's name", rules.LONGEST_NAME)
    if pseudonym is not None:
        pseudonym = rules.tidy(pseudonym, "A pseudonym", rules.LONGEST_PSEUDONYM)
    with _staged(competition, source, league) as staged, alone(store) as connection:
        owner = rules.team_number(connection, name, ranked, pseudonym)
        rules.check_quota(connection, owner, entered, league, name)
        origin = None
        if entered.name == competition.final.name:
            passed = rules.check_final(competition, connection, owner, league, fact_sheet, name)
            if passed is not None:
                fact_sheet = passed.fact_sheet
                original = archive_path(competition, passed.submission)
                origin = passed.submission if check.same_files(staged, original) else None
        number = insert(connection, owner, entered, league, fact_sheet, origin)
        target = archive_path(competition, number)
        if target.exists():  # left by an entry that was not committed
            shutil.rmtree(target)
        staged.rename(target)
    return number


def insert(
    connection: Connection,
    team: int,
    phase: Phase,
    league: str,
    fact_sheet: str | None = None,
    origin: int | None = None,
) -> int:
    """A queued submission with one queued run per seed of its phase."""
    values = {"team": team, "phase": phase.name, "league": league, "created": now(), "state": "queued"}
    inserted = submissions.insert().values(**values, fact_sheet=fact_sheet, origin=origin)
    number = int(connection.execute(inserted).inserted_primary_key[0])  # type: ignore[index]
    for seed in phase.seeds:
        connection.execute(runs.insert().values(submission=number, seed=seed, attempt=0, state="queued"))
    note(connection, number, f"entered into phase {phase.name}, league {league}")
    return number


def claim(store: Store, worker: str, lease: float = LEASE) -> Claim | None:
    """The oldest waiting run, now this worker's; None when nothing waits. Runs of dead workers are waiting again."""
    with alone(store) as connection:
        _revive(connection, lease)
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
        connection.execute(
            submissions.update().where(submissions.c.id == row["submission"]).values(state="running")
        )
        note(connection, row["submission"], f"seed {row['seed']}: attempt {row['attempt'] + 1} began")
        return Claim(
            row["id"], row["submission"], row["seed"], row["phase"], row["league"], row["attempt"] + 1
        )


def alive(store: Store, claimed: Claim, worker: str) -> bool:
    """A sign of life; False when the run is no longer this worker's."""
    with store.change() as connection:
        return connection.execute(_own(claimed, worker).values(seen=time.time())).rowcount == 1


def finish(
    store: Store,
    claimed: Claim,
    worker: str,
    *,
    score: float | None,
    duration: float,
    reason: str | None,
    publish: Callable[[], None] = lambda: None,
) -> bool:
    """Record the end of a run, once; False when it was no longer this worker's and nothing was recorded.

    ``publish`` puts the run's files in their place while no other worker can have the run: a crash before the end of
    the transaction leaves files of a run that is done again, never a score without files.
    """
    state = "failed" if score is None else "scored"
    with alone(store) as connection:
        ended = _own(claimed, worker).values(state=state, score=score, duration=duration)
        if connection.execute(ended).rowcount != 1:
            return False
        publish()
        ending = f"failed: {reason}" if score is None else f"scored {score:.4f} in {duration:.1f} s"
        note(connection, claimed.submission, f"seed {claimed.seed}: {ending}")
        _settle(connection, claimed.submission, reason)
    return True


def release(store: Store, claimed: Claim, worker: str, why: str, *, counted: bool) -> None:
    """Give an unfinished run back: it waits again, or fails where this attempt is ``counted`` and was the last."""
    with alone(store) as connection:
        again = not counted or claimed.attempt < ATTEMPTS
        values: dict[str, Any] = {"state": "queued" if again else "failed", "worker": None}
        values["attempt"] = claimed.attempt if counted else claimed.attempt - 1
        if connection.execute(_own(claimed, worker).values(**values)).rowcount != 1:
            return
        waits = "; it waits again" if again else ""
        note(connection, claimed.submission, f"seed {claimed.seed}: {why}{waits}")
        if not again:
            _settle(connection, claimed.submission, why)


def _own(claimed: Claim, worker: str) -> sa.Update:
    """A change of a run that is made only while this attempt of this worker has it."""
    attempt = (runs.c.id == claimed.run, runs.c.attempt == claimed.attempt)
    return runs.update().where(*attempt, runs.c.worker == worker, runs.c.state == "running")


def rerun(store: Store, number: int) -> None:
    """Put every run of an ended submission back into the queue."""
    submission = store.submission(number)
    with alone(store) as connection:
        ended = (submissions.c.id == number, submissions.c.state.in_(("scored", "failed")))
        values: dict[str, Any] = {"state": "queued", "reason": None, "score": None}
        if connection.execute(submissions.update().where(*ended).values(**values)).rowcount != 1:
            raise UserError(
                f"Submission {number} is {submission['state']}; only one that has ended can be run again."
            )
        again: dict[str, Any] = {"state": "queued", "score": None, "worker": None, "attempt": 0}
        connection.execute(runs.update().where(runs.c.submission == number).values(**again))
        note(connection, number, "put back into the queue")


def _settle(connection: Connection, number: int, reason: str | None) -> None:
    """Give a submission its state: failed with the first failed run, scored (by the worst seed) with the last."""
    every_run = sa.select(runs.c.state, runs.c.score).where(runs.c.submission == number)
    ends = connection.execute(every_run).all()
    states = [state for state, _ in ends]
    changed: dict[str, Any] | None = None
    if "failed" in states:
        changed = {"state": "failed", "reason": reason}
        waiting = (runs.c.submission == number, runs.c.state == "queued")
        connection.execute(runs.update().where(*waiting).values(state="failed"))  # no use in the other seeds
    elif all(state == "scored" for state in states):
        changed = {"state": "scored", "score": min(score for _, score in ends)}
    if changed is not None:
        unsettled = (submissions.c.id == number, submissions.c.state != "failed")
        connection.execute(submissions.update().where(*unsettled).values(**changed))


@contextmanager
def alone(store: Store) -> Iterator[Connection]:
    """One transaction of one writer at a time: SQLite has them queue by itself, PostgreSQL is told to.

    Otherwise the last two seeds of a submission, ending at once, would each see the other as running.
    """
    with store.change() as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(sa.text("LOCK TABLE runs IN EXCLUSIVE MODE"))
        yield connection


@contextmanager
def _staged(competition: Competition, source: Path, league: str) -> Iterator[Path]:
    """The submission, checked and copied to where a rename takes it into its place: nobody waits for the copying.

    The copy is checked, not what it was copied from, which may change meanwhile. What fails uses no quota.
    """
    check.check_size(source)
    archives = competition.folder / "submissions"
    archives.mkdir(parents=True, exist_ok=True)
    staged = Path(tempfile.mkdtemp(prefix=".incoming-", dir=archives))
    try:
        staged.chmod(0o755)
        copy = staged / ("submission" if source.is_dir() else "submission.zip")
        if source.is_dir():
            unpack_any(source, copy)
        else:
            shutil.copyfile(source, copy)
        check.check_files(copy, league, source.name)
        yield staged
    finally:
        shutil.rmtree(staged, ignore_errors=True)


def _revive(connection: Connection, lease: float) -> None:
    """Runs whose worker gave no sign of life wait again, or fail after too many deaths."""
    silent = sa.select(runs).where(runs.c.state == "running", runs.c.seen < time.time() - lease)
    for row in connection.execute(silent).mappings().all():
        again = row["attempt"] < ATTEMPTS
        unchanged = (runs.c.id == row["id"], runs.c.state == "running", runs.c.seen == row["seen"])
        state = "queued" if again else "failed"
        if connection.execute(runs.update().where(*unchanged).values(state=state, worker=None)).rowcount != 1:
            continue
        fate = "its worker died" + ("; it waits again" if again else f" {ATTEMPTS} times")
        note(connection, row["submission"], f"seed {row['seed']}: {fate}")
        if not again:
            _settle(connection, row["submission"], f"the process that ran it died {ATTEMPTS} times")
