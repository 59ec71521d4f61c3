"""Attacks on the web side, each with what must come of it: nothing is gained, and the server goes on."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import socket
import sqlite3
import stat
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import longshot
from longshot.arena import queue, submission_check
from longshot.arena.database_tables import runs, sessions, tokens
from longshot.arena.server import competition_app, endpoint, people
from longshot.arena.server.credentials import hash_password
from longshot.arena.server.rate_limits import Rate, Rates
from longshot.arena.server.server_context import record
from longshot.arena.submission_check import unpack
from longshot.base import ArchiveLimits, UserError

from ..conftest import write_competition
from .conftest import PASSWORD, Arena, Visitor, archive, change, log_in, open_arena, send

SCRIPT = "<script>alert(1)</script>"


@pytest.fixture(autouse=True)
def goes_on(request: pytest.FixtureRequest) -> Any:
    """After every attack the server still answers."""
    yield
    if "arena" in request.fixturenames:
        arena = request.getfixturevalue("arena")
        assert arena.visitor.api("GET", "/competition").status == 200


# --- from where: DNS rebinding, other sites ---


@pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", ""])
def test_dns_rebinding(arena: Arena, host: str) -> None:
    """A name of the attacker's that leads to this machine is answered nothing, whatever session comes along."""
    answer = arena.ada.api("GET", "/me", headers={"Host": host.format(port=arena.port)})
    assert answer.status == 421 and b"Ada" not in answer.body


def test_two_names_at_once(arena: Arena) -> None:
    lines = (
        b"GET /api/v1/competition HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nHost: evil.example\r\n\r\n" % arena.port
    )
    assert b"200" not in talk(arena.port, lines).split(b"\r\n")[0]


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"},
        {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "navigate"},
        {"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate"},
    ],
)
def test_a_form_of_another_site(arena: Arena, headers: dict[str, str]) -> None:
    """Even with the victim's cookie and token a write that another site sends is refused."""
    answer = arena.ada.api("POST", "/tokens", {"name": "x", "scopes": ["submit"]}, headers=headers)
    assert answer.status == 403
    assert not arena.ada.good("GET", "/tokens")


def test_no_other_origin_is_let_in(arena: Arena) -> None:
    origin = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
    preflight = arena.visitor.api("OPTIONS", "/session", headers=origin)
    answers = [preflight, arena.visitor.api("GET", "/competition")]
    assert preflight.status == 405
    assert not [name for answer in answers for name in answer.headers if name.startswith("access-control")]


# --- sessions and CSRF ---


def test_a_session_without_its_token_changes_nothing(arena: Arena) -> None:
    bare = Visitor(arena.port, {"Cookie": arena.ada.headers["Cookie"]})
    borrowed = {**bare.headers, "X-CSRF-Token": arena.bob.headers["X-CSRF-Token"]}
    for headers in (bare.headers, borrowed, {**bare.headers, "X-CSRF-Token": ""}):
        answer = Visitor(arena.port, headers).api("POST", "/team/invitations", {})
        assert (answer.status, "form" in answer.detail) == (403, True)
    assert bare.api("GET", "/me").status == 200  # reading needs none


def test_the_cookie_is_for_this_server_and_no_script(arena: Arena) -> None:
    answer = arena.visitor.api("POST", "/session", {"name": "Ada", "password": PASSWORD})
    (cookie,) = answer.cookies
    assert cookie.startswith("__Host-longshot=")
    words = {word.strip().lower() for word in cookie.split(";")[1:]}
    assert {"httponly", "secure", "path=/", "samesite=lax"} <= words and not [
        w for w in words if "domain" in w
    ]


def test_a_session_that_was_chosen_by_another_is_not_taken_over(arena: Arena) -> None:
    """Fixation: a cookie that the attacker planted before the login is worth nothing after it."""
    planted = Visitor(arena.port, {"Cookie": "__Host-longshot=planted"})
    answer = planted.api("POST", "/session", {"name": "Ada", "password": PASSWORD})
    assert "planted" not in answer.cookies[0]
    assert planted.api("GET", "/me").status == 401


def test_logging_in_again_ends_the_session_before(arena: Arena) -> None:
    first = log_in(arena.visitor, "Bob")
    answer = first.api("POST", "/session", {"name": "Bob", "password": PASSWORD})
    assert answer.status == 200 and first.api("GET", "/me").status == 401


