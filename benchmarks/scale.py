"""A Ray cluster on this machine against threads: efficiency, the driver's throughput and memory, the cold start.

Each part runs in a process of its own. Efficiency is a ratio of two runs of the same work, one after the other: that of
processor seconds of all processes, which other work on the machine changes little, and that of wall time.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._photos import write_photos

PHOTOS = 4000  # eleven seconds for two cores: a minute would flatter the cluster
TASKS = 60_000
UNITS, SLEEP, PROCESSORS = 100_000, 0.01, 64
ADAPTED = 6  # tasks to which a whole network is adapted
_TICKS = os.sysconf("SC_CLK_TCK")


def tree_seconds() -> float:
    """Processor seconds of this process and of all that it started, at any depth, as far as they live."""
    parents: dict[int, int] = {}
    seconds: dict[int, float] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(entry.name)] = int(fields[1])
        seconds[int(entry.name)] = sum(map(int, fields[11:15])) / _TICKS
    own = os.getpid()

    def inside(pid: int) -> bool:
        while pid not in (0, 1, own):
            pid = parents.get(pid, 0)
        return pid == own

    return sum(used for pid, used in seconds.items() if inside(pid))


def measured(work: Callable[[], object]) -> tuple[float, float]:
    """Processor and wall seconds of a piece of work."""
    began, wall = tree_seconds(), time.perf_counter()
    work()
    return tree_seconds() - began, time.perf_counter() - wall


def efficiency(name: str, work: Callable[[str], object], rounds: int = 2) -> None:
    """The same work on two threads and on two workers, in turn, after a short run of each."""
    processor, wall = [], []
    for number in range(rounds):
        here = measured(lambda: work("local"))
        there = measured(lambda: work("ray"))
        processor.append(here[0] / there[0])
        wall.append(here[1] / there[1])
        print(
            f"  round {number + 1}: threads {here[0]:.1f} s of processors, {here[1]:.1f} s of wall; "
            f"workers {there[0]:.1f} and {there[1]:.1f} (load {os.getloadavg()[0]:.1f})",
            flush=True,
        )
    print(
        f"{name}: efficiency {np.median(processor):.2f} in processor time, {np.median(wall):.2f} in wall time "
        "(goal 0.9)",
        flush=True,
    )


def embedding(folder: str) -> None:
    """Part: EfficientNet-Lite0 over JPEGs."""
    import longshot

    photos = write_photos(Path(folder) / "photos", PHOTOS)
    warm = write_photos(Path(folder) / "warm", 120)
    for on in ("local", "ray"):
        longshot.embed(warm, "efficientnet-lite0(size=128)", on=on, refresh=True)
    efficiency(
        f"embed {PHOTOS:,} JPEGs of 500 × 333 with EfficientNet-Lite0 at 128 pixels",
        lambda on: longshot.embed(photos, "efficientnet-lite0(size=128)", on=on, refresh=True),
    )


def evaluating(folder: str) -> None:
    """Part: a method on features, one result row per task."""
    import longshot

    tasks = longshot.sample("toybox", tasks=TASKS, way=5, shot=5, query=15, allow_repeats=True)
    warm = longshot.sample("toybox", tasks=200, way=5, shot=5, query=15)
    for on in ("local", "ray"):
        longshot.evaluate(warm, backbones="pixels", methods="ridge", on=on)
    efficiency(
        f"evaluate ridge on {TASKS:,} tasks of toybox",
        lambda on: longshot.evaluate(tasks, backbones="pixels", methods="ridge", on=on),
    )


def throughput(folder: str) -> None:
    """Part: many small units on many logical processors."""
    os.environ["LONGSHOT_RAY_CPUS"] = str(PROCESSORS)
    from longshot.base import Crew, executor, using_executor

    with using_executor("ray"):
        pool = executor()
        began = time.perf_counter()
        list(
            pool.map(
                Crew(sleeping, (0.5,)), ((n, n) for n in range(4 * PROCESSORS)), count=4 * PROCESSORS, chunk=1
            )
        )
        workers = time.perf_counter() - began
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        began, driver, count = time.perf_counter(), time.process_time(), 0
        for _ in pool.map(Crew(sleeping, (SLEEP,)), ((n, n) for n in range(UNITS)), count=UNITS, chunk=200):
            count += 1
        seconds, busy = time.perf_counter() - began, time.process_time() - driver
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(
        f"driver: {count:,} units of {1000 * SLEEP:g} ms on {PROCESSORS} logical processors in {seconds:.1f} s: "
        f"{count / seconds:,.0f} units/s (goal 2,000), {1e6 * busy / count:.0f} µs of the driver's processor per unit; "
        f"its memory grew by {grown:.0f} MiB; {PROCESSORS} workers were there after {workers:.0f} s "
        f"(load {os.getloadavg()[0]:.1f})",
        flush=True,
    )


def sleeping(seconds: float) -> Any:
    """A crew whose work is to wait."""

    def work(payload: int, tick: Callable[[int], None]) -> int:
        time.sleep(seconds)
        tick(1)
        return payload

    return work


def cold(folder: str) -> None:
    """Part: from nothing to the first result of a cluster on this machine."""
    began, used = time.perf_counter(), tree_seconds()
    from longshot.base import Crew, executor, using_executor

    with using_executor("ray"):
        list(executor().map(Crew(sleeping, (0.0,)), [(0, 0)], count=1))
    print(
        f"cold start of a local cluster to its first result: {time.perf_counter() - began:.1f} s of wall (goal 15), "
        f"{tree_seconds() - used:.1f} s of processors (load {os.getloadavg()[0]:.1f})",
        flush=True,
    )


def imports() -> None:
    """Whether anything imports Ray that was not told to."""
    code = "import sys, longshot; longshot.embed('toybox', 'pixels'); print('ray' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    print(f'Ray imported without on="ray": {answer.stdout.strip()} (goal False)')


def costs(folder: str) -> None:
    """Part: what one unit costs here, in processor time: an image, a task on features, a task that adapts a network."""
    import longshot

    photos = write_photos(Path(folder) / "photos", 600)
    warm = write_photos(Path(folder) / "warm", 60)
    longshot.embed(warm, "efficientnet-lite0(size=128)", on="local", refresh=True)
    used, _ = measured(
        lambda: longshot.embed(photos, "efficientnet-lite0(size=128)", on="local", refresh=True)
    )
    size = sum(path.stat().st_size for path in photos.rglob("*.jpg")) / 600
    print(
        f"one JPEG of 500 × 333 ({size / 1000:.0f} kB) through EfficientNet-Lite0 at 128 pixels: "
        f"{1000 * used / 600:.1f} ms",
        flush=True,
    )
    tasks = longshot.sample(photos, tasks=1000, way=5, shot=5, query=10, allow_repeats=True)
    where: dict[str, Any] = {
        "backbones": "efficientnet-lite0(size=128)",
        "datasets": {tasks_name(tasks): photos},
    }
    longshot.evaluate(tasks, methods="protonet", **where)
    used, _ = measured(lambda: longshot.evaluate(tasks, methods="ridge", **where))
    print(f"ridge on a task of 25 and 50 images' features: {1000 * used / 1000:.2f} ms", flush=True)
    adapted = longshot.sample(photos, tasks=ADAPTED, way=5, shot=5, query=10)
    used, _ = measured(
        lambda: longshot.evaluate(adapted, methods="finetune-all(steps=10, lr=0.001)", **where)
    )
    print(f"full fine-tuning on such a task, ten steps: {used / ADAPTED:.1f} s", flush=True)


def tasks_name(testbed: Any) -> str:
    """What the only dataset of a testbed is called."""
    return str(next(iter(testbed.datasets)))


PARTS: dict[str, Callable[[str], None]] = {
    "cold": cold,
    "costs": costs,
    "embedding": embedding,
    "evaluating": evaluating,
    "throughput": throughput,
}


def main(chosen: tuple[str, ...] = tuple(PARTS)) -> None:
    """Every part, each in a process of its own with a cache of its own."""
    imports()
    for name in chosen:
        with tempfile.TemporaryDirectory(prefix="longshot-scale-") as folder:
            here = Path(__file__).parents[1]
            paths = os.pathsep.join([str(here / "src"), str(here), os.environ.get("PYTHONPATH", "")])
            environment = {
                **os.environ,
                "LONGSHOT_CACHE": f"{folder}/cache",
                "PYTHONPATH": paths,
                "RAY_ADDRESS": "local",
                "RAY_TMPDIR": folder,
                "RAY_USAGE_STATS_ENABLED": "0",
            }
            command = [sys.executable, "-m", "benchmarks.scale", name, folder]
            subprocess.run(command, env=environment, check=True, cwd=here)


if __name__ == "__main__":
    if len(sys.argv) == 3:
        PARTS[sys.argv[1]](sys.argv[2])
    else:
        main(tuple(sys.argv[1:]) or tuple(PARTS))
