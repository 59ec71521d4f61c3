"""A competition on a server, as its participants use it: submit, look, cancel, see who is where."""

from __future__ import annotations

import datetime as dt
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from longshot.arena.client import Client, Receipt
from longshot.arena.policy import Refusal
from longshot.arena.settings import FREE
from longshot.base import UserError, hash_file, progress


class LogLine(NamedTuple):
    """A line of a log: a system message with its time, or what the submission printed."""

    time: str  # UTC; empty for what was printed
    text: str


class RemoteCompetition:
    """A competition on a server. Made by :func:`connect`.

    Parameters
    ----------
    client : Client
        What asks the server.

    Examples
    --------
    >>> import longshot
    >>> longshot.competition.create("far-cup", tasks=1, image_size=16).title
    'Toybox'
    >>> server = longshot.serve_competition("far-cup")
    >>> cup = longshot.competition.connect(server.url)
    >>> cup.info()["title"], cup.board()["lines"], cup.queue()["waiting"]
    ('Toybox', [], 0)
    >>> server.close()
    """

    def __init__(self, client: Client) -> None:
        self._client = client

    def __repr__(self) -> str:
        return f"<RemoteCompetition {self._client.url}>"

    def info(self) -> dict[str, Any]:
        """Return phases, leagues, limits: what everybody may know."""
        return dict(self._client.ask("GET", "/competition"))

    def submit(
        self,
        submission: str | Path,
        *,
        phase: str | None = None,
        league: str = FREE,
        fact_sheet: Mapping[str, str] | None = None,
    ) -> Receipt:
        """Hand a submission in. Broken off, the same call goes on where it stopped.

        Parameters
        ----------
        submission : str or Path
            A folder or a zip with a model.py; it is checked here first, as the server will.
        phase : str, optional
            Phase to submit to; the one that is open unless named.
        league : str
            League to compete in.
        fact_sheet : mapping, optional
            Field → text.

        Returns
        -------
        Receipt
            The submission's number, and the hash of what the server has.
        """
        from longshot.arena.submission_check import check_submission, write_zip

        info = self.info()
        if league not in info["leagues"]:
            raise UserError(f"There is no league '{league}' here; there are: {', '.join(info['leagues'])}.")
        check_submission(submission, league=league)
        with tempfile.TemporaryDirectory(prefix="longshot-submit-") as folder:
            archive = Path(submission)
            if archive.is_dir():
                archive = Path(folder, _zip_name(submission))
                write_zip(Path(submission), archive)
            size, digest = archive.stat().st_size, hash_file(archive)
            if size > info["upload_bytes"]:
                most = info["upload_bytes"]
                raise Refusal(
                    413,
                    f"The submission has {size / 2**20:,.1f} MB, at most {most / 2**20:,.1f} are allowed",
                    "make it smaller",
                )
            wish = {"size": size, "sha256": digest, "name": _zip_name(submission), "league": league}
            optional = {"phase": phase, "fact_sheet": None if fact_sheet is None else dict(fact_sheet)}
            wish |= {key: value for key, value in optional.items() if value is not None}
            upload = self._client.ask("POST", "/uploads", body=wish)
            return Receipt(**self._send(archive, upload))

    def _send(self, archive: Path, upload: dict[str, Any]) -> dict[str, Any]:
        identity = upload["id"]
        with progress("upload", total=upload["size"], unit="B") as bar, archive.open("rb") as file:
            shown = 0
            while True:
                offset = upload["received"]
                bar.advance(offset - shown)
                shown = offset
                if offset < upload["size"]:
                    file.seek(offset)
                    piece = file.read(upload["chunk"])
                    upload = self._put(identity, offset, piece)
                    continue
                try:
                    return dict(self._client.ask("POST", f"/uploads/{identity}/finish"))
                except Refusal as error:
                    if error.status != 409:
                        raise
                    upload = self._client.ask("GET", f"/uploads/{identity}")
                    if upload["state"] not in ("open", "checking"):
                        raise
                    time.sleep(1.0)

    def _put(self, identity: str, offset: int, piece: bytes) -> dict[str, Any]:
        """Send a piece; where an answer was lost, the server says how far it is."""
        try:
            query = {"offset": offset}
            return dict(self._client.ask("PUT", f"/uploads/{identity}", query=query, data=piece))
        except Refusal as error:
            if error.status != 409:
                raise
            upload = dict(self._client.ask("GET", f"/uploads/{identity}"))
            if upload["state"] != "open" or upload["received"] == offset:
                raise
            return upload

    def status(self, submission: int | None = None) -> Any:
        """List one's team's submissions, newest first, or return one of them with its runs and its history.

        Parameters
        ----------
        submission : int, optional
            The number of one.
        """
        if submission is not None:
            return self._client.ask("GET", f"/submissions/{submission}")
        items: list[Any] = []
        while True:
            before = items[-1]["id"] if items else None
            page = self._client.ask("GET", "/submissions", query={"before": before, "limit": 100})
            items += page["items"]
            if not page["items"] or len(items) >= page["total"]:
                return items

    def uploads(self, *, every: bool = False) -> list[dict[str, Any]]:
        """List one's team's uploads that were begun and not finished, the oldest first.

        Parameters
        ----------
        every : bool
            Those of all teams, for organisers.
        """
        return list(self._client.ask("GET", "/organiser/uploads" if every else "/uploads"))

    def delete_upload(self, upload: str, *, every: bool = False) -> dict[str, Any]:
        """Give an unfinished upload up, so that the team may begin another.

        Parameters
        ----------
        upload : str
            Its id.
        every : bool
            Of any team, for organisers.
        """
        path = f"{'/organiser' if every else ''}/uploads/{quote(upload, safe='')}"
        return dict(self._client.ask("DELETE", path))

    def quota(self) -> list[dict[str, Any]]:
        """Return what one's team may still submit, and when the day's count begins anew."""
        return list(self._client.ask("GET", "/quota"))

    def log(
        self, submission: int, *, follow: bool = False, tell: Callable[[LogLine], None] | None = None
    ) -> list[LogLine]:
        """Return the log of a submission, of all its seeds.

        Parameters
        ----------
        submission : int
            Its number.
        follow : bool
            Wait for what is still to come, until the submission has ended.
        tell : callable, optional
            Hears every line as it comes.
        """
        lines: list[LogLine] = []
        for line in self._lines(submission, follow):
            lines.append(line)
            if tell is not None:
                tell(line)
        return lines

    def _lines(self, submission: int, follow: bool) -> Iterator[LogLine]:
        seeds = [run["seed"] for run in self.status(submission)["runs"]]
        cursors, ended = dict.fromkeys(seeds, "0.0.0"), dict.fromkeys(seeds, False)
        while True:
            fresh = 0
            for seed in seeds:
                query = {"seed": seed, "cursor": cursors[seed]}
                part = self._client.ask("GET", f"/submissions/{submission}/log", query=query)
                if seed == seeds[0]:  # messages are the submission's, not the run's
                    yield from (LogLine(*message) for message in part["messages"])
                yield from (LogLine("", line) for line in part["text"].splitlines())
                fresh += len(part["text"]) + len(part["messages"])
                cursors[seed], ended[seed] = part["cursor"], part["ended"]
            if all(ended.values()) or not (follow or fresh):
                return
            if not fresh:
                time.sleep(1.0)

    def cancel(self, submission: int) -> dict[str, Any]:
        """End a submission that waits or runs.

        Parameters
        ----------
        submission : int
            Its number.
        """
        return dict(self._client.ask("POST", f"/submissions/{submission}/cancel"))

    def board(
        self, *, phase: str | None = None, league: str | None = None, by: str | None = None
    ) -> dict[str, Any]:
        """Return the leaderboard of a phase and league.

        Parameters
        ----------
        phase, league : str, optional
            The last phase with scores and the first league unless named.
        by : str, optional
            Which submission of a team counts: last, best or selected.
        """
        return dict(self._client.ask("GET", "/board", query={"phase": phase, "league": league, "by": by}))

    def queue(self) -> dict[str, Any]:
        """Say how long the queue is, and who works on it."""
        return dict(self._client.ask("GET", "/queue"))

    def work(self, *, forever: bool = False, tell: Callable[[str], None] = lambda text: None) -> int:
        """Run waiting submissions on this machine, with a token for workers; gives the number of runs done.

        Parameters
        ----------
        forever : bool
            Wait for further submissions when none is left.
        tell : callable
            Hears one line about the end of every run.
        """
        from longshot.arena.worker import work

        return work(self._client, forever=forever, tell=tell)