def test_a_session_that_was_ended_is_over(arena: Arena) -> None:
    person = log_in(arena.visitor, "Ada")
    answer = person.api("DELETE", "/session")
    assert answer.status == 200 and "Max-Age=0" in answer.cookies[0]
    assert person.api("GET", "/me").status == 401


def test_a_session_that_nobody_used_is_over(arena: Arena) -> None:
    person = log_in(arena.visitor, "Ada")
    secret = person.headers["Cookie"].partition("=")[2]
    with arena.context.store.change() as connection:
        own = sessions.c.hash == arena.context.hashed(secret)
        connection.execute(sessions.update().where(own).values(expires="2020-01-01 00:00:00"))
        record(connection, people.HOST, "test", "a session")  # as whatever changes rights is told
    assert person.api("GET", "/me").status == 401


def test_another_password_ends_every_session(arena: Arena) -> None:
    carol = arena.register("Carol")
    other = log_in(arena.visitor, "Carol")
    assert other.api("POST", "/me/password", {"old": "wrong", "new": PASSWORD + "!"}).status == 403
    answer = other.api("POST", "/me/password", {"old": PASSWORD, "new": PASSWORD + "!"})
    assert answer.status == 200
    assert carol.api("GET", "/me").status == other.api("GET", "/me").status == 401
    assert Visitor(arena.port, {"Cookie": answer.cookies[0].split(";")[0]}).api("GET", "/me").status == 200


def test_a_change_of_rights_ends_sessions_and_a_disabled_account_loses_its_tokens(arena: Arena) -> None:
    dora = arena.register("Dora")
    token = {"Authorization": f"Bearer {arena.token(dora)}"}
    accounts = arena.organiser.good("GET", "/organiser/accounts")
    number = next(row["id"] for row in accounts if row["name"] == "Dora")
    arena.organiser.good("PATCH", f"/organiser/accounts/{number}", {"role": "organiser"})
    assert dora.api("GET", "/organiser/audit").status == 401  # not promoted by an old cookie either
    by_token = Visitor(arena.port, token)
    assert by_token.api("GET", "/organiser/audit").status == 403  # the token has the scopes it was made with
    arena.organiser.good("PATCH", f"/organiser/accounts/{number}", {"state": "disabled"})
    answer = by_token.api("GET", "/me")
    assert (answer.status, answer.detail) == (401, "The account 'Dora' is disabled.")
    assert arena.visitor.api("POST", "/session", {"name": "Dora", "password": PASSWORD}).status == 401


# --- passwords ---


def test_unknown_names_and_wrong_passwords_are_answered_alike(arena: Arena, monkeypatch: Any) -> None:
    from longshot.arena.server import credentials

    work: list[int] = []
    real = credentials._scrypt
    monkeypatch.setattr(credentials, "_scrypt", lambda *a: work.append(1) or real(*a))
    registered = arena.visitor.api("POST", "/session", {"name": "Ada", "password": "wrong password"})
    unknown = arena.visitor.api("POST", "/session", {"name": "Nobody", "password": "wrong password"})
    assert registered.status == unknown.status == 401 and registered.body == unknown.body
    assert len(work) == 2  # as much work for either


def test_passwords_are_kept_as_slow_hashes_of_their_own() -> None:
    hashes = {hash_password(PASSWORD) for _ in range(3)}
    assert len(hashes) == 3 and all(each.startswith("scrypt$") and PASSWORD not in each for each in hashes)


# --- tokens ---


@pytest.mark.parametrize(
    "header",
    ["Bearer longshot_forged", "Bearer ", "Basic QWRhOng=", "Bearer longshot_" + "x" * 5000, "Bearer ’"],
)
def test_forged_tokens(arena: Arena, header: str) -> None:
    headers = {"Authorization": header.encode().decode("latin-1")}
    for path in ("/me", "/competition", "/work"):
        assert Visitor(arena.port, headers).api("GET", path).status == 401


