"""What the competition server needs: people, tokens, uploads, workers, versions of scores, the trash, the audit log."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

_APPEND_ONLY = "the audit log is append-only"


def upgrade() -> None:
    _columns()
    _people()
    _work()
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
    # As a final entry was made once for a team and league, so it stays.
    op.create_table(
        "scores",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("submission", sa.Integer, sa.ForeignKey("submissions.id"), nullable=False),
        sa.Column("seed", sa.Integer, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("target", sa.String(64)),
        sa.Column("score", sa.Float, nullable=False),
        sa.Column("half", sa.Float),
        sa.Column("time", sa.String(32), nullable=False),
    )
    op.create_index("ix_scores_submission", "scores", ["submission"])
    op.execute(
        "INSERT INTO scores (submission, seed, version, score, time) SELECT runs.submission, runs.seed, 1, runs.score, "
        "submissions.created FROM runs JOIN submissions ON submissions.id = runs.submission "
        "WHERE runs.state = 'scored' AND runs.score IS NOT NULL ORDER BY runs.id"
    )
    op.create_table(
        "scorings",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("phase", sa.String(40), nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("target", sa.String(64), nullable=False),
        sa.Column("kind", sa.String(8), nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("account", sa.Integer),
        sa.Column("time", sa.String(32), nullable=False),
        sa.UniqueConstraint("phase", "version"),
    )


def _people() -> None:
    op.create_table(
        "accounts",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("folded", sa.String(200), nullable=False, unique=True),
        sa.Column("password", sa.String(200), nullable=False),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("rights", sa.Integer, nullable=False, server_default="0"),
        sa.Column("terms", sa.String(32)),
        sa.Column("created", sa.String(32), nullable=False),
    )
    op.create_table(
        "members",
        sa.Column("account", sa.Integer, sa.ForeignKey("accounts.id"), primary_key=True),
        sa.Column("team", sa.Integer, sa.ForeignKey("teams.id"), nullable=False),
        sa.Column("leads", sa.Boolean, nullable=False),
        sa.Column("joined", sa.String(32), nullable=False),
    )
    op.create_index("ix_members_team", "members", ["team"])
    op.create_table(
        "invitations",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("hash", sa.String(64), nullable=False, unique=True),
        sa.Column("kind", sa.String(8), nullable=False),
        sa.Column("role", sa.String(16)),
        sa.Column("team", sa.Integer, sa.ForeignKey("teams.id")),
        sa.Column("account", sa.Integer),
        sa.Column("created", sa.String(32), nullable=False),
        sa.Column("expires", sa.String(32), nullable=False),
        sa.Column("used", sa.String(32)),
        sa.Column("used_by", sa.Integer),
    )
    op.create_table(
        "sessions",
        sa.Column("hash", sa.String(64), primary_key=True),
        sa.Column("account", sa.Integer, sa.ForeignKey("accounts.id"), nullable=False),
        sa.Column("rights", sa.Integer, nullable=False),
        sa.Column("created", sa.String(32), nullable=False),
        sa.Column("seen", sa.String(32), nullable=False),
        sa.Column("expires", sa.String(32), nullable=False),
    )
    op.create_index("ix_sessions_account", "sessions", ["account"])
    op.create_table(
        "tokens",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("hash", sa.String(64), nullable=False, unique=True),
        sa.Column("account", sa.Integer, sa.ForeignKey("accounts.id")),
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("scopes", sa.String(100), nullable=False),
        sa.Column("created", sa.String(32), nullable=False),
        sa.Column("expires", sa.String(32), nullable=False),
        sa.Column("last_used", sa.String(32)),
        sa.Column("revoked", sa.String(32)),
    )
    op.create_index("ix_tokens_account", "tokens", ["account"])


def _work() -> None:
    op.create_table(
        "uploads",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("account", sa.Integer, sa.ForeignKey("accounts.id"), nullable=False),
        sa.Column("team", sa.Integer, sa.ForeignKey("teams.id"), nullable=False),
        sa.Column("phase", sa.String(40), nullable=False),
        sa.Column("league", sa.String(40), nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("size", sa.Integer, nullable=False),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("received", sa.Integer, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("seen", sa.Float, nullable=False),
        sa.Column("created", sa.String(32), nullable=False),
        sa.Column("fact_sheet", sa.Text),
        sa.Column("reason", sa.Text),
        sa.Column("submission", sa.Integer),
    )
    op.create_index("ix_uploads_team", "uploads", ["team"])
    op.create_table(
        "workers",
        sa.Column("name", sa.String(80), primary_key=True),
        sa.Column("token", sa.Integer),
        sa.Column("seen", sa.Float, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("why", sa.Text),
        sa.Column("version", sa.String(40)),
    )
    op.create_table(
        "announcements",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("time", sa.String(32), nullable=False),
        sa.Column("account", sa.Integer),
        sa.Column("title", sa.String(200), nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("deleted", sa.String(32)),
    )
    op.create_table(
        "audit",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("time", sa.String(32), nullable=False),
        sa.Column("who", sa.String(120), nullable=False),
        sa.Column("account", sa.Integer),
        sa.Column("action", sa.String(60), nullable=False),
        sa.Column("object", sa.String(120), nullable=False),
        sa.Column("before", sa.Text),
        sa.Column("after", sa.Text),
    )
    op.create_table(
        "facts",
        sa.Column("name", sa.String(40), primary_key=True),
        sa.Column("value", sa.Text, nullable=False),
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
