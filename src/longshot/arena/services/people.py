"""Accounts: by invitation link, or by open registration that an organiser approves. No e-mail is needed."""

from __future__ import annotations

import secrets
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from longshot.arena.database_tables import accounts, in_future, invitations, members, now, teams
from longshot.arena.entry_rules import same, tidy
from longshot.arena.policy import VISITOR, Person, Refusal, not_there, permit
from longshot.arena.queue import alone
from longshot.arena.services import credentials, passwords
from longshot.arena.services.office import Office, record
from longshot.base import UserError

LONGEST = 40  # letters of a name
INVITED_DAYS = 14
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
    office: Office, person: Person, *, role: str = "participant", days: int = INVITED_DAYS
) -> Invitation:
    """Invite somebody: whoever brings the code makes one account of that role, once."""
    permit(person, "invitation.create")
    if role not in ("participant", "organiser"):
        raise UserError(f"There is no role '{role}' to invite to; there are: participant, organiser.")
    return new_invitation(office, person, kind="account", role=role, days=days)


def new_invitation(
    office: Office,
    person: Person,
    *,
    kind: str,
    role: str | None = None,
    team: int | None = None,
    days: int = INVITED_DAYS,
) -> Invitation:
    """An invitation to an account or a team; callers have asked whether it may be made."""
    if not 1 <= days <= 90:
        raise UserError(f"An invitation lasts 1 to 90 days, and {days} were asked for.")
    code, expires = secrets.token_urlsafe(24), in_future(days=days)
    with office.store.change() as connection:
        values: dict[str, Any] = {"kind": kind, "role": role, "team": team, "account": person.account}
        values |= {"hash": office.hashed(code), "created": now(), "expires": expires}
        number = int(connection.execute(invitations.insert().values(**values)).inserted_primary_key[0])  # type: ignore[index]
        after = {"kind": kind, "role": role, "team": team, "expires": expires}
        record(connection, person, "invitation.create", f"invitation {number}", after=after)
    return Invitation(number, kind, role, expires, code)


