"""Accounts and teams, without e-mail: by invitation link, or by open registration that an organiser approves.

A person is in one team, whose members share its submissions and its quota.
"""

from __future__ import annotations

import datetime as dt
import secrets
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from longshot.arena import entry_rules
from longshot.arena.database_tables import (
    accounts,
    filled,
    in_future,
    invitations,
    members,
    now,
    submissions,
    teams,
    uploads,
)
from longshot.arena.entry_rules import same, tidy
from longshot.arena.policy import OF_ROLE, VISITOR, Person, Refusal, not_there, permit
from longshot.arena.queue import alone
from longshot.arena.server import credentials
from longshot.arena.server.server_context import Line, ServerContext, record
from longshot.base import UserError

LONGEST = 40  # letters of a name
INVITED_DAYS = 14
RESET_DAYS = 2
_WRONG = "The name or the password is wrong, or the account is not open yet."


class Account(NamedTuple):
    """An account as organisers and its owner see it."""

    id: int
    name: str
    role: str
    state: str  # pending, active or disabled
    created: str
    team: str | None
    team_id: int | None
    leads: bool


class Invitation(NamedTuple):
    """An invitation that was just made; ``code`` is shown this once and opens ``/register?code=…``."""

    id: int
    kind: str
    role: str | None
    expires: str
    code: str


def invite(
    context: ServerContext, person: Person, *, role: str = "participant", days: int = INVITED_DAYS
) -> Invitation:
    """Invite somebody: whoever brings the code makes one account of that role, once."""
    permit(person, "invitation.create")
    if role not in ("participant", "organiser"):
        raise UserError(f"There is no role '{role}' to invite to; there are: participant, organiser.")
    return new_invitation(context, person, kind="account", role=role, days=days)


def new_invitation(
    context: ServerContext,
    person: Person,
    *,
    kind: str,
    role: str | None = None,
    team: int | None = None,
    days: int = INVITED_DAYS,
) -> Invitation:
    """Make an invitation to an account or a team; callers have checked whether it may be made."""
    if not 1 <= days <= 90:
        raise UserError(f"An invitation lasts 1 to 90 days, and {days} were asked for.")
    code, expires = secrets.token_urlsafe(24), in_future(days=days)
    with context.store.change() as connection:
        values: dict[str, Any] = {"kind": kind, "role": role, "team": team, "account": person.account}
        values |= {"hash": context.hashed(code), "created": now(), "expires": expires}
        number = int(connection.execute(invitations.insert().values(**values)).inserted_primary_key[0])  # type: ignore[index]
        after = {"kind": kind, "role": role, "team": team, "expires": expires}
        record(connection, person, "invitation.create", f"invitation {number}", after=after)
    return Invitation(number, kind, role, expires, code)


def register(
    context: ServerContext, *, name: str, password: str, code: str | None = None, terms: bool = False
) -> Account:
    """Make an account: at once with an invitation, else to be approved where registration is open.

    Parameters
    ----------
    context : ServerContext
        The competition.
    name : str
        Name to log in with, 1 to 40 letters; upper and lower case do not count.
    password : str
        At least 10 letters.
    code : str, optional
        Of an invitation.
    terms : bool
        Whether the competition's terms are accepted, where it has any.
    """
    settings = context.competition.server
    if code is None and settings.registration != "open":
        raise Refusal(403, "An account here needs an invitation", "ask the organisers for one")
    if settings.terms and not terms:
        raise UserError("The competition's terms were not accepted", "read them and accept them")
    title = tidy(name, "A name", LONGEST)
    credentials.check_password(password)
    with context.hashing:
        digest = credentials.hash_password(password)
    with alone(context.store) as connection:
        invitation = None if code is None else take_invitation(context, connection, code, "account")
        folded = same(title)
        if entry_rules.is_taken(title, connection.execute(sa.select(accounts.c.name)).scalars()):
            raise Refusal(409, f"The name '{title}' is taken", "choose another name")
        role = "participant" if invitation is None else invitation["role"]
        state = "pending" if invitation is None else "active"
        values = {"name": title, "folded": folded, "password": digest, "role": role, "state": state}
        accepted = now() if settings.terms else None
        inserted = accounts.insert().values(**values, created=now(), terms=accepted)
        number = int(connection.execute(inserted).inserted_primary_key[0])  # type: ignore[index]
        if invitation is not None:
            _use(connection, invitation, number)
        person = VISITOR._replace(account=number, name=title)
        record(
            connection, person, "account.register", f"account {number}", after={"role": role, "state": state}
        )
    return account(context, number)


