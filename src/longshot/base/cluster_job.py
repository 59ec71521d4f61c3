"""One call of ``map`` on a Ray cluster: chunks go out within bounds, results come back, what dies is tried again."""

from __future__ import annotations

import io
import os
import pickle
import sys
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from longshot.base.cluster_nodes import living_nodes, node_name, packed, store_full
from longshot.base.errors import UserError, note
from longshot.base.errors import count as counted
from longshot.base.executor import TRIES, MapCall, Tick, UnitsFailed

if TYPE_CHECKING:
    from longshot.base.cluster import RayExecutor

# ---- in a worker process

# How a unit ended: its result, a UserError's two parts, or what another exception said; and its ticks.
DONE, WRONG, FAILED = "done", "wrong", "failed"
Outcome: TypeAlias = tuple[str, Any, int]


class Hand:
    """One worker. ``environment`` and ``paths`` are the driver's: variables that change bytes, and where code lies."""

    def __init__(self, environment: Mapping[str, str], paths: Sequence[str]) -> None:
        os.environ.pop("LONGSHOT_ON", None)  # what runs here runs here
        os.environ.update(environment)
        sys.path += [path for path in paths if path not in sys.path and Path(path).is_dir()]
        self.token = ""
        self.work: Callable[[Any, Tick], Any] | None = None

    def hello(self) -> int:
        """Return the process's id, once it is there."""
        return os.getpid()

    def ask(self, packed: tuple[bytes, Sequence[Any]]) -> Any:
        """Answer one question: a pickled function and its arguments."""
        import ray

        function, arguments = _Unpickler(io.BytesIO(packed[0]), ray.get(list(packed[1]))).load()
        return function(*arguments)

    def prepare(self, token: str, header: Sequence[Any]) -> None:
        """Make what the crew holds, when ``token`` is new; ``header`` holds a reference to the pickled crew."""
        if token == self.token and self.work is not None:
            return
        close = getattr(self.work, "close", None)
        if close is not None:
            close()
        self.work, self.token = None, ""  # what was held before goes first
        self.work, self.token = _make(header[0]), token

    def run(self, token: str, header: Sequence[Any], packed: bytes) -> tuple[list[Outcome], float]:
        """Compute a chunk of units; return their outcomes, and the seconds that computing took."""
        self.prepare(token, header)
        assert self.work is not None
        started = time.perf_counter()
        outcomes = [_outcome(self.work, payload) for payload in pickle.loads(packed)]
        return outcomes, time.perf_counter() - started


def _outcome(work: Callable[[Any, Tick], Any], payload: Any) -> Outcome:
    ticks = 0

    def tick(number: int) -> None:
        nonlocal ticks
        ticks += number

    try:
        result = work(payload, tick)
    except UserError as error:
        return WRONG, (error.fact, error.remedy), ticks
    except Exception as error:  # whatever a method or a file raises is told by the driver
        return FAILED, f"{type(error).__name__}: {' '.join(str(error).split())[:300]}", ticks
    return DONE, result, ticks


def _make(reference: Any) -> Callable[[Any, Tick], Any]:
    import ray

    pickled, arrays, threads = ray.get(reference)
    values = ray.get(list(arrays))
    make, shared = _Unpickler(io.BytesIO(pickled), values).load()
    work: Callable[[Any, Tick], Any] = make(*shared)
    if "torch" in sys.modules:
        import torch

        torch.set_num_threads(threads)
    return work


class _Unpickler(pickle.Unpickler):
    """Reads what ``cluster.Parcels`` wrote: large arrays stand in the object store, which this process maps."""

    def __init__(self, file: Any, arrays: Sequence[Any]) -> None:
        super().__init__(file)
        self.arrays = arrays

    def persistent_load(self, number: Any) -> Any:
        return self.arrays[number]


_CHUNK_SECONDS = 0.5  # that a chunk shall take: long beside its journey, short beside a kill
_CHUNK_BYTES = 32 << 20
_IN_FLIGHT = 2 << 30  # bytes of payloads under way
LOOK = 1.0  # seconds between two looks at the nodes
PATIENCE = 60.0  # seconds without a free processor after which a note says so
_STILLBORN = 25  # workers of a node that die before their first unit, in a row


@dataclass(eq=False)
class Unit:
    """One unit of work and what became of it so far."""

    key: Any
    payload: Any
    tries: int = 0
    nodes: set[str] = field(default_factory=set)  # where it failed
    reason: str = ""


