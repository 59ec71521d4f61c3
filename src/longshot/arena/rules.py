"""The rules of entering: who a team is, and what the final asks of it (``timetable``: when; ``quota``: how often)."""

from __future__ import annotations

import unicodedata
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from longshot.arena.fact_sheet import missing, stored
from longshot.arena.settings import Competition
from longshot.arena.tables import now, submissions, teams
from longshot.base import UserError

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
    """A name as it is kept: Unicode's NFKC, one space between words; UserError where it cannot be shown or is too long.

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
    """What two names have in common that are one: neither case nor width of letters nor white space counts.

    >>> same("Quota") == same(" \\uff31UOTA")
    True
    """
    folded = unicodedata.normalize("NFKC", name).casefold()
    return " ".join(unicodedata.normalize("NFKC", folded).split())


def team_number(connection: Connection, name: str, ranked: bool, pseudonym: str | None) -> int:
    """The team of that name, which is new or known; its pseudonym and its conflict of interest are kept.

    UserError where a name or pseudonym is taken. Callers write alone, so that nobody takes it meanwhile.
    """
    everyone = connection.execute(sa.select(teams)).mappings().all()
    own = next((row for row in everyone if same(row["name"]) == same(name)), None)
    taken = {same(row["pseudonym"]) for row in everyone if row is not own and row["pseudonym"]}
    if own is None and same(name) in taken:
        raise UserError(f"The name '{name}' is taken", "choose another {team}")
    taken |= {same(row["name"]) for row in everyone if row is not own}
    if pseudonym is not None and same(pseudonym) in taken:
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
    """Why a scored feedback submission does not enter the final; empty where it does."""
    needed = competition.final.threshold.get(league)
    if needed is not None and score <= needed:
        return f"{score:.3f} does not exceed {needed}"
    return sheet_lacks(competition, fact_sheet)


def sheet_lacks(competition: Competition, fact_sheet: str | None) -> str:
    """Why a fact sheet keeps a submission out of the final; empty when it does not."""
    if competition.fact_sheet != "required":
        return ""
    if not fact_sheet:
        return "no fact sheet"
    lacking = missing(stored(fact_sheet), competition.fact_fields)
    return f"its fact sheet lacks {', '.join(lacking)}" if lacking else ""


def check_final(
    competition: Competition,
    connection: Connection,
    team: int,
    league: str,
    fact_sheet: str | None,
    name: str,
) -> Qualification | None:
    """What lets a team submit to the final itself; UserError where ``enter_final`` would not have let it in either.

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
