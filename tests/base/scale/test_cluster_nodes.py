"""Clusters of unlike nodes, late nodes, nodes without files or memory, GPUs, Ray's client, addresses that are wrong."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import longshot
from forked import ForkServer
from longshot.base import Crew, Progress, UserError, close_executors, executor, using_executor
from scale_crews import Adder, Gpus, large
from scale_world import World

pytestmark = pytest.mark.long
Start = Callable[..., Any]
Here = Callable[[str], dict[str, str]]


def test_a_node_that_comes_late_helps(start_cluster: Start) -> None:
    """There are units until a second worker has done one."""
    cluster = start_cluster(1)
    bar = Progress("wait", None, "units")
    pids: set[int] = set()

    def units() -> Iterator[tuple[int, int]]:
        for number in range(50_000):
            if len(pids) > 1:
                return
            yield number, number

    crew = Crew(Adder, (np.ones(1), 0.02))
    with (
        using_executor("ray"),
        closing(executor().map(crew, units(), bar, count=50_000, chunk=4)) as results,
    ):
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
    with (folder / "src" / "longshot" / "base" / "tasks.py").open("a") as file:
        file.write("# another line\n")
    return str(folder / "src")


def test_a_node_with_another_source_is_refused_with_both_named(
    world: World, start_cluster: Start, tmp_path: Path
) -> None:
    from longshot.base.cluster_nodes import source_digest

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
    assert sorted(row["state"] for row in rows) == ["ok", "ok", "refused"]  # nodes come in any order


def test_logical_gpus_are_handed_out(start_cluster: Start) -> None:
    cluster = start_cluster(1)
    cluster.add_node(num_cpus=4, num_gpus=2)
    seen: set[tuple[int, ...]] = set()

    def units() -> Iterator[tuple[int, int]]:
        """Until a second worker, which may take long to start, has done one."""
        for number in range(5_000):
            if len(seen) > 1:
                return
            yield number, number

    with using_executor("ray", gpus_per_worker=1):
        assert executor().slots == 2
        for _, gpus in executor().map(Crew(Gpus), units(), count=5_000, chunk=1):
            seen.add(tuple(gpus))
    assert seen == {(0,), (1,)}
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
    full_disk = {"automatic_object_spilling_enabled": False, "local_fs_capacity_threshold": 0.01}
    start_cluster(1, object_store_memory=80 << 20, _system_config=full_disk)
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
        "import longshot.base.cluster as c\n"
        "c.find_spec = lambda name: None if name == 'ray' else find(name)\n"
        "import longshot\n"
        "try: longshot.embed('toybox', 'pixels', on='ray')\n"
        "except longshot.UserError as error: print(error)\n"
    )
    done = forks.run(program=code)
    assert done.stdout.strip() == (
        'Work on a cluster needs the package ray, which is not installed: pip install "longshot[ray]".'
    )