def connect(server: str, token: str | None = None) -> RemoteCompetition:
    """Connect to a competition on a server.

    Parameters
    ----------
    server : str
        Its address, as ``https://cup.example.org``.
    token : str, optional
        One's token, from the server's page; unless given, that of the environment's ``LONGSHOT_TOKEN``.

    Returns
    -------
    RemoteCompetition
        ``submit``, ``uploads``, ``delete_upload``, ``status``, ``log``, ``cancel``, ``board``, ``quota``, ``queue``
        and, for machines that run submissions, ``work``.

    Examples
    --------
    >>> import longshot
    >>> longshot.competition.create("near-cup", tasks=1, image_size=16).title
    'Toybox'
    >>> server = longshot.serve_competition("near-cup")
    >>> cup = connect(server.url)
    >>> [phase["name"] for phase in cup.info()["phases"]]
    ['public', 'feedback', 'final']
    >>> server.close()
    """
    return RemoteCompetition(Client(server, token))


def local_time(utc: str) -> str:
    """Format a server's time in UTC and as this machine's clock shows it.

    >>> local_time("2027-06-15 12:00:00").startswith("2027-06-15 12:00 UTC (")
    True
    """
    moment = dt.datetime.fromisoformat(utc.replace("Z", "+00:00"))
    moment = moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
    return f"{moment.astimezone(dt.UTC):%Y-%m-%d %H:%M} UTC ({moment.astimezone():%Y-%m-%d %H:%M} here)"


def _zip_name(source: str | Path) -> str:
    name = Path(source).resolve().name
    return name if name.endswith(".zip") else f"{name}.zip"
