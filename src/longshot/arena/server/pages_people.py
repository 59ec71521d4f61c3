"""Pages for everybody, and of a person: the competition, its board, registering, signing in, tokens, the team."""

from __future__ import annotations

from typing import NamedTuple

from longshot.arena import entry_rules
from longshot.arena.policy import OF_ROLE, not_there
from longshot.arena.server import boards, credentials, organising, people, submissions
from longshot.arena.server.boards import competition_info
from longshot.arena.server.page_rendering import (
    Move,
    PageRequest,
    form_field,
    form_number,
    page,
    send,
    show,
    take,
)
from longshot.base import count


def registering(request: PageRequest, problem: str = "") -> str:
    """Show the form for a new account; an invitation brings its code in the address."""
    code = request.form.get("code") or request.query.get("code", "")
    info = request.do(competition_info)
    return page(
        request,
        "register",
        "Register",
        problem=problem,
        info=info,
        code=code,
        longest_name=people.LONGEST,
        shortest_password=credentials.SHORTEST,
    )


def register(request: PageRequest) -> str | Move:
    """Make an account; whoever needs no approval is signed in at once."""
    password = request.form.get("password", "")
    made = people.register(
        request.context,
        name=form_field(request, "name"),
        password=password,
        code=form_field(request, "code") or None,
        terms="terms" in request.form,
    )
    if made.state != "active":
        return page(request, "waiting", "Thank you", name=made.name)
    return Move("/team", people.log_in(request.context, name=made.name, password=password))


def resetting(request: PageRequest, problem: str = "") -> str:
    """Show the form for a new password, to which an organiser's link leads."""
    code = request.form.get("code") or request.query.get("code", "")
    return page(request, "reset", "A new password", problem=problem, code=code)


def reset(request: PageRequest) -> Move:
    """Set a new password."""
    password = request.form.get("password", "")
    people.reset_password(request.context, code=form_field(request, "code"), password=password)
    return Move("/login")


def signing_in(request: PageRequest, problem: str = "") -> str:
    """Show the form to sign in; ``next`` says where it leads to."""
    after = request.form.get("next") or request.query.get("next", "/")
    return page(request, "login", "Sign in", problem=problem, after=_own_page(after))


def sign_in(request: PageRequest) -> Move:
    """Begin a session."""
    password = request.form.get("password", "")
    secret = people.log_in(request.context, name=form_field(request, "name"), password=password)
    return Move(_own_page(request.form.get("next", "/")), secret)


def sign_out(request: PageRequest) -> Move:
    """End the session."""
    request.do(credentials.end_session)
    return Move("/", "")


def account(request: PageRequest, problem: str = "", token: credentials.NewToken | None = None) -> str:
    """Show a person's password form and tokens; a new token's secret is shown this once."""
    person = request.person
    return page(
        request,
        "account",
        person.name,
        counts=[person.role],
        problem=problem,
        tokens=request.do(credentials.list_tokens),
        token=token,
        scopes=sorted(OF_ROLE[person.role]),
    )


def change_password(request: PageRequest) -> Move:
    """Set a new password and begin a new session: all others end."""
    secret = request.do(
        people.change_password, old=request.form.get("old", ""), new=request.form.get("new", "")
    )
    return Move("/account", secret)


def create_token(request: PageRequest) -> str:
    """Create a token for the command line."""
    scopes = tuple(
        scope for scope in sorted(OF_ROLE[request.person.role]) if f"scope-{scope}" in request.form
    )
    days = form_number(request, "days") if form_field(request, "days") else None
    made = request.do(credentials.create_token, name=form_field(request, "name"), scopes=scopes, days=days)
    return account(request, token=made)


def _own_page(address: str) -> str:
    """Return an address of this server, or its front page: nobody is sent elsewhere."""
    plain = address.startswith("/") and not address.startswith(("//", "/\\")) and address.isprintable()
    return address if plain else "/"


