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
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.engine import Connection, Engine

from longshot.arena.database_tables import events, metadata, now, submissions, teams
from longshot.arena.inside.wire import one_line
from longshot.arena.settings import Competition, load
from longshot.base import UserError, file_lock

if TYPE_CHECKING:
    from alembic.operations import Operations

VERSIONS = ("0001", "0002")  # of databases: of Longshot 0.1, and with what the server needs
LATEST = VERSIONS[-1]
_CONNECTIONS = 10  # held open, and as many more under load
_VERSIONS = sa.Table(  # as Alembic keeps it
    "alembic_version",
    sa.MetaData(),
    sa.Column("version_num", sa.String(32), nullable=False),
    sa.PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)
_APPEND_ONLY = "the audit log is append-only"
# As ``tables`` has them: a later step that changes one of them spells its earlier columns out here.
_NEW = (
    *("accounts", "members", "invitations", "sessions", "tokens", "uploads", "workers"),
    *("scores", "scorings", "announcements", "audit", "facts"),
)


class Store:
    """A connection to the competition's database; its tables are made, or brought up to date, on first use."""

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
                self._bring_up_to_date()
        except (sa.exc.SQLAlchemyError, ImportError) as error:
            reason = str(getattr(error, "orig", None) or error).splitlines()[0]
            raise UserError(
                f"The competition's database cannot be opened: {reason}", "see 'database' in its YAML"
            ) from error

    def _bring_up_to_date(self) -> None:
        with self.reading() as connection:
            version = database_version(connection)
        if version == LATEST:
            return
        if version is not None and version > LATEST:
            raise UserError(
                f"The competition's database is at version {version} and this Longshot knows {LATEST}",
                "use the Longshot that last opened it, or a later one",
            )
        with self.change() as connection:
            upgrade_database(connection)

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
            raise UserError(
                f"There is no submission {number}", f"{{competition.status({self.folder})}} lists them"
            )
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


def database_version(connection: Connection) -> str | None:
    """Return the step that a database is at: ``0001`` for Longshot 0.1, which did not count; None where it is empty."""
    names = set(sa.inspect(connection).get_table_names())
    if _VERSIONS.name in names:
        return connection.execute(sa.select(_VERSIONS.c.version_num)).scalar()
    return "0001" if "submissions" in names else None


def upgrade_database(connection: Connection) -> None:
    """Make the tables of a new database, or take the steps that an older one lacks, in the connection's transaction."""
    from alembic.migration import MigrationContext
    from alembic.operations import Operations

    operations = Operations(MigrationContext.configure(connection))
    if database_version(connection) is None:
        metadata.create_all(connection, checkfirst=False)
        _guard_audit(operations)
    else:
        _add_server(operations)
    _VERSIONS.create(connection, checkfirst=True)
    connection.execute(_VERSIONS.delete())
    connection.execute(_VERSIONS.insert().values(version_num=LATEST))


def _add_server(op: Operations) -> None:
    """Add what the server needs: people, tokens, uploads, workers, versions of scores, the trash, the audit log."""
    metadata.create_all(op.get_bind(), [metadata.tables[name] for name in _NEW], checkfirst=False)
    op.add_column("teams", sa.Column("deleted", sa.String(32)))
    for column in (
        sa.Column("account", sa.Integer),
        sa.Column("sha256", sa.String(64)),
        sa.Column("bytes", sa.Integer),
        sa.Column("charged", sa.String(32)),
        sa.Column("selected", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("deleted", sa.String(32)),
        sa.Column("job", sa.String(200)),
        sa.Column("target", sa.String(64)),
        sa.Column("version", sa.Integer, nullable=False, server_default="1"),
    ):
        op.add_column("submissions", column)
    op.create_index("ix_submissions_job", "submissions", ["job"], unique=True)
    op.create_index("ix_submissions_board", "submissions", ["phase", "league", "state"])
    op.add_column("runs", sa.Column("half", sa.Float))
    op.add_column("runs", sa.Column("kind", sa.String(8), nullable=False, server_default="run"))
    op.create_index("ix_runs_state", "runs", ["state"])
    # A submission was charged when it was entered; now when its first run begins.
    op.execute("UPDATE submissions SET charged = created WHERE state <> 'queued'")
    op.execute(
        "INSERT INTO scores (submission, seed, version, score, time) SELECT runs.submission, runs.seed, 1, runs.score, "
        "submissions.created FROM runs JOIN submissions ON submissions.id = runs.submission "
        "WHERE runs.state = 'scored' AND runs.score IS NOT NULL ORDER BY runs.id"
    )
    _guard_audit(op)


def _guard_audit(op: Operations) -> None:
    """Let rows of the audit log be neither changed nor removed, whoever asks the database."""
    dialect = op.get_bind().dialect.name
    if dialect == "sqlite":
        for verb in ("UPDATE", "DELETE"):
            op.execute(
                f"CREATE TRIGGER audit_no_{verb.lower()} BEFORE {verb} ON audit "
                f"BEGIN SELECT RAISE(ABORT, '{_APPEND_ONLY}'); END"
            )
    elif dialect == "postgresql":
        op.execute(
            "CREATE FUNCTION audit_append_only() RETURNS trigger LANGUAGE plpgsql AS "
            f"$$ BEGIN RAISE EXCEPTION '{_APPEND_ONLY}'; END $$"
        )
        op.execute(
            "CREATE TRIGGER audit_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit "
            "FOR EACH STATEMENT EXECUTE FUNCTION audit_append_only()"
        )
