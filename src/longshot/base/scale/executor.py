"""Hand units of work to workers that hold something large, and give results as they come.

``Executor`` is what rooms know; ``Threads`` is this process; ``UnitsFailed`` and ``FailureList`` keep what failed.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Hashable, Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from longshot.base.errors import UserError, count
from longshot.base.files import write_json

if TYPE_CHECKING:
    from longshot.base.long_work import Progress


Tick: TypeAlias = Callable[
    [int], None
]  # a worker calls it after every n items; it raises Stopped once the run is over
Key = TypeVar("Key", bound=Hashable)
Payload = TypeVar("Payload")
Result = TypeVar("Result")
Results = Generator[tuple[Key, Result], None, None]


class Stopped(Exception):
    """The run was interrupted while a unit was under way."""


@dataclass(frozen=True)
class Crew(Generic[Payload, Result]):
    """Workers that all hold the same: ``make(*shared)`` gives what computes a unit, once per process.

    Parameters
    ----------
    make : callable
        A class or function that other machines find by its name; what it returns is called as ``work(payload, tick)``
        and may be called from several threads.
    shared : tuple
        What it is made of. Large arrays go to a machine once, however many units follow.
    threads : int
        Threads that PyTorch may use inside a worker on another machine: as many as here, for equal bytes.
    """

    make: Callable[..., Callable[[Payload, Tick], Result]]
    shared: tuple[Any, ...] = ()
    threads: int = 1


@dataclass(frozen=True)
class MapCall(Generic[Key, Payload, Result]):
    """One call of ``Executor.map``, which says what these are."""

    crew: Crew[Payload, Result]
    units: Iterable[tuple[Key, Payload]]
    bar: Progress | None
    count: int
    workers: int
    chunk: int


class Executor(ABC):
    """Where work runs. Rooms cut work into units and call ``map``; they do not know more."""

    distant: bool = False  # whether workers live in other processes, perhaps on other machines
    alike: bool = (
        True  # whether all have the same processor; else PyTorch is told to compute alike, others cannot be
    )

    @property
    @abstractmethod
    def slots(self) -> int:
        """Workers that compute side by side."""

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
        """(key, result) of every unit, as they are finished; wrap it in ``contextlib.closing``.

        ``units`` is read as workers become free, so that a million of them never sit in memory. An error ends it all
        where a unit raises a UserError; a unit that kills its worker or raises anything else on a cluster is tried
        three times, and ``UnitsFailed`` comes after the results of all others.

        Parameters
        ----------
        crew : Crew
            Who computes.
        units : iterable of (key, payload)
            What names a unit, and what its worker gets.
        bar : Progress, optional
            Advances with the ticks of the workers.
        count : int
            How many units there are.
        workers : int, optional
            Threads where the executor is this machine; 1 by default.
        chunk : int
            Units that may travel together at most: more where they are small.
        """
        return self._compute(MapCall(crew, units, bar, count, workers or 1, chunk))

    @abstractmethod
    def _compute(self, call: MapCall[Key, Payload, Result]) -> Results[Key, Result]:
        """Do what ``map`` promises."""

    @abstractmethod
    def everywhere(self, function: Callable[..., Any], *arguments: Any) -> dict[str, Any]:
        """What ``function`` answers on each machine, by the machine's name; an exception is an answer."""

    def release(self) -> None:
        """Let go of workers that wait for more to do; they are started again when there is."""
        return

    def close(self) -> None:
        """Leave where the work ran."""
        return

    def gather(
        self,
        crew: Crew[Payload, Result],
        payloads: Iterable[Payload],
        *,
        count: int,
        workers: int | None = None,
        chunk: int = 64,
    ) -> list[Result]:
        """The results of a few units in their order."""
        units = enumerate(payloads)
        with closing(self.map(crew, units, count=count, workers=workers, chunk=chunk)) as results:
            by_number = dict(results)
        return [by_number[number] for number in sorted(by_number)]


# ---- threads of this process

_PATIENCE = 0.2  # seconds between two looks at the ticks


class Threads(Executor):
    """This machine. The workers of a crew are one object that several threads call."""

    slots = 1

    def _compute(self, call: MapCall[Key, Payload, Result]) -> Results[Key, Result]:
        """(key, result) as they are finished; any error or Ctrl-C stops units under way at their next tick."""
        work = call.crew.make(*call.crew.shared)
        if call.workers == 1:
            yield from _inline(work, call.units, call.bar)
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

        source = iter(call.units)
        waiting: dict[Future[Result], Key] = {}
        with ThreadPoolExecutor(call.workers, "longshot") as pool:
            try:
                while True:
                    while len(waiting) < 3 * call.workers and (unit := next(source, None)) is not None:
                        waiting[pool.submit(run, unit[1])] = unit[0]
                    if not waiting:
                        return
                    ended, _ = wait(waiting, timeout=_PATIENCE, return_when=FIRST_COMPLETED)
                    _advance(call.bar, ticks)
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


# ---- units that failed wherever they were tried: told at the end, and left out until they are to be tried again

TRIES = 3  # of a unit, on other machines where there are some


class UnitsFailed(UserError):
    """Some units failed on every try; all others are finished and kept. The command line exits with code 3."""

    exit_code = 3

    def __init__(self, failed: Mapping[Any, str], state: str = "finished work is kept") -> None:
        self.failed = {str(key): reason for key, reason in failed.items()}
        shown = "; ".join(f"{key}: {reason}" for key, reason in list(self.failed.items())[:3])
        more = f"; and {len(failed) - 3:,} more" if len(failed) > 3 else ""
        super().__init__(
            f"{count(len(failed), 'unit')} of work failed {TRIES} times, and went without ({shown}{more}); {state}",
            "mend the cause and call again with {retry_failed:True}",
        )

    def __reduce__(self) -> Any:
        return UnitsFailed, (self.failed,)


class FailureList:
    """The units of a folder that failed for good: a JSON file of unit → reason."""

    def __init__(self, path: Path | None) -> None:
        self.path = path

    def read(self) -> dict[str, str]:
        """Unit → why it failed; nothing where the file is missing or damaged."""
        if self.path is None:
            return {}
        try:
            listed = json.loads(self.path.read_text(encoding="utf-8"))
            return {str(key): str(reason) for key, reason in listed.items()}
        except (OSError, ValueError, AttributeError):
            return {}

    def write(self, failed: Mapping[str, str]) -> None:
        """Keep the list; an empty one removes the file."""
        if self.path is None:
            return
        if failed:
            write_json(self.path, dict(sorted(failed.items())))
        else:
            self.path.unlink(missing_ok=True)

    def skipped(self, keys: Iterable[str], *, retry: bool) -> dict[str, str]:
        """Those of ``keys`` that failed before and are not to be tried again, with their reasons."""
        failed = {} if retry else self.read()
        return {key: failed[key] for key in keys if key in failed}
