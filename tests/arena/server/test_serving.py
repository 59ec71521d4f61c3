"""Who is let in and how: other machines need TLS or a proxy, a folder has one server, names are exact."""

from __future__ import annotations

import shutil
import signal
import ssl
import subprocess
import sys
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import longshot
from longshot.base import UserError

from ..conftest import write_competition
from .conftest import PORTS, Arena, Visitor, archive, change, enter, send
from .test_attacks import held_run


@pytest.fixture
def folder(images: Path, tmp_path: Path, empty_database: Path) -> Path:
    write_competition(tmp_path / "competition", images)
    shutil.copy(empty_database, tmp_path / "competition")
    return tmp_path / "competition"


def test_other_machines_need_tls(folder: Path) -> None:
    with pytest.raises(UserError, match="passwords would go over the network as they are"):
        longshot.serve_competition(folder, host="0.0.0.0")
    with pytest.raises(UserError, match="TLS needs both a certificate and its key"):
        longshot.serve_competition(folder, certificate="cert.pem")


def test_a_folder_has_one_server(folder: Path) -> None:
    server = longshot.serve_competition(folder, port=next(PORTS))
    try:
        with pytest.raises(UserError, match="is served already"):
            longshot.serve_competition(folder, port=next(PORTS))
    finally:
        server.close()
    longshot.serve_competition(folder, port=next(PORTS)).close()  # and again when it has ended


def test_a_folder_without_a_competition_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"There is no competition\.yaml in"):
        longshot.serve_competition(tmp_path)


@pytest.mark.parametrize("dated", [False, True])
def test_serving_tells_of_phases_that_are_open_without_a_date(folder: Path, dated: bool) -> None:
    """To whoever starts it, and to organisers on the first page; to nobody else."""
    if dated:
        change(folder, "tasks: 3, per_day", "start: 2020-01-01, end: 2999-01-01, tasks: 3, per_day")
        change(folder, "tasks: 3, seeds", "start: 2999-01-01, tasks: 3, seeds")
    command = [sys.executable, "-m", "longshot", "compete", "serve", str(folder), "--port", str(next(PORTS))]
    # Who runs the suite in the background may have it ignore Ctrl-C; the server must not.
    listening = signal.signal(signal.SIGINT, signal.default_int_handler)
    served = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    signal.signal(signal.SIGINT, listening)
    assert served.stdout is not None
    lines = [served.stdout.readline() for _ in range(3)]
    visitor = Visitor(int(urlsplit(lines[0].split()[4]).port or 0))
    try:
        organiser = enter(visitor, "Olga", lines[2].strip().partition("code=")[2])
        pages = [person.ask("GET", "/").body.decode() for person in (organiser, visitor)]
    finally:
        served.send_signal(signal.SIGINT)
        errors = served.communicate(timeout=60)[1]
    notes = [line for line in errors.splitlines() if line.startswith("note: ")]
    assert len(notes) == (0 if dated else 2)
    assert all("takes submissions now and has no start and no end" in note for note in notes)
    assert [page.count("For organisers: phase") for page in pages] == [0 if dated else 2, 0]


def test_behind_a_proxy_it_answers_under_its_name(folder: Path) -> None:
    server = longshot.serve_competition(folder, port=next(PORTS), names=["cup.example.org"])
    try:
        assert server.url == "https://cup.example.org/" and server.invitation.startswith(server.url)
        visitor = Visitor(server.port)
        own = {"Host": "cup.example.org", "X-Forwarded-Proto": "https", "X-Forwarded-For": "203.0.113.7"}
        assert visitor.api("GET", "/competition", headers=own).status == 200
        wish = {"name": "a", "password": "b"}
        assert (
            visitor.api("POST", "/session", wish, headers={**own, "Origin": "https://cup.example.org"}).status
            == 401
        )
        assert (
            visitor.api("POST", "/session", wish, headers={**own, "Origin": "https://evil.example"}).status
            == 403
        )
        assert visitor.api("GET", "/competition", headers={"Host": "other.example.org"}).status == 421
    finally:
        server.close()


def test_tls_of_its_own(folder: Path, tmp_path: Path) -> None:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("needs openssl to make a certificate")
    command = [
        openssl,
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "1",
        "-subj",
        "/CN=localhost",
    ]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "key.pem", "-out", "cert.pem"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    server = longshot.serve_competition(
        folder, port=next(PORTS), certificate=tmp_path / "cert.pem", key=tmp_path / "key.pem"
    )
    try:
        assert server.url.startswith("https://127.0.0.1:")
        trusted = ssl.create_default_context(cafile=str(tmp_path / "cert.pem"))
        with urllib.request.urlopen(f"{server.url}api/v1/competition", context=trusted, timeout=60) as answer:
            assert answer.status == 200
        with pytest.raises(
            UserError, match=r"could not prove who it is: .* look at its address and at your clock"
        ):
            longshot.competition.connect(server.url).info()
    finally:
        server.close()


def test_what_a_run_prints_is_seen_while_it_runs(own_arena: Arena) -> None:
    arena = own_arena
    change(arena.folder, "tasks: 3, per_day", "tasks: 3, logs: printed, per_day")
    number = int(send(arena.ada, archive())["submission"])
    base, query = held_run(arena, number)[1:]
    sent = arena.worker.good("POST", f"{base}/log", data=b"epoch 1\nep", query={**query, "offset": 0})
    assert sent == {"bytes": 10}
    part = arena.ada.good("GET", f"/submissions/{number}/log")
    assert part["text"] == "| epoch 1\n" and not part["ended"]
    again = arena.worker.good("POST", f"{base}/log", data=b"epoch 1\nep", query={**query, "offset": 0})
    assert again == {"bytes": 10}  # an answer was lost: nothing is there twice
    arena.worker.good("POST", f"{base}/log", data=b"och 2\n", query={**query, "offset": 10})
    part = arena.ada.good("GET", f"/submissions/{number}/log", query={"cursor": part["cursor"]})
    assert part["text"] == "| epoch 2\n"
    arena.ada.good("POST", f"/submissions/{number}/cancel")
    assert arena.worker.good("POST", f"{base}/alive", query=query) == {"held": False}
    assert arena.ada.good("GET", f"/submissions/{number}/log")["ended"]
