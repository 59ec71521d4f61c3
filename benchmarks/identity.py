"""Identity: digests of 20,000 files against `sha256sum` over the same files, and a second look against a bare `stat`.

Files of 5 to 40 KB (about 450 MB) in 200 class folders, in the page cache. Measured in turns, seconds on the clock, the
best of five: `sha256sum` over all files, given by `xargs`; Longshot's `image_digests` with nothing remembered, which
also writes its memory; `os.stat` of every file in a plain loop; `image_digests` a second time.

    python -m benchmarks identity             needs sha256sum (coreutils) and 450 MB of disk for a minute

Goals: at least 0.8 × the speed of `sha256sum`; a second look within 3 × the time of the `stat` calls.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from longshot.data import Dataset, image_digests, open_dataset
from longshot.data.identity import forget

CLASSES, PER_CLASS, TURNS = 200, 100, 5
LONG_AGO = 1_600_000_000_123_456_789


def write(folder: Path) -> int:
    """Files that are called images, of random bytes; their size together."""
    rng = np.random.default_rng(0)
    total = 0
    for label in range(CLASSES):
        (folder / f"class-{label:03d}").mkdir(parents=True)
        for number, size in enumerate(rng.integers(5_000, 40_000, PER_CLASS).tolist()):
            file = folder / f"class-{label:03d}" / f"{number:04d}.jpg"
            file.write_bytes(rng.bytes(size))
            os.utime(file, ns=(LONG_AGO, LONG_AGO))
            total += size
    return total


def sums(names: bytes) -> dict[str, str]:
    """{file: hex digest} as ``sha256sum`` says."""
    done = subprocess.run(["xargs", "-0", "sha256sum"], input=names, stdout=subprocess.PIPE, check=True)
    lines = (line.split("  ", 1) for line in done.stdout.decode().splitlines())
    return {file: digest for digest, file in lines}


def first_look(dataset: Dataset) -> np.ndarray:
    """Digests with nothing remembered."""
    forget(dataset.source)
    return image_digests(dataset)


def clock(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    with tempfile.TemporaryDirectory() as top:
        folder = Path(top) / "photos"
        os.environ["LONGSHOT_CACHE"] = str(Path(top) / "cache")
        size = write(folder)
        dataset = open_dataset(folder)
        files = [str(folder / key) for key in dataset.keys.to_pylist()]
        names = "\0".join(files).encode()
        print(f"{len(files):,} files, {size / 1e6:.0f} MB, in the page cache")

        digests, expected = first_look(dataset), sums(names)
        assert [digest.tobytes().hex() for digest in digests] == [expected[file] for file in files]

        ways: dict[str, Callable[[], object]] = {
            "sha256sum": lambda: sums(names),
            "first look": lambda: first_look(dataset),
            "stat": lambda: [os.stat(file) for file in files],  # noqa: PTH116
            "second look": lambda: image_digests(dataset),
        }
        seconds = {name: float("inf") for name in ways}
        for _ in range(TURNS):
            for name, work in ways.items():
                seconds[name] = min(seconds[name], clock(work))
        for name, spent in seconds.items():
            print(f"  {name:12} {spent:7.3f} s  {spent / len(files) * 1e6:6.1f} µs a file")
        print(f"  first look: {seconds['sha256sum'] / seconds['first look']:.2f} × the speed of sha256sum")
        print(f"  second look: {seconds['second look'] / seconds['stat']:.2f} × the time of a bare stat")


if __name__ == "__main__":
    main()
