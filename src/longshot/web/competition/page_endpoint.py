"""Pages and forms: the same person, policy and sentences as the API, answered as HTML."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import NamedTuple
from urllib.parse import parse_qsl, quote

from anyio import to_thread
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from longshot.competition.policy import Person, permit
from longshot.competition.services.office import Office
from longshot.core.errors import UserError
from longshot.web.competition.endpoint import Front, cookie, read_body, set_cookie
from longshot.web.competition.multipart import SentFile, SentForm, is_multipart, parse_form
from longshot.web.competition.problems import as_refusal, sentence, status_of

FORM = 128 << 10  # bytes of a form


@dataclass(frozen=True)
class PageRequest:
    """What a page is made from."""

    front: Front
    person: Person
    csrf: str  # goes into every form as the field ``csrf``, and into scripts' header X-CSRF-Token
    here: str  # the page's own address
    address: str  # where the request comes from
    path: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    form: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, SentFile] = field(default_factory=dict)
    site: str = ""  # the server's address as the reader has it, without a slash at its end

    @property
    def office(self) -> Office:
        """The competition."""
        return self.front.office


class Html(NamedTuple):
    """A page that is made; ``session`` begins (a secret) or ends (empty) one."""

    text: str
    status: int = 200
    session: str | None = None


class Move(NamedTuple):
    """Where a form leads to."""

    to: str
    session: str | None = None


PageMaker = Callable[[PageRequest], Html | Move]
Failed = Callable[[PageRequest, UserError, str], str]  # request, error, its sentence → page


def page_route(
    front: Front, path: str, action: str, make: PageMaker, failed: Failed, *, steady: bool = False
) -> Route:
    """A page that shows something and changes nothing.

    ``steady``: it follows from submissions, people and settings alone, and a script that brings its tag hears whether
    it is still the same without its being made.
    """

    def answer(request: Request) -> Response:
        page_request = _request(front, request)
        try:
            page_request = _with_person(page_request, request)
            permit(page_request.person, action)
            if not steady:
                return _answered(make(page_request))
            tag = f'"{front.office.tag(page_request.person, page_request.here, page_request.csrf)}"'
            if request.headers.get("if-none-match") == tag:
                return Response(status_code=304, headers={"etag": tag, "cache-control": "no-store"})
            if page_request.person.via or page_request.query:
                made = make(page_request)
            else:  # the same for every visitor
                made = front.office.memory.kept(page_request.here, tag, lambda: make(page_request))
            response = _answered(made)
            response.headers["etag"] = tag
            return response
        except Exception as error:
            refusal = as_refusal(error)
            if status_of(refusal) == 401 and not page_request.person.via:
                return RedirectResponse(f"/login?next={quote(page_request.here, safe='/')}", 303)
            return _failed(page_request, refusal, failed)

    async def endpoint(request: Request) -> Response:
        return await run_in_threadpool(answer, request)

    return Route(path, endpoint, methods=["GET"])


def form_route(
    front: Front,
    path: str,
    action: str,
    handle: PageMaker,
    failed: Failed,
    *,
    password: bool = False,
    file: int = 0,
) -> Route:
    """What a form is sent to. ``password``: it is a try with one, which are counted; ``file``: its bytes at most."""

    async def endpoint(request: Request) -> Response:
        page_request = _request(front, request)
        try:
            page_request = await run_in_threadpool(_with_person, page_request, request)
            permit(page_request.person, action)
            fields, files = await _form(request, file)
            front.check_csrf(request, page_request.person, fields.pop("csrf", None))
            page_request = replace(page_request, form=fields, files=files)
            slow = front.slow if password or file else None
            counted: AbstractContextManager[None] = nullcontext()
            if password:
                counted = front.password_try(request, action, page_request.person, fields.get("name", ""))

            def answer(sent: PageRequest) -> Html | Move:
                with counted:
                    return handle(sent)

            return _answered(await to_thread.run_sync(answer, page_request, limiter=slow))
        except ClientDisconnect:
            return Response(status_code=400)
        except Exception as error:
            return await run_in_threadpool(_failed, page_request, as_refusal(error), failed)

    return Route(path, endpoint, methods=["POST"])


def _request(front: Front, request: Request) -> PageRequest:
    """What is known of a request before anybody is asked who sends it."""
    here = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    site = str(request.base_url).rstrip("/")  # the guard has looked at the name in it
    return PageRequest(front, Person(), "", here, request.client.host if request.client else "", site=site)


def _with_person(page_request: PageRequest, request: Request) -> PageRequest:
    """The same with who asks; the database is asked for that."""
    front = page_request.front
    person = front.person(request)
    secret = cookie(request) if person.via == "session" else None
    return replace(
        page_request,
        person=person,
        csrf=front.office.csrf(secret) if secret else "",
        path=dict(request.path_params),
        query=dict(request.query_params),
    )


def _failed(page_request: PageRequest, refusal: UserError, failed: Failed) -> Response:
    page = failed(page_request, refusal, sentence(refusal))
    return HTMLResponse(page, status_of(refusal), headers={"cache-control": "no-store"})


async def _form(request: Request, file: int) -> SentForm:
    """What a form brought; one with a file may be larger, and one that is too large is read to its end.

    A browser that is answered before it has sent everything shows a broken connection, and not the answer.
    """
    kind = request.headers.get("content-type", "")
    if file and is_multipart(kind):
        return await run_in_threadpool(
            parse_form, kind, await read_body(request, FORM + file, to_its_end=True)
        )
    text = (await read_body(request, FORM)).decode("utf-8", "replace")
    return SentForm(dict(parse_qsl(text, keep_blank_values=True, max_num_fields=200)), {})


def _answered(made: Html | Move) -> Response:
    headers = {"cache-control": "no-store"}
    response: Response
    if isinstance(made, Move):
        response = RedirectResponse(made.to, 303, headers=headers)
    else:
        response = HTMLResponse(made.text.encode("utf-8", "backslashreplace"), made.status, headers=headers)
    if made.session is not None:
        set_cookie(response, made.session or None)
    return response
