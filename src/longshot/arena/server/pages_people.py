"""Pages for everybody, and of a person: the competition, its board, registering, signing in, tokens, the team."""

from __future__ import annotations

from longshot.arena import entry_rules
from longshot.arena.policy import OF_ROLE, not_there
from longshot.arena.server import api_people, boards, credentials, organising, people, submissions
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


def signing_in(request: PageRequest, problem: str = "") -> str:
    """Show the form to sign in; ``next`` says where it leads to."""
    after = request.form.get("next") or request.query.get("next", "/")
    return page(request, "login", "Sign in", problem=problem, after=_own_page(after))


def sign_in(request: PageRequest) -> Move:
    """Begin a session."""
    password = request.form.get("password", "")
    secret = people.log_in(request.context, name=form_field(request, "name"), password=password)
    return Move(_own_page(request.form.get("next", "/")), secret)


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
        qualifying=getattr(context.competition.qualifying, "name", ""),
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
        parts=request.do(boards.figures, phase=table.phase, league=table.league),
    )


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
    send("/reset", people.reset_password, resetting, "/login", password=True),
    send("/logout", api_people.log_out, signing_in, "/"),
    show("/account", "token.list", account),
    send("/account/password", api_people.change_password, account, "/account", password=True),
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