def test_a_token_that_ended_or_was_taken_back(arena: Arena) -> None:
    secret = arena.token(arena.ada)
    person = Visitor(arena.port, {"Authorization": f"Bearer {secret}"})
    assert person.api("GET", "/submissions").status == 200
    number = max(row["id"] for row in arena.ada.good("GET", "/tokens"))
    with arena.context.store.change() as connection:
        connection.execute(tokens.update().where(tokens.c.id == number).values(expires="2020-01-01 00:00:00"))
        record(connection, people.HOST, "test", "a token")
    answer = person.api("GET", "/submissions")
    assert answer.status == 401
    assert answer.detail.startswith("The token 'test' ended on 2020-01-01 00:00:00 UTC; make a new one")
    again = Visitor(arena.port, {"Authorization": f"Bearer {arena.token(arena.ada)}"})
    latest = max(row["id"] for row in arena.ada.good("GET", "/tokens"))
    assert arena.bob.api("DELETE", f"/tokens/{latest}").status == 404
    for each in arena.ada.good("GET", "/tokens"):
        arena.ada.good("DELETE", f"/tokens/{each['id']}")
    assert "was taken back" in again.api("GET", "/submissions").detail


def test_a_token_of_another_competition_is_worth_nothing(arena: Arena, own_arena: Arena) -> None:
    secret = arena.token(arena.ada)
    assert Visitor(own_arena.port, {"Authorization": f"Bearer {secret}"}).api("GET", "/me").status == 401
    assert Visitor(own_arena.port, arena.ada.headers).api("GET", "/me").status == 401  # nor is a session


def test_a_token_gives_no_further_rights(arena: Arena) -> None:
    reading = Visitor(arena.port, {"Authorization": f"Bearer {arena.token(arena.ada, 'read-own')}"})
    wish = {"size": 3, "sha256": "0" * 64}
    assert "scope 'submit'" in reading.api("POST", "/uploads", wish).detail
    assert reading.api("POST", "/tokens", {"name": "more", "scopes": ["submit"]}).status == 403
    for scopes in (["admin"], ["work"], ["submit", "admin"], [], ["everything"]):
        answer = arena.ada.api("POST", "/tokens", {"name": "x", "scopes": scopes})
        assert answer.status == 422 and "may have the scopes read-own, submit" in answer.detail


def test_secrets_are_in_no_file_of_the_server(arena: Arena) -> None:
    """Tokens, codes, cookies and passwords are kept as hashes; the export has not even those."""
    secret = arena.token(arena.ada)
    code = arena.organiser.good("POST", "/organiser/invitations", {})["code"]
    cookie = arena.ada.headers["Cookie"].partition("=")[2]
    with sqlite3.connect(arena.folder / "competition.db") as database:
        stored = "\n".join(database.iterdump())
    exported = arena.organiser.api("GET", "/organiser/export").body
    with zipfile.ZipFile(io.BytesIO(exported)) as packed:
        text = "".join(packed.read(name).decode("utf-8", "replace") for name in packed.namelist())
        assert "secret" not in packed.namelist() and "server.key" not in packed.namelist()
    for hidden in (secret, code, cookie, PASSWORD, arena.worker_token):
        assert hidden not in stored and hidden not in text
    assert "scrypt$" in stored and "scrypt$" not in text


def test_the_key_is_for_its_owner_alone(images: Path, tmp_path: Path) -> None:
    folder = tmp_path / "competition"
    write_competition(folder, images)
    longshot.serve_competition(folder, port=18690).close()
    for name in ("server.key", "secret"):
        assert stat.S_IMODE((folder / name).stat().st_mode) == 0o600
        (folder / name).chmod(0o644)
        with pytest.raises(UserError, match=f"{name} has the mode 644, and others than its owner"):
            longshot.serve_competition(folder, port=18690)
        (folder / name).chmod(0o600)


def test_an_invitation_is_used_once_even_by_many_at_once(arena: Arena) -> None:
    code = arena.organiser.good("POST", "/organiser/invitations", {"role": "organiser"})["code"]

    def register(number: int) -> int:
        wish = {"name": f"crowd {number}", "password": PASSWORD, "code": code}
        return arena.visitor.api("POST", "/accounts", wish).status

    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(register, range(8))) == [200] + [403] * 7


# --- forged workers ---


def test_nobody_else_is_a_worker(arena: Arena) -> None:
    secret = arena.token(arena.organiser, "admin", "submit", "read-own")
    admin = Visitor(arena.port, {"Authorization": f"Bearer {secret}"})
    for person in (arena.visitor, arena.ada, arena.organiser, admin):
        for method, path in (("GET", "/work"), ("GET", f"/work/blobs/{'0' * 64}")):
            assert person.api(method, path).status in (401, 403)
        assert person.api("POST", "/work/claim", {"worker": "me"}).status in (401, 403)


