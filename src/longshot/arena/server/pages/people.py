"""Registering, signing in and out, and what a person keeps: password and tokens."""

from __future__ import annotations

from starlette.routing import BaseRoute

from longshot.arena.policy import OF_ROLE
from longshot.arena.server.endpoint import Front
from longshot.arena.server.info import competition_info
from longshot.arena.server.page_endpoint import Move, PageRequest
from longshot.arena.server.pages.rendering import field, number, page, show, take
from longshot.arena.services import credentials, passwords, people


def routes(front: Front) -> list[BaseRoute]:
    """Pages and forms of a person."""
    return [
        show(front, "/register", "account.register", registering),
        take(front, "/register", "account.register", register, registering, password=True),
        show(front, "/login", "session.begin", signing_in),
        take(front, "/login", "session.begin", sign_in, signing_in, password=True),
        take(front, "/logout", "session.end", sign_out, signing_in),
        show(front, "/account", "token.list", account),
        take(front, "/account/password", "account.change", change_password, account, password=True),
        take(front, "/account/tokens", "token.create", create_token, account),
        take(front, "/account/tokens/{number:int}/revoke", "token.revoke", revoke_token, account),
    ]


def registering(request: PageRequest, problem: str = "") -> str:
    """The form for a new account; an invitation brings its code in the address."""
    code = request.form.get("code") or request.query.get("code", "")
    info = competition_info(request.office)
    return page(
        request,
        "register",
        "Register",
        problem=problem,
        info=info,
        code=code,
        longest_name=people.LONGEST,
        shortest_password=passwords.SHORTEST,
    )


def register(request: PageRequest) -> str | Move:
    """Make an account; whoever needs no approval is signed in at once."""
    password = request.form.get("password", "")
    made = people.register(
        request.office,
        name=field(request, "name"),
        password=password,
        code=field(request, "code") or None,
        terms="terms" in request.form,
    )
    if made.state != "active":
        return page(request, "waiting", "Thank you", name=made.name)
    return Move("/team", people.log_in(request.office, name=made.name, password=password))


def signing_in(request: PageRequest, problem: str = "") -> str:
    """The form to sign in; ``next`` says where it leads to."""
    after = request.form.get("next") or request.query.get("next", "/")
    return page(request, "login", "Sign in", problem=problem, after=_own_page(after))


def sign_in(request: PageRequest) -> Move:
    """Begin a session."""
    password = request.form.get("password", "")
    secret = people.log_in(request.office, name=field(request, "name"), password=password)
    return Move(_own_page(request.form.get("next", "/")), secret)


def sign_out(request: PageRequest) -> Move:
    """End the session."""
    credentials.end_session(request.office, request.person)
    return Move("/", "")


def account(request: PageRequest, problem: str = "", token: credentials.NewToken | None = None) -> str:
    """A person's password and tokens; a new token's secret is shown this once."""
    office, person = request.office, request.person
    return page(
        request,
        "account",
        person.name,
        counts=[person.role],
        problem=problem,
        tokens=credentials.list_tokens(office, person),
        token=token,
        scopes=sorted(OF_ROLE[person.role]),
    )


def change_password(request: PageRequest) -> Move:
    """A new password, and a new session: all others end."""
    secret = people.change_password(
        request.office, request.person, old=request.form.get("old", ""), new=request.form.get("new", "")
    )
    return Move("/account", secret)


def create_token(request: PageRequest) -> str:
    """A token for the command line."""
    scopes = [scope for scope in sorted(OF_ROLE[request.person.role]) if f"scope-{scope}" in request.form]
    days = number(request, "days") if field(request, "days") else None
    made = credentials.create_token(
        request.office, request.person, name=field(request, "name"), scopes=scopes, days=days
    )
    return account(request, token=made)


def revoke_token(request: PageRequest) -> Move:
    """A token that is worth nothing from now on."""
    credentials.revoke_token(request.office, request.person, number(request, "number"))
    return Move("/account")


def _own_page(address: str) -> str:
    """An address of this server, or its front page: nobody is sent elsewhere."""
    plain = address.startswith("/") and not address.startswith(("//", "/\\")) and address.isprintable()
    return address if plain else "/"
