"""Pictures of a page as one sprite: of a task, of queries from many tasks, of images of a dataset; and one large."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from longshot.base import UserError
from longshot.data import class_labels, stamps_of
from longshot.explorer.caches import CachedTestbed, LruCache, rows_of
from longshot.explorer.listing import address
from longshot.explorer.picture_store import COLUMNS, TILE, ImageRequest, picture_address, sprite_style
from longshot.explorer.site import NotThere, Site
from longshot.reports import class_names

if TYPE_CHECKING:
    from longshot.data import Dataset
    from longshot.explorer.caches import CachedTestbed
    from longshot.explorer.library import Item
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
        """Write its place in the sprite as CSS variables."""
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
    """Arrange the pictures of the page: whole classes, as many as have room."""
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


def sprite_address(cached: CachedTestbed, task: Task, tiles: TilePage) -> str:
    """Make the address of the sprite from the testbed's hash, which covers the bytes of its images."""
    return picture_address(
        [cached.testbed.content_hash, task.index, tiles.page, [tile.at for tile in tiles.tiles][-1:]]
    )


def sprite_of(base: str, cached: CachedTestbed, task: Task, tiles: TilePage) -> str:
    """Write the style with the image that holds a page of pictures; ``base`` is the address of the task."""
    return sprite_style(f"{base}/sprite-{tiles.page}-{sprite_address(cached, task, tiles)}.jpg")


def image_requests(
    site: Site, cached: CachedTestbed, dataset_name: str, keys: Sequence[str]
) -> list[ImageRequest]:
    """Locate images of a testbed, with the bytes they should have; UserError if the dataset is not found."""
    dataset = site.dataset(dataset_name, cached.testbed.datasets[dataset_name])
    # Who looks at a task looks again.
    key = (cached.testbed.content_hash, id(dataset), dataset_name, tuple(keys))
    return _wanted.get(key, lambda: _find(cached, dataset, dataset_name, keys))


_wanted = LruCache(256)


def _find(
    cached: CachedTestbed, dataset: Dataset, dataset_name: str, keys: Sequence[str]
) -> list[ImageRequest]:
    testbed = cached.testbed
    rows = rows_of(dataset, keys)  # what is gone from the dataset by now has −1, and is shown crossed out
    content = testbed.content[dataset_name]
    digests: list[bytes] = [b""] * len(keys)
    if content.identity == "content" and len(content.digests):
        digests = [bytes(content.digests[at]) for at in cached.used[dataset_name].find(keys).tolist()]
    prepare(dataset, rows[rows >= 0])
    return [ImageRequest(dataset, int(row), digest) for row, digest in zip(rows, digests, strict=True)]


def prepare(dataset: Dataset, rows: Any) -> None:
    """Let a store make ready what it draws on use."""
    from longshot.data import prepare_rows

    prepare_rows(dataset.store, rows)


def read_task(cached: CachedTestbed, number: int) -> Task:
    """Read a task by its number; UserError where there is none."""
    testbed = cached.testbed
    if not 0 <= number < len(testbed):
        raise UserError(f"There is no task {number}: this testbed has tasks 0 to {len(testbed) - 1:,}.")
    return testbed[number]


def sprite(site: Site, position: dict[str, Any]) -> tuple[bytes, bool]:
    """Draw all pictures of a page of a task as one image."""
    cached = site.testbed(site.item("testbed", position["id"]))
    task = read_task(cached, int(position["task"]))
    tiles = tile_page(task, int(position["page"]))
    name = sprite_address(cached, task, tiles)
    if name != position["name"]:
        raise NotThere("This picture has another address by now.")
    keys = [tile.key for tile in tiles.tiles]
    if cached.testbed.content[task.dataset].identity == "content":
        return site.pictures.get(
            name, lambda: site.pictures.tiles(image_requests(site, cached, task.dataset, keys))
        )
    images = image_requests(site, cached, task.dataset, keys)
    return site.pictures.get(_stamped(name, images), lambda: site.pictures.tiles(images))[0], False