def test_a_worker_sees_the_run_that_it_holds_and_no_other(own_arena: Arena) -> None:
    arena = own_arena
    number = arena.submit(arena.ada)
    claimed = queue.claim(arena.context.store, "1/honest")
    assert claimed is not None and claimed.submission == number
    thief_token = arena.organiser.good("POST", "/organiser/workers", {"name": "thief"})["token"]
    thief = Visitor(arena.port, {"Authorization": f"Bearer {thief_token}"})
    base = f"/work/runs/{claimed.run}"
    for worker in ("honest", "1/honest", "1:honest"):
        query = {"worker": worker, "attempt": claimed.attempt}
        assert thief.api("GET", f"{base}/archive", query=query).status in (409, 422)
        assert thief.api("PUT", f"{base}/files/scores.json", data=b"{}", query=query).status in (409, 422)
        ending = {"duration": 1.0, "reason": None}
        assert thief.api("POST", f"{base}/finish", ending, query=query).status in (409, 422)
        alive = thief.api("POST", f"{base}/alive", query=query)
        assert alive.status == 422 or alive.json == {"held": False}
    for method, path in (("GET", f"/submissions/{number}"), ("GET", "/submissions"), ("GET", "/me")):
        assert thief.api(method, path).status == 403
    assert arena.context.store.submission(number)["state"] == "running"


def test_a_replayed_or_late_end_counts_nothing(own_arena: Arena) -> None:
    arena = own_arena
    number = arena.submit(arena.ada)
    late, base, query = held_run(arena)
    with arena.context.store.change() as connection:
        connection.execute(runs.update().values(seen=0.0))  # it was silent for too long
    again, _, fresh = held_run(arena)
    assert again.attempt == late.attempt + 1
    put_scores(arena, base, fresh, 0.25)
    stale = {**query}
    assert arena.worker.api("PUT", f"{base}/files/scores.json", data=b"{}", query=stale).status == 409
    ending = {"duration": 1.0, "reason": None}
    assert arena.worker.api("POST", f"{base}/finish", ending, query=stale).status == 409
    assert arena.worker.good("POST", f"{base}/finish", ending, query=fresh) == {"held": True}
    assert arena.worker.good("POST", f"{base}/finish", ending, query=fresh) == {
        "held": True
    }  # the answer was lost
    shown = arena.ada.good("GET", f"/submissions/{number}")
    assert shown["submission"]["score"] == 0.25
    assert sum("scored" in line for _, line in shown["history"]) == 1


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"overall": {"normalized_accuracy": NaN}}', "null", "[" * 100_000, '{"overall": 1}'],
)
def test_scores_that_are_none(arena: Arena, text: str) -> None:
    """A worker that is broken, or worse, brings no score onto the board."""
    number = arena.submit(arena.bob)
    base, query = held_run(arena, number)[1:]
    arena.worker.good("PUT", f"{base}/files/scores.json", data=text.encode(), query=query)
    answer = arena.worker.api("POST", f"{base}/finish", {"duration": 1.0, "reason": None}, query=query)
    assert answer.status == 422 and "scores.json" in answer.detail
    assert arena.context.store.submission(number)["score"] is None
    give_back = {"why": "broken", "counted": True}
    arena.worker.good("POST", f"{base}/release", give_back, query=query)
    arena.bob.api("POST", f"/submissions/{number}/cancel")


# --- paths ---


@pytest.mark.parametrize(
    "name",
    ["..%2f..%2fsecret", "%2e%2e/secret", "../../secret", "secret", "%00", "a\\b", "CON", "." * 300, "😀"],
)
def test_paths_lead_nowhere_else(arena: Arena, name: str) -> None:
    quoted = name if name.isascii() else "%F0%9F%98%80"
    secret = (arena.folder / "secret").read_bytes()
    for person, path in (
        (arena.worker, f"/work/blobs/{quoted}"),
        (arena.worker, f"/work/runs/1/files/{quoted}"),
        (arena.ada, f"/uploads/{quoted}"),
        (arena.ada, f"/submissions/{quoted}"),
        (arena.visitor, f"/{quoted}"),
    ):
        answer = person.api("GET", path.replace("\\", "%5c"))
        assert answer.status in (400, 404, 405) and secret not in answer.body
    query = {"worker": "w", "attempt": 1}
    answer = arena.worker.api(
        "PUT", f"/work/runs/1/files/{quoted}".replace("\\", "%5c"), data=b"x", query=query
    )
    assert answer.status in (404, 405, 409)


