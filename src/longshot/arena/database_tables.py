"""The tables of a competition's database; who changes one counts up the version in ``store``.

Times are UTC texts that sort (``now``); leases are seconds since 1970. Secrets are kept as hashes alone.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any, TypeVar

import sqlalchemy as sa

# States that nothing changes any more but a rerun or a rescoring.
ENDED = ("scored", "failed", "cancelled", "platform error")
PLATFORM = "platform error"  # nobody's fault but ours: it costs no quota

metadata = sa.MetaData()
_Filled = TypeVar("_Filled", bound=tuple[Any, ...])


def _numbered(name: str, *parts: sa.schema.SchemaItem) -> sa.Table:
    """Declare a table whose rows have a number of their own."""
    return sa.Table(name, metadata, sa.Column("id", sa.Integer, primary_key=True), *parts)


teams = _numbered(
    "teams",
    sa.Column("name", sa.String(100), nullable=False, unique=True),
    sa.Column("pseudonym", sa.String(100)),  # shown in place of the name
    sa.Column("ranked", sa.Boolean, nullable=False),  # False: shown, not ranked (organisers, baselines)
    sa.Column("created", sa.String(32), nullable=False),
    sa.Column("deleted", sa.String(32)),  # in the trash since
)
submissions = _numbered(
    "submissions",
    sa.Column("team", sa.ForeignKey("teams.id"), nullable=False, index=True),
    sa.Column("phase", sa.String(40), nullable=False),
    sa.Column("league", sa.String(40), nullable=False),
    sa.Column("created", sa.String(32), nullable=False),
    sa.Column("state", sa.String(16), nullable=False),  # queued, running or one of ENDED
    sa.Column("reason", sa.Text),  # why it failed
    sa.Column("score", sa.Float),  # worst normalised accuracy over the seeds
    sa.Column("fact_sheet", sa.Text),
    sa.Column("origin", sa.Integer),  # the feedback submission that a final one was made from
    sa.Column("account", sa.Integer),  # who handed it in, where the server took it
    sa.Column("sha256", sa.String(64)),  # of the archive as it came
    sa.Column("bytes", sa.Integer),
    sa.Column("charged", sa.String(32)),  # when its first run began; empty before, and after a refund
    sa.Column("selected", sa.Boolean, nullable=False, server_default=sa.false()),  # by its team
    sa.Column("deleted", sa.String(32)),  # in the trash since
    sa.Column("job", sa.String(200)),  # what made it, once: upload/…, carry/…
    sa.Column("target", sa.String(64)),  # hash of the tasks it is run on
    sa.Column("version", sa.Integer, nullable=False, server_default="1"),  # of its phase's scoring
    sa.Index("ix_submissions_job", "job", unique=True),
    sa.Index("ix_submissions_board", "phase", "league", "state"),
)
runs = _numbered(
    "runs",
    sa.Column("submission", sa.ForeignKey("submissions.id"), nullable=False, index=True),
    sa.Column("seed", sa.Integer, nullable=False),
    sa.Column("attempt", sa.Integer, nullable=False),
    sa.Column("state", sa.String(16), nullable=False, index=True),  # as of submissions
    sa.Column("worker", sa.String(80)),
    sa.Column("seen", sa.Float),  # last sign of life of the worker, seconds since 1970
    sa.Column("score", sa.Float),
    sa.Column("duration", sa.Float),
    sa.Column("half", sa.Float),  # half of the 95 % interval of the score over tasks
    sa.Column("kind", sa.String(8), nullable=False, server_default="run"),  # run; score: the answers alone
    sa.UniqueConstraint("submission", "seed"),
)
events = _numbered(
    "events",
    sa.Column("submission", sa.ForeignKey("submissions.id"), nullable=False, index=True),
    sa.Column("time", sa.String(32), nullable=False),
    sa.Column("what", sa.Text, nullable=False),
)
scores = _numbered(  # every score there ever was; a rescoring adds rows and takes none away
    "scores",
    sa.Column("submission", sa.ForeignKey("submissions.id"), nullable=False, index=True),
    sa.Column("seed", sa.Integer, nullable=False),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("target", sa.String(64)),
    sa.Column("score", sa.Float, nullable=False),
    sa.Column("half", sa.Float),
    sa.Column("time", sa.String(32), nullable=False),
)
scorings = _numbered(  # versions of a phase's scores; version 1 has no row
    "scorings",
    sa.Column("phase", sa.String(40), nullable=False),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("target", sa.String(64), nullable=False),
    sa.Column("kind", sa.String(8), nullable=False),  # run or score
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("account", sa.Integer),
    sa.Column("time", sa.String(32), nullable=False),
    sa.UniqueConstraint("phase", "version"),
)
accounts = _numbered(
    "accounts",
    sa.Column("name", sa.String(100), nullable=False),
    sa.Column("folded", sa.String(200), nullable=False, unique=True),  # what makes two names one
    sa.Column("password", sa.String(200), nullable=False),
    sa.Column("role", sa.String(16), nullable=False),  # participant or organiser
    sa.Column("state", sa.String(16), nullable=False),  # pending, active, disabled
    sa.Column("rights", sa.Integer, nullable=False, server_default="0"),  # goes up when rights change
    sa.Column("terms", sa.String(32)),  # when the terms were accepted
    sa.Column("created", sa.String(32), nullable=False),
)
members = sa.Table(
    "members",
    metadata,
    sa.Column("account", sa.ForeignKey("accounts.id"), primary_key=True),  # one team each
    sa.Column("team", sa.ForeignKey("teams.id"), nullable=False, index=True),
    sa.Column("leads", sa.Boolean, nullable=False),
    sa.Column("joined", sa.String(32), nullable=False),
)
invitations = _numbered(
    "invitations",
    sa.Column("hash", sa.String(64), nullable=False, unique=True),
    sa.Column("kind", sa.String(8), nullable=False),  # account or team
    sa.Column("role", sa.String(16)),  # of the account
    sa.Column("team", sa.ForeignKey("teams.id")),
    sa.Column("account", sa.Integer),  # who invites
    sa.Column("created", sa.String(32), nullable=False),
    sa.Column("expires", sa.String(32), nullable=False),
    sa.Column("used", sa.String(32)),
    sa.Column("used_by", sa.Integer),
)
sessions = sa.Table(
    "sessions",
    metadata,
    sa.Column("hash", sa.String(64), primary_key=True),
    sa.Column("account", sa.ForeignKey("accounts.id"), nullable=False, index=True),
    sa.Column("rights", sa.Integer, nullable=False),  # of the account when it began
    sa.Column("created", sa.String(32), nullable=False),
    sa.Column("seen", sa.String(32), nullable=False),
    sa.Column("expires", sa.String(32), nullable=False),
)
tokens = _numbered(
    "tokens",
    sa.Column("hash", sa.String(64), nullable=False, unique=True),
    sa.Column("account", sa.ForeignKey("accounts.id"), index=True),  # none: of a worker
    sa.Column("name", sa.String(100), nullable=False),
    sa.Column("scopes", sa.String(100), nullable=False),  # of submit, read-own, work, admin
    sa.Column("created", sa.String(32), nullable=False),
    sa.Column("expires", sa.String(32), nullable=False),
    sa.Column("last_used", sa.String(32)),
    sa.Column("revoked", sa.String(32)),
)
uploads = sa.Table(
    "uploads",
    metadata,
    sa.Column("id", sa.String(32), primary_key=True),
    sa.Column("account", sa.ForeignKey("accounts.id"), nullable=False),
    sa.Column("team", sa.ForeignKey("teams.id"), nullable=False, index=True),
    sa.Column("phase", sa.String(40), nullable=False),
    sa.Column("league", sa.String(40), nullable=False),
    sa.Column("name", sa.String(200), nullable=False),
    sa.Column("size", sa.Integer, nullable=False),
    sa.Column("sha256", sa.String(64), nullable=False),
    sa.Column("received", sa.Integer, nullable=False),
    sa.Column("state", sa.String(16), nullable=False),  # open, checking, taken, refused, expired, deleted
    sa.Column("seen", sa.Float, nullable=False),  # last sign of life, seconds since 1970
    sa.Column("created", sa.String(32), nullable=False),
    sa.Column("fact_sheet", sa.Text),
    sa.Column("reason", sa.Text),
    sa.Column("submission", sa.Integer),
)
workers = sa.Table(
    "workers",
    metadata,
    sa.Column("name", sa.String(80), primary_key=True),
    sa.Column("token", sa.Integer),
    sa.Column("seen", sa.Float, nullable=False),
    sa.Column("state", sa.String(16), nullable=False),  # idle, running, paused, stopped
    sa.Column("why", sa.Text),  # why it pauses
    sa.Column("version", sa.String(40)),
)
announcements = _numbered(
    "announcements",
    sa.Column("time", sa.String(32), nullable=False),
    sa.Column("account", sa.Integer),
    sa.Column("title", sa.String(200), nullable=False),
    sa.Column("text", sa.Text, nullable=False),
    sa.Column("deleted", sa.String(32)),
)
audit = _numbered(  # triggers refuse every change of a row
    "audit",
    sa.Column("time", sa.String(32), nullable=False),
    sa.Column("who", sa.String(120), nullable=False),
    sa.Column("account", sa.Integer),
    sa.Column("action", sa.String(60), nullable=False),
    sa.Column("object", sa.String(120), nullable=False),
    sa.Column("before", sa.Text),
    sa.Column("after", sa.Text),
)
facts = sa.Table(  # name → text: the tables' version, the competition's own id, whether the queue pauses
    "facts",
    metadata,
    sa.Column("name", sa.String(40), primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
)


def now() -> str:
    """Return the time in UTC, to the second, as text that sorts."""
    return stamp(dt.datetime.now(dt.UTC))


def stamp(moment: dt.datetime) -> str:
    """Return a moment as the database stores it.

    >>> stamp(dt.datetime(2027, 6, 15, 12, tzinfo=dt.UTC))
    '2027-06-15 12:00:00'
    """
    return moment.astimezone(dt.UTC).strftime("%Y-%m-%d %H:%M:%S")


def in_future(**span: float) -> str:
    """Return ``now`` moved by a ``timedelta``: ``in_future(days=7)``."""
    return stamp(dt.datetime.now(dt.UTC) + dt.timedelta(**span))


def filled(kind: type[_Filled], row: Mapping[str, Any], **own: Any) -> _Filled:
    """Fill a named tuple from the columns that its fields name; ``own`` are fields that are no column of ``row``."""
    fields: tuple[str, ...] = kind._fields  # type: ignore[attr-defined]
    return kind(**{name: row[name] for name in fields if name not in own}, **own)
