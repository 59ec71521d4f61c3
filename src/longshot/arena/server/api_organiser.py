"""What organisers ask."""

from __future__ import annotations

import tempfile
from pathlib import Path

from pydantic import Field

from longshot.arena.server.api_submissions import ListQuery
from longshot.arena.server.declare import Call, FileAnswer, Query, delete, get, patch, post
from longshot.arena.services import (
    credentials,
    exporting,
    organising,
    people,
    submissions,
    teams,
    unfinished,
)
from longshot.base import Record


class AccountQuery(Query):
    state: str | None = None


class AuditQuery(Query):
    before: int | None = Field(None, le=2**31 - 1)
    limit: int = 100


class AccountChange(Record):
    state: str | None = None
    role: str | None = None


class TeamRanked(Record):
    ranked: bool


class InvitationRequest(Record):
    role: str = "participant"
    days: int = people.INVITED_DAYS


class WorkerTokenRequest(Record):
    name: str = Field(max_length=200)
    days: int | None = None


class AnnouncementRequest(Record):
    title: str
    text: str


class RescoreRequest(Record):
    phase: str
    reason: str
    kind: str = "run"
    confirm: str


class PauseRequest(Record):
    why: str


def _export(call: Call) -> FileAnswer:
    handle = tempfile.NamedTemporaryFile(prefix="longshot-export-", suffix=".zip", delete=False)  # noqa: SIM115
    handle.close()
    try:
        path = exporting.export(call.office, call.person, Path(handle.name))
    except BaseException:
        Path(handle.name).unlink()
        raise
    return FileAnswer(path, "application/zip", "competition.zip", temporary=True)


OPERATIONS = [
    get("/organiser/accounts", "people.read", "Everybody.", people.list_accounts, query=AccountQuery),
    patch(
        "/organiser/accounts/{number:int}",
        "people.change",
        "Approve, disable or promote somebody.",
        people.change_account,
        body=AccountChange,
    ),
    get("/organiser/teams", "people.read", "All teams.", teams.list_teams),
    patch(
        "/organiser/teams/{number:int}",
        "people.change",
        "Give a team its rank, or take it away.",
        teams.set_ranked,
        body=TeamRanked,
    ),
    delete(
        "/organiser/teams/{number:int}", "people.change", "Put a team into the trash.", organising.delete_team
    ),
    post(
        "/organiser/teams/{number:int}/restore",
        "people.change",
        "Bring a team back.",
        organising.delete_team,
        fixed={"deleted": False},
    ),
    post(
        "/organiser/invitations",
        "invitation.create",
        "Invite somebody.",
        people.invite,
        body=InvitationRequest,
    ),
    post(
        "/organiser/workers",
        "worker.token",
        "A token for a machine that runs submissions.",
        credentials.create_worker_token,
        body=WorkerTokenRequest,
    ),
    get(
        "/organiser/uploads",
        "upload.every",
        "Everybody's uploads that were begun and not finished.",
        unfinished.list_uploads,
        fixed={"every": True},
    ),
    delete(
        "/organiser/uploads/{identity}",
        "upload.clear",
        "Give any team's unfinished upload up.",
        unfinished.delete_upload,
        fixed={"every": True},
    ),
    get(
        "/organiser/submissions",
        "submission.every",
        "Everybody's submissions, newest first.",
        submissions.list_submissions,
        fixed={"every": True},
        query=ListQuery,
    ),
    get(
        "/organiser/submissions/{number:int}/scores",
        "submission.every",
        "Every score that a submission ever had.",
        organising.score_versions,
    ),
    post(
        "/organiser/submissions/{number:int}/rerun",
        "submission.rerun",
        "Run a submission again.",
        organising.rerun_submission,
    ),
    delete(
        "/organiser/submissions/{number:int}",
        "submission.delete",
        "Put a submission into the trash.",
        organising.delete_submission,
    ),
    post(
        "/organiser/submissions/{number:int}/restore",
        "submission.delete",
        "Bring a submission back.",
        organising.delete_submission,
        fixed={"deleted": False},
    ),
    get("/organiser/trash", "submission.delete", "What can be brought back.", organising.trash),
    post(
        "/organiser/rescore",
        "scores.redo",
        "Score a phase anew.",
        organising.rescore,
        body=RescoreRequest,
    ),
    post("/organiser/final", "final.enter", "Enter all who qualified into the final.", organising.hold_final),
    post("/organiser/pause", "queue.pause", "Hand out no more runs.", organising.pause, body=PauseRequest),
    post("/organiser/resume", "queue.pause", "Hand out runs again.", organising.pause, fixed={"why": None}),
    post(
        "/announcements",
        "announcement.write",
        "Tell everybody something.",
        organising.announce,
        body=AnnouncementRequest,
    ),
    delete(
        "/announcements/{number:int}",
        "announcement.write",
        "Put an announcement into the trash.",
        organising.delete_announcement,
    ),
    post(
        "/announcements/{number:int}/restore",
        "announcement.write",
        "Bring an announcement back.",
        organising.delete_announcement,
        fixed={"deleted": False},
    ),
    get(
        "/organiser/audit",
        "audit.read",
        "What was done, newest first.",
        organising.audit_log,
        query=AuditQuery,
    ),
    get(
        "/organiser/export",
        "export.read",
        "Everything as files.",
        handle=_export,
        file="application/zip",
        heavy=True,
    ),
]
