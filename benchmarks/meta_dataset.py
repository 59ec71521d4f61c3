"""Meta-Dataset's episodes: tasks described per second, natively and bit for bit as the reference draws them.

Sizes are those of flat sources with 15 (aircraft) and 110 (quick draw) test classes, and of a two-level one.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa
from PIL.Image import Image

from longshot.base import offsets_of
from longshot.data import Dataset, Taxonomy
from longshot.tasks import BilevelClasses, Classes, MetaDatasetShape, Pool, Streams, UniformClasses, sample
from longshot.tasks.replay import ReplaySource, episodes

TASKS, REPLAYED, WHOLE, ROUNDS = 20_000, 5_000, 2_000, 3


class _NoPictures:
    def read(self, row: int) -> Image:
        raise AssertionError("sampling reads no picture")


def main() -> None:
    rng = np.random.default_rng(0)
    alphabets = tuple(np.array_split(np.arange(300), 10))
    sources = {
        "15 classes of 100 images": ReplaySource("aircraft", "flat", np.full(15, 100)),
        "110 classes of 300 to 1,300 images": ReplaySource("large", "flat", rng.integers(300, 1300, 110)),
        "10 groups of 30 classes of 20 images": ReplaySource(
            "omniglot", "bilevel", np.full(300, 20), alphabets
        ),
    }
    print(f"{'tasks/s (CPU time of one thread)':40} {'described':>10} {'replayed':>10} {'whole testbed':>14}")
    for name, source in sources.items():
        dataset, classes = _dataset(source)
        pool = Pool(dataset, np.arange(len(source.sizes)))
        rates = [
            _rate(TASKS, lambda p=pool, c=classes: _describe(p, c)),
            _rate(REPLAYED, lambda s=source: episodes(s, REPLAYED, seed=0)),
            _rate(
                WHOLE,
                lambda d=dataset, c=classes: sample(
                    d, tasks=WHOLE, shape=MetaDatasetShape(), classes=c, identity="names", copies="allow"
                ),
            ),
        ]
        print(f"{name:40} {rates[0]:10,.0f} {rates[1]:10,.0f} {rates[2]:14,.0f}")


def _rate(tasks: int, work: Callable[[], object]) -> float:
    best = 0.0
    for _ in range(ROUNDS):
        start = time.process_time()
        work()
        best = max(best, tasks / (time.process_time() - start))
    return best


def _describe(pool: Pool, classes: Classes) -> object:
    """Classes, shots and queries of every task: what the reference calls an episode description."""
    streams, shape = Streams.of(0, TASKS), MetaDatasetShape()
    return shape.counts(streams, classes.draw(streams, shape, pool), pool)


def _dataset(source: ReplaySource) -> tuple[Dataset, Classes]:
    group = np.zeros(len(source.sizes), dtype=int)
    for number, members in enumerate(source.groups):
        group[members] = number
    ids = [f"{g:03d}/{c:04d}" for c, g in enumerate(group)]
    keys = pa.array([f"{c}/{i}" for c, size in zip(ids, source.sizes, strict=True) for i in range(size)])
    taxonomy = Taxonomy.from_class_ids(ids) if source.groups else None
    dataset = Dataset(
        source.name,
        tuple(ids),
        offsets_of(source.sizes),
        keys,
        _NoPictures(),
        "made up",
        taxonomy,
    )
    dataset.fingerprint  # noqa: B018  computed once, before the clock runs
    return dataset, BilevelClasses() if source.groups else UniformClasses()


if __name__ == "__main__":
    main()
