"""Leaderboards, progress, the state of the queue, phases, limits and rules, as everybody may see them."""

from __future__ import annotations

import datetime as dt
import time
from typing import Any, NamedTuple

import sqlalchemy as sa

from longshot.arena import entry_rules, queue, ranking
from longshot.arena.database_tables import facts, filled, runs, submissions, teams, workers
from longshot.arena.environments import list_weights
from longshot.arena.policy import Person, Refusal, permit, sees_all
from longshot.arena.ranking import BoardEntry, RankBy
from longshot.arena.result_pages import PagePart, history_parts
from longshot.arena.server import uploads
from longshot.arena.server.server_context import ServerContext
from longshot.arena.settings import Phase
from longshot.base import UserError, count

SILENT = 90.0  # seconds after which a worker counts as gone
_FORGOTTEN = 7 * 86400.0  # after which it is not listed any more


class BoardLine(NamedTuple):
    """One line of a leaderboard."""

    rank: int | None
    team: str
    score: float
    half: float | None  # half of the 95 % interval over tasks
    submission: int | None  # its number, for its own team and organisers
    created: str
    entries: int
    method: str
    own: bool
    pending: bool  # it is being scored anew: this is the score before
    # what the entry above scores more, over the same tasks, and half of the 95 % interval of that
    behind: float | None
    behind_half: float | None
    late: bool  # it was handed in after the phase had ended, and has no rank
    sheet: tuple[tuple[str, str], ...]


class Board(NamedTuple):
    """The leaderboard of a phase and league."""

    phase: str
    league: str
    ranks_by: str
    lines: list[BoardLine]
    standing: str
    marks: list[str]
    hidden: bool  # whether the scores of this phase are hidden from this person
    version: int  # of the scores


class Progress(NamedTuple):
    """One valid submission in the course of time."""

    team: str
    created: str
    score: float
    own: bool


class WorkerView(NamedTuple):
    """A machine that runs submissions."""

    name: str
    state: str  # idle, running, paused, or silent where it gave no sign of life
    seen: float  # seconds ago
    why: str | None


class QueueView(NamedTuple):
    """What waits, what runs, and who runs it."""

    waiting: int  # runs
    running: int
    oldest: str | None  # UTC of the submission that waits longest
    paused: str | None  # why no run is handed out
    workers: list[WorkerView]
    note: str  # one sentence for people


def board(
    context: ServerContext,
    person: Person,
    *,
    phase: str | None = None,
    league: str | None = None,
    by: str | None = None,
) -> Board:
    """Return the board of a phase and league; the phase that is open and its first league unless named."""
    permit(person, "board.read")
    competition = context.competition
    chosen = find_phase(context, phase)
    if league is not None:
        queue.check_league(competition, league)
    if by not in (None, "last", "best", "selected"):
        raise UserError(f"A board ranks by last, best or selected, and not by '{by}'.")
    group = league or competition.leagues[0]
    ranks_by: RankBy = by or competition.ranks_by  # type: ignore[assignment]
    hidden = not (sees_all(person) or entry_rules.scores_shown(chosen))
    entries = [] if hidden else _entries(context, chosen.name, group, ranks_by)

    def line(entry: BoardEntry) -> BoardLine:
        own = person.team is not None and entry.team_id == person.team
        number = entry.submission if own or sees_all(person) else None
        method = dict(entry.sheet).get("title", "")
        return filled(BoardLine, entry._asdict(), submission=number, method=method, own=own)

    ended, version = _end_and_version(context, chosen.name)
    standing = ranking.standing_since(competition, chosen.name, ended)
    if chosen.practice:
        standing = "practice: nothing of it counts"
    lines = [line(entry) for entry in entries]
    return Board(chosen.name, group, ranks_by, lines, standing, competition.marks, hidden, version)


