"""Workers on the nodes of a Ray cluster: started where there is room, kept between calls, followed when they die."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from longshot.base.errors import UserError, note
from longshot.base.errors import count as counted
from longshot.base.scale.executor import Executor, Key, MapCall, Payload, Result, Results
from longshot.base.scale.job import LOOK, PATIENCE, Chunk, Hand, Job, Worker
from longshot.base.scale.nodes import PINS, Parcels, differences, living_nodes, node_facts, node_name

if TYPE_CHECKING:
    pass

_ASKED = 5  # times that a node is asked whose workers die


class RayExecutor(Executor):
    """The workers of a cluster, one per processor (or per share of its GPUs), kept from one call to the next."""

    distant = True

    def __init__(self, on: str, gpus_per_worker: float, *, joined: bool = True) -> None:
        self.on, self.gpus, self.joined = on, gpus_per_worker, joined
        self.vetted: set[str] | None = None  # nodes that compute the same bytes; None: this machine alone
        self.refused: set[str] = set()
        self.workers: list[Worker] = []
        self.stillborn: dict[str, int] = {}
        self.parcels = Parcels()
        self.turn = threading.RLock()  # one call at a time
        self.looked = 0.0
        self.nodes: dict[str, dict[str, Any]] = living_nodes()

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

    def _compute(self, call: MapCall[Key, Payload, Result]) -> Results[Key, Result]:
        with self.turn:
            try:
                yield from Job(self, call).run()
            except BaseException:
                self.dismiss()  # what is under way must not go on
                raise

    def everywhere(self, function: Callable[..., Any], *arguments: Any) -> dict[str, Any]:
        """What ``function`` answers on each node that computes, by the node's name; an exception is an answer."""
        return self._everywhere(living_nodes(), function, *arguments)

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

    def _ask(self, node: str, packed: Any) -> tuple[Worker, Any]:
        """Put a question to a worker of a node; one is started where there is none."""
        worker = next((each for each in self.workers if each.node == node), None) or self._start(node)
        return worker, worker.actor.ask.remote(packed)

    def _answer(self, node: str, question: tuple[Worker, Any], packed: Any) -> Any:
        """What was answered; a worker that died is followed by another."""
        import ray
        import ray.exceptions

        for number in range(_ASKED):
            worker, reference = question
            try:
                while not ray.wait([reference], timeout=PATIENCE)[0]:
                    note(f"waiting for a free processor on node {node_name(living_nodes().get(node, {}))}")
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
        if time.monotonic() - self.looked < LOOK:
            return
        self.looked = time.monotonic()
        alive = living_nodes()
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

    def _start(self, node: str) -> Worker:
        """A new worker on a node; it is ready once it has said hello."""
        settings = {"num_cpus": 1, "num_gpus": self.gpus, "max_restarts": 0, "scheduling_strategy": _at(node)}
        actor = _hand().options(**settings).remote(_environment(), sys.path)
        worker = Worker(actor, node)
        worker.queue.append((actor.hello.remote(), Chunk([], b"")))
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
