"""From a request to a call and back: who asks, how often, whether they may, what they sent; an answer or a sentence."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import re
import sys
import time
import traceback
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from typing import Any, NamedTuple

import sqlalchemy as sa
from anyio import CapacityLimiter, to_thread
from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, Response

from longshot.arena.policy import VISITOR, Person, Refusal, permit
from longshot.arena.server import credentials
from longshot.arena.server.operations import PROBLEM, Begun, FileAnswer, Operation, Written, plain
from longshot.arena.server.rate_limits import Attempt, Buckets, Logins, Rates, network
from longshot.arena.server.server_context import ServerContext
from longshot.base import UserError, read_record


class WebFace:
    """Parameters as people see them on a page: by their names."""

    def parameter(self, name: str, value: str | None) -> str:
        words = name.replace("_", " ")
        return words if value is None else f"{words} {value}"

    def call(self, name: str, arguments: list[str], settings: dict[str, str]) -> str:
        words = ["longshot", *name.replace("competition.", "compete ").replace("_", "-").split(), *arguments]
        return f"'{' '.join(words)}'"


FACE = WebFace()


def sentence(error: UserError) -> str:
    """Word a mistake as the server does."""
    return error.render(FACE)


def status_of(error: UserError) -> int:
    """Return HTTP's number for a mistake: 422 for what is wrong with what was sent."""
    return error.status if isinstance(error, Refusal) else 422


def as_refusal(error: Exception) -> UserError:
    """Turn any exception into one that can be told; what nobody foresaw is printed for the organiser."""
    if isinstance(error, UserError):
        return error
    if isinstance(error, sa.exc.OperationalError | sa.exc.InterfaceError | sa.exc.TimeoutError):
        print(f"the database: {error}", file=sys.stderr)
        return Refusal(503, "The competition's database does not answer", "try again in a moment", retry=2.0)
    if isinstance(error, OSError) and error.errno == 28:
        return Refusal(503, "The server's disk is full; nothing is lost", "try again later", retry=60.0)
    print("".join(traceback.format_exception(error)), file=sys.stderr)
    return Refusal(500, f"The server made a mistake ({type(error).__name__}); it goes on.")


def problem(error: UserError) -> Response:
    """Answer a request that was not carried out."""
    status = status_of(error)
    body: dict[str, Any] = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": sentence(error),
        "fact": error.fact,
        "remedy": error.remedy,
    }
    headers = {"cache-control": "no-store"}
    if isinstance(error, Refusal) and error.retry:
        headers["retry-after"] = f"{max(1, round(error.retry))}"
    if status == 401:
        headers["www-authenticate"] = 'Bearer realm="longshot"'
    text = json.dumps(body, ensure_ascii=False)
    return Response(text.encode("utf-8", "backslashreplace"), status, headers, PROBLEM)


COOKIE = "__Host-longshot"
JSON = 256 << 10  # bytes of a JSON body
# bytes of a form that are read though they are too many, so that a browser shows the answer
DRAINED = 256 << 20
PAUSE = 20.0  # seconds between two pieces of a body
SLOWEST = 20_000  # bytes a second that a body must come with, after the first pause
SLOW = 4  # requests at a time that take longer than reading
CLOCK = 600.0  # seconds that a client's clock may differ
PARTS = 200  # of one form
_BOUNDARY = re.compile(r'boundary=(?:"([^"]{1,70})"|([^\s;,]{1,70}))', re.IGNORECASE)
_DISPOSITION = re.compile(rb"^content-disposition:\s*form-data\s*;(.*)$", re.IGNORECASE | re.MULTILINE)
_PARAMETER = re.compile(rb'\b(name|filename)="([^"]*)"')
_UNSAFE = ("POST", "PUT", "PATCH", "DELETE")