def take_invitation(context: ServerContext, connection: Connection, code: str, kind: str) -> dict[str, Any]:
    """Return an invitation that may still be used; the caller marks it as used in the same transaction."""
    query = sa.select(invitations).where(
        invitations.c.hash == context.hashed(code.strip()), invitations.c.kind == kind
    )
    row = connection.execute(query).mappings().first()
    if row is None or row["used"] is not None or row["expires"] <= now():
        raise Refusal(403, "The invitation is unknown, used or over", "ask for a new one")
    return dict(row)


def log_in(context: ServerContext, *, name: str, password: str) -> str:
    """Begin a session; gives the secret of the cookie. The same answer for unknown names and wrong passwords."""
    query = sa.select(accounts).where(accounts.c.folded == same(name[:200]))
    rows = context.store.rows(query)
    right = credentials.fits(
        password[: credentials.LONGEST + 1], rows[0]["password"] if rows else None, context.hashing
    )
    if not right or rows[0]["state"] != "active":
        raise Refusal(401, _WRONG)
    with context.store.change() as connection:
        return credentials.begin_session(context, connection, rows[0]["id"], rows[0]["rights"])


def change_password(context: ServerContext, person: Person, *, old: str, new: str) -> str:
    """Change the password; all sessions end and a new one begins, whose secret is returned."""
    permit(person, "account.change")
    row = context.store.rows(sa.select(accounts).where(accounts.c.id == person.account))[0]
    if not credentials.fits(old[: credentials.LONGEST + 1], row["password"], context.hashing):
        raise Refusal(403, "The old password is wrong.")
    credentials.check_password(new)
    with context.hashing:
        digest = credentials.hash_password(new)
    with context.store.change() as connection:
        rights = row["rights"] + 1
        own = accounts.update().where(accounts.c.id == person.account)
        connection.execute(own.values(password=digest, rights=rights))
        credentials.end_sessions(connection, row["id"])
        record(connection, person, "account.password", f"account {row['id']}")
        return credentials.begin_session(context, connection, row["id"], rights)


def invite_to_password(context: ServerContext, person: Person, number: int) -> Invitation:
    """Make a link by which somebody who forgot their password sets another one, once, within two days."""
    permit(person, "people.change")
    return new_invitation(
        context, person, kind="password", role=str(account(context, number).id), days=RESET_DAYS
    )


def reset_password(
    context: ServerContext, person: Person = VISITOR, *, code: Line, password: Line
) -> Account:
    """Set a new password with an organiser's link; all sessions of the account end."""
    credentials.check_password(password)
    with context.hashing:
        digest = credentials.hash_password(password)
    with alone(context.store) as connection:
        invitation = take_invitation(context, connection, code, "password")
        number = int(invitation["role"])
        own = accounts.update().where(accounts.c.id == number)
        connection.execute(own.values(password=digest, rights=accounts.c.rights + 1))
        credentials.end_sessions(connection, number)
        _use(connection, invitation, number)
        record(connection, person._replace(account=number), "account.reset", f"account {number}")
    return account(context, number)


def account(context: ServerContext, number: int) -> Account:
    """Read one account."""
    rows = _accounts(context, accounts.c.id == number)
    if not rows:
        raise not_there("account", number)
    return rows[0]


def list_accounts(context: ServerContext, person: Person, *, state: str | None = None) -> list[Account]:
    """List everybody, or those that wait for approval."""
    permit(person, "people.read")
    return _accounts(context, sa.true() if state is None else accounts.c.state == state)


def change_account(
    context: ServerContext, person: Person, number: int, *, state: str | None = None, role: str | None = None
) -> Account:
    """Approve, disable or open an account, or change its role; its sessions end, so that no cookie outlives a right."""
    permit(person, "people.change")
    before = account(context, number)
    if state not in (None, "active", "disabled") or role not in (None, "participant", "organiser"):
        raise UserError("An account is made active or disabled, participant or organiser, and nothing else.")
    if number == person.account:
        raise Refusal(409, "Nobody changes their own rights", "ask another organiser")
    with alone(context.store) as connection:
        changed = {key: value for key, value in (("state", state), ("role", role)) if value is not None}
        own = accounts.update().where(accounts.c.id == number)
        connection.execute(own.values(**changed, rights=accounts.c.rights + 1))
        credentials.end_sessions(connection, number)
        was = {"state": before.state, "role": before.role}
        record(connection, person, "account.change", f"account {number}", was, {**was, **changed})
    return account(context, number)


def first_organiser(context: ServerContext) -> Invitation | None:
    """Invite the first organiser, for whoever has the folder; None where there is an organiser."""
    active = (accounts.c.role == "organiser", accounts.c.state == "active")
    if context.store.rows(sa.select(accounts.c.id).where(*active).limit(1)):
        return None
    return new_invitation(context, HOST, kind="account", role="organiser", days=2)


HOST = Person("organiser", name="the server's owner", scopes=OF_ROLE["organiser"], via="session")


