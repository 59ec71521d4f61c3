"""A competition that is being served: its settings, its key, its audit log, and what was read and is still true.

Many look at a competition that stands still for a while. Everything remembered has a stamp, which changes with whatever
is written by anybody, so nothing old is ever told.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import shutil
import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self, TypeAlias, TypeVar

import sqlalchemy as sa
from pydantic import Field
from sqlalchemy.engine import Connection

from longshot.arena import entry_rules
from longshot.arena.database_tables import audit, events, facts, now
from longshot.arena.policy import Person, Refusal
from longshot.arena.settings import FILE, Competition, load
from longshot.arena.store import Store, read_secret, secret_file
from longshot.base import UserError

if TYPE_CHECKING:
    from longshot.arena.competition_data import BlobStore

T = TypeVar("T")
# What strangers send to services has an end; services look closer.
Line: TypeAlias = Annotated[str, Field(max_length=400)]
LongText: TypeAlias = Annotated[str, Field(max_length=20_000)]
RowNumber: TypeAlias = Annotated[int, Field(le=2**31 - 1)]
Offset: TypeAlias = Annotated[int, Field(ge=0, le=2**40)]
AttemptNumber: TypeAlias = Annotated[int, Field(ge=0, le=1000)]
_MOST = 5000  # answers that are remembered


class StampedCache:
    """Answers of a database by what they depend on.

    Parameters
    ----------
    store : Store
        The database.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self._lock = threading.Lock()
        self._watch: sqlite3.Connection | None = None
        self._held: OrderedDict[Hashable, tuple[object, Any]] = OrderedDict()
        if store.engine.dialect.name == "sqlite":
            path = str(store.engine.url.database)
            self._watch = sqlite3.connect(path, check_same_thread=False, isolation_level=None)

    def close(self) -> None:
        """Look no more."""
        if self._watch is not None:
            self._watch.close()

    def stamp(self) -> object:
        """Return what stays the same until anybody, in whatever process, writes anything.

        SQLite counts for a connection what all others commit; PostgreSQL names what a new transaction would see.
        """
        if self._watch is not None:
            with self._lock:
                return int(self._watch.execute("PRAGMA data_version").fetchone()[0])
        with self.store.reading() as connection:
            return str(connection.execute(sa.text("SELECT txid_current_snapshot()::text")).scalar_one())

    def state(self) -> object:
        """Return what stays the same until something happens to a submission or is done by a person.

        Whatever changes a board, an account or a team writes a line into a submission's history or into the audit
        log, in the same transaction. Signs of life of workers do not. Lines of SQLite come one after the other; those
        of PostgreSQL may be committed in another order than they are numbered, so there the stamp itself is taken.
        """
        if self._watch is None:
            return self.stamp()
        return self.kept("state", self.stamp(), self._lines)

    def _lines(self) -> tuple[int | None, int | None]:
        latest = sa.select(
            sa.select(sa.func.max(events.c.id)).scalar_subquery(),
            sa.select(sa.func.max(audit.c.id)).scalar_subquery(),
        )
        with self.store.reading() as connection:
            event, line = connection.execute(latest).one()
        return event, line

    def kept(self, key: Hashable, stamp: object, make: Callable[[], T]) -> T:
        """Return what ``make`` gave under this stamp before; make it anew under another.

        None is not remembered; the oldest are forgotten where there are too many.
        """
        with self._lock:
            held = self._held.get(key)
        if held is not None and held[0] == stamp:
            return held[1]  # type: ignore[no-any-return]
        value = make()
        if value is not None:
            with self._lock:
                self._held[key] = (stamp, value)
                self._held.move_to_end(key)
                while len(self._held) > _MOST:
                    self._held.popitem(last=False)
        return value


KEY = "server.key"  # beside competition.yaml, for its owner's eyes alone
_ID = "competition"


