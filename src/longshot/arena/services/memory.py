"""What was read of a database and is still true: many look at a competition that stands still for a while.

Everything remembered has a stamp, which changes with whatever is written by anybody, so nothing old is ever told.
"""

from __future__ import annotations

import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

import sqlalchemy as sa

from longshot.arena.database_tables import audit, events
from longshot.arena.store import Store

T = TypeVar("T")
_MOST = 5000  # answers that are remembered


class Memory:
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
        """What stays the same until anybody, in whatever process, writes anything.

        SQLite counts for a connection what all others commit; PostgreSQL names what a new transaction would see.
        """
        if self._watch is not None:
            with self._lock:
                return int(self._watch.execute("PRAGMA data_version").fetchone()[0])
        with self.store.reading() as connection:
            return str(connection.execute(sa.text("SELECT txid_current_snapshot()::text")).scalar_one())

    def state(self) -> object:
        """What stays the same until something happens to a submission or is done by a person.

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
        """What ``make`` gave under this stamp, which was asked for before; made anew under another.

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
