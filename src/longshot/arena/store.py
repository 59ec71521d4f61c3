"""The competition's memory: teams, submissions, their runs and everything that happened to them, in a database.

SQLite in the competition's folder, or any database by URL through SQLAlchemy. Every change of state is one
transaction that says which state it expects, so that neither two workers nor a crash can count anything twice.
Beside it lies the organiser's secret, from which test tasks follow: a file for the organiser's eyes alone.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.engine import Connection, Engine

from longshot.arena.database_tables import events, facts, metadata, now, submissions, teams
from longshot.arena.inside.wire import one_line
from longshot.arena.policy import not_there
from longshot.arena.settings import Competition, load
from longshot.base import UserError, file_lock

VERSION = "3"  # of the tables: what changes them counts it up
_FACT = "version"  # the fact that holds it
_CONNECTIONS = 10  # held open, and as many more under load
_APPEND_ONLY = "the audit log is append-only"
_version = sa.select(facts.c.value).where(facts.c.name == _FACT)


class Store:
    """A connection to the competition's database; its tables are made on first use."""

    def __init__(self, competition: Competition) -> None:
        self.folder = competition.folder
        url = competition.database or f"sqlite:///{competition.folder / 'competition.db'}"
        try:
            self.engine: Engine = sa.create_engine(
                url,
                connect_args={"timeout": 60} if "sqlite" in url else {},
                pool_size=_CONNECTIONS,
                max_overflow=_CONNECTIONS,
                pool_pre_ping="sqlite" not in url,  # a server that was restarted leaves dead connections
            )
            if self.engine.dialect.name == "sqlite":
                event.listen(self.engine, "connect", _sqlite_settings)
                event.listen(self.engine, "begin", _sqlite_begin)
            with self._alone():
                self._make_tables()
        except (sa.exc.SQLAlchemyError, ImportError) as error:
            reason = str(getattr(error, "orig", None) or error).splitlines()[0]
            raise UserError(
                f"The competition's database cannot be opened: {reason}", "see 'database' in its YAML"
            ) from error

    def _make_tables(self) -> None:
        """Make the tables of a new database; raise UserError where they are those of another Longshot."""
        with self.reading() as connection:
            names = set(sa.inspect(connection).get_table_names())
            rows = connection.execute(_version).scalars().all() if facts.name in names else []
        if rows == [VERSION]:
            return
        if submissions.name in names:
            raise UserError(
                f"The competition's database has tables of version {rows[0] if rows else 'unknown'} and this Longshot "
                f"needs {VERSION}",
                "use the Longshot that made it, or move it away: a new one is made, without teams and submissions",
            )
        with self.change() as connection:
            metadata.create_all(connection, checkfirst=False)
            _guard_audit(connection)
            connection.execute(facts.insert().values(name=_FACT, value=VERSION))

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Let those that open the database first prepare it one at a time."""
        if self.engine.dialect.name == "sqlite":
            with (
                file_lock(self.folder / ".database.lock"),
                closing(self.engine.raw_connection()) as connection,
            ):
                # Readers do not wait for a writer. The file remembers it; two that change it at once fail with
                # "database is locked", however long they are willing to wait.
                connection.cursor().execute("PRAGMA journal_mode=WAL")
                yield
        elif self.engine.dialect.name == "postgresql":
            with self.engine.begin() as connection:
                connection.execute(sa.text("SELECT pg_advisory_xact_lock(7)"))  # until this transaction ends
                yield
        else:
            yield

    @contextmanager
    def change(self) -> Iterator[Connection]:
        """Open one transaction: all of it or nothing."""
        with self.engine.begin() as connection:
            yield connection

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Open a connection that only reads and waits for no writer."""
        with self.engine.connect() as connection:
            yield connection.execution_options(reading=True)

    def rows(self, query: sa.Select[Any], **values: Any) -> list[dict[str, Any]]:
        """Return the rows of a query, with values for its parameters, as plain dictionaries."""
        with self.reading() as connection:
            return [dict(row) for row in connection.execute(query, values).mappings()]

    def submission(self, number: int) -> dict[str, Any]:
        """Read one submission with its team's name; raise UserError when there is none of that number."""
        rows = self.rows(
            sa.select(submissions, teams.c.name.label("team_name"))
            .join(teams, teams.c.id == submissions.c.team)
            .where(submissions.c.id == number)
        )
        if not rows:
            raise not_there("submission", number)
        return rows[0]

    def history(self, number: int) -> list[dict[str, Any]]:
        """List what happened to a submission, oldest first."""
        return self.rows(sa.select(events).where(events.c.submission == number).order_by(events.c.id))


def open_competition(folder: str | Path) -> tuple[Competition, Store]:
    """Open the competition in ``folder``: its settings and its database."""
    competition = load(folder)
    return competition, Store(competition)


def note(connection: Connection, submission: int, line: str) -> None:
    """Write a line into a submission's history; what strangers put into it cannot make two of it."""
    connection.execute(events.insert().values(submission=submission, time=now(), what=one_line(line)))


def _sqlite_settings(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # BEGIN is sent below: Python's own would start too late
    cursor = connection.cursor()
    cursor.execute("PRAGMA synchronous=FULL")  # what was committed survives a power cut
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.close()


def _sqlite_begin(connection: Connection) -> None:
    reading = connection.get_execution_options().get("reading")
    # Writers queue up here instead of failing half way; readers see the last committed state at once.
    connection.exec_driver_sql("BEGIN" if reading else "BEGIN IMMEDIATE")


def read_secret(competition: Competition) -> str:
    """Return the random text made once and held by the organiser; test tasks follow from it."""
    return secret_file(competition.folder / "secret")


def secret_file(path: Path) -> str:
    """Read a secret file, made where it is missing; raise UserError where others may read it."""
    if not path.is_file():
        handle, name = tempfile.mkstemp(prefix=".secret-", dir=path.parent)  # mode 600
        with os.fdopen(handle, "w", encoding="ascii") as out:
            out.write(secrets.token_hex(32))
            out.flush()
            os.fsync(handle)
        with contextlib.suppress(FileExistsError):  # of several that begin at once, one makes it
            os.link(name, path)
        Path(name).unlink()
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        raise UserError(
            f"The secret {path} has the mode {mode:o}, and others than its owner may not read it",
            f"close it with 'chmod 600 {path}'; what was read meanwhile is no secret any more",
        )
    return path.read_text(encoding="ascii").strip()


def _guard_audit(connection: Connection) -> None:
    """Let rows of the audit log be neither changed nor removed, whoever asks the database."""
    dialect = connection.dialect.name
    if dialect == "sqlite":
        for verb in ("UPDATE", "DELETE"):
            connection.exec_driver_sql(
                f"CREATE TRIGGER audit_no_{verb.lower()} BEFORE {verb} ON audit "
                f"BEGIN SELECT RAISE(ABORT, '{_APPEND_ONLY}'); END"
            )
    elif dialect == "postgresql":
        connection.exec_driver_sql(
            "CREATE FUNCTION audit_append_only() RETURNS trigger LANGUAGE plpgsql AS "
            f"$$ BEGIN RAISE EXCEPTION '{_APPEND_ONLY}'; END $$"
        )
        connection.exec_driver_sql(
            "CREATE TRIGGER audit_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit "
            "FOR EACH STATEMENT EXECUTE FUNCTION audit_append_only()"
        )
