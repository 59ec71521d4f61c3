"""What a team sees of its submissions, and what it may do with them; organisers see all."""

from __future__ import annotations

import math
import re
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import sqlalchemy as sa

from longshot.arena import entry_rules, queue
from longshot.arena.database_tables import ENDED, events, filled, runs, submissions, teams
from longshot.arena.inside.wire import readable
from longshot.arena.policy import Person, Refusal, not_there, permit, permit_own, require_team, sees_all
from longshot.arena.queue import archive_path
from longshot.arena.ranking import half_of_worst, hand_in_sheet, worst_run
from longshot.arena.result_pages import PagePart, details_parts
from longshot.arena.server.server_context import RowNumber, ServerContext, record
from longshot.arena.submission_check import missing_fields, parse_sheet, stored_sheet
from longshot.base import UserError

# Queries of one submission, put together once: that takes as long as asking them.
RUNS_OF = sa.select(runs).where(runs.c.submission == sa.bindparam("number")).order_by(runs.c.seed)
EVENTS_OF = (
    sa.select(events)
    .where(events.c.submission == sa.bindparam("number"), events.c.id > sa.bindparam("after"))
    .order_by(events.c.id)
)


class RunView(NamedTuple):
    """One run of a submission."""

    seed: int
    state: str
    attempt: int
    score: float | None
    half: float | None
    duration: float | None


class SubmissionView(NamedTuple):
    """A submission as one person may see it: hidden scores are None."""

    id: int
    team: str
    phase: str
    league: str
    state: str
    score: float | None
    half: float | None
    hidden: bool  # whether there is a score that this person may not see yet
    reason: str | None
    created: str  # UTC
    charged: str | None  # UTC; None: it costs no quota (yet)
    sha256: str | None
    bytes: int | None
    selected: bool
    deleted: str | None
    origin: int | None
    target: str | None
    version: int
    position: int | None  # in the queue: 1 is next; None where it does not wait
    lacking: list[str]  # fields of the fact sheet that are empty


class SubmissionPage(NamedTuple):
    """One submission with its runs and its history."""

    submission: SubmissionView
    runs: list[RunView]
    history: list[tuple[str, str]]  # (UTC, line)
    fact_sheet: dict[str, str]


class SubmissionList(NamedTuple):
    """Some submissions, newest first, and how many there are."""

    total: int
    items: list[SubmissionView]


def list_submissions(
    context: ServerContext,
    person: Person,
    *,
    every: bool = False,
    phase: str | None = None,
    state: str | None = None,
    before: RowNumber | None = None,
    limit: int = 50,
) -> SubmissionList:
    """List a team's submissions, newest first, up to ``before``; ``every`` team's for organisers."""
    permit(person, "submission.every" if every else "submission.list")
    which: list[Any] = [sa.true()]
    if not every:
        which += [submissions.c.team == person.team, submissions.c.deleted.is_(None)]
    if phase:
        which.append(submissions.c.phase == phase)
    if state:
        which.append(submissions.c.state == state)
    most = max(1, min(limit, 100))
    listed = which if before is None else [*which, submissions.c.id < before]
    rows = context.store.rows(_rows().where(*listed).order_by(submissions.c.id.desc()).limit(most))
    total = len(rows)
    if before is not None or total == most:  # there may be more than these
        count = sa.select(sa.func.count().label("total")).select_from(submissions).where(*which)
        total = context.store.rows(count)[0]["total"]
    return SubmissionList(total, _views(context, person, rows))


def read_submission(context: ServerContext, person: Person, number: int) -> SubmissionPage:
    """Read one submission with its runs and history."""
    row = own_row(context, person, "submission.read", number)
    (view,) = _views(context, person, [row])
    shown = may_see_score(context, person, row)
    without = {} if shown else {"score": None, "half": None}
    seen = [{**each, **without} for each in context.store.rows(RUNS_OF, number=number)]
    lines = [
        (line["time"], _without_score(line["what"], shown))
        for line in context.store.rows(EVENTS_OF, number=number, after=0)
    ]
    listed = [filled(RunView, each) for each in seen]
    return SubmissionPage(view, listed, lines, stored_sheet(row["fact_sheet"]))


