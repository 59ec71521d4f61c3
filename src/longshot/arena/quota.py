"""How often a team may submit: one query for the gate and for what people are shown.

A submission is charged when its first run begins, and what waits is reserved; a run that fails by the platform's fault
is refunded. A second limit counts every attempt, whatever became of it. Days begin at 00:00 UTC.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from longshot.arena.settings import META, Phase
from longshot.arena.tables import stamp, submissions, uploads
from longshot.arena.timetable import until
from longshot.base import UserError


class AllowanceInfo(NamedTuple):
    """What a team has used in a phase and league, and what remains; a limit of 0 is none."""

    phase: str
    league: str
    per_day: int
    today: int  # charged today or waiting
    total: int
    used: int  # charged in all or waiting
    attempts_per_day: int
    attempts: int  # made today, whatever became of them
    remaining: int | None  # that may be made now; None: as many as one likes
    resets: dt.datetime  # the next 00:00 UTC
    resets_in: str  # how long it is until then


def allowances(
    connection: Connection,
    team: int,
    phases: Sequence[Phase],
    leagues: Sequence[str],
    moment: dt.datetime | None = None,
) -> list[AllowanceInfo]:
    """What a team has used and what remains, for every phase and league, by two queries in all.

    As in the paper, where a team has a second account for it, the meta-learning league has a quota of its own. The
    leagues that a team declares (new-in-ml, women …) share that of the free-style league.
    """
    moment = moment or dt.datetime.now(dt.UTC)
    midnight = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    values = {"team": team, "today": stamp(midnight)}
    entered = _counts(connection.execute(_entered(), values).mappings())
    refused = _counts(connection.execute(_refused(), values).mappings())
    resets = midnight + dt.timedelta(days=1)

    def used(phase: Phase, league: str) -> AllowanceInfo:
        where = (phase.name, league == META)
        limits = (0, 0) if phase.practice else (phase.per_day, phase.total)
        counts = (
            (limits[0], entered["charged_today", *where]),
            (limits[1], entered["charged", *where]),
            (phase.attempts_per_day, entered["made", *where] + refused["refused", *where]),
        )
        remain = [max(0, limit - count) for limit, count in counts if limit]
        most = min(remain, default=None)
        return AllowanceInfo(
            phase.name, league, *counts[0], *counts[1], *counts[2], most, resets, until(resets)
        )

    return [used(phase, league) for phase in phases for league in leagues]


@cache
def _entered() -> sa.Select[Any]:
    """A team's submissions by phase and league; put together once, for it is asked often."""
    waiting = sa.and_(submissions.c.charged.is_(None), submissions.c.state.in_(("queued", "running")))
    today: sa.BindParameter[str] = sa.bindparam("today")
    return _sums(
        submissions,
        charged_today=sa.or_(submissions.c.charged >= today, waiting),
        charged=sa.or_(submissions.c.charged.is_not(None), waiting),
        made=submissions.c.created >= today,
    )


@cache
def _refused() -> sa.Select[Any]:
    """A team's archives that were refused today, or begun and given up."""
    ended = uploads.c.state.in_(("refused", "deleted"))
    today = sa.and_(uploads.c.created >= sa.bindparam("today"), ended)
    return _sums(uploads, refused=today)


def _sums(table: sa.Table, **conditions: sa.ColumnElement[bool]) -> sa.Select[Any]:
    sums = [sa.func.sum(sa.case((each, 1), else_=0)).label(name) for name, each in conditions.items()]
    own = table.c.team == sa.bindparam("team")
    return sa.select(table.c.phase, table.c.league, *sums).where(own).group_by(table.c.phase, table.c.league)


def _counts(rows: Iterable[Mapping[Any, Any]]) -> Counter[tuple[str, str, bool]]:
    """(what is counted, phase, whether it is the meta-learning league) → how many."""
    counted: Counter[tuple[str, str, bool]] = Counter()
    for row in rows:
        for name, count in row.items():
            if name not in ("phase", "league"):
                counted[name, row["phase"], row["league"] == META] += int(count)
    return counted


def check_quota(connection: Connection, team: int, phase: Phase, league: str, name: str) -> None:
    """UserError where a team has made all its submissions, of a day or of the phase."""
    (used,) = allowances(connection, team, [phase], [league])
    where = f"in the league {META} " if league == META else ""
    reset = f"the day's count begins anew at {used.resets:%Y-%m-%d %H:%M} UTC, in {used.resets_in}"
    for limit, made, span, remedy in (
        (used.per_day, used.today, "today (UTC)", reset),
        (used.total, used.used, "in all", "wait for another phase, or ask the organisers"),
        (used.attempts_per_day, used.attempts, "today (UTC), whatever became of them", reset),
    ):
        if limit and made >= limit:
            raise UserError(
                f"Team '{name}' has made {made} submissions to phase '{phase.name}' {where}{span}, and {limit} are "
                f"allowed",
                remedy,
            )
