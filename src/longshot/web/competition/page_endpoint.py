"""Pages and forms: the same person, policy and sentences as the API, answered as HTML."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple
from urllib.parse import parse_qsl, quote

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from longshot.competition.policy import Person, permit
from longshot.competition.services.office import Office
from longshot.core.errors import UserError
from longshot.web.competition.endpoint import Front, cookie, read_body, set_cookie
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


def page_route(front: Front, path: str, action: str, make: PageMaker, failed: Failed) -> Route:
    """A page that shows something and changes nothing."""
    return Route(path, _endpoint(front, action, make, failed), methods=["GET"])


def form_route(
    front: Front, path: str, action: str, handle: PageMaker, failed: Failed, *, password: bool = False
) -> Route:
    """What a form is sent to. ``password``: it is a try with one, which are counted."""
    return Route(path, _endpoint(front, action, handle, failed, password=password), methods=["POST"])


def _endpoint(
    front: Front, action: str, make: PageMaker, failed: Failed, *, password: bool = False
) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        here = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        address = request.client.host if request.client else ""
        site = str(request.base_url).rstrip("/")  # the guard has looked at the name in it
        page_request = PageRequest(front, Person(), "", here, address, site=site)
        try:
            person = await front.person(request)
            secret = cookie(request) if person.via == "session" else None
            csrf = front.office.csrf(secret) if secret else ""
            query = dict(request.query_params)
            page_request = replace(
                page_request, person=person, csrf=csrf, path=dict(request.path_params), query=query
            )
            permit(person, action)
            if request.method == "POST":
                data = await read_body(request, FORM)
                text = data.decode("utf-8", "replace")
                form = dict(parse_qsl(text, keep_blank_values=True, max_num_fields=200))
                front.check_csrf(request, person, form.pop("csrf", None))
                if password:
                    front.take_password(request, person.name or form.get("name", ""))
                page_request = replace(page_request, form=form)
            return _answered(await run_in_threadpool(make, page_request))
        except ClientDisconnect:
            return Response(status_code=400)
        except Exception as error:
            refusal = as_refusal(error)
            status = status_of(refusal)
            if status == 401 and request.method == "GET" and not page_request.person.via:
                return RedirectResponse(f"/login?next={quote(here, safe='/')}", 303)
            page = await run_in_threadpool(failed, page_request, refusal, sentence(refusal))
            return HTMLResponse(page, status, headers={"cache-control": "no-store"})

    return endpoint


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
