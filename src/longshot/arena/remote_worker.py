"""A worker without the competition's folder: runs, archives and hidden data come over HTTP, results go back.

What is hidden lies in the worker's cache under the hash of its content, readable for its user alone as far as the
sandbox allows: its user reads training images, and the boxes see nothing else.
"""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longshot.arena import environments, sandbox, submission_runs
from longshot.arena.client import Client
from longshot.arena.competition_data import HiddenTask, load_tasks
from longshot.arena.inside.wire import one_line
from longshot.arena.policy import Refusal
from longshot.arena.queue import Claim
from longshot.arena.settings import Competition, Phase
from longshot.arena.submission_runs import RunOutcome, score_run
from longshot.base import UserError, cache_dir, cache_places, read_record, write_text

BEAT = 10.0  # seconds between two signs of life, which also carry what was printed
FREE = 1 << 30  # bytes of disk below which no run is taken: the worker pauses, and says so
TRIES = 40
PAUSE = 2.0  # seconds between two questions when nothing waits


class RemoteData:
    """The data of one run, as ``CompetitionData`` has them, from files that were fetched.

    Parameters
    ----------
    competition : Competition
        Its settings.
    blobs : Path
        Where hidden data lie, by hash.
    files : dict
        The job's files.
    """

    def __init__(self, competition: Competition, blobs: Path, files: dict[str, Any]) -> None:
        self.competition, self.blobs, self.files = competition, blobs, files

    def training_files(self, phase: Phase) -> dict[str, Path]:
        """Map file name in the sandbox's data folder → file."""
        return {blob["name"]: self.blobs / blob["sha256"] for blob in self.files["training"]}

    def pixels(self, name: str) -> NDArray[np.uint8]:
        """Return uint8 [N, S, S, 3] of a test dataset."""
        digest = next(blob["sha256"] for blob in self.files["images"] if blob["name"] == name)
        images: NDArray[np.uint8] = np.load(self.blobs / digest, mmap_mode="r", allow_pickle=False)
        return images

    def test_tasks(self, phase: Phase, seed: int, submission: int | None = None) -> list[HiddenTask]:
        """Return the tasks of the run."""
        return load_tasks((self.blobs / self.files["tasks"]["sha256"]).read_text(encoding="utf-8"))

    def private(self) -> list[Path]:
        """List what no submission may see: everything that was fetched, and the cache."""
        return [self.blobs, *(path for path in cache_places() if path.exists())]


def work(
    client: Client,
    *,
    forever: bool = False,
    tell: Callable[[str], None] = lambda text: None,
    beat: float = BEAT,
) -> int:
    """Do waiting runs until none is left (or for ever); gives the number of runs done."""
    sandbox.require()
    client.tries = max(client.tries, TRIES)  # a run of hours is not given up for a restart of the server
    name = f"{socket.gethostname()[:30]}:{os.getpid()}:{time.time_ns() % 10**10}"
    bench = Bench(client, name, beat)
    done = 0
    try:
        while True:
            job: dict[str, Any] | None
            wait: str | None
            if (free := shutil.disk_usage(bench.blobs).free) < FREE:
                why = f"{free >> 20:,} MB of disk are free on it, and {FREE >> 20:,} are needed"
                client.ask("POST", "/work/stop", body={"worker": name, "why": why})
                tell(f"pausing: {why}")
                job, wait = None, why
            else:
                claiming = _claim(client, name, forever, tell)
                job, wait = claiming["job"], claiming["wait"]
            if job is None:
                if wait is None and not forever:
                    return done
                time.sleep(PAUSE)
                continue
            try:
                ending = bench.do(job)
            except UserError as error:
                if not forever:
                    raise
                tell(one_line(f"waiting: {error}"))
                time.sleep(5 * PAUSE)
                continue
            done += ending is not None
            line = f"submission {job['submission']}, seed {job['seed']}: "
            tell(one_line(line + (ending or "was cancelled, or taken over by another worker")))
    finally:
        with suppress(UserError):
            client.ask("POST", "/work/stop", body={"worker": name})


def _claim(client: Client, name: str, forever: bool, tell: Callable[[str], None]) -> dict[str, Any]:
    """Claim the next run; who works for ever waits for a server that is away."""
    while True:
        try:
            return dict(client.ask("POST", "/work/claim", body={"worker": name}))
        except UserError as error:
            if not forever or (isinstance(error, Refusal) and error.status in (401, 403, 422)):
                raise
            tell(one_line(f"waiting: {error}"))
            time.sleep(5 * PAUSE)


