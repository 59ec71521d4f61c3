"""Who may ask: hosts, origins, methods, tokens; and what browsers are told."""

from __future__ import annotations

from pathlib import Path

import pytest

import longshot
from longshot.base import UserError

from .conftest import Client


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:{port}", 200),
        ("localhost:{port}", 200),
        ("LOCALHOST:{port}", 200),
        ("[::1]:{port}", 200),
        ("127.0.0.1", 421),
        ("localhost", 421),
        ("127.0.0.1:1", 421),
        ("evil.example:{port}", 421),
        ("127.0.0.1.evil.example:{port}", 421),
        ("", 421),
    ],
)
def test_only_its_own_name_with_the_port_is_answered(client: Client, host: str, status: int) -> None:
    assert client.get("/", {"Host": host.format(port=client.port)}).status == status


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Origin": "http://127.0.0.1:{port}"}, 200),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://127.0.0.1:1"}, 403),
        ({"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors"}, 200),
        ({"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate"}, 200),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, 200),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, 403),
        ({"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors"}, 403),
    ],
)
def test_pages_of_other_sites_read_nothing(client: Client, headers: dict[str, str], status: int) -> None:
    told_headers = {name: value.format(port=client.port) for name, value in headers.items()}
    answer = client.get("/", told_headers)
    assert answer.status == status
    assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_it_only_shows(client: Client, method: str) -> None:
    assert client.get("/", method=method).status == 405


@pytest.mark.parametrize("path", ["/", "/nope", "/live", "/static/x/explorer.css"])
def test_every_answer_says_what_browsers_may_do(client: Client, path: str) -> None:
    headers = client.get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy and "script-src 'self';" in policy
    assert "style-src 'self';" in policy and "frame-ancestors" in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"


def test_without_a_notebook_nobody_frames_it(explored: Path) -> None:
    explorer = longshot.serve(explored, port=18520, framed=False)
    try:
        headers = Client(explorer).get("/").headers
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert headers["x-frame-options"] == "DENY"
    finally:
        explorer.close()


def test_a_token_opens_the_door_once(explored: Path) -> None:
    explorer = longshot.serve(explored, host="0.0.0.0", port=18620, token="a long secret")
    try:
        client = Client(explorer)
        assert client.get("/").status == 401
        assert client.get("/?token=another").status == 401
        entered = client.get("/?kind=run&token=a+long+secret")
        assert entered.status == 303 and entered.headers["location"] == "/?kind=run"
        cookie = entered.cookies[0].split(";")[0]
        assert "HttpOnly" in entered.cookies[0] and "SameSite=Strict" in entered.cookies[0]
        assert "secret" not in cookie
        assert client.get("/", {"Cookie": cookie}).status == 200
        assert client.get("/", {"Cookie": "longshot=0"}).status == 401
        assert client.get("/", {"Authorization": "Bearer a long secret"}).status == 200
        assert client.get("/", {"Host": "evil.example", "Cookie": cookie}).status == 421
    finally:
        explorer.close()


def test_other_machines_need_a_token(explored: Path) -> None:
    with pytest.raises(UserError, match="lets other machines in"):
        longshot.serve(explored, host="0.0.0.0")
    with pytest.raises(UserError, match="5 characters and needs 12"):
        longshot.serve(explored, token="short")


def test_two_servers_take_two_ports(explored: Path, client: Client) -> None:
    second = longshot.serve(explored, port=client.port)
    try:
        assert second.url != client.explorer.url
        assert Client(second).get("/").status == 200 == client.get("/").status
    finally:
        second.close()
    assert client.get("/").status == 200


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="There is no folder"):
        longshot.serve(tmp_path / "nowhere")
