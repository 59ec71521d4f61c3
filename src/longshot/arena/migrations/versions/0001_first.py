"""The database of Longshot 0.1: teams, submissions, runs, events."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "teams",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("name", sa.String(100), nullable=False, unique=True),
        sa.Column("pseudonym", sa.String(100)),
        sa.Column("ranked", sa.Boolean, nullable=False),
        sa.Column("created", sa.String(32), nullable=False),
    )
    op.create_table(
        "submissions",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("team", sa.Integer, sa.ForeignKey("teams.id"), nullable=False),
        sa.Column("phase", sa.String(40), nullable=False),
        sa.Column("league", sa.String(40), nullable=False),
        sa.Column("created", sa.String(32), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("reason", sa.Text),
        sa.Column("score", sa.Float),
        sa.Column("fact_sheet", sa.Text),
        sa.Column("origin", sa.Integer),
    )
    op.create_index("ix_submissions_team", "submissions", ["team"])
    op.create_table(
        "runs",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("submission", sa.Integer, sa.ForeignKey("submissions.id"), nullable=False),
        sa.Column("seed", sa.Integer, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("worker", sa.String(80)),
        sa.Column("seen", sa.Float),
        sa.Column("score", sa.Float),
        sa.Column("duration", sa.Float),
        sa.UniqueConstraint("submission", "seed"),
    )
    op.create_index("ix_runs_submission", "runs", ["submission"])
    op.create_table(
        "events",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("submission", sa.Integer, sa.ForeignKey("submissions.id"), nullable=False),
        sa.Column("time", sa.String(32), nullable=False),
        sa.Column("what", sa.Text, nullable=False),
    )
    op.create_index("ix_events_submission", "events", ["submission"])