def results(context: ServerContext, person: Person, number: int) -> list[PagePart]:
    """Show the run of a submission that counts by dataset, ways and shots; nothing while its score is hidden."""
    row = own_row(context, person, "submission.read", number)
    if row["state"] != "scored" or not may_see_score(context, person, row):
        return []
    scores = worst_run(context.competition, row["phase"], number)
    return [] if scores is None else details_parts(scores)


def cancel_submission(context: ServerContext, person: Person, number: int) -> SubmissionView:
    """End a submission that waits or runs."""
    own_row(context, person, "submission.cancel", number)
    try:
        before = queue.cancel(context.store, number, person.name or person.role)
    except UserError as error:
        raise Refusal(409, error.fact, error.remedy) from None
    with context.store.change() as connection:
        change = {"state": before}, {"state": "cancelled"}
        record(connection, person, "submission.cancel", f"submission {number}", *change)
    return read_submission(context, person, number).submission


def select_submission(
    context: ServerContext, person: Person, number: int, *, selected: bool = True
) -> SubmissionView:
    """Choose the submission that counts on boards that rank by selection; one per phase and league."""
    row = own_row(context, person, "submission.select", number)
    with queue.alone(context.store) as connection:
        alike = [submissions.c[name] == row[name] for name in ("team", "phase", "league")]
        connection.execute(submissions.update().where(*alike).values(selected=sa.false()))
        if selected:
            connection.execute(submissions.update().where(submissions.c.id == number).values(selected=True))
        record(connection, person, "submission.select", f"submission {number}", after={"selected": selected})
    return read_submission(context, person, number).submission


def set_sheet(context: ServerContext, person: Person, number: int, fields: dict[str, str]) -> SubmissionPage:
    """Give a submission its fact sheet, or another one."""
    row = own_row(context, person, "submission.sheet", number)
    sheet = parse_sheet(fields)
    hand_in_sheet(context.store, number, sheet)
    with context.store.change() as connection:
        record(
            connection,
            person,
            "submission.sheet",
            f"submission {number}",
            stored_sheet(row["fact_sheet"]),
            sheet,
        )
    return read_submission(context, person, number)


def allowances(context: ServerContext, person: Person) -> list[entry_rules.AllowanceInfo]:
    """Count what a team has used and what remains, for every phase that takes submissions and every league."""
    permit(person, "quota.read")
    team = require_team(person)
    competition = context.competition
    with context.store.reading() as connection:
        taking = [phase for phase in competition.phases if phase.submissions]
        return entry_rules.allowances(connection, team, taking, competition.leagues)


def own_row(context: ServerContext, person: Person, action: str, number: int) -> dict[str, Any]:
    """Read the row of a submission that a person may take an action on; to all others it does not exist."""
    permit(person, action)
    rows = context.store.rows(_row(), number=number) if 0 < number < 2**31 else []
    if not rows or (rows[0]["deleted"] is not None and not sees_all(person)):
        raise not_there("submission", number)
    permit_own(person, action, rows[0]["team"], "submission", number)
    return rows[0]


def may_see_score(context: ServerContext, person: Person, row: dict[str, Any]) -> bool:
    """Tell whether a person may see the score in a row: organisers any, others once the phase shows them."""
    if sees_all(person):
        return True
    phases = {phase.name: phase for phase in context.competition.phases}
    phase = phases.get(row["phase"])
    return phase is not None and entry_rules.scores_shown(phase)


@cache
def _row() -> sa.Select[Any]:
    return _rows().where(submissions.c.id == sa.bindparam("number"))


@cache
def _rows() -> sa.Select[Any]:
    """Select submissions with their team's name and the interval of the run that counts, the worst."""
    joined = sa.select(submissions, teams.c.name.label("team_name"), half_of_worst().label("half"))
    return joined.join(teams, teams.c.id == submissions.c.team)


def _views(context: ServerContext, person: Person, rows: list[dict[str, Any]]) -> list[SubmissionView]:
    places = positions(context) if any(row["state"] == "queued" for row in rows) else {}
    views = []
    for row in rows:
        score = row["score"] if row["score"] is not None and math.isfinite(row["score"]) else None
        shown = may_see_score(context, person, row)
        views.append(
            filled(
                SubmissionView,
                row,
                team=row["team_name"],
                score=score if shown else None,
                half=row["half"] if shown and score is not None else None,
                hidden=score is not None and not shown,
                selected=bool(row["selected"]),
                position=places.get(row["id"]),
                lacking=missing_fields(stored_sheet(row["fact_sheet"]), context.competition.fact_fields),
            )
        )
    return views