class Front:
    """What all endpoints share.

    Parameters
    ----------
    context : ServerContext
        The competition.
    rates : Rates
        How often anybody may ask.
    """

    def __init__(self, context: ServerContext, rates: Rates | None = None) -> None:
        self.rates = rates or Rates()
        self.context = context
        self.slow = CapacityLimiter(SLOW)
        self.addresses = Buckets("requests from your address", self.rates.clock)
        self.accounts = Buckets("requests of yours", self.rates.clock)
        self.logins = Logins(lambda: context.competition.server, self.rates.logins, self.rates.clock)

    def person(self, request: Request) -> Person:
        """Identify who asks: a visitor where nothing is brought; raise Refusal where a token is wrong."""
        self.addresses.take(address_of(request), self.rates.address)
        bearer = request.headers.get("authorization", "")
        secret = cookie(request)
        if bearer:
            scheme, _, token = bearer.partition(" ")
            if scheme.lower() != "bearer" or not token.strip():
                raise Refusal(401, "The authorisation is no 'Bearer TOKEN'.")
            person = credentials.by_token(self.context, token.strip())
        elif secret:
            person = credentials.by_session(self.context, secret)
        else:
            person = VISITOR
        if person.via:
            self.accounts.take(f"{person.role} {person.account} {person.token}", self.rates.account)
        return person

    def check_csrf(self, request: Request, person: Person, brought: str | None) -> None:
        """Raise Refusal where a session changes something without the token that its own pages have."""
        if person.via != "session" or request.method not in _UNSAFE:
            return
        expected = self.context.csrf(cookie(request) or "")
        if brought is None or not hmac.compare_digest(brought.encode(), expected.encode()):
            raise Refusal(403, "The form is not one of your session", "load the page again")

    def password_try(self, request: Request, action: str, person: Person, name: str) -> Attempt:
        """Count a try with a password: for the account that a log-in names, whoever asks; a new one has none yet."""
        account = {"session.begin": name, "account.register": None}.get(action, person.name)
        return self.logins.begin(address_of(request), account)


def address_of(request: Request) -> str:
    """Return where a request comes from, as limits count it."""
    return network(request.client.host if request.client else "")


def api_endpoint(front: Front, operation: Operation) -> Callable[[Request], Awaitable[Response]]:
    """Make the endpoint of an operation."""

    async def endpoint(request: Request) -> Response:
        try:
            return await _answer(front, operation, request)
        except ClientDisconnect:
            return Response(status_code=400)
        except Exception as error:
            return problem(as_refusal(error))

    return endpoint


async def _answer(front: Front, operation: Operation, request: Request) -> Response:
    """Answer in a thread whatever asks the database or takes long; where no body comes, in one go."""
    admitted, body, data = None, None, None
    counted: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
    if operation.raw or operation.body is not None:
        admitted = await run_in_threadpool(_admit, front, operation, request)
        if operation.raw:
            data = await read_body(request, operation.raw)
        else:
            body = await _json(request, operation)
        if operation.costly:
            name = str(getattr(body, "name", ""))
            counted = front.password_try(request, operation.action, admitted[0], name)

    def work() -> Response:
        person, query = admitted or _admit(front, operation, request)
        tag = ""
        if operation.steady:
            tag = f'"{front.context.tag(person, request.url.path, request.url.query)}"'
            if request.headers.get("if-none-match") == tag:
                return Response(status_code=304, headers={"etag": tag, "cache-control": "no-store"})
        path = dict(request.path_params)
        if any(isinstance(value, int) and value >= 2**31 for value in path.values()):
            raise Refusal(404, "There is nothing of that number here.")
        sent = {**path, **dict(query or ()), **dict(body or ()), **operation.fixed}
        if data is not None:
            sent["data"] = data
        with counted:
            answer = operation.service(front.context, person, **sent)
        response = _response(operation, answer)
        if tag:
            response.headers["etag"] = tag
        return response

    slow = operation.heavy or operation.costly
    return await to_thread.run_sync(work, limiter=front.slow if slow else None)


def _admit(front: Front, operation: Operation, request: Request) -> tuple[Person, Any]:
    """Check who asks and whether they may, and read the query."""
    person = front.person(request)
    permit(person, operation.action)
    front.check_csrf(request, person, request.headers.get("x-csrf-token"))
    _check_clock(request)
    if operation.query is None:
        return person, None
    return person, read_record(operation.query, dict(request.query_params), "The request")


def _response(operation: Operation, answer: Any) -> Response:
    if isinstance(answer, Path):
        answer = FileAnswer(answer)
    if isinstance(answer, FileAnswer):
        done = BackgroundTask(answer.path.unlink, missing_ok=True) if answer.temporary else None
        lasting = "private, max-age=31536000, immutable" if answer.lasting else "no-store"
        headers = {"cache-control": lasting}
        return FileResponse(
            answer.path, headers=headers, media_type=answer.kind, filename=answer.name, background=done
        )
    begun = answer if isinstance(answer, Begun) else None
    if isinstance(answer, Written):
        text = answer.text
    else:
        content = plain(begun.answer if begun else answer)
        text = json.dumps({} if content is None and operation.answer is None else content, allow_nan=False)
    response = Response(text, media_type="application/json", headers={"cache-control": "no-store"})
    if begun is not None:
        set_cookie(response, begun.secret)
    return response


def set_cookie(response: Response, secret: str | None) -> None:
    """Give the browser its session, or take it away."""
    response.set_cookie(
        COOKIE,
        secret or "",
        max_age=None if secret else 0,
        path="/",
        secure=True,
        httponly=True,
        samesite="lax",
    )


