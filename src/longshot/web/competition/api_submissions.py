"""Uploads and submissions of a team."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any, NamedTuple

from pydantic import Field

from longshot.competition import leagues
from longshot.competition.quota import Allowance
from longshot.competition.refusals import not_there
from longshot.competition.services import logs, submissions, unfinished, uploads
from longshot.competition.services.submissions import may_see_score, own_row
from longshot.competition.worker import run_folder
from longshot.core.settings import Record
from longshot.web.competition.declare import Call, Operation, Query


class AllowanceInfo(NamedTuple):
    """What a team has used in a phase and league, and what remains; a limit of 0 is none."""

    phase: str
    league: str
    per_day: int
    today: int
    total: int
    used: int
    attempts_per_day: int
    attempts: int
    remaining: int | None  # None: as many as one likes
    resets: dt.datetime  # the next 00:00 UTC
    resets_in: str


class UploadRequest(Record):
    size: int
    sha256: str = Field(max_length=64)
    name: str = Field("submission.zip", max_length=400)
    phase: str | None = None
    league: str = leagues.FREE
    fact_sheet: dict[str, str] | None = None


class OffsetQuery(Query):
    offset: int = Field(ge=0, le=2**40)


class ListQuery(Query):
    phase: str | None = None
    state: str | None = None
    before: int | None = Field(None, le=2**31 - 1)
    limit: int = 50


class LogQuery(Query):
    seed: int | None = None
    cursor: str = "0.0.0"


class SeedQuery(Query):
    seed: int | None = None


class Selection(Record):
    selected: bool = True


class SheetRequest(Record):
    fields: dict[str, str]


def allowance_info(allowance: Allowance) -> AllowanceInfo:
    """An allowance with what follows from it."""
    values = allowance._asdict()
    return AllowanceInfo(**values, remaining=allowance.remaining, resets_in=allowance.resets_in)


def _begin(call: Call) -> uploads.Upload:
    wish = call.body
    return uploads.begin_upload(
        call.office,
        call.person,
        size=wish.size,
        sha256=wish.sha256,
        name=wish.name,
        phase=wish.phase,
        league=wish.league,
        fact_sheet=wish.fact_sheet,
    )


def read_scores(call: Call) -> dict[str, Any]:
    """scores.json of one run, for its team, where scores are shown."""
    number = call.path["number"]
    row = own_row(call.office, call.person, "submission.read", number)
    page = submissions.read_submission(call.office, call.person, number)
    seeds = [run.seed for run in page.runs if run.state == "scored"]
    seed = call.query.seed if call.query.seed is not None else (seeds or [0])[0]
    path = run_folder(call.office.competition, number, seed) / "scores.json"
    if seed not in seeds or not may_see_score(call.office, call.person, row) or not path.is_file():
        raise not_there("score", f"of submission {number} to be seen")
    return dict(json.loads(path.read_text(encoding="utf-8")))


OPERATIONS = [
    Operation(
        "GET",
        "/quota",
        "quota.read",
        "What one's team may still submit.",
        lambda call: list(map(allowance_info, submissions.allowances(call.office, call.person))),
        list[AllowanceInfo],
    ),
    Operation(
        "GET",
        "/uploads",
        "upload.list",
        "One's team's uploads that were begun and not finished.",
        lambda call: unfinished.list_uploads(call.office, call.person),
        list[unfinished.UnfinishedUpload],
    ),
    Operation(
        "POST",
        "/uploads",
        "upload.begin",
        "Announce an archive, or go on with it.",
        _begin,
        uploads.Upload,
        UploadRequest,
    ),
    Operation(
        "GET",
        "/uploads/{identity}",
        "upload.read",
        "How much of an upload is there.",
        lambda call: uploads.read_upload(call.office, call.person, call.path["identity"]),
        uploads.Upload,
    ),
    Operation(
        "PUT",
        "/uploads/{identity}",
        "upload.write",
        "Append a piece.",
        lambda call: uploads.write_chunk(
            call.office, call.person, call.path["identity"], call.query.offset, call.data
        ),
        uploads.Upload,
        query=OffsetQuery,
        raw=uploads.CHUNK,
        heavy=True,
    ),
    Operation(
        "DELETE",
        "/uploads/{identity}",
        "upload.delete",
        "Give an unfinished upload up.",
        lambda call: unfinished.delete_upload(call.office, call.person, call.path["identity"]),
        unfinished.UnfinishedUpload,
    ),
    Operation(
        "POST",
        "/uploads/{identity}/finish",
        "upload.finish",
        "Have it checked and entered.",
        lambda call: uploads.finish_upload(call.office, call.person, call.path["identity"]),
        uploads.Receipt,
        heavy=True,
    ),
    Operation(
        "GET",
        "/submissions",
        "submission.list",
        "One's team's submissions, newest first.",
        lambda call: submissions.list_submissions(call.office, call.person, **call.query.model_dump()),
        submissions.SubmissionList,
        query=ListQuery,
        steady=True,
    ),
    Operation(
        "GET",
        "/submissions/{number:int}",
        "submission.read",
        "One submission.",
        lambda call: submissions.read_submission(call.office, call.person, call.path["number"]),
        submissions.SubmissionPage,
        steady=True,
    ),
    Operation(
        "GET",
        "/submissions/{number:int}/receipt",
        "submission.read",
        "Its receipt.",
        lambda call: _receipt(call),
        uploads.Receipt,
    ),
    Operation(
        "GET",
        "/submissions/{number:int}/log",
        "submission.log",
        "What is new in the log of a run.",
        lambda call: logs.tail(
            call.office, call.person, call.path["number"], seed=call.query.seed, cursor=call.query.cursor
        ),
        logs.LogPart,
        query=LogQuery,
    ),
    Operation(
        "GET",
        "/submissions/{number:int}/scores",
        "submission.read",
        "All scores of a run: overall, by dataset, ways and shots.",
        read_scores,
        dict[str, Any],
        query=SeedQuery,
    ),
    Operation(
        "POST",
        "/submissions/{number:int}/cancel",
        "submission.cancel",
        "Cancel it.",
        lambda call: submissions.cancel_submission(call.office, call.person, call.path["number"]),
        submissions.SubmissionView,
    ),
    Operation(
        "POST",
        "/submissions/{number:int}/select",
        "submission.select",
        "Have it count where a board ranks by selection.",
        lambda call: submissions.select_submission(
            call.office, call.person, call.path["number"], selected=call.body.selected
        ),
        submissions.SubmissionView,
        Selection,
    ),
    Operation(
        "PUT",
        "/submissions/{number:int}/fact-sheet",
        "submission.sheet",
        "Hand in its fact sheet.",
        lambda call: submissions.set_sheet(
            call.office, call.person, call.path["number"], dict(call.body.fields)
        ),
        submissions.SubmissionPage,
        SheetRequest,
    ),
]


def _receipt(call: Call) -> uploads.Receipt:
    own_row(call.office, call.person, "submission.read", call.path["number"])
    return uploads.receipt(call.office, call.path["number"])
