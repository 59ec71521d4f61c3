"""Who is where: the leaderboard of a phase and league, who enters the final, and when results are final."""

from __future__ import annotations

import datetime as dt
import shutil
from typing import Any, NamedTuple

import sqlalchemy as sa

from longshot.competition import queue
from longshot.competition.settings import Competition, parse_time
from longshot.competition.store import Store, events, note, submissions, teams
from longshot.errors import UserError


class Entry(NamedTuple):
    """One line of a leaderboard. ``rank`` is None for entries that are shown but not ranked."""

    rank: int | None
    team: str
    score: float
    submission: int
    created: str


def leaderboard(competition: Competition, store: Store, phase: str, league: str) -> list[Entry]:
    """The last valid submission of every team, best score first, ties to the earlier one."""
    competition.phase(phase)
    rows = store.rows(
        sa.select(submissions, teams.c.name, teams.c.pseudonym, teams.c.ranked)
        .join(teams, teams.c.id == submissions.c.team)
        .where(submissions.c.phase == phase, submissions.c.league == league, submissions.c.state == "scored")
        .order_by(submissions.c.id)
    )
    last = {row["team"]: row for row in rows}  # later ones replace earlier ones
    ordered = sorted(last.values(), key=lambda row: (-row["score"], row["created"], row["id"]))
    entries, rank = [], 0
    for row in ordered:
        rank += bool(row["ranked"])
        shown = (row["pseudonym"] or row["name"]) if competition.pseudonyms else row["name"]
        entries.append(Entry(rank if row["ranked"] else None, shown, row["score"], row["id"], row["created"]))
    return entries


def qualified(competition: Competition, store: Store, phase: str) -> list[dict[str, Any]]:
    """For every team and league, its last valid submission to ``phase`` with ``enters`` and, if not, ``why``."""
    threshold = competition.final.threshold
    found = []
    for league in competition.leagues:
        for entry in leaderboard(competition, store, phase, league):
            row = store.submission(entry.submission)
            needed = threshold.get(league)
            enters = needed is None or entry.score > needed
            why = "" if enters else f"{entry.score:.3f} does not exceed {needed}"
            found.append({**row, "enters": enters, "why": why})
    return found


def enter_final(competition: Competition, store: Store) -> list[dict[str, Any]]:
    """Enter every qualified submission of the phase before into the final, once; says what was done with each."""
    if len(competition.phases) < 2:
        raise UserError(
            "The competition has 1 phase and a final needs one before it; add it to competition.yaml."
        )
    before = competition.phases[-2].name
    return [
        {**row, "final": _enter_one(competition, store, row)} if row["enters"] else row
        for row in qualified(competition, store, before)
    ]


def _enter_one(competition: Competition, store: Store, row: dict[str, Any]) -> int:
    """The final submission made from ``row``; the one that was made before, where there is one."""
    final = competition.final
    with store.change() as connection:
        same = (submissions.c.team == row["team"], submissions.c.league == row["league"])
        known = connection.execute(
            sa.select(submissions.c.id).where(*same, submissions.c.phase == final.name)
        ).first()
        if known is not None:
            return int(known[0])
        number = queue.insert(connection, row["team"], final, row["league"], row["fact_sheet"], row["id"])
        source, target = (queue.archive_path(competition, n) for n in (row["id"], number))
        shutil.rmtree(target, ignore_errors=True)  # left by an entry that was not committed
        shutil.copytree(source, target, symlinks=True, ignore=shutil.ignore_patterns("seed-*"))
        note(connection, row["id"], f"entered the final as submission {number}")
        return number


def final_on(competition: Competition, store: Store) -> dt.datetime | None:
    """When the review period after the final's last run ends; None while runs are still to come."""
    phase = competition.final
    found = store.rows(sa.select(submissions).where(submissions.c.phase == phase.name))
    if not found or any(row["state"] in ("queued", "running") for row in found):
        return None
    numbers = [row["id"] for row in found]
    ended = store.rows(
        sa.select(sa.func.max(events.c.time).label("time")).where(events.c.submission.in_(numbers))
    )
    return parse_time(ended[0]["time"], phase.name) + dt.timedelta(days=phase.review_days)
