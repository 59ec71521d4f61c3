"""Pages and forms: the same person, policy and sentences as the API, answered as HTML."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple
from urllib.parse import parse_qsl

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from longshot.arena.policy import Person
from longshot.arena.server.endpoint import Front, cookie, read_body, set_cookie
from longshot.arena.server.multipart import SentFile, SentForm, is_multipart, parse_form
from longshot.arena.services.office import Office

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
    def office(self) -> Office:
        """The competition."""
        return self.front.office


class Move(NamedTuple):
    """Where a form leads to; ``session`` begins (a secret) or ends (empty) one."""

    to: str
    session: str | None = None


def begun(front: Front, request: Request) -> PageRequest:
    """What is known of a request before anybody is asked who sends it."""
    here = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    site = str(request.base_url).rstrip("/")  # the guard has looked at the name in it
    return PageRequest(front, Person(), "", here, site=site)


def with_person(page_request: PageRequest, request: Request) -> PageRequest:
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


async def read_form(request: Request, file: int) -> SentForm:
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


def answered(made: str | Move) -> Response:
    """A page, or where a form leads to, as HTTP has it."""
    headers = {"cache-control": "no-store"}
    if isinstance(made, str):
        return HTMLResponse(made.encode("utf-8", "backslashreplace"), headers=headers)
    response = RedirectResponse(made.to, 303, headers=headers)
    if made.session is not None:
        set_cookie(response, made.session or None)
    return response
