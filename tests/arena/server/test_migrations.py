"""A database of Longshot 0.1 with rows in it becomes today's, on SQLite and on PostgreSQL; nothing in it is lost."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from longshot.arena import Competition, queue, ranking
from longshot.arena.database_tables import metadata
from longshot.arena.store import LATEST, VERSIONS, Store, database_version
from longshot.base import UserError

from ..test_database import Server
from ..test_database import server as server

# As Longshot 0.1 made them, word for word of SQLite's own record.
OLD = """
CREATE TABLE teams (id INTEGER NOT NULL, name VARCHAR(100) NOT NULL, pseudonym VARCHAR(100), ranked BOOLEAN NOT NULL,
  created VARCHAR(32) NOT NULL, PRIMARY KEY (id), UNIQUE (name));
CREATE TABLE submissions (id INTEGER NOT NULL, team INTEGER NOT NULL, phase VARCHAR(40) NOT NULL,
  league VARCHAR(40) NOT NULL, created VARCHAR(32) NOT NULL, state VARCHAR(16) NOT NULL, reason TEXT, score FLOAT,
  fact_sheet TEXT, origin INTEGER, PRIMARY KEY (id), FOREIGN KEY(team) REFERENCES teams (id));
CREATE INDEX ix_submissions_team ON submissions (team);
CREATE TABLE runs (id INTEGER NOT NULL, submission INTEGER NOT NULL, seed INTEGER NOT NULL, attempt INTEGER NOT NULL,
  state VARCHAR(16) NOT NULL, worker VARCHAR(80), seen FLOAT, score FLOAT, duration FLOAT, PRIMARY KEY (id),
  UNIQUE (submission, seed), FOREIGN KEY(submission) REFERENCES submissions (id));
CREATE INDEX ix_runs_submission ON runs (submission);
CREATE TABLE events (id INTEGER NOT NULL, submission INTEGER NOT NULL, time VARCHAR(32) NOT NULL, what TEXT NOT NULL,
  PRIMARY KEY (id), FOREIGN KEY(submission) REFERENCES submissions (id));
CREATE INDEX ix_events_submission ON events (submission);
"""
ROWS = """
INSERT INTO teams VALUES (1, 'Ada', 'Lovelace', true, '2026-01-01 00:00:00');
INSERT INTO teams VALUES (2, 'Bob', NULL, true, '2026-01-01 00:00:01');
INSERT INTO submissions VALUES (1, 1, 'feedback', 'free-style', '2026-01-02 00:00:00', 'scored', NULL, 0.5, NULL, NULL);
INSERT INTO submissions VALUES (2, 2, 'feedback', 'free-style', '2026-01-02 00:00:01', 'failed', 'boom', NULL, NULL,
  NULL);
INSERT INTO submissions VALUES (3, 2, 'feedback', 'free-style', '2026-01-02 00:00:02', 'queued', NULL, NULL, '{}',
  NULL);