def _entries(context: ServerContext, phase: str, league: str, by: RankBy) -> list[BoardEntry]:
    """Rank the entries of a board, once for every state of the competition."""
    competition = context.competition
    return context.memory.kept(
        ("board", phase, league, by),
        (context.memory.state(), competition),
        lambda: ranking.with_differences(
            competition, phase, ranking.leaderboard(competition, context.store, phase, league, by)
        ),
    )


def figures(context: ServerContext, person: Person, *, phase: str, league: str) -> list[PagePart]:
    """Draw how scores in a league went, and what the entries of a phase are good at; nothing while they are hidden."""
    permit(person, "board.read")
    competition = context.competition
    if not (sees_all(person) or entry_rules.scores_shown(competition.phase(phase))):
        return []

    def draw() -> list[PagePart]:
        steps = [(step.team, step.score) for step in progress(context, person, phase=phase, league=league)]
        return history_parts(steps) + ranking.figure_parts(competition, context.store, phase, sheets=False)

    return context.memory.kept(("figures", phase, league), (context.memory.state(), competition), draw)


def _end_and_version(context: ServerContext, phase: str) -> tuple[dt.datetime | None, int]:
    """Return when the final's review ends, and the version of a phase's scores."""
    competition = context.competition

    def look() -> tuple[dt.datetime | None, int]:
        final = phase == competition.final.name
        with context.store.reading() as connection:
            version = queue.scoring_version(connection, phase)
        return ranking.final_on(competition, context.store) if final else None, version

    return context.memory.kept(("version", phase), (context.memory.state(), competition), look)


def progress(
    context: ServerContext, person: Person, *, phase: str | None = None, league: str | None = None
) -> list[Progress]:
    """List every valid submission in the order it was made, for a board's figure; none while scores are hidden."""
    permit(person, "board.read")
    competition = context.competition
    chosen = find_phase(context, phase)
    if not (sees_all(person) or entry_rules.scores_shown(chosen)):
        return []
    columns = [submissions.c[name] for name in ("team", "created", "score")]
    rows = context.store.rows(
        sa.select(*columns, teams.c.name, teams.c.pseudonym)
        .join(teams, teams.c.id == submissions.c.team)
        .where(
            submissions.c.phase == chosen.name,
            submissions.c.league == (league or competition.leagues[0]),
            submissions.c.state == "scored",
            submissions.c.score.is_not(None),
            submissions.c.deleted.is_(None),
            teams.c.deleted.is_(None),
        )
        .order_by(submissions.c.id.desc())
        .limit(2000)
    )

    def shown(row: dict[str, Any]) -> str:
        return str((row["pseudonym"] or row["name"]) if competition.pseudonyms else row["name"])

    return [
        Progress(shown(row), row["created"], row["score"], row["team"] == person.team)
        for row in reversed(rows)
    ]


def queue_state(context: ServerContext, person: Person) -> QueueView:
    """Say how long the queue is and whether anybody works on it."""
    permit(person, "queue.read")
    memory = context.memory
    counts, oldest, signs, why = memory.kept("queue", memory.stamp(), lambda: _queue(context))
    moment = time.time()
    listed = [
        WorkerView(
            _label(row["name"]),
            row["state"] if moment - row["seen"] < SILENT else "silent",
            round(moment - row["seen"], 1),
            row["why"],
        )
        for row in signs
        if row["state"] != "stopped" and row["seen"] > moment - _FORGOTTEN
    ]
    waiting, living = counts.get("queued", 0), [each for each in listed if each.state != "silent"]
    if why is not None:
        sentence = f"The queue pauses: {why}. Nothing is lost."
    elif waiting and not living:
        sentence = f"Waiting: {count(waiting, 'run')}. No worker is at work; they begin when one comes back."
    else:
        running = counts.get("running", 0)
        sentence = f"Waiting: {count(waiting, 'run')}; running: {running}; {count(living, 'worker')} at work."
    return QueueView(waiting, counts.get("running", 0), oldest, why, listed, sentence)