@dataclass(eq=False)
class Chunk:
    """Units that travel together; without units: the answer to a greeting is awaited."""

    units: list[Unit]
    packed: bytes


@dataclass(eq=False)
class Worker:
    """A process on a node, and the chunks that it has yet to answer."""

    actor: Any
    node: str
    ready: bool = False
    token: str = ""  # of the job whose crew it was told to make
    queue: deque[tuple[Any, Chunk]] = field(default_factory=deque)  # (reference, chunk), first sent first
    size: int = 1  # units of the next chunk


class Job:
    """One call of ``map``."""

    def __init__(self, pool: RayExecutor, call: MapCall[Any, Any, Any]) -> None:
        self.pool, self.bar, self.count, self.most = pool, call.bar, call.count, call.chunk
        self.token = uuid.uuid4().hex
        self.header = [pool.parcels.header(call.crew)]
        self.source: Iterator[tuple[Any, Any]] = iter(call.units)
        self.exhausted = False
        self.again: list[Unit] = []
        self.failed: dict[Any, str] = {}
        self.finished = 0
        self.bytes = 0  # of payloads under way
        self.waiting_since = time.monotonic()
        for worker in pool.workers:
            worker.size = 1

    def _show(self) -> None:
        """Tell the bar how many nodes are at work."""
        if self.bar is not None:
            self.bar.where = counted(len({each.node for each in self.pool.workers if each.ready}), "node")

    def run(self) -> Iterator[tuple[Any, Any]]:
        """Yield results, until every unit has ended in one way or another."""
        import ray

        while True:
            needed = max(1, min(self.count - self.finished, self.pool.slots))
            self.pool.recruit(max(needed, len(self.pool.workers) + self._stuck()))
            self._show()
            self._hand_out()
            under_way = {item[0]: worker for worker in self.pool.workers for item in worker.queue}
            if self.exhausted and not self.again and not any(w.queue for w in self.pool.workers if w.ready):
                break
            if not under_way:
                time.sleep(0.05)  # every node is gone; one may come back
                self._complain()
                continue
            ended, _ = ray.wait(list(under_way), num_returns=1, timeout=LOOK)
            more, _ = ray.wait(list(under_way), num_returns=len(under_way), timeout=0) if ended else ([], [])
            if not ended:
                self._complain()
            answered = {*ended, *more}
            for reference, worker in under_way.items():  # of a worker: in the order in which it was told
                if reference in answered and worker in self.pool.workers:  # it may have died with one before
                    yield from self._received(worker, reference)
        if self.failed:
            raise UnitsFailed(self.failed)

    def _stuck(self) -> bool:
        """Tell whether a unit waits for another node than all workers are on, since it failed on theirs."""
        here = {worker.node for worker in self.pool.workers}
        return any(here <= unit.nodes and set(self.pool.nodes) - unit.nodes for unit in self.again)

    def _hand_out(self) -> None:
        for worker in sorted(self.pool.workers, key=lambda worker: len(worker.queue)):
            while worker.ready and len(worker.queue) < 2:
                if self.bytes > _IN_FLIGHT and worker.queue:
                    return
                chunk = self._next_chunk(worker)
                if chunk is None:
                    break
                self._send(worker, chunk)

    def _send(self, worker: Worker, chunk: Chunk) -> None:
        import ray.exceptions

        try:
            if worker.token != self.token:  # by itself: who dies of this does not die of a unit
                worker.token = self.token
                worker.queue.append((worker.actor.prepare.remote(self.token, self.header), Chunk([], b"")))
            reference = worker.actor.run.remote(self.token, self.header, chunk.packed)
        except ray.exceptions.ObjectStoreFullError as error:
            raise store_full(len(chunk.packed)) from error
        worker.queue.append((reference, chunk))
        self.bytes += len(chunk.packed)

    def _next_chunk(self, worker: Worker) -> Chunk | None:
        """Choose units for a worker: one that failed elsewhere, or new ones as many as are worth a journey."""
        for unit in self.again:
            if worker.node not in unit.nodes or not set(self.pool.nodes) - unit.nodes:
                self.again.remove(unit)
                return Chunk([unit], packed([unit.payload]))
        units: list[Unit] = []
        pieces = 0
        while len(units) < min(worker.size, self.most) and not self.exhausted:
            pair = next(self.source, None)
            if pair is None:
                self.exhausted = True
                break
            units.append(Unit(*pair))
            if len(units) == 1:
                pieces = max(1, len(packed(pair[1])))
            if pieces * len(units) > _CHUNK_BYTES:
                break
        return Chunk(units, packed([unit.payload for unit in units])) if units else None

    def _received(self, worker: Worker, reference: Any) -> Iterator[tuple[Any, Any]]:
        """Receive what came back for a chunk: results, or what became of its worker."""
        import ray
        import ray.exceptions

        try:
            answer = ray.get(reference)
        except ray.exceptions.RayTaskError as error:  # the crew could not be made there
            raise _unmade(error, node_name(self.pool.nodes.get(worker.node, {}))) from error
        except ray.exceptions.ObjectStoreFullError as error:
            raise store_full(0) from error
        except ray.exceptions.RayError as error:
            self._lost(worker, reference, error)
            return
        chunk = next(chunk for item, chunk in worker.queue if item is reference or item == reference)
        worker.queue = deque(item for item in worker.queue if item[1] is not chunk)
        if not chunk.units:
            worker.ready = True
            return
        self.pool.stillborn.pop(worker.node, None)
        self.bytes -= len(chunk.packed)
        outcomes, seconds = answer
        pace = _CHUNK_SECONDS / max(seconds, 1e-6)
        worker.size = max(1, min(self.most, int(len(chunk.units) * min(pace, 4))))
        for unit, outcome in zip(chunk.units, outcomes, strict=True):
            yield from self._ended(unit, outcome, worker.node)

    def _ended(self, unit: Unit, outcome: Outcome, node: str) -> Iterator[tuple[Any, Any]]:
        how, value, ticks = outcome
        if how == DONE:
            self.finished += 1
            self.waiting_since = time.monotonic()
            if self.bar is not None and ticks:
                self.bar.advance(ticks)
            yield unit.key, value
        elif how == WRONG:
            raise UserError(*value)
        else:
            self._try_again(unit, value, node)

    def _try_again(self, unit: Unit, reason: str, node: str) -> None:
        unit.tries += 1
        unit.nodes.add(node)
        unit.reason = reason
        if unit.tries < TRIES:
            self.again.append(unit)
            return
        self.finished += 1
        self.failed[unit.key] = reason

    def _lost(self, worker: Worker, reference: Any, error: Exception) -> None:
        """Send what a dead worker had under way elsewhere. Only a unit that was alone with it is suspected."""
        import ray

        self.pool.workers.remove(worker)
        ray.kill(worker.actor)
        alive = worker.node in living_nodes()
        if not worker.queue[0][1].units:
            deaths = self.pool.stillborn[worker.node] = self.pool.stillborn.get(worker.node, 0) + 1
            if alive and deaths >= _STILLBORN:
                reason = " ".join(str(error).split())[:200]
                raise UserError(
                    f"{deaths} workers in a row died at their start on node "
                    f"{node_name(self.pool.nodes.get(worker.node, {}))} ({reason})",
                    "look at its memory and at Ray's logs there",
                )
        self.pool.looked = 0.0
        for position, (_, chunk) in enumerate(worker.queue):
            self.bytes -= len(chunk.packed)
            suspected = position == 0 and len(chunk.units) == 1 and alive
            for unit in chunk.units:
                if suspected:
                    self._try_again(unit, f"its worker died ({_how(error)})", worker.node)
                else:
                    self.again.append(unit)

    def _complain(self) -> None:
        """Say once a minute that nothing goes on because nobody is free."""
        if (
            any(worker.ready for worker in self.pool.workers)
            or time.monotonic() - self.waiting_since < PATIENCE
        ):
            return
        self.waiting_since = time.monotonic()
        note(f"waiting for free processors on the cluster ({self.pool.words()})")


def _unmade(error: Exception, node: str) -> UserError:
    cause = getattr(error, "cause", None) or error
    if isinstance(cause, UserError):
        return UserError(cause.fact, cause.remedy)
    text = " ".join(str(cause).split())
    return UserError(
        f"A worker on node {node} cannot begin ({type(cause).__name__}: {text[-300:]})",
        "install there what is installed here, or leave that node out",
    )


def _how(error: Exception) -> str:
    names = {
        "ActorDiedError": "killed",
        "OutOfMemoryError": "out of memory",
        "NodeDiedError": "its node went away",
    }
    return names.get(type(error).__name__, type(error).__name__)