INSERT INTO runs VALUES (1, 1, 1, 1, 'scored', 'w', 1.0, 0.5, 2.0);
INSERT INTO runs VALUES (2, 2, 1, 1, 'failed', 'w', 1.0, NULL, 2.0);
INSERT INTO runs VALUES (3, 3, 1, 0, 'queued', NULL, NULL, NULL, NULL);
INSERT INTO events VALUES (1, 1, '2026-01-02 00:00:00', 'entered into phase feedback, league free-style');
"""


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, competition: Competition) -> Iterator[Competition]:
    if request.param == "sqlite":
        yield competition
        return
    postgres: Server = request.getfixturevalue("server")
    yield competition.model_copy(update={"database": postgres.new_database()})


def fill(competition: Competition) -> None:
    """A database as version 0.1 left it."""
    url = competition.database or f"sqlite:///{competition.folder / 'competition.db'}"
    engine = sa.create_engine(url)
    script = OLD + ROWS
    if engine.dialect.name == "postgresql":
        script = script.replace("id INTEGER NOT NULL", "id SERIAL NOT NULL")
        script += "".join(
            f"SELECT setval('{table}_id_seq', 3);" for table in ("teams", "submissions", "runs", "events")
        )
    with engine.begin() as connection:
        for statement in filter(str.strip, script.split(";")):
            connection.execute(sa.text(statement))
    engine.dispose()


def differences(store: Store) -> list[Any]:
    with store.reading() as connection:
        return list(compare_metadata(MigrationContext.configure(connection), metadata))


def test_the_old_database_goes_on(database: Competition, submission: Any) -> None:
    fill(database)
    store = Store(database)
    try:
        assert differences(store) == []
        with store.reading() as connection:
            assert database_version(connection) == LATEST
        rows = store.rows(sa.text("SELECT id, charged, version, selected FROM submissions ORDER BY id"))  # type: ignore[arg-type]
        assert [(row["id"], row["charged"], row["version"]) for row in rows] == [
            (1, "2026-01-02 00:00:00", 1),
            (2, "2026-01-02 00:00:01", 1),
            (3, None, 1),
        ]
        scores = store.rows(sa.text("SELECT submission, seed, version, score FROM scores"))  # type: ignore[arg-type]
        assert [tuple(row.values()) for row in scores] == [(1, 1, 1, 0.5)]
        (line,) = ranking.leaderboard(database, store, "feedback", "free-style")
        assert (line.team, line.score) == ("Lovelace", 0.5)
        claimed = queue.claim(store, "w")
        assert claimed is not None and claimed.submission == 3
        assert queue.finish(store, claimed, "w", score=0.75, half=0.1, duration=1.0, reason=None)
        number = queue.enter(database, store, submission(), team="bob", phase="feedback", league="free-style")
        assert number == 4
        board = ranking.leaderboard(database, store, "feedback", "free-style")
        assert [(entry.team, entry.half) for entry in board] == [("Bob", 0.1), ("Lovelace", None)]
        assert "entered into phase" in store.history(1)[0]["what"]
    finally:
        store.engine.dispose()


def test_a_new_database_is_what_the_tables_say(database: Competition) -> None:
    for _ in range(2):  # opened again, nothing is left to do
        store = Store(database)
        assert differences(store) == []
        store.engine.dispose()


def test_a_step_that_fails_leaves_the_database_as_it_was(competition: Competition, monkeypatch: Any) -> None:
    fill(competition)
    path = competition.folder / "competition.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE scores (own INTEGER)")  # in the way
        before = list(connection.iterdump())
    with pytest.raises(UserError, match=r"database cannot be opened: table scores already exists"):
        Store(competition)
    with sqlite3.connect(path) as connection:
        assert list(connection.iterdump()) == before
        connection.execute("DROP TABLE scores")
    Store(competition).engine.dispose()


def test_a_database_of_a_later_longshot_is_not_touched(competition: Competition) -> None:
    Store(competition).engine.dispose()
    with sqlite3.connect(competition.folder / "competition.db") as connection:
        connection.execute("UPDATE alembic_version SET version_num = '0099'")
    with pytest.raises(UserError, match=r"is at version 0099 and this Longshot knows 0002; use the Longshot"):
        Store(competition)


def test_the_audit_log_is_append_only_in_either_database(database: Competition) -> None:
    store = Store(database)
    values = "INSERT INTO audit (id, time, who, action, object) VALUES (1, '', 'a', 'b', 'c')"
    with store.change() as connection:
        connection.execute(sa.text(values))
    for statement in ("UPDATE audit SET who = 'x'", "DELETE FROM audit"):
        with pytest.raises(sa.exc.DBAPIError, match="append-only"), store.change() as connection:
            connection.execute(sa.text(statement))
    store.engine.dispose()


def test_the_steps_are_in_the_package() -> None:
    steps = sorted(VERSIONS)
    assert steps[-1] == LATEST and steps == [f"{number:04d}" for number in range(1, len(steps) + 1)]
