"""What organisers do: people, announcements, scores, the queue, the bin, and the record of it all."""

from __future__ import annotations

from starlette.routing import BaseRoute

from longshot.arena.server.endpoint import Front
from longshot.arena.server.info import competition_info
from longshot.arena.server.page_endpoint import Move, PageRequest
from longshot.arena.server.pages.rendering import field, number, page, show, take
from longshot.arena.services import boards, credentials, organising, people, teams, unfinished
from longshot.base import count

_PAGE = 100
_TABS = (
    ("/organise", "People"),
    ("/organise/announcements", "Announcements"),
    ("/organise/queue", "Queue and workers"),
    ("/organise/uploads", "Uploads"),
    ("/organise/scores", "Scores"),
    ("/organise/bin", "Bin"),
    ("/organise/audit", "Audit"),
)


def routes(front: Front) -> list[BaseRoute]:
    """Pages and forms of organisers."""
    return [
        show(front, "/organise", "people.read", everybody),
        take(front, "/organise/invite", "invitation.create", invite, everybody),
        take(front, "/organise/accounts/{number:int}", "people.change", change_account, everybody),
        take(front, "/organise/teams/{number:int}", "people.change", change_team, everybody),
        show(front, "/organise/announcements", "announcement.write", announcements),
        take(front, "/organise/announcements", "announcement.write", announce, announcements),
        take(
            front,
            "/organise/announcements/{number:int}",
            "announcement.write",
            bin_announcement,
            announcements,
        ),
        show(front, "/organise/queue", "queue.pause", queue),
        take(front, "/organise/queue", "queue.pause", pause, queue),
        take(front, "/organise/workers", "worker.token", create_worker, queue),
        show(front, "/organise/uploads", "upload.every", uploads),
        take(front, "/organise/uploads/{identity}/delete", "upload.clear", give_up, uploads),
        show(front, "/organise/scores", "scores.redo", scores),
        take(front, "/organise/scores", "scores.redo", rescore, scores),
        take(front, "/organise/final", "final.enter", hold_final, scores),
        take(front, "/organise/submissions/{number:int}/rerun", "submission.rerun", rerun, scores),
        show(front, "/organise/bin", "submission.delete", bin_page),
        take(front, "/organise/submissions/{number:int}", "submission.delete", bin_submission, bin_page),
        show(front, "/organise/audit", "audit.read", audit),
    ]


def everybody(request: PageRequest, problem: str = "", invitation: people.Invitation | None = None) -> str:
    """Accounts and teams; those that wait for approval first."""
    accounts = people.list_accounts(request.office, request.person)
    waiting = [account for account in accounts if account.state == "pending"]
    return _organiser(
        request,
        "people",
        "People",
        problem=problem,
        counts=[count(accounts, "account"), f"{len(waiting):,} waiting for approval"],
        accounts=sorted(accounts, key=lambda account: account.state != "pending"),
        teams=teams.list_teams(request.office, request.person),
        invitation=invitation,
    )


def invite(request: PageRequest) -> str:
    """A link for a new account, shown this once."""
    days = number(request, "days") if field(request, "days") else people.INVITED_DAYS
    role = field(request, "role", "participant")
    return everybody(request, invitation=people.invite(request.office, request.person, role=role, days=days))


def change_account(request: PageRequest) -> Move:
    """Approve, close or open an account, or give it another role."""
    state, role = field(request, "state") or None, field(request, "role") or None
    people.change_account(request.office, request.person, number(request, "number"), state=state, role=role)
    return Move("/organise")


def change_team(request: PageRequest) -> Move:
    """Whether a team is ranked; or into the bin."""
    identity = number(request, "number")
    if field(request, "bin"):
        organising.delete_team(
            request.office, request.person, identity, deleted=field(request, "bin") == "yes"
        )
    else:
        ranked = field(request, "ranked") == "yes"
        teams.set_ranked(request.office, request.person, identity, ranked=ranked)
    return Move("/organise/bin" if field(request, "bin") == "no" else "/organise")


def announcements(request: PageRequest, problem: str = "") -> str:
    """What was announced, and the form for more."""
    listed = organising.list_announcements(request.office, request.person)
    return _organiser(request, "announcements", "Announcements", problem=problem, announcements=listed)


