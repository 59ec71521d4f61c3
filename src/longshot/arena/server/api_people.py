"""Operations for everybody, for a person with their account and team, and for a team with uploads and submissions."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any, NamedTuple

from pydantic import Field

from longshot.arena.client import Receipt
from longshot.arena.policy import Person, Refusal, not_there, permit
from longshot.arena.queue import run_folder
from longshot.arena.server import boards, credentials, organising, people, submissions, uploads
from longshot.arena.server.boards import CompetitionInfo, competition_info
from longshot.arena.server.operations import Begun, Call, Query, Written, delete, get, patch, plain, post, put
from longshot.arena.server.server_context import ServerContext
from longshot.arena.server.submissions import may_see_score, own_row
from longshot.arena.settings import FREE
from longshot.base import Record


class Me(NamedTuple):
    """Who asks."""

    role: str
    name: str
    scopes: list[str]
    team: people.Team | None
    csrf: str | None


class Registered(NamedTuple):
    """An account that was made."""

    account: people.Account
    waits: bool  # for an organiser's approval


def me(call: Call, secret: str | None = None) -> Me:
    """Describe who asks, with their team; ``secret`` is that of a session which has just begun."""
    context, person, csrf = call.context, call.person, None
    if secret is not None:
        person, csrf = credentials.by_session(context, secret), context.csrf(secret)
    team = None if person.team is None else people.team(context, person.team)
    return Me(person.role, person.name, sorted(person.scopes), team, csrf)


class ProgressQuery(Query):
    phase: str | None = None
    league: str | None = None


class BoardQuery(ProgressQuery):
    by: str | None = None


class Login(Record):
    name: str = Field(max_length=200)
    password: str = Field(max_length=400)


class NewAccount(Login):
    code: str | None = None
    terms: bool = False


class PasswordChange(Record):
    old: str = Field(max_length=400)
    new: str = Field(max_length=400)


class TokenRequest(Record):
    name: str = Field(max_length=200)
    scopes: tuple[str, ...] = Field(max_length=10)
    days: int | None = None


class TeamRequest(Record):
    name: str = Field(max_length=400)
    pseudonym: str | None = Field(None, max_length=200)


class TeamChange(Record):
    pseudonym: str | None = Field(max_length=200)


class InviteRequest(Record):
    days: int = 7


class JoinRequest(Record):
    code: str = Field(max_length=200)


class TransferRequest(Record):
    account: int


@lru_cache(4096)
def _line(line: boards.BoardLine) -> str:
    """Write a line of a board as JSON: most lines are the same for everybody who looks."""
    return json.dumps(plain(line), allow_nan=False)


def _board(call: Call) -> Written:
    board = boards.board(call.context, call.person, **dict(call.query))
    empty = json.dumps(plain(board._replace(lines=[])), allow_nan=False)
    lines = ", ".join(map(_line, board.lines))
    return Written(empty.replace('"lines": []', f'"lines": [{lines}]', 1))


def _register(call: Call) -> Registered:
    account = people.register(call.context, **dict(call.body))
    return Registered(account, account.state == "pending")


def _log_in(call: Call) -> Begun:
    if call.person.session is not None:  # another session begins: the old one ends
        credentials.end_session(call.context, call.person)
    secret = people.log_in(call.context, name=call.body.name, password=call.body.password)
    return Begun(secret, me(call, secret))


def _log_out(call: Call) -> Begun:
    permit(call.person, "session.end")
    credentials.end_session(call.context, call.person)
    return Begun(None, None)


def _password(call: Call) -> Begun:
    if call.person.via != "session":
        raise Refusal(403, "This is done in the browser: no token may do it.")
    secret = people.change_password(call.context, call.person, old=call.body.old, new=call.body.new)
    return Begun(secret, me(call, secret))


PUBLIC_OPERATIONS = [
    get(
        "/competition",
        "competition.read",
        "The competition: phases, leagues, limits, terms.",
        handle=lambda call: competition_info(call.context),
        answer=CompetitionInfo,
    ),
    get(
        "/board",
        "board.read",
        "A leaderboard.",
        handle=_board,
        answer=boards.Board,
        query=BoardQuery,
        steady=True,
    ),
    get(
        "/progress",
        "board.read",
        "Every valid submission in the course of time.",
        boards.progress,
        query=ProgressQuery,
        steady=True,
    ),
    get("/queue", "queue.read", "The queue and its workers.", boards.queue_state),
    get(
        "/announcements",
        "announcements.read",
        "What the organisers told everybody.",
        organising.list_announcements,
        steady=True,
    ),
    get("/rescorings", "competition.read", "Versions of scores.", organising.rescorings, steady=True),
    post("/accounts", "account.register", "Make an account.", handle=_register, body=NewAccount, costly=True),
    post("/session", "session.begin", "Log in.", handle=_log_in, answer=Me, body=Login, costly=True),
    delete("/session", "session.end", "Log out.", handle=_log_out, answer=None),
    get("/me", "account.read", "Who asks.", handle=me),
    post(
        "/me/password",
        "account.change",
        "Another password.",
        handle=_password,
        answer=Me,
        body=PasswordChange,
        costly=True,
    ),
    get("/tokens", "token.list", "One's tokens.", credentials.list_tokens),
    post(
        "/tokens",
        "token.create",
        "Make a token; its secret is shown once.",
        credentials.create_token,
        body=TokenRequest,
    ),
    delete("/tokens/{number:int}", "token.revoke", "Take a token back.", credentials.revoke_token),
    get("/team", "team.read", "One's team.", people.own_team),
    post("/team", "team.change", "Make a team.", people.found_team, body=TeamRequest),
    patch("/team", "team.change", "Change one's team.", people.change_team, body=TeamChange),
    post(
        "/team/invitations",
        "team.change",
        "Invite somebody to one's team.",
        people.invite_to_team,
        body=InviteRequest,
    ),
    post("/team/join", "team.change", "Join a team.", people.join_team, body=JoinRequest),
    post("/team/leave", "team.change", "Leave one's team.", people.leave_team),
    post(
        "/team/transfer",
        "team.change",
        "Make another member the leader.",
        people.transfer_team,
        body=TransferRequest,
    ),
    delete(
        "/team/members/{account:int}", "team.change", "Take somebody out of one's team.", people.remove_member
    ),
]


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


def read_scores(context: ServerContext, person: Person, number: int, *, seed: int | None) -> dict[str, Any]:
    """Read scores.json of one run, for its team, where scores are shown."""
    row = own_row(context, person, "submission.read", number)
    page = submissions.read_submission(context, person, number)
    seeds = [run.seed for run in page.runs if run.state == "scored"]
    chosen = seed if seed is not None else (seeds or [0])[0]
    path = run_folder(context.competition, number, chosen) / "scores.json"
    if chosen not in seeds or not may_see_score(context, person, row) or not path.is_file():
        raise not_there("score", f"of submission {number} to be seen")
    return dict(json.loads(path.read_text(encoding="utf-8")))


def read_receipt(context: ServerContext, person: Person, number: int) -> Receipt:
    """Return the receipt of a submission, for its team."""
    own_row(context, person, "submission.read", number)
    return uploads.receipt(context, number)


TEAM_OPERATIONS = [
    get("/quota", "quota.read", "What one's team may still submit.", submissions.allowances),
    get(
        "/uploads",
        "upload.list",
        "One's team's uploads that were begun and not finished.",
        uploads.list_uploads,
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
    delete("/uploads/{identity}", "upload.delete", "Give an unfinished upload up.", uploads.delete_upload),
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
    get("/submissions/{number:int}/receipt", "submission.read", "Its receipt.", read_receipt),
    get(
        "/submissions/{number:int}/log",
        "submission.log",
        "What is new in the log of a run.",
        submissions.tail,
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
