"""Identity: digests of files against `sha256sum` and `stat`, and a testbed bound to copies of 10,000 images.

Files of 5 to 40 KB (about 450 MB) in 200 class folders, in the page cache. Measured in turns, seconds on the clock, the
best of five: `sha256sum` over all files, given by `xargs`; Longshot's `image_digests` with nothing remembered, which
also writes its memory; `os.stat` of every file in a plain loop; `image_digests` a second time.

Then 600 tasks of 5 classes, 5 shots and 15 queries on 10,000 PNG files (or on the images at PATH) are bound to a copy
under other names, and to one that is encoded anew (BMP): with nothing remembered of the copy, and again. Beside them
stand `read`, the digests of all files of the copy, and `decode`, those of their pixels as well. The best of three.

    python -m benchmarks identity [PATH]      needs sha256sum (coreutils) and 600 MB of disk for a minute

Goals: at least 0.8 × the speed of `sha256sum`; a second look within 3 × the time of the `stat` calls; binding within
1.25 × the time of `read` (other names) and of `decode` (encoded anew).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image

from longshot.base import cache_dir
from longshot.data import Dataset, image_digests, open_dataset, pixel_digests
from longshot.data.identity import forget
from longshot.tasks import Testbed, rebind, sample

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


def write_pictures(folder: Path) -> Path:
    """10,000 PNG files of 32 × 32 random pixels in 100 classes."""
    rng = np.random.default_rng(0)
    for label in range(100):
        (folder / f"class-{label:03d}").mkdir(parents=True)
        for number, pixels in enumerate(rng.integers(0, 256, (100, 32, 32, 3), np.uint8)):
            Image.fromarray(pixels).save(folder / f"class-{label:03d}" / f"{number:04d}.png")
    return folder


def bind(top: Path, source: str | None) -> None:
    """Time binding to two copies of a dataset."""
    dataset = open_dataset(source or write_pictures(top / "pictures"))
    testbed = sample(dataset, tasks=600, way=5, shot=5, query=15)
    testbed.save(top / "bed.parquet")
    images, size = testbed.content[dataset.name].images, (top / "bed.parquet").stat().st_size
    print(f"\n600 tasks on {images:,} of {len(dataset):,} images: {size / 1e3:,.0f} kB")
    for name, ending in (("other names", None), ("encoded anew", ".bmp")):
        copy = top / name.replace(" ", "-")
        for row in range(len(dataset)):
            file = copy / f"k{dataset.labels[row]}" / f"photo-{row:06d}{ending or '.png'}"
            file.parent.mkdir(parents=True, exist_ok=True)
            if ending:
                dataset.image(row).save(file)
            else:
                file.write_bytes(dataset.store.encoded(row))  # type: ignore[attr-defined]
            os.utime(file, ns=(LONG_AGO, LONG_AGO))
        time_binding(testbed, dataset.name, open_dataset(copy), name)


def time_binding(testbed: Testbed, name: str, copy: Dataset, words: str) -> None:
    """Print what binding to a copy takes beside reading it."""

    def anew(work: Callable[[], object]) -> float:
        forget(copy.source)
        shutil.rmtree(cache_dir("pixels"))
        return clock(work)

    ways = {"read": lambda: image_digests(copy), "decode": lambda: pixel_digests(copy)}
    seconds = {way: min(anew(work) for _ in range(3)) for way, work in ways.items()}
    seconds["bind"] = min(anew(lambda: rebind(testbed, name, copy, quiet=True)) for _ in range(3))
    seconds["again"] = min(clock(lambda: rebind(testbed, name, copy, quiet=True)) for _ in range(3))
    each = [f"{way} {spent:.3f} s ({spent * 1e6 / len(copy):.0f} µs)" for way, spent in seconds.items()]
    print(f"  {words:12} {', '.join(each)}")


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
        bind(Path(top), sys.argv[1] if len(sys.argv) > 1 else None)


if __name__ == "__main__":
    main()
