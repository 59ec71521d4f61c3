"""The worker: runs, archives and hidden data come from a client, in this process or over HTTP, and results go back.

What is hidden and came over the network lies in the worker's cache under the hash of its content, readable for its user
alone as far as the sandbox allows: its user reads training images, and the boxes see nothing else.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self, TypeVar
from urllib.parse import unquote

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from longshot.arena import environments, queue, sandbox, submission_runs
from longshot.arena.client import Client
from longshot.arena.competition_data import CompetitionData, HiddenTask, load_tasks
from longshot.arena.inside.wire import one_line
from longshot.arena.policy import OF_ROLE, Person, Refusal
from longshot.arena.queue import Claim
from longshot.arena.server.api_staff import OPERATIONS
from longshot.arena.server.operations import PARAMETER, FileAnswer, Written, plain
from longshot.arena.server.people import HOST
from longshot.arena.server.server_context import ServerContext
from longshot.arena.settings import Competition, Phase
from longshot.arena.submission_runs import RunOutcome, score_run
from longshot.base import UserError, cache_dir, cache_places, read_record, write_text

FREE = 1 << 30  # bytes of disk below which no run is taken: the worker pauses, and says so


class FetchedData(CompetitionData):
    """The data of one run, as ``CompetitionData`` has them, from files that were fetched.

    Parameters
    ----------
    competition : Competition
        Its settings.
    paths : mapping
        Hash → file.
    files : dict
        The job's files.
    hidden : list of Path
        What no submission may see.
    """

    def __init__(
        self, competition: Competition, paths: Mapping[str, Path], files: dict[str, Any], hidden: list[Path]
    ) -> None:
        super().__init__(competition)
        self.paths, self.files, self.hidden = paths, files, hidden

    def training_files(self, phase: Phase) -> dict[str, Path]:
        """Map file name in the sandbox's data folder → file."""
        return {blob["name"]: self.paths[blob["sha256"]] for blob in self.files["training"]}

    def pixels(self, name: str) -> NDArray[np.uint8]:
        """Return uint8 [N, S, S, 3] of a test dataset."""
        digest = next(blob["sha256"] for blob in self.files["images"] if blob["name"] == name)
        images: NDArray[np.uint8] = np.load(self.paths[digest], mmap_mode="r", allow_pickle=False)
        return images

    def test_tasks(self, phase: Phase, seed: int, submission: int | None = None) -> list[HiddenTask]:
        """Return the tasks of the run."""
        return load_tasks(self.paths[self.files["tasks"]["sha256"]].read_text(encoding="utf-8"))

    def private(self) -> list[Path]:
        """List what no submission may see: everything that was fetched, and the cache."""
        return self.hidden


def work(
    client: Client | LocalClient, *, forever: bool = False, tell: Callable[[str], None] = lambda text: None
) -> int:
    """Do waiting runs until none is left (or for ever); gives the number of runs done. ``tell`` hears of each end."""
    sandbox.require()
    clear_leftovers()
    client.patient()
    name = f"{socket.gethostname()[:30]}:{os.getpid()}:{time.time_ns() % 10**10}"
    bench = Bench(client, name)
    done, last_wait = 0, ""
    try:
        while True:
            try:
                job, wait = bench.claim()
                if wait and wait != last_wait:
                    tell(one_line(f"waiting: {wait}"))
                last_wait = wait or ""
                if job is None:
                    if wait is None and not forever:
                        return done
                    time.sleep(client.pause)
                    continue
                ending, ended = bench.do(job)
            except UserError as error:  # the data, the disk, the network: nobody's run would go better
                lasting = isinstance(error, Refusal) and error.status in (401, 403, 422)
                if not forever or lasting:
                    raise
                tell(one_line(f"waiting: {error}"))
                time.sleep(5 * client.pause)
                continue
            done += ended
            tell(one_line(f"submission {job['submission']}, seed {job['seed']}: {ending}"))
    finally:
        with suppress(UserError):
            client.ask("POST", "/work/stop", body={"worker": name})


def clear_leftovers() -> None:
    """Delete the folders of runs whose worker was killed on this machine; those of living ones stay."""
    prefix = _run_prefix()
    for folder in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        process = folder.name.removeprefix(prefix).partition("-")[0]
        if process.isdigit() and not Path("/proc", process).exists():
            shutil.rmtree(folder, ignore_errors=True)


