"""What everybody may know of a competition: phases, leagues, limits, terms and rules."""

from __future__ import annotations

import datetime as dt
from typing import NamedTuple

from longshot.arena import entry_rules
from longshot.arena.services import uploads
from longshot.arena.services.office import Office


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


def competition_info(office: Office) -> CompetitionInfo:
    """What everybody may know of a competition."""
    competition = office.competition
    moment = dt.datetime.now(dt.UTC)
    listed = zip(entry_rules.timetable(competition, moment), competition.phases, strict=True)
    phases = [
        PhaseInfo(
            **when._asdict(),
            per_day=0 if phase.practice else phase.per_day,
            total=0 if phase.practice else phase.total,
            attempts_per_day=phase.attempts_per_day,
            scores_hidden=not entry_rules.scores_shown(phase, moment),
            logs=phase.logs,
        )
        for when, phase in listed
    ]
    server = competition.server
    return CompetitionInfo(
        competition.title,
        list(competition.leagues),
        phases,
        entry_rules.default_phase(competition, moment).name,
        competition.ranks_by,
        competition.fact_sheet,
        list(competition.fact_fields),
        server.registration,
        uploads.upload_limit(office),
        uploads.CHUNK,
        _page(office, server.terms),
        _page(office, server.rules),
        competition.marks,
        moment,
    )


def _page(office: Office, name: str) -> str:
    """A text beside competition.yaml; empty where there is none."""
    if not name:
        return ""
    path = (office.folder / name).resolve()
    if not path.is_relative_to(office.folder.resolve()) or not path.is_file():
        return ""
    return path.read_text(encoding="utf-8", errors="replace")[:200_000]
