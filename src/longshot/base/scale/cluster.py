"""Ray: joining a cluster, or starting one here, and finding out whether its machines compute the same bytes."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

from longshot.base.errors import UserError, note
from longshot.base.scale.nodes import differences, living_nodes, node_facts
from longshot.base.scale.pool import RayExecutor

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
    """Ray itself; UserError with the pip command where it is not installed."""
    missing = [name for name in ("ray", *(["grpc"] if client else [])) if find_spec(name) is None]
    if missing:
        raise UserError(f"Work on a cluster needs the package {missing[0]}, which is not installed: {PIP}.")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    import ray

    return ray


def check_alike(opened: RayExecutor) -> None:
    """UserError for a machine whose versions or processor would change bytes; both sides are named."""
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
    """What would change bytes on the other machine, in words; an exception is told as it is."""
    if isinstance(there, Exception):
        reason = " ".join(str(there).split())
        if "No module named 'longshot'" in reason:
            return f"no Longshot where this machine has {here['longshot']}"
        return f"no answer ({type(there).__name__}: {reason[:200]})"
    return " and ".join(differences(here, there))


def _address(on: str) -> str:
    """What ``ray.init`` takes."""
    address = on if on.startswith("ray://") else os.environ.get("RAY_ADDRESS") or "auto"
    if address not in ("local", "auto"):
        _reach(address.removeprefix("ray://"), _shown(on))
    return address


def _reach(host_port: str, shown: str) -> None:
    """UserError where nothing listens at HOST:PORT."""
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
                cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
                with _without_dashboard():
                    ray.init(
                        address="local",
                        num_cpus=int(os.environ.get("LONGSHOT_RAY_CPUS") or cores or 1),
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
    """Ray prints a paragraph for every worker that dies; what matters of it is told at the end, in one sentence."""
    with contextlib.suppress(Exception):  # not a part of Ray that it promises to keep
        from ray._private import worker

        worker.print_to_stdstream = lambda *_, **__: None


@contextlib.contextmanager
def _hushed() -> Iterator[None]:
    """Ray's greetings belong into its log."""
    logger = logging.getLogger("ray")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)
