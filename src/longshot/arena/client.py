"""The API's first client: one sentence for whatever goes wrong, and patience where asking again helps."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from longshot.arena.policy import Refusal
from longshot.base import UserError

API = "api/v1"
TRIES = 4  # while a server does not answer, with pauses of 1, 2, 4, 8 seconds
LONGEST = 8.0  # seconds of such a pause
TIMEOUT = (10.0, 120.0)  # seconds to connect, and without a byte
PATIENT = 40  # tries of a worker: a run of hours is not given up for a restart of the server
PAUSE = 2.0  # seconds between two questions of a worker when nothing waits
BEAT = 10.0  # seconds between two signs of life of a worker
TOKEN = "LONGSHOT_TOKEN"  # the environment's variable that holds one's token


class Receipt(NamedTuple):
    """What a participant gets for a submission that was taken; the organisers can tell a forged one."""

    submission: int
    sha256: str
    bytes: int
    phase: str
    league: str
    team: str
    received: str  # UTC
    seal: str


class Client:
    """Asks one server.

    Parameters
    ----------
    url : str
        Its address, as ``https://cup.example.org``.
    token : str, optional
        One's token; unless given, that of the environment's ``LONGSHOT_TOKEN``. Without one only what everybody may
        see is answered.
    tries : int
        How often to ask while the server does not answer.
    """

    pause, beat = PAUSE, BEAT
    folder: Path | None = None  # the competition is the server's

    def __init__(self, url: str, token: str | None = None, *, tries: int = TRIES) -> None:
        import requests

        parts = urlsplit(url if "://" in url else f"https://{url}")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UserError(f"'{url}' is no address of a server; write it as https://cup.example.org.")
        if parts.scheme == "http" and parts.hostname not in ("127.0.0.1", "localhost", "::1"):
            raise UserError(
                f"'{url}' would send your token over the network as it is", "use the server's https address"
            )
        self.url = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
        self.tries = tries
        self._session = requests.Session()
        self._session.headers["user-agent"] = "longshot"
        secret = token or os.environ.get(TOKEN)
        if secret:
            if not secret.isascii() or not secret.isprintable():
                raise UserError("The token has letters that no token has; copy it once more.")
            self._session.headers["authorization"] = f"Bearer {secret.strip()}"
        self._session.auth = lambda request: request  # nothing of ~/.netrc takes its place

    def ask(
        self,
        method: str,
        path: str,
        *,
        query: dict[str, Any] | None = None,
        body: Any = None,
        data: bytes | None = None,
        stream: bool = False,
    ) -> Any:
        """Send a request and return its answer; raise UserError with the server's sentence where it refuses.

        What may be asked twice is asked again while the server does not answer or says that it will soon; the server
        sees to it that nothing is done twice.
        """
        import requests

        for attempt in range(self.tries):
            last = attempt == self.tries - 1
            try:
                answer = self._session.request(
                    method,
                    f"{self.url}/{API}{path}",
                    params={key: value for key, value in (query or {}).items() if value is not None},
                    json=body,
                    data=data,
                    timeout=TIMEOUT,
                    stream=stream,
                    allow_redirects=False,
                    headers={"longshot-time": f"{time.time():.0f}"},
                )
            except requests.exceptions.SSLError as error:
                raise UserError(
                    f"The server {self.url} could not prove who it is: {_reason(error)}",
                    "look at its address and at your clock",
                ) from error
            except requests.exceptions.RequestException as error:
                if last:
                    raise UserError(
                        f"The server {self.url} does not answer: {_reason(error)}",
                        "look at its address and your network, and try again",
                    ) from error
                time.sleep(min(2.0**attempt, LONGEST))
                continue
            if answer.status_code in (429, 502, 503, 504) and not last:
                advice = answer.headers.get("retry-after", "")
                seconds = float(advice) if advice.isdecimal() else 0.0
                time.sleep(min(30.0, seconds or min(2.0**attempt, LONGEST)))
                continue
            return self._read(answer, stream)
        raise AssertionError

    def _read(self, answer: Any, stream: bool) -> Any:
        if answer.status_code == 200:
            if stream:
                return answer
            try:
                return answer.json()
            except ValueError:
                raise UserError(f"What answers at {self.url} is no competition server of Longshot.") from None
        try:
            problem = answer.json()
            fact, remedy = str(problem["fact"]), str(problem.get("remedy", ""))
        except (ValueError, KeyError, TypeError):
            raise UserError(
                f"What answers at {self.url} is no competition server of Longshot (status {answer.status_code})."
            ) from None
        raise Refusal(answer.status_code, fact, remedy)

    def patient(self) -> None:
        """Go on asking for as long as a worker does."""
        self.tries = max(self.tries, PATIENT)

    def hurried(self) -> Client:
        """Return a client that asks once, for another thread."""
        client = Client(self.url, tries=1)
        client._session.headers.update(self._session.headers)
        return client

    def private(self) -> list[Path]:
        """List what no submission may see of a competition that is elsewhere: nothing of it is here."""
        return []

    def fetch(
        self, path: str, target: Path, sha256: str | None, *, query: dict[str, Any] | None = None
    ) -> Path:
        """Fetch a file, by its hash where it has one: skipped where it is there, discarded where it is another."""
        if target.is_file():
            return target
        target.parent.mkdir(parents=True, exist_ok=True)
        answer = self.ask("GET", path, query=query, stream=True)
        digest = hashlib.sha256()
        temporary = target.with_name(f".{target.name}.{os.getpid()}")
        try:
            with temporary.open("wb") as out:
                for piece in _pieces(answer):
                    digest.update(piece)
                    out.write(piece)
            if sha256 is not None and digest.hexdigest() != sha256:
                raise UserError(
                    f"The file {target.name[:12]}… from {self.url} is not what it should be; ask again."
                )
            temporary.chmod(0o644)
            temporary.rename(target)
        finally:
            temporary.unlink(missing_ok=True)
        return target


def _pieces(answer: Any) -> Iterator[bytes]:
    import requests

    try:
        yield from answer.iter_content(1 << 20)
    except requests.exceptions.RequestException as error:
        raise UserError(f"The server broke off: {_reason(error)}; ask again.") from error


def _reason(error: Exception) -> str:
    """Return the innermost cause of a failed connection, in a few words."""
    cause: BaseException = error
    while cause.__cause__ is not None or cause.__context__ is not None:
        cause = cause.__cause__ or cause.__context__  # type: ignore[assignment]
    text = getattr(cause, "strerror", None) or str(cause) or type(cause).__name__
    return " ".join(str(text).split())[:160]
