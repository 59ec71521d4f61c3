"""A folder with a run, its testbeds and a training, and an explorer over it."""

from __future__ import annotations

import http.client
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import longshot
from answers import Answer
from longshot.explorer.library import slug
from longshot.explorer.serving import Explorer


class Client:
    """Asks one server, with exactly the headers that a test gives."""

    def __init__(self, explorer: Explorer) -> None:
        self.explorer = explorer
        self.port = urlsplit(explorer.url).port

    def get(self, path: str, headers: dict[str, str] | None = None, method: str = "GET") -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in {"Host": f"127.0.0.1:{self.port}", **(headers or {})}.items():
                connection.putheader(name, value)
            connection.endheaders()
            return Answer.read(connection.getresponse())
        finally:
            connection.close()

    def made(self, path: str) -> str:
        """A page whose plots are drawn: until they are, it asks to be loaded again."""
        for _ in range(60):
            answer = self.get(path)
            if "refresh" not in answer.headers:
                return answer.text
        raise AssertionError(f"{path} was not made")

    def links(self, path: str) -> list[str]:
        """The addresses that a page links to."""
        return [link.replace("&amp;", "&") for link in re.findall(r'href="(/[^"]*)"', self.get(path).text)]

    def item(self, kind: str, name: str) -> str:
        """The address of an item by kind and the words of its id."""
        page = self.get(f"/?kind={kind}&q={name}").text
        return next(link for link in re.findall(rf'href="(/{kind}/[^"/?]*)"', page) if name in link)

    def dataset(self, folder: Path) -> str:
        """The address of a dataset by its folder: the cache that all tests share has many of one name."""
        return f"/dataset/{slug(folder.name, 'dataset', str(folder))}"


@pytest.fixture(scope="session")
def explored(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two testbeds with the same queries, and a run of two methods on them."""
    folder = tmp_path_factory.mktemp("explored")
    settings: dict[str, Any] = {"tasks": 24, "way": 4, "shot": 2, "query": 3, "seed": 1}
    longshot.sample(photos, **settings).save(folder / "easy.parquet")
    hard = longshot.sample(photos, **settings, instances="difficult", judge="pixels")
    hard.save(folder / "hard.parquet")
    beds = [folder / "easy.parquet", folder / "hard.parquet"]
    longshot.evaluate(
        beds,
        backbones="pixels",
        methods=["protonet", "ridge"],
        out=folder / "runs" / "first",
        save_scores=True,
    )
    return folder


@pytest.fixture(scope="module")
def client(explored: Path) -> Iterator[Client]:
    """An explorer over the folder."""
    explorer = longshot.serve(explored, port=18420)
    yield Client(explorer)
    explorer.close()