class Bench:
    """Where one worker does its runs.

    Parameters
    ----------
    client : Client
        What asks the server.
    name : str
        The worker's own name.
    beat : float
        Seconds between two signs of life.
    """

    def __init__(self, client: Client, name: str, beat: float) -> None:
        self.client, self.name, self.beat = client, name, beat
        settings = client.ask("GET", "/work")
        self.blobs = cache_dir("competitions", settings["id"])
        self.blobs.chmod(0o755)
        self.settings: dict[str, Any] = {}
        self._read(settings)

    def _read(self, settings: dict[str, Any]) -> None:
        """Read the competition as the server has it now."""
        if settings == self.settings:
            return
        folder = self.blobs / "competition"
        folder.mkdir(exist_ok=True)
        if settings["requirements"]:
            write_text(folder / settings["settings"]["requirements"], settings["requirements"])
        values = _tuples(settings["settings"])
        self.competition = read_record(Competition, {**values, "folder": folder}, "The server's competition")
        self.equipment = environments.equipment(self.competition)
        self.settings = settings

    def do(self, job: dict[str, Any]) -> str | None:
        """Do one run; gives how it ended, None when it was no longer this worker's."""
        query = {"worker": self.name, "attempt": job["attempt"]}
        base = f"/work/runs/{job['run']}"
        try:
            with tempfile.TemporaryDirectory(prefix="longshot-run-") as folder:
                Path(folder).chmod(0o755)
                return self._run(
                    job, Path(folder) / f"{job['submission']:06d}" / f"seed-{job['seed']}", base, query
                )
        except Refusal as error:
            if error.status == 409:  # not ours any more
                return None
            raise
        except UserError as error:
            # This machine's fault, or the network's: nobody's run would go better here.
            self._give_back(base, query, f"the worker stopped: {error}", counted=False)
            raise
        except Exception as error:
            why = submission_runs.runner_failed(error)
            self._give_back(base, query, why, counted=True)
            return why
        except BaseException:  # Ctrl-C
            self._give_back(base, query, "the worker was stopped", counted=False)
            raise

    def _run(self, job: dict[str, Any], folder: Path, base: str, query: dict[str, Any]) -> str | None:
        begun = time.monotonic()
        folder.mkdir(parents=True)
        alive = self._alive(base, query, folder / "log.txt", job["phase"])
        with submission_runs.signs_of_life(self.beat, alive) as lost_run:
            self._read(self.client.ask("GET", "/work"))
            for blob in (*job["files"]["training"], *job["files"]["images"], job["files"]["tasks"]):
                self.client.fetch(
                    f"/work/blobs/{blob['sha256']}", self.blobs / blob["sha256"], blob["sha256"]
                )
            data = RemoteData(self.competition, self.blobs, job["files"])
            outcome = self._outcome(job, data, folder, base, query, lost_run)
            if lost_run.is_set():
                return None
            for name in ("log.txt", "printed.txt", "answers.jsonl", "scores.json", "task_scores.json"):
                if (folder / name).is_file():
                    content = (folder / name).read_bytes()
                    self.client.ask("PUT", f"{base}/files/{name}", query=query, data=content)
            ending = {"duration": time.monotonic() - begun, "reason": outcome.reason}
            if not self.client.ask("POST", f"{base}/finish", query=query, body=ending)["held"]:
                return None
        if outcome.scores is None:
            return f"failed: {outcome.reason}"
        return f"scored {outcome.scores['overall']['normalized_accuracy']:.4f}"

    def _outcome(
        self,
        job: dict[str, Any],
        data: RemoteData,
        folder: Path,
        base: str,
        query: dict[str, Any],
        stop: threading.Event,
    ) -> RunOutcome:
        phase = self.competition.phase(job["phase"])
        if job["kind"] == "score":
            answers = folder / "answers.jsonl"
            response = self.client.ask("GET", f"{base}/answers", query=query, stream=True)
            answers.write_bytes(response.content)
            return RunOutcome(score_run(data, phase, job["seed"], job["submission"], folder), None)
        archive = folder.parent / "submission.zip"
        self.client.fetch(f"{base}/archive", archive, job["archive"]["sha256"], query=query)
        claimed = Claim(*(job[name] for name in Claim._fields))
        return submission_runs.outcome(self.competition, data, claimed, archive, folder, stop, self.equipment)

    def _give_back(self, base: str, query: dict[str, Any], why: str, *, counted: bool) -> None:
        body = {"why": one_line(why), "counted": counted}
        with suppress(UserError):  # its lease ends anyway
            self.client.ask("POST", f"{base}/release", query=query, body=body)

    def _alive(self, base: str, query: dict[str, Any], log: Path, phase: str) -> Callable[[], bool]:
        """Make a check whether the run is still ours, which also sends the server what was printed since the last."""
        client = Client(self.client.url, tries=1)
        client._session.headers.update(self.client._session.headers)
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
