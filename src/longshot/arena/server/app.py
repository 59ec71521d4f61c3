"""The competition's application: the API, the pages beside it, and the guard before both."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from longshot.arena.policy import Refusal
from longshot.arena.server import api_organiser, api_public, api_submissions, api_work
from longshot.arena.server.buckets import Rates
from longshot.arena.server.declare import PREFIX, Operation
from longshot.arena.server.endpoint import Front, api_endpoint
from longshot.arena.server.openapi import describe
from longshot.arena.server.pages import page_routes
from longshot.arena.server.problems import as_refusal, problem
from longshot.arena.services.office import Office
from longshot.arena.services.reaper import EVERY, Reaper
from longshot.explorer import App, Guard

OPERATIONS: list[Operation] = [
    *api_public.OPERATIONS,
    *api_submissions.OPERATIONS,
    *api_work.OPERATIONS,
    *api_organiser.OPERATIONS,
]


class BuiltServer(NamedTuple):
    """The application behind its guard, what it shows, and how to stop what belongs to it."""

    app: App
    office: Office
    stop: Callable[[], None]


def build_server(
    folder: Path,
    hosts: set[str],
    *,
    rates: Rates | None = None,
    any_address: bool = False,
    sweep_every: float = EVERY,
) -> BuiltServer:
    """The application of the competition in ``folder``."""
    office = Office(folder)
    front = Front(office, rates)
    app = Starlette(exception_handlers={404: _absent, 405: _absent, 500: _broken})
    app.routes.extend([*api_routes(front), *page_routes(front)])
    reaper = Reaper(office, sweep_every)
    reaper.start()

    def stop() -> None:
        reaper.stop()
        office.close()

    return BuiltServer(Guard(app, hosts, any_address=any_address, writes=True), office, stop)


def api_routes(front: Front) -> list[BaseRoute]:
    """The API's routes, one for every operation, and their description."""
    routes: list[BaseRoute] = [
        Route(PREFIX + operation.path, api_endpoint(front, operation), methods=[operation.method])
        for operation in OPERATIONS
    ]

    def description(_: Request) -> Response:
        text = json.dumps(describe(OPERATIONS, front.office.competition.title))
        return Response(text, media_type="application/json")

    return [*routes, Route(f"{PREFIX}/openapi.json", description, methods=["GET"])]


def _absent(request: Request, error: Exception) -> Response:
    status = getattr(error, "status_code", 404)
    if status == 405:
        return problem(Refusal(405, f"{request.method} is not for this address."))
    return problem(Refusal(404, "There is nothing at this address."))


def _broken(request: Request, error: Exception) -> Response:
    return problem(as_refusal(error))