# --- uploads ---


def test_more_bytes_than_were_announced(arena: Arena) -> None:
    identity = announce(arena.ada, b"12345678")
    answer = arena.ada.api("PUT", f"/uploads/{identity}", data=b"123456789", query={"offset": 0})
    assert answer.status == 413
    assert arena.ada.good("GET", f"/uploads/{identity}")["received"] == 0


def test_a_piece_that_lies_about_its_length(arena: Arena) -> None:
    """Without a length the bytes are counted while they come, and the connection ends at the limit."""
    identity = announce(arena.bob, b"x" * 100)
    head = (
        f"PUT /api/v1/uploads/{identity}?offset=0 HTTP/1.1\r\nHost: 127.0.0.1:{arena.port}\r\n"
        f"Cookie: {arena.bob.headers['Cookie']}\r\nX-CSRF-Token: {arena.bob.headers['X-CSRF-Token']}\r\n"
        "Transfer-Encoding: chunked\r\n\r\n"
    ).encode()
    piece = b"100000\r\n" + b"x" * (1 << 20) + b"\r\n"
    answer = talk(arena.port, head, *[piece] * 6)
    assert b" 413 " in answer.split(b"\r\n")[0]
    assert arena.bob.good("GET", f"/uploads/{identity}")["received"] == 0


def test_a_request_with_two_lengths(arena: Arena) -> None:
    """Smuggling: what says both how long it is and that it comes in pieces is not read as two requests."""
    lines = (
        f"POST /api/v1/session HTTP/1.1\r\nHost: 127.0.0.1:{arena.port}\r\nContent-Length: 4\r\n"
        "Content-Length: 40\r\n\r\n0\r\n\r\nGET /api/v1/me HTTP/1.1\r\n\r\n"
    ).encode()
    assert b" 400 " in talk(arena.port, lines).split(b"\r\n")[0]


def test_other_bytes_than_were_announced(arena: Arena) -> None:
    data = archive()
    identity = announce(arena.ada, data)
    arena.ada.good("PUT", f"/uploads/{identity}", data=data[:-1] + b"!", query={"offset": 0})
    answer = arena.ada.api("POST", f"/uploads/{identity}/finish")
    assert answer.status == 409 and "did not arrive as it was announced" in answer.detail
    assert arena.ada.good("GET", f"/uploads/{identity}")["received"] == 0  # from the beginning
    arena.ada.good("PUT", f"/uploads/{identity}", data=data, query={"offset": 0})
    arena.ada.good("POST", f"/uploads/{identity}/finish")


@pytest.mark.parametrize("kind", ["bomb", "link", "traversal", "garbage", "no model", "no python"])
def test_hostile_archives_are_refused_in_one_sentence_and_leave_nothing(
    arena: Arena, kind: str, monkeypatch: Any
) -> None:
    monkeypatch.setattr(submission_check, "unpack", partial(unpack, limits=ArchiveLimits(bytes=20 << 20)))
    data = hostile(kind)
    before = sorted(path.name for path in (arena.folder / "submissions").glob("*"))
    identity = announce(arena.bob, data)
    for offset in range(0, len(data), 4 << 20):
        piece = data[offset : offset + (4 << 20)]
        arena.bob.good("PUT", f"/uploads/{identity}", data=piece, query={"offset": offset})
    answer = arena.bob.api("POST", f"/uploads/{identity}/finish")
    assert answer.status == 422 and "cannot be taken" in answer.detail
    again = arena.bob.api("POST", f"/uploads/{identity}/finish")
    assert again.status == 422 and "cannot be taken" in again.detail
    assert sorted(path.name for path in (arena.folder / "submissions").glob("*")) == before
    assert not list((arena.folder / "uploads").glob(f"{identity}*"))


def test_the_same_finish_many_times_at_once_is_one_submission(arena: Arena) -> None:
    data = archive()
    identity = announce(arena.ada, data)
    arena.ada.good("PUT", f"/uploads/{identity}", data=data, query={"offset": 0})

    def finish(_: int) -> tuple[int, Any]:
        answer = arena.ada.api("POST", f"/uploads/{identity}/finish")
        return answer.status, answer.json.get("submission")

    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(finish, range(6)))
    taken = {number for status, number in answers if status == 200}
    assert len(taken) == 1 and {status for status, _ in answers} <= {200, 409}
    assert arena.ada.api("POST", f"/uploads/{identity}/finish").json["submission"] in taken


