"""Pages and forms: the person, policy and sentences of the API as HTML, in the explorer's look, times in UTC.

Forms with a file come as browsers send them without a script, ``multipart/form-data``, held in memory, bounded.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, NamedTuple, ParamSpec, Protocol, TypeAlias, TypeVar
from urllib.parse import parse_qsl, quote

from anyio import to_thread
from markupsafe import Markup
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from longshot.arena.inside.wire import one_line
from longshot.arena.policy import Person, permit
from longshot.arena.server.api_staff import OPERATIONS
from longshot.arena.server.endpoint import (
    Front,
    SentFile,
    SentForm,
    as_refusal,
    cookie,
    parse_form,
    read_body,
    sentence,
    set_cookie,
    status_of,
)
from longshot.arena.server.operations import Begun
from longshot.arena.server.server_context import ServerContext
from longshot.base import UserError, in_bytes, read_record
from longshot.explorer import TEMPLATES as EXPLORER_TEMPLATES
from longshot.explorer import ago, without_unseen
from longshot.reports import frame
from longshot.statistics import plus_minus

if TYPE_CHECKING:
    from jinja2 import Environment

_P = ParamSpec("_P")
_T = TypeVar("_T")
FORM = 128 << 10  # bytes of a form


@dataclass(frozen=True)
class PageRequest:
    """What a page is made from."""

    front: Front
    person: Person
    csrf: str  # goes into every form as the field ``csrf``, and into scripts' header X-CSRF-Token
    here: str  # the page's own address
    path: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    form: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, SentFile] = field(default_factory=dict)
    site: str = ""  # the server's address as the reader has it, without a slash at its end

    @property
    def context(self) -> ServerContext:
        """Return the competition's context."""
        return self.front.context

    def do(
        self,
        service: Callable[Concatenate[ServerContext, Person, _P], _T],
        *values: _P.args,
        **named: _P.kwargs,
    ) -> _T:
        """Call a service for whoever asks."""
        return service(self.context, self.person, *values, **named)


class Move(NamedTuple):
    """Where a form leads to; ``session`` begins (a secret) or ends (empty) one."""

    to: str
    session: str | None = None


def begun(front: Front, request: Request) -> PageRequest:
    """Collect what is known of a request before anybody is asked who sends it."""
    here = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    site = str(request.base_url).rstrip("/")  # the guard has looked at the name in it
    return PageRequest(front, Person(), "", here, site=site)


def with_person(page_request: PageRequest, request: Request) -> PageRequest:
    """Add who asks; the database is asked for that."""
    front = page_request.front
    person = front.person(request)
    secret = cookie(request) if person.via == "session" else None
    return replace(
        page_request,
        person=person,
        csrf=front.context.csrf(secret) if secret else "",
        path=dict(request.path_params),
        query=dict(request.query_params),
    )


async def read_form(request: Request, file: int) -> SentForm:
    """Read what a form brought; one with a file may be larger, and one that is too large is read to its end.

    A browser that is answered before it has sent everything shows a broken connection, and not the answer.
    """
    kind = request.headers.get("content-type", "")
    if file and kind.partition(";")[0].strip().lower() == "multipart/form-data":
        return await run_in_threadpool(
            parse_form, kind, await read_body(request, FORM + file, to_its_end=True)
        )
    text = (await read_body(request, FORM)).decode("utf-8", "replace")
    return SentForm(dict(parse_qsl(text, keep_blank_values=True, max_num_fields=200)), {})


def answered(made: str | Move) -> Response:
    """Answer with a page, or with where a form leads to."""
    headers = {"cache-control": "no-store"}
    if isinstance(made, str):
        return HTMLResponse(made.encode("utf-8", "backslashreplace"), headers=headers)
    response = RedirectResponse(made.to, 303, headers=headers)
    if made.session is not None:
        set_cookie(response, made.session or None)
    return response


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
TEMPLATES = Path(__file__).with_name("templates")
_ASSETS = {"competition.css": "text/css; charset=utf-8", "competition.js": "text/javascript; charset=utf-8"}


PageRoute: TypeAlias = Callable[["Front"], Route]


