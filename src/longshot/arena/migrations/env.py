"""What Alembic runs: steps on the connection that it is handed, in its transaction."""

from __future__ import annotations

from alembic import context

from longshot.arena.database_tables import metadata

if hasattr(context, "config"):  # else somebody only imports every module there is
    context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
    with context.begin_transaction():
        context.run_migrations()
