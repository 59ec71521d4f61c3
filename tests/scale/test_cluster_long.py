"""Clusters on loopback: equal bytes, kills, resuming, poison, unlike nodes, nothing shared, bad input."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import socket
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
from longshot.core.errors import UserError
from longshot.core.progress import Progress
from longshot.scale import Crew, UnitsFailed, close_executors, executor, using_executor
from scale_crews import Adder, Dies, Gpus, Poison, SlowNode, large
from scale_world import World, cache_of, digests, make_photos

pytestmark = pytest.mark.long
Start = Callable[..., Any]
Here = Callable[[str], dict[str, str]]
VERBS = ("embed", "evaluate", "sample", "tune", "study", "explain", "overlap", "bench")


@pytest.mark.parametrize("verb", VERBS)
def test_three_nodes_give_the_bytes_of_this_machine(
    verb: str, world: World, here: Here, start_cluster: Start, tmp_path: Path
) -> None:
    expected = here(verb)
    start_cluster(3)
    assert getattr(world, verb)(tmp_path, on="ray") == expected


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
    """Kills workers and nodes at random while work goes on; a node that goes is followed by another."""

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
                self.nodes.append(self.cluster.add_node(num_cpus=1, wait=False))
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
    world: World, here: Here, start_cluster: Start, tmp_path: Path
) -> None:
    """Verbs go on and on until twenty have died; every round must give the bytes of a quiet machine."""
    verbs = ("evaluate", "embed", "sample")
    expected = {verb: here(verb) for verb in verbs}
    cluster = start_cluster(3)
    killer = Killer(cluster, 20, seed=7)
    killer.start()
    rounds = 0
    while killer.is_alive() or not rounds:
        for verb in verbs:
            out = tmp_path / f"{verb}-{rounds}"
            assert getattr(world, verb)(out, on="ray") == expected[verb], (verb, rounds, killer.killed)
        rounds += 1
        assert rounds < 60, killer.killed
    assert len(killer.killed) == 20 and {"worker", "node"} == set(killer.killed)


DRIVER = """
import longshot
bed, photos, network, out = sys.argv[1:]
data = {"photos": photos}
longshot.evaluate(bed, backbones=network, methods=["finetune(steps=60)"], out=out, datasets=data, on="ray")
print("finished")
"""


def test_a_killed_driver_goes_on_where_it_was(
    world: World, start_cluster: Start, tmp_path: Path, forks: ForkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LONGSHOT_CACHE", str(tmp_path / "cache"))
    bed = tmp_path / "bed.parquet"
    longshot.sample(world.photos, tasks=48, way=3, shot=2, query=3, out=bed)
    arguments = (str(bed), str(world.photos), str(world.network))
    longshot.evaluate(
        bed,
        backbones=str(world.network),
        methods=["finetune(steps=60)"],
        out=tmp_path / "local",
        datasets=world.data,
    )
    start_cluster(3)
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


def test_a_poisoned_unit_is_named_and_the_others_are_finished(start_cluster: Start) -> None:
    start_cluster(3)
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
    world: World, start_cluster: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """failed.json names it, the same command leaves it alone and exits with 3, --retry-failed computes it."""
    cure = tmp_path / "cure"
    monkeypatch.setenv("LONGSHOT_TEST_CURE", str(cure))
    start_cluster(2)
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


def test_a_unit_whose_worker_dies_twice_is_done_by_another(start_cluster: Start, tmp_path: Path) -> None:
    start_cluster(3)
    with using_executor("ray"):
        crew = Crew(Dies, (str(tmp_path), 2))
        results = dict(executor().map(crew, ((n, n) for n in range(8)), count=8, chunk=1))
    assert results == {number: number for number in range(8)}
    assert len(list(tmp_path.iterdir())) == 2


def test_a_node_that_comes_late_helps(start_cluster: Start) -> None:
    cluster = start_cluster(1)
    bar = Progress("wait", None, "units")

    def units() -> Iterator[tuple[int, int]]:
        number = 0
        while "2 nodes" not in bar.where and number < 20_000:
            yield number, number
            number += 1

    with using_executor("ray"):
        opened = executor()
        with closing(
            opened.map(Crew(Adder, (np.ones(1), 0.02)), units(), bar, count=20_000, chunk=4)
        ) as results:
            pids = set()
            for number, (_, (_, pid)) in enumerate(results):
                pids.add(pid)
                if number == 5:
                    cluster.add_node(num_cpus=1)
    assert bar.where == "2 nodes" and len(pids) == 2


def test_a_late_node_with_another_source_is_left_out(
    start_cluster: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = start_cluster(1)
    with using_executor("ray"):
        opened = executor()
        assert len(dict(opened.map(Crew(Adder, (np.ones(1),)), ((n, n) for n in range(4)), count=4))) == 4
        cluster.add_node(num_cpus=1, env_vars={"PYTHONPATH": other_source(tmp_path)})
        opened.looked = 0.0  # type: ignore[attr-defined]
        pids = {
            pid
            for _, (_, pid) in opened.map(
                Crew(Adder, (np.ones(1), 0.05)), ((n, n) for n in range(40)), count=40
            )
        }
    assert len(pids) == 1
    assert "came late and is left out: it has Longshot's source" in capsys.readouterr().err


def other_source(folder: Path) -> str:
    """A copy of Longshot that differs in one line."""
    package = Path(longshot.__file__).parent
    shutil.copytree(package, folder / "src" / "longshot", ignore=shutil.ignore_patterns("__pycache__"))
    with (folder / "src" / "longshot" / "core" / "arrays.py").open("a") as file:
        file.write("# another line\n")
    return str(folder / "src")


def test_a_node_with_another_source_is_refused_with_both_named(
    world: World, start_cluster: Start, tmp_path: Path
) -> None:
    from longshot.scale.nodes import source_digest

    cluster = start_cluster(1)
    cluster.add_node(num_cpus=1, env_vars={"PYTHONPATH": other_source(tmp_path)})
    with pytest.raises(
        UserError, match=rf"has Longshot's source \w+ where this machine has {source_digest()}"
    ):
        world.evaluate(tmp_path / "out", on="ray")
    assert not (tmp_path / "out" / "run").exists()


def test_a_node_with_another_processor_is_refused_or_pinned(
    world: World, here: Here, start_cluster: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``ATEN_CPU_CAPABILITY`` makes one machine compute like another."""
    cluster = start_cluster(1)
    cluster.add_node(num_cpus=1, env_vars={"ATEN_CPU_CAPABILITY": "default"})
    with pytest.raises(
        UserError, match=r"a processor that computes with \w+ where this one computes with \w+"
    ):
        world.embed(tmp_path / "out", on="ray")
    rows = longshot.doctor(on="ray")
    assert [row["state"] for row in rows] == ["ok", "ok", "refused"]