def large_picture(site: Site, position: dict[str, Any]) -> tuple[bytes, bool]:
    """Draw one picture of a task."""
    cached = site.testbed(site.item("testbed", position["id"]))
    task = read_task(cached, int(position["task"]))
    keys = {"query": task.query, "support": task.support}.get(str(position["part"]))
    number = int(position["position"])
    if keys is None or number >= len(keys):
        raise NotThere("There is no such picture.")
    if position["name"] != cached.testbed.content_hash[:10]:
        raise NotThere("This picture has another address by now.")
    images = image_requests(site, cached, task.dataset, [keys[number]])
    vouched = bool(images[0].digest)
    name = picture_address(["large", cached.testbed.content_hash, task.dataset, keys[number]])
    data, lasting = site.pictures.get(
        name if vouched else _stamped(name, images), lambda: site.pictures.single(images[0])
    )
    return data, lasting and vouched


def _stamped(name: str, images: list[ImageRequest]) -> str:
    """Make an address that changes with the files, for images of which only the names are certain."""
    rows = np.array([image.row for image in images if image.row >= 0], np.int64)
    return picture_address(
        [name, images[0].dataset.source, stamps_of(images[0].dataset.store, rows).tolist()]
    )


SHOWN = 48  # pictures of a page
_LISTED = 144  # of a list of tasks


def query_gallery(
    item: Item,
    cached: CachedTestbed,
    pairs: Sequence[tuple[int, int | str]],
    carried: Sequence[tuple[str, str]] = (),
) -> dict[str, Any]:
    """Arrange the tiles of queries (task, place), or supports (task, "s" and place), each with its class and link."""
    tiles = []
    for at, (number, which) in enumerate(pairs):
        task = cached.testbed[number]
        names = class_names(task.classes, task.labels)
        part, keys, labels, position = _side(task, which)
        tiles.append(
            {
                "style": f"--x:{at % COLUMNS};--y:{at // COLUMNS}",
                "url": address(f"{item.url}/task/{number}/{part}/{position}", list(carried)),
                "task": number,
                "position": position,
                "name": names[int(labels[position])],
                "key": keys[position],
                "caption": "",
            }
        )
    return {"tiles": tiles, "sprite": listed_sprite(item, cached, pairs)}


def listed_sprite(item: Item, cached: CachedTestbed, pairs: Sequence[tuple[int, int | str]]) -> str:
    """Write the style with the image that holds some queries and supports, one behind the other."""
    listed = "-".join(f"{task}.{position}" for task, position in pairs)
    digest = picture_address([cached.testbed.content_hash, listed])
    return sprite_style(f"{item.url}/queries/{listed}/{digest}.jpg" if pairs else "")


def _side(task: Task, which: int | str) -> tuple[str, Any, Any, int]:
    """Return which images of a task are meant, their keys and labels, and the place among them."""
    text = str(which)
    if text.startswith("s"):
        return "support", task.support, task.support_label, int(text[1:])
    return "query", task.query, task.query_label, int(text)


def query_sprite(site: Site, params: dict[str, Any]) -> tuple[bytes, bool]:
    """Draw the sprite of a gallery of queries."""
    cached = site.testbed(site.item("testbed", params["id"]))
    listed = str(params["listed"])
    if params["name"] != picture_address([cached.testbed.content_hash, listed]):
        raise NotThere("This picture has another address by now.")
    images: list[ImageRequest] = []
    for pair in listed.split("-")[:_LISTED]:
        number, which = pair.split(".")
        task = cached.testbed[int(number)]
        _, keys, _, position = _side(task, which)
        images += image_requests(site, cached, task.dataset, [keys[position]])
    vouched = all(image.digest for image in images)
    name = picture_address(["queries", params["name"], "" if vouched else _stamps(images)])
    data, lasting = site.pictures.get(name, lambda: site.pictures.tiles(images))
    return data, lasting and vouched


def class_titles(dataset: Dataset) -> dict[str, str]:
    """Map the classes of a dataset to the names that pages show: no two are alike."""
    return dict(zip(dataset.class_ids, class_names(dataset.class_ids, class_labels(dataset)), strict=True))


