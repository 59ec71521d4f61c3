"""How often passwords are tried: a class room comes in at once, and nobody guesses for long or keeps others out."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

import longshot
from answers import Answer
from longshot.arena.policy import Person
from longshot.arena.server.competition_serving import CompetitionServer
from longshot.arena.server.endpoint import Front
from longshot.arena.server.rate_limits import LoginRates, Logins, Rate, Rates

from ..conftest import write_competition
from .conftest import ENDLESS, PASSWORD, PORTS, Visitor, change

NAME = "cup.example.org"
PEOPLE = 60
# As the limits were: ten tries from an address, then one in six seconds; ten for a name, then one in half a minute.
FORMER_ADDRESS, FORMER_NAME = Rate(10, 1 / 6), Rate(10, 1 / 30)


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Hall:
    """A server behind a proxy, its clock, and everybody who comes to it from any address."""

    def __init__(self, folder: Path, logins: LoginRates | None) -> None:
        self.folder, self.clock = folder, Clock()
        rates = Rates(logins=logins, clock=self.clock)
        self.server: CompetitionServer = longshot.serve_competition(
            folder, port=next(PORTS), names=[NAME], rates=rates
        )

    def from_(self, address: str) -> Visitor:
        headers = {"Host": NAME, "X-Forwarded-Proto": "https", "X-Forwarded-For": address}
        return Visitor(self.server.port, headers)

    def patiently(self, ask: Callable[[], Answer]) -> Answer:
        """What is answered at last to somebody who waits as long as they are told to."""
        while True:
            answer = ask()
            if answer.status != 429:
                return answer
            self.clock.now += float(answer.headers["retry-after"])

    def invite(self, *names: str) -> None:
        """Accounts with the usual password."""
        for number, name in enumerate(names):
            code = longshot.competition.invite(self.folder).secret
            wish = {"name": name, "password": PASSWORD, "code": code}
            self.from_(f"198.51.100.{number}").good("POST", "/accounts", wish)


def log_in(visitor: Visitor, name: str, password: str = PASSWORD) -> Answer:
    return visitor.api("POST", "/session", {"name": name, "password": password})


@pytest.fixture
def hall(images: Path, tmp_path: Path, empty_database: Path) -> Iterator[Callable[..., Hall]]:
    write_competition(tmp_path / "competition", images)
    shutil.copy(empty_database, tmp_path / "competition")
    opened: list[Hall] = []

    def open_hall(logins: LoginRates | None = None, settings: str = "") -> Hall:
        change(tmp_path / "competition", "title: small", f"title: small\nserver: {{{settings}}}")
        opened.append(Hall(tmp_path / "competition", logins))
        return opened[-1]

    yield open_hall
    for each in opened:
        each.server.close()


@pytest.mark.parametrize("former", [True, False])
def test_sixty_people_behind_one_address_come_in_within_two_minutes(
    hall: Callable[..., Hall], former: bool
) -> None:
    """Everybody registers and logs in, every sixth with a mistake first; who is told to wait waits."""
    room = hall(LoginRates(FORMER_ADDRESS, ENDLESS, ENDLESS, FORMER_NAME) if former else None)
    invitations = [longshot.competition.invite(room.folder).secret for _ in range(PEOPLE)]
    visitor, begun = room.from_("203.0.113.7"), room.clock.now
    for number, code in enumerate(invitations):
        wish = {"name": f"pupil {number}", "password": PASSWORD, "code": code}
        room.patiently(lambda wish=wish: visitor.api("POST", "/accounts", wish))
        if number % 6 == 0:
            wrong = room.patiently(
                lambda wish=wish: log_in(visitor, wish["name"], "correct horse battery stable")
            )
            assert wrong.status == 401
        right = room.patiently(lambda wish=wish: log_in(visitor, wish["name"]))
        assert right.status == 200 and right.json["name"] == wish["name"]
    assert (room.clock.now - begun <= 120) is not former


def test_sixty_people_come_in_by_the_pages_too(hall: Callable[..., Hall]) -> None:
    """Registering by the form signs in at once: one try each, and none of them has to wait."""
    room = hall()
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    for number in range(PEOPLE):
        code = longshot.competition.invite(room.folder).secret
        form = {"name": f"pupil {number}", "password": PASSWORD, "code": code}
        visitor = room.from_("203.0.113.7")
        for path in ("/register", "/login"):
            answer = visitor.ask("POST", path, data=urlencode(form).encode(), headers=kind)
            assert answer.status == 303 and answer.cookies, answer.body


def guess(room: Hall, addresses: int, tries: int, name: str = "Ada") -> list[int]:
    """Wrong passwords for one account from many addresses; gives how each was answered."""
    return [
        log_in(room.from_(f"203.0.{number // 250}.{number % 250}"), name, f"wrong password {count}").status
        for number in range(addresses)
        for count in range(tries)
    ]


@pytest.mark.parametrize("counted", [False, True])
def test_many_addresses_guess_at_one_account(hall: Callable[..., Hall], counted: bool) -> None:
    """Without a count over all addresses thirty machines guess thirty times as much; with it 100 get through."""
    room = hall(None if counted else LoginRates(ENDLESS, ENDLESS, Rate(10, 1 / 60), ENDLESS))
    room.invite("Ada")
    statuses = guess(room, addresses=30, tries=10)
    assert statuses.count(401) == (100 if counted else 300)
    assert statuses.count(429) == (200 if counted else 0)
    room.clock.now += 60
    assert guess(room, addresses=30, tries=1).count(401) == (10 if counted else 30)


def test_one_address_guesses_at_one_account(hall: Callable[..., Hall]) -> None:
    room = hall()
    room.invite("Ada")
    assert guess(room, addresses=1, tries=12).count(401) == 10
    refused = log_in(room.from_("203.0.0.0"), "ADA")  # the right one, in other letters, does not help now
    assert refused.status == 429 and refused.headers["retry-after"] == "60"
    assert refused.detail == "There were too many wrong passwords for this name in a short time; wait 60 s."
    assert log_in(room.from_("203.0.113.7"), "Ada").status == 200  # elsewhere it does
    room.clock.now += 60
    assert log_in(room.from_("203.0.0.0"), "Ada").status == 200
    assert guess(room, addresses=1, tries=10).count(401) == 10  # whoever came in begins anew


@pytest.mark.parametrize("former", [True, False])
def test_others_who_guess_do_not_keep_the_owner_out(
    hall: Callable[..., Hall], former: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under the former limits ten wrong tries, and one more whenever one was allowed, locked an account for good."""
    if former:
        monkeypatch.setattr(Logins, "_is_familiar", lambda self, pair: False)
    room = hall(LoginRates(FORMER_ADDRESS, ENDLESS, ENDLESS, FORMER_NAME) if former else None)
    room.invite("Ada", "Bob")
    home = room.from_("192.0.2.1")
    assert log_in(home, "Ada").status == 200
    came_in = 0
    for _ in range(5):
        guess(room, addresses=150, tries=1)
        came_in += log_in(home, "Ada").status == 200
        room.clock.now += 30
    assert came_in == (0 if former else 5)
    assert log_in(room.from_("192.0.2.2"), "Bob").status == 200  # another account never noticed
    assert guess(room, addresses=150, tries=1).count(429) > 100  # and those who guess are still held up