def test_logical_gpus_are_handed_out(start_cluster: Start) -> None:
    cluster = start_cluster(1)
    cluster.add_node(num_cpus=4, num_gpus=2)
    with using_executor("ray", gpus_per_worker=1):
        assert executor().slots == 2
        results = dict(executor().map(Crew(Gpus), ((n, n) for n in range(8)), count=8, chunk=1))
    assert {tuple(gpus) for gpus in results.values()} == {(0,), (1,)}
    close_executors()
    with (
        pytest.raises(UserError, match=r"A worker needs 1 processor and 3 GPUs of one node, and the cluster"),
        using_executor("ray", gpus_per_worker=3),
    ):
        pass


def test_no_shared_files_at_all(
    world: World, here: Here, start_cluster: Start, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nodes in a namespace of their own, where neither the photos nor the network nor the cache exist."""
    expected = {verb: here(verb) for verb in ("embed", "evaluate", "sample", "tune")}
    cluster = start_cluster(1, num_cpus=0)
    hide = tmp_path / "hide"
    hide.mkdir()
    (hide / "sitecustomize.py").write_text(HIDING)
    paths = f"{hide}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    secret = {
        "HIDDEN_FOLDER": str(world.root),
        "PYTHONPATH": paths,
        "LONGSHOT_CACHE": str(tmp_path / "node-cache"),
    }
    cluster.add_node(num_cpus=2, env_vars=secret)
    for verb, digest in expected.items():
        assert getattr(world, verb)(tmp_path / verb, on="ray") == digest, verb
    errors = capsys.readouterr().err
    assert "cannot read the images of 'photos'" in errors and "they are sent along" in errors
    rows = longshot.doctor(on="ray", dataset=world.photos, out=tmp_path / "results")
    states = {row["what"].split()[0]: row["state"] for row in rows}
    assert states["results"] == "ok"
    assert "cannot read" in [row["state"] for row in rows if row["what"].startswith("data on")]


# Every open of a file below the folder fails in processes of that node, as on a machine that does not have it.
HIDING = """
import os, sys
hidden = os.environ["HIDDEN_FOLDER"]


def refuse(event, arguments):
    if event == "open" and isinstance(arguments[0], (str, bytes)) and os.fsdecode(arguments[0]).startswith(hidden):
        raise FileNotFoundError(2, "No such file or directory", arguments[0])


sys.addaudithook(refuse)
"""


def test_a_dataset_that_is_too_large_to_travel_is_told(
    world: World, start_cluster: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = start_cluster(1, num_cpus=0)
    hide = tmp_path / "hide"
    hide.mkdir()
    (hide / "sitecustomize.py").write_text(HIDING)
    paths = f"{hide}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    cluster.add_node(num_cpus=1, env_vars={"HIDDEN_FOLDER": str(world.root), "PYTHONPATH": paths})
    monkeypatch.setenv("LONGSHOT_SHIP_LIMIT", "1000")
    sentence = (
        r"^Node .* cannot read the images of dataset 'photos', and with 192 images of about .* too large"
    )
    with pytest.raises(UserError, match=sentence):
        world.embed(tmp_path / "out", on="ray")
    assert not list((tmp_path / "out").rglob("*.npy"))


def test_a_store_that_is_short_spills_and_one_that_is_full_is_told(start_cluster: Start) -> None:
    start_cluster(1, object_store_memory=80 << 20, num_cpus=2)
    with using_executor("ray"):
        opened = executor()
        # 40 results of 8 MiB through a store of 80 MiB: those that were read make room
        total = 0.0
        for _, values in opened.map(Crew(large, (1024,)), ((n, n) for n in range(40)), count=40, chunk=1):
            total += float(values[0, 0])
        assert total == sum(range(40))


def test_a_full_store_is_one_sentence(start_cluster: Start) -> None:
    spill = json.dumps({"type": "filesystem", "params": {"directory_path": "/dev/null/none"}})
    start_cluster(
        1,
        object_store_memory=80 << 20,
        _system_config={"object_spilling_config": spill, "automatic_object_spilling_enabled": False},
    )
    with using_executor("ray"):
        array = np.ones((30 << 20), np.float64)
        with pytest.raises(
            UserError, match=r"The object store of the Ray cluster is full: it holds \d+ MiB, and 240 MiB"
        ):
            list(executor().map(Crew(Adder, (array,)), [(0, 0)], count=1))


def test_through_rays_client(
    world: World,
    here: Here,
    start_cluster: Start,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    run_cli: Any,
) -> None:
    """``ray://HOST:PORT`` from a process that is no node of the cluster, by the command line."""
    port = free_port()
    expected = here("evaluate")
    start_cluster(2, ray_client_server_port=port)
    monkeypatch.delenv("RAY_ADDRESS")
    assert world.evaluate(tmp_path, on=f"ray://127.0.0.1:{port}") == expected


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def test_an_address_where_nothing_listens(ray_folder: Path, tmp_path: Path, world: World) -> None:
    port = free_port()
    with pytest.raises(
        UserError, match=rf"^No Ray cluster answers at ray://127\.0\.0\.1:{port} \(connection refused\)"
    ):
        world.evaluate(tmp_path / "out", on=f"ray://127.0.0.1:{port}")
    assert not (tmp_path / "out" / "run").exists()


def test_a_port_where_something_else_listens(
    ray_folder: Path, start_cluster: Start, tmp_path: Path, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The port of the cluster's own store, which many mistake for that of its clients."""
    cluster = start_cluster(1)
    monkeypatch.delenv("RAY_ADDRESS")
    port = cluster.address.rpartition(":")[2]
    with pytest.raises(UserError, match=rf"The Ray cluster at ray://127\.0\.0\.1:{port} cannot be joined"):
        world.evaluate(tmp_path / "out", on=f"ray://127.0.0.1:{port}")
    assert not (tmp_path / "out" / "run").exists()


def test_the_command_says_how_to_install_ray(forks: ForkServer, tmp_path: Path) -> None:
    hidden = tmp_path / "none"
    (hidden / "ray").mkdir(parents=True)
    code = (
        "import sys, importlib.util as u\n"
        "find = u.find_spec\n"
        "import longshot.scale.cluster as c\n"
        "c.find_spec = lambda name: None if name == 'ray' else find(name)\n"
        "import longshot\n"
        "try: longshot.embed('toybox', 'pixels', on='ray')\n"
        "except longshot.UserError as error: print(error)\n"
    )
    done = forks.run(program=code)
    assert done.stdout.strip() == (
        'Work on a cluster needs the package ray, which is not installed: pip install "longshot[ray]".'
    )


def test_a_million_units_never_sit_in_memory(start_cluster: Start) -> None:
    start_cluster(2)
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
    assert made <= 500 + 3 * 2 * 2 * 100


def test_a_slow_worker_holds_nobody_up(start_cluster: Start) -> None:
    """Units that take long on one worker are few on it: the others take more."""
    start_cluster(2)
    with using_executor("ray"):
        pids = [
            pid for _, pid in executor().map(Crew(SlowNode), ((n, n) for n in range(60)), count=60, chunk=4)
        ]
    counts = sorted(pids.count(pid) for pid in set(pids))
    assert len(counts) == 2 and counts[0] < counts[1] / 2


def test_photos_of_other_bytes_are_not_taken_for_the_same(tmp_path: Path) -> None:
    """What every node is asked compares bytes, not names."""
    from longshot.datasets.shipping import read_digests

    first, second = (
        longshot.open_dataset(make_photos(tmp_path / name, 2, 4, seed)) for seed, name in enumerate("ab")
    )
    rows = np.arange(4)
    assert read_digests(first.store, rows) != read_digests(second.store, rows)
