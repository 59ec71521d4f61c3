"""The pages of a competition, on top of its services."""

from __future__ import annotations

from starlette.routing import BaseRoute, Match, Route
from starlette.types import Scope

from longshot.arena.policy import Refusal
from longshot.arena.server.declare import PREFIX
from longshot.arena.server.endpoint import Front
from longshot.arena.server.page_endpoint import PageRequest
from longshot.arena.server.pages import organising, people, submitting, teams, visiting
from longshot.arena.server.pages.rendering import asset_routes, show


def page_routes(front: Front) -> list[BaseRoute]:
    """Every page and form there is."""
    rooms = (visiting, people, teams, submitting, organising)
    unknown = show(front, "/", "competition.read", nothing)
    return [
        *asset_routes(),
        *(route for room in rooms for route in room.routes(front)),
        Elsewhere("/{path:path}", unknown.endpoint, methods=["GET"]),
    ]


class Elsewhere(Route):
    """Any address but those of the API, which answers for itself."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Whether this is for a reader."""
        return (Match.NONE, {}) if scope["path"].startswith(f"{PREFIX}/") else super().matches(scope)


def nothing(request: PageRequest, problem: str = "") -> str:
    """The page of an address that has none."""
    raise Refusal(404, "There is nothing at this address.")
