"""What everybody may see: the competition, its rules and its leaderboard."""

from __future__ import annotations

from typing import NamedTuple

from starlette.routing import BaseRoute

from longshot.arena import entry_rules
from longshot.arena.server.endpoint import Front
from longshot.arena.server.info import competition_info
from longshot.arena.server.page_endpoint import PageRequest
from longshot.arena.server.pages.rendering import page, show
from longshot.arena.services import boards, organising, submissions
from longshot.base import count

WIDTH, HEIGHT = 560, 180  # of the drawing of scores
LINES = 8  # teams in it, the best first


def routes(front: Front) -> list[BaseRoute]:
    """Pages without a form."""
    return [
        show(front, "/", "competition.read", home),
        show(front, "/terms", "competition.read", terms),
        show(front, "/rules", "competition.read", rules),
        show(front, "/board", "board.read", board, steady=True),
    ]


def home(request: PageRequest, problem: str = "") -> str:
    """Phases, what may be sent, announcements, and how busy the workers are."""
    office, person = request.office, request.person
    info = competition_info(office)
    member = person.team is not None
    return page(
        request,
        "home",
        info.title,
        problem=problem,
        counts=[count(info.phases, "phase"), f"leagues: {', '.join(info.leagues)}"],
        info=info,
        limits={phase.name: phase.limits for phase in office.competition.phases},
        announcements=organising.list_announcements(office, person),
        queue=boards.queue_state(office, person),
        notes=entry_rules.undated(office.competition) if person.role == "organiser" else [],
        allowances=submissions.allowances(office, person) if member else [],
    )


def terms(request: PageRequest, problem: str = "") -> str:
    """The terms that whoever registers agrees to."""
    return page(request, "text", "Terms", text=competition_info(request.office).terms)


def rules(request: PageRequest, problem: str = "") -> str:
    """The rules of the competition."""
    return page(request, "text", "Rules", text=competition_info(request.office).rules)


def board(request: PageRequest, problem: str = "") -> str:
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
        chart=None if table.hidden else _chart(steps),
        width=WIDTH,
        height=HEIGHT,
    )


class Line(NamedTuple):
    """A team's scores in a drawing of ``WIDTH`` × ``HEIGHT``."""

    team: str
    points: list[tuple[float, float]]
    last: float  # its last score


class Chart(NamedTuple):
    """Scores in their order, a line per team."""

    lines: list[Line]
    low: float  # score at the bottom
    high: float


def _chart(steps: list[boards.Progress]) -> Chart | None:
    """Every team's scores in their order; None where no team has two."""
    by_team: dict[str, list[float]] = {}
    for step in steps:
        by_team.setdefault(step.team, []).append(step.score)
    longest = max(map(len, by_team.values()), default=0)
    if longest < 2:
        return None
    scores = [score for line in by_team.values() for score in line]
    low, high = min(scores), max(scores)
    if low == high:  # a line in the middle
        low, high = low - 0.01, high + 0.01
    height = high - low
    lines = [
        Line(
            team,
            [
                (round(WIDTH * number / (longest - 1), 1), round(HEIGHT * (high - score) / height, 1))
                for number, score in enumerate(line)
            ],
            line[-1],
        )
        for team, line in sorted(by_team.items(), key=lambda item: -item[1][-1])[:LINES]
    ]
    return Chart(lines, low, high)