def _queue(context: ServerContext) -> tuple[dict[str, int], str | None, list[dict[str, Any]], str | None]:
    """Read runs by state, when the longest-waiting submission came, workers' signs of life, and why it pauses."""
    going = runs.c.state.in_(("queued", "running"))
    by_state = sa.select(runs.c.state, sa.func.count()).where(going).group_by(runs.c.state)
    oldest = sa.select(sa.func.min(submissions.c.created)).where(submissions.c.state == "queued")
    paused = sa.select(facts.c.value).where(facts.c.name == queue.PAUSED)
    with context.store.reading() as connection:
        counts = {state: int(number) for state, number in connection.execute(by_state)}
        signs = [
            dict(row) for row in connection.execute(sa.select(workers).order_by(workers.c.name)).mappings()
        ]
        return counts, connection.execute(oldest).scalar(), signs, connection.execute(paused).scalar()


def find_phase(context: ServerContext, name: str | None) -> Phase:
    """Find a phase by name, 404 where there is none; unless named the last with scores, else the open one."""
    competition = context.competition
    if name is not None:
        try:
            return competition.phase(name[:40])
        except UserError as error:
            raise Refusal(404, error.fact, error.remedy) from None
    scored = sa.select(submissions.c.phase).where(submissions.c.state == "scored").distinct()
    memory = context.memory
    rows = memory.kept("phases with scores", memory.state(), lambda: context.store.rows(scored))
    names = {row["phase"] for row in rows}
    with_scores = [each for each in competition.phases if each.name in names and not each.practice]
    return with_scores[-1] if with_scores else entry_rules.default_phase(competition)


def _label(name: str) -> str:
    """Strip a worker's name of the number of its token and of its process."""
    return name.partition("/")[2].rsplit(":", 2)[0] or name.rsplit(":", 2)[0]


class PhaseInfo(NamedTuple):
    """A phase as everybody sees it; its end is not part of it."""

    name: str
    state: str  # coming, open, over
    start: dt.datetime | None
    end: dt.datetime | None
    submissions: bool
    practice: bool
    per_day: int  # 0: no limit
    total: int
    attempts_per_day: int
    scores_hidden: bool
    logs: str


class CompetitionInfo(NamedTuple):
    """What the competition is about and what may be sent to it."""

    title: str
    leagues: list[str]
    phases: list[PhaseInfo]
    default_phase: str
    ranks_by: str
    fact_sheet: str
    fact_fields: list[str]
    registration: str
    upload_bytes: int
    chunk_bytes: int
    terms: str  # Markdown, as text
    rules: str
    marks: list[str]
    now: dt.datetime  # the server's clock
    pages: list[str]  # titles of what the organisers wrote
    weights: list[tuple[str, int]]  # files that free-style submissions may read, with their bytes
    kit: bool  # whether there is a starting kit


def competition_info(context: ServerContext, person: Person) -> CompetitionInfo:
    """Return what everybody may know of a competition: phases, leagues, limits, terms."""
    permit(person, "competition.read")
    competition = context.competition
    moment = dt.datetime.now(dt.UTC)
    listed = zip(entry_rules.timetable(competition, moment), competition.phases, strict=True)
    phases = [
        filled(
            PhaseInfo,
            {**dict(phase), **when._asdict()},
            per_day=0 if phase.practice else phase.per_day,
            total=0 if phase.practice else phase.total,
            scores_hidden=not entry_rules.scores_shown(phase, moment),
        )
        for when, phase in listed
    ]
    server = competition.server
    return filled(
        CompetitionInfo,
        {**dict(competition), **dict(server), "marks": competition.marks, "now": moment},
        phases=phases,
        default_phase=entry_rules.default_phase(competition, moment).name,
        upload_bytes=uploads.upload_limit(context),
        chunk_bytes=uploads.CHUNK,
        terms=competition.text(server.terms),
        rules=competition.text(server.rules),
        pages=list(competition.pages),
        weights=list_weights(competition),
        kit=any(phase.public for phase in competition.phases),
    )