def _run_prefix() -> str:
    """Return how folders of runs on this machine begin; containers that share a disk differ in their host name."""
    return f"longshot-run-{re.sub(r'[^A-Za-z0-9]', '', socket.gethostname())[:30]}-"


class Bench:
    """Where one worker does its runs.

    Parameters
    ----------
    client : Client or LocalClient
        What asks for runs.
    name : str
        The worker's own name.
    """

    def __init__(self, client: Client | LocalClient, name: str) -> None:
        self.client, self.name = client, name
        settings = client.ask("GET", "/work")
        self.blobs = cache_dir("competitions", settings["id"])
        self.blobs.chmod(0o755)
        self.settings: dict[str, Any] = {}
        self.job: dict[str, Any] = {}  # what it does now
        self._read(settings)

    def _read(self, settings: dict[str, Any]) -> None:
        """Read the competition as the server has it now."""
        if settings == self.settings:
            return
        folder = self.client.folder or self.blobs / "competition"
        folder.mkdir(exist_ok=True)
        if settings["requirements"] and self.client.folder is None:
            write_text(folder / settings["settings"]["requirements"], settings["requirements"])
        for blob in settings["weights"] if self.client.folder is None else ():
            path = folder / settings["settings"]["weights"] / blob["name"]
            self.client.fetch(f"/work/blobs/{blob['sha256']}", path, blob["sha256"])
        values = _tuples(settings["settings"])
        self.competition = read_record(Competition, {**values, "folder": folder}, "The server's competition")
        self.equipment = environments.equipment(self.competition)
        self.settings = settings

    def claim(self) -> tuple[dict[str, Any] | None, str | None]:
        """Claim the next run; without one, say why one that waits is not handed out."""
        if (free := shutil.disk_usage(self.blobs).free) < FREE:
            why = f"{free >> 20:,} MB of disk are free on it, and {FREE >> 20:,} are needed"
            self.client.ask("POST", "/work/stop", body={"worker": self.name, "why": why})
            return None, why
        claiming = self.client.ask("POST", "/work/claim", body={"worker": self.name})
        return claiming["job"], claiming["wait"]

    def do(self, job: dict[str, Any]) -> tuple[str, bool]:
        """Do one run; return how it ended, and whether that was recorded as its end."""
        self.job, self.base = job, f"/work/runs/{job['run']}"
        self.query = {"worker": self.name, "attempt": job["attempt"]}
        try:
            with tempfile.TemporaryDirectory(prefix=f"{_run_prefix()}{os.getpid()}-") as folder:
                Path(folder).chmod(0o755)
                run = Path(folder) / f"{job['submission']:06d}" / f"seed-{job['seed']}"
                ending = self._run(run)
            return ending or "was cancelled, or taken over by another worker", ending is not None
        except Refusal as error:
            if error.status == 409:  # not ours any more
                return "was cancelled, or taken over by another worker", False
            raise
        except UserError as error:
            self._give_back(f"the worker stopped: {error}", counted=False)
            raise
        except Exception as error:
            why = submission_runs.runner_failed(error)  # the queue goes on
            self._give_back(why, counted=True)
            return why, False
        except BaseException:  # Ctrl-C
            self._give_back("the worker was stopped", counted=False)
            raise

    def _run(self, folder: Path) -> str | None:
        """Do one run in ``folder``; return how it ended, None when it was no longer this worker's."""
        begun = time.monotonic()
        folder.mkdir(parents=True)
        with submission_runs.signs_of_life(self.client.beat, self._alive(folder / "log.txt")) as lost_run:
            self._read(self.client.ask("GET", "/work"))
            outcome = self._outcome(folder, lost_run)
            if lost_run.is_set():
                return None
            for name in ("log.txt", "printed.txt", "answers.jsonl", "scores.json", "task_scores.json"):
                if (folder / name).is_file():
                    content = (folder / name).read_bytes()
                    self._tell("PUT", f"files/{name}", data=content)
            ending = {"duration": time.monotonic() - begun, "reason": outcome.reason}
            if not self._tell("POST", "finish", body=ending)["held"]:
                return None
        if outcome.scores is None:
            return f"failed: {outcome.reason}"
        return f"scored {outcome.scores['overall']['normalized_accuracy']:.4f}"

    def _outcome(self, folder: Path, stop: threading.Event) -> RunOutcome:
        job, files = self.job, self.job["files"]
        digests = [blob["sha256"] for blob in (*files["training"], *files["images"], files["tasks"])]
        paths = {each: self.client.fetch(f"/work/blobs/{each}", self.blobs / each, each) for each in digests}
        caches = [path for path in cache_places() if path.exists()]
        data = FetchedData(self.competition, paths, files, [self.blobs, *caches, *self.client.private()])
        if job["kind"] == "score":
            answers = self.client.fetch(
                f"{self.base}/answers", folder / "answers.jsonl", None, query=self.query
            )
            if answers.parent != folder:
                shutil.copyfile(answers, folder / "answers.jsonl")
            phase = self.competition.phase(job["phase"])
            return RunOutcome(score_run(data, phase, job["seed"], job["submission"], folder), None)
        archive = folder.parent / "submission.zip"
        archive = self.client.fetch(
            f"{self.base}/archive", archive, job["archive"]["sha256"], query=self.query
        )
        claimed = Claim(*(job[name] for name in Claim._fields))
        return submission_runs.outcome(self.competition, data, claimed, archive, folder, stop, self.equipment)

    def _tell(self, method: str, path: str, **content: Any) -> Any:
        return self.client.ask(method, f"{self.base}/{path}", query=self.query, **content)

    def _give_back(self, why: str, *, counted: bool) -> None:
        body = {"why": one_line(why), "counted": counted}
        with suppress(UserError):  # its lease ends anyway
            self._tell("POST", "release", body=body)

    def _alive(self, log: Path) -> Callable[[], bool]:
        """Make a check whether the run is still ours, which also sends the server what was printed since the last."""
        client, base, query, phase = self.client.hurried(), self.base, self.query, self.job["phase"]
        sent = 0

        def alive() -> bool:
            nonlocal sent
            if not client.ask("POST", f"{base}/alive", query=query)["held"]:
                return False
            if self.competition.phase(phase).logs == "printed" and log.is_file():
                with log.open("rb") as file:
                    file.seek(sent)
                    data = file.read(256 << 10)
                if data:
                    answer = client.ask("POST", f"{base}/log", query={**query, "offset": sent}, data=data)
                    sent = answer["bytes"]
            return True

        return alive


