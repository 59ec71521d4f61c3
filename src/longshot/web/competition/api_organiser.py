"""What organisers ask."""

from __future__ import annotations

import tempfile
from pathlib import Path

from pydantic import Field

from longshot.competition.organiser import FinalEntry
from longshot.competition.services import (
    credentials,
    exporting,
    organising,
    people,
    submissions,
    teams,
    unfinished,
)
from longshot.core.settings import Record
from longshot.web.competition.api_submissions import ListQuery
from longshot.web.competition.declare import Call, FileAnswer, Operation, Query


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


def _rescore(call: Call) -> organising.Rescoring:
    wish = call.body
    return organising.rescore(
        call.office,
        call.person,
        phase=wish.phase,
        reason=wish.reason,
        kind=wish.kind,
        confirm=wish.confirm,
    )


OPERATIONS = [
    Operation(
        "GET",
        "/organiser/accounts",
        "people.read",
        "Everybody.",
        lambda call: people.list_accounts(call.office, call.person, state=call.query.state),
        list[people.Account],
        query=AccountQuery,
    ),
    Operation(
        "PATCH",
        "/organiser/accounts/{number:int}",
        "people.change",
        "Approve, disable or promote somebody.",
        lambda call: people.change_account(
            call.office, call.person, call.path["number"], state=call.body.state, role=call.body.role
        ),
        people.Account,
        AccountChange,
    ),
    Operation(
        "GET",
        "/organiser/teams",
        "people.read",
        "All teams.",
        lambda call: teams.list_teams(call.office, call.person),
        list[teams.Team],
    ),
    Operation(
        "PATCH",
        "/organiser/teams/{number:int}",
        "people.change",
        "Give a team its rank, or take it away.",
        lambda call: teams.set_ranked(call.office, call.person, call.path["number"], ranked=call.body.ranked),
        teams.Team,
        TeamRanked,
    ),
    Operation(
        "DELETE",
        "/organiser/teams/{number:int}",
        "people.change",
        "Put a team into the trash.",
        lambda call: organising.delete_team(call.office, call.person, call.path["number"]),
    ),
    Operation(
        "POST",
        "/organiser/teams/{number:int}/restore",
        "people.change",
        "Bring a team back.",
        lambda call: organising.delete_team(call.office, call.person, call.path["number"], deleted=False),
    ),
    Operation(
        "POST",
        "/organiser/invitations",
        "invitation.create",
        "Invite somebody.",
        lambda call: people.invite(call.office, call.person, role=call.body.role, days=call.body.days),
        people.Invitation,
        InvitationRequest,
    ),
    Operation(
        "POST",
        "/organiser/workers",
        "worker.token",
        "A token for a machine that runs submissions.",
        lambda call: credentials.create_worker_token(
            call.office, call.person, name=call.body.name, days=call.body.days
        ),
        credentials.NewToken,
        WorkerTokenRequest,
    ),
    Operation(
        "GET",
        "/organiser/uploads",
        "upload.every",
        "Everybody's uploads that were begun and not finished.",
        lambda call: unfinished.list_uploads(call.office, call.person, every=True),
        list[unfinished.UnfinishedUpload],
    ),
    Operation(
        "DELETE",
        "/organiser/uploads/{identity}",
        "upload.clear",
        "Give any team's unfinished upload up.",
        lambda call: unfinished.delete_upload(call.office, call.person, call.path["identity"], every=True),
        unfinished.UnfinishedUpload,
    ),
    Operation(
        "GET",
        "/organiser/submissions",
        "submission.every",
        "Everybody's submissions, newest first.",
        lambda call: submissions.list_submissions(
            call.office, call.person, every=True, **call.query.model_dump()
        ),
        submissions.SubmissionList,
        query=ListQuery,
    ),
    Operation(
        "GET",
        "/organiser/submissions/{number:int}/scores",
        "submission.every",
        "Every score that a submission ever had.",
        lambda call: organising.score_versions(call.office, call.person, call.path["number"]),
        list[organising.ScoreVersion],
    ),
    Operation(
        "POST",
        "/organiser/submissions/{number:int}/rerun",
        "submission.rerun",
        "Run a submission again.",
        lambda call: organising.rerun_submission(call.office, call.person, call.path["number"]),
        submissions.SubmissionView,
    ),
    Operation(
        "DELETE",
        "/organiser/submissions/{number:int}",
        "submission.delete",
        "Put a submission into the trash.",
        lambda call: organising.delete_submission(call.office, call.person, call.path["number"]),
        submissions.SubmissionView,
    ),
    Operation(
        "POST",
        "/organiser/submissions/{number:int}/restore",
        "submission.delete",
        "Bring a submission back.",
        lambda call: organising.delete_submission(
            call.office, call.person, call.path["number"], deleted=False
        ),
        submissions.SubmissionView,
    ),
    Operation(
        "GET",
        "/organiser/trash",
        "submission.delete",
        "What can be brought back.",
        lambda call: organising.trash(call.office, call.person),
        organising.Trash,
    ),
    Operation(
        "POST",
        "/organiser/rescore",
        "scores.redo",
        "Score a phase anew.",
        _rescore,
        organising.Rescoring,
        RescoreRequest,
    ),
    Operation(
        "POST",
        "/organiser/final",
        "final.enter",
        "Enter all who qualified into the final.",
        lambda call: organising.hold_final(call.office, call.person),
        list[FinalEntry],
    ),
    Operation(
        "POST",
        "/organiser/pause",
        "queue.pause",
        "Hand out no more runs.",
        lambda call: organising.pause(call.office, call.person, why=call.body.why),
        None,
        PauseRequest,
    ),
    Operation(
        "POST",
        "/organiser/resume",
        "queue.pause",
        "Hand out runs again.",
        lambda call: organising.pause(call.office, call.person, why=None),
    ),
    Operation(
        "POST",
        "/announcements",
        "announcement.write",
        "Tell everybody something.",
        lambda call: organising.announce(
            call.office, call.person, title=call.body.title, text=call.body.text
        ),
        organising.Announcement,
        AnnouncementRequest,
    ),
    Operation(
        "DELETE",
        "/announcements/{number:int}",
        "announcement.write",
        "Put an announcement into the trash.",
        lambda call: organising.delete_announcement(call.office, call.person, call.path["number"]),
    ),
    Operation(
        "POST",
        "/announcements/{number:int}/restore",
        "announcement.write",
        "Bring an announcement back.",
        lambda call: organising.delete_announcement(
            call.office, call.person, call.path["number"], deleted=False
        ),
    ),
    Operation(
        "GET",
        "/organiser/audit",
        "audit.read",
        "What was done, newest first.",
        lambda call: organising.audit_log(
            call.office, call.person, before=call.query.before, limit=call.query.limit
        ),
        list[organising.AuditLine],
        query=AuditQuery,
    ),
    Operation(
        "GET",
        "/organiser/export",
        "export.read",
        "Everything as files.",
        _export,
        file="application/zip",
        heavy=True,
    ),
]