def test_a_quota_is_not_outrun_by_many_at_once(own_arena: Arena) -> None:
    """Three a day: eight uploads at once, of which not more than three are begun and none counts twice."""
    arena = own_arena
    archives = [archive(note=str(number)) for number in range(8)]

    def hand_in(data: bytes) -> int | None:
        wish = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        begun = arena.ada.api("POST", "/uploads", wish)
        if begun.status != 200:
            assert begun.status in (409, 422)
            return None
        identity = begun.json["id"]
        arena.ada.good("PUT", f"/uploads/{identity}", data=data, query={"offset": 0})
        ended = arena.ada.api("POST", f"/uploads/{identity}/finish")
        return ended.json["submission"] if ended.status == 200 else None

    with ThreadPoolExecutor(8) as pool:
        taken = [number for number in pool.map(hand_in, archives) if number is not None]
    assert 1 <= len(taken) <= 3 and len(set(taken)) == len(taken)
    assert arena.ada.good("GET", "/quota")[0]["today"] == len(taken)


# --- markup, and what strangers write ---


def test_markup_in_every_field_stays_text(own_arena: Arena) -> None:
    """The API answers JSON that no browser takes for a page; control characters do not come through."""
    arena = own_arena
    ida = arena.register(f"ida {SCRIPT}")
    ida.good("POST", "/team", {"name": f"team {SCRIPT}", "pseudonym": SCRIPT})
    arena.organiser.good("POST", "/announcements", {"title": SCRIPT, "text": f"\x1b[2J{SCRIPT}"})
    number = send(ida, archive(), name=f"{SCRIPT}.zip", fact_sheet={"title": SCRIPT, SCRIPT: "\x07"})[
        "submission"
    ]
    base, query = held_run(arena, number)[1:]
    put_scores(arena, base, query, 0.5)
    arena.worker.good("POST", f"{base}/finish", {"duration": 1.0, "reason": None}, query=query)
    for person, path in (
        (arena.visitor, "/board"),
        (arena.visitor, "/announcements"),
        (ida, "/me"),
        (ida, f"/submissions/{number}"),
        (arena.organiser, "/organiser/accounts"),
        (arena.organiser, "/organiser/audit"),
        (arena.visitor, f"/board?phase={SCRIPT}"),
    ):
        answer = person.api("GET", path)
        assert answer.headers["content-type"] in ("application/json", "application/problem+json")
        assert answer.headers["x-content-type-options"] == "nosniff"
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
        assert b"\x1b" not in answer.body and b"\x07" not in answer.body
    page = (arena.folder / "submissions" / f"{number:06d}" / "seed-1" / "detailed_results.html").read_text()
    assert SCRIPT not in page


def test_no_spreadsheet_takes_a_name_for_a_formula(arena: Arena) -> None:
    eve = arena.register("Eve")
    eve.good("POST", "/team", {"name": "=HYPERLINK(1)"})
    exported = arena.organiser.api("GET", "/organiser/export").body
    with zipfile.ZipFile(io.BytesIO(exported)) as packed:
        rows = list(csv.DictReader(io.StringIO(packed.read("tables/teams.csv").decode())))
    assert [row["name"] for row in rows if "HYPERLINK" in row["name"]] == ["'=HYPERLINK(1)"]


@pytest.mark.parametrize("name", ["' OR 1=1 --", '"; DROP TABLE teams; --', "\\", "%", "_", "{team}"])
def test_names_that_are_statements(arena: Arena, name: str) -> None:
    answer = arena.visitor.api("POST", "/session", {"name": name, "password": PASSWORD})
    assert answer.status == 401
    assert arena.organiser.api("GET", "/organiser/submissions", query={"phase": name}).json["total"] == 0


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"[" * 200_000, 422),
        (b'{"name": ' + b"9" * 100_000 + b', "password": ""}', 422),
        (b'{"name": "\\ud800", "password": "\\ud800"}', 422),
        (b"\xff\xfe", 422),
        (b"x" * (300 << 10), 413),
        (b"null", 422),
        (b'{"name": 1, "password": []}', 422),
        (b'{"name": "a", "password": "b", "admin": true}', 422),
    ],
)
def test_bodies_that_are_none(arena: Arena, data: bytes, status: int) -> None:
    headers = {"Content-Type": "application/json"}
    answer = arena.visitor.api("POST", "/session", data=data, headers=headers)
    assert answer.status == status and len(answer.body) < 2000