def _accounts(context: ServerContext, which: sa.ColumnElement[bool]) -> list[Account]:
    columns = (accounts.c[name] for name in ("id", "name", "role", "state", "created"))
    query = (
        sa.select(*columns, teams.c.name.label("team"), teams.c.id.label("team_id"), members.c.leads)
        .select_from(accounts)
        .join(members, members.c.account == accounts.c.id, isouter=True)
        .join(teams, teams.c.id == members.c.team, isouter=True)
        .where(which)
        .order_by(accounts.c.id)
    )
    return [Account(**{**row, "leads": bool(row["leads"])}) for row in context.store.rows(query)]


class Member(NamedTuple):
    """Somebody in a team."""

    account: int
    name: str
    leads: bool
    joined: str


class Team(NamedTuple):
    """A team as its members and organisers see it."""

    id: int
    name: str
    pseudonym: str | None
    ranked: bool
    members: list[Member]


def own_team(context: ServerContext, person: Person) -> Team | None:
    """Return the team of a person."""
    permit(person, "team.read")
    return None if person.team is None else team(context, person.team)


def team(context: ServerContext, number: int) -> Team:
    """Read a team by number, with its members."""
    rows = context.store.rows(sa.select(teams).where(teams.c.id == number))
    if not rows:
        raise not_there("team", number)
    columns = (members.c.account, accounts.c.name, members.c.leads, members.c.joined)
    inside = context.store.rows(
        sa.select(*columns)
        .join(accounts, accounts.c.id == members.c.account)
        .where(members.c.team == number)
        .order_by(members.c.joined, members.c.account)
    )
    listed = [Member(**{**each, "leads": bool(each["leads"])}) for each in inside]
    return filled(Team, rows[0], ranked=bool(rows[0]["ranked"]), members=listed)


def found_team(context: ServerContext, person: Person, *, name: Line, pseudonym: Line | None = None) -> Team:
    """Make a team and lead it; its name and pseudonym are nobody else's."""
    permit(person, "team.change")
    title = entry_rules.tidy(name, "A team's name", entry_rules.LONGEST_NAME)
    shown = entry_rules.tidy(pseudonym, "A pseudonym", entry_rules.LONGEST_PSEUDONYM) if pseudonym else None
    with alone(context.store) as connection:
        _outside(connection, person)
        names = connection.execute(sa.select(teams.c.name)).scalars()
        if entry_rules.is_taken(title, names):
            raise Refusal(409, f"The team name '{title}' is taken", "choose another name")
        number = entry_rules.team_number(connection, title, True, shown)
        _join(connection, person, number, leads=True)
        record(connection, person, "team.create", f"team {number}", after={"name": title, "pseudonym": shown})
    return team(context, number)


def invite_to_team(context: ServerContext, person: Person, *, days: int = 7) -> Invitation:
    """Make an invitation to a person's team: one who brings the code joins it, once."""
    permit(person, "team.change")
    return new_invitation(context, person, kind="team", team=_led(context, person), days=days)


def join_team(context: ServerContext, person: Person, *, code: Line) -> Team:
    """Join the team that an invitation names."""
    permit(person, "team.change")
    with alone(context.store) as connection:
        _outside(connection, person)
        invitation = take_invitation(context, connection, code, "team")
        number = int(invitation["team"])
        _check_size(context, connection, [number], 1)
        _join(connection, person, number, leads=False)
        _use(connection, invitation, person.account)
        record(connection, person, "team.join", f"team {number}")
    return team(context, number)


def merge_team(context: ServerContext, person: Person, *, code: Line) -> Team:
    """Join with one's whole team, its submissions included, the team that an invitation names; before the final."""
    permit(person, "team.change")
    own, competition = _led(context, person), context.competition
    with alone(context.store) as connection:
        invitation = take_invitation(context, connection, code, "team")
        number = int(invitation["team"])
        if number == own:
            raise Refusal(409, "That is your own team", "bring the invitation of another")
        if entry_rules.times(competition.final, dt.datetime.now(dt.UTC)).state != "coming":
            raise Refusal(409, f"The phase '{competition.final.name}' has begun, and teams merge before it.")
        _check_size(context, connection, [own, number])
        moved = {"team": number}
        connection.execute(members.update().where(members.c.team == own).values(**moved, leads=False))
        connection.execute(submissions.update().where(submissions.c.team == own).values(**moved))
        connection.execute(uploads.update().where(uploads.c.team == own).values(**moved))
        connection.execute(teams.update().where(teams.c.id == own).values(deleted=now()))
        _use(connection, invitation, person.account)
        record(connection, person, "team.merge", f"team {number}", {"team": own}, moved)
    return team(context, number)


