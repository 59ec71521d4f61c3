"""The rules of entering: who a team is, what the final asks of it, when a phase is open, how often a team may submit.

Which phase is open is a function of the time and of competition.yaml alone: nothing switches and nothing locks. A phase
lasts from its start to its end, the end not included: where one ends as the next begins, every moment belongs to one of
them. One query counts submissions for the gate and for what people are shown: a submission is charged when its first
run begins, what waits is reserved, and a run that fails by the platform's fault is refunded. A second limit counts
every attempt, whatever became of it. Days begin at 00:00 UTC.
"""

from __future__ import annotations

import datetime as dt
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Literal, NamedTuple, TypeAlias

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from longshot.arena.database_tables import now, stamp, submissions, teams, uploads
from longshot.arena.settings import META, Competition, Phase, parse_time
from longshot.arena.submission_check import missing_fields, stored_sheet
from longshot.base import UserError, hash_json, hash_text

LONGEST_NAME = 100
LONGEST_PSEUDONYM = 40
# Letters that Python calls printable and that show nothing: fillers, joiners, variation selectors, empty Braille.
_UNSEEN = {0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, *range(0x180B, 0x1810), *range(0xFE00, 0xFE10)}
_UNSEEN |= {*range(0xE0100, 0xE01F0)}


class Qualification(NamedTuple):
    """The feedback submission that lets a team into the final."""

    submission: int
    fact_sheet: str | None


def tidy(name: str, called: str, longest: int) -> str:
    """Normalise a name to NFKC with single spaces; raise UserError where it cannot be shown or is too long.

    >>> tidy("  \\uff21da   and Bob ", "A team's name", 100)
    'Ada and Bob'
    """
    plain = unicodedata.normalize("NFKC", name)
    if not plain.isprintable() or any(ord(letter) in _UNSEEN for letter in plain):
        raise UserError(f"{called} has letters that cannot be shown; leave out control characters.")
    plain = " ".join(plain.split())
    if not 1 <= len(plain) <= longest:
        raise UserError(f"{called} has 1 to {longest} letters, this one has {len(plain)}.")
    return plain


def same(name: str) -> str:
    """Fold a name so that names count as one which differ in case, width of letters or white space.

    >>> same("Quota") == same(" \\uff31UOTA")
    True
    """
    folded = unicodedata.normalize("NFKC", name).casefold()
    return " ".join(unicodedata.normalize("NFKC", folded).split())


# Letters that look like Latin ones, as in Unicode's confusables (UTS 39): of the Cyrillic, Greek, Armenian and Cherokee
# alphabets, Latin ones of other shapes, digits and signs.
_LOOKALIKES = str.maketrans(
    "АВЕКМНОРСТУХІЈЅԌԚԜЬҮӀаеорсухіјѕһԁԛԝӏүгѵ ΑΒΕΖΗΙΚΜΝΟΡΤΥΧαινορυγσϲϳ "
    "ՏԼՕՍօոսհցզյ ᎠᎡᎢᎥᎪᎫᎬᎳᎷᎻᏀᏃᏏᏒᏔᏚᏟᏢᏦᏞᏴ ıɑɡɩɪʏᴄᴏᴠᴡᴢꜱǀƖƽI|10",
    "ABEKMHOPCTYXlJSGQWbYlaeopcyxijshdqwlyrv ABEZHlKMNOPTYXaivopuyocj "
    "SLOUonuhgqj DRTiAJEWMHGZbRWSCPKLB iagiiycovwzsllslllO",
)


def skeleton(name: str) -> str:
    """Return what two names share that look alike, across alphabets; case counts, for I is like l and i is not.

    >>> skeleton("Ada") == skeleton("\\u0410d\\u0430"), skeleton("Modern") == skeleton("Modem")
    (True, True)
    """
    plain = unicodedata.normalize("NFKC", name).translate(_LOOKALIKES)
    return same(plain).replace("rn", "m").replace("vv", "w")


def is_taken(name: str, names: Iterable[str]) -> bool:
    """Tell whether a name is one of those, or looks like one."""
    return any(same(name) == same(other) or skeleton(name) == skeleton(other) for other in names)


