"""One cluster of three nodes on loopback: equal bytes of every verb, poison, kills, a killed driver that goes on."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import longshot
from forked import ForkServer
from longshot.base import Crew, UnitsFailed, close_executors, executor, using_executor
from scale_crews import Adder, Dies, Poison, SlowNode
from scale_world import World, cache_of, digests, make_photos

pytestmark = pytest.mark.long
Start = Callable[..., Any]
Here = Callable[[str], dict[str, str]]
VERBS = ("embed", "evaluate", "sample", "tune", "study", "explain", "overlap", "bench")


@pytest.fixture(scope="module", autouse=True)
def three_nodes(ray_folder: Path) -> Iterator[Any]:
    """One cluster for all tests here, which stay connected to it: workers need not be started again."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    for _ in range(2):
        cluster.add_node(num_cpus=1)
    os.environ["RAY_ADDRESS"] = cluster.address
    yield cluster
    close_executors()
    os.environ["RAY_ADDRESS"] = "local"
    cluster.shutdown()


@pytest.mark.parametrize("verb", VERBS)
def test_three_nodes_give_the_bytes_of_this_machine(
    verb: str, world: World, here: Here, three_nodes: Any, tmp_path: Path
) -> None:
    expected = here(verb)
    assert getattr(world, verb)(tmp_path, on="ray") == expected


def test_a_poisoned_unit_is_named_and_the_others_are_finished(three_nodes: Any) -> None:
    with using_executor("ray"):
        results: dict[int, Any] = {}
        units = ((number, {7: "kill", 11: "raise"}.get(number, number)) for number in range(40))
        with (
            pytest.raises(UnitsFailed) as caught,
            closing(executor().map(Crew(Adder, (np.ones(3),)), units, count=40)) as computed,
        ):
            for key, value in computed:
                results[key] = value[0]
    assert results == {number: 3.0 + number for number in range(40) if number not in (7, 11)}
    assert set(caught.value.failed) == {"7", "11"}
    assert caught.value.failed["7"] == "its worker died (killed)"
    assert caught.value.failed["11"] == "ValueError: this unit cannot be computed"


