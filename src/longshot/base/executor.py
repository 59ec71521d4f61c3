"""Where work runs: threads of this process or a Ray cluster, by what ``on`` says, or LONGSHOT_ON.

Rooms cut work into units and do not know where they run. ``with_executor`` lets the parameter ``on`` of a verb hold for
all that it does, ``executor()`` is what computes now, ``Crew`` says what every worker holds, ``UnitsFailed`` what could
not be computed anywhere.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeAlias, TypeVar

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
Mapped = Generator[tuple[Key, Result], None, None]


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
        """Count the workers that compute side by side."""

    def map(
        self,
        crew: Crew[Payload, Result],
        units: Iterable[tuple[Key, Payload]],
        bar: Progress | None = None,
        *,
        count: int,
        workers: int | None = None,
        chunk: int = 64,
    ) -> Mapped[Key, Result]:
        """Yield (key, result) of every unit, as they are finished; wrap it in ``contextlib.closing``.

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
    def _compute(self, call: MapCall[Key, Payload, Result]) -> Mapped[Key, Result]:
        """Do what ``map`` promises."""

    @abstractmethod
    def everywhere(self, function: Callable[..., Any], *arguments: Any) -> dict[str, Any]:
        """Call ``function`` on each machine and return its answers by the machine's name; an exception is an answer."""

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
        """Return the results of a few units in their order."""
        units = enumerate(payloads)
        with closing(self.map(crew, units, count=count, workers=workers, chunk=chunk)) as results:
            by_number = dict(results)
        return [by_number[number] for number in sorted(by_number)]


# ---- threads of this process

_PATIENCE = 0.2  # seconds between two looks at the ticks


class Threads(Executor):
    """This machine. The workers of a crew are one object that several threads call."""

    slots = 1

    def _compute(self, call: MapCall[Key, Payload, Result]) -> Mapped[Key, Result]:
        """Yield (key, result) as they are finished; any error or Ctrl-C stops units under way at their next tick."""
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
        """Call the function here."""
        return {socket.gethostname(): function(*arguments)}


def _inline(
    work: Callable[[Payload, Tick], Result], units: Iterable[tuple[Key, Payload]], bar: Progress | None
) -> Mapped[Key, Result]:
    """Run units in the calling thread, which is the one worker."""

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
        """Read unit → why it failed; nothing where the file is missing or damaged."""
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
        """Return those of ``keys`` that failed before and are not to be tried again, with their reasons."""
        failed = {} if retry else self.read()
        return {key: failed[key] for key in keys if key in failed}


VARIABLE = "LONGSHOT_ON"
PORT = 10001  # of Ray's own client server
P = ParamSpec("P")
T = TypeVar("T")
_ADDRESS = re.compile(r"ray://(\[[0-9a-fA-F:]+\]|[^/:\s]+)(?::(\d+))?/?")


@dataclass(frozen=True)
class Choice:
    """What was asked for: ``on`` as it is written out, GPUs of each worker, whether failed units are tried again."""

    on: str = "local"
    gpus_per_worker: float = 0.0
    retry_failed: bool = False


_around: ContextVar[Choice | None] = ContextVar("on", default=None)
_HERE = Threads()
_open: dict[tuple[str, float], Executor] = {}


def parse_on(text: str | None) -> str:
    """Read ``on`` in one spelling; where nothing is said, take LONGSHOT_ON, or ``local``.

    Examples
    --------
    >>> parse_on("local"), parse_on("ray"), parse_on("ray://head")
    ('local', 'ray', 'ray://head:10001')
    """
    on = (text or os.environ.get(VARIABLE) or "local").strip()
    if on in ("local", "ray"):
        return on
    match = _ADDRESS.fullmatch(on)
    if match is None or not 0 < int(match[2] or PORT) < 65536:
        raise UserError(f"{{on}} is '{on}', but work runs on local, ray or ray://HOST:PORT.")
    return f"ray://{match[1]}:{match[2] or PORT}"


@contextlib.contextmanager
def using_executor(
    on: str | None = None, gpus_per_worker: float | None = None, retry_failed: bool | None = None
) -> Iterator[None]:
    """Let an executor hold for all work inside, unless that is told another; a cluster is joined and checked now."""
    around = _around.get() or Choice()
    choice = replace(around, on=parse_on(on) if on is not None or _around.get() is None else around.on)
    if gpus_per_worker is not None:
        if not gpus_per_worker >= 0:
            raise UserError(f"{{gpus_per_worker}} is {gpus_per_worker:g}, but it must be 0 or more.")
        choice = replace(choice, gpus_per_worker=float(gpus_per_worker))
    if retry_failed is not None:
        choice = replace(choice, retry_failed=retry_failed)
    if choice.gpus_per_worker and choice.on == "local":
        raise UserError("{gpus_per_worker} is for workers on a cluster", "add {on:ray}, or leave it out")
    token = _around.set(choice)
    try:
        executor()
        yield
    finally:
        _around.reset(token)


def with_executor(verb: Callable[P, T]) -> Callable[P, T]:
    """Let the parameters ``on``, ``gpus_per_worker`` and ``retry_failed`` of a verb hold for all that it does."""

    @wraps(verb)
    def call(*arguments: P.args, **settings: P.kwargs) -> T:
        on, gpus, retry = (settings.get(name) for name in ("on", "gpus_per_worker", "retry_failed"))
        if on is not None and not isinstance(on, str):
            raise UserError(f"{{on}} is {on!r}, but work runs on local, ray or ray://HOST:PORT.")
        number = float(gpus) if isinstance(gpus, int | float) else None
        with using_executor(on, number, retry if isinstance(retry, bool) else None):
            return verb(*arguments, **settings)

    return call


def current_choice() -> Choice:
    """Return the choice of where work runs that holds now."""
    return _around.get() or Choice(parse_on(None))


def executor() -> Executor:
    """Return the executor that computes now; a cluster is joined when it is first asked for."""
    choice = current_choice()
    if choice.on == "local":
        return _HERE
    key = choice.on, choice.gpus_per_worker
    if key not in _open:
        from longshot.base.cluster import join_cluster

        release_executors()  # processors that their workers hold would never come free
        _open[key] = join_cluster(choice.on, choice.gpus_per_worker)
    return _open[key]


def release_executors() -> None:
    """Let go of all workers that wait for more to do, on whatever cluster."""
    for opened in _open.values():
        opened.release()


def close_executors() -> None:
    """Leave every cluster that was joined; one that was started for us ends."""
    for opened in _open.values():
        opened.close()
    _open.clear()
