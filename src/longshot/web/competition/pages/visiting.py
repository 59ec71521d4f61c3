"""What everybody may see: the competition, its rules and its leaderboard."""

from __future__ import annotations

from typing import Any

from starlette.routing import BaseRoute

from longshot.competition.services import boards, organising, submissions
from longshot.reports import charts
from longshot.web.competition.api_public import competition_info
from longshot.web.competition.endpoint import Front
from longshot.web.competition.page_endpoint import Html, PageRequest
from longshot.web.competition.pages.rendering import page, show


def routes(front: Front) -> list[BaseRoute]:
    """Pages without a form."""
    return [
        show(front, "/", "competition.read", home),
        show(front, "/terms", "competition.read", terms),
        show(front, "/rules", "competition.read", rules),
        show(front, "/board", "board.read", board),
    ]


def home(request: PageRequest, problem: str = "") -> Html:
    """Phases, what may be sent, announcements, and how busy the workers are."""
    office, person = request.office, request.person
    info = competition_info(office)
    member = person.team is not None
    return page(
        request,
        "home",
        info.title,
        problem=problem,
        counts=[f"{len(info.phases)} phases", f"leagues: {', '.join(info.leagues)}"],
        info=info,
        announcements=organising.list_announcements(office, person),
        queue=boards.queue_state(office, person),
        allowances=submissions.allowances(office, person) if member else [],
    )


def terms(request: PageRequest, problem: str = "") -> Html:
    """The terms that whoever registers agrees to."""
    return page(request, "text", "Terms", text=competition_info(request.office).terms)


def rules(request: PageRequest, problem: str = "") -> Html:
    """The rules of the competition."""
    return page(request, "text", "Rules", text=competition_info(request.office).rules)


def board(request: PageRequest, problem: str = "") -> Html:
    """The leaderboard of a phase and league, and how the teams' scores went."""
    office, person = request.office, request.person
    info = competition_info(office)
    choice = {name: request.query.get(name) or None for name in ("phase", "league", "by")}
    table = boards.board(office, person, **choice)
    steps = boards.progress(office, person, phase=table.phase, league=table.league)
    return page(
        request,
        "board",
        "Leaderboard",
        counts=[
            f"phase {table.phase}",
            f"league {table.league}",
            f"ranked by the {table.ranks_by} submission",
        ],
        info=info,
        board=table,
        chart=_chart(steps) if not table.hidden else "",
    )


def _chart(steps: list[boards.Progress]) -> str:
    """Every team's scores in their order, as a drawing; empty where there is nothing to compare."""
    by_team: dict[str, list[float]] = {}
    for step in steps:
        by_team.setdefault(step.team, []).append(step.score)
    if not any(len(scores) > 1 for scores in by_team.values()):
        return ""
    drawn: list[Any] = [
        charts.Curve(index, team, list(range(1, len(scores) + 1)), scores)
        for index, (team, scores) in enumerate(sorted(by_team.items()))
    ]
    return charts.lines(drawn, xlabel="submission of the team", ylabel="score")
