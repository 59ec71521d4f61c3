"""``competition.yaml`` of a bundle: phases with dates that follow each other, limits, questions, the leaderboard."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

import yaml

from longshot.arena.settings import Competition, Phase, parse_time
from longshot.arena.templates import template
from longshot.base import UserError

UNLIMITED = 1_000_000  # submissions; where the limit is missing the platform sets 5 a day and 100 in all
DAYS = 60  # of a phase whose end is not said
STEP = dt.timedelta(seconds=1)  # between two phases: the platform refuses an end that is the next one's start


def describe(
    competition: Competition,
    taking: Sequence[Phase],
    tasks: Sequence[dict[str, Any]],
    used: Sequence[Sequence[int]],
    docker_image: str,
) -> str:
    """The text; ``used`` are the indices of every phase's tasks."""
    required = competition.fact_sheet == "required"
    leagues = _question("league", "select", "League", list(competition.leagues), required=True)
    questions = {
        name: _question(name, "text", name, "", required=required) for name in competition.fact_fields
    }
    phases = []
    for position, (phase, (start, end)) in enumerate(zip(taking, dates(taking), strict=True)):
        entry: dict[str, Any] = {
            "index": position,
            "name": phase.name,
            "description": f"Phase {phase.name}",
            "start": _written(start),
            "tasks": list(used[position]),
            "max_submissions_per_day": phase.per_day or UNLIMITED,
            "max_submissions": allowed_in_all(competition, phase) or UNLIMITED,
            "execution_time_limit": round(phase.limits.seconds),
            "hide_output": phase is taking[-1],  # what ranks for good shows nothing but scores
        }
        if end is not None:
            entry["end"] = _written(end)
        if position:
            entry["auto_migrate_to_this_phase"] = True
        phases.append(entry)
    described = yaml.safe_load(template("bundle.yaml"))
    described |= {
        "title": competition.title[:256],
        "docker_image": docker_image,
        "fact_sheet": {"league": {**leagues, "is_on_leaderboard": True}, **questions},
        "tasks": list(tasks),
        "phases": phases,
    }
    return yaml.safe_dump(described, sort_keys=False, allow_unicode=True)  # quotes texts that look like dates


def allowed_in_all(competition: Competition, phase: Phase) -> int:
    """Count the submissions that a team may make to a phase, 0 for no limit.

    The final takes one entry where a phase before it lets teams in, as in Longshot's own competitions. The platform
    counts what it moves there by itself, and leaves out what failed.
    """
    final = phase is competition.final and competition.qualifying is not None
    return 1 if final else phase.total


def dates(
    phases: Sequence[Phase], now: dt.datetime | None = None
) -> list[tuple[dt.datetime, dt.datetime | None]]:
    """Start and end (UTC) of every phase, each start later than the end before it; the last may have no end.

    What competition.yaml leaves open is filled in: a phase begins a second after the one before, the first one now, and
    lasts until the next or for 60 days. UserError where what it says overlaps.
    """
    moments: list[tuple[dt.datetime, dt.datetime | None]] = []
    earliest = (now or dt.datetime.now(dt.UTC)).replace(microsecond=0)
    for position, phase in enumerate(phases):
        where = f"Phase '{phase.name}'"
        start = parse_time(phase.start, where) if phase.start else earliest
        following = phases[position + 1] if position + 1 < len(phases) else None
        later = parse_time(following.start, where) if following and following.start else None
        end = parse_time(phase.end, where) if phase.end else None
        if end is None and following is not None:
            end = later or start + dt.timedelta(days=DAYS)
        if end is not None and end == later:
            end -= STEP
        if end is not None and end <= start:
            raise UserError(
                f"{where} would end at {_written(end)} and start at {_written(start)}", "change its times"
            )
        if later is not None and end is not None and later <= end:
            raise UserError(
                f"{where} ends at {_written(end)}, after the start of '{following.name if following else ''}' at "
                f"{_written(later)}",
                "let the phases of competition.yaml follow each other: the platform refuses those that overlap",
            )
        moments.append((start, end))
        earliest = (end or start) + STEP
    return moments


def _written(moment: dt.datetime) -> str:
    return moment.astimezone(dt.UTC).strftime("%Y-%m-%d %H:%M:%S")


def _question(key: str, kind: str, title: str, selection: Any, *, required: bool) -> dict[str, Any]:
    """A field of the fact sheet as a question of the platform."""
    shown = {"title": title, "selection": selection, "is_required": required, "is_on_leaderboard": False}
    return {"key": key, "type": kind, **shown}
