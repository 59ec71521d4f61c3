"""A competition in a folder or on a server: submit, look, cancel, run, rank.

What is asked is the same: here the services answer in this process, there over HTTP.
"""

from __future__ import annotations

import datetime as dt
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from longshot.arena.client import Client, Receipt
from longshot.arena.policy import Refusal
from longshot.arena.settings import FREE
from longshot.base import UserError, hash_file, progress

if TYPE_CHECKING:
    from longshot.arena.worker import LocalClient


class LogLine(NamedTuple):
    """A line of a log: a system message with its time, or what the submission printed."""

    time: str  # UTC; empty for what was printed
    text: str


class ConnectedCompetition:
    """A competition in a folder, held by its owner, or on a server, taken part in. Made by :func:`connect`.

    Parameters
    ----------
    client : Client or LocalClient
        What asks.

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

    def __init__(self, client: Client | LocalClient) -> None:
        self._client = client
        self._folder = client.folder

    def __repr__(self) -> str:
        return f"<ConnectedCompetition {self._folder or getattr(self._client, 'url', '')}>"

    def info(self) -> dict[str, Any]:
        """Return phases, leagues, limits: what everybody may know."""
        return dict(self._client.ask("GET", "/competition"))

    def submit(
        self,
        submission: str | Path,
        *,
        phase: str | None = None,
        league: str = FREE,
        fact_sheet: str | Path | Mapping[str, str] | None = None,
        team: str | None = None,
        pseudonym: str | None = None,
        ranked: bool = True,
    ) -> Receipt:
        """Hand a submission in, after the check of ``check_submission``: what fails it uses no quota.

        The last phase asks for what ``enter_final`` asks for. Broken off on the way to a server, the same call goes on
        where it stopped.

        Parameters
        ----------
        submission : str or Path
            A folder or a zip with a model.py; it is checked here first, as the server will.
        phase : str, optional
            Phase to submit to. Default: the one that is open.
        league : str
            League to compete in. The meta-learning league has a quota of its own.
        fact_sheet : path or mapping, optional
            YAML or JSON that describes the method. Or its fields; 'longshot compete fact-sheet' prints an empty one.
        team : str, optional
            Name of the team, in a folder; a server knows yours by the token. It has 1 to 100 letters; upper and lower
            case, width of letters and white space do not count.
        pseudonym : str, optional
            Name to show in place of the team's, in a folder. 1 to 40 letters, and nobody else's name or pseudonym.
        ranked : bool
            Whether the team's entries have a rank, in a folder. Not with a conflict of interest.

        Returns
        -------
        Receipt
            The submission's number, and the hash of what is there.
        """
        from longshot.arena.submission_check import check_submission, read_sheet, write_zip

        sheet = read_sheet(Path(fact_sheet)) if isinstance(fact_sheet, str | Path) else fact_sheet
        if self._folder is not None:
            wishes = {"league": league, "team": team, "pseudonym": pseudonym, "ranked": ranked}
            return self._enter(Path(submission), phase, sheet, **wishes)
        info = self.info()
        if league not in info["leagues"]:
            raise UserError(f"There is no league '{league}' here; there are: {', '.join(info['leagues'])}.")
        check_submission(submission, league=league)
        name = f"{Path(submission).resolve().name.removesuffix('.zip')}.zip"
        with tempfile.TemporaryDirectory(prefix="longshot-submit-") as folder:
            archive = Path(submission)
            if archive.is_dir():
                archive = Path(folder, name)
                write_zip(Path(submission), archive)
            size, digest = archive.stat().st_size, hash_file(archive)
            if size > info["upload_bytes"]:
                most = info["upload_bytes"]
                raise Refusal(
                    413,
                    f"The submission has {size / 2**20:,.1f} MB, at most {most / 2**20:,.1f} are allowed",
                    "make it smaller",
                )
            wish: dict[str, Any] = {"size": size, "sha256": digest, "name": name, "league": league}
            wish |= {"phase": phase, "fact_sheet": None if sheet is None else dict(sheet)}
            upload = self._client.ask("POST", "/uploads", body=wish)
            return Receipt(**self._send(archive, upload))

    def _enter(
        self, submission: Path, phase: str | None, sheet: Mapping[str, str] | None, **wishes: Any
    ) -> Receipt:
        """Enter a submission of any team into the folder's competition: its owner's word is enough."""
        from longshot.arena import queue
        from longshot.arena.server import uploads
        from longshot.arena.server.server_context import ServerContext
        from longshot.arena.submission_check import dump_sheet

        if wishes["team"] is None:
            raise UserError("A submission in a folder is a team's, and none is named", "name it with {team}")
        with ServerContext(Path(self._folder or "")) as context:
            phases = context.competition.phases
            taking = [each.name for each in phases if each.submissions and not each.practice]
            number = queue.enter(
                context.competition,
                context.store,
                submission,
                phase=phase or (taking or [phases[-1].name])[0],  # where none takes any, entering says so
                fact_sheet=dump_sheet(sheet) if sheet else None,
                **wishes,
            )
            return uploads.receipt(context, number)

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

    def status(self, submission: int | None = None, *, every: bool = False) -> Any:
        """List one's team's submissions, newest first, or return one of them with its runs, history and fact sheet.

        Parameters
        ----------
        submission : int, optional
            The number of one.
        every : bool
            Those of all teams, for organisers; in a folder always.
        """
        if submission is not None:
            return self._client.ask("GET", f"/submissions/{submission}")
        items: list[Any] = []
        while True:
            before = items[-1]["id"] if items else None
            path = self._of_all("/submissions", every)
            page = self._client.ask("GET", path, query={"before": before, "limit": 100})
            items += page["items"]
            if not page["items"] or len(items) >= page["total"]:
                return items

    def uploads(self, *, every: bool = False) -> list[dict[str, Any]]:
        """List one's team's uploads that were begun and not finished, the oldest first.

        Parameters
        ----------
        every : bool
            Those of all teams, for organisers; in a folder always.
        """
        return list(self._client.ask("GET", self._of_all("/uploads", every)))

    def delete_upload(self, upload: str, *, every: bool = False) -> dict[str, Any]:
        """Give an unfinished upload up, so that the team may begin another.

        Parameters
        ----------
        upload : str
            Its id.
        every : bool
            Of any team, for organisers; in a folder always.
        """
        path = self._of_all(f"/uploads/{quote(upload, safe='')}", every)
        return dict(self._client.ask("DELETE", path))

    def _of_all(self, path: str, every: bool) -> str:
        return f"/organiser{path}" if every or self._folder is not None else path

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

    def rerun(self, submission: int) -> dict[str, Any]:
        """Put a submission that has ended back into the queue, for organisers.

        Parameters
        ----------
        submission : int
            Its number.
        """
        return dict(self._client.ask("POST", f"/organiser/submissions/{submission}/rerun"))

    def enter_final(self) -> list[dict[str, Any]]:
        """Enter the last valid submission of every team that qualified into the final, once, for organisers.

        Returns
        -------
        list of dict
            Every team of the phase before, with the reason where it does not enter.
        """
        return list(self._client.ask("POST", "/organiser/final"))

    def hand_in_fact_sheet(self, submission: int, sheet: str | Path | Mapping[str, str]) -> list[str]:
        """Give a submission its fact sheet, or another one in place of the former.

        Parameters
        ----------
        submission : int
            Its number.
        sheet : path or mapping
            YAML or JSON that describes the method, or its fields.

        Returns
        -------
        list of str
            Fields that the competition asks for and the sheet does not fill in.
        """
        from longshot.arena.submission_check import read_sheet

        fields = read_sheet(Path(sheet)) if isinstance(sheet, str | Path) else dict(sheet)
        page = self._client.ask("PUT", f"/submissions/{submission}/fact-sheet", body={"fields": fields})
        return list(page["submission"]["lacking"])

    def board(
        self, *, phase: str | None = None, league: str | None = None, by: str | None = None
    ) -> dict[str, Any]:
        """Return the leaderboard of a phase and league.

        Parameters
        ----------
        phase : str, optional
            Phase to show. Default: the last with scores.
        league : str, optional
            League to show. The command shows all unless one is named, this method the first.
        by : str, optional
            Which submission of a team counts: last, best or selected. As the competition has it unless given.
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