class Shown(Protocol):
    """A page that can also show what was wrong with a form of its own."""

    def __call__(self, request: PageRequest, problem: str = "") -> str: ...


def page(
    request: PageRequest,
    template: str,
    title: str,
    *,
    counts: Sequence[str] = (),
    problem: str = "",
    **values: Any,
) -> str:
    """Make a page of ``templates/<template>.html.j2``.

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
    **values
        What the template shows.
    """
    person = request.person
    path = request.here.partition("?")[0]
    tabs = [
        (name, address, path == address or (address != "/" and path.startswith(f"{address}/")))
        for address, name, roles in _TABS
        if person.role in roles
    ]
    absent: dict[str, list[str]] = {
        name: [] for name in ("bodies", "beds", "unfinished", "by_name")
    }  # which other pages have
    text = (
        _templates()
        .get_template(f"{template}.html.j2")
        .render(
            title=title,
            competition=request.context.competition.title,
            counts=list(counts),
            tabs=tabs,
            person=person,
            csrf=request.csrf,
            problem=problem,
            form=request.form,
            site=request.site,
            **absent,
            **values,
        )
    )
    return without_unseen(text)


def show(path: str, action: str, make: Shown, *, steady: bool = False) -> PageRoute:
    """Route a page that shows something and changes nothing.

    ``steady``: it follows from submissions, people and settings alone, and a script that brings its tag hears whether
    it is still the same without its being made.
    """

    def answer(front: Front, request: Request) -> Response:
        page_request = begun(front, request)
        try:
            page_request = with_person(page_request, request)
            permit(page_request.person, action)
            if not steady:
                return answered(make(page_request))
            tag = f'"{front.context.tag(page_request.person, page_request.here, page_request.csrf)}"'
            if request.headers.get("if-none-match") == tag:
                return Response(status_code=304, headers={"etag": tag, "cache-control": "no-store"})
            if page_request.person.via or page_request.query:
                made = make(page_request)
            else:  # the same for every visitor
                made = front.context.memory.kept(page_request.here, tag, lambda: make(page_request))
            response = answered(made)
            response.headers["etag"] = tag
            return response
        except Exception as error:
            refusal = as_refusal(error)
            if status_of(refusal) == 401 and not page_request.person.via:
                return RedirectResponse(f"/login?next={quote(page_request.here, safe='/')}", 303)
            return _failed(page_request, refusal)

    return lambda front: Route(path, partial(answer, front), methods=["GET"])


def take(
    path: str,
    action: str,
    handle: Callable[[PageRequest], str | Move],
    shown: Shown,
    *,
    password: bool = False,
    file: int = 0,
) -> PageRoute:
    """Route what a form is sent to; ``shown`` is the page that it stands on, and shows what was wrong with it.

    ``password``: it is a try with one, which are counted; ``file``: its bytes at most.
    """

    async def answer(front: Front, request: Request) -> Response:
        page_request = begun(front, request)
        try:
            page_request = await run_in_threadpool(with_person, page_request, request)
            permit(page_request.person, action)
            fields, files = await read_form(request, file)
            front.check_csrf(request, page_request.person, fields.pop("csrf", None))
            page_request = replace(page_request, form=fields, files=files)
            slow = front.slow if password or file else None
            counted: AbstractContextManager[None] = nullcontext()
            if password:
                counted = front.password_try(request, action, page_request.person, fields.get("name", ""))

            def handled(sent: PageRequest) -> str | Move:
                with counted:
                    return handle(sent)

            return answered(await to_thread.run_sync(handled, page_request, limiter=slow))
        except ClientDisconnect:
            return Response(status_code=400)
        except Exception as error:
            return await run_in_threadpool(_failed, page_request, as_refusal(error), shown)

    return lambda front: Route(path, partial(answer, front), methods=["POST"])


