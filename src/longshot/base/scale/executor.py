"""What an executor can do: hand units of work to workers that hold something large, and give results as they come."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Hashable, Iterable
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

if TYPE_CHECKING:
    from longshot.base.progress import Progress

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

    @abstractmethod
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