def team_number(connection: Connection, name: str, ranked: bool, pseudonym: str | None) -> int:
    """Return the team of that name, made where it is new; store its pseudonym and conflict of interest.

    UserError where a name or pseudonym is taken. Callers write alone, so that nobody takes it meanwhile.
    """
    everyone = connection.execute(sa.select(teams)).mappings().all()
    own = next((row for row in everyone if same(row["name"]) == same(name)), None)
    strangers = [row for row in everyone if row is not own]
    taken = [row[key] for row in strangers for key in ("name", "pseudonym") if row[key]]
    if own is None and is_taken(name, taken):
        raise UserError(f"The name '{name}' is taken", "choose another {team}")
    if pseudonym is not None and is_taken(pseudonym, taken):
        raise UserError(f"The pseudonym '{pseudonym}' is taken", "choose another {pseudonym}")
    if own is None:
        values = {"name": name, "pseudonym": pseudonym, "ranked": ranked, "created": now()}
        return int(connection.execute(teams.insert().values(**values)).inserted_primary_key[0])  # type: ignore[index]
    changed: dict[str, Any] = {} if pseudonym is None else {"pseudonym": pseudonym}
    if not ranked:
        changed["ranked"] = False  # a conflict of interest holds for all of a team's entries
    if changed:
        connection.execute(teams.update().where(teams.c.id == own["id"]).values(**changed))
    return int(own["id"])


def kept_out(competition: Competition, league: str, score: float, fact_sheet: str | None) -> str:
    """Say why a scored feedback submission does not enter the final; empty where it does."""
    needed = competition.final.threshold.get(league)
    if needed is not None and score <= needed:
        return f"{score:.3f} does not exceed {needed}"
    return sheet_lacks(competition, fact_sheet)


def sheet_lacks(competition: Competition, fact_sheet: str | None) -> str:
    """Say why a fact sheet bars a submission from the final; empty when it does not."""
    if competition.fact_sheet != "required":
        return ""
    if not fact_sheet:
        return "no fact sheet"
    lacking = missing_fields(stored_sheet(fact_sheet), competition.fact_fields)
    return f"its fact sheet lacks {', '.join(lacking)}" if lacking else ""


def check_final(
    competition: Competition,
    connection: Connection,
    team: int,
    league: str,
    fact_sheet: str | None,
    name: str,
) -> Qualification | None:
    """Return what lets a team submit to the final; raise UserError where ``enter_final`` would not let it in.

    None where no phase before the final takes submissions: then only the fact sheet is asked for.
    """
    final, before = competition.final, competition.qualifying
    refused = f"Team '{name}' cannot enter phase '{final.name}' in the league {league}: "
    of_team = (submissions.c.team == team, submissions.c.league == league)
    entered = connection.execute(
        sa.select(submissions.c.id).where(
            *of_team, submissions.c.phase == final.name, submissions.c.state != "failed"
        )
    ).first()
    if before is None:
        if reason := sheet_lacks(competition, fact_sheet):
            raise UserError(f"{refused}{reason}", "hand one in with {fact_sheet}")
        return None
    if entered is not None:
        raise UserError(f"{refused}it is in it already with submission {entered[0]}, and 1 is allowed.")
    valid = (*of_team, submissions.c.phase == before.name, submissions.c.state == "scored")
    last = connection.execute(
        sa.select(submissions).where(*valid).order_by(submissions.c.id.desc())
    ).mappings()
    row = last.first()
    if row is None:
        raise UserError(
            f"{refused}it has no valid submission to phase '{before.name}' there, and 1 is needed",
            f"submit with {{phase:{before.name}}} first",
        )
    sheet = fact_sheet or row["fact_sheet"]
    if reason := kept_out(competition, league, row["score"], sheet):
        raise UserError(f"{refused}{reason} (submission {row['id']} to phase '{before.name}').")
    return Qualification(int(row["id"]), sheet)


PhaseState: TypeAlias = Literal["coming", "open", "over"]


class PhaseTimes(NamedTuple):
    """Where a phase stands at a moment."""

    name: str
    state: PhaseState
    start: dt.datetime | None  # UTC; None: since ever
    end: dt.datetime | None  # UTC, not included; None: for ever