def send(
    path: str,
    service: Callable[..., Any],
    shown: Shown,
    to: str,
    fixed: Mapping[str, Any] | None = None,
    *,
    password: bool = False,
) -> PageRoute:
    """Route a form to an operation of the API; it leads ``to`` an address with the values that were sent.

    ``password``: its fields are passwords, taken as they are.
    """
    operation = next(each for each in OPERATIONS if (each.service, each.fixed) == (service, fixed or {}))
    form = operation.form(path)

    def handle(request: PageRequest) -> Move:
        values = {**request.path, **operation.fixed}
        if form is not None:  # a field that was left empty is as if it were not there, where it need not be
            read = request.form.get if password else partial(form_field, request)
            texts = {name: read(name, "") for name in form.model_fields}
            sent = {key: text for key, text in texts.items() if text or form.model_fields[key].is_required()}
            values |= dict(read_record(form, sent, "The form"))
        answer = request.do(service, **values)
        return Move(to.format_map(values), answer.secret or "" if isinstance(answer, Begun) else None)

    return take(path, operation.action, handle, shown, password=password)


def _failed(request: PageRequest, error: UserError, shown: Shown | None = None) -> Response:
    """Show a mistake on the page that has the form; without one, or where it cannot be made, on its own page."""
    text, made = sentence(error), None
    if shown is not None:
        with suppress(UserError):
            made = shown(request, problem=text)
    made = made or page(request, "failed", "That did not work", problem=text)
    return HTMLResponse(made, status_of(error), headers={"cache-control": "no-store"})


def form_field(request: PageRequest, name: str, default: str = "") -> str:
    """Return a field of the form that was sent, without white space around it."""
    return request.form.get(name, default).strip()


def form_number(request: PageRequest, name: str) -> int:
    """Return a whole number of the path or of the form; raise UserError for anything else."""
    text = request.path.get(name) or request.form.get(name, "")
    try:
        return int(text)
    except ValueError:
        raise UserError(f"'{one_line(text)[:40]}' is no number", f"give one as {name}") from None


def asset_routes() -> list[BaseRoute]:
    """Route the style sheet and the script of all pages."""

    def answer(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in _ASSETS:
            return Response(status_code=404)
        headers = {"cache-control": "public, max-age=31536000, immutable"}
        return Response(_asset(name), media_type=_ASSETS[name], headers=headers)

    return [Route("/static/{version}/{name}", answer, methods=["GET"])]


@cache
def _asset(name: str) -> bytes:
    own = TEMPLATES.joinpath(name).read_text(encoding="utf-8")
    if name.endswith(".css"):
        own = frame.asset("style.css") + EXPLORER_TEMPLATES.joinpath("explorer.css").read_text("utf-8") + own
    return own.encode()


def _asset_url(name: str) -> str:
    return f"/static/{hashlib.sha256(_asset(name)).hexdigest()[:12]}/{name}"


@cache
def _templates() -> Environment:
    templates = frame.environment(TEMPLATES)
    templates.filters.update(bytes=in_bytes, ago=ago, moment=moment, signed=_interval, markdown=markdown)
    templates.globals.update(
        style_url=_asset_url("competition.css"), script_url=_asset_url("competition.js"), shell=shell
    )
    return templates


def shell(*words: str, token: str = "") -> str:
    """Quote a command for a reader's own machine, whatever this server was started from.

    Examples
    --------
    >>> shell("submit", "https://cup.example.org", "ARCHIVE")
    'longshot compete submit https://cup.example.org ARCHIVE'
    """
    return " ".join(["longshot compete", *words, *(["--token", token] if token else [])])


def moment(value: dt.datetime | str | None) -> Markup:
    """Show a time in UTC; the script adds the reader's own.

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


@cache
def markdown(text: str) -> Markup:
    """Render an organiser's Markdown: HTML in it is shown as text, pictures are their captions, links open pages alone.

    Examples
    --------
    >>> markdown("# Data\\n*<b>ten</b>*")
    Markup('<h2>Data</h2>\\n<p><em>&lt;b&gt;ten&lt;/b&gt;</em></p>\\n')
    """
    from markdown_it import MarkdownIt

    reader = MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")
    tokens = reader.parse(text)
    for token in tokens:
        if token.type.startswith("heading"):  # the page has one of its own
            token.tag = f"h{min(int(token.tag[1]) + 1, 6)}"
    return Markup(reader.renderer.render(tokens, reader.options, {}))


def _interval(score: float | None, half: float | None) -> str:
    """Return a score with half of its interval; a dash where there is none."""
    return plus_minus(score, half, "plain", 4)
