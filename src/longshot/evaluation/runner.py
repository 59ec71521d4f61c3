"""Evaluate methods over testbeds: compute the units that are missing, write one file per unit."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

import numpy as np
import torch

from longshot.errors import UserError
from longshot.evaluation import provenance, units
from longshot.evaluation.compute import Stopped, Work, compute
from longshot.evaluation.plan import Plan, Testbeds
from longshot.evaluation.results import Results, open_folder, testbed_path
from longshot.files import explain_disk_errors, write_json
from longshot.methods.base import Method, TaskShape
from longshot.methods.batching import advise, bytes_per_task
from longshot.progress import progress

if TYPE_CHECKING:
    from longshot.datasets.dataset import Dataset
    from longshot.features.features import Features

MEMORY = 2 << 30  # bytes that the batches of all workers together may take


def evaluate(
    testbeds: Testbeds,
    *,
    backbones: str | Features | Sequence[str | Features],
    methods: str | Method | Sequence[str | Method],
    out: str | os.PathLike[str],
    datasets: Mapping[str, Dataset | str | Path] | None = None,
    device: str = "auto",
    workers: int | None = None,
    seed: int = 0,
    save_scores: bool = False,
) -> Results:
    """Run every method on every testbed through every backbone; results go into the folder ``out``.

    Everything is checked first. Features that are not in the cache are computed. Units that are already in the
    folder are not computed again, so the same call after an interruption goes on from there, and a call with other
    methods, backbones or testbeds extends the run. ``workers`` (threads; default: one per core) and batch sizes
    do not change the results.

    >>> evaluate("easy.parquet", backbones="pixels", methods="protonet", out="runs/first")  # doctest: +SKIP
    """
    folder = Path(out)
    plan = Plan(testbeds, backbones, methods, datasets, device, workers, seed)
    with _lock(folder):
        run = open_folder(folder)
        plan.register(run)
        works = plan.works(run)
        session = {
            "started": provenance.now(),
            "finished": None,
            "workers": plan.workers,
            "seed": seed,
            **provenance.surroundings(str(plan.device)),
        }
        run["sessions"].append(session)
        with explain_disk_errors(folder):
            for stale in folder.rglob(".*.tmp"):  # left by a killed run; the lock says nobody is writing now
                stale.unlink(missing_ok=True)
        for testbed in plan.testbeds.values():
            copy = testbed_path(folder, testbed.content_hash)
            if not copy.is_file():
                testbed.save(copy)
        write_json(folder / "run.json", run)
        _run(plan, works, folder, save_scores)
        session["finished"] = provenance.now()
        write_json(folder / "run.json", run)
    return Results(folder)


def _run(plan: Plan, works: list[Work], folder: Path, save_scores: bool) -> None:
    """Compute the units that are not in the folder, on ``plan.workers`` threads."""
    states = [units.part_state(folder, work.unit, save_scores) for work in works]
    damaged = states.count("damaged")
    if damaged:
        print(f"note: {damaged} damaged result files in {folder} are computed anew", file=sys.stderr)
    todo = [work for work, state in zip(works, states, strict=True) if state != "done"]
    for array in {id(f.array): f.array for work in todo for f in work.source.features}.values():
        advise(array)
    total = sum(len(work.unit) for work in works)
    with progress("evaluate", total=total, unit="tasks") as bar, _one_thread(plan.device):
        bar.skip(total - sum(len(work.unit) for work in todo))
        finished: SimpleQueue[int] = SimpleQueue()
        stop = threading.Event()

        def tick(count: int) -> None:
            if stop.is_set():
                raise Stopped
            finished.put(count)

        def one(work: Work) -> None:
            if not stop.is_set():
                outcome = compute(work, plan.device, save_scores, tick)
                units.write_unit(folder, work.unit, outcome.columns, outcome.seconds.tolist(), outcome.scores)

        with ThreadPoolExecutor(_affordable(plan.workers, todo), "evaluate") as pool:
            waiting: set[Future[None]] = {pool.submit(one, work) for work in todo}
            try:
                while waiting:
                    done, waiting = wait(waiting, timeout=0.2, return_when=FIRST_COMPLETED)
                    with contextlib.suppress(Empty):
                        while True:
                            bar.advance(finished.get_nowait())
                    for future in done:
                        future.result()
            except BaseException:
                # An error or Ctrl-C: units under way stop after their present batch; finished ones are on disk.
                stop.set()
                pool.shutdown(wait=False, cancel_futures=True)
                raise


def _affordable(workers: int, works: Sequence[Work]) -> int:
    """At most ``workers``, and no more than have room for their largest batch within MEMORY."""
    largest = 1
    for work in works:
        bound = work.bound
        if not len(bound):
            continue
        shape = TaskShape(
            int(bound.ways.max()),
            int(np.diff(bound.support.offsets).max()),
            int(np.diff(bound.query.offsets).max()),
            work.source.dim,
        )
        largest = max(largest, work.method.batch_bytes, bytes_per_task(work.method, shape))
    return max(1, min(workers, MEMORY // largest, len(works)))


@contextlib.contextmanager
def _one_thread(device: torch.device) -> Iterator[None]:
    """Each worker computes on one thread, so that sums do not depend on how many threads share them."""
    before = torch.get_num_threads()
    if device.type == "cpu":
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextlib.contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """One evaluate at a time writes into a run folder; the lock ends with the process, however it ends."""
    open_folder(folder)  # refuse a foreign folder before anything is written into it
    try:
        import fcntl
    except ImportError:  # Windows: no such lock
        yield
        return
    with explain_disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder / ".lock", os.O_CREAT | os.O_RDWR, 0o666)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UserError(
                f"Another 'longshot evaluate' is writing to {folder}; wait for it or choose another folder with -o."
            ) from error
        yield
    finally:
        os.close(handle)
