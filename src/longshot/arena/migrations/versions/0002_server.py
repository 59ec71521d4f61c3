"""What the competition server needs: people, tokens, uploads, workers, versions of scores, the trash, the audit log."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from longshot.arena.database_tables import metadata

revision = "0002"
down_revision = "0001"

_APPEND_ONLY = "the audit log is append-only"
# As ``tables`` has them: a later step that changes one of them spells its earlier columns out here.
_NEW = (
    *("accounts", "members", "invitations", "sessions", "tokens", "uploads", "workers"),
    *("scores", "scorings", "announcements", "audit", "facts"),
)


def upgrade() -> None:
    metadata.create_all(op.get_bind(), [metadata.tables[name] for name in _NEW], checkfirst=False)
    _columns()
    _guard_audit()


def _columns() -> None:
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


def _guard_audit() -> None:
    """Rows of the audit log can be neither changed nor removed, whoever asks the database."""
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
