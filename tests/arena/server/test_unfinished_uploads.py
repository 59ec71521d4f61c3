"""Uploads that were begun and not finished hold a team up: its members and organisers see them and give them up."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from answers import Answer
from browsing import Window
from forked import ForkServer
from longshot import competition as api
from longshot.arena.database_tables import uploads as upload_rows
from longshot.arena.server import uploads
from longshot.base import UserError

from .conftest import Arena, Visitor, archive, send
from .test_browser import sign_in

SENTENCE = (
    "Your team has 3 uploads begun and not finished, and 3 are allowed; finish one, or delete one on the page Submit "
    "or by the command 'compete uploads'."
)


def begin(person: Visitor, number: int, size: int = 10) -> Answer:
    wish = {"size": size, "sha256": f"{number:064x}", "name": f"try-{number}.zip"}
    return person.api("POST", "/uploads", wish)


def begin_three(person: Visitor) -> list[str]:
    return [str(begin(person, number).json["id"]) for number in range(uploads.OPEN)]


def press(person: Visitor, path: str, csrf: str | None = None) -> Answer:
    """A form with nothing but its guard, as a browser without scripts sends it."""
    sent = person.headers["X-CSRF-Token"] if csrf is None else csrf
    headers = {"Cookie": person.headers["Cookie"]}
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    return Visitor(person.port, headers).ask(
        "POST", path, data=urlencode({"csrf": sent}).encode(), headers=kind
    )


@pytest.mark.parametrize("gives_up", [False, True])
def test_three_hold_a_team_up_until_one_is_given_up(own_arena: Arena, gives_up: bool) -> None:
    """Without giving one up a team waits for a day, as it did before that could be done."""
    ada = own_arena.ada
    first, *_ = begin_three(ada)
    ada.good("PUT", f"/uploads/{first}", data=b"12345", query={"offset": 0})
    refused = begin(ada, 3)
    assert (refused.status, refused.detail) == (409, SENTENCE)
    if gives_up:
        assert ada.good("DELETE", f"/uploads/{first}")["state"] == "deleted"
        assert not list((own_arena.folder / "uploads").glob("*.part"))
    assert begin(ada, 3).status == (200 if gives_up else 409)
    assert begin(own_arena.bob, 3).status == 200  # another team was never held up


def test_what_is_given_up_counts_as_an_attempt_of_the_day(own_arena: Arena) -> None:
    """So that beginning and giving up ends after ``attempts_per_day`` and does not fill the database for ever."""
    ada = own_arena.ada
    identity = str(begin(ada, 0).json["id"])
    assert next(row["attempts"] for row in ada.good("GET", "/quota") if row["phase"] == "feedback") == 0
    ada.good("DELETE", f"/uploads/{identity}")
    assert next(row["attempts"] for row in ada.good("GET", "/quota") if row["phase"] == "feedback") == 1
    assert identity not in uploads._locks


def test_a_team_sees_its_own_and_organisers_see_all(own_arena: Arena) -> None:
    arena = own_arena
    begin(arena.ada, 0)
    begin(arena.bob, 1, size=20)
    (own,) = arena.ada.good("GET", "/uploads")
    facts = [own[key] for key in ("team", "by", "name", "phase", "size", "received", "state")]
    assert facts == ["Ada", "Ada", "try-0.zip", "feedback", 10, 0, "open"]
    assert {row["team"] for row in arena.organiser.good("GET", "/organiser/uploads")} == {"Ada", "Bob"}
    send(arena.ada, archive())
    assert [row["id"] for row in arena.ada.good("GET", "/uploads")] == [
        own["id"]
    ]  # what is finished is not among them
    assert arena.register("Cleo").good("GET", "/uploads") == []  # in no team


def test_only_their_team_and_organisers_give_them_up(own_arena: Arena) -> None:
    arena = own_arena
    first, second, third = begin_three(arena.ada)
    for person in (arena.bob, arena.register("Cleo")):
        assert person.api("DELETE", f"/uploads/{first}").status == 404
        assert person.api("DELETE", f"/organiser/uploads/{first}").status == 403
        assert press(person, f"/uploads/{first}/delete").status == 404
        assert press(person, f"/organise/uploads/{first}/delete").status == 403
    reading = Visitor(arena.port, {"Authorization": f"Bearer {arena.token(arena.ada, 'read-own')}"})
    assert reading.api("DELETE", f"/uploads/{first}").status == 403
    assert len(arena.ada.good("GET", "/uploads")) == 3
    admin = Visitor(arena.port, {"Authorization": f"Bearer {arena.token(arena.organiser, 'admin')}"})
    assert admin.good("DELETE", f"/organiser/uploads/{first}")["team"] == "Ada"
    assert (
        press(arena.organiser, f"/organise/uploads/{second}/delete").headers["location"]
        == "/organise/uploads"
    )
    assert press(arena.ada, f"/uploads/{third}/delete").headers["location"] == "/submit"
    assert arena.organiser.good("GET", "/organiser/uploads") == []
    lines = [
        line for line in arena.organiser.good("GET", "/organiser/audit") if line["action"] == "upload.delete"
    ]
    assert [(line["who"], line["object"]) for line in lines] == [
        ("participant Ada", f"upload {third}"),
        ("organiser Olga", f"upload {second}"),
        ("organiser Olga", f"upload {first}"),
    ]
    assert lines[0]["before"]["name"] == "try-2.zip"


@pytest.mark.parametrize("desk", ["/uploads", "/organise/uploads"])
def test_a_form_of_another_session_gives_nothing_up(own_arena: Arena, desk: str) -> None:
    person = own_arena.ada if desk == "/uploads" else own_arena.organiser
    identity = begin(own_arena.ada, 0).json["id"]
    for csrf in ("", own_arena.bob.headers["X-CSRF-Token"]):
        assert press(person, f"{desk}/{identity}/delete", csrf).status == 403
    bare = Visitor(own_arena.port, {"Cookie": person.headers["Cookie"]})
    path = "/uploads" if desk == "/uploads" else "/organiser/uploads"
    assert bare.api("DELETE", f"{path}/{identity}").status == 403
    assert (
        own_arena.visitor.ask("GET", f"{desk}/{identity}/delete").status == 404
    )  # nothing is changed by looking
    assert [row["id"] for row in own_arena.ada.good("GET", "/uploads")] == [identity]


def test_what_was_given_up_takes_no_bytes_and_is_not_finished(own_arena: Arena) -> None:
    ada = own_arena.ada
    identity = begin(ada, 0, size=3).json["id"]
    ada.good("PUT", f"/uploads/{identity}", data=b"zip", query={"offset": 0})
    for _ in range(2):  # an answer may be lost
        assert ada.good("DELETE", f"/uploads/{identity}")["state"] == "deleted"
    audit = own_arena.organiser.good("GET", "/organiser/audit")
    assert sum(line["action"] == "upload.delete" for line in audit) == 1
    late = ada.api("PUT", f"/uploads/{identity}", data=b"zip", query={"offset": 3})
    assert (late.status, late.detail) == (409, "The upload is deleted and takes no more bytes.")
    finish = ada.api("POST", f"/uploads/{identity}/finish")
    assert (finish.status, finish.detail) == (409, "The upload is deleted; send the archive again.")
    assert begin(ada, 0, size=3).json["id"] != identity  # the same archive is a new upload


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("checking", "The upload is being checked"),
        ("taken", "The upload is taken"),
        ("expired", "The upload is expired"),
    ],
)
def test_what_is_under_way_or_over_is_not_given_up(own_arena: Arena, state: str, words: str) -> None:
    identity = begin(own_arena.ada, 0).json["id"]
    with own_arena.context.store.change() as connection:
        connection.execute(upload_rows.update().values(state=state))
    answer = own_arena.ada.api("DELETE", f"/uploads/{identity}")
    assert answer.status == 409 and answer.detail.startswith(words)
    assert own_arena.ada.good("GET", f"/uploads/{identity}")["state"] == state


def test_by_command_and_from_python(own_arena: Arena, forks: ForkServer, code_folder: Path) -> None:
    arena = own_arena
    first, second, third = begin_three(arena.ada)
    ada = (arena.server.url, "--token", arena.token(arena.ada))
    refused = forks.run("compete", "submit", ada[0], code_folder, *ada[1:], check=False)
    assert (refused.returncode, refused.stderr) == (2, f"error: {SENTENCE}\n")
    listed = forks.run("compete", "uploads", *ada).stdout
    assert all(identity in listed for identity in (first, second, third)) and "0 of 10 bytes" in listed
    given_up = forks.run("compete", "uploads", *ada, "--delete", first)
    assert given_up.stdout == "'try-0.zip' of team 'Ada' is deleted; the team may begin another\n"
    assert forks.run("compete", "submit", ada[0], code_folder, *ada[1:]).returncode == 0
    everybodys = json.loads(forks.run("compete", "uploads", arena.folder, "--json").stdout)
    assert {(row["id"], row["team"]) for row in everybodys} == {(second, "Ada"), (third, "Ada")}
    forks.run("compete", "uploads", arena.folder, "--delete", second)
    strange = forks.run("compete", "uploads", arena.folder, "--delete", "0" * 32, check=False)
    assert (strange.returncode, strange.stderr) == (2, f"error: There is no upload {'0' * 32} here.\n")
    organiser = api.connect(arena.server.url, arena.token(arena.organiser, "admin"))
    assert [row["id"] for row in organiser.uploads(every=True)] == [third]
    bob = api.connect(arena.server.url, arena.token(arena.bob))
    with pytest.raises(UserError, match="There is no upload"):
        bob.delete_upload(third)
    with pytest.raises(UserError, match="not for a participant"):
        bob.uploads(every=True)
    assert organiser.delete_upload(third, every=True)["state"] == "deleted"
    assert forks.run("compete", "uploads", *ada).stdout.strip() == "no unfinished uploads"


@pytest.fixture
def windows(browser: Any, own_arena: Arena) -> Iterator[Any]:
    opened: list[Window] = []

    def open_window(screen: str, **options: bool) -> Window:
        opened.append(Window(browser, own_arena.server.url.rstrip("/"), screen, **options))
        return opened[-1]

    yield open_window
    for window in opened:
        window.context.close()


@pytest.mark.browser
@pytest.mark.parametrize(("screen", "scripts"), [("phone", True), ("desktop", False)])
def test_in_the_browser(windows: Any, own_arena: Arena, tmp_path: Path, screen: str, scripts: bool) -> None:
    """A participant who is held up reads why, gives one up and hands in; an organiser gives another up."""
    begin_three(own_arena.ada)
    window = windows(screen, scripts=scripts)
    sign_in(window, "Ada")
    window.open("/submit")
    if scripts:
        window.check_here("/submit")
    assert "3 of 3 that your team may have at a time" in window.page.inner_text("#unfinished")
    file = tmp_path / "entry.zip"
    file.write_bytes(archive())
    hand_in(window, file)
    window.page.wait_for_selector(
        f"{'#upload-state' if scripts else '[role=alert]'}:has-text('3 uploads begun')"
    )
    window.page.click("[aria-label^='Delete try-0.zip']")
    window.page.wait_for_selector("text=2 of 3 that your team may have")
    hand_in(window, file)
    window.page.wait_for_selector("#receipt")
    organiser = windows(screen, scripts=scripts)
    sign_in(organiser, "Olga")
    organiser.open("/organise/uploads")
    if scripts:
        organiser.check_here("/organise/uploads")
    organiser.page.click("[aria-label^='Delete try-1.zip of Ada']")
    organiser.page.wait_for_selector("text=1 unfinished upload")
    assert [row["name"] for row in own_arena.ada.good("GET", "/uploads")] == ["try-2.zip"]


def hand_in(window: Window, file: Path) -> None:
    window.page.set_input_files("#file", file)
    window.page.click("text=Hand it in")
