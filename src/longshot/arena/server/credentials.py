"""Passwords, sessions of browsers, tokens of programs: only hashes are kept, and everything ends.

Passwords are scrypt hashes with a salt of their own, compared in the same time whoever asks.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import secrets
import threading
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from longshot.arena.database_tables import accounts, filled, in_future, members, now, sessions, tokens
from longshot.arena.entry_rules import tidy
from longshot.arena.policy import OF_ROLE, SCOPES, VISITOR, Person, Refusal, Scope, not_there, permit
from longshot.arena.server.server_context import Line, ServerContext, record
from longshot.base import UserError

PREFIX = "longshot_"  # tokens are recognised where they should not be, as in a repository
_TOUCH = 60.0  # seconds between two notes of a session's last use
_REMEMBERED = 60.0  # seconds that whose session or token it is may be remembered


class TokenInfo(NamedTuple):
    """A token as its owner sees it: never the secret."""

    id: int
    name: str
    scopes: list[str]
    created: str
    expires: str
    last_used: str | None


class NewToken(NamedTuple):
    """A token that was just made; ``token`` is shown this once."""

    id: int
    name: str
    scopes: list[str]
    expires: str
    token: str


def begin_session(context: ServerContext, connection: Connection, account: int, rights: int) -> str:
    """Begin a new session of an account; return the secret that goes into the cookie."""
    secret = secrets.token_urlsafe(32)
    moment = now()
    expires = in_future(hours=context.competition.server.session_hours)
    values = {"account": account, "rights": rights, "created": moment, "seen": moment, "expires": expires}
    connection.execute(sessions.insert().values(hash=context.hashed(secret), **values))
    connection.execute(sessions.delete().where(sessions.c.expires < moment))
    return secret


def end_session(context: ServerContext, person: Person) -> None:
    """Log out."""
    with context.store.change() as connection:
        connection.execute(sessions.delete().where(sessions.c.hash == person.session))
    context.sessions_ended += 1


def end_sessions(connection: Connection, account: int) -> None:
    """End all sessions of an account: its rights have changed, and old cookies must not carry them."""
    connection.execute(sessions.delete().where(sessions.c.account == account))


def by_session(context: ServerContext, secret: str) -> Person:
    """Return whose session a cookie names; a visitor where it names none that lasts."""
    digest = context.hashed(secret)
    row = _read(context, sessions, digest)
    if row is None or row["expires"] < now():
        return VISITOR
    if row["state"] != "active" or row["rights"] != row["current"]:
        return VISITOR
    if row["seen"] < in_future(seconds=-_TOUCH):
        context.touch("session", digest)
        row["seen"] = now()  # as the reaper will write it
    role = row["role"]
    return Person(
        role, row["account"], row["name"], row["own_team"], OF_ROLE[role], "session", session=digest
    )


def by_token(context: ServerContext, secret: str) -> Person:
    """Return whose token this is; raise Refusal where it is unknown, over or taken back."""
    digest = context.hashed(secret)
    row = _read(context, tokens, digest)
    if row is None or not secret.startswith(PREFIX):
        raise Refusal(401, "The token is not one of this competition", "make one on the server's page")
    if row["revoked"] is not None:
        raise Refusal(401, f"The token '{row['token_name']}' was taken back on {row['revoked']} UTC.")
    if row["token_expires"] <= now():
        raise Refusal(
            401,
            f"The token '{row['token_name']}' ended on {row['token_expires']} UTC",
            "make a new one on the server's page",
        )
    if row["last_used"] is None or row["last_used"] < in_future(seconds=-_TOUCH):
        context.touch("token", digest)
        row["last_used"] = now()
    granted = frozenset(scope for scope in SCOPES if scope in row["scopes"].split())
    if row["account"] is None:
        return Person(
            "worker", None, row["token_name"], None, granted & OF_ROLE["worker"], "token", row["id"]
        )
    if row["state"] != "active":
        raise Refusal(401, f"The account '{row['name']}' is {row['state']}.")
    role = row["role"]
    scopes = granted & OF_ROLE[role]  # rights that were taken away are gone from tokens too
    return Person(role, row["account"], row["name"], row["own_team"], scopes, "token", row["id"])


def _read(context: ServerContext, table: sa.Table, digest: str) -> dict[str, Any] | None:
    """Read the row of a session or a token, cached while nobody's rights change, and for a minute at most.

    Whoever changes accounts, teams or tokens writes a line into the audit log, and the context counts who logs out;
    only that a session goes on is written without either. What is not there is not remembered: guesses are many.
    """
    memory = context.memory
    stamp = (memory.state(), context.sessions_ended, int(time.monotonic() // _REMEMBERED))
    query = _with_account(table, table.c.account, outer=table is tokens).where(table.c.hash == digest)
    return memory.kept(digest, stamp, lambda: next(iter(context.store.rows(query)), None))


def write_uses(context: ServerContext) -> None:
    """Write down which sessions and tokens were used: a session goes on for as long again."""
    used = context.touched()
    if not used:
        return
    moment, expires = now(), in_future(hours=context.competition.server.session_hours)
    with context.store.change() as connection:
        for kind, digest in sorted(used):
            if kind == "session":
                own = sessions.update().where(sessions.c.hash == digest)
                connection.execute(own.values(seen=moment, expires=expires))
            else:
                connection.execute(tokens.update().where(tokens.c.hash == digest).values(last_used=moment))


def create_token(
    context: ServerContext, person: Person, *, name: Line, scopes: tuple[Line, ...], days: int | None = None
) -> NewToken:
    """Make a token for the command line; its secret is shown once.

    Parameters
    ----------
    context, person
        The competition, and whose token it will be.
    name : str
        What its owner calls it.
    scopes : sequence of str
        Of ``submit``, ``read-own`` and, for organisers, ``admin``.
    days : int, optional
        How long it lasts; at most, and unless given, what the competition allows.
    """
    permit(person, "token.create")
    granted = _checked_scopes(scopes, OF_ROLE[person.role])
    return _issue(context, person, person.account, name, granted, days)


def create_worker_token(
    context: ServerContext, person: Person, *, name: Line, days: int | None = None
) -> NewToken:
    """Make a token for a machine that runs submissions: it belongs to no account and has the scope ``work``."""
    permit(person, "worker.token")
    return _issue(context, person, None, name, ["work"], days)


def list_tokens(context: ServerContext, person: Person) -> list[TokenInfo]:
    """List a person's own tokens; organisers see those of workers too."""
    permit(person, "token.list")
    rows = context.store.rows(sa.select(tokens).where(*_lasting(person)).order_by(tokens.c.id))
    return [filled(TokenInfo, row, scopes=row["scopes"].split()) for row in rows]


