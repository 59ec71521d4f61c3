"""Jobs on threads: progress as they go, results handed to the calling thread, a clean stop on any error."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from queue import Empty, SimpleQueue
from typing import TypeVar

import torch

from longshot.core.progress import Progress

T = TypeVar("T")
Tick = Callable[[int], None]  # a job calls it after every n tasks; it raises Stopped once the run is over


class Stopped(Exception):
    """The run was interrupted while a job was under way."""


def run_jobs(
    jobs: Iterable[Callable[[Tick], T]], workers: int, bar: Progress, done: Callable[[T], None] | None = None
) -> None:
    """Run every job on one of ``workers`` threads; ``done`` gets each result in the calling thread.

    An error in a job or Ctrl-C ends it all: jobs under way stop at their next tick, those waiting do not start.
    """
    finished: SimpleQueue[int] = SimpleQueue()
    stop = threading.Event()

    def tick(count: int) -> None:
        if stop.is_set():
            raise Stopped
        finished.put(count)

    def run_job(job: Callable[[Tick], T]) -> T:
        if stop.is_set():
            raise Stopped
        return job(tick)

    with ThreadPoolExecutor(workers, "evaluate") as pool:
        waiting: set[Future[T]] = {pool.submit(run_job, job) for job in jobs}
        try:
            while waiting:
                ended, waiting = wait(waiting, timeout=0.2, return_when=FIRST_COMPLETED)
                with contextlib.suppress(Empty):
                    while True:
                        bar.advance(finished.get_nowait())
                for future in ended:
                    result = future.result()
                    if done is not None:
                        done(result)
        except BaseException:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


@contextlib.contextmanager
def one_thread(device: torch.device) -> Iterator[None]:
    """Each worker computes on one thread, so that sums do not depend on how many threads share them."""
    before = torch.get_num_threads()
    if device.type == "cpu":
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
