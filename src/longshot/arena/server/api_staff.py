"""Operations for organisers, and for workers: runs, hidden data, and where to put what a run wrote."""

from __future__ import annotations

import tempfile
from pathlib import Path

from longshot.arena.policy import Person, not_there, permit
from longshot.arena.server import credentials, organising, people, submissions, uploads, worker_api
from longshot.arena.server.api_people import PUBLIC_OPERATIONS, TEAM_OPERATIONS
from longshot.arena.server.operations import FileAnswer, Operation, delete, get, patch, post, put
from longshot.arena.server.server_context import ServerContext


def export(context: ServerContext, person: Person) -> FileAnswer:
    """Hand out everything as files."""
    handle = tempfile.NamedTemporaryFile(prefix="longshot-export-", suffix=".zip", delete=False)  # noqa: SIM115
    handle.close()
    try:
        path = organising.export(context, person, Path(handle.name))
    except BaseException:
        Path(handle.name).unlink()
        raise
    return FileAnswer(path, "application/zip", "competition.zip", temporary=True)


_SUBMISSION, _TEAM = "/organiser/submissions/{number:int}", "/organiser/teams/{number:int}"
_BACK, _EVERY = {"deleted": False}, {"every": True}
ORGANISER_OPERATIONS: list[Operation] = [
    get("/organiser/accounts", "people.read", people.list_accounts),
    patch("/organiser/accounts/{number:int}", "people.change", people.change_account),
    post("/organiser/accounts/{number:int}/password", "people.change", people.invite_to_password),
    get("/organiser/teams", "people.read", people.list_teams),
    patch(_TEAM, "people.change", people.set_ranked),
    delete(_TEAM, "people.change", organising.delete_team),
    post(f"{_TEAM}/restore", "people.change", organising.delete_team, fixed=_BACK),
    post("/organiser/invitations", "invitation.create", people.invite),
    post("/organiser/workers", "worker.token", credentials.create_worker_token),
    get("/organiser/uploads", "upload.every", uploads.list_uploads, fixed=_EVERY),
    delete("/organiser/uploads/{identity}", "upload.clear", uploads.delete_upload, fixed=_EVERY),
    get("/organiser/submissions", "submission.every", submissions.list_submissions, fixed=_EVERY),
    get(f"{_SUBMISSION}/scores", "submission.every", organising.score_versions),
    post(f"{_SUBMISSION}/rerun", "submission.rerun", organising.rerun_submission),
    delete(_SUBMISSION, "submission.delete", organising.delete_submission),
    post(f"{_SUBMISSION}/restore", "submission.delete", organising.delete_submission, fixed=_BACK),
    get("/organiser/trash", "submission.delete", organising.trash),
    post("/organiser/rescore", "scores.redo", organising.rescore),
    post("/organiser/final", "final.enter", organising.hold_final),
    post("/organiser/pause", "queue.pause", organising.pause),
    post("/organiser/resume", "queue.pause", organising.pause, fixed={"why": None}),
    post("/announcements", "announcement.write", organising.announce),
    delete("/announcements/{number:int}", "announcement.write", organising.delete_announcement),
    post(
        "/announcements/{number:int}/restore",
        "announcement.write",
        organising.delete_announcement,
        fixed=_BACK,
    ),
    get("/organiser/audit", "audit.read", organising.audit_log),
    get("/organiser/export", "export.read", export, file="application/zip", heavy=True),
]


def read_blob(context: ServerContext, person: Person, sha256: str) -> FileAnswer:
    """Hand out hidden data by their hash."""
    permit(person, "work.read")
    path = context.blobs.path(sha256)
    if path is None:
        raise not_there("data", sha256[:64])
    return FileAnswer(path, lasting=True)


_RUN, _BINARY = "/work/runs/{run:int}", "application/octet-stream"
_HOLDS = ("attempt", "worker")
WORKER_OPERATIONS: list[Operation] = [
    get("/work", "work.read", worker_api.work_settings),
    post("/work/claim", "work.claim", worker_api.claim_job, heavy=True),
    post("/work/stop", "work.write", worker_api.stop_worker),
    get("/work/blobs/{sha256}", "work.read", read_blob, file=_BINARY),
    get(f"{_RUN}/archive", "work.read", worker_api.archive_file, file=_BINARY),
    get(f"{_RUN}/answers", "work.read", worker_api.answers_file, file=_BINARY),
    post(f"{_RUN}/alive", "work.write", worker_api.beat, query_names=_HOLDS),
    post(f"{_RUN}/log", "work.write", worker_api.append_log, raw=worker_api.LIVE),
    put(f"{_RUN}/files/{{name}}", "work.write", worker_api.put_file, raw=max(worker_api.FILES.values())),
    post(f"{_RUN}/finish", "work.write", worker_api.finish_job, query_names=_HOLDS),
    post(f"{_RUN}/release", "work.write", worker_api.release_job, query_names=_HOLDS),
]
OPERATIONS: list[Operation] = [
    *PUBLIC_OPERATIONS,
    *TEAM_OPERATIONS,
    *WORKER_OPERATIONS,
    *ORGANISER_OPERATIONS,
]
