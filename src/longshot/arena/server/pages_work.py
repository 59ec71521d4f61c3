"""Pages of the work on a competition: teams hand in and look at it, organisers run it."""

from __future__ import annotations

import hashlib

from longshot.arena.policy import Refusal
from longshot.arena.server import boards, credentials, organising, people, submissions, uploads
from longshot.arena.server.boards import competition_info
from longshot.arena.server.page_rendering import (
    Move,
    PageRequest,
    form_field,
    form_number,
    page,
    send,
    show,
    take,
)
from longshot.arena.server.people import own_team
from longshot.arena.settings import FACT_FIELDS
from longshot.base import count

PLAIN = 8_000_000  # bytes of an archive that is sent without a script: in one piece, held in memory
_PAGE = 50


def submit(request: PageRequest, problem: str = "") -> str:
    """Show where a file is chosen; the script sends it in pieces through the API, a browser without it in one."""
    team = request.do(own_team)
    info = request.do(competition_info)
    return page(
        request,
        "submit",
        "Submit",
        problem=problem,
        team=team,
        info=info,
        plain_bytes=min(PLAIN, info.upload_bytes),
        phases=[phase for phase in info.phases if phase.submissions and phase.state == "open"],
        allowances=request.do(submissions.allowances) if team else [],
        uploads=request.do(uploads.list_uploads) if team else [],
        most_uploads=uploads.OPEN,
        fields=[(name, FACT_FIELDS.get(name, "please fill in")) for name in info.fact_fields],
    )


def hand_in(request: PageRequest) -> Move:
    """Take an archive that came with the form itself, through the services of uploads that come in pieces."""
    sent = request.files.get("file")
    if sent is None or not sent.data:
        raise Refusal(422, "The form brought no archive", "choose a zip")
    upload = request.do(
        uploads.begin_upload,
        size=len(sent.data),
        sha256=hashlib.sha256(sent.data).hexdigest(),
        name=sent.name or "submission.zip",
        phase=form_field(request, "phase") or None,
        league=form_field(request, "league"),
        fact_sheet=_sheet(request),
    )
    for offset in range(upload.received, upload.size, uploads.CHUNK):
        piece = sent.data[offset : offset + uploads.CHUNK]
        request.do(uploads.write_chunk, upload.id, offset, piece)
    return Move(f"/submissions/{request.do(uploads.finish_upload, upload.id).submission}")


