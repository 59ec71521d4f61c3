"""Uniform sampling against a plain Python sampler: 5-way 5-shot, 10 queries per class, 160 classes × 1,300 images.

The peer draws as easyfsl's TaskSampler does, one `random.sample` for the classes and one per class for its images, and
yields indices only; it leaves out easyfsl's conversion to tensors and back, which makes it faster than the original
(easyfsl's own: about 13,500 tasks/s). Longshot is measured twice: indices only, and the whole testbed with keys,
labels, a check for repeated tasks and the hash; there are no pictures, so images are vouched for by name. Wanted: at
least 20,000 tasks/s. One thread each.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
from PIL.Image import Image

from longshot.data import Dataset
from longshot.tasks import (
    AnyShape,
    FixedShape,
    Pool,
    Streams,
    Testbed,
    UniformClasses,
    UniformInstances,
    sample,
)

CLASSES, PER_CLASS = 160, 1300
WAY, SHOT, QUERY = 5, 5, 10
TASKS, PEER_TASKS, ROUNDS = 20_000, 4_000, 5


class _NoPictures:
    def read(self, row: int) -> Image:
        raise AssertionError("sampling reads no picture")


def main() -> None:
    dataset = _dataset()
    shape = FixedShape(WAY, SHOT, QUERY)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "testbed.parquet")
        testbed = sample(dataset, tasks=TASKS, shape=shape, identity="names", copies="allow")
        testbed.save(path)
        work: dict[str, tuple[int, Callable[[], object]]] = {
            "random.sample per class (as easyfsl)": (PEER_TASKS, lambda: _peer(dataset)),
            "longshot, indices": (TASKS, lambda: _rows(dataset, shape)),
            "longshot, whole testbed": (
                TASKS,
                lambda: sample(dataset, tasks=TASKS, shape=shape, identity="names", copies="allow"),
            ),
            "longshot, any-way any-shot testbed": (
                TASKS,
                lambda: sample(dataset, tasks=TASKS, shape=AnyShape(), identity="names", copies="allow"),
            ),
            "save": (TASKS, lambda: testbed.save(path)),
            "load and verify the hash": (TASKS, lambda: Testbed.load(path)),
            "bind keys to rows": (TASKS, lambda: testbed.bind("made", dataset.keys, dataset.fingerprint)),
        }
        best = dict.fromkeys(work, 0.0)
        for _ in range(ROUNDS):  # in turn, so that a busy moment hits all alike
            for name, (tasks, run) in work.items():
                start = time.perf_counter()
                run()
                best[name] = max(best[name], tasks / (time.perf_counter() - start))
    peer = best["random.sample per class (as easyfsl)"]
    print(f"{'':38} {'tasks/s':>12} {'ratio':>8}")
    for name, rate in best.items():
        # A ratio only where the same tasks are drawn: any-way any-shot ones are 4.5 times as large.
        same = name in ("longshot, indices", "longshot, whole testbed")
        print(f"{name:38} {rate:12,.0f} {f'{rate / peer:.1f}×' if same else '':>8}")


def _dataset() -> Dataset:
    ids = tuple(f"class{c:03d}" for c in range(CLASSES))
    keys = pa.array([f"{class_id}/{i:05d}.jpg" for class_id in ids for i in range(PER_CLASS)])
    dataset = Dataset("made", ids, np.arange(CLASSES + 1) * PER_CLASS, keys, _NoPictures(), "made up")
    dataset.fingerprint  # noqa: B018  computed once, before the clock runs
    return dataset


def _peer(dataset: Dataset) -> list[list[int]]:
    items = {c: list(range(dataset.offsets[c], dataset.offsets[c + 1])) for c in range(CLASSES)}
    tasks = []
    for _ in range(PEER_TASKS):
        classes = random.sample(sorted(items), WAY)
        tasks.append([row for c in classes for row in random.sample(items[c], SHOT + QUERY)])
    return tasks


def _rows(dataset: Dataset, shape: FixedShape) -> object:
    pool = Pool(dataset, dataset.split_classes(None))
    streams = Streams.of(0, TASKS, dataset.fingerprint)
    plan = shape.counts(streams, UniformClasses().draw(streams, shape, pool), pool)
    return UniformInstances().draw(streams, pool, plan)


if __name__ == "__main__":
    main()
