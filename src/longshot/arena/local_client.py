"""The services of a competition in this process, asked as its server is asked over HTTP."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self, TypeVar
from urllib.parse import unquote

import sqlalchemy as sa

from longshot.arena import queue
from longshot.arena.competition_data import CompetitionData
from longshot.arena.policy import OF_ROLE, Person, Refusal
from longshot.arena.server.api_staff import OPERATIONS
from longshot.arena.server.operations import PARAMETER, FileAnswer, Written, plain
from longshot.arena.server.people import HOST
from longshot.arena.server.server_context import ServerContext
from longshot.base import UserError

TRIES = 6  # while the database does not answer, with pauses of 1, 2, 4 … seconds
WORKER = Person("worker", name="here", scopes=OF_ROLE["worker"], token=0)
_Answer = TypeVar("_Answer")
_ROUTES = [
    (each, re.compile(PARAMETER.sub(lambda part: f"(?P<{part[1]}>[^/]+)", each.path))) for each in OPERATIONS
]


class LocalClient:
    """Asks the services of the competition in a folder. Use it in a ``with`` block.

    Parameters
    ----------
    folder : Path
        The competition's folder.
    person : Person
        Who asks: its owner unless given.
    lease : float
        Seconds without a sign of life after which another worker's run is taken over.
    """

    def __init__(self, folder: Path, person: Person = HOST, *, lease: float | None = None) -> None:
        self.context, self.person = ServerContext(folder), person
        self.context.lease = lasting = queue.LEASE if lease is None else lease
        self.pause, self.beat = 1.0, lasting / 4

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.context.close()

    def ask(
        self,
        method: str,
        path: str,
        *,
        query: dict[str, Any] | None = None,
        body: Any = None,
        data: bytes | None = None,
    ) -> Any:
        """Call the service of a route and return its answer, as JSON has it; a file is its path."""
        operation, match = next(
            (each, match)
            for each, pattern in _ROUTES
            if each.method == method and (match := pattern.fullmatch(path))
        )
        kinds = operation.parameters
        sent: dict[str, Any] = {
            name: int(text) if kinds[name] == "int" else unquote(text)
            for name, text in match.groupdict().items()
        }
        sent |= {name: value for name, value in (query or {}).items() if value is not None}
        sent |= {**(body or {}), **operation.fixed, **({} if data is None else {"data": data})}
        try:
            answer = insist(lambda: operation.service(self.context, self.person, **sent))
        except Refusal as error:
            if isinstance(error.__cause__, UserError):  # what strangers are not told
                raise error.__cause__ from error
            raise
        if isinstance(answer, Written):
            return json.loads(answer.text)
        return answer.path if isinstance(answer, FileAnswer) else plain(answer)

    def fetch(
        self, path: str, target: Path, sha256: str | None, *, query: dict[str, Any] | None = None
    ) -> Path:
        """Return where a file lies: nothing is copied."""
        return Path(self.ask("GET", path, query=query))

    def patient(self) -> None:
        """Do nothing: the services are always there."""

    def hurried(self) -> Self:
        """Return what asks for signs of life."""
        return self

    def private(self) -> list[Path]:
        """List what no submission may see, wherever it lies: the competition, its datasets as they came, the cache."""
        return CompetitionData(self.context.competition).private()


def insist(ask: Callable[[], _Answer]) -> _Answer:
    """Ask again while the database does not answer: a run of hours is not lost to a restart."""
    for attempt in range(TRIES - 1):
        try:
            return ask()
        except sa.exc.OperationalError:
            time.sleep(2**attempt)
    return ask()
