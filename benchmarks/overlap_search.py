"""Near-duplicate search over embeddings: the approximate index against the exact one, in one run.

    python -m benchmarks overlap_search              # 100,000 × 100,000
    python -m benchmarks.overlap_search 1000000      # a million × a million: about six minutes of one core

Vectors have the structure of embeddings: classes in families, a spectrum that falls off within a class, and planted
near duplicates whose cosine to their original lies between about 0.90 and 0.99. Recall is counted against the exact
search over the same base, for a sample of queries.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from longshot.audit.candidates import nearest

DIM, INNER = 512, 96
PLANTED = 0.02  # share of the queries that are near duplicates of a row of the base
SAMPLE = 4096  # queries whose true neighbours are looked up exactly: one block of that search
_BLOCK = 50_000


def make(folder: Path, rows: int) -> tuple[NDArray[np.float16], NDArray[np.float16], NDArray[np.int64]]:
    """Base and queries [rows, 512] in float16 files, and the original of each planted query [rows] (−1: none)."""
    made = torch.Generator().manual_seed(0)
    families = max(4, rows // 10_000)
    classes = 10 * families
    scale = 1 / torch.arange(1, INNER + 1).sqrt()
    family = torch.randn(families, DIM, generator=made)
    centre = family.repeat_interleave(10, 0) + 0.7 * torch.randn(classes, DIM, generator=made)
    basis = torch.randn(INNER, DIM, generator=made) * scale[:, None]
    paths = [folder / name for name in ("base.npy", "queries.npy")]
    base, queries = (
        np.lib.format.open_memmap(path, mode="w+", dtype=np.float16, shape=(rows, DIM)) for path in paths
    )
    for start in range(0, rows, _BLOCK):
        for array in (base, queries):
            count = min(_BLOCK, rows - start)
            label = torch.randint(classes, (count,), generator=made)
            inside = torch.randn(count, INNER, generator=made) @ basis
            noise = torch.randn(count, DIM, generator=made)
            array[start : start + count] = (centre[label] + 0.8 * inside + 0.25 * noise).numpy()
    origin = np.full(rows, -1, np.int64)
    rng = np.random.default_rng(1)
    planted = rng.choice(rows, int(PLANTED * rows), replace=False)
    origin[planted] = rng.choice(rows, len(planted), replace=False)
    for start in range(0, len(planted), _BLOCK):
        here = planted[start : start + _BLOCK]
        copies = base[origin[here]].astype(np.float32)
        length = np.linalg.norm(copies, axis=1, keepdims=True) / np.sqrt(DIM)
        strength = rng.uniform(0.15, 0.45, (len(here), 1)) * length
        queries[here] = copies + strength * rng.standard_normal(copies.shape)
    return base, queries, origin


class Watch:
    """The highest memory of this process that belongs to it alone (mapped files left out), sampled each second."""

    def __enter__(self) -> Watch:
        self.highest, self.stop = 0, threading.Event()
        self.thread = threading.Thread(target=self._look, daemon=True)
        self.thread.start()
        return self

    def _look(self) -> None:
        while not self.stop.wait(1.0):
            status = dict(
                line.split(":", 1)
                for line in Path("/proc/self/status").read_text().splitlines()
                if ":" in line
            )
            self.highest = max(self.highest, int(status["RssAnon"].split()[0]) * 1024)

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self.thread.join()


def measure(rows: int, probes: tuple[int, ...]) -> None:
    """Search all queries by each number of probes; recall on a sample."""
    with tempfile.TemporaryDirectory() as folder:
        base, queries, origin = make(Path(folder), rows)
        rng = np.random.default_rng(2)
        sample = np.sort(rng.choice(rows, min(SAMPLE, rows), replace=False))
        planted = np.flatnonzero(origin >= 0)
        started, busy = time.monotonic(), time.process_time()
        truth = nearest(queries[sample], base, 1, index="exact", device="cpu").rows[:, 0]
        share = rows / len(sample)
        full, full_busy = share * (time.monotonic() - started), share * (time.process_time() - busy)
        print(f"{rows:,} × {rows:,}, {DIM}-d, {torch.get_num_threads()} threads, {len(planted):,} planted")
        print(
            f"exact: {full / 60:.1f} min, {full_busy / 60:.1f} min of one core, from {len(sample):,} queries",
            flush=True,
        )
        for number in probes:
            with Watch() as watch:
                started, busy = time.monotonic(), time.process_time()
                neighbours = nearest(queries, base, 1, index="ivf", probes=number)
                seconds, busy = time.monotonic() - started, time.process_time() - busy
            recall = np.mean(neighbours.rows[sample, 0] == truth)
            caught = np.mean(neighbours.rows[planted, 0] == origin[planted])
            print(
                f"{neighbours.index}: {seconds / 60:.1f} min, {busy / 60:.1f} min of one core "
                f"({full / seconds:.1f} × the speed of exact, {full_busy / busy:.1f} × by processor time), "
                f"recall@1 {100 * recall:.1f} % of {len(sample):,}, planted found {100 * caught:.2f} %, "
                f"memory {watch.highest / 1e9:.1f} GB beside the mapped files",
                flush=True,
            )
        highest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        print(f"highest resident memory with the mapped files: {highest / 1e9:.1f} GB")


def main(rows: int = 100_000, probes: tuple[int, ...] = (4, 16, 64)) -> None:
    """Print times, recall and memory."""
    measure(rows, probes)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("rows", type=int)
    parser.add_argument("--probes", type=int, nargs="+", default=[16])
    arguments = parser.parse_args()
    main(arguments.rows, tuple(arguments.probes))
