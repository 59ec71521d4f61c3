"""Numbers read off every image of a dataset, shard by shard, by whatever executor there is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from longshot.base import Crew, Ints, Progress, Tick, executor
from longshot.data import Dataset, ImageStore, shipment
from longshot.models.features.cache import Shards
from longshot.models.features.decode import unreadable_images

Reading: TypeAlias = tuple[
    NDArray[Any], list[tuple[int, str]]
]  # values [n, d], (row, reason) of unreadable images
# Images and positions of a shard → their values; other machines find it by its name.
Describe: TypeAlias = Callable[[ImageStore, range], Reading]


class Reader:
    """A worker: it holds the images, or gets those of its positions with them."""

    def __init__(self, describe: Describe, store: ImageStore) -> None:
        self.describe, self.store = describe, store

    def __call__(self, payload: tuple[range, ImageStore | None], tick: Tick) -> Reading:
        """The values of some positions."""
        positions, images = payload
        answer = self.describe(self.store if images is None else images, positions)
        tick(len(positions))
        return answer


def read_shards(
    dataset: Dataset,
    shards: Shards,
    describe: Describe,
    bar: Progress,
    *,
    step: int,
    workers: int,
    rows: Ints | None = None,
) -> None:
    """Fill the shards that are missing, ``step`` positions at a time; every unreadable image is named in one error.

    ``rows`` [positions] says which image a position is of; by default its own number.
    """
    missing = shards.missing()
    bar.skip(shards.rows - sum(len(shards.bounds(shard)) for shard in missing))
    cuts = [
        (shard, range(start, min(start + step, shards.bounds(shard).stop)))
        for shard in missing
        for start in range(shards.bounds(shard).start, shards.bounds(shard).stop, step)
    ]
    pool = executor()
    every = np.arange(shards.rows) if rows is None else rows
    sent = shipment(pool, dataset.store, np.unique(every), dataset.name)

    def payloads() -> Iterator[tuple[tuple[int, range], tuple[range, ImageStore | None]]]:
        for shard, positions in cuts:
            used = np.unique(every[positions.start : positions.stop])
            yield (shard, positions), (positions, sent.for_rows(used))

    bad: list[tuple[int, str]] = []
    parts: dict[int, dict[int, NDArray[Any]]] = {}
    crew = Crew(Reader, (describe, sent.store), torch.get_num_threads())
    with closing(pool.map(crew, payloads(), bar, count=len(cuts), workers=workers, chunk=16)) as readings:
        for (shard, positions), (values, wrong) in readings:
            bad += wrong
            pieces = parts.setdefault(shard, {})
            pieces[positions.start] = values
            if sum(map(len, pieces.values())) == len(shards.bounds(shard)):
                if not bad:  # from the first unreadable image on we go on only to find all the others
                    shards.write(shard, np.concatenate([pieces[start] for start in sorted(pieces)]))
                del parts[shard]
    if bad:
        raise unreadable_images(dataset, sorted(bad))
