"""Uploads and submissions of a team."""

from __future__ import annotations

import json
from typing import Any

from pydantic import Field

from longshot.arena.policy import Person, not_there
from longshot.arena.queue import run_folder
from longshot.arena.server.declare import Query, delete, get, post, put
from longshot.arena.services import logs, submissions, unfinished, uploads
from longshot.arena.services.office import Office
from longshot.arena.services.submissions import may_see_score, own_row
from longshot.arena.settings import FREE
from longshot.base import Record


class UploadRequest(Record):
    size: int
    sha256: str = Field(max_length=64)
    name: str = Field("submission.zip", max_length=400)
    phase: str | None = None
    league: str = FREE
    fact_sheet: dict[str, str] | None = None


class OffsetQuery(Query):
    offset: int = Field(ge=0, le=2**40)


class ListQuery(Query):
    phase: str | None = None
    state: str | None = None
    before: int | None = Field(None, le=2**31 - 1)
    limit: int = 50


class SeedQuery(Query):
    seed: int | None = None


class LogQuery(SeedQuery):
    cursor: str = "0.0.0"


class Selection(Record):
    selected: bool = True


class SheetRequest(Record):
    fields: dict[str, str]


def read_scores(office: Office, person: Person, number: int, *, seed: int | None) -> dict[str, Any]:
    """scores.json of one run, for its team, where scores are shown."""
    row = own_row(office, person, "submission.read", number)
    page = submissions.read_submission(office, person, number)
    seeds = [run.seed for run in page.runs if run.state == "scored"]
    chosen = seed if seed is not None else (seeds or [0])[0]
    path = run_folder(office.competition, number, chosen) / "scores.json"
    if chosen not in seeds or not may_see_score(office, person, row) or not path.is_file():
        raise not_there("score", f"of submission {number} to be seen")
    return dict(json.loads(path.read_text(encoding="utf-8")))


def read_receipt(office: Office, person: Person, number: int) -> uploads.Receipt:
    """The receipt of a submission, for its team."""
    own_row(office, person, "submission.read", number)
    return uploads.receipt(office, number)


OPERATIONS = [
    get(
        "/quota",
        "quota.read",
        "What one's team may still submit.",
        submissions.allowances,
    ),
    get(
        "/uploads",
        "upload.list",
        "One's team's uploads that were begun and not finished.",
        unfinished.list_uploads,
    ),
    post(
        "/uploads",
        "upload.begin",
        "Announce an archive, or go on with it.",
        uploads.begin_upload,
        body=UploadRequest,
    ),
    get("/uploads/{identity}", "upload.read", "How much of an upload is there.", uploads.read_upload),
    put(
        "/uploads/{identity}",
        "upload.write",
        "Append a piece.",
        uploads.write_chunk,
        query=OffsetQuery,
        raw=uploads.CHUNK,
        heavy=True,
    ),
    delete("/uploads/{identity}", "upload.delete", "Give an unfinished upload up.", unfinished.delete_upload),
    post(
        "/uploads/{identity}/finish",
        "upload.finish",
        "Have it checked and entered.",
        uploads.finish_upload,
        heavy=True,
    ),
    get(
        "/submissions",
        "submission.list",
        "One's team's submissions, newest first.",
        submissions.list_submissions,
        query=ListQuery,
        steady=True,
    ),
    get(
        "/submissions/{number:int}",
        "submission.read",
        "One submission.",
        submissions.read_submission,
        steady=True,
    ),
    get(
        "/submissions/{number:int}/receipt",
        "submission.read",
        "Its receipt.",
        read_receipt,
    ),
    get(
        "/submissions/{number:int}/log",
        "submission.log",
        "What is new in the log of a run.",
        logs.tail,
        query=LogQuery,
    ),
    get(
        "/submissions/{number:int}/scores",
        "submission.read",
        "All scores of a run: overall, by dataset, ways and shots.",
        read_scores,
        query=SeedQuery,
    ),
    post(
        "/submissions/{number:int}/cancel", "submission.cancel", "Cancel it.", submissions.cancel_submission
    ),
    post(
        "/submissions/{number:int}/select",
        "submission.select",
        "Have it count where a board ranks by selection.",
        submissions.select_submission,
        body=Selection,
    ),
    put(
        "/submissions/{number:int}/fact-sheet",
        "submission.sheet",
        "Hand in its fact sheet.",
        submissions.set_sheet,
        body=SheetRequest,
    ),
]
