"""What workers ask: runs, hidden data, and where to put what a run wrote."""

from __future__ import annotations

from pydantic import Field

from longshot.arena.policy import not_there
from longshot.arena.server.declare import Call, FileAnswer, Query, get, post, put
from longshot.arena.services import desk
from longshot.base import Record

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


OPERATIONS = [
    get("/work", "work.read", "What a worker must know of the competition.", desk.work_settings),
    post(
        "/work/claim",
        "work.claim",
        "The next run.",
        handle=lambda call: desk.claim_job(call.office, call.person, call.blobs, **dict(call.body)),
        answer=desk.Claiming,
        body=WorkerRequest,
        heavy=True,
    ),
    post("/work/stop", "work.write", "A worker ends, or pauses.", desk.stop_worker, body=StopRequest),
    get("/work/blobs/{sha256}", "work.read", "Hidden data by hash.", handle=_blob, file=BINARY),
    get(
        "/work/runs/{run:int}/archive",
        "work.read",
        "The submission that this worker runs.",
        desk.archive_file,
        query=HoldQuery,
        file=BINARY,
    ),
    get(
        "/work/runs/{run:int}/answers",
        "work.read",
        "The answers of a run that is scored anew.",
        desk.answers_file,
        query=HoldQuery,
        file=BINARY,
    ),
    post(
        "/work/runs/{run:int}/alive",
        "work.write",
        "A sign of life.",
        desk.beat,
        query=HoldQuery,
    ),
    post(
        "/work/runs/{run:int}/log",
        "work.write",
        "What a run printed.",
        desk.append_log,
        query=LogQuery,
        raw=desk.LIVE,
    ),
    put(
        "/work/runs/{run:int}/files/{name}",
        "work.write",
        "A file that a run wrote.",
        desk.put_file,
        query=HoldQuery,
        raw=max(desk.FILES.values()),
    ),
    post(
        "/work/runs/{run:int}/finish",
        "work.write",
        "The end of a run.",
        desk.finish_job,
        body=Ending,
        query=HoldQuery,
    ),
    post(
        "/work/runs/{run:int}/release",
        "work.write",
        "Give an unfinished run back.",
        desk.release_job,
        body=GivingBack,
        query=HoldQuery,
    ),
]
