"""Work on threads of this process: progress as it goes, results in the calling thread, a clean stop on any error."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from longshot.base.scale.executor import Crew, Executor, Key, Payload, Result, Results, Stopped, Tick

if TYPE_CHECKING:
    from longshot.base.progress import Progress

_PATIENCE = 0.2  # seconds between two looks at the ticks


class Threads(Executor):
    """This machine. The workers of a crew are one object that several threads call."""

    slots = 1

    def map(
        self,
        crew: Crew[Payload, Result],
        units: Iterable[tuple[Key, Payload]],
        bar: Progress | None = None,
        *,
        count: int,
        workers: int | None = None,
        chunk: int = 64,
    ) -> Results[Key, Result]:
        """(key, result) as they are finished; any error or Ctrl-C stops units under way at their next tick."""
        work = crew.make(*crew.shared)
        if (workers or 1) == 1:
            yield from _inline(work, units, bar)
            return
        ticks: SimpleQueue[int] = SimpleQueue()
        stop = threading.Event()

        def tick(number: int) -> None:
            if stop.is_set():
                raise Stopped
            ticks.put(number)

        def run(payload: Payload) -> Result:
            if stop.is_set():
                raise Stopped
            return work(payload, tick)

        threads = workers or 1
        source = iter(units)
        waiting: dict[Future[Result], Key] = {}
        with ThreadPoolExecutor(threads, "longshot") as pool:
            try:
                while True:
                    while len(waiting) < 3 * threads and (unit := next(source, None)) is not None:
                        waiting[pool.submit(run, unit[1])] = unit[0]
                    if not waiting:
                        return
                    ended, _ = wait(waiting, timeout=_PATIENCE, return_when=FIRST_COMPLETED)
                    _advance(bar, ticks)
                    for future in ended:
                        yield waiting.pop(future), future.result()
            except BaseException:
                stop.set()
                pool.shutdown(wait=False, cancel_futures=True)
                raise
            finally:
                pool.shutdown(wait=True)
                _close(work)

    def everywhere(self, function: Callable[..., Any], *arguments: Any) -> dict[str, Any]:
        """What the function answers here."""
        return {socket.gethostname(): function(*arguments)}


def _inline(
    work: Callable[[Payload, Tick], Result], units: Iterable[tuple[Key, Payload]], bar: Progress | None
) -> Results[Key, Result]:
    """One worker is the calling thread itself."""

    def tick(number: int) -> None:
        if bar is not None:
            bar.advance(number)

    try:
        for key, payload in units:
            yield key, work(payload, tick)
    finally:
        _close(work)


def _close(work: object) -> None:
    """Let go of what a worker holds, where it holds something."""
    close = getattr(work, "close", None)
    if close is not None:
        close()


def _advance(bar: Progress | None, ticks: SimpleQueue[int]) -> None:
    with contextlib.suppress(Empty):
        while True:
            number = ticks.get_nowait()
            if bar is not None:
                bar.advance(number)