@pytest.mark.parametrize("counted", [False, True])
def test_one_password_for_all_names_from_one_address(hall: Callable[..., Hall], counted: bool) -> None:
    """Spraying: no account sees more than one try, so the address must be counted."""
    room = hall(None if counted else LoginRates(ENDLESS, ENDLESS, Rate(10, 1 / 60), Rate(100, 1 / 6)))
    visitor = room.from_("203.0.113.7")
    statuses = [log_in(visitor, f"name {number}", "password1234").status for number in range(130)]
    assert statuses.count(401) == (100 if counted else 130)
    other = log_in(room.from_("203.0.113.8"), "name 1", "password1234")
    assert other.status == 401  # an address beside it is another


def test_one_house_has_many_addresses_of_ipv6(hall: Callable[..., Hall]) -> None:
    room = hall()
    room.invite("Ada")
    tries = [
        log_in(room.from_(f"2001:db8:0:7::{number:x}"), "Ada", "wrong one 123").status
        for number in range(1, 13)
    ]
    assert tries.count(401) == 10
    assert log_in(room.from_("2001:db8:0:8::1"), "Ada").status == 200


@pytest.mark.parametrize("former", [True, False])
def test_a_session_of_ones_own_does_not_hide_whose_password_is_tried(
    hall: Callable[..., Hall], former: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tries were counted for who asked: with a session of one's own another's account was guessed at freely."""
    if former:

        def for_who_asks(self: Front, request: Any, action: str, person: Person, name: str) -> Any:
            return self.logins.begin(request.client.host, person.name or name)

        monkeypatch.setattr(Front, "password_try", for_who_asks)
    room = hall()
    room.invite("Ada", "Eve")
    statuses = []
    for number in range(12):
        visitor = room.from_("203.0.113.7")
        entered = log_in(room.from_("203.0.113.9"), "Eve")
        headers = {"Cookie": entered.cookies[0].split(";")[0], "X-CSRF-Token": entered.json["csrf"]}
        wish = {"name": "Ada", "password": f"wrong password {number}"}
        statuses.append(visitor.api("POST", "/session", wish, headers=headers).status)
    assert log_in(room.from_("203.0.113.7"), "Ada").status == (200 if former else 429)
    assert statuses.count(429) == 2  # either way somebody's count is full: Eve's, or Ada's


def test_the_limits_are_settings_and_may_change(hall: Callable[..., Hall]) -> None:
    room = hall(settings="failures_per_pair: 3, failures_per_account: 5, logins_per_address: 400")
    room.invite("Ada")
    assert guess(room, addresses=1, tries=5).count(401) == 3
    assert guess(room, addresses=4, tries=1).count(401) == 2  # five in all
    change(room.folder, "failures_per_account: 5", "failures_per_account: 500")
    room.clock.now += 300
    assert guess(room, addresses=30, tries=1).count(401) == 30


def test_tries_at_the_same_time_are_counted() -> None:
    """Every try is counted before its password is looked at; what was right, or never looked at, is given back."""
    from longshot.arena.policy import Refusal
    from longshot.arena.settings import ServerSettings

    logins = Logins(ServerSettings, clock=lambda: 0.0)
    at_once = [logins.begin("203.0.113.7", "Ada") for _ in range(10)]
    with pytest.raises(Refusal, match="too many wrong passwords for this name"):
        logins.begin("203.0.113.7", "Ada")
    for error in (Refusal(503, "The disk is full."), RuntimeError()):
        with pytest.raises(type(error)), at_once.pop():
            raise error
        logins.begin("203.0.113.7", "Ada")
    with at_once.pop():
        pass
    assert [logins.begin("203.0.113.7", "Ada") for _ in range(10)]  # after one that was right
