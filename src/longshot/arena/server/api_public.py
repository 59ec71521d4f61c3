"""What everybody may ask, and what a person does with their account and their team."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import NamedTuple

from pydantic import Field

from longshot.arena.policy import Refusal, permit
from longshot.arena.server.declare import Begun, Call, Query, Written, delete, get, patch, plain, post
from longshot.arena.server.info import CompetitionInfo, competition_info
from longshot.arena.services import boards, credentials, organising, people, teams
from longshot.base import Record


class Me(NamedTuple):
    """Who asks."""

    role: str
    name: str
    scopes: list[str]
    team: teams.Team | None
    csrf: str | None


class Registered(NamedTuple):
    """An account that was made."""

    account: people.Account
    waits: bool  # for an organiser's approval


def me(call: Call, secret: str | None = None) -> Me:
    """Who asks, with their team; ``secret`` is that of a session which has just begun."""
    office, person, csrf = call.office, call.person, None
    if secret is not None:
        person, csrf = credentials.by_session(office, secret), office.csrf(secret)
    team = None if person.team is None else teams.team(office, person.team)
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
    """A line of a board as JSON: most lines are the same for everybody who looks."""
    return json.dumps(plain(line), allow_nan=False)


def _board(call: Call) -> Written:
    board = boards.board(call.office, call.person, **dict(call.query))
    empty = json.dumps(plain(board._replace(lines=[])), allow_nan=False)
    lines = ", ".join(map(_line, board.lines))
    return Written(empty.replace('"lines": []', f'"lines": [{lines}]', 1))


def _register(call: Call) -> Registered:
    account = people.register(call.office, **dict(call.body))
    return Registered(account, account.state == "pending")


def _log_in(call: Call) -> Begun:
    if call.person.session is not None:  # another session begins: the old one ends
        credentials.end_session(call.office, call.person)
    secret = people.log_in(call.office, name=call.body.name, password=call.body.password)
    return Begun(secret, me(call, secret))


def _log_out(call: Call) -> Begun:
    permit(call.person, "session.end")
    credentials.end_session(call.office, call.person)
    return Begun(None, None)


def _password(call: Call) -> Begun:
    if call.person.via != "session":
        raise Refusal(403, "This is done in the browser: no token may do it.")
    secret = people.change_password(call.office, call.person, old=call.body.old, new=call.body.new)
    return Begun(secret, me(call, secret))


OPERATIONS = [
    get(
        "/competition",
        "competition.read",
        "The competition: phases, leagues, limits, terms.",
        handle=lambda call: competition_info(call.office),
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
    get("/team", "team.read", "One's team.", teams.own_team),
    post("/team", "team.change", "Make a team.", teams.found_team, body=TeamRequest),
    patch("/team", "team.change", "Change one's team.", teams.change_team, body=TeamChange),
    post(
        "/team/invitations",
        "team.change",
        "Invite somebody to one's team.",
        teams.invite_to_team,
        body=InviteRequest,
    ),
    post("/team/join", "team.change", "Join a team.", teams.join_team, body=JoinRequest),
    post("/team/leave", "team.change", "Leave one's team.", teams.leave_team),
    post(
        "/team/transfer",
        "team.change",
        "Make another member the leader.",
        teams.transfer_team,
        body=TransferRequest,
    ),
    delete(
        "/team/members/{account:int}", "team.change", "Take somebody out of one's team.", teams.remove_member
    ),
]