def test_a_form_is_no_json(arena: Arena) -> None:
    """A page elsewhere can send text/plain without asking; it is not read as JSON."""
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        wish = {"name": "Ada", "password": PASSWORD}
        answer = arena.visitor.api("POST", "/session", wish, headers={"Content-Type": kind})
        assert answer.status == 415


def test_a_get_stays_a_get(arena: Arena) -> None:
    """No header and no parameter turns reading into writing."""
    for name in ("X-HTTP-Method-Override", "X-Method-Override", "X-HTTP-Method"):
        answer = arena.ada.api("GET", "/tokens", headers={name: "DELETE"}, query={"_method": "DELETE"})
        assert answer.status == 200


# --- slow clients, many requests ---


def test_half_a_header_is_not_waited_for(arena: Arena, monkeypatch: Any) -> None:
    monkeypatch.setattr(competition_app.PatientProtocol, "wait", 0.5)
    with socket.create_connection(("127.0.0.1", arena.port), 60) as connection:
        connection.sendall(b"GET /api/v1/competition HTTP/1.1\r\nHost: 127")
        assert connection.recv(100) == b""  # closed by the server


def test_a_body_that_never_comes_is_not_waited_for(arena: Arena, monkeypatch: Any) -> None:
    monkeypatch.setattr(endpoint, "PAUSE", 0.5)
    head = (
        f"POST /api/v1/session HTTP/1.1\r\nHost: 127.0.0.1:{arena.port}\r\nContent-Type: application/json\r\n"
        "Content-Length: 100\r\n\r\n{"
    )
    assert b" 408 " in talk(arena.port, head.encode()).split(b"\r\n")[0]


def test_a_body_that_drips_is_not_waited_for(arena: Arena, monkeypatch: Any) -> None:
    monkeypatch.setattr(endpoint, "PAUSE", 1.0)
    with socket.create_connection(("127.0.0.1", arena.port), 60) as connection:
        head = (
            f"POST /api/v1/session HTTP/1.1\r\nHost: 127.0.0.1:{arena.port}\r\nContent-Type: application/json\r\n"
            "Content-Length: 10000\r\n\r\n"
        )
        connection.sendall(head.encode())
        connection.settimeout(0.1)
        answer = b""
        while not answer:
            connection.sendall(b" ")
            try:
                answer = connection.recv(1000)
            except TimeoutError:
                continue
    assert b" 408 " in answer.split(b"\r\n")[0]


def test_an_address_that_asks_too_often_waits(images: Path, tmp_path: Path) -> None:
    write_competition(tmp_path / "competition", images)
    arena = open_arena(tmp_path / "competition", rates=Rates(address=Rate(40, 0.001)))
    try:
        statuses = [arena.visitor.api("GET", "/competition").status for _ in range(40)]
        assert statuses[0] == 200 and statuses[-1] == 429
    finally:
        arena.server.close()


