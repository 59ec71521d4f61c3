"""A competition that is being served: its settings, its memory, its key, and who wrote what into the audit log."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import shutil
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from longshot.arena import entry_rules
from longshot.arena.database_tables import audit, facts, now
from longshot.arena.policy import Person, Refusal
from longshot.arena.services.memory import Memory
from longshot.arena.settings import FILE, Competition, load
from longshot.arena.store import Store, read_secret, secret_file
from longshot.base import UserError

KEY = "server.key"  # beside competition.yaml, for its owner's eyes alone
_ID = "competition"


class Office:
    """What all services take first.

    Parameters
    ----------
    folder : Path
        The competition's folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = threading.Lock()
        self._read: tuple[tuple[int, int], Competition] | None = None
        self.key = bytes.fromhex(secret_file(folder / KEY))
        read_secret(self.competition)  # refuses a secret that others may read
        self.store = Store(self.competition)
        self.id = self._identity()
        self.memory = Memory(self.store)
        self.sessions_ended = 0  # by logging out; a folder has one server, and so one count
        self._touched: set[tuple[str, str]] = set()
        self.hashing = threading.BoundedSemaphore(2)  # a password takes 32 MB while it is looked at

    def close(self) -> None:
        """Give connections back."""
        self.memory.close()
        self.store.engine.dispose()

    @property
    def competition(self) -> Competition:
        """The settings, read again when the file changes; a file that cannot be read leaves those before."""
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
        """What stays the same as long as a person who asks for ``parts`` would get the same answer.

        It holds for answers that follow from submissions, people, settings and phases, and not from the clock beside.
        """
        competition = self.competition
        phases = [phase.state for phase in entry_rules.timetable(competition)]
        about = (self.memory.state(), self._read and self._read[0], phases, self.id, person, parts)
        return hashlib.sha256(repr(about).encode()).hexdigest()[:32]

    def _identity(self) -> str:
        """A random name of this competition, made once: tokens of another one do not fit."""
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
        """What was used since the last time this was asked."""
        with self._lock:
            used, self._touched = self._touched, set()
            return used

    def hashed(self, secret: str) -> str:
        """What is kept of a secret: useless elsewhere and without the key file."""
        return hmac.new(self.key, f"{self.id} {secret}".encode(), hashlib.sha256).hexdigest()

    def csrf(self, session: str) -> str:
        """What forms of a session must bring along."""
        return hmac.new(self.key, f"csrf {session}".encode(), hashlib.sha256).hexdigest()[:32]

    def room(self) -> None:
        """Refusal where the disk is nearly full: things wait, and nothing fails half way."""
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
