"""Clusters on loopback, a small world to run verbs in, and the bytes that this machine makes of it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ray", reason="ray is not installed (the extra 'ray')")

from scale_world import World


@pytest.fixture(scope="session")
def ray_folder() -> Iterator[Path]:
    """Where Ray's sockets lie: their paths may not be long, and no other cluster of the machine is to be found."""
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder:
        before = dict(os.environ)
        ours = {
            "RAY_TMPDIR": folder,
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_ADDRESS": "local",
            "RAY_worker_niceness": "0",  # Ray's workers yield to all others: on a busy machine they would starve
        }
        os.environ |= ours
        try:
            yield Path(folder)
        finally:
            for name in ours:
                os.environ.pop(name, None)
                if name in before:
                    os.environ[name] = before[name]


@pytest.fixture
def start_cluster(ray_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """``start_cluster(3)``: a cluster of three nodes of one processor, which ``on="ray"`` then means."""
    from ray.cluster_utils import Cluster

    from longshot.base import close_executors

    clusters: list[Any] = []

    def start(nodes: int, **head: Any) -> Any:
        cluster = Cluster(
            initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False, **head}
        )
        clusters.append(cluster)
        for _ in range(nodes - 1):
            cluster.add_node(num_cpus=1)
        monkeypatch.setenv("RAY_ADDRESS", cluster.address)
        return cluster

    yield start
    close_executors()
    for cluster in clusters:
        cluster.shutdown()


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Photos, a network and testbeds."""
    return World(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="session")
def here(world: World, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], dict[str, str]]:
    """The bytes of a verb that ran on threads of this process, made once."""
    made: dict[str, dict[str, str]] = {}

    def digests(verb: str) -> dict[str, str]:
        if verb not in made:
            made[verb] = getattr(world, verb)(tmp_path_factory.mktemp(verb))
            assert made[verb], f"{verb} wrote nothing to compare"
        return made[verb]

    return digests
