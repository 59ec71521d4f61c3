"""The tables of a competition's database are made once; those of another version are left alone, in a sentence."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from longshot.arena import Competition
from longshot.arena.database_tables import facts, metadata
from longshot.arena.store import VERSION, Store
from longshot.base import UserError

from .test_database import Server
from .test_database import server as server


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, competition: Competition) -> Iterator[Competition]:
    if request.param == "sqlite":
        yield competition
        return
    postgres: Server = request.getfixturevalue("server")
    yield competition.model_copy(update={"database": postgres.new_database()})


def test_a_new_database_has_the_tables_and_is_opened_again(database: Competition) -> None:
    for _ in range(2):
        store = Store(database)
        with store.reading() as connection:
            looked = sa.inspect(connection)
            assert set(looked.get_table_names()) == set(metadata.tables)
            for table in metadata.tables.values():
                assert {column["name"] for column in looked.get_columns(table.name)} == set(
                    table.columns.keys()
                )
        store.engine.dispose()


@pytest.mark.parametrize("other", ["2", None])
def test_a_database_of_another_version_is_named_and_not_touched(
    database: Competition, other: str | None
) -> None:
    store = Store(database)
    with store.change() as connection:
        own = facts.c.name == "version"
        connection.execute(
            facts.delete().where(own) if other is None else facts.update().where(own).values(value=other)
        )
    store.engine.dispose()
    sentence = (
        rf"has tables of version {other or 'unknown'} and this Longshot needs {VERSION}; use the Longshot"
    )
    for _ in range(2):
        with pytest.raises(UserError, match=sentence):
            Store(database)


def test_a_database_without_facts_is_of_an_unknown_version(competition: Competition) -> None:
    path = competition.folder / "competition.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE submissions (id INTEGER)")
        before = list(connection.iterdump())
    with pytest.raises(UserError, match=rf"tables of version unknown and this Longshot needs {VERSION}"):
        Store(competition)
    with sqlite3.connect(path) as connection:
        assert list(connection.iterdump()) == before


def test_the_audit_log_is_append_only_in_either_database(database: Competition) -> None:
    store = Store(database)
    values = "INSERT INTO audit (id, time, who, action, object) VALUES (1, '', 'a', 'b', 'c')"
    with store.change() as connection:
        connection.execute(sa.text(values))
    for statement in ("UPDATE audit SET who = 'x'", "DELETE FROM audit"):
        with pytest.raises(sa.exc.DBAPIError, match="append-only"), store.change() as connection:
            connection.execute(sa.text(statement))
    store.engine.dispose()