def team(request: PageRequest, problem: str = "", invitation: people.Invitation | None = None) -> str:
    """Show a person's team; without one, the forms that lead into one."""
    own = request.do(people.own_team)
    leads = own is not None and any(
        member.leads for member in own.members if member.account == request.person.account
    )
    return page(
        request,
        "team",
        own.name if own else "Your team",
        counts=[f"{len(own.members)} of {request.context.competition.server.team_size} members"]
        if own
        else (),
        problem=problem,
        team=own,
        leads=leads,
        invitation=invitation,
        code=request.form.get("code") or request.query.get("code", ""),
    )


def invite(request: PageRequest) -> str:
    """Show a link into the team, this once."""
    return team(request, invitation=request.do(people.invite_to_team))


WIDTH, HEIGHT = 560, 180  # of the drawing of scores
LINES = 8  # teams in it, the best first


def home(request: PageRequest, problem: str = "") -> str:
    """Show phases, what may be sent, announcements, and how busy the workers are."""
    context, person = request.context, request.person
    info = request.do(competition_info)
    member = person.team is not None
    return page(
        request,
        "home",
        info.title,
        problem=problem,
        counts=[count(info.phases, "phase"), f"leagues: {', '.join(info.leagues)}"],
        info=info,
        limits={phase.name: phase.limits for phase in context.competition.phases},
        announcements=request.do(organising.list_announcements),
        queue=request.do(boards.queue_state),
        notes=entry_rules.undated(context.competition) if person.role == "organiser" else [],
        allowances=request.do(submissions.allowances) if member else [],
    )


def terms(request: PageRequest, problem: str = "") -> str:
    """Show the terms that whoever registers agrees to."""
    return page(request, "text", "Terms", text=request.do(competition_info).terms)


def rules(request: PageRequest, problem: str = "") -> str:
    """Show the rules of the competition."""
    return page(request, "text", "Rules", text=request.do(competition_info).rules)


def written(request: PageRequest, problem: str = "") -> str:
    """Show a page that the organisers wrote."""
    competition, title = request.context.competition, request.path["title"]
    if title not in competition.pages:
        raise not_there("page", f"'{title[:40]}'")
    return page(request, "text", title, text=competition.text(competition.pages[title]))


def board(request: PageRequest, problem: str = "") -> str:
    """Show the leaderboard of a phase and league, and how the teams' scores went."""
    info = request.do(competition_info)
    choice = {name: request.query.get(name) or None for name in ("phase", "league", "by")}
    table = request.do(boards.board, **choice)
    steps = request.do(boards.progress, phase=table.phase, league=table.league)
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
        parts=request.do(boards.figures, phase=table.phase),
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
    """Draw every team's scores in their order; None where no team has two."""
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


PEOPLE_PAGES = [
    show("/", "competition.read", home),
    show("/terms", "competition.read", terms),
    show("/rules", "competition.read", rules),
    show("/pages/{title}", "competition.read", written),
    show("/board", "board.read", board, steady=True),
    show("/register", "account.register", registering),
    take("/register", "account.register", register, registering, password=True),
    show("/login", "session.begin", signing_in),
    take("/login", "session.begin", sign_in, signing_in, password=True),
    show("/reset", "account.register", resetting),
    take("/reset", "account.register", reset, resetting, password=True),
    take("/logout", "session.end", sign_out, signing_in),
    show("/account", "token.list", account),
    take("/account/password", "account.change", change_password, account, password=True),
    take("/account/tokens", "token.create", create_token, account),
    send("/account/tokens/{number:int}/revoke", credentials.revoke_token, account, "/account"),
    show("/team", "team.read", team),
    show("/team/join", "team.read", team),
    take("/team/invite", "team.change", invite, team),
    send("/team/found", people.found_team, team, "/team"),
    send("/team/join", people.join_team, team, "/team"),
    send("/team/merge", people.merge_team, team, "/team"),
    send("/team/leave", people.leave_team, team, "/team"),
    send("/team/remove", people.remove_member, team, "/team"),
    send("/team/transfer", people.transfer_team, team, "/team"),
    send("/team/pseudonym", people.change_team, team, "/team"),
]
