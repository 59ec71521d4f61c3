"""Ray: joining a cluster, or starting one here, and finding out whether its machines compute the same bytes."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import cache
from importlib.util import find_spec
from typing import Any

from longshot.base.cluster_job import LOOK, PATIENCE, Chunk, Hand, Job, Worker
from longshot.base.cluster_nodes import PINS, Parcels, differences, living_nodes, node_facts, node_name
from longshot.base.engines import usable_cores
from longshot.base.errors import UserError, note
from longshot.base.errors import count as counted
from longshot.base.executor import Executor, Key, MapCall, Mapped, Payload, Result

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
        """Count the workers that the cluster has room for."""
        return sum(self._room(node) for node in self.nodes.values())

    def words(self) -> str:
        """Write the size of the cluster: ``3 nodes, 12 processors``."""
        cpus = sum(node["Resources"].get("CPU", 0) for node in self.nodes.values())
        gpus = sum(node["Resources"].get("GPU", 0) for node in self.nodes.values())
        shown = [counted(len(self.nodes), "node"), counted(int(cpus), "processor")]
        return ", ".join(shown + ([counted(int(gpus), "GPU")] if gpus else []))

    def check_resources(self) -> None:
        """Raise UserError where no node has room for a worker."""
        if not self.slots:
            needed = f"1 processor and {self.gpus:g} GPUs" if self.gpus else "1 processor"
            raise UserError(
                f"A worker needs {needed} of one node, and the cluster ({self.words()}) has no such node",
                "lower {gpus_per_worker} or add nodes" if self.gpus else "add nodes with 'ray start'",
            )

    def _compute(self, call: MapCall[Key, Payload, Result]) -> Mapped[Key, Result]:
        with self.turn:
            try:
                yield from Job(self, call).run()
            except BaseException:
                self.dismiss()  # what is under way must not go on
                raise

    def everywhere(self, function: Callable[..., Any], *arguments: Any) -> dict[str, Any]:
        """Call ``function`` on each node that computes; return its answers by node, exceptions included."""
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
        """Return what was answered; a worker that died is followed by another."""
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
        """Look who is there now; a node that came late is asked for its versions first."""
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
        """Start a worker on a node; it is ready once it has said hello."""
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
    """Return the driver's variables that decide what is computed; where caches lie is each machine's own business."""
    own = ("LONGSHOT_ON", "LONGSHOT_CACHE")
    return {
        name: value
        for name, value in os.environ.items()
        if (name.startswith("LONGSHOT_") and name not in own) or name in PINS
    }


PIP = 'pip install "longshot[ray]"'
_REACH = 10.0  # seconds for a connection to be made
_ATTEMPTS = 3  # to be let in by a cluster whose head node is busy


def join_cluster(on: str, gpus_per_worker: float = 0.0, *, check: bool = True) -> RayExecutor:
    """Join the cluster that ``on`` names (``ray``: the one of this machine, or RAY_ADDRESS; none: start one here).

    Every machine is asked for its versions and its processor; a UserError names what would change bytes, unless
    ``check`` is False.
    """
    ray = need_ray(client=on.startswith("ray://"))
    started, joined = False, not ray.is_initialized()
    if joined:
        started = _init(ray, on, _address(on))
    _mute()
    opened = RayExecutor(on, gpus_per_worker, joined=joined)
    try:
        if not started and check:  # what was started here is this machine
            check_alike(opened)
            note(f"work runs on {opened.words()} of the Ray cluster at {_shown(on)}")
        if check:
            opened.check_resources()
    except BaseException:
        opened.close()
        raise
    return opened


def need_ray(*, client: bool = False) -> Any:
    """Import Ray; UserError with the pip command where it is not installed."""
    missing = [name for name in ("ray", *(["grpc"] if client else [])) if find_spec(name) is None]
    if missing:
        raise UserError(f"Work on a cluster needs the package {missing[0]}, which is not installed: {PIP}.")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    import ray

    return ray


def check_alike(opened: RayExecutor) -> None:
    """Raise UserError for a machine whose versions or processor would change bytes; both sides are named."""
    here = node_facts()
    answers = opened.everywhere(node_facts)
    opened.alike = all(
        isinstance(each, dict) and each["processor"] == here["processor"] for each in answers.values()
    )
    for name, facts in answers.items():
        problem = compare_machines(here, facts)
        if problem:
            raise UserError(
                f"Node {name} has {problem}, and would compute other bytes",
                "install the same versions on every node; for unlike processors set ATEN_CPU_CAPABILITY=avx2 and "
                "ONEDNN_MAX_CPU_ISA=AVX2 before the command, which every worker is then told",
            )
    opened.vetted = set(living_nodes())


def compare_machines(here: dict[str, Any], there: Any) -> str:
    """Say what would change bytes on the other machine; an exception is told as it is."""
    if isinstance(there, Exception):
        reason = " ".join(str(there).split())
        if "No module named 'longshot'" in reason:
            return f"no Longshot where this machine has {here['longshot']}"
        return f"no answer ({type(there).__name__}: {reason[:200]})"
    return " and ".join(differences(here, there))


def _address(on: str) -> str:
    """Return what ``ray.init`` takes."""
    address = on if on.startswith("ray://") else os.environ.get("RAY_ADDRESS") or "auto"
    if address not in ("local", "auto"):
        _reach(address.removeprefix("ray://"), _shown(on))
    return address


def _reach(host_port: str, shown: str) -> None:
    """Raise UserError where nothing listens at HOST:PORT."""
    host, _, port = host_port.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=_REACH):
            return
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error) or "no answer"
        raise UserError(
            f"No Ray cluster answers at {shown} ({reason.lower()})",
            "start Ray there as a head node, or correct host and port ({on:ray://HOST:10001})",
        ) from error


def _init(ray: Any, on: str, address: str) -> bool:
    """Connect; whether a cluster had to be started for it."""
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR, "configure_logging": False}
    try:
        with _hushed():
            if address == "auto":
                try:
                    ray.init(address="auto", namespace="longshot", **quiet)
                    return False
                except ConnectionError:
                    address = "local"
            if address == "local":
                with _without_dashboard():
                    ray.init(
                        address="local",
                        num_cpus=int(os.environ.get("LONGSHOT_RAY_CPUS") or usable_cores()),
                        include_dashboard=False,
                        **quiet,
                    )
                return True
            for remaining in reversed(range(_ATTEMPTS)):
                try:
                    ray.init(address=address, namespace="longshot", **quiet)
                    break
                except ConnectionAbortedError:
                    # A busy head node has not started a process for this client within Ray's own 30 s.
                    if not remaining:
                        raise
            return False
    except Exception as error:  # Ray raises classes of its own, of gRPC and plain RuntimeErrors
        with contextlib.suppress(Exception):
            ray.shutdown()
        reason = " ".join(str(error).split())[:200].rstrip(".")
        remedy = "look at 'ray status' there; Ray's client listens on port 10001 unless it was told another"
        if "Version mismatch" in reason or "version" in reason.lower():
            remedy = "install the same versions of Python and Ray on both sides"
        raise UserError(f"The Ray cluster at {_shown(on)} cannot be joined ({reason})", remedy) from error


def _shown(on: str) -> str:
    address = os.environ.get("RAY_ADDRESS")
    return on if on != "ray" else f"RAY_ADDRESS={address}" if address else "this machine"


@contextlib.contextmanager
def _without_dashboard() -> Iterator[None]:
    """Start no process for Ray's dashboard: even without one, and without usage reports, it asks where it runs.

    ``include_dashboard=False`` leaves a process that calls the metadata services of three clouds, one by name, before
    it looks whether usage reports are wanted. Ray 2.60 has no public way around it: a head node always starts that
    process, no argument of ``ray.init`` or ``ray start`` and no variable says otherwise, and a proxy that leads nowhere
    would also hold for downloads of the workers. So the start is left out here, for this one call.
    """
    from ray._private.node import Node

    before = getattr(Node, "start_api_server", None)  # not a part of Ray that it promises to keep
    if before is not None:
        Node.start_api_server = lambda *_, **__: None
    try:
        yield
    finally:
        if before is not None:
            Node.start_api_server = before


def _mute() -> None:
    """Keep Ray from printing a paragraph for every worker that dies; one sentence at the end says what matters."""
    with contextlib.suppress(Exception):  # not a part of Ray that it promises to keep
        from ray._private import worker

        worker.print_to_stdstream = lambda *_, **__: None


@contextlib.contextmanager
def _hushed() -> Iterator[None]:
    """Keep Ray's greetings out of the terminal; its log has them."""
    logger = logging.getLogger("ray")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)
