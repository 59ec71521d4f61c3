"""A team: founded, joined, led, left."""

from __future__ import annotations

from collections.abc import Callable

from starlette.routing import BaseRoute

from longshot.arena.server.endpoint import Front
from longshot.arena.server.page_endpoint import Move, PageRequest
from longshot.arena.server.pages.rendering import field, number, page, show, take
from longshot.arena.services import people, teams


def routes(front: Front) -> list[BaseRoute]:
    """Pages and forms of a team."""
    forms: dict[str, Callable[[PageRequest], str | Move]] = {
        "found": found,
        "invite": invite,
        "join": join,
        "leave": leave,
        "remove": remove,
        "transfer": transfer,
        "pseudonym": change_pseudonym,
    }
    return [
        show(front, "/team", "team.read", team),
        show(front, "/team/join", "team.read", team),
        *(take(front, f"/team/{name}", "team.change", form, team) for name, form in forms.items()),
    ]


def team(request: PageRequest, problem: str = "", invitation: people.Invitation | None = None) -> str:
    """A person's team; without one, the forms that lead into one."""
    own = teams.own_team(request.office, request.person)
    leads = own is not None and any(
        member.leads for member in own.members if member.account == request.person.account
    )
    return page(
        request,
        "team",
        own.name if own else "Your team",
        counts=[f"{len(own.members)} of {request.office.competition.server.team_size} members"]
        if own
        else (),
        problem=problem,
        team=own,
        leads=leads,
        invitation=invitation,
        code=request.form.get("code") or request.query.get("code", ""),
    )


def found(request: PageRequest) -> Move:
    """A new team, led by whoever founds it."""
    pseudonym = field(request, "pseudonym") or None
    teams.found_team(request.office, request.person, name=field(request, "name"), pseudonym=pseudonym)
    return Move("/team")


def invite(request: PageRequest) -> str:
    """A link into the team, shown this once."""
    return team(request, invitation=teams.invite_to_team(request.office, request.person))


def join(request: PageRequest) -> Move:
    """Into a team by its invitation."""
    teams.join_team(request.office, request.person, code=field(request, "code"))
    return Move("/team")


def leave(request: PageRequest) -> Move:
    """Out of the team."""
    teams.leave_team(request.office, request.person)
    return Move("/team")


def remove(request: PageRequest) -> Move:
    """A member out of the team, by who leads it."""
    teams.remove_member(request.office, request.person, number(request, "account"))
    return Move("/team")


def transfer(request: PageRequest) -> Move:
    """Another member leads."""
    teams.transfer_team(request.office, request.person, number(request, "account"))
    return Move("/team")


def change_pseudonym(request: PageRequest) -> Move:
    """The name that boards show."""
    teams.change_team(request.office, request.person, pseudonym=field(request, "pseudonym") or None)
    return Move("/team")
