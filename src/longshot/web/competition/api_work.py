"""What workers ask: runs, hidden data, and where to put what a run wrote."""

from __future__ import annotations

from typing import NamedTuple

from pydantic import Field

from longshot.competition.refusals import not_there
from longshot.competition.services import desk
from longshot.core.settings import Record
from longshot.web.competition.declare import Call, FileAnswer, Operation, Query

BINARY = "application/octet-stream"


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


def _log(call: Call) -> Stored:
    size = desk.append_log(
        call.office,
        call.person,
        call.path["run"],
        attempt=call.query.attempt,
        worker=call.query.worker,
        offset=call.query.offset,
        data=call.data,
    )
    return Stored(size)


def _file(call: Call) -> None:
    desk.put_file(
        call.office,
        call.person,
        call.path["run"],
        attempt=call.query.attempt,
        worker=call.query.worker,
        name=call.path["name"],
        data=call.data,
    )


def _finish(call: Call) -> Held:
    ended = desk.finish_job(
        call.office,
        call.person,
        call.path["run"],
        attempt=call.query.attempt,
        worker=call.query.worker,
        duration=call.body.duration,
        reason=call.body.reason,
    )
    return Held(ended)


def _release(call: Call) -> None:
    desk.release_job(
        call.office,
        call.person,
        call.path["run"],
        attempt=call.query.attempt,
        worker=call.query.worker,
        why=call.body.why,
        counted=call.body.counted,
    )


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
        lambda call: FileAnswer(
            desk.archive_file(
                call.office,
                call.person,
                call.path["run"],
                attempt=call.query.attempt,
                worker=call.query.worker,
            )
        ),
        query=HoldQuery,
        file=BINARY,
    ),
    Operation(
        "GET",
        "/work/runs/{run:int}/answers",
        "work.read",
        "The answers of a run that is scored anew.",
        lambda call: FileAnswer(
            desk.answers_file(
                call.office,
                call.person,
                call.path["run"],
                attempt=call.query.attempt,
                worker=call.query.worker,
            )
        ),
        query=HoldQuery,
        file=BINARY,
    ),
    Operation(
        "POST",
        "/work/runs/{run:int}/alive",
        "work.write",
        "A sign of life.",
        lambda call: Held(
            desk.beat(
                call.office,
                call.person,
                call.path["run"],
                attempt=call.query.attempt,
                worker=call.query.worker,
            )
        ),
        Held,
        query=HoldQuery,
    ),
    Operation(
        "POST",
        "/work/runs/{run:int}/log",
        "work.write",
        "What a run printed.",
        _log,
        Stored,
        query=LogQuery,
        raw=desk.LIVE,
    ),
    Operation(
        "PUT",
        "/work/runs/{run:int}/files/{name}",
        "work.write",
        "A file that a run wrote.",
        _file,
        query=HoldQuery,
        raw=max(desk.FILES.values()),
    ),
    Operation(
        "POST",
        "/work/runs/{run:int}/finish",
        "work.write",
        "The end of a run.",
        _finish,
        Held,
        Ending,
        query=HoldQuery,
    ),
    Operation(
        "POST",
        "/work/runs/{run:int}/release",
        "work.write",
        "Give an unfinished run back.",
        _release,
        None,
        GivingBack,
        query=HoldQuery,
    ),
]