def test_websockets_are_closed(arena: Arena) -> None:
    lines = (
        f"GET /api/v1/queue HTTP/1.1\r\nHost: 127.0.0.1:{arena.port}\r\nUpgrade: websocket\r\n"
        "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    )
    assert b" 101 " not in talk(arena.port, lines.encode()).split(b"\r\n")[0]


# --- what is hidden ---


def test_logs_of_hidden_phases_hold_nothing_that_was_printed(own_arena: Arena) -> None:
    arena = own_arena
    number = arena.submit(arena.ada)
    base, query = held_run(arena, number)[1:]
    stored = arena.worker.good("POST", f"{base}/log", data=b"label 3\n", query={**query, "offset": 0})
    assert stored == {"bytes": 0}
    arena.worker.good("PUT", f"{base}/files/printed.txt", data=b"label 3\n", query=query)
    ending = {"duration": 1.0, "reason": "it failed in fit"}
    arena.worker.good("PUT", f"{base}/files/log.txt", data=b"failed: it failed in fit\x1b[2J\n", query=query)
    arena.worker.good("POST", f"{base}/finish", ending, query=query)
    log = arena.ada.good("GET", f"/submissions/{number}/log")
    assert "label" not in json.dumps(log) and "\x1b" not in log["text"] and "it failed in fit" in log["text"]
    assert arena.bob.api("GET", f"/submissions/{number}/log").status == 404


def test_hidden_scores_are_hidden_in_every_answer(own_arena: Arena) -> None:
    arena = own_arena
    change(arena.folder, "per_day: 3", "scores: hidden, per_day: 3")
    number = arena.submit(arena.ada)
    base, query = held_run(arena, number)[1:]
    put_scores(arena, base, query, 0.4321)
    arena.worker.good("POST", f"{base}/finish", {"duration": 1.0, "reason": None}, query=query)
    for path in (
        "/board?phase=feedback",
        "/progress?phase=feedback",
        f"/submissions/{number}",
        "/submissions",
        f"/submissions/{number}/log",
        f"/submissions/{number}/scores",
    ):
        answer = arena.ada.api("GET", path)
        assert b"0.43" not in answer.body, path
    assert arena.ada.good("GET", f"/submissions/{number}")["submission"]["hidden"] is True
    assert arena.organiser.good("GET", f"/submissions/{number}")["submission"]["score"] == 0.4321
    assert arena.organiser.good("GET", "/board?phase=feedback")["lines"][0]["score"] == 0.4321
    change(arena.folder, "scores: hidden", "end: '2020-01-01 00:00', scores: hidden")
    assert arena.ada.good("GET", "/board?phase=feedback")["lines"][0]["score"] == 0.4321


def test_the_audit_log_cannot_be_changed(arena: Arena) -> None:
    with sqlite3.connect(arena.folder / "competition.db") as database:
        for statement in ("DELETE FROM audit", "UPDATE audit SET who = 'nobody'"):
            with pytest.raises(sqlite3.IntegrityError, match="append-only"):
                database.execute(statement)


# --- helpers ---


def talk(port: int, *pieces: bytes) -> bytes:
    """Send bytes as they are and read what comes back."""
    with socket.create_connection(("127.0.0.1", port), 60) as connection:
        try:
            for piece in pieces:
                connection.sendall(piece)
        except OSError:  # the server has heard enough
            pass
        answer = b""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and b"\r\n\r\n" not in answer:
            try:
                piece = connection.recv(65536)
            except OSError:
                break
            if not piece:
                break
            answer += piece
    return answer


def announce(person: Visitor, data: bytes) -> str:
    wish = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    return str(person.good("POST", "/uploads", wish)["id"])


def held_run(arena: Arena, number: int | None = None) -> tuple[queue.Claim, str, dict[str, Any]]:
    """A run that the worker 'w' holds, without its data."""
    token = arena.context.store.rows(tokens.select().where(tokens.c.account.is_(None)).order_by(tokens.c.id))[
        0
    ]
    while True:
        claimed = queue.claim(arena.context.store, f"{token['id']}/w")
        assert claimed is not None
        if number in (None, claimed.submission):
            break
        queue.cancel(arena.context.store, claimed.submission, "a test")
    return claimed, f"/work/runs/{claimed.run}", {"worker": "w", "attempt": claimed.attempt}


def put_scores(arena: Arena, base: str, query: dict[str, Any], value: float) -> None:
    metrics = ("normalized_accuracy", "accuracy", "macro_f1", "macro_precision", "macro_recall")
    group = {"tasks": 3, **dict.fromkeys(metrics, value), **{f"{name}_ci95": 0.1 for name in metrics}}
    scores = {"overall": group, **{key: {"2": group} for key in ("by_dataset", "by_ways", "by_shots")}}
    scores |= {
        "phase": "feedback",
        "seed": 1,
        "official": True,
        "meta_training_seconds": 0.1,
        "duration": 0.2,
    }
    arena.worker.good("PUT", f"{base}/files/scores.json", data=json.dumps(scores).encode(), query=query)


def hostile(kind: str) -> bytes:
    if kind == "garbage":
        return b"PK\x03\x04 garbage"
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as packed:
        if kind != "no model":
            packed.writestr("model.py", "class (" if kind == "no python" else "x = 1")
        if kind == "bomb":
            packed.writestr("zeros", bytes(30 << 20))
        elif kind == "traversal":
            packed.writestr("../../evil.py", "x")
        elif kind == "link":
            entry = zipfile.ZipInfo("labels")
            entry.external_attr = stat.S_IFLNK << 16
            packed.writestr(entry, "/etc/shadow")
    return buffer.getvalue()