def register(
    office: Office, *, name: str, password: str, code: str | None = None, terms: bool = False
) -> Account:
    """Make an account: at once with an invitation, else to be approved where registration is open.

    Parameters
    ----------
    office : Office
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
    settings = office.competition.server
    if code is None and settings.registration != "open":
        raise Refusal(403, "An account here needs an invitation", "ask the organisers for one")
    if settings.terms and not terms:
        raise UserError("The competition's terms were not accepted", "read them and accept them")
    title = tidy(name, "A name", LONGEST)
    passwords.check_password(password)
    with office.hashing:
        digest = passwords.hash_password(password)
    with alone(office.store) as connection:
        invitation = None if code is None else take_invitation(office, connection, code, "account")
        folded = same(title)
        if connection.execute(sa.select(accounts.c.id).where(accounts.c.folded == folded)).first():
            raise Refusal(409, f"The name '{title}' is taken", "choose another name")
        role = "participant" if invitation is None else invitation["role"]
        state = "pending" if invitation is None else "active"
        values = {"name": title, "folded": folded, "password": digest, "role": role, "state": state}
        accepted = now() if settings.terms else None
        inserted = accounts.insert().values(**values, created=now(), terms=accepted)
        number = int(connection.execute(inserted).inserted_primary_key[0])  # type: ignore[index]
        if invitation is not None:
            used = invitations.update().where(invitations.c.id == invitation["id"])
            connection.execute(used.values(used=now(), used_by=number))
        person = VISITOR._replace(account=number, name=title)
        record(
            connection, person, "account.register", f"account {number}", after={"role": role, "state": state}
        )
    return account(office, number)


def take_invitation(office: Office, connection: Connection, code: str, kind: str) -> dict[str, Any]:
    """An invitation that may still be used; the caller marks it as used in the same transaction."""
    query = sa.select(invitations).where(
        invitations.c.hash == office.hashed(code), invitations.c.kind == kind
    )
    row = connection.execute(query).mappings().first()
    if row is None or row["used"] is not None or row["expires"] <= now():
        raise Refusal(403, "The invitation is unknown, used or over", "ask for a new one")
    return dict(row)


def log_in(office: Office, *, name: str, password: str) -> str:
    """Begin a session; gives the secret of the cookie. The same answer for unknown names and wrong passwords."""
    query = sa.select(accounts).where(accounts.c.folded == same(name[:200]))
    rows = office.store.rows(query)
    right = passwords.fits(
        password[: passwords.LONGEST + 1], rows[0]["password"] if rows else None, office.hashing
    )
    if not right or rows[0]["state"] != "active":
        raise Refusal(401, _WRONG)
    with office.store.change() as connection:
        return credentials.begin_session(office, connection, rows[0]["id"], rows[0]["rights"])


def change_password(office: Office, person: Person, *, old: str, new: str) -> str:
    """Another password; all sessions end and a new one begins, whose secret is given."""
    permit(person, "account.change")
    row = office.store.rows(sa.select(accounts).where(accounts.c.id == person.account))[0]
    if not passwords.fits(old[: passwords.LONGEST + 1], row["password"], office.hashing):
        raise Refusal(403, "The old password is wrong.")
    passwords.check_password(new)
    with office.hashing:
        digest = passwords.hash_password(new)
    with office.store.change() as connection:
        rights = row["rights"] + 1
        own = accounts.update().where(accounts.c.id == person.account)
        connection.execute(own.values(password=digest, rights=rights))
        credentials.end_sessions(connection, row["id"])
        record(connection, person, "account.password", f"account {row['id']}")
        return credentials.begin_session(office, connection, row["id"], rights)


def account(office: Office, number: int) -> Account:
    """One account."""
    rows = _accounts(office, accounts.c.id == number)
    if not rows:
        raise not_there("account", number)
    return rows[0]


def list_accounts(office: Office, person: Person, *, state: str | None = None) -> list[Account]:
    """Everybody, or those that wait for approval."""
    permit(person, "people.read")
    return _accounts(office, sa.true() if state is None else accounts.c.state == state)


def change_account(
    office: Office, person: Person, number: int, *, state: str | None = None, role: str | None = None
) -> Account:
    """Approve, disable or open an account, or change its role; its sessions end, so that no cookie outlives a right."""
    permit(person, "people.change")
    before = account(office, number)
    if state not in (None, "active", "disabled") or role not in (None, "participant", "organiser"):
        raise UserError("An account is made active or disabled, participant or organiser, and nothing else.")
    if number == person.account:
        raise Refusal(409, "Nobody changes their own rights", "ask another organiser")
    with alone(office.store) as connection:
        changed = {key: value for key, value in (("state", state), ("role", role)) if value is not None}
        own = accounts.update().where(accounts.c.id == number)
        connection.execute(own.values(**changed, rights=accounts.c.rights + 1))
        credentials.end_sessions(connection, number)
        was = {"state": before.state, "role": before.role}
        record(connection, person, "account.change", f"account {number}", was, {**was, **changed})
    return account(office, number)


def first_organiser(office: Office) -> Invitation | None:
    """An invitation for the first organiser, from whoever has the folder; None where there is an organiser."""
    active = (accounts.c.role == "organiser", accounts.c.state == "active")
    if office.store.rows(sa.select(accounts.c.id).where(*active).limit(1)):
        return None
    return new_invitation(office, HOST, kind="account", role="organiser", days=2)


HOST = Person("organiser", name="the server's owner", scopes=frozenset(("admin",)), via="session")


def _accounts(office: Office, which: sa.ColumnElement[bool]) -> list[Account]:
    columns = (accounts.c[name] for name in ("id", "name", "role", "state", "created"))
    query = (
        sa.select(*columns, teams.c.name.label("team"), teams.c.id.label("team_id"), members.c.leads)
        .select_from(accounts)
        .join(members, members.c.account == accounts.c.id, isouter=True)
        .join(teams, teams.c.id == members.c.team, isouter=True)
        .where(which)
        .order_by(accounts.c.id)
    )
    return [Account(**{**row, "leads": bool(row["leads"])}) for row in office.store.rows(query)]
