"""Memory of an evaluation on 1,000,000 × 512 float16 features that are memory-mapped.

Wanted: resident memory beyond the map under 1.5 GB. RssAnon counts the process's own pages; the map's pages
belong to the page cache and are counted by RssFile. The evaluation runs in a process of its own, so that making
the file does not count.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

ROWS, DIM, CLASSES, TASKS = 1_000_000, 512, 1_000, 20_000
LIMIT = 1.5e9


def make(folder: Path) -> None:
    """The features, written in blocks."""
    rng = np.random.default_rng(0)
    array = np.lib.format.open_memmap(folder / "f.npy", mode="w+", dtype=np.float16, shape=(ROWS, DIM))
    block = rng.standard_normal((ROWS // 100, DIM)).astype(np.float16)
    for start in range(0, ROWS, len(block)):
        array[start : start + len(block)] = np.roll(block, start // len(block), axis=1)
    array.flush()


def evaluate(folder: Path) -> None:
    """Open, draw, evaluate; print tasks/s and the highest RssAnon seen."""
    import longshot
    from longshot.models import Features

    peak = [0, 0]
    stop = threading.Event()

    def watch() -> None:
        while not stop.wait(0.02):
            for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
                for position, name in enumerate(("RssAnon:", "RssFile:")):
                    if line.startswith(name):
                        peak[position] = max(peak[position], int(line.split()[1]) * 1024)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    keys = pa.array([f"c{row // (ROWS // CLASSES):04d}/{row:07d}" for row in range(ROWS)])
    class_ids = tuple(f"c{number:04d}" for number in range(CLASSES))
    offsets = np.arange(CLASSES + 1, dtype=np.int64) * (ROWS // CLASSES)
    dataset = longshot.Dataset(
        name="million", class_ids=class_ids, offsets=offsets, keys=keys, store=None, source="", splits={}
    )
    features = Features(
        array=np.load(folder / "f.npy", mmap_mode="r"),
        keys=keys,
        class_ids=class_ids,
        offsets=offsets,
        dataset="million",
        fingerprint=dataset.fingerprint,
        backbone="made-up",
        weights_hash="none",
        preprocessing="none",
        hash="0" * 64,
    )
    testbed = longshot.sample(
        dataset,
        tasks=TASKS,
        shape=longshot.FixedShape(way=5, shot=5, query=10),
        identity="names",
        copies="allow",
    )
    start = time.perf_counter()
    longshot.evaluate(
        {"million": testbed}, backbones=features, methods="protonet", out=folder / "run", device="cpu"
    )
    seconds = time.perf_counter() - start
    stop.set()
    watcher.join()
    print(f"{'tasks/s':>8} {'own memory':>11} {'limit':>8} {'share of the limit':>19} {'mapped':>9}")
    own, mapped = (bytes_ / 1e9 for bytes_ in peak)
    line = f"{TASKS / seconds:>8,.0f} {own:>8.2f} GB {LIMIT / 1e9:>5.1f} GB {own * 1e9 / LIMIT:>19.2f}"
    print(f"{line} {mapped:>6.2f} GB")


def main() -> None:
    if not Path("/proc/self/status").exists():
        print("needs Linux: memory is read from /proc/self/status")
        return
    with tempfile.TemporaryDirectory(prefix="longshot-memory-") as name:
        make(Path(name))
        code = f"from pathlib import Path; from benchmarks.memory import evaluate; evaluate(Path({name!r}))"
        subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[1], check=True)


if __name__ == "__main__":
    main()