def image_gallery(item: Item, dataset: Dataset, rows: Sequence[int]) -> dict[str, Any]:
    """Arrange the tiles of images of a dataset, each with its class."""
    names = list(class_titles(dataset).values())
    tiles = [
        {
            "style": f"--x:{at % COLUMNS};--y:{at // COLUMNS}",
            "row": row,
            "key": str(dataset.keys[row].as_py()),
            "name": names[int(dataset.labels[row])],
            "url": f"{item.url}/image/{row}",
        }
        for at, row in enumerate(rows)
    ]
    listed = "-".join(map(str, rows))
    stamps = _stamps([ImageRequest(dataset, row) for row in rows]) if rows else []
    url = f"{item.url}/images/{listed}/{picture_address([item.id, listed, stamps])}.jpg" if tiles else ""
    return {"tiles": tiles, "sprite": sprite_style(url)}


def image_sprite(site: Site, params: dict[str, Any]) -> tuple[bytes, bool]:
    """Draw the sprite of a gallery of images; its address changes with the files."""
    item = site.item("dataset", params["id"])
    dataset = site.opened(str(item.facts["source"]), item.name)
    rows = [int(row) for row in str(params["listed"]).split("-")][: 2 * SHOWN]
    if not rows or max(rows) >= len(dataset):
        raise NotThere("There are no such images.")
    images = [ImageRequest(dataset, row) for row in rows]
    if params["name"] != picture_address([item.id, params["listed"], _stamps(images)]):
        raise NotThere("This picture has another address by now.")
    prepare(dataset, np.array(rows))
    known_stamps = -1 not in {stamp for row in _stamps(images) for stamp in row}
    data, lasting = site.pictures.get(
        picture_address(["images", params["name"]]), lambda: site.pictures.tiles(images)
    )
    return data, lasting and known_stamps


def image_large(site: Site, params: dict[str, Any]) -> tuple[bytes, bool]:
    """Draw one image of a dataset, large."""
    item = site.item("dataset", params["id"])
    dataset = site.opened(str(item.facts["source"]), item.name)
    row = int(params["row"])
    if row >= len(dataset):
        raise NotThere("There is no such image.")
    image = ImageRequest(dataset, row)
    prepare(dataset, np.array([row]))
    name = picture_address(["image", item.id, row, _stamps([image])])
    return site.pictures.get(name, lambda: site.pictures.single(image))[0], False


def _stamps(images: Sequence[ImageRequest]) -> list[list[int]]:
    """Return numbers that change with the files behind images, which may be of several datasets."""
    stamps: list[list[int]] = []
    for _, group in groupby(images, key=lambda image: id(image.dataset)):
        own = list(group)
        stamps += stamps_of(
            own[0].dataset.store, np.array([image.row for image in own if image.row >= 0], np.int64)
        ).tolist()
    return stamps


_STRIP = 4  # pictures beside a name


def strip(site: Site, params: dict[str, Any]) -> tuple[bytes, bool]:
    """Draw a few pictures of a testbed or a dataset, of several classes each; crosses where there are none."""
    lasting = False
    try:
        if params["kind"] == "testbed":
            item = site.item("testbed", params["id"])
            cached = site.testbed(item)
            task = read_task(cached, int(params.get("task", 0)))
            places = np.unique(np.asarray(task.query_label), return_index=True)[1][:_STRIP]
            images = image_requests(site, cached, task.dataset, [task.query[position] for position in places])
            lasting = all(image.digest for image in images)
        else:
            item = site.item("dataset", params["id"])
            dataset = site.opened(str(item.facts["source"]), item.name)
            spread = np.linspace(0, len(dataset.class_ids) - 1, min(_STRIP, len(dataset.class_ids)))
            rows = dataset.offsets[spread.astype(np.int64)]
            prepare(dataset, rows)
            images = [ImageRequest(dataset, int(row)) for row in rows]
        name = picture_address(["strip", item.id, params.get("task", 0), "" if lasting else _stamps(images)])
        data, made = site.pictures.get(name, lambda: site.pictures.tiles(images, columns=_STRIP))
    except (NotThere, UserError, OSError, ValueError):
        return site.decoders.sheet([b""] * _STRIP, side=TILE, columns=_STRIP, square=True)[0], False
    return data, made and lasting
