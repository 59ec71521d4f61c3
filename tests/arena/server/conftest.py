"""A small competition on a server of its own, with everybody who may come: visitor, two teams, organiser, worker."""

from __future__ import annotations

import http.client
import io
import json
import shutil
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest

import longshot
from answers import Answer
from longshot.arena.server import credentials
from longshot.arena.server.competition_serving import CompetitionServer
from longshot.arena.server.rate_limits import LoginRates, Rate, Rates
from longshot.arena.server.server_context import ServerContext
from longshot.arena.store import Store

from ..conftest import TEMPLATE, write_competition, write_submission

PASSWORD = "correct horse battery staple"
ENDLESS = Rate(1e9, 1e9)
PLENTY = Rates(ENDLESS, ENDLESS, LoginRates(*[ENDLESS] * 4))
PORTS = iter(range(18700, 20000, 5))


@dataclass
class Visitor:
    """Somebody who asks, with exactly the headers that a test gives."""

    port: int
    headers: dict[str, str] = field(default_factory=dict)

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        data: bytes | None = None,
        headers: dict[str, str] | None = None,
        query: dict[str, Any] | None = None,
    ) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        sent = {"Host": f"127.0.0.1:{self.port}", **self.headers, **(headers or {})}
        if body is not None:
            data = json.dumps(body).encode()
            sent.setdefault("Content-Type", "application/json")
        if data is not None:
            sent.setdefault("Content-Length", str(len(data)))
        address = f"{path}?{urlencode(query)}" if query else path
        try:
            connection.putrequest(method, address, skip_host=True, skip_accept_encoding=True)
            for name, value in sent.items():
                connection.putheader(name, value)
            connection.endheaders(data)
            return Answer.read(connection.getresponse())
        finally:
            connection.close()

    def api(self, method: str, path: str, body: Any = None, **options: Any) -> Answer:
        return self.ask(method, f"/api/v1{path}", body, **options)

    def good(self, method: str, path: str, body: Any = None, **options: Any) -> Any:
        """The answer's content, which must be good."""
        answer = self.api(method, path, body, **options)
        assert answer.status == 200, answer.body
        return answer.json


@dataclass
class Arena:
    """A competition that is served, and its people."""

    server: CompetitionServer
    folder: Path
    visitor: Visitor
    organiser: Visitor
    ada: Visitor  # leads team 'Ada'
    bob: Visitor  # leads team 'Bob'
    worker: Visitor
    worker_token: str

    @property
    def context(self) -> ServerContext:
        return self.server._built.context

    @property
    def port(self) -> int:
        return self.visitor.port

    def register(self, name: str) -> Visitor:
        """A participant with an account and no team."""
        code = self.organiser.good("POST", "/organiser/invitations", {})["code"]
        return enter(self.visitor, name, code)

    def token(self, person: Visitor, *scopes: str) -> str:
        wish = {"name": "test", "scopes": list(scopes or ("submit", "read-own"))}
        return str(person.good("POST", "/tokens", wish)["token"])

    def submit(self, person: Visitor, data: bytes | None = None, **wish: Any) -> int:
        """Hand an archive in; gives its number."""
        return int(send(person, data or archive(), **wish)["submission"])


def enter(visitor: Visitor, name: str, code: str) -> Visitor:
    """Register and log in."""
    visitor.good("POST", "/accounts", {"name": name, "password": PASSWORD, "code": code})
    return log_in(visitor, name)


def log_in(visitor: Visitor, name: str, password: str = PASSWORD) -> Visitor:
    answer = visitor.api("POST", "/session", {"name": name, "password": password})
    assert answer.status == 200, answer.body
    cookie = answer.cookies[0].split(";")[0]
    return Visitor(visitor.port, {"Cookie": cookie, "X-CSRF-Token": answer.json["csrf"]})


def archive(text: str | None = None, **files: str) -> bytes:
    """A submission as a zip that works, or with another model.py."""
    bodies = {
        "meta": "        return MyLearner()",
        "fit": "        return Guess(support_set[3])",
        "predict": "        return np.zeros(len(query_set), dtype=np.int64)",
        "load": "        pass",
        "save": "        pass",
        "top": "import numpy as np\nfrom api import MetaLearner, Learner, Predictor\n",
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as packed:
        packed.writestr("model.py", TEMPLATE.format(**bodies) if text is None else text)
        for name, content in files.items():
            packed.writestr(name, content)
    return buffer.getvalue()


def send(person: Visitor, data: bytes, **wish: Any) -> Any:
    """An upload from its announcement to its receipt."""
    import hashlib

    announced = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest(), **wish}
    upload = person.good("POST", "/uploads", announced)
    person.good("PUT", f"/uploads/{upload['id']}", data=data, query={"offset": 0})
    return person.good("POST", f"/uploads/{upload['id']}/finish")


def change(folder: Path, old: str, new: str) -> None:
    path = folder / "competition.yaml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


@pytest.fixture(scope="session", autouse=True)
def quick_passwords() -> Iterator[None]:
    """The strength of hashes is a number in each of them; tests make weak ones."""
    before = credentials.COST, credentials.PARALLEL
    credentials.COST, credentials.PARALLEL = 1 << 4, 1
    yield
    credentials.COST, credentials.PARALLEL = before


def open_arena(folder: Path, *, rates: Rates = PLENTY, **options: Any) -> Arena:
    server = longshot.serve_competition(folder, port=next(PORTS), rates=rates, **options)
    port = int(urlsplit(server.url).port or 0)
    visitor = Visitor(port)
    organiser = enter(visitor, "Olga", server.invitation.partition("code=")[2])
    arena = Arena(server, folder, visitor, organiser, visitor, visitor, visitor, "")
    for name in ("Ada", "Bob"):
        person = arena.register(name)
        person.good("POST", "/team", {"name": name})
        setattr(arena, name.lower(), person)
    arena.worker_token = organiser.good("POST", "/organiser/workers", {"name": "w"})["token"]
    arena.worker = Visitor(port, {"Authorization": f"Bearer {arena.worker_token}"})
    return arena


@pytest.fixture(scope="session")
def empty_database(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with its tables and nothing else: copied, it spares a test the steps that make them."""
    folder = tmp_path_factory.mktemp("empty") / "competition"
    Store(write_competition(folder, images)).engine.dispose()
    return folder / "competition.db"


@pytest.fixture(scope="module")
def arena(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arena]:
    """One server for the tests of a module that do not disturb each other."""
    folder = tmp_path_factory.mktemp("arena") / "competition"
    write_competition(folder, images)
    change(folder, "per_day: 3, total: 4", "per_day: 0, total: 0, attempts_per_day: 0")
    opened = open_arena(folder)
    yield opened
    opened.server.close()


@pytest.fixture
def own_arena(images: Path, tmp_path: Path, empty_database: Path) -> Iterator[Arena]:
    """A server for one test, with the small competition's quotas."""
    write_competition(tmp_path / "competition", images)
    shutil.copy(empty_database, tmp_path / "competition")
    opened = open_arena(tmp_path / "competition")
    yield opened
    opened.server.close()


@pytest.fixture
def code_folder(tmp_path: Path) -> Path:
    return write_submission(tmp_path / "code")
