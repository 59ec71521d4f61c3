"""What organisers do: announce, score anew, use the trash, hold the final, pause, look back, export everything."""

from __future__ import annotations

import csv
import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import sqlalchemy as sa

from longshot.arena import entry_rules, queue
from longshot.arena.database_tables import (
    announcements,
    audit,
    facts,
    filled,
    metadata,
    now,
    runs,
    scores,
    scorings,
    submissions,
    teams,
)
from longshot.arena.inside.wire import readable
from longshot.arena.policy import Person, Refusal, not_there, permit
from longshot.arena.ranking import FinalEntry, enter_final
from longshot.arena.server import worker_api
from longshot.arena.server.boards import find_phase
from longshot.arena.server.server_context import RowNumber, ServerContext, record
from longshot.arena.server.submissions import SubmissionView, own_row, read_submission
from longshot.arena.settings import FILE
from longshot.arena.store import note, read_secret
from longshot.base import UserError

TITLE, TEXT = 200, 20_000  # letters of an announcement


class Announcement(NamedTuple):
    """What organisers tell everybody; plain text."""

    id: int
    time: str  # UTC
    title: str
    text: str
    deleted: str | None


class Rescoring(NamedTuple):
    """A version of a phase's scores."""

    phase: str
    version: int
    target: str  # hash of the tasks
    kind: str  # run: submissions run again; score: their answers are scored anew
    reason: str
    time: str
    submissions: int  # that are concerned
    remaining: int  # that wait or run


class AuditLine(NamedTuple):
    """Something that somebody did."""

    id: int
    time: str
    who: str
    action: str
    object: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None


class ScoreVersion(NamedTuple):
    """A score that a submission has or had."""

    seed: int
    version: int
    target: str | None
    score: float
    half: float | None
    time: str


class Trash(NamedTuple):
    """What was deleted and can be brought back."""

    submissions: list[int]
    announcements: list[Announcement]
    teams: list[tuple[int, str]]


def announce(context: ServerContext, person: Person, *, title: str, text: str) -> Announcement:
    """Tell everybody something."""
    permit(person, "announcement.write")
    heading, body = readable(title).strip(), readable(text).strip()
    if not 1 <= len(heading) <= TITLE or not 1 <= len(body) <= TEXT:
        raise UserError(
            f"An announcement has a title of 1 to {TITLE} letters and a text of 1 to {TEXT:,}; this one has "
            f"{len(heading)} and {len(body):,}."
        )
    with context.store.change() as connection:
        values = {"time": now(), "account": person.account, "title": heading, "text": body}
        number = int(connection.execute(announcements.insert().values(**values)).inserted_primary_key[0])  # type: ignore[index]
        record(connection, person, "announcement.create", f"announcement {number}", after={"title": heading})
    return Announcement(number, values["time"], heading, body, None)  # type: ignore[arg-type]


def list_announcements(context: ServerContext, person: Person, *, trash: bool = False) -> list[Announcement]:
    """List announcements, newest first; those in the trash for organisers."""
    permit(person, "announcement.write" if trash else "announcements.read")
    where = announcements.c.deleted.is_not(None) if trash else announcements.c.deleted.is_(None)
    query = sa.select(announcements).where(where).order_by(announcements.c.id.desc()).limit(200)

    def read() -> list[Announcement]:
        return [filled(Announcement, row) for row in context.store.rows(query)]

    return list(context.memory.kept(("announcements", trash), context.memory.state(), read))


def delete_announcement(context: ServerContext, person: Person, number: int, *, deleted: bool = True) -> None:
    """Put an announcement into the trash, or bring it back."""
    permit(person, "announcement.write")
    _bin(context, person, announcements, "announcement", number, deleted)


def delete_submission(
    context: ServerContext, person: Person, number: int, *, deleted: bool = True
) -> SubmissionView:
    """Put a submission into the trash, where it counts for nothing, or bring it back; its quota stays used."""
    row = own_row(context, person, "submission.delete", number)
    if deleted and row["state"] in ("queued", "running"):
        raise Refusal(409, f"Submission {number} is {row['state']}", "cancel it first")
    _bin(context, person, submissions, "submission", number, deleted)
    return read_submission(context, person, number).submission


def delete_team(context: ServerContext, person: Person, number: int, *, deleted: bool = True) -> None:
    """Put a team into the trash, or bring it back: its submissions are on no board meanwhile."""
    permit(person, "people.change")
    _bin(context, person, teams, "team", number, deleted)