def cookie(request: Request) -> str | None:
    """Return the session's secret that a browser brought."""
    jar: SimpleCookie = SimpleCookie()
    for value in request.headers.getlist("cookie"):
        with contextlib.suppress(CookieError):
            jar.load(value)
    return jar[COOKIE].value if COOKIE in jar else None


async def read_body(request: Request, most: int, *, to_its_end: bool = False) -> bytes:
    """Read a body of at most ``most`` bytes, counted while it comes; a client that is too slow is not waited for.

    ``to_its_end``: of one that is larger, up to ``DRAINED`` bytes are read and forgotten before it is refused.
    """
    announced = request.headers.get("content-length", "")
    longest = DRAINED if to_its_end else most
    if announced.isdecimal() and int(announced) > longest:
        raise Refusal(413, f"The body has {int(announced):,} bytes, at most {most:,} are allowed.")
    pieces: list[bytes] = []
    size, begun = 0, time.monotonic()
    stream = request.stream().__aiter__()
    while True:
        try:
            piece = await asyncio.wait_for(anext(stream), PAUSE)
        except StopAsyncIteration:
            if size > most:
                raise Refusal(413, f"The body has {size:,} bytes, at most {most:,} are allowed.") from None
            return b"".join(pieces)
        except TimeoutError:
            raise Refusal(408, f"Nothing came for {PAUSE:.0f} seconds", "send it again") from None
        size += len(piece)
        if size > longest:
            raise Refusal(413, f"The body has more than the {most:,} bytes that are allowed.")
        if time.monotonic() - begun > PAUSE + size / SLOWEST:
            raise Refusal(408, f"The body came at less than {SLOWEST:,} bytes a second", "send it again")
        if size <= most:
            pieces.append(piece)
        else:
            pieces.clear()


async def _json(request: Request, operation: Operation) -> Any:
    assert operation.body is not None
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Refusal(415, f"The body must be application/json, and it says '{kind[:60]}'.")
    data = await read_body(request, JSON)
    try:
        values = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise UserError("The body is no JSON that can be read.") from error
    return read_record(operation.body, values, "The request")


def _check_clock(request: Request) -> None:
    """Raise Refusal where a client's own time is far off: deadlines would mean two things."""
    text = request.headers.get("longshot-time")
    if text is None:
        return
    try:
        theirs = float(text)
    except ValueError:
        raise UserError("The header Longshot-Time holds no number of seconds.") from None
    ours = time.time()
    if not abs(theirs - ours) <= CLOCK:
        raise Refusal(
            409,
            f"Your clock differs from the server's by {min(abs(theirs - ours), 9e9) / 60:,.0f} minutes, and "
            f"{CLOCK / 60:.0f} are allowed; the server has {time.strftime('%Y-%m-%d %H:%M', time.gmtime(ours))} UTC",
            "set your clock, so that deadlines mean the same on both sides",
        )


class SentFile(NamedTuple):
    """A file of a form."""

    name: str
    data: bytes


class SentForm(NamedTuple):
    """A form: its fields as texts, and its files."""

    fields: dict[str, str]
    files: dict[str, SentFile]


def parse_form(content_type: str, body: bytes) -> SentForm:
    """Parse the fields and files of a form; raise UserError where it is none.

    Examples
    --------
    >>> body = b'--x\\r\\nContent-Disposition: form-data; name="league"\\r\\n\\r\\nfree-style\\r\\n--x--\\r\\n'
    >>> parse_form("multipart/form-data; boundary=x", body).fields
    {'league': 'free-style'}
    """
    match = _BOUNDARY.search(content_type)
    if match is None:
        raise UserError("The form has no boundary between its parts.")
    delimiter = b"\r\n--" + (match[1] or match[2]).encode("latin-1", "replace")
    # A preamble, the parts, and what follows the last delimiter: "--".
    _, *parts = (b"\r\n" + body).split(delimiter, PARTS + 1)
    if not parts or not parts[-1].startswith(b"--"):
        raise UserError(f"The form does not end, or has more than {PARTS} parts.")
    form = SentForm({}, {})
    for part in parts[:-1]:
        head, blank, content = part.partition(b"\r\n\r\n")
        disposition = _DISPOSITION.search(head.replace(b"\r\n", b"\n"))
        if not blank or disposition is None:
            raise UserError("A part of the form does not say which field it is.")
        named = {key: value.decode("utf-8", "replace") for key, value in _PARAMETER.findall(disposition[1])}
        if b"filename" in named:
            form.files[named.get(b"name", "")] = SentFile(named[b"filename"], content)
        else:
            form.fields[named.get(b"name", "")] = content.decode("utf-8", "replace")
    return form
