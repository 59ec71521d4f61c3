"""Teams: one identity for all its members, who share its submissions and its quota. A person is in one team."""

from __future__ import annotations

from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from longshot.arena import entry_rules
from longshot.arena.database_tables import accounts, filled, invitations, members, now, submissions, teams
from longshot.arena.policy import Person, Refusal, not_there, permit
from longshot.arena.queue import alone
from longshot.arena.services import people
from longshot.arena.services.office import Office, record
from longshot.base import UserError


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


def own_team(office: Office, person: Person) -> Team | None:
    """The team of a person."""
    permit(person, "team.read")
    return None if person.team is None else team(office, person.team)


def team(office: Office, number: int) -> Team:
    """A team by number, with its members."""
    rows = office.store.rows(sa.select(teams).where(teams.c.id == number))
    if not rows:
        raise not_there("team", number)
    columns = (members.c.account, accounts.c.name, members.c.leads, members.c.joined)
    inside = office.store.rows(
        sa.select(*columns)
        .join(accounts, accounts.c.id == members.c.account)
        .where(members.c.team == number)
        .order_by(members.c.joined, members.c.account)
    )
    listed = [Member(**{**each, "leads": bool(each["leads"])}) for each in inside]
    return filled(Team, rows[0], ranked=bool(rows[0]["ranked"]), members=listed)


def found_team(office: Office, person: Person, *, name: str, pseudonym: str | None = None) -> Team:
    """Make a team and lead it; its name and pseudonym are nobody else's."""
    permit(person, "team.change")
    title = entry_rules.tidy(name, "A team's name", entry_rules.LONGEST_NAME)
    shown = entry_rules.tidy(pseudonym, "A pseudonym", entry_rules.LONGEST_PSEUDONYM) if pseudonym else None
    with alone(office.store) as connection:
        _outside(connection, person)
        names = connection.execute(sa.select(teams.c.name)).scalars()
        if entry_rules.same(title) in map(entry_rules.same, names):
            raise Refusal(409, f"The team name '{title}' is taken", "choose another name")
        number = entry_rules.team_number(connection, title, True, shown)
        _join(connection, person, number, leads=True)
        record(connection, person, "team.create", f"team {number}", after={"name": title, "pseudonym": shown})
    return team(office, number)


def invite_to_team(office: Office, person: Person, *, days: int = 7) -> people.Invitation:
    """An invitation to a person's team: one who brings the code joins it, once."""
    permit(person, "team.change")
    return people.new_invitation(office, person, kind="team", team=_led(office, person), days=days)


def join_team(office: Office, person: Person, *, code: str) -> Team:
    """Join the team that an invitation names."""
    permit(person, "team.change")
    with alone(office.store) as connection:
        _outside(connection, person)
        invitation = people.take_invitation(office, connection, code, "team")
        number, most = int(invitation["team"]), office.competition.server.team_size
        query = sa.select(sa.func.count()).select_from(members).where(members.c.team == number)
        count = connection.execute(query).scalar_one()
        if count >= most:
            raise Refusal(409, f"The team has {count} members, and {most} are allowed.")
        _join(connection, person, number, leads=False)
        used = invitations.update().where(invitations.c.id == invitation["id"])
        connection.execute(used.values(used=now(), used_by=person.account))
        record(connection, person, "team.join", f"team {number}")
    return team(office, number)


def leave_team(office: Office, person: Person) -> None:
    """Leave one's team; who leads one with others in it hands it over first."""
    permit(person, "team.change")
    if person.team is None:
        raise Refusal(409, "You are in no team.")
    inside = team(office, person.team).members
    own = next(member for member in inside if member.account == person.account)
    if own.leads and len(inside) > 1:
        raise Refusal(
            409,
            f"You lead a team with {len(inside) - 1} others in it",
            "make another of them its leader first",
        )
    _remove(office, person, own.account, person.team, "team.leave")


def remove_member(office: Office, person: Person, account: int) -> Team:
    """Take somebody out of one's team; the submissions stay with the team."""
    permit(person, "team.change")
    number = _led(office, person)
    if account == person.account:
        raise Refusal(409, "Who leads a team leaves it, and is not taken out.")
    if account not in [member.account for member in team(office, number).members]:
        raise not_there("member", account)
    _remove(office, person, account, number, "team.remove")
    return team(office, number)


def transfer_team(office: Office, person: Person, account: int) -> Team:
    """Make another member the leader of one's team."""
    permit(person, "team.change")
    number = _led(office, person)
    if account not in [member.account for member in team(office, number).members]:
        raise not_there("member", account)
    with alone(office.store) as connection:
        inside = members.c.team == number
        connection.execute(members.update().where(inside).values(leads=members.c.account == account))
        before, after = {"leader": person.account}, {"leader": account}
        record(connection, person, "team.transfer", f"team {number}", before, after)
    return team(office, number)


def change_team(office: Office, person: Person, *, pseudonym: str | None) -> Team:
    """Another pseudonym, or none; the name stays, for people know the team by it."""
    permit(person, "team.change")
    number = _led(office, person)
    shown = entry_rules.tidy(pseudonym, "A pseudonym", entry_rules.LONGEST_PSEUDONYM) if pseudonym else None
    before = team(office, number)
    with alone(office.store) as connection:
        if shown is not None:
            entry_rules.team_number(connection, before.name, True, shown)
        else:
            connection.execute(teams.update().where(teams.c.id == number).values(pseudonym=None))
        was, new = {"pseudonym": before.pseudonym}, {"pseudonym": shown}
        record(connection, person, "team.change", f"team {number}", was, new)
    return team(office, number)


def list_teams(office: Office, person: Person) -> list[Team]:
    """All teams, for organisers."""
    permit(person, "people.read")
    return [team(office, row["id"]) for row in office.store.rows(sa.select(teams.c.id).order_by(teams.c.id))]


def set_ranked(office: Office, person: Person, number: int, *, ranked: bool) -> Team:
    """Whether a team's entries have a rank: a conflict of interest takes it away."""
    permit(person, "people.change")
    before = team(office, number)
    with alone(office.store) as connection:
        connection.execute(teams.update().where(teams.c.id == number).values(ranked=ranked))
        record(
            connection, person, "team.ranked", f"team {number}", {"ranked": before.ranked}, {"ranked": ranked}
        )
    return team(office, number)


def require_team(person: Person) -> int:
    """The number of a person's team; Refusal where there is none: submissions belong to teams."""
    if person.team is None:
        raise Refusal(
            409, "Submissions belong to a team, and you are in none", "make a team or join one first"
        )
    return person.team


def bytes_of(connection: Connection, number: int) -> int:
    """What the archives of a team take."""
    query = sa.select(sa.func.coalesce(sa.func.sum(submissions.c.bytes), 0))
    return int(connection.execute(query.where(submissions.c.team == number)).scalar_one())


def _led(office: Office, person: Person) -> int:
    """The team that a person leads."""
    if person.team is None:
        raise Refusal(409, "You are in no team", "make one or join one first")
    query = sa.select(members.c.leads).where(members.c.account == person.account)
    if not office.store.rows(query)[0]["leads"]:
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


def _remove(office: Office, person: Person, account: int, number: int, action: str) -> None:
    with alone(office.store) as connection:
        connection.execute(members.delete().where(members.c.account == account, members.c.team == number))
        record(connection, person, action, f"team {number}", before={"account": account})
