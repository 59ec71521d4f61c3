"""Units on a Ray cluster: workers on every node, chunks in flight within bounds, what dies is done again elsewhere."""

from __future__ import annotations

import io
import os
import pickle
import sys
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from longshot.core.errors import UserError
from longshot.core.wording import count as counted
from longshot.core.wording import note
from longshot.scale.executor import Crew, Executor, Key, Payload, Result, Results
from longshot.scale.failures import TRIES, UnitsFailed
from longshot.scale.nodes import PINS, differences, node_facts
from longshot.scale.remote import DONE, WRONG, Hand, Outcome

if TYPE_CHECKING:
    from longshot.core.progress import Progress

_LARGE = 1 << 20  # bytes from which an array goes into the object store by itself
_ARRAYS = 32  # arrays that stay there between two calls
_CHUNK_SECONDS = 0.5  # that a chunk shall take: long beside its journey, short beside a kill
_CHUNK_BYTES = 32 << 20
_IN_FLIGHT = 2 << 30  # bytes of payloads under way
_LOOK = 1.0  # seconds between two looks at the nodes
_PATIENCE = 60.0  # seconds without a free processor after which it is told
_ASKED = 5  # times that a node is asked whose workers die
_STILLBORN = 25  # workers of a node that die before their first unit, in a row


@dataclass(eq=False)
class _Unit:
    key: Any
    payload: Any
    tries: int = 0
    nodes: set[str] = field(default_factory=set)  # where it failed
    reason: str = ""


@dataclass(eq=False)
class _Chunk:
    units: list[_Unit]
    packed: bytes


@dataclass(eq=False)
class _Worker:
    actor: Any
    node: str
    ready: bool = False
    token: str = ""  # of the job whose crew it was told to make
    queue: deque[tuple[Any, _Chunk]] = field(default_factory=deque)  # (reference, chunk), first sent first
    size: int = 1  # units of the next chunk


