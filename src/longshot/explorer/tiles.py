"""Which pictures of a task stand on a page, and the sprite that holds them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from longshot.base import UserError
from longshot.explorer.held import Held
from longshot.explorer.keys import rows_of
from longshot.explorer.pictures import COLUMNS, Wanted, address, sprite_style
from longshot.explorer.shelf import ShelvedTestbed
from longshot.explorer.site import Site

if TYPE_CHECKING:
    from longshot.data import Dataset
    from longshot.tasks import Task

MOST_QUERIES, MOST_SUPPORT = 75, 60  # of a page


@dataclass(frozen=True)
class Tile:
    """One picture: ``part`` is "support" or "query", ``position`` its number there, ``at`` that in the sprite."""

    part: str
    position: int
    key: str
    label: int  # of its class
    at: int

    @property
    def style(self) -> str:
        """Where it lies in the sprite, as CSS variables."""
        return f"--x:{self.at % COLUMNS};--y:{self.at // COLUMNS}"


@dataclass(frozen=True)
class TilePage:
    """The pictures of some classes of a task."""

    tiles: tuple[Tile, ...]
    classes: tuple[int, ...]
    page: int
    pages: int
    hidden_queries: int  # of the classes shown, beyond what a page bears
    hidden_support: int


def tile_page(task: Task, page: int) -> TilePage:
    """The pictures of the page: whole classes, as many as have room."""
    support, query = np.asarray(task.support_label), np.asarray(task.query_label)
    queries = np.bincount(query, minlength=task.way)
    supports = np.bincount(support, minlength=task.way)
    groups: list[list[int]] = [[]]
    for label in range(task.way):
        held = groups[-1]
        full = held and (
            queries[[*held, label]].sum() > MOST_QUERIES or supports[[*held, label]].sum() > MOST_SUPPORT
        )
        if full:
            groups.append([label])
        else:
            held.append(label)
    page = min(max(1, page), len(groups))
    tiles: list[Tile] = []
    hidden = [0, 0]
    for label in groups[page - 1]:
        for number, (part, labels, keys, most) in enumerate(
            (("support", support, task.support, MOST_SUPPORT), ("query", query, task.query, MOST_QUERIES))
        ):
            places = np.flatnonzero(labels == label)
            hidden[number] += max(0, len(places) - most)
            tiles += [
                Tile(part, int(position), keys[int(position)], label, len(tiles) + offset)
                for offset, position in enumerate(places[:most])
            ]
    return TilePage(tuple(tiles), tuple(groups[page - 1]), page, len(groups), hidden[1], hidden[0])


def sprite_address(shelved: ShelvedTestbed, task: Task, tiles: TilePage) -> str:
    """The address of the sprite: the testbed vouches for the bytes of its images."""
    return address(
        [shelved.testbed.content_hash, task.index, tiles.page, [tile.at for tile in tiles.tiles][-1:]]
    )


def sprite_of(base: str, shelved: ShelvedTestbed, task: Task, tiles: TilePage) -> str:
    """The image that holds a page of pictures, as a style; ``base`` is the address of the task."""
    return sprite_style(f"{base}/sprite-{tiles.page}-{sprite_address(shelved, task, tiles)}.jpg")


def wanted_images(
    site: Site, shelved: ShelvedTestbed, dataset_name: str, keys: Sequence[str]
) -> list[Wanted]:
    """Where images of a testbed lie, and what their bytes should be; UserError where the dataset is nowhere."""
    dataset = site.dataset(dataset_name, shelved.testbed.datasets[dataset_name])
    # Who looks at a task looks again.
    key = (shelved.testbed.content_hash, id(dataset), dataset_name, tuple(keys))
    return _wanted.get(key, lambda: _find(shelved, dataset, dataset_name, keys))


_wanted = Held(256)


def _find(shelved: ShelvedTestbed, dataset: Dataset, dataset_name: str, keys: Sequence[str]) -> list[Wanted]:
    testbed = shelved.testbed
    rows = rows_of(dataset, keys)  # what is gone from the dataset by now has −1, and is shown crossed out
    content = testbed.content[dataset_name]
    digests: list[int | None] = [None] * len(keys)
    if content.identity == "content" and len(content.digests):
        digests = [int(content.digests[at]) for at in shelved.used[dataset_name].find(keys).tolist()]
    prepare(dataset, rows[rows >= 0])
    return [
        Wanted(dataset, int(row), digest, content.bits or 64)
        for row, digest in zip(rows, digests, strict=True)
    ]


def prepare(dataset: Dataset, rows: Any) -> None:
    """Let a store make ready what it draws on use."""
    from longshot.data import prepare_rows

    prepare_rows(dataset.store, rows)


def read_task(shelved: ShelvedTestbed, number: int) -> Task:
    """A task by its number; UserError where there is none."""
    testbed = shelved.testbed
    if not 0 <= number < len(testbed):
        raise UserError(f"There is no task {number}: this testbed has tasks 0 to {len(testbed) - 1:,}.")
    return testbed[number]