def listed(request: PageRequest, problem: str = "") -> str:
    """List a team's submissions, the newest first; an organiser sees all."""
    before = request.query.get("before", "")
    state = request.query.get("state") or None
    every = request.person.role == "organiser"
    listing = request.do(
        submissions.list_submissions,
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
    """Show what became of a submission: runs, log, receipt, fact sheet."""
    context = request.context
    identity = form_number(request, "number")
    view = request.do(submissions.read_submission, identity)
    info = request.do(competition_info)
    return page(
        request,
        "submission",
        f"Submission {identity}",
        counts=[view.submission.team, view.submission.phase, view.submission.league],
        problem=problem,
        view=view,
        log=request.do(submissions.tail, identity),
        parts=request.do(submissions.results, identity),
        receipt=uploads.receipt(context, identity) if view.submission.sha256 else None,
        fields=[(name, FACT_FIELDS.get(name, "please fill in")) for name in info.fact_fields],
    )


def describe(request: PageRequest) -> Move:
    """Replace the fact sheet."""
    identity = form_number(request, "number")
    request.do(submissions.set_sheet, identity, _sheet(request))
    return Move(f"/submissions/{identity}")


def _sheet(request: PageRequest) -> dict[str, str]:
    """Collect the fields of a fact sheet that a form filled in."""
    return {
        name.removeprefix("field-"): text
        for name, text in request.form.items()
        if name.startswith("field-") and text.strip()
    }


_AUDIT_LINES = 100
_TABS = (
    ("/organise", "People"),
    ("/organise/announcements", "Announcements"),
    ("/organise/queue", "Queue and workers"),
    ("/organise/uploads", "Uploads"),
    ("/organise/scores", "Scores"),
    ("/organise/bin", "Bin"),
    ("/organise/audit", "Audit"),
)


def everybody(request: PageRequest, problem: str = "", invitation: people.Invitation | None = None) -> str:
    """List accounts and teams; those that wait for approval first."""
    accounts = request.do(people.list_accounts)
    waiting = [account for account in accounts if account.state == "pending"]
    return _organiser(
        request,
        "people",
        "People",
        problem=problem,
        counts=[count(accounts, "account"), f"{len(waiting):,} waiting for approval"],
        accounts=sorted(accounts, key=lambda account: account.state != "pending"),
        teams=request.do(people.list_teams),
        invitation=invitation,
    )


def invite(request: PageRequest) -> str:
    """Show a link for a new account, this once."""
    days = form_number(request, "days") if form_field(request, "days") else people.INVITED_DAYS
    role = form_field(request, "role", "participant")
    return everybody(request, invitation=request.do(people.invite, role=role, days=days))


def forgotten(request: PageRequest) -> str:
    """Show a link to a new password, this once."""
    made = request.do(people.invite_to_password, form_number(request, "number"))
    return everybody(request, invitation=made)


def announcements(request: PageRequest, problem: str = "") -> str:
    """Show what was announced, and the form for more."""
    listed = request.do(organising.list_announcements)
    return _organiser(request, "announcements", "Announcements", problem=problem, announcements=listed)


def queue(request: PageRequest, problem: str = "", token: credentials.NewToken | None = None) -> str:
    """Show what waits and runs, and who works; a new worker's token is shown this once."""
    state = request.do(boards.queue_state)
    return _organiser(request, "queue", "Queue and workers", problem=problem, queue=state, token=token)


def create_worker(request: PageRequest) -> str:
    """Create a token for a worker."""
    days = form_number(request, "days") if form_field(request, "days") else None
    made = request.do(credentials.create_worker_token, name=form_field(request, "name"), days=days)
    return queue(request, token=made)


def all_uploads(request: PageRequest, problem: str = "") -> str:
    """List what teams began to send and did not finish."""
    begun = request.do(uploads.list_uploads, every=True)
    counts = [count(begun, "unfinished upload")]
    return _organiser(request, "uploads", "Uploads", problem=problem, counts=counts, uploads=begun)


def scores(request: PageRequest, problem: str = "", entries: list[object] | None = None) -> str:
    """Show the forms that score a phase anew and hold the final."""
    return _organiser(
        request,
        "scores",
        "Scores",
        problem=problem,
        info=request.do(competition_info),
        rescorings=request.do(organising.rescorings),
        entries=entries,
    )


def hold_final(request: PageRequest) -> str:
    """Enter last valid submissions into the final."""
    return scores(request, entries=list(request.do(organising.hold_final)))


def bin_page(request: PageRequest, problem: str = "") -> str:
    """List what was thrown away and can be had again."""
    contents = request.do(organising.trash)
    return _organiser(request, "bin", "Bin", problem=problem, contents=contents)


def audit(request: PageRequest, problem: str = "") -> str:
    """List everything that changed anything, newest first."""
    before = request.query.get("before", "")
    lines = request.do(
        organising.audit_log, before=int(before) if before.isdecimal() else None, limit=_AUDIT_LINES
    )
    older = lines[-1].id if len(lines) == _AUDIT_LINES else None
    return _organiser(request, "audit", "Audit log", problem=problem, lines=lines, older=older)


def _organiser(request: PageRequest, template: str, title: str, **values: object) -> str:
    path = request.here.partition("?")[0]
    places = [(name, address, path == address) for address, name in _TABS]
    return page(request, f"organise_{template}", title, places=places, **values)  # type: ignore[arg-type]


_SUBMISSION, _OWN = "/submissions/{number:int}", "/submissions/{number}"
_ANNOUNCEMENTS, _UPLOADS, _SCORES = "/organise/announcements", "/organise/uploads", "/organise/scores"
_ANNOUNCEMENT, _TEAM = f"{_ANNOUNCEMENTS}/{{number:int}}", "/organise/teams/{number:int}"
_QUEUE, _BIN, _BACK = "/organise/queue", "/organise/bin", {"deleted": False}
WORK_PAGES = [
    show("/submit", "upload.begin", submit),
    take("/submit", "upload.begin", hand_in, submit, file=PLAIN),
    send("/uploads/{identity}/delete", uploads.delete_upload, submit, "/submit"),
    show("/submissions", "submission.list", listed, steady=True),
    show(_SUBMISSION, "submission.read", submission),
    send(f"{_SUBMISSION}/cancel", submissions.cancel_submission, submission, _OWN),
    send(f"{_SUBMISSION}/select", submissions.select_submission, submission, _OWN),
    take(f"{_SUBMISSION}/fact-sheet", "submission.sheet", describe, submission),
    show("/organise", "people.read", everybody),
    take("/organise/invite", "invitation.create", invite, everybody),
    send("/organise/accounts/{number:int}", people.change_account, everybody, "/organise"),
    take("/organise/accounts/{number:int}/password", "people.change", forgotten, everybody),
    send(_TEAM, people.set_ranked, everybody, "/organise"),
    send(f"{_TEAM}/delete", organising.delete_team, everybody, "/organise"),
    send(f"{_TEAM}/restore", organising.delete_team, bin_page, _BIN, _BACK),
    show(_ANNOUNCEMENTS, "announcement.write", announcements),
    send(_ANNOUNCEMENTS, organising.announce, announcements, _ANNOUNCEMENTS),
    send(f"{_ANNOUNCEMENT}/delete", organising.delete_announcement, announcements, _ANNOUNCEMENTS),
    send(f"{_ANNOUNCEMENT}/restore", organising.delete_announcement, bin_page, _BIN, _BACK),
    show(_QUEUE, "queue.pause", queue),
    send(f"{_QUEUE}/pause", organising.pause, queue, _QUEUE),
    send(f"{_QUEUE}/resume", organising.pause, queue, _QUEUE, {"why": None}),
    take("/organise/workers", "worker.token", create_worker, queue),
    show(_UPLOADS, "upload.every", all_uploads),
    send(f"{_UPLOADS}/{{identity}}/delete", uploads.delete_upload, all_uploads, _UPLOADS, {"every": True}),
    show(_SCORES, "scores.redo", scores),
    send(_SCORES, organising.rescore, scores, _SCORES),
    take("/organise/final", "final.enter", hold_final, scores),
    send(f"/organise{_SUBMISSION}/rerun", organising.rerun_submission, scores, _OWN),
    show(_BIN, "submission.delete", bin_page),
    send(f"/organise{_SUBMISSION}/delete", organising.delete_submission, bin_page, _BIN),
    send(f"/organise{_SUBMISSION}/restore", organising.delete_submission, bin_page, _BIN, _BACK),
    show("/organise/audit", "audit.read", audit),
]
