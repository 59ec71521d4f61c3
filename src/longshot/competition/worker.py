"""A worker: takes waiting runs one by one, runs them in the sandbox and records how they ended."""

from __future__ import annotations

import os
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from longshot.competition import ingestion, leagues, queue, sandbox
from longshot.competition.archive import unpack
from longshot.competition.data import Data
from longshot.competition.ingestion import Outcome
from longshot.competition.queue import Claim, archive_path
from longshot.competition.settings import Competition
from longshot.competition.store import Store
from longshot.errors import UserError

SIGN = queue.LEASE / 4  # seconds between two signs of life


def work(
    competition: Competition,
    store: Store,
    *,
    forever: bool = False,
    told: Callable[[str], None] = lambda text: None,
) -> int:
    """Do waiting runs until none is left (or for ever); gives the number of runs done. ``told`` hears of each end."""
    sandbox.require()
    data, done = Data(competition), 0
    worker = f"{socket.gethostname()[:40]}:{os.getpid()}:{time.time_ns()}"
    while True:
        claimed = queue.claim(store, worker)
        if claimed is None:
            if not forever:
                return done
            time.sleep(1)
            continue
        outcome, duration = _one(competition, store, data, claimed, worker)
        score = None if outcome.scores is None else outcome.scores["overall"]["normalized_accuracy"]
        if queue.finish(store, claimed, worker, score=score, duration=duration, reason=outcome.reason):
            done += 1
            ending = f"scored {score:.4f}" if score is not None else f"failed: {outcome.reason}"
            told(f"submission {claimed.submission}, seed {claimed.seed}: {ending}")


def run_folder(competition: Competition, submission: int, seed: int) -> Path:
    """Where the log, the answers and the scores of a run lie."""
    return archive_path(competition, submission) / f"seed-{seed}"


def _one(
    competition: Competition, store: Store, data: Data, claimed: Claim, worker: str
) -> tuple[Outcome, float]:
    """Unpack, check, run; every failure of the submission is an Outcome."""
    begun = time.monotonic()
    place = archive_path(competition, claimed.submission)
    folder = run_folder(competition, claimed.submission, claimed.seed)
    shutil.rmtree(folder, ignore_errors=True)  # of an attempt that died
    folder.mkdir(parents=True)
    with _signs_of_life(store, claimed, worker):
        try:
            source = place / "submission.zip"
            code = unpack(source if source.is_file() else place / "submission", folder / "code")
            if claimed.league == leagues.META and (found := leagues.shipped_weights(code)):
                raise UserError(
                    f"The meta-learning league allows no saved weights, but {'; '.join(found[:3])}."
                )
            outcome = ingestion.run(
                data,
                competition.phase(claimed.phase),
                code,
                folder,
                seed=claimed.seed,
                league=claimed.league,
                slot=claimed.run,
            )
        except UserError as error:
            outcome = Outcome(None, str(error))
    if outcome.reason is not None:
        with (folder / "log.txt").open("a", encoding="utf-8") as log:
            log.write(f"\nfailed: {outcome.reason}\n")
    shutil.rmtree(folder / "code", ignore_errors=True)
    return outcome, time.monotonic() - begun


@contextmanager
def _signs_of_life(store: Store, claimed: Claim, worker: str) -> Iterator[None]:
    """While in the block, tell the store every few seconds that the worker lives."""
    end = threading.Event()

    def tell() -> None:
        while not end.wait(SIGN) and queue.alive(store, claimed, worker):
            pass

    thread = threading.Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()