def revoke_token(context: ServerContext, person: Person, number: int) -> None:
    """Take a token back at once."""
    permit(person, "token.revoke")
    with context.store.change() as connection:
        lasting = tokens.update().where(tokens.c.id == number, *_lasting(person))
        if connection.execute(lasting.values(revoked=now())).rowcount != 1:
            raise not_there("token", number)
        record(connection, person, "token.revoke", f"token {number}")


def _lasting(person: Person) -> tuple[sa.ColumnElement[bool], ...]:
    """Select a person's own tokens that were not taken back; for organisers those of workers too."""
    own = tokens.c.account == person.account
    if person.role == "organiser":
        own = sa.or_(own, tokens.c.account.is_(None))
    return own, tokens.c.revoked.is_(None)


def _issue(
    context: ServerContext,
    person: Person,
    account: int | None,
    name: str,
    scopes: list[str],
    days: int | None,
) -> NewToken:
    most = context.competition.server.token_days
    if days is not None and not 1 <= days <= most:
        raise UserError(f"A token lasts 1 to {most} days, and {days} were asked for.")
    title = tidy(name, "A token's name", 60)
    secret = PREFIX + secrets.token_urlsafe(32)
    expires = in_future(days=days or most)
    with context.store.change() as connection:
        values: dict[str, Any] = {"account": account, "name": title, "scopes": " ".join(scopes)}
        values |= {"hash": context.hashed(secret), "created": now(), "expires": expires}
        number = int(connection.execute(tokens.insert().values(**values)).inserted_primary_key[0])  # type: ignore[index]
        after = {"name": title, "scopes": scopes, "expires": expires, "account": account}
        record(connection, person, "token.create", f"token {number}", after=after)
    return NewToken(number, title, scopes, expires, secret)


