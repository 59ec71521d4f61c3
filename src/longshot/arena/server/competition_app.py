"""The competition's application: the API, the pages beside it, the guard before both, and the reaper behind them.

Whatever is not at its end has a lease, and what nobody tends any more the reaper lets go on without them. Connections
that begin a request and never end it are closed: a slow client holds nothing for long.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import h11
import sqlalchemy as sa
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, Route
from starlette.types import Scope
from uvicorn.protocols.http.h11_impl import H11Protocol

from longshot.arena import entry_rules, queue, ranking
from longshot.arena.database_tables import ENDED, now, runs, sessions, submissions
from longshot.arena.policy import Refusal
from longshot.arena.server import credentials, uploads
from longshot.arena.server.api_staff import OPERATIONS
from longshot.arena.server.endpoint import Front, api_endpoint, as_refusal, problem
from longshot.arena.server.notices import send_notices
from longshot.arena.server.operations import PREFIX, openapi_document
from longshot.arena.server.page_rendering import PageRequest, asset_routes, show
from longshot.arena.server.pages_people import PEOPLE_PAGES
from longshot.arena.server.pages_work import WORK_PAGES
from longshot.arena.server.rate_limits import Rates
from longshot.arena.server.server_context import ServerContext
from longshot.explorer import App, Guard

# seconds that the headers of a request may take; how long a connection may idle is uvicorn's to say
WAIT = 20.0
_LOOK = 2.0


class PatientProtocol(H11Protocol):
    """HTTP as uvicorn speaks it, with an end to waiting for headers."""

    wait = WAIT

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to look after the connection."""
        super().connection_made(transport)
        self._waiting_since: float | None = time.monotonic()
        self._watch: Any = self.loop.call_later(_LOOK, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        """Ignore the end of the connection: nothing is left to look after."""
        self._watch.cancel()
        super().connection_lost(exc)

    def _look(self) -> None:
        if self.transport.is_closing():
            return
        # half a request, or nothing since the start
        begun = len(self.conn._receive_buffer) > 0 or self.cycle is None
        if begun and self.conn.their_state is h11.IDLE:
            now = time.monotonic()
            self._waiting_since = self._waiting_since or now
            if now - self._waiting_since > self.wait:
                self.transport.close()
                return
        else:
            self._waiting_since = None
        self._watch = self.loop.call_later(_LOOK, self._look)


EVERY = 15.0  # seconds


class Swept(NamedTuple):
    """What one round found to do."""

    uploads: int
    runs: int
    submissions: int
    carried: int


def sweep(context: ServerContext, lease: float | None = None) -> Swept:
    """Do one round over every state that is no end."""
    lease = queue.LEASE if lease is None else lease
    credentials.write_uses(context)
    swept_uploads = uploads.sweep(context)
    with queue.alone(context.store) as connection:
        silent = (runs.c.state == "running", runs.c.seen < time.time() - lease)
        count = connection.execute(sa.select(sa.func.count()).select_from(runs).where(*silent)).scalar_one()
        queue.revive(connection, lease)
        # A submission is at its end when its runs are: none waits for what will never come.
        going = sa.select(submissions.c.id).where(submissions.c.state.in_(("queued", "running")))
        unended = sa.select(runs.c.submission).where(runs.c.state.not_in(ENDED))
        stuck = connection.execute(going.where(submissions.c.id.not_in(unended))).scalars().all()
        for number in stuck:
            queue.settle(connection, number, "its runs had ended")
        connection.execute(sessions.delete().where(sessions.c.expires < now()))
    return Swept(swept_uploads, int(count), len(stuck), _carry_over(context))


def _carry_over(context: ServerContext) -> int:
    """Enter the final for those who qualified, where it has begun and the settings say so; each job once."""
    competition = context.competition
    begun = competition.final.start is not None and any(
        phase.name == competition.final.name and phase.state == "open"
        for phase in entry_rules.timetable(competition)
    )
    if not (competition.server.carry_over and begun and competition.qualifying):
        return 0
    going = (
        submissions.c.phase == competition.qualifying.name,
        submissions.c.state.in_(("queued", "running")),
    )
    if context.store.rows(sa.select(submissions.c.id).where(*going).limit(1)):
        return 0  # the last feedback submissions may still change who qualifies
    return sum(entry.final is not None for entry in ranking.enter_final(competition, context.store))


class Reaper(threading.Thread):
    """Sweeps every few seconds until it is stopped.

    Parameters
    ----------
    context : ServerContext
        The competition.
    """

    def __init__(self, context: ServerContext, every: float = EVERY) -> None:
        super().__init__(name="longshot-reaper", daemon=True)
        self.context, self.every, self.end = context, every, threading.Event()

    def run(self) -> None:
        """Run sweeps until the end. After a time without the database, or at the start, leases begin anew."""
        away = True
        while not self.end.wait(self.every):
            try:
                if away:
                    with queue.alone(self.context.store) as connection:
                        queue.grace(connection)
                    away = False
                sweep(self.context)
                send_notices(self.context)
            except Exception as error:  # the database restarts: the next round may get through
                away = True
                if not isinstance(error, sa.exc.OperationalError):
                    traceback.print_exc()

    def stop(self) -> None:
        """End after the round that is under way."""
        self.end.set()
        self.join(10.0)


def page_routes(front: Front) -> list[BaseRoute]:
    """List every page and form there is."""
    unknown = show("/", "competition.read", nothing)(front)
    return [
        *asset_routes(),
        *(route(front) for route in (*PEOPLE_PAGES, *WORK_PAGES)),
        Elsewhere("/{path:path}", unknown.endpoint, methods=["GET"]),
    ]


class Elsewhere(Route):
    """Any address but those of the API, which answers for itself."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Tell whether a request is for a reader."""
        return (Match.NONE, {}) if scope["path"].startswith(f"{PREFIX}/") else super().matches(scope)


def nothing(request: PageRequest, problem: str = "") -> str:
    """Render the page of an address that has none."""
    raise Refusal(404, "There is nothing at this address.")


class BuiltServer(NamedTuple):
    """The application behind its guard, what it shows, and how to stop what belongs to it."""

    app: App
    context: ServerContext
    stop: Callable[[], None]


def build_server(
    folder: Path,
    hosts: set[str],
    *,
    rates: Rates | None = None,
    any_address: bool = False,
    sweep_every: float = EVERY,
) -> BuiltServer:
    """Build the application of the competition in ``folder``."""
    context = ServerContext(folder)
    front = Front(context, rates)
    app = Starlette(
        exception_handlers={404: _absent, 405: _absent, 500: lambda _, error: problem(as_refusal(error))}
    )
    app.routes.extend([*api_routes(front), *page_routes(front)])
    reaper = Reaper(context, sweep_every)
    reaper.start()

    def stop() -> None:
        reaper.stop()
        context.close()

    return BuiltServer(Guard(app, hosts, any_address=any_address, writes=True), context, stop)


def api_routes(front: Front) -> list[BaseRoute]:
    """List the API's routes, one for every operation, and their description."""
    routes: list[BaseRoute] = [
        Route(PREFIX + operation.path, api_endpoint(front, operation), methods=[operation.method])
        for operation in OPERATIONS
    ]

    def description(_: Request) -> Response:
        text = json.dumps(openapi_document(OPERATIONS, front.context.competition.title))
        return Response(text, media_type="application/json")

    return [*routes, Route(f"{PREFIX}/openapi.json", description, methods=["GET"])]


def _absent(request: Request, error: Exception) -> Response:
    status = getattr(error, "status_code", 404)
    if status == 405:
        return problem(Refusal(405, f"{request.method} is not for this address."))
    return problem(Refusal(404, "There is nothing at this address."))
