"""Operations for organisers, and for workers: runs, hidden data, and where to put what a run wrote."""

from __future__ import annotations

import tempfile
from pathlib import Path

from pydantic import Field

from longshot.arena.policy import not_there
from longshot.arena.server import credentials, organising, people, submissions, uploads, worker_api
from longshot.arena.server.api_people import ListQuery
from longshot.arena.server.operations import Call, FileAnswer, Query, delete, get, patch, post, put
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
        path = organising.export(call.context, call.person, Path(handle.name))
    except BaseException:
        Path(handle.name).unlink()
        raise
    return FileAnswer(path, "application/zip", "competition.zip", temporary=True)


ORGANISER_OPERATIONS = [
    get("/organiser/accounts", "people.read", "Everybody.", people.list_accounts, query=AccountQuery),
    patch(
        "/organiser/accounts/{number:int}",
        "people.change",
        "Approve, disable or promote somebody.",
        people.change_account,
        body=AccountChange,
    ),
    get("/organiser/teams", "people.read", "All teams.", people.list_teams),
    patch(
        "/organiser/teams/{number:int}",
        "people.change",
        "Give a team its rank, or take it away.",
        people.set_ranked,
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
        uploads.list_uploads,
        fixed={"every": True},
    ),
    delete(
        "/organiser/uploads/{identity}",
        "upload.clear",
        "Give any team's unfinished upload up.",
        uploads.delete_upload,
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
    post("/organiser/rescore", "scores.redo", "Score a phase anew.", organising.rescore, body=RescoreRequest),
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


BINARY = "application/octet-stream"


class WorkerRequest(Record):
    worker: str = Field(max_length=60)


class StopRequest(WorkerRequest):
    why: str = Field("", max_length=400)


class HoldQuery(Query):
    worker: str = Field(max_length=60)
    attempt: int = Field(ge=0, le=1000)


class LogQuery(HoldQuery):
    offset: int = Field(ge=0, le=2**31)


class Ending(Record):
    duration: float
    reason: str | None = Field(None, max_length=20_000)


class GivingBack(Record):
    why: str = Field(max_length=1000)
    counted: bool


def _blob(call: Call) -> FileAnswer:
    path = call.blobs.path(call.path["sha256"])
    if path is None:
        raise not_there("data", call.path["sha256"][:64])
    return FileAnswer(path, lasting=True)


WORKER_OPERATIONS = [
    get("/work", "work.read", "What a worker must know of the competition.", worker_api.work_settings),
    post(
        "/work/claim",
        "work.claim",
        "The next run.",
        handle=lambda call: worker_api.claim_job(call.context, call.person, call.blobs, **dict(call.body)),
        answer=worker_api.Claiming,
        body=WorkerRequest,
        heavy=True,
    ),
    post("/work/stop", "work.write", "A worker ends, or pauses.", worker_api.stop_worker, body=StopRequest),
    get("/work/blobs/{sha256}", "work.read", "Hidden data by hash.", handle=_blob, file=BINARY),
    get(
        "/work/runs/{run:int}/archive",
        "work.read",
        "The submission that this worker runs.",
        worker_api.archive_file,
        query=HoldQuery,
        file=BINARY,
    ),
    get(
        "/work/runs/{run:int}/answers",
        "work.read",
        "The answers of a run that is scored anew.",
        worker_api.answers_file,
        query=HoldQuery,
        file=BINARY,
    ),
    post("/work/runs/{run:int}/alive", "work.write", "A sign of life.", worker_api.beat, query=HoldQuery),
    post(
        "/work/runs/{run:int}/log",
        "work.write",
        "What a run printed.",
        worker_api.append_log,
        query=LogQuery,
        raw=worker_api.LIVE,
    ),
    put(
        "/work/runs/{run:int}/files/{name}",
        "work.write",
        "A file that a run wrote.",
        worker_api.put_file,
        query=HoldQuery,
        raw=max(worker_api.FILES.values()),
    ),
    post(
        "/work/runs/{run:int}/finish",
        "work.write",
        "The end of a run.",
        worker_api.finish_job,
        body=Ending,
        query=HoldQuery,
    ),
    post(
        "/work/runs/{run:int}/release",
        "work.write",
        "Give an unfinished run back.",
        worker_api.release_job,
        body=GivingBack,
        query=HoldQuery,
    ),
]