def trash(context: ServerContext, person: Person) -> Trash:
    """List all that can be brought back."""
    permit(person, "submission.delete")
    gone = sa.select(submissions.c.id).where(submissions.c.deleted.is_not(None)).order_by(submissions.c.id)
    away = sa.select(teams.c.id, teams.c.name).where(teams.c.deleted.is_not(None))
    return Trash(
        [row["id"] for row in context.store.rows(gone)],
        list_announcements(context, person, trash=True),
        [(row["id"], row["name"]) for row in context.store.rows(away)],
    )


def rerun_submission(context: ServerContext, person: Person, number: int) -> SubmissionView:
    """Run one submission again; its team is not charged again."""
    row = own_row(context, person, "submission.rerun", number)
    try:
        queue.rerun(context.store, number)
    except UserError as error:
        raise Refusal(409, error.fact, error.remedy) from None
    with context.store.change() as connection:
        before = {"state": row["state"], "score": row["score"]}
        record(connection, person, "submission.rerun", f"submission {number}", before, {"state": "queued"})
    return read_submission(context, person, number).submission


def rescore(
    context: ServerContext, person: Person, *, phase: str, reason: str, kind: str = "run", confirm: str
) -> Rescoring:
    """Score all submissions of a phase anew under a new version; scores before stay on record.

    Parameters
    ----------
    context, person
        The competition, and the organiser.
    phase : str
        The phase.
    reason : str
        Why; everybody reads it.
    kind : str
        ``run``: run the submissions again, as after new tasks or data. ``score``: score the answers they gave, as
        after a new scorer.
    confirm : str
        The phase's name once more: nothing is scored anew by accident.
    """
    permit(person, "scores.redo")
    chosen = find_phase(context, phase)
    if confirm != chosen.name:
        raise Refusal(
            409, f"Scoring phase '{chosen.name}' anew was not confirmed", f"confirm with '{chosen.name}'"
        )
    if kind not in ("run", "score"):
        raise UserError(f"A phase is scored anew by run or by score, and not by '{kind[:40]}'.")
    text = readable(reason).strip()
    if not 3 <= len(text) <= 2000:
        raise UserError(f"The reason for scoring anew has 3 to 2,000 letters, this one has {len(text)}.")
    competition = context.competition
    goal = entry_rules.target(competition, chosen, read_secret(competition))
    with queue.alone(context.store) as connection:
        which = (submissions.c.phase == chosen.name, submissions.c.deleted.is_(None))
        states = ("scored",) if kind == "score" else ("scored", "failed")
        going = connection.execute(
            sa.select(sa.func.count())
            .select_from(submissions)
            .where(*which, submissions.c.state.in_(("queued", "running")))
        ).scalar_one()
        if going:
            raise Refusal(
                409, f"{going} submissions to phase '{chosen.name}' wait or run", "let them end first"
            )
        rows = connection.execute(
            sa.select(submissions).where(*which, submissions.c.state.in_(states)).order_by(submissions.c.id)
        ).mappings()
        concerned = [dict(row) for row in rows]
        numbers = [row["id"] for row in concerned]
        changed = [row["id"] for row in concerned if row["target"] not in (None, goal)]
        if kind == "score" and changed:
            raise UserError(
                f"{len(changed)} submissions to phase '{chosen.name}' answered other tasks than it has now, and "
                f"answers cannot be scored on tasks that were not asked; run them again."
            )
        version = queue.scoring_version(connection, chosen.name) + 1
        values = {"phase": chosen.name, "version": version, "target": goal, "kind": kind, "reason": text}
        connection.execute(scorings.insert().values(**values, account=person.account, time=now()))
        again = {"state": "queued", "reason": None, "version": version, "target": goal}
        for number in numbers:
            connection.execute(submissions.update().where(submissions.c.id == number).values(**again))
            note(connection, number, f"to be scored anew as version {version}: {text}")
        queue.requeue(connection, runs.c.submission.in_(numbers), kind)
        record(connection, person, "scores.redo", f"phase {chosen.name}", {"version": version - 1}, values)
    return rescorings(context, person, phase=chosen.name)[-1]


def rescorings(context: ServerContext, person: Person, *, phase: str | None = None) -> list[Rescoring]:
    """List versions of scores, oldest first, with what is still to be done of each."""
    permit(person, "competition.read")
    query = sa.select(scorings).order_by(scorings.c.id)
    rows = context.store.rows(query if phase is None else query.where(scorings.c.phase == phase))
    listed = []
    for row in rows:
        states = context.store.rows(
            sa.select(submissions.c.state).where(
                submissions.c.phase == row["phase"], submissions.c.version == row["version"]
            )
        )
        going = sum(each["state"] in ("queued", "running") for each in states)
        listed.append(filled(Rescoring, row, submissions=len(states), remaining=going))
    return listed