def times(phase: Phase, moment: dt.datetime) -> PhaseTimes:
    """Tell where ``phase`` stands at ``moment``: ``start <= moment < end`` is open."""
    start = None if phase.start is None else parse_time(phase.start, phase.name)
    end = None if phase.end is None else parse_time(phase.end, phase.name)
    state: PhaseState = "open"
    if start is not None and moment < start:
        state = "coming"
    elif end is not None and moment >= end:
        state = "over"
    return PhaseTimes(phase.name, state, start, end)


def timetable(competition: Competition, moment: dt.datetime | None = None) -> list[PhaseTimes]:
    """List all phases in order, as they stand at ``moment`` (now unless given)."""
    moment = moment or dt.datetime.now(dt.UTC)
    return [times(phase, moment) for phase in competition.phases]


def check_open(phase: Phase, moment: dt.datetime | None = None) -> None:
    """Raise UserError outside a phase's dates, and where it takes no submissions at all."""
    if not phase.submissions:
        raise UserError(f"Phase '{phase.name}' takes no submissions: its data are there to practise on.")
    moment = moment or dt.datetime.now(dt.UTC)
    state = times(phase, moment).state
    if state == "coming":
        raise UserError(f"Phase '{phase.name}' begins on {phase.start}; submit from then on.")
    if state == "over" and times(phase, moment - dt.timedelta(days=phase.late_days)).state == "over":
        raise UserError(
            f"Phase '{phase.name}' ended on {phase.end}; nothing can be submitted to it any more."
        )


def undated(competition: Competition, moment: dt.datetime | None = None) -> list[str]:
    """Write a sentence about every phase that takes submissions at ``moment`` and has no start or no end."""
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
    """Choose the phase of a submission that names none: the first open one that counts, else the first."""
    moment = moment or dt.datetime.now(dt.UTC)
    taking = [phase for phase in competition.phases if phase.submissions and not phase.practice]
    opened = [phase for phase in taking if times(phase, moment).state == "open"]
    return [*opened, *taking, competition.final][0]


def scores_shown(phase: Phase, moment: dt.datetime | None = None) -> bool:
    """Tell whether participants may see the scores of a phase yet: hidden ones wait for its end."""
    if phase.scores == "shown":
        return True
    return times(phase, moment or dt.datetime.now(dt.UTC)).state == "over"


def target(competition: Competition, phase: Phase, secret: str) -> str:
    """Hash all that the test tasks of a phase follow from: submissions with one target answered the same tasks."""
    drawn_from = {
        "datasets": {name: competition.datasets[name] for name in (*phase.train, *phase.test)},
        "shape": competition.shape.model_dump(),
        "settings": [competition.image_size, competition.isolation, competition.pools, competition.draws],
        "phase": [phase.name, phase.version, list(phase.test), phase.tasks, list(phase.seeds)],
    }
    return hash_text(hash_json(drawn_from), hash_text(secret, "target"))


def until(moment: dt.datetime, start: dt.datetime | None = None) -> str:
    """Say how long it is to ``moment``, in words.

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
    """Count what a team has used and what remains, for every phase and league, by two queries in all.

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
    """Count a team's submissions by phase and league; the query is built once, for it is asked often."""
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
    """Count a team's archives that were refused today, or begun and given up."""
    ended = uploads.c.state.in_(("refused", "deleted"))
    today = sa.and_(uploads.c.created >= sa.bindparam("today"), ended)
    return _sums(uploads, refused=today)


def _sums(table: sa.Table, **conditions: sa.ColumnElement[bool]) -> sa.Select[Any]:
    sums = [sa.func.sum(sa.case((each, 1), else_=0)).label(name) for name, each in conditions.items()]
    own = table.c.team == sa.bindparam("team")
    return sa.select(table.c.phase, table.c.league, *sums).where(own).group_by(table.c.phase, table.c.league)


def _counts(rows: Iterable[Mapping[Any, Any]]) -> Counter[tuple[str, str, bool]]:
    """Map (what is counted, phase, whether it is the meta-learning league) → how many."""
    counted: Counter[tuple[str, str, bool]] = Counter()
    for row in rows:
        for name, count in row.items():
            if name not in ("phase", "league"):
                counted[name, row["phase"], row["league"] == META] += int(count)
    return counted


def check_quota(connection: Connection, team: int, phase: Phase, league: str, name: str) -> None:
    """Raise UserError where a team has made all its submissions, of a day or of the phase."""
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
