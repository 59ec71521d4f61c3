"""Handing in, and looking at what was handed in."""

from __future__ import annotations

import hashlib

from starlette.routing import BaseRoute

from longshot.arena.policy import Refusal
from longshot.arena.server.endpoint import Front
from longshot.arena.server.info import competition_info
from longshot.arena.server.page_endpoint import Move, PageRequest
from longshot.arena.server.pages.rendering import field, number, page, show, take
from longshot.arena.services import logs, submissions, unfinished, uploads
from longshot.arena.services.teams import own_team
from longshot.arena.settings import FACT_FIELDS

PLAIN = 8_000_000  # bytes of an archive that is sent without a script: in one piece, held in memory
_PAGE = 50


def routes(front: Front) -> list[BaseRoute]:
    """Pages and forms of submissions."""
    address = "/submissions/{number:int}"
    return [
        show(front, "/submit", "upload.begin", submit),
        take(front, "/submit", "upload.begin", hand_in, submit, file=PLAIN),
        take(front, "/uploads/{identity}/delete", "upload.delete", give_up, submit),
        show(front, "/submissions", "submission.list", listed, steady=True),
        show(front, address, "submission.read", submission),
        take(front, f"{address}/cancel", "submission.cancel", cancel, submission),
        take(front, f"{address}/select", "submission.select", select, submission),
        take(front, f"{address}/fact-sheet", "submission.sheet", describe, submission),
    ]


def submit(request: PageRequest, problem: str = "") -> str:
    """Where a file is chosen; the script sends it in pieces through the API, a browser without it in one."""
    office, person = request.office, request.person
    team = own_team(office, person)
    info = competition_info(office)
    return page(
        request,
        "submit",
        "Submit",
        problem=problem,
        team=team,
        info=info,
        plain_bytes=min(PLAIN, info.upload_bytes),
        phases=[phase for phase in info.phases if phase.submissions and phase.state == "open"],
        allowances=submissions.allowances(office, person) if team else [],
        uploads=unfinished.list_uploads(office, person) if team else [],
        most_uploads=uploads.OPEN,
        fields=[(name, FACT_FIELDS.get(name, "please fill in")) for name in info.fact_fields],
    )


def hand_in(request: PageRequest) -> Move:
    """An archive that came with the form itself, through the services of uploads that come in pieces."""
    office, person, sent = request.office, request.person, request.files.get("file")
    if sent is None or not sent.data:
        raise Refusal(422, "The form brought no archive", "choose a zip")
    upload = uploads.begin_upload(
        office,
        person,
        size=len(sent.data),
        sha256=hashlib.sha256(sent.data).hexdigest(),
        name=sent.name or "submission.zip",
        phase=field(request, "phase") or None,
        league=field(request, "league"),
        fact_sheet=_sheet(request),
    )
    for offset in range(upload.received, upload.size, uploads.CHUNK):
        piece = sent.data[offset : offset + uploads.CHUNK]
        uploads.write_chunk(office, person, upload.id, offset, piece)
    return Move(f"/submissions/{uploads.finish_upload(office, person, upload.id).submission}")


def give_up(request: PageRequest) -> Move:
    """An upload that was begun and will not be finished."""
    unfinished.delete_upload(request.office, request.person, request.path["identity"])
    return Move("/submit")


def listed(request: PageRequest, problem: str = "") -> str:
    """A team's submissions, the newest first; an organiser sees all."""
    before = request.query.get("before", "")
    state = request.query.get("state") or None
    every = request.person.role == "organiser"
    listing = submissions.list_submissions(
        request.office,
        request.person,
        every=every,
        phase=request.query.get("phase") or None,
        state=state,
        before=int(before) if before.isdecimal() else None,
        limit=_PAGE,
    )
    return page(
        request,
        "submissions",
        "All submissions" if every else "Your submissions",
        counts=[f"{listing.total:,} in all"],
        problem=problem,
        items=listing.items,
        older=listing.items[-1].id if len(listing.items) == _PAGE else None,
        state=state,
    )


def submission(request: PageRequest, problem: str = "") -> str:
    """What became of a submission: runs, log, receipt, fact sheet."""
    office, person = request.office, request.person
    identity = number(request, "number")
    view = submissions.read_submission(office, person, identity)
    info = competition_info(office)
    return page(
        request,
        "submission",
        f"Submission {identity}",
        counts=[view.submission.team, view.submission.phase, view.submission.league],
        problem=problem,
        view=view,
        log=logs.tail(office, person, identity),
        receipt=uploads.receipt(office, identity) if view.submission.sha256 else None,
        fields=[(name, FACT_FIELDS.get(name, "please fill in")) for name in info.fact_fields],
    )


def cancel(request: PageRequest) -> Move:
    """A submission that shall not run (any further)."""
    identity = number(request, "number")
    submissions.cancel_submission(request.office, request.person, identity)
    return Move(f"/submissions/{identity}")


def select(request: PageRequest) -> Move:
    """The submission that counts, where a team chooses."""
    identity = number(request, "number")
    chosen = request.form.get("selected") == "yes"
    submissions.select_submission(request.office, request.person, identity, selected=chosen)
    return Move(f"/submissions/{identity}")


def describe(request: PageRequest) -> Move:
    """The fact sheet, as it is now."""
    identity = number(request, "number")
    submissions.set_sheet(request.office, request.person, identity, _sheet(request))
    return Move(f"/submissions/{identity}")


def _sheet(request: PageRequest) -> dict[str, str]:
    """The fields of a fact sheet that a form filled in."""
    return {
        name.removeprefix("field-"): text
        for name, text in request.form.items()
        if name.startswith("field-") and text.strip()
    }