def connect(competition: str | Path, token: str | None = None) -> ConnectedCompetition:
    """Connect to a competition: in a folder as its owner, on a server as whoever has the token.

    Parameters
    ----------
    competition : str or Path
        Its folder, or the server's address, as ``https://cup.example.org``.
    token : str, optional
        One's token, from the server's page; unless given, that of the environment's ``LONGSHOT_TOKEN``.

    Returns
    -------
    ConnectedCompetition
        ``submit``, ``uploads``, ``delete_upload``, ``status``, ``log``, ``cancel``, ``board``, ``quota``, ``queue``,
        ``hand_in_fact_sheet``; for organisers ``rerun``, ``enter_final``; for machines that run submissions ``work``.

    Examples
    --------
    >>> import longshot
    >>> longshot.competition.create("near-cup", tasks=1, image_size=16).title
    'Toybox'
    >>> server = longshot.serve_competition("near-cup")
    >>> for cup in (connect(server.url), connect("near-cup")):
    ...     [phase["name"] for phase in cup.info()["phases"]]
    ['public', 'feedback', 'final']
    ['public', 'feedback', 'final']
    >>> server.close()
    """
    if isinstance(competition, str) and "://" in competition:
        return ConnectedCompetition(Client(competition, token))
    from longshot.arena.worker import LocalClient

    return ConnectedCompetition(LocalClient(Path(competition)))


def local_time(utc: str) -> str:
    """Format a server's time in UTC, and as this machine's clock shows it where that differs.

    >>> local_time("2027-06-15 12:00:00").startswith("2027-06-15 12:00 UTC")
    True
    """
    moment = dt.datetime.fromisoformat(utc.replace("Z", "+00:00"))
    moment = moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
    universal, here = f"{moment.astimezone(dt.UTC):%Y-%m-%d %H:%M} UTC", moment.astimezone()
    return f"{universal} ({here:%Y-%m-%d %H:%M} here)" if here.utcoffset() else universal
