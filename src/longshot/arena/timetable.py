"""Which phase is open is a function of the time and of competition.yaml alone: nothing switches and nothing locks.

A phase lasts from its start to its end, the end not included: where one ends as the next begins, every moment
belongs to one of them.
"""

from __future__ import annotations

import datetime as dt
from typing import Literal, NamedTuple, TypeAlias

from longshot.arena.settings import Competition, Phase, parse_time
from longshot.base import UserError, hash_json, hash_text

PhaseState: TypeAlias = Literal["coming", "open", "over"]


class PhaseTimes(NamedTuple):
    """Where a phase stands at a moment."""

    name: str
    state: PhaseState
    start: dt.datetime | None  # UTC; None: since ever
    end: dt.datetime | None  # UTC, not included; None: for ever
    practice: bool
    submissions: bool  # whether it takes any at all


def times(phase: Phase, moment: dt.datetime) -> PhaseTimes:
    """Where ``phase`` stands at ``moment``: ``start <= moment < end`` is open."""
    start = None if phase.start is None else parse_time(phase.start, phase.name)
    end = None if phase.end is None else parse_time(phase.end, phase.name)
    state: PhaseState = "open"
    if start is not None and moment < start:
        state = "coming"
    elif end is not None and moment >= end:
        state = "over"
    return PhaseTimes(phase.name, state, start, end, phase.practice, phase.submissions)


def timetable(competition: Competition, moment: dt.datetime | None = None) -> list[PhaseTimes]:
    """All phases in order, as they stand at ``moment`` (now unless given)."""
    moment = moment or dt.datetime.now(dt.UTC)
    return [times(phase, moment) for phase in competition.phases]


def check_open(phase: Phase, moment: dt.datetime | None = None) -> None:
    """UserError outside a phase's dates, and where it takes no submissions at all."""
    if not phase.submissions:
        raise UserError(f"Phase '{phase.name}' takes no submissions: its data are there to practise on.")
    state = times(phase, moment or dt.datetime.now(dt.UTC)).state
    if state == "coming":
        raise UserError(f"Phase '{phase.name}' begins on {phase.start}; submit from then on.")
    if state == "over":
        raise UserError(
            f"Phase '{phase.name}' ended on {phase.end}; nothing can be submitted to it any more."
        )


def undated(competition: Competition, moment: dt.datetime | None = None) -> list[str]:
    """A sentence about every phase that takes submissions at ``moment`` and has no start or no end."""
    notes = []
    for phase, when in zip(competition.phases, timetable(competition, moment), strict=True):
        missing = [name for name in ("start", "end") if getattr(phase, name) is None]
        if when.state == "open" and phase.submissions and missing:
            notes.append(
                f"phase '{phase.name}' takes submissions now and has no {' and no '.join(missing)}; write "
                f"{' and '.join(missing)} into competition.yaml, as in '2027-06-15 12:00' (UTC)"
            )
    return notes


def default_phase(competition: Competition, moment: dt.datetime | None = None) -> Phase:
    """Where a submission goes that names no phase: the first open one that counts, else the first that would."""
    moment = moment or dt.datetime.now(dt.UTC)
    taking = [phase for phase in competition.phases if phase.submissions and not phase.practice]
    opened = [phase for phase in taking if times(phase, moment).state == "open"]
    return [*opened, *taking, competition.final][0]


def scores_shown(phase: Phase, moment: dt.datetime | None = None) -> bool:
    """Whether participants may see the scores of a phase yet: hidden ones wait for its end."""
    if phase.scores == "shown":
        return True
    return times(phase, moment or dt.datetime.now(dt.UTC)).state == "over"


def target(competition: Competition, phase: Phase, secret: str) -> str:
    """A hash of all that the test tasks of a phase follow from: two submissions with one target answered the same."""
    drawn_from = {
        "datasets": {name: competition.datasets[name] for name in (*phase.train, *phase.test)},
        "shape": competition.shape.model_dump(),
        "settings": [competition.image_size, competition.isolation, competition.pools, competition.draws],
        "phase": [phase.name, phase.version, list(phase.test), phase.tasks, list(phase.seeds)],
    }
    return hash_text(hash_json(drawn_from), hash_text(secret, "target"))


def until(moment: dt.datetime, start: dt.datetime | None = None) -> str:
    """How long it is to ``moment``, in words.

    >>> until(dt.datetime(2027, 1, 2, 3, 12, tzinfo=dt.UTC), dt.datetime(2027, 1, 1, tzinfo=dt.UTC))
    '1 day 3 h'
    >>> until(dt.datetime(2027, 1, 1, 3, 12, tzinfo=dt.UTC), dt.datetime(2027, 1, 1, tzinfo=dt.UTC))
    '3 h 12 min'
    """
    seconds = max(0, int((moment - (start or dt.datetime.now(dt.UTC))).total_seconds()))
    days, hours, minutes = seconds // 86400, seconds // 3600 % 24, seconds // 60 % 60
    if days:
        return f"{days} day{'s' if days > 1 else ''} {hours} h"
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"
