"""Uploads: refused before a byte is sent where they cannot be taken, resumed where they broke off, taken exactly once.

Bytes lie in quarantine until all are there and their hash is the one that was announced. Then they are checked by the
code of ``compete check``, and entered in the transaction that also says so of the upload: whoever asks again, and
whatever died in between, there is one submission. A team may have only so many unfinished ones, and gives them up.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import hmac
import os
import re
import secrets
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

import sqlalchemy as sa

from longshot.arena import entry_rules, queue
from longshot.arena.client import Receipt
from longshot.arena.database_tables import accounts, filled, now, submissions, teams, uploads
from longshot.arena.inside.wire import one_line
from longshot.arena.policy import Person, Refusal, not_there, permit, permit_own, require_team
from longshot.arena.server.server_context import Line, Offset, ServerContext, record
from longshot.arena.settings import FREE
from longshot.arena.submission_check import dump_sheet, parse_sheet
from longshot.base import ArchiveLimits, UserError, hash_file

CHUNK = 4 << 20  # bytes of one piece at most
OPEN = 3  # uploads that a team may have begun at a time
UNFINISHED = ("open", "checking")
LEASE = 120.0  # seconds that a check may take before somebody else may make it
_HASH = re.compile("[0-9a-f]{64}")
_locks: dict[str, threading.Lock] = {}  # one writer per upload; a folder has one server


class Upload(NamedTuple):
    """An upload: how much of it is there, and what became of it."""

    id: str
    state: str  # open, checking, taken, refused, expired, deleted
    size: int
    received: int
    chunk: int  # most bytes of one piece
    phase: str
    league: str
    reason: str | None
    submission: int | None


def upload_limit(context: ServerContext) -> int:
    """Return the most bytes that an archive may have."""
    return min(context.competition.server.upload, ArchiveLimits().bytes)


def begin_upload(
    context: ServerContext,
    person: Person,
    *,
    size: int,
    sha256: Line,
    name: Line = "submission.zip",
    phase: str | None = None,
    league: str = FREE,
    fact_sheet: dict[str, str] | None = None,
) -> Upload:
    """Announce an archive; what would not be taken is refused now. The same archive again goes on where it broke off.

    Parameters
    ----------
    context, person
        The competition, and who submits for their team.
    size, sha256
        Bytes of the zip and their hash.
    name : str
        What sentences call it.
    phase, league : str
        Where it is to compete; the phase that is open unless named.
    fact_sheet : dict, optional
        Field → text.
    """
    permit(person, "upload.begin")
    competition = context.competition
    chosen = competition.phase(phase) if phase else entry_rules.default_phase(competition)
    entry_rules.check_open(chosen)
    queue.check_league(competition, league)
    most = upload_limit(context)
    if size > most:
        raise Refusal(
            413,
            f"The submission has {size / 2**20:,.1f} MB, at most {most / 2**20:,.1f} are allowed",
            "make it smaller",
        )
    if size < 1 or not _HASH.fullmatch(sha256):
        raise UserError(
            "An upload names the number of its bytes, at least 1, and their SHA-256 in 64 letters."
        )
    sheet = None if not fact_sheet else dump_sheet(parse_sheet(fact_sheet))
    context.room()
    number = require_team(person)
    title = one_line(Path(name.replace("\\", "/")).name or "submission.zip", 100)
    with queue.alone(context.store) as connection:
        own = (uploads.c.team == number, uploads.c.state.in_(UNFINISHED))
        begun = connection.execute(sa.select(uploads).where(*own)).mappings().all()
        announced = {"sha256": sha256, "size": size, "phase": chosen.name, "league": league}
        for row in begun:
            if announced.items() <= dict(row).items():
                return _upload(dict(row))
        if len(begun) >= OPEN:
            raise Refusal(
                409,
                f"Your team has {len(begun)} uploads begun and not finished, and {OPEN} are allowed",
                "finish one, or delete one on the page Submit or by the command 'compete uploads'",
            )
        team = connection.execute(sa.select(teams.c.name).where(teams.c.id == number)).scalar_one()
        entry_rules.check_quota(connection, number, chosen, league, team)
        taken = sa.select(sa.func.coalesce(sa.func.sum(submissions.c.bytes), 0)).where(
            submissions.c.team == number
        )
        stored = int(connection.execute(taken).scalar_one())
        if stored + size > competition.server.storage:
            raise Refusal(
                413,
                f"The archives of team '{team}' take {stored / 2**20:,.1f} MB, and with this one they would exceed "
                f"{competition.server.storage / 2**20:,.1f}",
                "ask the organisers",
            )
        values: dict[str, Any] = {"id": secrets.token_hex(16), "account": person.account, "team": number}
        values |= {**announced, "name": title}
        values |= {"received": 0, "state": "open", "seen": time.time(), "created": now(), "fact_sheet": sheet}
        connection.execute(uploads.insert().values(**values))
    return _upload({**values, "reason": None, "submission": None})


def read_upload(context: ServerContext, person: Person, identity: str) -> Upload:
    """Say how much of an upload is there."""
    return _upload(own_upload(context, person, "upload.read", identity))


def write_chunk(context: ServerContext, person: Person, identity: str, offset: Offset, data: bytes) -> Upload:
    """Append a piece. Refusal where it does not begin where the last one ended: ``read_upload`` says where that is."""
    row = own_upload(context, person, "upload.write", identity)
    if len(data) > CHUNK:
        raise Refusal(
            413, f"A piece has {len(data):,} bytes, at most {CHUNK:,} are allowed", "send smaller pieces"
        )
    context.room()
    with only_writer(identity):
        row = own_upload(context, person, "upload.write", identity)
        if row["state"] != "open":
            raise Refusal(409, f"The upload is {row['state']} and takes no more bytes.")
        if offset != row["received"]:
            raise Refusal(
                409,
                f"The upload has {row['received']:,} bytes and the piece begins at {offset:,}",
                "go on from there",
            )
        if offset + len(data) > row["size"]:
            raise Refusal(
                413,
                f"The upload was announced with {row['size']:,} bytes and would have {offset + len(data):,}.",
            )
        path = quarantine(context, identity)
        path.parent.mkdir(exist_ok=True, mode=0o700)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
        with os.fdopen(handle, "wb") as out:
            out.truncate(offset)  # bytes of a piece that was never acknowledged
            out.seek(offset)
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        changed = {"received": offset + len(data), "seen": time.time()}
        with context.store.change() as connection:
            unchanged = (uploads.c.id == identity, uploads.c.state == "open", uploads.c.received == offset)
            if connection.execute(uploads.update().where(*unchanged).values(**changed)).rowcount != 1:
                raise Refusal(409, "The upload changed meanwhile", "ask where it stands")
    return _upload({**row, **changed})


def finish_upload(context: ServerContext, person: Person, identity: str) -> Receipt:
    """Check the archive and enter it; asked again, the same receipt.

    UserError with what is wrong where it is refused: that uses no quota, but it is an attempt.
    """
    row = own_upload(context, person, "upload.finish", identity)
    if row["state"] == "taken":
        return receipt(context, row["submission"])
    if row["state"] == "refused":
        raise UserError(row["reason"])
    if row["state"] not in UNFINISHED:
        raise Refusal(409, f"The upload is {row['state']}", "send the archive again")
    if row["received"] != row["size"]:
        raise Refusal(
            409, f"The upload has {row['received']:,} of {row['size']:,} bytes", "send the others first"
        )
    _begin_check(context, identity)
    path = quarantine(context, identity)
    try:
        number = _take(context, person, row, path)
    except UserError as error:
        if isinstance(error, Refusal) and error.retry:
            _set(context, identity, "checking", state="open")
            raise
        _set(context, identity, "checking", state="refused", reason=error.template, seen=time.time())
        path.unlink(missing_ok=True)
        raise
    except BaseException:
        _set(context, identity, "checking", state="open")  # ours, not the archive's: it may be asked again
        raise
    path.unlink(missing_ok=True)
    return receipt(context, number)


def receipt(context: ServerContext, number: int) -> Receipt:
    """Return the receipt of a submission."""
    row = context.store.submission(number)
    facts = (number, row["sha256"] or "", row["bytes"] or 0, row["phase"], row["league"], row["team_name"])
    text = " ".join(map(str, (*facts, row["created"])))
    seal = hmac.new(context.key, f"receipt {text}".encode(), hashlib.sha256).hexdigest()[:32]
    return Receipt(*facts, row["created"], seal)


def only_writer(identity: str) -> threading.Lock:
    """Return the lock that whoever changes the bytes of an upload holds meanwhile."""
    return _locks.setdefault(identity, threading.Lock())


def forget_writer(identity: str) -> None:
    """Drop the lock of an upload that nobody may change any more."""
    _locks.pop(identity, None)


def quarantine(context: ServerContext, identity: str) -> Path:
    """Return where the bytes of an upload lie until they are taken."""
    return context.folder / "uploads" / f"{identity}.part"


def sweep(context: ServerContext) -> int:
    """Expire uploads that nobody goes on with, and let checks that died be made again."""
    hours = context.competition.server.upload_hours
    with context.store.change() as connection:
        dead = (uploads.c.state == "checking", uploads.c.seen < time.time() - LEASE)
        revived = connection.execute(uploads.update().where(*dead).values(state="open")).rowcount
        old = (uploads.c.state == "open", uploads.c.seen < time.time() - 3600 * hours)
        reason = f"it was not finished within {hours:g} hours"
        expired = connection.execute(
            uploads.update().where(*old).values(state="expired", reason=reason)
        ).rowcount
        going = uploads.c.state.in_(UNFINISHED)
        keep = set(connection.execute(sa.select(uploads.c.id).where(going)).scalars())
    for path in (context.folder / "uploads").glob("*.part"):
        if path.stem not in keep:
            path.unlink(missing_ok=True)
            forget_writer(path.stem)
    return revived + expired


def reopen_checks(context: ServerContext) -> None:
    """Let checks be made again that an earlier server died over: the one that starts now is the only one."""
    with context.store.change() as connection:
        connection.execute(uploads.update().where(uploads.c.state == "checking").values(state="open"))


def _take(context: ServerContext, person: Person, row: dict[str, Any], path: Path) -> int:
    competition = context.competition
    phase = competition.phase(row["phase"])
    entry_rules.check_open(phase)
    if not path.is_file() or path.stat().st_size != row["size"] or hash_file(path) != row["sha256"]:
        _set(context, row["id"], "checking", state="open", received=0)
        raise Refusal(409, "The archive did not arrive as it was announced", "send it again", retry=1.0)
    job = f"upload/{row['id']}"
    with (
        queue.staged(competition, path, row["league"], row["name"], link=True) as folder,
        queue.alone(context.store) as connection,
    ):
        before = connection.execute(sa.select(submissions.c.id).where(submissions.c.job == job)).first()
        if before is not None:
            return int(before[0])
        team = connection.execute(sa.select(teams.c.name).where(teams.c.id == row["team"])).scalar_one()
        entry = queue.Entry(phase, row["league"], row["fact_sheet"], row["account"], job)
        number = queue.admit(competition, connection, folder, row["team"], team, entry)
        done = uploads.update().where(uploads.c.id == row["id"])
        connection.execute(done.values(state="taken", submission=number, seen=time.time()))
        after = {"phase": phase.name, "league": row["league"], "sha256": row["sha256"], "bytes": row["size"]}
        record(connection, person, "submission.create", f"submission {number}", after=after)
        return number


def _begin_check(context: ServerContext, identity: str) -> None:
    with context.store.change() as connection:
        waiting = sa.or_(
            uploads.c.state == "open",
            sa.and_(uploads.c.state == "checking", uploads.c.seen < time.time() - LEASE),
        )
        values = {"state": "checking", "seen": time.time()}
        mine_now = uploads.update().where(uploads.c.id == identity, waiting).values(**values)
        if connection.execute(mine_now).rowcount != 1:
            raise Refusal(409, "The upload is being checked", "ask again in a moment", retry=1.0)


def _set(context: ServerContext, identity: str, expected: str, **values: Any) -> None:
    with context.store.change() as connection:
        unchanged = (uploads.c.id == identity, uploads.c.state == expected)
        connection.execute(uploads.update().where(*unchanged).values(**values))


def own_upload(context: ServerContext, person: Person, action: str, identity: str) -> dict[str, Any]:
    """Read the row of an upload that a person may take ``action`` on; to all others it does not exist."""
    permit(person, action)
    rows = context.store.rows(sa.select(uploads).where(uploads.c.id == identity[:32]))
    if not rows:
        raise not_there("upload", one_line(identity, 40))
    permit_own(person, action, rows[0]["team"], "upload", identity)
    return rows[0]


def _upload(row: dict[str, Any]) -> Upload:
    return filled(Upload, row, chunk=CHUNK)


class UnfinishedUpload(NamedTuple):
    """An upload that was begun and not finished."""

    id: str
    team: str
    by: str  # who began it
    name: str  # of the archive
    phase: str
    league: str
    size: int
    received: int
    state: str  # open, checking; deleted where it has just been
    created: str
    expires: dt.datetime  # when it goes by itself, unless a piece comes


def list_uploads(context: ServerContext, person: Person, *, every: bool = False) -> list[UnfinishedUpload]:
    """List one's team's unfinished uploads, the oldest first; ``every``: those of all teams, for organisers."""
    permit(person, "upload.every" if every else "upload.list")
    which = sa.true() if every else uploads.c.team == person.team
    return _unfinished(context, uploads.c.state.in_(UNFINISHED), which)


def delete_upload(
    context: ServerContext, person: Person, identity: str, *, every: bool = False
) -> UnfinishedUpload:
    """Give an unfinished upload up: its bytes go, and its team may begin another. Asked again, the same answer.

    Parameters
    ----------
    context, person
        The competition, and who asks.
    identity : str
        The upload's id.
    every : bool
        Of any team, for organisers; else of one's own.
    """
    action = "upload.clear" if every else "upload.delete"
    identity = str(own_upload(context, person, action, identity)["id"])
    with only_writer(identity):
        with context.store.change() as connection:
            still_open = uploads.update().where(uploads.c.id == identity, uploads.c.state == "open")
            changed = connection.execute(still_open.values(state="deleted", reason="it was deleted")).rowcount
            row = connection.execute(sa.select(uploads).where(uploads.c.id == identity)).mappings().one()
            if changed:
                before = {key: row[key] for key in ("team", "name", "phase", "league", "size", "received")}
                record(connection, person, "upload.delete", f"upload {identity}", before=before)
        if changed:
            # After the commit: a file without its row is swept, a row without its file would be a loss.
            quarantine(context, identity).unlink(missing_ok=True)
            forget_writer(identity)
    if row["state"] == "checking":
        raise Refusal(409, "The upload is being checked", "ask again in a moment", retry=1.0)
    if row["state"] != "deleted":
        raise Refusal(409, f"The upload is {row['state']}: it takes none of the team's {OPEN}.")
    return _unfinished(context, uploads.c.id == identity)[0]


def _unfinished(context: ServerContext, *which: sa.ColumnElement[bool]) -> list[UnfinishedUpload]:
    names = ("id", "name", "phase", "league", "size", "received", "state", "created", "seen")
    query = (
        sa.select(
            *(uploads.c[name] for name in names), teams.c.name.label("team"), accounts.c.name.label("by")
        )
        .join(teams, teams.c.id == uploads.c.team)
        .join(accounts, accounts.c.id == uploads.c.account)
        .where(*which)
        .order_by(uploads.c.created, uploads.c.id)
    )
    lasting = 3600 * context.competition.server.upload_hours

    def shown(row: dict[str, Any]) -> UnfinishedUpload:
        expires = dt.datetime.fromtimestamp(row.pop("seen") + lasting, dt.UTC).replace(microsecond=0)
        return UnfinishedUpload(**row, expires=expires)

    return [shown(dict(row)) for row in context.store.rows(query)]