def test_a_failed_unit_of_an_evaluation_waits_until_it_is_retried(
    world: World, three_nodes: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """failed.json names it, the same command leaves it alone and exits with 3, --retry-failed computes it."""
    cure = tmp_path / "cure"
    monkeypatch.setenv("LONGSHOT_TEST_CURE", str(cure))
    options: dict[str, Any] = {"backbones": "pixels", "datasets": world.data, "out": tmp_path / "run"}
    with cache_of(tmp_path / "cache"):
        with pytest.raises(UnitsFailed, match=r"1 unit of work failed 3 times"):
            longshot.evaluate(world.plain, methods=[Poison()], on="ray", **options)
        parts = digests(tmp_path / "run", "part-*")
        assert len(parts) == 2  # of three
        listed = json.loads((tmp_path / "run" / "failed.json").read_text())
        assert list(listed.values()) == [
            "poison on pixels, tasks 128 to 255 of 'plain': its worker died (killed)"
        ]
        with pytest.raises(UnitsFailed):
            longshot.evaluate(
                world.plain, methods=[Poison()], on="local", **options
            )  # would kill this process
        cure.touch()
        longshot.evaluate(world.plain, methods=[Poison()], on="ray", retry_failed=True, **options)
    assert len(digests(tmp_path / "run", "part-*")) == 3
    assert not (tmp_path / "run" / "failed.json").exists()


def test_a_unit_whose_worker_dies_twice_is_done_by_another(three_nodes: Any, tmp_path: Path) -> None:
    with using_executor("ray"):
        crew = Crew(Dies, (str(tmp_path), 2))
        results = dict(executor().map(crew, ((n, n) for n in range(8)), count=8, chunk=1))
    assert results == {number: number for number in range(8)}
    assert len(list(tmp_path.iterdir())) == 2


def test_a_single_unit_whose_worker_dies_goes_to_another_node(three_nodes: Any, tmp_path: Path) -> None:
    """The worker that follows may be on the same node, where the unit is not tried again while there are others."""
    with using_executor("ray"):
        executor().release()
        assert dict(executor().map(Crew(Dies, (str(tmp_path), 1)), [(3, 3)], count=1)) == {3: 3}


def test_a_million_units_never_sit_in_memory(three_nodes: Any) -> None:
    made = 0

    def units() -> Iterator[tuple[int, int]]:
        nonlocal made
        for number in range(1_000_000):
            made += 1
            yield number, number

    with (
        using_executor("ray"),
        closing(executor().map(Crew(Adder, (np.ones(1),)), units(), count=1_000_000, chunk=100)) as results,
    ):
        for _ in range(500):
            next(results)
    assert made <= 500 + 3 * 3 * 2 * 100


def test_a_slow_worker_holds_nobody_up(three_nodes: Any) -> None:
    """Units that take long on one node are few on it: the others take more."""
    with using_executor("ray"):
        pids = [
            pid for _, pid in executor().map(Crew(SlowNode), ((n, n) for n in range(60)), count=60, chunk=4)
        ]
    counts = sorted(pids.count(pid) for pid in set(pids))
    assert len(counts) == 3 and counts[0] < counts[1] / 2


DRIVER = """
import sys
import longshot
bed, photos, network, out = sys.argv[1:]
data = {"photos": photos}
method = "finetune-all(steps=60, lr=0.001)"
longshot.evaluate(bed, backbones=network, methods=[method], out=out, datasets=data, on="ray")
print("finished")
"""


def test_a_killed_driver_goes_on_where_it_was(
    world: World, three_nodes: Any, tmp_path: Path, forks: ForkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LONGSHOT_CACHE", str(tmp_path / "cache"))
    bed = tmp_path / "bed.parquet"
    longshot.sample(world.photos, tasks=48, way=3, shot=2, query=3, out=bed)
    arguments = (str(bed), str(world.photos), str(world.network))
    longshot.evaluate(
        bed,
        backbones=str(world.network),
        methods=["finetune-all(steps=60, lr=0.001)"],
        out=tmp_path / "local",
        datasets=world.data,
    )
    with using_executor("ray"):
        executor().dismiss()  # type: ignore[attr-defined]  # processors for another driver
    run = tmp_path / "run"
    driver = forks.start(*arguments, str(run), program=DRIVER)
    deadline = time.monotonic() + 300
    while len(list(run.glob("part-*"))) < 2:
        assert driver.poll() is None, driver.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    driver.kill()
    driver.wait()
    early = {path.name: path.stat().st_mtime_ns for path in run.glob("part-*")}
    assert 2 <= len(early) < 12
    again = forks.start(*arguments, str(run), program=DRIVER)
    out, errors = again.communicate(timeout=600)
    assert out.strip() == "finished", errors
    assert digests(run, "part-*") == digests(tmp_path / "local", "part-*")
    assert all((run / name).stat().st_mtime_ns == changed for name, changed in early.items())


def workers_of(cluster: Any) -> list[int]:
    """Processes of Ray that compute for us, children of the nodes' raylets."""
    import psutil

    raylets = [
        node.all_processes["raylet"][0].process.pid
        for node in cluster.list_all_nodes()
        if node.any_processes_alive()
    ]
    pids = []
    for raylet in raylets:
        try:
            children = psutil.Process(raylet).children(recursive=True)
            pids += [child.pid for child in children if "ray::Hand" in " ".join(child.cmdline())]
        except psutil.Error:
            continue
    return pids


class Killer(threading.Thread):
    """Kills workers and nodes at random while work goes on."""

    def __init__(self, cluster: Any, kills: int, seed: int) -> None:
        super().__init__(daemon=True)
        self.cluster, self.kills, self.random = cluster, kills, random.Random(seed)
        self.killed: list[str] = []
        self.ended = threading.Event()
        self.nodes = list(cluster.worker_nodes)

    def run(self) -> None:
        while len(self.killed) < self.kills and not self.ended.wait(self.random.uniform(0.5, 2.0)):
            if self.nodes and self.random.random() < 0.25:
                node = self.nodes.pop(self.random.randrange(len(self.nodes)))
                self.cluster.remove_node(node, allow_graceful=False)
                self.killed.append("node")
                continue
            pids = workers_of(self.cluster)
            if pids:
                try:
                    os.kill(self.random.choice(pids), signal.SIGKILL)
                    self.killed.append("worker")
                except ProcessLookupError:
                    continue


def test_twenty_kills_of_workers_and_nodes_change_no_byte(
    world: World, here: Here, three_nodes: Any, tmp_path: Path
) -> None:
    """Verbs go on and on until twenty have died; every round must give the bytes of a quiet machine."""
    verbs = ("evaluate", "embed", "sample")
    expected = {verb: here(verb) for verb in verbs}
    cluster = three_nodes
    killer = Killer(cluster, 20, seed=7)
    killer.start()
    rounds = 0
    while killer.is_alive() or not rounds:
        for verb in verbs:
            while len(killer.nodes) < 2:  # Ray starts nodes from the main thread only
                killer.nodes.append(cluster.add_node(num_cpus=1))
            out = tmp_path / f"{verb}-{rounds}"
            made = None
            while made is None:  # at most seven times: twenty kills are enough for six failures of a unit
                try:
                    made = getattr(world, verb)(out, on="ray", retry_failed=True)
                except UnitsFailed:
                    # Where computing takes longer than the killer's pauses, a unit is hit three times.
                    assert len(killer.killed) >= 3
            assert made == expected[verb], (verb, rounds, killer.killed)
        rounds += 1
        assert rounds < 60, killer.killed
    assert len(killer.killed) == 20 and {"worker", "node"} == set(killer.killed)


def test_photos_of_other_bytes_are_not_taken_for_the_same(tmp_path: Path) -> None:
    """What every node is asked compares bytes, not names."""
    from longshot.data import read_digests

    first, second = (
        longshot.open_dataset(make_photos(tmp_path / name, 2, 4, seed)) for seed, name in enumerate("ab")
    )
    rows = np.arange(4)
    assert read_digests(first.store, rows) != read_digests(second.store, rows)
