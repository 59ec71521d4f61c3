"""The pictures of tasks by address: a sprite of a page of them, and one large."""

from __future__ import annotations

from typing import Any

import numpy as np

from longshot.data import stamps_of
from longshot.explorer.pictures import Wanted, address
from longshot.explorer.site import NotThere, Site
from longshot.explorer.tiles import read_task, sprite_address, tile_page, wanted_images


def sprite(site: Site, position: dict[str, Any]) -> tuple[bytes, bool]:
    """All pictures of a page of a task as one image."""
    shelved = site.testbed(site.item("testbed", position["id"]))
    task = read_task(shelved, int(position["task"]))
    tiles = tile_page(task, int(position["page"]))
    name = sprite_address(shelved, task, tiles)
    if name != position["name"]:
        raise NotThere("This picture has another address by now.")
    keys = [tile.key for tile in tiles.tiles]
    if shelved.testbed.content[task.dataset].identity == "content":
        return site.pictures.get(
            name, lambda: site.pictures.tiles(wanted_images(site, shelved, task.dataset, keys))
        )
    images = wanted_images(site, shelved, task.dataset, keys)
    return site.pictures.get(_stamped(name, images), lambda: site.pictures.tiles(images))[0], False


def large_picture(site: Site, position: dict[str, Any]) -> tuple[bytes, bool]:
    """One picture of a task."""
    shelved = site.testbed(site.item("testbed", position["id"]))
    task = read_task(shelved, int(position["task"]))
    keys = {"query": task.query, "support": task.support}.get(str(position["part"]))
    number = int(position["position"])
    if keys is None or number >= len(keys):
        raise NotThere("There is no such picture.")
    if position["name"] != shelved.testbed.content_hash[:10]:
        raise NotThere("This picture has another address by now.")
    images = wanted_images(site, shelved, task.dataset, [keys[number]])
    vouched = images[0].digest is not None
    name = address(["large", shelved.testbed.content_hash, task.dataset, keys[number]])
    data, lasting = site.pictures.get(
        name if vouched else _stamped(name, images), lambda: site.pictures.single(images[0])
    )
    return data, lasting and vouched


def _stamped(name: str, images: list[Wanted]) -> str:
    """An address that changes with the files, for images of which only the names are vouched for."""
    rows = np.array([image.row for image in images if image.row >= 0], np.int64)
    return address([name, images[0].dataset.source, stamps_of(images[0].dataset.store, rows).tolist()])
