"""What people meet on the server: links to a new password, merged teams, late entries, notices, results on pages."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
import sqlalchemy as sa

from longshot.arena.database_tables import submissions, teams
from longshot.arena.server.notices import send_notices

from .conftest import PASSWORD, Arena, change, log_in
from .test_attacks import held_run, put_scores

NEW = "another horse, another battery"


def test_a_link_sets_a_new_password_once(own_arena: Arena) -> None:
    arena = own_arena
    number = next(
        row["id"] for row in arena.organiser.good("GET", "/organiser/accounts") if row["name"] == "Ada"
    )
    assert arena.bob.api("POST", f"/organiser/accounts/{number}/password", {}).status == 403
    code = arena.organiser.good("POST", f"/organiser/accounts/{number}/password", {})["code"]
    assert arena.visitor.ask("GET", f"/reset?code={code}").status == 200
    assert arena.visitor.api("POST", "/password", {"code": code, "password": "short"}).status == 422
    assert arena.visitor.good("POST", "/password", {"code": code, "password": NEW})["name"] == "Ada"
    assert arena.ada.api("GET", "/me").status == 401  # her sessions have ended
    assert arena.visitor.api("POST", "/session", {"name": "Ada", "password": PASSWORD}).status == 401
    log_in(arena.visitor, "Ada", NEW)
    assert arena.visitor.api("POST", "/password", {"code": code, "password": NEW}).status == 403


def test_no_other_invitation_sets_a_password(own_arena: Arena) -> None:
    for path, person in (
        ("/organiser/invitations", own_arena.organiser),
        ("/team/invitations", own_arena.bob),
    ):
        code = person.good("POST", path, {})["code"]
        assert own_arena.visitor.api("POST", "/password", {"code": code, "password": NEW}).status == 403


def test_a_team_takes_its_members_and_submissions_into_another(own_arena: Arena) -> None:
    arena = own_arena
    change(arena.folder, "  final:\n    {train", "  final:\n    {start: '2099-01-01', train")
    number = arena.submit(arena.ada)
    code = arena.bob.good("POST", "/team/invitations", {})["code"]
    merged = arena.ada.good("POST", "/team/merge", {"code": code})
    assert merged["name"] == "Bob" and [member["name"] for member in merged["members"]] == ["Ada", "Bob"]
    assert [member["leads"] for member in merged["members"]] == [False, True]
    assert [row["id"] for row in arena.bob.good("GET", "/submissions")["items"]] == [number]
    assert arena.bob.good("GET", "/quota")[0]["today"] == 1  # what was used stays used
    former = arena.context.store.rows(sa.select(teams).where(teams.c.name == "Ada"))
    assert former[0]["deleted"] is not None
    assert arena.ada.api("POST", "/team/merge", {"code": code}).status == 403  # she leads none


def test_teams_merge_before_the_final_alone(own_arena: Arena) -> None:
    code = own_arena.bob.good("POST", "/team/invitations", {})["code"]
    refused = own_arena.ada.api("POST", "/team/merge", {"code": code})
    assert refused.status == 409 and "has begun, and teams merge before it" in refused.json["fact"]


def scored(arena: Arena, person: Any, score: float) -> int:
    number = arena.submit(person)
    base, query = held_run(arena, number)[1:]
    put_scores(arena, base, query, score)
    arena.worker.good("POST", f"{base}/finish", {"duration": 1.0, "reason": None}, query=query)
    return number


def test_late_entries_are_marked_and_have_no_rank(own_arena: Arena) -> None:
    arena = own_arena
    number = arena.submit(arena.ada)
    change(arena.folder, "feedback: {train", "feedback: {end: '2001-01-01', late_days: 40000, train")
    arena.submit(arena.bob, phase="feedback")
    change(arena.folder, "late_days: 40000", "late_days: 1")
    assert (
        arena.bob.api("POST", "/uploads", {"size": 1, "sha256": "0" * 64, "phase": "feedback"}).status == 422
    )
    with arena.context.store.change() as connection:
        done = submissions.update().values(state="scored", score=0.5)
        connection.execute(done)
        connection.execute(
            done.where(submissions.c.id == number).values(created="2000-12-31 00:00:00", score=0.4)
        )
    board = {
        line["team"]: line
        for line in arena.visitor.good("GET", "/board", query={"phase": "feedback"})["lines"]
    }
    assert (board["Ada"]["rank"], board["Ada"]["late"]) == (1, False)
    assert (board["Bob"]["rank"], board["Bob"]["late"]) == (None, True)
    assert '<span class="tag">late</span>' in arena.visitor.ask("GET", "/board?phase=feedback").body.decode()


@pytest.fixture
def room() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A chat room: an address, and what it was sent."""
    heard: list[dict[str, Any]] = []

    class Room(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            heard.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *args: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Room)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/", heard
    server.shutdown()


def test_notices_tell_what_happened_once_and_no_score(own_arena: Arena, room: Any) -> None:
    arena, (address, heard) = own_arena, room
    assert send_notices(arena.context) == 0  # nobody wants any
    change(arena.folder, "title: small", f"title: small\nserver: {{webhook: '{address}'}}")
    send_notices(arena.context)  # from here on
    scored(arena, arena.ada, 0.3141)
    arena.organiser.good("POST", "/announcements", {"title": "Hello", "text": "all"})
    assert send_notices(arena.context) > 0
    text = heard[-1]["text"]
    assert "Announcement: Hello" in text and "Submission 1 of Ada: scored" in text and "0.3" not in text
    assert send_notices(arena.context) == 0


def test_an_address_that_does_not_answer_hears_it_later(own_arena: Arena, room: Any) -> None:
    arena, (address, heard) = own_arena, room
    change(arena.folder, "title: small", "title: small\nserver: {webhook: 'http://127.0.0.1:9/'}")
    send_notices(arena.context)
    arena.organiser.good("POST", "/announcements", {"title": "Hello", "text": "all"})
    assert send_notices(arena.context) == 0
    change(arena.folder, "http://127.0.0.1:9/", address)
    assert send_notices(arena.context) == 1 and "Hello" in heard[-1]["text"]