class RayExecutor(Executor):
    """The workers of a cluster, one per processor (or per share of its GPUs), kept from one call to the next."""

    distant = True

    def __init__(self, on: str, gpus_per_worker: float, *, joined: bool = True) -> None:
        self.on, self.gpus, self.joined = on, gpus_per_worker, joined
        self.vetted: set[str] | None = None  # nodes that compute the same bytes; None: this machine alone
        self.refused: set[str] = set()
        self.workers: list[_Worker] = []
        self.stillborn: dict[str, int] = {}
        self.parcels = Parcels()
        self.turn = threading.RLock()  # one call at a time
        self.looked = 0.0
        self.nodes: dict[str, dict[str, Any]] = living()

    @property
    def slots(self) -> int:
        """Workers that the cluster has room for."""
        return sum(self._room(node) for node in self.nodes.values())

    def words(self) -> str:
        """``3 nodes, 12 processors``."""
        cpus = sum(node["Resources"].get("CPU", 0) for node in self.nodes.values())
        gpus = sum(node["Resources"].get("GPU", 0) for node in self.nodes.values())
        shown = [counted(len(self.nodes), "node"), counted(int(cpus), "processor")]
        return ", ".join(shown + ([counted(int(gpus), "GPU")] if gpus else []))

    def check_resources(self) -> None:
        """UserError where no node has room for a worker."""
        if not self.slots:
            needed = f"1 processor and {self.gpus:g} GPUs" if self.gpus else "1 processor"
            raise UserError(
                f"A worker needs {needed} of one node, and the cluster ({self.words()}) has no such node",
                "lower {gpus_per_worker} or add nodes" if self.gpus else "add nodes with 'ray start'",
            )

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
        """(key, result) as they come back; see ``Executor.map``."""
        with self.turn:
            job = _Job(self, crew, units, bar, count, chunk)
            try:
                yield from job.run()
            except BaseException:
                self.dismiss()  # what is under way must not go on
                raise

    def everywhere(self, function: Callable[..., Any], *arguments: Any) -> dict[str, Any]:
        """What ``function`` answers on each node that computes, by the node's name; an exception is an answer."""
        return self._everywhere(living(), function, *arguments)

    def _everywhere(
        self, alive: dict[str, dict[str, Any]], function: Callable[..., Any], *arguments: Any
    ) -> dict[str, Any]:
        packed = self.parcels.packed((function, arguments))
        with self.turn:
            nodes = {name: node for name, node in alive.items() if self._room(node)}
            questions = {name: self._ask(name, packed) for name in nodes}
            return {
                node_name(node): self._answer(name, questions[name], packed) for name, node in nodes.items()
            }

    def _ask(self, node: str, packed: Any) -> tuple[_Worker, Any]:
        """Put a question to a worker of a node; one is started where there is none."""
        worker = next((each for each in self.workers if each.node == node), None) or self._start(node)
        return worker, worker.actor.ask.remote(packed)

    def _answer(self, node: str, question: tuple[_Worker, Any], packed: Any) -> Any:
        """What was answered; a worker that died is followed by another."""
        import ray
        import ray.exceptions

        for number in range(_ASKED):
            worker, reference = question
            try:
                while not ray.wait([reference], timeout=_PATIENCE)[0]:
                    note(f"waiting for a free processor on node {node_name(living().get(node, {}))}")
                return ray.get(reference)
            except ray.exceptions.RayTaskError as error:
                return error
            except ray.exceptions.RayError as error:
                if not worker.queue or not worker.ready:
                    self.workers = [each for each in self.workers if each is not worker]
                if number == _ASKED - 1:
                    return error
                question = self._ask(node, packed)
        raise AssertionError

    def look(self) -> None:
        """Who is there now; a node that came late is asked for its versions first."""
        if time.monotonic() - self.looked < _LOOK:
            return
        self.looked = time.monotonic()
        alive = living()
        if self.vetted is not None:
            late = {name: node for name, node in alive.items() if name not in self.vetted | self.refused}
            self._vet({name: node for name, node in late.items() if self._room(node)}, self.vetted)
        self.nodes = {name: node for name, node in alive.items() if name not in self.refused}

    def _vet(self, late: dict[str, dict[str, Any]], vetted: set[str]) -> None:
        """Let nodes that came late take part, unless they would compute other bytes."""
        here = node_facts() if late else {}
        answers = self._everywhere(late, node_facts)
        for name, node in late.items():
            facts = answers[node_name(node)]
            different = differences(here, facts) if isinstance(facts, dict) else ["given no answer"]
            if not different and facts["processor"] != here["processor"]:
                self.alike = False
            (self.refused if different else vetted).add(name)
            if different:
                note(f"node {node_name(node)} came late and is left out: it has {' and '.join(different)}")
        self.dismiss(self.refused)

    def recruit(self, needed: int) -> None:
        """Start workers where there is room, up to ``needed`` of them in all."""
        self.look()
        have: dict[str, int] = {}
        for worker in self.workers:
            have[worker.node] = have.get(worker.node, 0) + 1
        free = {name: self._room(node) - have.get(name, 0) for name, node in self.nodes.items()}
        while len(self.workers) < needed and any(room > 0 for room in free.values()):
            name = max(free, key=lambda name: (free[name], name))
            free[name] -= 1
            self._start(name)

    def _start(self, node: str) -> _Worker:
        """A new worker on a node; it is ready once it has said hello."""
        settings = {"num_cpus": 1, "num_gpus": self.gpus, "max_restarts": 0, "scheduling_strategy": _at(node)}
        actor = _hand().options(**settings).remote(_environment(), sys.path)
        worker = _Worker(actor, node)
        worker.queue.append((actor.hello.remote(), _Chunk([], b"")))
        self.workers.append(worker)
        return worker

    def dismiss(self, nodes: set[str] | None = None) -> None:
        """End every worker, or those of some nodes, whatever they do."""
        import ray

        for worker in [each for each in self.workers if nodes is None or each.node in nodes]:
            ray.kill(worker.actor)
            self.workers.remove(worker)

    def release(self) -> None:
        """End the workers, so that others may have their processors."""
        with self.turn:
            self.dismiss()

    def close(self) -> None:
        """Leave the cluster; one that was started here ends. A caller who had joined it before stays."""
        import ray

        if ray.is_initialized():
            self.dismiss()
            if self.joined:
                ray.shutdown()

    def _room(self, node: dict[str, Any]) -> int:
        cpus, gpus = (node["Resources"].get(kind, 0) for kind in ("CPU", "GPU"))
        return int(min(cpus, gpus // self.gpus)) if self.gpus else int(cpus)


class _Job:
    """One call of ``map``."""

    def __init__(
        self,
        pool: RayExecutor,
        crew: Crew[Any, Any],
        units: Iterable[tuple[Any, Any]],
        bar: Progress | None,
        count: int,
        chunk: int,
    ) -> None:
        self.pool, self.bar, self.count, self.most = pool, bar, count, chunk
        self.token = uuid.uuid4().hex
        self.header = [pool.parcels.header(crew)]
        self.source: Iterator[tuple[Any, Any]] = iter(units)
        self.exhausted = False
        self.again: list[_Unit] = []
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
        """Results, until every unit has ended in one way or another."""
        import ray

        while True:
            self.pool.recruit(max(1, min(self.count - self.finished, self.pool.slots)))
            self._show()
            self._hand_out()
            under_way = {item[0]: worker for worker in self.pool.workers for item in worker.queue}
            if self.exhausted and not self.again and not any(w.queue for w in self.pool.workers if w.ready):
                break
            if not under_way:
                time.sleep(0.05)  # every node is gone; one may come back
                self._complain()
                continue
            ended, _ = ray.wait(list(under_way), num_returns=1, timeout=_LOOK)
            more, _ = ray.wait(list(under_way), num_returns=len(under_way), timeout=0) if ended else ([], [])
            if not ended:
                self._complain()
            answered = {*ended, *more}
            for reference, worker in under_way.items():  # of a worker: in the order in which it was told
                if reference in answered and worker in self.pool.workers:  # it may have died with one before
                    yield from self._received(worker, reference)
        if self.failed:
            raise UnitsFailed(self.failed)

    def _hand_out(self) -> None:
        for worker in sorted(self.pool.workers, key=lambda worker: len(worker.queue)):
            while worker.ready and len(worker.queue) < 2:
                if self.bytes > _IN_FLIGHT and worker.queue:
                    return
                chunk = self._next_chunk(worker)
                if chunk is None:
                    break
                self._send(worker, chunk)

    def _send(self, worker: _Worker, chunk: _Chunk) -> None:
        import ray.exceptions

        try:
            if worker.token != self.token:  # by itself: who dies of this does not die of a unit
                worker.token = self.token
                worker.queue.append((worker.actor.prepare.remote(self.token, self.header), _Chunk([], b"")))
            reference = worker.actor.run.remote(self.token, self.header, chunk.packed)
        except ray.exceptions.ObjectStoreFullError as error:
            raise store_full(len(chunk.packed)) from error
        worker.queue.append((reference, chunk))
        self.bytes += len(chunk.packed)

    def _next_chunk(self, worker: _Worker) -> _Chunk | None:
        """Units for a worker: one that failed elsewhere, or new ones as many as are worth a journey."""
        for unit in self.again:
            if worker.node not in unit.nodes or not set(self.pool.nodes) - unit.nodes:
                self.again.remove(unit)
                return _Chunk([unit], _packed([unit.payload]))
        units: list[_Unit] = []
        pieces = 0
        while len(units) < min(worker.size, self.most) and not self.exhausted:
            pair = next(self.source, None)
            if pair is None:
                self.exhausted = True
                break
            units.append(_Unit(*pair))
            if len(units) == 1:
                pieces = max(1, len(_packed(pair[1])))
            if pieces * len(units) > _CHUNK_BYTES:
                break
        return _Chunk(units, _packed([unit.payload for unit in units])) if units else None

    def _received(self, worker: _Worker, reference: Any) -> Iterator[tuple[Any, Any]]:
        """What came back for a chunk: results, or what became of its worker."""
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

    def _ended(self, unit: _Unit, outcome: Outcome, node: str) -> Iterator[tuple[Any, Any]]:
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

    def _try_again(self, unit: _Unit, reason: str, node: str) -> None:
        unit.tries += 1
        unit.nodes.add(node)
        unit.reason = reason
        if unit.tries < TRIES:
            self.again.append(unit)
            return
        self.finished += 1
        self.failed[unit.key] = reason

    def _lost(self, worker: _Worker, reference: Any, error: Exception) -> None:
        """A worker died: what it had under way goes elsewhere. Only a unit that was alone with it is suspected."""
        import ray

        self.pool.workers.remove(worker)
        ray.kill(worker.actor)
        alive = worker.node in living()
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
            or time.monotonic() - self.waiting_since < _PATIENCE
        ):
            return
        self.waiting_since = time.monotonic()
        note(f"waiting for free processors on the cluster ({self.pool.words()})")


class Parcels:
    """Things on their way to the object store; a large array goes there once, however often it is used."""

    def __init__(self) -> None:
        self.arrays: dict[
            int, tuple[Any, Any]
        ] = {}  # id → the array, so that the id stays its own, and its reference

    def header(self, crew: Crew[Any, Any]) -> Any:
        """A reference to the pickled crew."""
        pickled, arrays = self.packed((crew.make, crew.shared))
        return self._put((pickled, arrays, crew.threads), len(pickled))

    def packed(self, value: Any) -> tuple[bytes, list[Any]]:
        """A value in bytes, and references to its large arrays."""
        import numpy as np
        from ray import cloudpickle

        references: list[Any] = []
        parcels = self
        for name, module in list(sys.modules.items()):
            if name.startswith("longshot_user_"):  # a file of the user's, which other machines do not have
                cloudpickle.register_pickle_by_value(module)

        class Pickler(cloudpickle.CloudPickler):  # type: ignore[misc]
            def persistent_id(self, value_: Any) -> Any:
                if not isinstance(value_, np.ndarray) or value_.nbytes < _LARGE or value_.dtype.hasobject:
                    return None
                references.append(parcels._array(value_))
                return len(references) - 1

        file = io.BytesIO()
        Pickler(file, protocol=pickle.HIGHEST_PROTOCOL).dump(value)
        return file.getvalue(), references

    def _array(self, array: Any) -> Any:
        import numpy as np

        if id(array) not in self.arrays:
            if len(self.arrays) >= _ARRAYS:
                self.arrays.pop(next(iter(self.arrays)))
            self.arrays[id(array)] = array, self._put(np.ascontiguousarray(array), array.nbytes)
        return self.arrays[id(array)][1]

    def _put(self, value: Any, size: int) -> Any:
        import ray
        import ray.exceptions

        try:
            return ray.put(value)
        except (ray.exceptions.ObjectStoreFullError, ray.exceptions.OutOfDiskError) as error:
            raise store_full(size) from error


def store_full(size: int) -> UserError:
    """What to say where the object store has no room."""
    room = int(sum(node["Resources"].get("object_store_memory", 0) for node in living().values()))
    needed = f"{size / 2**20:,.0f} MiB are to go there" if size else "results do not fit into it"
    return UserError(
        f"The object store of the Ray cluster is full: it holds {room / 2**20:,.0f} MiB, and {needed}",
        "start Ray with a larger object store, or give it a disk to spill to",
    )


def living() -> dict[str, dict[str, Any]]:
    """Node id → what Ray says of it, of the nodes that are alive."""
    import ray

    return {node["NodeID"]: node for node in ray.nodes() if node["Alive"]}


def node_name(node: dict[str, Any]) -> str:
    """How people call a node: host, address and the start of its id."""
    if not node:
        return "that is gone"
    return f"{node['NodeManagerHostname']} ({node['NodeManagerAddress']}, {node['NodeID'][:6]})"


@cache
def _hand() -> Any:
    import ray

    return ray.remote(Hand)


def _at(name: str) -> Any:
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return NodeAffinitySchedulingStrategy(name, soft=False)


def _environment() -> dict[str, str]:
    """The driver's variables that decide what is computed; where caches lie is each machine's own business."""
    own = ("LONGSHOT_ON", "LONGSHOT_CACHE")
    return {
        name: value
        for name, value in os.environ.items()
        if (name.startswith("LONGSHOT_") and name not in own) or name in PINS
    }


def _packed(value: Any) -> bytes:
    from ray import cloudpickle

    pickled: bytes = cloudpickle.dumps(value)
    return pickled


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
