"""Uploads that were begun and not finished: a team may have only so many, so it sees them and gives them up."""

from __future__ import annotations

import datetime as dt
from typing import Any, NamedTuple

import sqlalchemy as sa

from longshot.arena.database_tables import accounts, teams, uploads
from longshot.arena.policy import Person, Refusal, permit
from longshot.arena.services import uploads as upload_services
from longshot.arena.services.office import Office, record


class UnfinishedUpload(NamedTuple):
    """An upload that was begun and not finished."""

    id: str
    team: str
    by: str  # who began it
    name: str  # of the archive
    phase: str
    league: str
    size: int
    received: int
    state: str  # open, checking; deleted where it has just been
    created: str
    expires: dt.datetime  # when it goes by itself, unless a piece comes


def list_uploads(office: Office, person: Person, *, every: bool = False) -> list[UnfinishedUpload]:
    """One's team's unfinished uploads, the oldest first; ``every``: those of all teams, for organisers."""
    permit(person, "upload.every" if every else "upload.list")
    which = sa.true() if every else uploads.c.team == person.team
    return _unfinished(office, uploads.c.state.in_(upload_services.UNFINISHED), which)


def delete_upload(office: Office, person: Person, identity: str, *, every: bool = False) -> UnfinishedUpload:
    """Give an unfinished upload up: its bytes go, and its team may begin another. Asked again, the same answer.

    Parameters
    ----------
    office, person
        The competition, and who asks.
    identity : str
        The upload's id.
    every : bool
        Of any team, for organisers; else of one's own.
    """
    action = "upload.clear" if every else "upload.delete"
    identity = str(upload_services.own_upload(office, person, action, identity)["id"])
    with upload_services.only_writer(identity):
        with office.store.change() as connection:
            still_open = uploads.update().where(uploads.c.id == identity, uploads.c.state == "open")
            changed = connection.execute(still_open.values(state="deleted", reason="it was deleted")).rowcount
            row = connection.execute(sa.select(uploads).where(uploads.c.id == identity)).mappings().one()
            if changed:
                before = {key: row[key] for key in ("team", "name", "phase", "league", "size", "received")}
                record(connection, person, "upload.delete", f"upload {identity}", before=before)
        if changed:
            # After the commit: a file without its row is swept, a row without its file would be a loss.
            upload_services.quarantine(office, identity).unlink(missing_ok=True)
            upload_services.forget_writer(identity)
    if row["state"] == "checking":
        raise Refusal(409, "The upload is being checked", "ask again in a moment", retry=1.0)
    if row["state"] != "deleted":
        raise Refusal(
            409, f"The upload is {row['state']}: it takes none of the team's {upload_services.OPEN}."
        )
    return _unfinished(office, uploads.c.id == identity)[0]


def _unfinished(office: Office, *which: sa.ColumnElement[bool]) -> list[UnfinishedUpload]:
    names = ("id", "name", "phase", "league", "size", "received", "state", "created", "seen")
    query = (
        sa.select(
            *(uploads.c[name] for name in names), teams.c.name.label("team"), accounts.c.name.label("by")
        )
        .join(teams, teams.c.id == uploads.c.team)
        .join(accounts, accounts.c.id == uploads.c.account)
        .where(*which)
        .order_by(uploads.c.created, uploads.c.id)
    )
    lasting = 3600 * office.competition.server.upload_hours

    def shown(row: dict[str, Any]) -> UnfinishedUpload:
        expires = dt.datetime.fromtimestamp(row.pop("seen") + lasting, dt.UTC).replace(microsecond=0)
        return UnfinishedUpload(**row, expires=expires)

    return [shown(dict(row)) for row in office.store.rows(query)]
