"""What is remembered between two reads is never old: rights, boards and tags change with what they follow from."""

from __future__ import annotations

import pytest

from longshot.arena import Competition, queue
from longshot.arena.server.server_context import ServerContext, StampedCache
from longshot.arena.store import Store

from ..test_database import Server
from ..test_database import server as server
from .conftest import Arena, Visitor, archive, change


def tagged(person: Visitor, path: str, tag: str = "") -> tuple[int, str]:
    answer = person.ask("GET", path, headers={"If-None-Match": tag} if tag else {})
    return answer.status, answer.headers.get("etag", "")


def test_a_token_that_was_used_before_is_taken_back_at_once(arena: Arena) -> None:
    wish = {"name": "short-lived", "scopes": ["read-own"]}
    made = arena.ada.good("POST", "/tokens", wish)
    bearer = Visitor(arena.port, {"Authorization": f"Bearer {made['token']}"})
    assert [bearer.api("GET", "/me").status for _ in range(3)] == [200] * 3
    arena.ada.good("DELETE", f"/tokens/{made['id']}")
    assert bearer.api("GET", "/me").status == 401


def test_who_logs_out_or_changes_teams_is_seen_so_at_once(arena: Arena) -> None:
    person = arena.register("Quentin")
    assert person.good("GET", "/me")["team"] is None
    person.good("POST", "/team", {"name": "Quentin"})
    assert person.good("GET", "/me")["team"]["name"] == "Quentin"
    person.good("POST", "/team/leave")
    assert person.good("GET", "/me")["team"] is None
    person.good("DELETE", "/session")
    assert person.api("GET", "/me").status == 401


@pytest.mark.parametrize("path", ["/api/v1/board", "/board", "/api/v1/submissions", "/submissions"])
def test_an_answer_has_a_tag_that_changes_with_it(arena: Arena, path: str) -> None:
    status, tag = tagged(arena.ada, path)
    assert status == 200 and tag
    with arena.context.store.change() as connection:  # a sign of life changes no board
        queue.sign(connection, "w/m:1:1", "idle")
    assert tagged(arena.ada, path, tag) == (304, tag)
    assert arena.ada.ask("GET", path, headers={"If-None-Match": tag}).body == b""
    assert tagged(arena.bob, path, tag)[0] == 200  # another reader has another answer
    number = arena.submit(arena.ada, archive(note=f"tag of {path}"))
    status, later = tagged(arena.ada, path, tag)
    assert status == 200 and later != tag
    arena.ada.good("POST", f"/submissions/{number}/cancel")


def test_a_tag_changes_when_hidden_scores_are_shown(own_arena: Arena) -> None:
    change(
        own_arena.folder, "tasks: 3, per_day", "tasks: 3, scores: hidden, end: '2999-01-01 00:00', per_day"
    )
    _, tag = tagged(own_arena.ada, "/api/v1/board?phase=feedback")
    assert own_arena.ada.good("GET", "/board", query={"phase": "feedback"})["hidden"]
    change(own_arena.folder, "2999-01-01", "2020-01-01")
    status, later = tagged(own_arena.ada, "/api/v1/board?phase=feedback", tag)
    assert status == 200 and later != tag
    assert not own_arena.ada.good("GET", "/board", query={"phase": "feedback"})["hidden"]


def test_the_board_is_the_same_as_without_memory(own_arena: Arena) -> None:
    """A score that another process writes is there with the next look."""
    number = own_arena.submit(own_arena.ada)
    assert own_arena.bob.good("GET", "/board", query={"phase": "feedback"})["lines"] == []
    elsewhere = Store(own_arena.context.competition)
    claimed = queue.claim(elsewhere, "other:1:1")
    assert claimed is not None and claimed.submission == number
    assert queue.finish(elsewhere, claimed, "other:1:1", score=0.5, duration=1.0, reason=None, half=0.1)
    elsewhere.engine.dispose()
    (line,) = own_arena.bob.good("GET", "/board", query={"phase": "feedback"})["lines"]
    assert (line["team"], line["score"], line["half"], line["own"]) == ("Ada", 0.5, 0.1, False)
    assert line["submission"] is None  # whose it is not
    (line,) = own_arena.ada.good("GET", "/board", query={"phase": "feedback"})["lines"]
    assert line["own"] and line["submission"] == number and line["sheet"] == []


def stamps_change(store: Store, competition: Competition) -> None:
    memory, elsewhere = StampedCache(store), Store(competition)
    try:
        before = memory.stamp(), memory.state()
        assert (memory.stamp(), memory.state()) == before
        with elsewhere.change() as connection:
            queue.sign(connection, "w", "idle")
        assert memory.stamp() != before[0]
        stamp = memory.stamp()
        assert memory.kept("x", stamp, lambda: 1) == memory.kept("x", stamp, lambda: 2) == 1
        assert memory.kept("x", before[0], lambda: 3) == 3
    finally:
        memory.close()
        elsewhere.engine.dispose()


def test_stamps_of_sqlite_change_with_every_write(competition: Competition) -> None:
    context = ServerContext(competition.folder)
    stamps_change(context.store, competition)
    context.close()


@pytest.mark.long
def test_stamps_of_postgresql_change_with_every_write(competition: Competition, server: Server) -> None:
    other = competition.model_copy(update={"database": server.new_database()})
    store = Store(other)
    stamps_change(store, other)
    store.engine.dispose()