def score_versions(context: ServerContext, person: Person, number: int) -> list[ScoreVersion]:
    """List every score that a submission ever had, oldest first."""
    own_row(context, person, "submission.every", number)
    query = sa.select(scores).where(scores.c.submission == number).order_by(scores.c.id)
    return [filled(ScoreVersion, row) for row in context.store.rows(query)]


def hold_final(context: ServerContext, person: Person) -> list[FinalEntry]:
    """Enter all who qualified into the final: named jobs, made once however often this is asked."""
    permit(person, "final.enter")
    entries = enter_final(context.competition, context.store)
    with context.store.change() as connection:
        made = [entry.final for entry in entries if entry.final is not None]
        record(connection, person, "final.enter", "the final", after={"submissions": made})
    return entries


def pause(context: ServerContext, person: Person, *, why: str | None) -> None:
    """Hand out no more runs, or go on where ``why`` is None; what runs goes on."""
    permit(person, "queue.pause")
    with context.store.change() as connection:
        own = facts.c.name == queue.PAUSED
        before = connection.execute(sa.select(facts.c.value).where(own)).scalar()
        connection.execute(facts.delete().where(own))
        if why is not None:
            text = readable(why).strip()[:300] or "the organisers paused it"
            connection.execute(facts.insert().values(name=queue.PAUSED, value=text))
        record(connection, person, "queue.pause", "the queue", {"paused": before}, {"paused": why})


def audit_log(
    context: ServerContext, person: Person, *, before: RowNumber | None = None, limit: int = 100
) -> list[AuditLine]:
    """List what was done, newest first; ``before`` is the number a page ends at."""
    permit(person, "audit.read")
    query = sa.select(audit).order_by(audit.c.id.desc()).limit(max(1, min(limit, 500)))
    rows = context.store.rows(query if before is None else query.where(audit.c.id < before))
    values = [{name: json.loads(row[name] or "null") for name in ("before", "after")} for row in rows]
    return [filled(AuditLine, row, **own) for row, own in zip(rows, values, strict=True)]


def _bin(
    context: ServerContext, person: Person, table: sa.Table, kind: str, number: int, deleted: bool
) -> None:
    with context.store.change() as connection:
        own = table.c.id == number
        row = (
            connection.execute(sa.select(table.c.deleted).where(own)).first() if 0 < number < 2**31 else None
        )
        if row is None:
            raise not_there(kind, number)
        value = (row[0] or now()) if deleted else None
        connection.execute(table.update().where(own).values(deleted=value))
        verb = "delete" if deleted else "restore"
        record(
            connection, person, f"{kind}.{verb}", f"{kind} {number}", {"deleted": row[0]}, {"deleted": value}
        )


_TABLES = (
    *("teams", "submissions", "runs", "events", "scores", "scorings"),
    *("accounts", "members", "announcements", "audit", "uploads"),
)
_SECRET = ("password",)  # columns that stay here
_ROWS = 1000  # read at a time
_RESULTS = (*worker_api.FILES, "detailed_results.html")


def export(context: ServerContext, person: Person, out: Path) -> Path:
    """Write everything as the zip ``out``: what an organiser needs to keep, to publish, or to move elsewhere."""
    permit(person, "export.read")
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, strict_timestamps=False) as archive:
        settings = (context.folder / FILE).read_text(encoding="utf-8")
        lines = [line for line in settings.splitlines(True) if not line.startswith("database:")]
        archive.writestr(FILE, "".join(lines))
        for name in _TABLES:
            archive.writestr(f"tables/{name}.csv", _csv(context, metadata.tables[name]))
        for path in sorted((context.folder / "submissions").glob("[0-9]*")):
            for file in _files(path):
                archive.write(file, file.relative_to(context.folder).as_posix())
    return out


def _csv(context: ServerContext, table: sa.Table) -> str:
    columns = [column for column in table.columns if column.name not in _SECRET]
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    writer.writerow([column.name for column in columns])
    with context.store.reading() as connection:
        rows = connection.execution_options(yield_per=_ROWS).execute(sa.select(*columns))
        writer.writerows([_plain(value) for value in row] for row in rows)
    return buffer.getvalue()


def _plain(value: object) -> object:
    """Quote a value that a spreadsheet would take for a formula."""
    return f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t") else value


def _files(folder: Path) -> Iterator[Path]:
    """List what a submission is and what its runs wrote."""
    if (folder / "submission.zip").is_file():
        yield folder / "submission.zip"
    for run in sorted(folder.glob("seed-*")):
        if run.is_dir() and run.name.removeprefix("seed-").isdecimal():
            yield from (run / name for name in _RESULTS if (run / name).is_file())
