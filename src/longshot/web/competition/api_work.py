"""What workers ask: runs, hidden data, and where to put what a run wrote."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from pydantic import Field

from longshot.competition.refusals import not_there
from longshot.competition.services import desk
from longshot.core.settings import Record
from longshot.web.competition.declare import Call, FileAnswer, Operation, Query

BINARY = "application/octet-stream"
T = TypeVar("T")


class Held(NamedTuple):
    """Whether a run is this worker's."""

    held: bool


class Stored(NamedTuple):
    """Bytes of a log that are there."""

    bytes: int


class WorkerRequest(Record):
    worker: str = Field(max_length=60)


class StopRequest(Record):
    worker: str = Field(max_length=60)
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


def _of_run(service: Callable[..., T], call: Call, **more: Any) -> T:
    """A service of the desk for the run in the address, as the attempt and the worker behind the question mark."""
    hold = {"attempt": call.query.attempt, "worker": call.query.worker}
    return service(call.office, call.person, call.path["run"], **hold, **more)


OPERATIONS = [
    Operation(
        "GET",
        "/work",
        "work.read",
        "What a worker must know of the competition.",
        lambda call: desk.work_settings(call.office, call.person),
        desk.WorkSettings,
    ),
    Operation(
        "POST",
        "/work/claim",
        "work.claim",
        "The next run.",
        lambda call: desk.claim_job(call.office, call.person, call.blobs, worker=call.body.worker),
        desk.Claiming,
        WorkerRequest,
        heavy=True,
    ),
    Operation(
        "POST",
        "/work/stop",
        "work.write",
        "A worker ends, or pauses.",
        lambda call: desk.stop_worker(call.office, call.person, worker=call.body.worker, why=call.body.why),
        None,
        StopRequest,
    ),
    Operation("GET", "/work/blobs/{sha256}", "work.read", "Hidden data by hash.", _blob, file=BINARY),
    Operation(
        "GET",
        "/work/runs/{run:int}/archive",
        "work.read",
        "The submission that this worker runs.",
        lambda call: FileAnswer(_of_run(desk.archive_file, call)),
        query=HoldQuery,
        file=BINARY,
    ),
    Operation(
        "GET",
        "/work/runs/{run:int}/answers",
        "work.read",
        "The answers of a run that is scored anew.",
        lambda call: FileAnswer(_of_run(desk.answers_file, call)),
        query=HoldQuery,
        file=BINARY,
    ),
    Operation(
        "POST",
        "/work/runs/{run:int}/alive",
        "work.write",
        "A sign of life.",
        lambda call: Held(_of_run(desk.beat, call)),
        Held,
        query=HoldQuery,
    ),
    Operation(
        "POST",
        "/work/runs/{run:int}/log",
        "work.write",
        "What a run printed.",
        lambda call: Stored(_of_run(desk.append_log, call, offset=call.query.offset, data=call.data)),
        Stored,
        query=LogQuery,
        raw=desk.LIVE,
    ),
    Operation(
        "PUT",
        "/work/runs/{run:int}/files/{name}",
        "work.write",
        "A file that a run wrote.",
        lambda call: _of_run(desk.put_file, call, name=call.path["name"], data=call.data),
        query=HoldQuery,
        raw=max(desk.FILES.values()),
    ),
    Operation(
        "POST",
        "/work/runs/{run:int}/finish",
        "work.write",
        "The end of a run.",
        lambda call: Held(_of_run(desk.finish_job, call, **call.body.model_dump())),
        Held,
        Ending,
        query=HoldQuery,
    ),
    Operation(
        "POST",
        "/work/runs/{run:int}/release",
        "work.write",
        "Give an unfinished run back.",
        lambda call: _of_run(desk.release_job, call, **call.body.model_dump()),
        None,
        GivingBack,
        query=HoldQuery,
    ),
]