def positions(context: ServerContext) -> dict[int, int]:
    """Map submission → its position in the queue; 1 is next."""
    first = sa.func.min(runs.c.id).label("first")
    query = (
        sa.select(runs.c.submission, first)
        .where(runs.c.state == "queued")
        .group_by(runs.c.submission)
        .order_by(first)
    )

    def count() -> dict[int, int]:
        return {row["submission"]: number for number, row in enumerate(context.store.rows(query), start=1)}

    return context.memory.kept("positions", context.memory.state(), count)


def _without_score(line: str, shown: bool) -> str:
    """Strip ``seed 1: scored 0.2110 in 3.2 s`` of its number where scores are hidden."""
    head, word, _ = line.partition(": scored ")
    return line if shown or not word else f"{head}: scored"


# The log of a run, tailed by one endpoint: a cursor goes in, what is new comes out with the next cursor.
# System messages come from the history. What the submission printed comes only in phases that show it, line
# by line, marked, as the finished log has it; in hidden phases nothing of the submission's making comes
# out.

MOST = 64 << 10  # letters of one answer
_FRESH = EVENTS_OF.limit(200)
_CURSOR = re.compile(r"(\d{1,9})\.(\d{1,3})\.(\d{1,12})")


class LogPart(NamedTuple):
    """What is new in a log."""

    cursor: str  # to ask with next time
    messages: list[tuple[str, str]]  # (UTC, system message)
    text: str  # what it printed, each line marked with '| ', and how it ended
    restarted: bool  # another attempt began: what was printed before no longer counts
    ended: bool  # nothing more will come


def tail(
    context: ServerContext, person: Person, number: int, *, seed: int | None = None, cursor: str = "0.0.0"
) -> LogPart:
    """Return what is new in the log of a run since ``cursor``; of the first seed unless one is named."""
    row = own_row(context, person, "submission.log", number)
    position = _CURSOR.fullmatch(cursor)
    if position is None:
        raise UserError("The cursor is none that this server gave; begin without one.")
    last_event, attempt, offset = map(int, position.groups())
    listed = context.store.rows(RUNS_OF, number=number)
    run = next((each for each in listed if seed is None or each["seed"] == seed), None)
    if run is None:
        raise not_there("run", f"with seed {seed}")
    fresh = context.store.rows(_FRESH, number=number, after=last_event)
    shown = may_see_score(context, person, row)
    messages = [(line["time"], readable(_without_score(line["what"], shown))) for line in fresh]
    restarted = attempt not in (0, run["attempt"]) and run["attempt"] > 0
    start = 0 if restarted else offset
    text = _text(context, number, run["seed"], row["phase"], run["state"])
    part = text[start : start + MOST]
    following = f"{fresh[-1]['id'] if fresh else last_event}.{run['attempt']}.{start + len(part)}"
    ended = row["state"] in ENDED and start + len(part) >= len(text) and len(fresh) < 200
    return LogPart(following, messages, part, restarted, ended)


def live_log(folder: Path, seed: int, attempt: int) -> Path:
    """Return where what a run prints on another machine is written while it runs."""
    return folder / f"seed-{seed}.live-{attempt}.txt"


def _text(context: ServerContext, number: int, seed: int, phase: str, state: str) -> str:
    folder = archive_path(context.competition, number)
    finished = folder / f"seed-{seed}" / "log.txt"
    if state in ENDED and finished.is_file():
        return _capped(finished)
    hidden = next((each.logs == "system" for each in context.competition.phases if each.name == phase), True)
    if hidden or state in ENDED:
        return ""
    live = [*folder.glob(f"seed-{seed}.live-*.txt"), *folder.glob(f"seed-{seed}.*/log.txt")]
    newest = max(
        (path for path in live if path.is_file()), key=lambda path: path.stat().st_mtime, default=None
    )
    if newest is None:
        return ""
    whole_lines = _capped(newest).rpartition("\n")[0]
    return "".join(f"| {line}\n" for line in whole_lines.splitlines())


def _capped(path: Path) -> str:
    with path.open("rb") as file:
        return readable(file.read(4 << 20).decode("utf-8", "replace"))
