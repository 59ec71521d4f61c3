"""How pages of a competition are made: the explorer's look, times in UTC, a form's mistakes at the form."""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from longshot.competition.inside.shown import one_line
from longshot.core.errors import UserError
from longshot.reports import frame
from longshot.web.competition.endpoint import Front
from longshot.web.competition.page_endpoint import (
    Failed,
    Html,
    Move,
    PageRequest,
    form_route,
    page_route,
)
from longshot.web.site import TEMPLATES, ago, human_bytes, without_unseen

if TYPE_CHECKING:
    from jinja2 import Environment

# (address, name, who sees it)
_VISITOR, _MEMBER, _ORGANISER = "visitor", "participant", "organiser"
_TABS = (
    ("/", "Competition", (_VISITOR, _MEMBER, _ORGANISER)),
    ("/board", "Leaderboard", (_VISITOR, _MEMBER, _ORGANISER)),
    ("/submit", "Submit", (_MEMBER, _ORGANISER)),
    ("/submissions", "Submissions", (_MEMBER, _ORGANISER)),
    ("/team", "Team", (_MEMBER, _ORGANISER)),
    ("/organise", "Organise", (_ORGANISER,)),
    ("/account", "Account", (_MEMBER, _ORGANISER)),
    ("/login", "Sign in", (_VISITOR,)),
    ("/register", "Register", (_VISITOR,)),
)
_ASSETS = {"competition.css": "text/css; charset=utf-8", "competition.js": "text/javascript; charset=utf-8"}


class Shown(Protocol):
    """A page that can also show what was wrong with a form of its own."""

    def __call__(self, request: PageRequest, problem: str = "") -> Html: ...


def page(
    request: PageRequest,
    template: str,
    title: str,
    *,
    counts: Sequence[str] = (),
    problem: str = "",
    status: int = 200,
    session: str | None = None,
    **context: Any,
) -> Html:
    """The template ``competition/<template>.html.j2`` as a page.

    Parameters
    ----------
    request : PageRequest
        Who asks, and where.
    template : str
        Name of the template.
    title : str
        Heading of the page.
    counts : sequence of str
        What it is about, in a few words each.
    problem : str
        One sentence about a form that was sent.
    status : int
        Of the answer.
    session : str, optional
        A session that begins.
    **context
        What the template shows.
    """
    person = request.person
    path = request.here.partition("?")[0]
    tabs = [
        (name, address, path == address or (address != "/" and path.startswith(f"{address}/")))
        for address, name, roles in _TABS
        if person.role in roles
    ]
    text = (
        _templates()
        .get_template(f"competition/{template}.html.j2")
        .render(
            title=title,
            competition=request.office.competition.title,
            counts=list(counts),
            tabs=tabs,
            person=person,
            csrf=request.csrf,
            problem=problem,
            form=request.form,
            site=request.site,
            bodies=[],
            beds=[],
            unfinished=[],
            by_name=[],
            **context,
        )
    )
    return Html(without_unseen(text), status, session)


def failed(request: PageRequest, error: UserError, sentence: str) -> str:
    """The page of a mistake that belongs to no form."""
    return page(request, "failed", "That did not work", problem=sentence).text


def at_form(make: Shown) -> Failed:
    """A mistake shown on the page that has the form; where that page cannot be made, on one of its own."""

    def failed_at_form(request: PageRequest, error: UserError, sentence: str) -> str:
        try:
            return make(request, problem=sentence).text
        except UserError:
            return failed(request, error, sentence)

    return failed_at_form


def show(front: Front, path: str, action: str, make: Shown, *, steady: bool = False) -> BaseRoute:
    """A page by its address."""
    return page_route(front, path, action, make, failed, steady=steady)


def take(
    front: Front,
    path: str,
    action: str,
    handle: Callable[[PageRequest], Html | Move],
    shown: Shown,
    *,
    password: bool = False,
    file: int = 0,
) -> BaseRoute:
    """A form by its address, and the page that it stands on."""
    return form_route(front, path, action, handle, at_form(shown), password=password, file=file)


def field(request: PageRequest, name: str, default: str = "") -> str:
    """A field of the form that was sent, without white space around it."""
    return request.form.get(name, default).strip()


def number(request: PageRequest, name: str) -> int:
    """A whole number of the path or of the form; UserError for anything else."""
    text = request.path.get(name) or request.form.get(name, "")
    try:
        return int(text)
    except ValueError:
        raise UserError(f"'{one_line(text)[:40]}' is no number", f"give one as {name}") from None


def asset_routes() -> list[BaseRoute]:
    """The style sheet and the script of all pages."""

    def answer(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in _ASSETS:
            return Response(status_code=404)
        headers = {"cache-control": "public, max-age=31536000, immutable"}
        return Response(_asset(name), media_type=_ASSETS[name], headers=headers)

    return [Route("/static/{version}/{name}", answer, methods=["GET"])]


@cache
def _asset(name: str) -> bytes:
    own = TEMPLATES.joinpath("competition", name).read_text(encoding="utf-8")
    if name.endswith(".css"):
        explorer = TEMPLATES.joinpath("explorer.css").read_text(encoding="utf-8")
        own = frame.asset("style.css") + explorer + own
    return own.encode()


def _asset_url(name: str) -> str:
    return f"/static/{hashlib.sha256(_asset(name)).hexdigest()[:12]}/{name}"


@cache
def _templates() -> Environment:
    templates = frame.environment(TEMPLATES)
    templates.filters.update(bytes=human_bytes, ago=ago, moment=moment, signed=_interval)
    templates.globals.update(
        style_url=_asset_url("competition.css"), script_url=_asset_url("competition.js"), shell=shell
    )
    return templates


def shell(words: str, **options: str) -> str:
    """A command for a reader's own machine, whatever this server was started from.

    Examples
    --------
    >>> shell("submit ARCHIVE", server="https://cup.example.org")
    'longshot compete submit ARCHIVE --server https://cup.example.org'
    """
    return f"longshot compete {words}" + "".join(f" --{name} {value}" for name, value in options.items())


def moment(value: dt.datetime | str | None) -> Markup:
    """A time in UTC; the script adds the reader's own.

    Examples
    --------
    >>> moment("2026-03-01 12:00:00")
    Markup('<time datetime="2026-03-01T12:00:00Z">2026-03-01 12:00 UTC</time>')
    """
    if value is None:
        return Markup("–")
    if isinstance(value, str):
        value = dt.datetime.strptime(value, "%Y-%m-%d %H:%M:%S").replace(tzinfo=dt.UTC)
    utc = value.astimezone(dt.UTC)
    return Markup('<time datetime="{}">{} UTC</time>').format(
        utc.strftime("%Y-%m-%dT%H:%M:%SZ"), utc.strftime("%Y-%m-%d %H:%M")
    )


def _interval(score: float | None, half: float | None) -> str:
    """A score with half of its interval; a dash where there is none."""
    if score is None:
        return "–"
    return f"{score:.4f}" + ("" if half is None else f" ± {half:.4f}")