def leave_team(context: ServerContext, person: Person) -> None:
    """Leave one's team; who leads one with others in it hands it over first."""
    permit(person, "team.change")
    if person.team is None:
        raise Refusal(409, "You are in no team.")
    inside = team(context, person.team).members
    own = next(member for member in inside if member.account == person.account)
    if own.leads and len(inside) > 1:
        fact = f"You lead a team with {len(inside) - 1} others in it"
        raise Refusal(409, fact, "make another of them its leader first")
    _remove(context, person, own.account, person.team, "team.leave")


def remove_member(context: ServerContext, person: Person, account: int) -> Team:
    """Take somebody out of one's team; the submissions stay with the team."""
    permit(person, "team.change")
    number = _led(context, person)
    if account == person.account:
        raise Refusal(409, "Who leads a team leaves it, and is not taken out.")
    if account not in [member.account for member in team(context, number).members]:
        raise not_there("member", account)
    _remove(context, person, account, number, "team.remove")
    return team(context, number)


def transfer_team(context: ServerContext, person: Person, account: int) -> Team:
    """Make another member the leader of one's team."""
    permit(person, "team.change")
    number = _led(context, person)
    if account not in [member.account for member in team(context, number).members]:
        raise not_there("member", account)
    with alone(context.store) as connection:
        inside = members.c.team == number
        connection.execute(members.update().where(inside).values(leads=members.c.account == account))
        before, after = {"leader": person.account}, {"leader": account}
        record(connection, person, "team.transfer", f"team {number}", before, after)
    return team(context, number)


def change_team(context: ServerContext, person: Person, *, pseudonym: Line | None) -> Team:
    """Change or remove the pseudonym; the name stays, for people know the team by it."""
    permit(person, "team.change")
    number = _led(context, person)
    shown = entry_rules.tidy(pseudonym, "A pseudonym", entry_rules.LONGEST_PSEUDONYM) if pseudonym else None
    before = team(context, number)
    with alone(context.store) as connection:
        if shown is not None:
            entry_rules.team_number(connection, before.name, True, shown)
        else:
            connection.execute(teams.update().where(teams.c.id == number).values(pseudonym=None))
        was, new = {"pseudonym": before.pseudonym}, {"pseudonym": shown}
        record(connection, person, "team.change", f"team {number}", was, new)
    return team(context, number)


def list_teams(context: ServerContext, person: Person) -> list[Team]:
    """List all teams, for organisers."""
    permit(person, "people.read")
    return [
        team(context, row["id"]) for row in context.store.rows(sa.select(teams.c.id).order_by(teams.c.id))
    ]


def set_ranked(context: ServerContext, person: Person, number: int, *, ranked: bool) -> Team:
    """Set whether a team's entries have a rank: a conflict of interest takes it away."""
    permit(person, "people.change")
    before = team(context, number)
    with alone(context.store) as connection:
        connection.execute(teams.update().where(teams.c.id == number).values(ranked=ranked))
        record(
            connection, person, "team.ranked", f"team {number}", {"ranked": before.ranked}, {"ranked": ranked}
        )
    return team(context, number)


def _check_size(context: ServerContext, connection: Connection, numbers: list[int], further: int = 0) -> None:
    """Refuse a team of more members than are allowed: those of some teams and ``further`` ones."""
    inside = sa.select(sa.func.count()).select_from(members).where(members.c.team.in_(numbers))
    count, most = connection.execute(inside).scalar_one(), context.competition.server.team_size
    if count + further > most:
        have = "The team has" if further else "Together the teams have"
        raise Refusal(409, f"{have} {count} members, and {most} are allowed.")


def _use(connection: Connection, invitation: dict[str, Any], account: int | None) -> None:
    """Mark an invitation as used, in the transaction that uses it."""
    used = invitations.update().where(invitations.c.id == invitation["id"])
    connection.execute(used.values(used=now(), used_by=account))


def _led(context: ServerContext, person: Person) -> int:
    """Return the team that a person leads."""
    if person.team is None:
        raise Refusal(409, "You are in no team", "make one or join one first")
    query = sa.select(members.c.leads).where(members.c.account == person.account)
    if not context.store.rows(query)[0]["leads"]:
        raise Refusal(403, "Only the leader of a team changes it.")
    return person.team


def _outside(connection: Connection, person: Person) -> None:
    if connection.execute(sa.select(members.c.team).where(members.c.account == person.account)).first():
        raise Refusal(409, "You are in a team already, and a person is in 1", "leave it first")


def _join(connection: Connection, person: Person, number: int, *, leads: bool) -> None:
    if person.account is None:
        raise UserError("A team is made of people with accounts.")
    values = {"account": person.account, "team": number, "leads": leads, "joined": now()}
    connection.execute(members.insert().values(**values))


def _remove(context: ServerContext, person: Person, account: int, number: int, action: str) -> None:
    with alone(context.store) as connection:
        connection.execute(members.delete().where(members.c.account == account, members.c.team == number))
        record(connection, person, action, f"team {number}", before={"account": account})