def _checked_scopes(scopes: Sequence[str], allowed: frozenset[Scope]) -> list[str]:
    unknown = [scope for scope in scopes if scope not in allowed]
    if unknown or not scopes:
        possible = ", ".join(sorted(allowed))
        raise UserError(
            f"A token of yours may have the scopes {possible}, and {', '.join(unknown) or 'none'} was asked for."
        )
    return sorted(set(scopes))


def _with_account(table: sa.Table, account: sa.Column[Any], *, outer: bool = False) -> sa.Select[Any]:
    """Select rows of sessions or tokens with the account they belong to and its team."""
    columns = [accounts.c.name, accounts.c.role, accounts.c.state, accounts.c.rights.label("current")]
    if table is tokens:
        columns += [tokens.c.name.label("token_name"), tokens.c.expires.label("token_expires")]
        columns += [tokens.c[name] for name in ("id", "account", "scopes", "revoked", "last_used")]
    else:
        columns += [sessions.c[name] for name in ("account", "rights", "seen", "expires")]
    return (
        sa.select(*columns, members.c.team.label("own_team"))
        .select_from(table)
        .join(accounts, accounts.c.id == account, isouter=outer)
        .join(members, members.c.account == account, isouter=True)
    )


# Memory 32 MB, some 0.2 s: as strong as OWASP's first choice for scrypt. A hash names its own numbers.
COST, BLOCK, PARALLEL = 1 << 15, 8, 3
SHORTEST, LONGEST = 10, 200  # letters
_MEMORY = 1 << 27


def check_password(password: str) -> None:
    """Raise UserError for a password that is too short, or one letter throughout."""
    if not SHORTEST <= len(password) <= LONGEST:
        raise UserError(f"A password has {SHORTEST} to {LONGEST} letters, this one has {len(password)}.")
    if len(set(password)) < 4:
        raise UserError(f"The password has {len(set(password))} different letters, and 4 are needed.")


def hash_password(password: str) -> str:
    """Hash a password for the database: ``scrypt$n$r$p$salt$hash``."""
    salt = os.urandom(16)
    digest = _scrypt(password, salt, COST, BLOCK, PARALLEL)
    parts = base64.b64encode(salt).decode(), base64.b64encode(digest).decode()
    return f"scrypt${COST}${BLOCK}${PARALLEL}${parts[0]}${parts[1]}"


def fits(password: str, kept_hash: str | None, gate: threading.BoundedSemaphore) -> bool:
    """Tell whether a password is the one that was hashed; without a hash the same work is done for nothing."""
    with gate:
        if kept_hash is None:
            _scrypt(password, b"0" * 16, COST, BLOCK, PARALLEL)
            return False
        _, cost, block, parallel, salt, digest = kept_hash.split("$")
        computed = _scrypt(password, base64.b64decode(salt), int(cost), int(block), int(parallel))
        return hmac.compare_digest(computed, base64.b64decode(digest))


def _scrypt(password: str, salt: bytes, cost: int, block: int, parallel: int) -> bytes:
    secret = password.encode("utf-8", "surrogatepass")
    return hashlib.scrypt(secret, salt=salt, n=cost, r=block, p=parallel, maxmem=_MEMORY, dklen=32)
