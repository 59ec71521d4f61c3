"""Pictures of queries from many tasks, or of images of a dataset: one sprite for what a page shows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from longshot.data import stamps_of
from longshot.explorer.listing import address as url_of
from longshot.explorer.pictures import COLUMNS, Wanted, address, sprite_style
from longshot.explorer.site import NotThere, Site
from longshot.explorer.tiles import prepare, wanted_images
from longshot.reports import class_names

if TYPE_CHECKING:
    from longshot.data import Dataset
    from longshot.explorer.library import Item
    from longshot.explorer.shelf import ShelvedTestbed

SHOWN = 48  # pictures of a page


def query_gallery(
    item: Item,
    shelved: ShelvedTestbed,
    pairs: Sequence[tuple[int, int]],
    carried: Sequence[tuple[str, str]] = (),
) -> dict[str, Any]:
    """The tiles of queries (task, place), each with its class and where a click leads."""
    tiles = []
    for at, (number, position) in enumerate(pairs):
        task = shelved.testbed[number]
        names = class_names(task.classes, task.labels)
        tiles.append(
            {
                "style": f"--x:{at % COLUMNS};--y:{at // COLUMNS}",
                "url": url_of(f"{item.url}/task/{number}/query/{position}", list(carried)),
                "task": number,
                "position": position,
                "name": names[int(task.query_label[position])],
                "key": task.query[position],
                "caption": "",
            }
        )
    listed = "-".join(f"{task}.{position}" for task, position in pairs)
    digest = address([shelved.testbed.content_hash, listed])
    return {
        "tiles": tiles,
        "sprite": sprite_style(f"{item.url}/queries/{listed}/{digest}.jpg" if tiles else ""),
    }


def query_sprite(site: Site, params: dict[str, Any]) -> tuple[bytes, bool]:
    """The sprite of a gallery of queries."""
    shelved = site.testbed(site.item("testbed", params["id"]))
    listed = str(params["listed"])
    if params["name"] != address([shelved.testbed.content_hash, listed]):
        raise NotThere("This picture has another address by now.")
    pairs = [tuple(map(int, pair.split("."))) for pair in listed.split("-")][:SHOWN]
    tasks = [(shelved.testbed[number], position) for number, position in pairs]
    images: list[Wanted] = []
    for task, position in tasks:
        images += wanted_images(site, shelved, task.dataset, [task.query[position]])
    vouched = all(image.digest is not None for image in images)
    name = address(["queries", params["name"], "" if vouched else _stamps(images)])
    data, lasting = site.pictures.get(name, lambda: site.pictures.tiles(images))
    return data, lasting and vouched


def image_gallery(item: Item, dataset: Dataset, rows: Sequence[int]) -> dict[str, Any]:
    """The tiles of images of a dataset."""
    tiles = [
        {
            "style": f"--x:{at % COLUMNS};--y:{at // COLUMNS}",
            "row": row,
            "key": str(dataset.keys[row].as_py()),
            "url": f"{item.url}/image/{row}",
        }
        for at, row in enumerate(rows)
    ]
    listed = "-".join(map(str, rows))
    stamps = _stamps([Wanted(dataset, row) for row in rows]) if rows else []
    url = f"{item.url}/images/{listed}/{address([item.id, listed, stamps])}.jpg" if tiles else ""
    return {"tiles": tiles, "sprite": sprite_style(url)}


def image_sprite(site: Site, params: dict[str, Any]) -> tuple[bytes, bool]:
    """The sprite of a gallery of images; its address changes with the files."""
    item = site.item("dataset", params["id"])
    dataset = site.opened(str(item.facts["source"]), item.name)
    rows = [int(row) for row in str(params["listed"]).split("-")][: 2 * SHOWN]
    if not rows or max(rows) >= len(dataset):
        raise NotThere("There are no such images.")
    images = [Wanted(dataset, row) for row in rows]
    if params["name"] != address([item.id, params["listed"], _stamps(images)]):
        raise NotThere("This picture has another address by now.")
    prepare(dataset, np.array(rows))
    known_stamps = -1 not in {stamp for row in _stamps(images) for stamp in row}
    data, lasting = site.pictures.get(
        address(["images", params["name"]]), lambda: site.pictures.tiles(images)
    )
    return data, lasting and known_stamps


def image_large(site: Site, params: dict[str, Any]) -> tuple[bytes, bool]:
    """One image of a dataset, large."""
    item = site.item("dataset", params["id"])
    dataset = site.opened(str(item.facts["source"]), item.name)
    row = int(params["row"])
    if row >= len(dataset):
        raise NotThere("There is no such image.")
    image = Wanted(dataset, row)
    prepare(dataset, np.array([row]))
    name = address(["image", item.id, row, _stamps([image])])
    return site.pictures.get(name, lambda: site.pictures.single(image))[0], False


def _stamps(images: Sequence[Wanted]) -> list[list[int]]:
    """Numbers that change with the files behind images, which may be of several datasets."""
    stamps: list[list[int]] = []
    for _, group in groupby(images, key=lambda image: id(image.dataset)):
        own = list(group)
        stamps += stamps_of(
            own[0].dataset.store, np.array([image.row for image in own if image.row >= 0], np.int64)
        ).tolist()
    return stamps