class ServerContext:
    """What all services take first.

    Parameters
    ----------
    folder : Path
        The competition's folder.
    """

    def __init__(self, folder: Path) -> None:
        load(folder)  # says what is wrong with it before anything is made
        self.folder = folder
        self._lock = threading.Lock()
        self._read: tuple[tuple[int, int], Competition] | None = None
        self.key = bytes.fromhex(secret_file(folder / KEY))
        read_secret(self.competition)  # refuses a secret that others may read
        self.store = Store(self.competition)
        self.id = self._identity()
        self.memory = StampedCache(self.store)
        self.lease: float | None = (
            None  # of workers in this process; of others the reaper judges who is silent
        )
        self.sessions_ended = 0  # by logging out; a folder has one server, and so one count
        self._touched: set[tuple[str, str]] = set()
        self.hashing = threading.BoundedSemaphore(2)  # a password takes 32 MB while it is looked at

    @cached_property
    def blobs(self) -> BlobStore:
        """Return the hidden data that workers fetch by their hashes."""
        from longshot.arena.competition_data import BlobStore

        return BlobStore(self.folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Give connections back."""
        self.memory.close()
        self.store.engine.dispose()

    @property
    def competition(self) -> Competition:
        """Return the settings, read again when the file changes; a file that cannot be read leaves those before."""
        stat = (self.folder / FILE).stat()
        stamp = (stat.st_mtime_ns, stat.st_size)
        with self._lock:
            if self._read is None or self._read[0] != stamp:
                try:
                    self._read = (stamp, load(self.folder))
                except UserError:
                    if self._read is None:
                        raise
                    self._read = (stamp, self._read[1])
            return self._read[1]

    def tag(self, person: Person, *parts: str) -> str:
        """Return what stays the same as long as a person who asks for ``parts`` would get the same answer.

        It holds for answers that follow from submissions, people, settings and phases, and not from the clock beside.
        """
        competition = self.competition
        phases = [phase.state for phase in entry_rules.timetable(competition)]
        about = (self.memory.state(), self._read and self._read[0], phases, self.id, person, parts)
        return hashlib.sha256(repr(about).encode()).hexdigest()[:32]

    def _identity(self) -> str:
        """Return a random name of this competition, made once: tokens of another one do not fit."""
        with self.store.change() as connection:
            row = connection.execute(sa.select(facts.c.value).where(facts.c.name == _ID)).first()
            if row is None:
                value = secrets.token_hex(8)
                connection.execute(facts.insert().values(name=_ID, value=value))
                return value
            return str(row[0])

    def touch(self, kind: str, digest: str) -> None:
        """Note that a session or a token was used; the reaper writes it down, so that no reader waits for a writer."""
        with self._lock:
            self._touched.add((kind, digest))

    def touched(self) -> set[tuple[str, str]]:
        """Return what was used since the last call."""
        with self._lock:
            used, self._touched = self._touched, set()
            return used

    def hashed(self, secret: str) -> str:
        """Hash a secret for the database: useless elsewhere and without the key file."""
        return hmac.new(self.key, f"{self.id} {secret}".encode(), hashlib.sha256).hexdigest()

    def csrf(self, session: str) -> str:
        """Return what forms of a session must bring along."""
        return hmac.new(self.key, f"csrf {session}".encode(), hashlib.sha256).hexdigest()[:32]

    def room(self) -> None:
        """Raise Refusal where the disk is nearly full: things wait, and nothing fails half way."""
        free = shutil.disk_usage(self.folder).free
        least = self.competition.server.free_disk
        if free < least:
            raise Refusal(
                503,
                f"The server has {free >> 20:,} MB of free disk and needs {least >> 20:,}; nothing is lost",
                "try again later",
                retry=60.0,
            )


def record(
    connection: Connection,
    person: Person,
    action: str,
    subject: str,
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
) -> None:
    """Write a line into the audit log, in the transaction that does what it tells of."""
    who = person.name or person.role

    def text(values: Mapping[str, Any] | None) -> str | None:
        return None if values is None else json.dumps(dict(values), default=str, sort_keys=True)

    connection.execute(
        audit.insert().values(
            time=now(),
            who=f"{person.role} {who}"[:120],
            account=person.account,
            action=action[:60],
            object=subject[:120],
            before=text(before),
            after=text(after),
        )
    )
