"""Who may do what: one table and one function, and what the table does not name is refused.

Every route of the server names an action; ``permit`` decides. What belongs to a team is for its members and the
organisers; for everybody else it is not there. What is not done is told as a sentence with HTTP's status.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

from longshot.base import UserError


class Refusal(UserError):
    """A request that is not carried out; ``status`` is HTTP's number for the kind of reason.

    Parameters
    ----------
    status : int
        401 unknown, 403 not allowed, 404 not there, 409 not now, 413 too large, 429 too often, 503 not at the moment.
    fact, remedy : str
        As of :class:`UserError`.
    retry : float
        Seconds after which it may be asked again; 0 where that would not help.
    """

    def __init__(self, status: int, fact: str, remedy: str = "", *, retry: float = 0.0) -> None:
        super().__init__(fact, remedy)
        self.status, self.retry = status, retry


def not_there(kind: str, name: object) -> Refusal:
    """Refuse what does not exist or is somebody else's: nobody learns which."""
    return Refusal(404, f"There is no {kind} {name} here.")


Role: TypeAlias = Literal["visitor", "participant", "organiser", "worker"]
Scope: TypeAlias = Literal["submit", "read-own", "work", "admin"]
ROLES: tuple[Role, ...] = ("visitor", "participant", "organiser", "worker")
SCOPES: tuple[Scope, ...] = ("submit", "read-own", "work", "admin")
# What a role may have at most: a token holds some of it, a session all.
OF_ROLE: dict[Role, frozenset[Scope]] = {
    "visitor": frozenset(),
    "participant": frozenset(("submit", "read-own")),
    "organiser": frozenset(("submit", "read-own", "admin")),
    "worker": frozenset(("work",)),
}


class Person(NamedTuple):
    """Who asks."""

    role: Role = "visitor"
    account: int | None = None
    name: str = ""
    team: int | None = None
    scopes: frozenset[Scope] = frozenset()
    via: Literal["", "session", "token"] = ""
    token: int | None = None  # number of the token
    session: str | None = None  # hash of the session


VISITOR = Person()


class Rule(NamedTuple):
    """What an action asks for."""

    roles: frozenset[Role]
    scope: Scope | None = None  # None: whoever has the role
    session: bool = False  # a person at a browser, no token: what could hand out further rights


def _rule(roles: str, scope: Scope | None = None, *, session: bool = False) -> Rule:
    chosen = ROLES if roles == "all" else tuple(role for role in ROLES if role in roles.split())
    return Rule(frozenset(chosen), scope, session)


_OWN = _rule("participant organiser", "read-own")
_SUBMIT = _rule("participant organiser", "submit")
_ADMIN = _rule("organiser", "admin")
_WORK = _rule("worker", "work")
_SELF = _rule("participant organiser", session=True)
ACTIONS: dict[str, Rule] = {
    # everybody
    "competition.read": _rule("all"),
    "board.read": _rule("all"),
    "announcements.read": _rule("all"),
    "queue.read": _rule("all"),
    "account.register": _rule("all"),
    "session.begin": _rule("all"),
    # a person and what is theirs
    "session.end": _SELF,
    "account.read": _OWN,
    "account.change": _SELF,
    "token.list": _SELF,
    "token.create": _SELF,
    "token.revoke": _SELF,
    "team.read": _OWN,
    "team.change": _SELF,
    "quota.read": _OWN,
    "submission.list": _OWN,
    "submission.read": _OWN,
    "submission.log": _OWN,
    "submission.cancel": _SUBMIT,
    "submission.select": _SUBMIT,
    "submission.sheet": _SUBMIT,
    "upload.begin": _SUBMIT,
    "upload.read": _SUBMIT,
    "upload.write": _SUBMIT,
    "upload.finish": _SUBMIT,
    "upload.list": _SUBMIT,
    "upload.delete": _SUBMIT,
    # workers
    "work.claim": _WORK,
    "work.read": _WORK,
    "work.write": _WORK,
    # organisers
    "people.read": _ADMIN,
    "people.change": _rule("organiser", "admin", session=True),
    "invitation.create": _rule("organiser", "admin", session=True),
    "worker.token": _rule("organiser", "admin", session=True),
    "announcement.write": _ADMIN,
    "upload.every": _ADMIN,
    "upload.clear": _ADMIN,
    "submission.every": _ADMIN,
    "submission.rerun": _ADMIN,
    "submission.delete": _ADMIN,
    "scores.redo": _ADMIN,
    "final.enter": _ADMIN,
    "queue.pause": _ADMIN,
    "audit.read": _ADMIN,
    "export.read": _ADMIN,
}


def permit(person: Person, action: str) -> None:
    """Raise Refusal where ``person`` may not take ``action``, and for actions that have no rule."""
    rule = ACTIONS.get(action)
    if rule is None:
        raise Refusal(403, f"'{action}' is not allowed to anybody.")
    if person.role not in rule.roles:
        if person.role == "visitor":
            raise Refusal(401, "This needs somebody who is logged in, or a token", "log in, or bring a token")
        raise Refusal(403, f"This is not for a {person.role}.")
    if rule.scope is not None and rule.scope not in person.scopes:
        raise Refusal(
            403,
            f"This needs the scope '{rule.scope}', and the token has {', '.join(sorted(person.scopes)) or 'none'}",
            "make a token with that scope",
        )
    if rule.session and person.via == "token":
        raise Refusal(403, "This is done in the browser: no token may do it.")


def permit_own(person: Person, action: str, team: int | None, kind: str, name: object) -> None:
    """Allow as ``permit`` does, but only to members of ``team`` and organisers; to others it does not exist."""
    permit(person, action)
    if team is None or (not sees_all(person) and person.team != team):
        raise not_there(kind, name)


def sees_all(person: Person) -> bool:
    """Tell whether somebody outside a team may see what belongs to it: an organiser with the scope admin."""
    return person.role == "organiser" and "admin" in person.scopes


def require_team(person: Person) -> int:
    """Return the number of a person's team; raise Refusal where there is none: submissions belong to teams."""
    if person.team is None:
        raise Refusal(
            409, "Submissions belong to a team, and you are in none", "make a team or join one first"
        )
    return person.team
