"""Records: indexing a Meta-Dataset source once, and reading single records, against plain reading and `tfrecord`.

A source of 50 classes × 1,000 records of 2 to 8 KB (about 250 MB) is written in Meta-Dataset's form. Measured in the
same run: a plain read of all its bytes (1 MB at a time), Longshot's first opening (which finds every record and
compares the checksums of all lengths), the same with `verify` (all data too), a second opening (the index is
remembered), and the indexer of the package `tfrecord`. Then 20,000 records in random order, each with one read: their
bytes through Longshot (both checksums compared) and through `tfrecord`'s index (seek and read, no checksum), and
parsed as Examples on both sides.

    python -m benchmarks records             needs `.venv/bin/pip install tfrecord` and 250 MB of disk for a minute

Processor seconds with the files in the page cache: the cost of the code. A slower disk sets the pace instead.
"""

from __future__ import annotations

import json
import os
import struct
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from longshot.data import open_located
from longshot.data.formats.spans import SpanStore
from longshot.data.formats.tfrecord import parse_example, unframe

CLASSES, PER_CLASS, READS = 50, 1_000, 20_000


def write(folder: Path) -> int:
    """The source; its size in bytes."""
    from tfrecord.writer import TFRecordWriter

    rng = np.random.default_rng(0)
    for number in range(CLASSES):
        writer = TFRecordWriter(str(folder / f"{number}.tfrecords"))
        for size in rng.integers(2_000, 8_000, PER_CLASS).tolist():
            writer.write({"image": (rng.bytes(size), "byte"), "label": (number, "int")})
        writer.close()
    spec = {
        "name": "records",
        "classes_per_split": {"TRAIN": CLASSES, "VALID": 0, "TEST": 0},
        "images_per_class": dict.fromkeys(map(str, range(CLASSES)), PER_CLASS),
        "class_names": {str(i): f"class {i}" for i in range(CLASSES)},
        "file_pattern": "{}.tfrecords",
    }
    (folder / "dataset_spec.json").write_text(json.dumps(spec))
    return sum(file.stat().st_size for file in folder.glob("*.tfrecords"))


def best(work: Callable[[], object], times: int = 3) -> float:
    """The shortest of several runs in processor seconds: what a busy machine adds is not the code's."""
    seconds = []
    for _ in range(times):
        start = time.process_time()
        work()
        seconds.append(time.process_time() - start)
    return min(seconds)


def plain(folder: Path) -> None:
    for file in sorted(folder.glob("*.tfrecords")):
        with file.open("rb", buffering=0) as stream:
            while stream.read(1 << 20):
                pass


def index_with_peer(folder: Path) -> None:
    from tfrecord.tools.tfrecord2idx import create_index

    for file in sorted(folder.glob("*.tfrecords")):
        create_index(str(file), str(file.with_suffix(".index")))


def peer_reader(folder: Path) -> Callable[[int], bytes]:
    """One record by its number, with the peer's index: files stay open, seek and read as its iterator does."""
    files = [(folder / f"{number}.tfrecords").open("rb") for number in range(CLASSES)]
    starts = [np.loadtxt(folder / f"{number}.index", dtype=np.int64)[:, 0] for number in range(CLASSES)]

    def read(row: int) -> bytes:
        file = files[row // PER_CLASS]
        file.seek(int(starts[row // PER_CLASS][row % PER_CLASS]))
        (length,) = struct.unpack("<Q", file.read(12)[:8])
        return file.read(length)

    return read


def main() -> None:
    from tfrecord import example_pb2

    with tempfile.TemporaryDirectory() as top:
        folder = Path(top) / "source"
        folder.mkdir()
        os.environ["LONGSHOT_CACHE"] = str(Path(top) / "cache")
        size = write(folder) / 1e6
        print(f"{CLASSES * PER_CLASS:,} records in {CLASSES} files, {size:.0f} MB, in the page cache")
        source = str(folder)
        ways = {
            "plain read of all bytes": lambda: plain(folder),
            "first opening": lambda: open_located(source, refresh=True),
            "first opening, verify": lambda: open_located(
                f"meta-dataset(verify=True):{source}", refresh=True
            ),
            "second opening": lambda: open_located(source),
            "tfrecord's index": lambda: index_with_peer(folder),
        }
        seconds = {name: best(work) for name, work in ways.items()}
        for name, taken in seconds.items():
            ratio = seconds["plain read of all bytes"] / taken
            print(
                f"  {name:26} {taken:7.3f} s  {size / taken:8.0f} MB/s  {ratio:6.2f} × the plain read's speed"
            )

        store = open_located(source).store
        assert isinstance(store, SpanStore)
        rows = np.random.default_rng(1).permutation(CLASSES * PER_CLASS)[:READS].tolist()
        peer = peer_reader(folder)
        assert all(unframe(store.data(row), "") == peer(row) for row in rows[:200])
        reads = {
            "bytes, Longshot (checked)": lambda: [unframe(store.data(row), "") for row in rows],
            "bytes, tfrecord": lambda: [peer(row) for row in rows],
            "Example, Longshot": lambda: [parse_example(unframe(store.data(row), "")) for row in rows],
            "Example, tfrecord": lambda: [example_pb2.Example.FromString(peer(row)) for row in rows],
        }
        spent = {name: best(work) for name, work in reads.items()}
        for name, value in spent.items():
            print(f"  {name:26} {READS / value:8,.0f} records/s  {value / READS * 1e6:6.1f} µs each")
        for form in ("bytes", "Example"):
            ours, theirs = (v for name, v in spent.items() if name.startswith(form))
            print(f"  {form}: {theirs / ours:.2f} × the speed of tfrecord")


if __name__ == "__main__":
    main()