def announce(request: PageRequest) -> Move:
    """A new announcement."""
    title, text = field(request, "title"), field(request, "text")
    organising.announce(request.office, request.person, title=title, text=text)
    return Move("/organise/announcements")


def bin_announcement(request: PageRequest) -> Move:
    """An announcement into the bin, or out of it."""
    deleted = field(request, "bin") == "yes"
    organising.delete_announcement(request.office, request.person, number(request, "number"), deleted=deleted)
    return Move("/organise/announcements" if deleted else "/organise/bin")


def queue(request: PageRequest, problem: str = "", token: credentials.NewToken | None = None) -> str:
    """What waits and runs, who works; a new worker's token is shown this once."""
    state = boards.queue_state(request.office, request.person)
    return _organiser(request, "queue", "Queue and workers", problem=problem, queue=state, token=token)


def pause(request: PageRequest) -> Move:
    """Hand no more runs out, or go on."""
    why = field(request, "why") if field(request, "pause") == "yes" else None
    organising.pause(request.office, request.person, why=why)
    return Move("/organise/queue")


def create_worker(request: PageRequest) -> str:
    """A token for a worker."""
    days = number(request, "days") if field(request, "days") else None
    made = credentials.create_worker_token(
        request.office, request.person, name=field(request, "name"), days=days
    )
    return queue(request, token=made)


def uploads(request: PageRequest, problem: str = "") -> str:
    """What teams began to send and did not finish."""
    begun = unfinished.list_uploads(request.office, request.person, every=True)
    counts = [count(begun, "unfinished upload")]
    return _organiser(request, "uploads", "Uploads", problem=problem, counts=counts, uploads=begun)


def give_up(request: PageRequest) -> Move:
    """An upload of any team that will not be finished."""
    unfinished.delete_upload(request.office, request.person, request.path["identity"], every=True)
    return Move("/organise/uploads")


def scores(request: PageRequest, problem: str = "", entries: list[object] | None = None) -> str:
    """Scoring a phase anew, and the final."""
    return _organiser(
        request,
        "scores",
        "Scores",
        problem=problem,
        info=competition_info(request.office),
        rescorings=organising.rescorings(request.office, request.person),
        entries=entries,
    )


def rescore(request: PageRequest) -> Move:
    """All submissions of a phase anew, once its name was written out."""
    organising.rescore(
        request.office,
        request.person,
        phase=field(request, "phase"),
        reason=field(request, "reason"),
        kind=field(request, "kind", "run"),
        confirm=field(request, "confirm"),
    )
    return Move("/organise/scores")


def hold_final(request: PageRequest) -> str:
    """Last valid submissions into the final."""
    return scores(request, entries=list(organising.hold_final(request.office, request.person)))


def rerun(request: PageRequest) -> Move:
    """A submission once more."""
    identity = number(request, "number")
    organising.rerun_submission(request.office, request.person, identity)
    return Move(f"/submissions/{identity}")


def bin_page(request: PageRequest, problem: str = "") -> str:
    """What was thrown away and can be had again."""
    contents = organising.trash(request.office, request.person)
    return _organiser(request, "bin", "Bin", problem=problem, contents=contents)


def bin_submission(request: PageRequest) -> Move:
    """A submission into the bin, or out of it."""
    identity = number(request, "number")
    deleted = field(request, "bin") == "yes"
    organising.delete_submission(request.office, request.person, identity, deleted=deleted)
    return Move("/organise/bin")


def audit(request: PageRequest, problem: str = "") -> str:
    """Everything that changed anything, newest first."""
    before = request.query.get("before", "")
    lines = organising.audit_log(
        request.office, request.person, before=int(before) if before.isdecimal() else None, limit=_PAGE
    )
    older = lines[-1].id if len(lines) == _PAGE else None
    return _organiser(request, "audit", "Audit log", problem=problem, lines=lines, older=older)


def _organiser(request: PageRequest, template: str, title: str, **context: object) -> str:
    path = request.here.partition("?")[0]
    places = [(name, address, path == address) for address, name in _TABS]
    return page(request, f"organise_{template}", title, places=places, **context)  # type: ignore[arg-type]
