"""What everybody may ask, and what a person does with their account and their team."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any, NamedTuple

from pydantic import Field

from longshot.competition.policy import permit
from longshot.competition.refusals import Refusal
from longshot.competition.services import boards, credentials, organising, people, teams
from longshot.competition.services.office import Office
from longshot.core.settings import Record
from longshot.web.competition.declare import Begun, Call, Operation, Query, Written, plain
from longshot.web.competition.info import CompetitionInfo, competition_info


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


def me(office: Office, call: Call, csrf: str | None = None) -> Me:
    """Who asks, with their team."""
    person = call.person
    team = None if person.team is None else teams.team(office, person.team)
    return Me(person.role, person.name, sorted(person.scopes), team, csrf)


class BoardQuery(Query):
    phase: str | None = None
    league: str | None = None
    by: str | None = None


class ProgressQuery(Query):
    phase: str | None = None
    league: str | None = None


class NewAccount(Record):
    name: str = Field(max_length=200)
    password: str = Field(max_length=400)
    code: str | None = None
    terms: bool = False


class Login(Record):
    name: str = Field(max_length=200)
    password: str = Field(max_length=400)


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
    wish = call.query
    board = boards.board(call.office, call.person, phase=wish.phase, league=wish.league, by=wish.by)
    empty = json.dumps(plain(board._replace(lines=[])), allow_nan=False)
    lines = ", ".join(map(_line, board.lines))
    return Written(empty.replace('"lines": []', f'"lines": [{lines}]', 1))


def _register(call: Call) -> Registered:
    wish: Any = call.body
    account = people.register(
        call.office,
        name=wish.name,
        password=wish.password,
        code=wish.code,
        terms=wish.terms,
    )
    return Registered(account, account.state == "pending")


def _log_in(call: Call) -> Begun:
    if call.person.session is not None:  # another session begins: the old one ends
        credentials.end_session(call.office, call.person)
    secret = people.log_in(call.office, name=call.body.name, password=call.body.password)
    person = credentials.by_session(call.office, secret)
    fresh = Call(call.office, call.blobs, person)
    return Begun(secret, me(call.office, fresh, call.office.csrf(secret)))


def _log_out(call: Call) -> Begun:
    permit(call.person, "session.end")
    credentials.end_session(call.office, call.person)
    return Begun(None, None)


def _password(call: Call) -> Begun:
    if call.person.via != "session":
        raise Refusal(403, "This is done in the browser: no token may do it.")
    secret = people.change_password(call.office, call.person, old=call.body.old, new=call.body.new)
    fresh = Call(call.office, call.blobs, credentials.by_session(call.office, secret))
    return Begun(secret, me(call.office, fresh, call.office.csrf(secret)))


def _new_token(call: Call) -> credentials.NewToken:
    wish = call.body
    return credentials.create_token(
        call.office, call.person, name=wish.name, scopes=list(wish.scopes), days=wish.days
    )


OPERATIONS = [
    Operation(
        "GET",
        "/competition",
        "competition.read",
        "The competition: phases, leagues, limits, terms.",
        lambda call: competition_info(call.office),
        CompetitionInfo,
    ),
    Operation(
        "GET",
        "/board",
        "board.read",
        "A leaderboard.",
        _board,
        boards.Board,
        query=BoardQuery,
        steady=True,
    ),
    Operation(
        "GET",
        "/progress",
        "board.read",
        "Every valid submission in the course of time.",
        lambda call: boards.progress(
            call.office, call.person, phase=call.query.phase, league=call.query.league
        ),
        list[boards.Progress],
        query=ProgressQuery,
        steady=True,
    ),
    Operation(
        "GET",
        "/queue",
        "queue.read",
        "The queue and its workers.",
        lambda call: boards.queue_state(call.office, call.person),
        boards.QueueView,
    ),
    Operation(
        "GET",
        "/announcements",
        "announcements.read",
        "What the organisers told everybody.",
        lambda call: organising.list_announcements(call.office, call.person),
        list[organising.Announcement],
        steady=True,
    ),
    Operation(
        "GET",
        "/rescorings",
        "competition.read",
        "Versions of scores.",
        lambda call: organising.rescorings(call.office, call.person),
        list[organising.Rescoring],
        steady=True,
    ),
    Operation(
        "POST",
        "/accounts",
        "account.register",
        "Make an account.",
        _register,
        Registered,
        NewAccount,
        costly=True,
    ),
    Operation("POST", "/session", "session.begin", "Log in.", _log_in, Me, Login, costly=True),
    Operation("DELETE", "/session", "session.end", "Log out.", _log_out),
    Operation("GET", "/me", "account.read", "Who asks.", lambda call: me(call.office, call), Me),
    Operation(
        "POST",
        "/me/password",
        "account.change",
        "Another password.",
        _password,
        Me,
        PasswordChange,
        costly=True,
    ),
    Operation(
        "GET",
        "/tokens",
        "token.list",
        "One's tokens.",
        lambda call: credentials.list_tokens(call.office, call.person),
        list[credentials.TokenInfo],
    ),
    Operation(
        "POST",
        "/tokens",
        "token.create",
        "Make a token; its secret is shown once.",
        _new_token,
        credentials.NewToken,
        TokenRequest,
    ),
    Operation(
        "DELETE",
        "/tokens/{number:int}",
        "token.revoke",
        "Take a token back.",
        lambda call: credentials.revoke_token(call.office, call.person, call.path["number"]),
    ),
    Operation(
        "GET",
        "/team",
        "team.read",
        "One's team.",
        lambda call: teams.own_team(call.office, call.person),
        teams.Team | None,
    ),
    Operation(
        "POST",
        "/team",
        "team.change",
        "Make a team.",
        lambda call: teams.found_team(
            call.office, call.person, name=call.body.name, pseudonym=call.body.pseudonym
        ),
        teams.Team,
        TeamRequest,
    ),
    Operation(
        "PATCH",
        "/team",
        "team.change",
        "Change one's team.",
        lambda call: teams.change_team(call.office, call.person, pseudonym=call.body.pseudonym),
        teams.Team,
        TeamChange,
    ),
    Operation(
        "POST",
        "/team/invitations",
        "team.change",
        "Invite somebody to one's team.",
        lambda call: teams.invite_to_team(call.office, call.person, days=call.body.days),
        people.Invitation,
        InviteRequest,
    ),
    Operation(
        "POST",
        "/team/join",
        "team.change",
        "Join a team.",
        lambda call: teams.join_team(call.office, call.person, code=call.body.code),
        teams.Team,
        JoinRequest,
    ),
    Operation(
        "POST",
        "/team/leave",
        "team.change",
        "Leave one's team.",
        lambda call: teams.leave_team(call.office, call.person),
    ),
    Operation(
        "POST",
        "/team/transfer",
        "team.change",
        "Make another member the leader.",
        lambda call: teams.transfer_team(call.office, call.person, call.body.account),
        teams.Team,
        TransferRequest,
    ),
    Operation(
        "DELETE",
        "/team/members/{account:int}",
        "team.change",
        "Take somebody out of one's team.",
        lambda call: teams.remove_member(call.office, call.person, call.path["account"]),
        teams.Team,
    ),
]
