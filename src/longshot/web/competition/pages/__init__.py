"""The pages of a competition, on top of its services."""

from __future__ import annotations

from starlette.routing import BaseRoute

from longshot.web.competition.endpoint import Front
from longshot.web.competition.pages import organising, people, submitting, teams, visiting
from longshot.web.competition.pages.rendering import asset_routes


def page_routes(front: Front) -> list[BaseRoute]:
    """Every page and form there is."""
    rooms = (visiting, people, teams, submitting, organising)
    return [*asset_routes(), *(route for room in rooms for route in room.routes(front))]