def _tuples(value: Any) -> Any:
    """Convert JSON's lists to the tuples that settings hold."""
    if isinstance(value, list):
        return tuple(map(_tuples, value))
    return {key: _tuples(each) for key, each in value.items()} if isinstance(value, dict) else value


TRIES = 6  # while the database does not answer, with pauses of 1, 2, 4 … seconds
_WORKER = Person("worker", name="here", scopes=OF_ROLE["worker"], token=0)
_Answer = TypeVar("_Answer")
_ROUTES = [
    (each, re.compile(PARAMETER.sub(lambda part: f"(?P<{part[1]}>[^/]+)", each.path))) for each in OPERATIONS
]


class LocalClient:
    """Asks the services of the competition in a folder, as its owner and as a worker.

    Parameters
    ----------
    folder : Path
        The competition's folder.
    lease : float
        Seconds without a sign of life after which another worker's run is taken over.
    """

    def __init__(self, folder: Path, *, lease: float | None = None) -> None:
        self.context = ServerContext(folder)
        self.folder: Path | None = folder
        weakref.finalize(self, self.context.close)
        self.context.lease = lasting = queue.LEASE if lease is None else lease
        self.pause, self.beat = 1.0, lasting / 4

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
        person = _WORKER if path.startswith("/work") else HOST
        kinds = operation.parameters
        sent: dict[str, Any] = {
            name: int(text) if kinds[name] == "int" else unquote(text)
            for name, text in match.groupdict().items()
        }
        sent |= {name: value for name, value in (query or {}).items() if value is not None}
        sent |= {**(body or {}), **operation.fixed, **({} if data is None else {"data": data})}
        try:
            answer = insist(lambda: operation.service(self.context, person, **sent))
        except Refusal as error:
            if isinstance(error.__cause__, UserError):  # strangers do not hear it
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
