"""The competition's memory: teams, submissions, their runs and everything that happened to them, in a database.

SQLite in the competition's folder, or any database by URL through SQLAlchemy. Every change of state is one
transaction that says which state it expects, so that neither two workers nor a crash can count anything twice.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.engine import Connection, Engine

from longshot.competition.inside.shown import one_line
from longshot.competition.settings import Competition, load
from longshot.core.errors import UserError
from longshot.core.locks import file_lock

metadata = sa.MetaData()
teams = sa.Table(
    "teams",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("name", sa.String(100), nullable=False, unique=True),
    sa.Column("pseudonym", sa.String(100)),  # shown in place of the name
    sa.Column("ranked", sa.Boolean, nullable=False),  # False: shown, not ranked (organisers, baselines)
    sa.Column("created", sa.String(32), nullable=False),
)
submissions = sa.Table(
    "submissions",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("team", sa.ForeignKey("teams.id"), nullable=False, index=True),
    sa.Column("phase", sa.String(40), nullable=False),
    sa.Column("league", sa.String(40), nullable=False),
    sa.Column("created", sa.String(32), nullable=False),
    sa.Column("state", sa.String(16), nullable=False),  # queued, running, scored, failed
    sa.Column("reason", sa.Text),  # why it failed
    sa.Column("score", sa.Float),  # worst normalised accuracy over the seeds
    sa.Column("fact_sheet", sa.Text),
    sa.Column("origin", sa.Integer),  # the feedback submission that a final one was made from
)
runs = sa.Table(
    "runs",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("submission", sa.ForeignKey("submissions.id"), nullable=False, index=True),
    sa.Column("seed", sa.Integer, nullable=False),
    sa.Column("attempt", sa.Integer, nullable=False),
    sa.Column("state", sa.String(16), nullable=False),  # queued, running, scored, failed
    sa.Column("worker", sa.String(80)),
    sa.Column("seen", sa.Float),  # last sign of life of the worker, seconds since 1970
    sa.Column("score", sa.Float),
    sa.Column("duration", sa.Float),
    sa.UniqueConstraint("submission", "seed"),
)
events = sa.Table(
    "events",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("submission", sa.ForeignKey("submissions.id"), nullable=False, index=True),
    sa.Column("time", sa.String(32), nullable=False),
    sa.Column("what", sa.Text, nullable=False),
)


def now() -> str:
    """UTC, to the second, as text that sorts."""
    return dt.datetime.now(dt.UTC).strftime("%Y-%m-%d %H:%M:%S")


class Store:
    """A connection to the competition's database; its tables are made on first use."""

    def __init__(self, competition: Competition) -> None:
        self.folder = competition.folder
        url = competition.database or f"sqlite:///{competition.folder / 'competition.db'}"
        try:
            self.engine: Engine = sa.create_engine(
                url, connect_args={"timeout": 60} if "sqlite" in url else {}
            )
            if self.engine.dialect.name == "sqlite":
                event.listen(self.engine, "connect", _sqlite_settings)
                event.listen(self.engine, "begin", _sqlite_begin)
            with self._alone():
                metadata.create_all(self.engine)
        except (sa.exc.SQLAlchemyError, ImportError) as error:
            reason = str(getattr(error, "orig", None) or error).splitlines()[0]
            raise UserError(
                f"The competition's database cannot be opened: {reason}", "see 'database' in its YAML"
            ) from error

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Of those that open the database first, one at a time prepares it."""
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
        """One transaction: all of it or nothing."""
        with self.engine.begin() as connection:
            yield connection

    def rows(self, query: sa.Select[Any]) -> list[dict[str, Any]]:
        """The rows of a query as plain dictionaries."""
        with self.engine.connect() as connection:
            return [dict(row) for row in connection.execute(query).mappings()]

    def submission(self, number: int) -> dict[str, Any]:
        """One submission with its team's name; UserError when there is none of that number."""
        rows = self.rows(
            sa.select(submissions, teams.c.name.label("team_name"))
            .join(teams, teams.c.id == submissions.c.team)
            .where(submissions.c.id == number)
        )
        if not rows:
            raise UserError(
                f"There is no submission {number}", f"{{competition.status({self.folder})}} lists them"
            )
        return rows[0]

    def history(self, number: int) -> list[dict[str, Any]]:
        """What happened to a submission, oldest first."""
        return self.rows(sa.select(events).where(events.c.submission == number).order_by(events.c.id))


def open_competition(folder: str | Path) -> tuple[Competition, Store]:
    """The settings of the competition in ``folder`` and its memory."""
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
    connection.exec_driver_sql("BEGIN IMMEDIATE")  # writers queue up here instead of failing half way
