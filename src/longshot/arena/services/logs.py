"""The log of a run, tailed by one endpoint: a cursor goes in, what is new comes out with the next cursor.

System messages come from the history. What the submission printed comes only in phases that show it, line by line,
marked, as the finished log has it; in hidden phases nothing of the submission's making comes out.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from longshot.arena.database_tables import ENDED
from longshot.arena.inside.shown import readable
from longshot.arena.policy import Person, not_there
from longshot.arena.queue import archive_path
from longshot.arena.services.office import Office
from longshot.arena.services.submissions import (
    EVENTS_OF,
    RUNS_OF,
    _without_score,
    may_see_score,
    own_row,
)
from longshot.base import UserError

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
    office: Office, person: Person, number: int, *, seed: int | None = None, cursor: str = "0.0.0"
) -> LogPart:
    """What is new in the log of a run since ``cursor``; of the first seed unless one is named."""
    row = own_row(office, person, "submission.log", number)
    position = _CURSOR.fullmatch(cursor)
    if position is None:
        raise UserError("The cursor is none that this server gave; begin without one.")
    last_event, attempt, offset = map(int, position.groups())
    listed = office.store.rows(RUNS_OF, number=number)
    run = next((each for each in listed if seed is None or each["seed"] == seed), None)
    if run is None:
        raise not_there("run", f"with seed {seed}")
    fresh = office.store.rows(_FRESH, number=number, after=last_event)
    shown = may_see_score(office, person, row)
    messages = [(line["time"], readable(_without_score(line["what"], shown))) for line in fresh]
    restarted = attempt not in (0, run["attempt"]) and run["attempt"] > 0
    start = 0 if restarted else offset
    text = _text(office, number, run["seed"], row["phase"], run["state"])
    part = text[start : start + MOST]
    following = f"{fresh[-1]['id'] if fresh else last_event}.{run['attempt']}.{start + len(part)}"
    ended = row["state"] in ENDED and start + len(part) >= len(text) and len(fresh) < 200
    return LogPart(following, messages, part, restarted, ended)


def live_log(folder: Path, seed: int, attempt: int) -> Path:
    """Where a worker elsewhere writes what a run prints while it runs."""
    return folder / f"seed-{seed}.live-{attempt}.txt"


def _text(office: Office, number: int, seed: int, phase: str, state: str) -> str:
    folder = archive_path(office.competition, number)
    finished = folder / f"seed-{seed}" / "log.txt"
    if state in ENDED and finished.is_file():
        return _capped(finished)
    hidden = next((each.logs == "system" for each in office.competition.phases if each.name == phase), True)
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
