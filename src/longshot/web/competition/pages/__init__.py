"""The pages of a competition, on top of its services."""

from __future__ import annotations

from starlette.routing import BaseRoute

from longshot.web.competition.endpoint import Front


def page_routes(front: Front) -> list[BaseRoute]:
    """Every page and form there is."""
    return []
