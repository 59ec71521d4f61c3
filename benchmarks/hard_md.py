"""Difficult tasks for a whole benchmark: ten sources of 50,000 × 384 features, 200 tasks each of variable way and shot.

The goal is 60 s on two cores from cached features; one thread is used. The peer is the paper's algorithm written down
task by task with autograd, timed on a few tasks of the same source and compared per task. Memory is the growth of the
peak; pages of the mapped features count in it, and beyond them it should follow the largest class, not the dataset.
"""

from __future__ import annotations

import resource
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray

from benchmarks.fastdiffsel import TEMPERATURE, make_features, unit
from longshot.data import Dataset
from longshot.models import Features
from longshot.tasks import DifficultInstances, MetaDatasetShape, Testbed, sample

SOURCES, CLASSES, IMAGES, DIM, TASKS, PEERS = 10, 100, 500, 384, 200, 6


class _NoImages:
    def read(self, row: int) -> None:
        raise RuntimeError("this benchmark looks at features only")


def make_source(folder: Path, number: int) -> tuple[Dataset, Features]:
    """A source of 100 classes × 500 images and its features, mapped from disk."""
    path = folder / f"source-{number}.npy"
    make_features(path, CLASSES, IMAGES, DIM, seed=number)
    names = tuple(f"class-{c:03d}" for c in range(CLASSES))
    keys = pa.array([f"s{number}/{name}/{i}" for name in names for i in range(IMAGES)])
    offsets = np.arange(0, CLASSES * IMAGES + 1, IMAGES, dtype=np.int64)
    data = Dataset(f"source-{number}", names, offsets, keys, _NoImages(), f"source-{number}")  # type: ignore[arg-type]
    array = np.load(path, mmap_mode="r")
    facts = {"weights_hash": "made", "preprocessing": "none", "hash": f"{number:064x}"}
    return data, Features(array, keys, names, offsets, data.name, data.fingerprint, "made", **facts)


def by_hand(
    array: NDArray[np.float16], offsets: NDArray[np.int64], bed: Testbed, data: Dataset, task: int
) -> None:
    """One task of Algorithm 1 as written: gather the pools, backward, one step, project, sort."""
    bound = bed.bind(data.name, data.keys, data.fingerprint)
    rows, labels = bound.query.row(task), bound.query_label.row(task)
    shots = bed[task].shots
    pools, picked = [], []
    for position in range(len(shots)):
        c = int(data.labels[rows[labels == position][0]])
        picked.append(np.setdiff1d(np.arange(offsets[c], offsets[c + 1]), rows))
        pools.append(unit(array, picked[-1]))
    query = unit(array, rows)
    weights = [
        torch.full((len(p),), k / len(p), requires_grad=True) for p, k in zip(pools, shots, strict=True)
    ]
    centres = torch.stack([w @ p / w.sum() for w, p in zip(weights, pools, strict=True)])
    logits = -torch.cdist(query, centres).square() / TEMPERATURE
    chance = torch.softmax(logits, 1)
    (1 - chance[torch.arange(len(rows)), torch.from_numpy(labels.astype(np.int64))]).mean().backward()
    for w, k in zip(weights, shots, strict=True):
        assert w.grad is not None
        moved = w.detach() + 200 * w.grad
        low, high = 0.0, float(moved.abs().max())
        for _ in range(50):  # bisection for the soft threshold
            middle = (low + high) / 2
            above = float((moved.abs() - middle).clamp_min(0).sum()) > k
            low, high = (middle, high) if above else (low, middle)
        torch.topk(moved.sign() * (moved.abs() - high).clamp_min(0), k)


def main() -> None:
    """Print seconds, memory and the ratio to the peer."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        sources = [make_source(Path(folder), number) for number in range(SOURCES)]
        for _, features in sources:  # cached features have been read before
            np.asarray(features.array[::997]).sum()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        began, worked = time.monotonic(), time.process_time()
        beds = [
            sample(
                data,
                tasks=TASKS,
                shape=MetaDatasetShape(),
                instances=DifficultInstances(features),
                seed=0,
                identity="names",
                copies="allow",
            )
            for data, features in sources
        ]
        wall, spent = time.monotonic() - began, time.process_time() - worked
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
        tasks = SOURCES * TASKS
        supports = sum(int(bed.column("support").offsets[-1]) for bed in beds)
        harder = np.mean([bed.table["accuracy_after"].to_numpy().mean() for bed in beds])
        plain = np.mean([bed.table["accuracy_before"].to_numpy().mean() for bed in beds])
        data, features = sources[0]
        worked = time.process_time()
        for task in range(PEERS):
            by_hand(features.array, data.offsets, beds[0], data, task)  # type: ignore[arg-type]
        each = (time.process_time() - worked) / PEERS
    print(
        f"{SOURCES} sources of {CLASSES * IMAGES:,} × {DIM}, {tasks:,} difficult tasks, {supports:,} support images"
    )
    print(
        f"longshot    {wall:7.1f} s by the clock, {spent:.1f} s of processor time, {1000 * spent / tasks:.1f} "
        f"ms a task (goal: 60 s)"
    )
    print(
        f"by hand     {1000 * each:7.1f} ms of processor time a task ({PEERS} tasks): ratio "
        f"{each * tasks / spent:.0f} ×"
    )
    mapped = SOURCES * CLASSES * IMAGES * DIM * 2 / 2**20
    print(f"memory      {grown:7.0f} MB above the start, of which the mapped features are {mapped:.0f} MB")
    print(f"accuracy    {plain:.3f} with uniform supports, {harder:.3f} with difficult ones")


if __name__ == "__main__":
    main()
