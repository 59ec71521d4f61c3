"""Older databases become what ``tables`` says, step by step (Alembic); a new one goes the same way."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine import Connection

HEAD = "0002"  # the last step in ``versions``
_TABLE = "alembic_version"


def version(connection: Connection) -> str | None:
    """The step that a database is at; ``0001`` for one of Longshot 0.1, which did not count; None where it is empty."""
    names = set(sa.inspect(connection).get_table_names())
    if _TABLE in names:
        row = connection.execute(sa.text(f"SELECT version_num FROM {_TABLE}")).first()
        return None if row is None else str(row[0])
    return "0001" if "submissions" in names else None


def upgrade(connection: Connection, to: str = HEAD) -> None:
    """Take every step that is missing, inside the connection's transaction."""
    from alembic import command
    from alembic.config import Config

    before = version(connection)
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    if before is not None and _TABLE not in sa.inspect(connection).get_table_names():
        command.stamp(config, before)
    command.upgrade(config, to)
