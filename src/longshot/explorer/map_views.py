"""The map: a dataset through a network in the plane, drawn on a canvas; what is circled leads to images and tasks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from starlette.responses import JSONResponse, Response

from longshot.base import Bools, Floats, Ints, UserError, count, in_words
from longshot.explorer.caches import LruCache
from longshot.explorer.dataset_views import dataset_frame, open_item
from longshot.explorer.library import Item
from longshot.explorer.listing import address
from longshot.explorer.query_answers import feature_files, networks_of
from longshot.explorer.site import NotThere, Page, Site, made
from longshot.explorer.sprites import class_titles
from longshot.reports import Section

if TYPE_CHECKING:
    from longshot.data import Dataset

LAYOUTS = ("components", "neighbours")
_GROUPS = 11  # of a colour, besides what is none of them
_RUNS = 4  # whose mistakes are offered as colours
_CORNERS = 40  # of what is circled
_LINKED = 300  # tasks that an address names
_open = LruCache(3)


def map_job(dataset: Dataset, network: str, layout: str) -> dict[str, Any]:
    """Return what the plot worker is asked for; NotThere where the cache holds no such features."""
    path = feature_files().get((dataset.fingerprint, network))
    if path is None:
        raise NotThere(f"The cache holds no features of {dataset.name} through {network[:60]}.")
    return {"kind": "map", "path": str(path), "layout": layout, "fingerprint": dataset.fingerprint}


def dataset_map(site: Site, item: Item, query: Any) -> Page:
    """Show the map of a dataset through a network; without features, say how to make them."""
    dataset = open_item(site, item)
    networks = networks_of(dataset.fingerprint)
    if not networks:
        sentence = in_words(
            "The cache holds no features of this dataset; {embed()} makes some to draw it by."
        )
        return dataset_frame(item, dataset, "map", [made("map", "Map", sentence)])
    network = str(query.get("network", "")) if query.get("network") in networks else networks[0]
    layout = str(query.get("layout", "")) if query.get("layout") in LAYOUTS else LAYOUTS[0]
    colours = _colours(site, item, dataset)
    colour = str(query.get("colour", "")) if query.get("colour") in colours else next(iter(colours))
    facts = {
        "network": network,
        "layout": layout,
        "colour": colour,
        "class": str(query.get("class", ""))[:400],
    }

    def link(**changes: str) -> str:
        return address(f"{item.url}/map", [pair for pair in {**facts, **changes}.items() if pair[1]])

    ends = [("network", network), ("layout", layout)]
    context = {
        "networks": [(name, link(network=name), name == network) for name in networks],
        "layouts": [
            (words, link(layout=name), name == layout)
            for name, words in zip(LAYOUTS, ("principal components", "neighbours (UMAP)"), strict=True)
        ],
        "colours": [(words, link(colour=name), name == colour) for name, words in colours.items()],
        # Without their first slash, so that a copy of the page does not take them for pages.
        "places": address(f"{item.url}/map.bin", ends).lstrip("/"),
        "groups": address(
            f"{item.url}/map-colour", [*ends[:1], ("colour", colour), ("class", facts["class"])]
        ).lstrip("/"),
        "images": address(f"{item.url}/images", [("map", f"{network},{layout}")]).lstrip("/"),
        "image": f"{item.url}/image".lstrip("/"),
        "points": len(dataset),
        "network": network,
    }
    return dataset_frame(item, dataset, "map", [Section("map", "Map", context, "dataset_map")])


def _colours(site: Site, item: Item, dataset: Dataset) -> dict[str, str]:
    """Return what the points of a map can be coloured by: name in addresses → words."""
    names = {"class": "class"} | ({"split": "split"} if dataset.splits else {})
    names |= {"cluster": "cluster", "suspicion": "suspected label"}
    for run in [each for each in site.library.items() if each.kind == "run" and not each.problem][:200]:
        if len(names) > 3 + _RUNS:
            break
        for content_hash in run.facts["testbeds"]:
            bed = site.testbed_item(content_hash)
            if bed is not None and dataset.fingerprint in bed.facts["datasets"].values():
                names[f"mistake:{run.digits}:{content_hash[:10]}"] = f"mistakes of {run.name} on {bed.name}"
                break
    if dataset.attributes is not None:
        names |= {f"attribute:{name}": name for name in dataset.attributes.column_names[:12]}
    return names


def map_places(site: Site, item: Item, query: Any) -> Response:
    """Return the places of all images as 16-bit numbers, x and y of each; how far the layout is until it is made."""
    dataset = open_item(site, item)
    job = map_job(dataset, str(query.get("network", "")), str(query.get("layout", "")))
    if job["layout"] not in LAYOUTS:
        raise NotThere("There is no such layout.")
    ready = site.plot_worker.sections(job, 6.0 if job["layout"] == LAYOUTS[0] else 0.1)
    if ready is None:
        return JSONResponse({"share": site.plot_worker.progress(job)}, 202, {"cache-control": "no-store"})
    if ready[0]["problem"]:
        raise NotThere(ready[0]["problem"])
    places, _ = _placed(ready)
    headers = {"cache-control": "private, max-age=3600"}
    return Response(places.astype("<u2").tobytes(), media_type="application/octet-stream", headers=headers)


def _placed(sections: list[dict[str, Any]]) -> tuple[Floats, Ints]:
    """Return places in 0 … 65,535 [N, 2] and clusters [N] that the worker wrote."""
    path = sections[0]["file"]

    def read() -> tuple[Floats, Ints]:
        try:
            held = np.load(path, allow_pickle=False)
        except (OSError, ValueError) as error:
            raise NotThere(
                "The map is gone from the cache; remove its folder explorer/sections there."
            ) from error
        return held[:, :2].astype(np.float64), held[:, 2].astype(np.int64)

    return _open.get(path, read)


def map_colour(site: Site, item: Item, query: Any) -> Response:
    """Return a group for every image, a byte each, behind a line of JSON with the groups' names."""
    dataset = open_item(site, item)
    name, network = str(query.get("colour", "class")), str(query.get("network", ""))
    if name == "suspicion" and site.plot_worker.sections(suspects_job(item, dataset, network), 0.1) is None:
        return JSONResponse({}, 202, {"cache-control": "no-store"})
    names, groups = _grouped(site, item, dataset, name, network, str(query.get("class", "")))
    head = json.dumps({"names": names}, ensure_ascii=True).encode()
    body = head + b"\n" + groups.astype(np.uint8).tobytes()
    return Response(body, media_type="application/octet-stream", headers={"cache-control": "no-cache"})


def _grouped(
    site: Site, item: Item, dataset: Dataset, colour: str, network: str, class_id: str
) -> tuple[list[str], Ints]:
    """Return the names of groups and the group of every image, the last for all others; [N]."""
    if colour == "class":
        shown = list(class_titles(dataset).values())
        sizes = np.asarray(dataset.sizes)
        order = np.argsort(-sizes, kind="stable")[:_GROUPS]
        if class_id in dataset.class_ids:
            order = np.array([dataset.class_index(class_id)])
        return _numbered([shown[n] for n in order], dataset.labels, order)
    if colour == "split":
        names = list(dataset.splits)
        split_number = {name: n for n, split in enumerate(names) for name in dataset.splits[split]}
        of_class = np.array([split_number.get(name, len(names)) for name in dataset.class_ids])
        return [*names, "none"], of_class[dataset.labels]
    if colour == "cluster":
        ready = site.plot_worker.ready(map_job(dataset, network, LAYOUTS[0]))
        group = _placed(ready)[1] if ready and not ready[0]["problem"] else np.zeros(len(dataset), np.int64)
        return [f"cluster {n + 1}" for n in range(int(group.max(initial=0)) + 1)], group
    if colour == "suspicion":
        judged = site.plot_worker.sections(suspects_job(item, dataset, network))
        rows = [row["row"] for row in (judged or [{}])[0].get("rows", ())]
        group = np.ones(len(dataset), np.int64)
        group[rows] = 0
        return [f"suspected by {network}", "not suspected"], group
    if colour.startswith("mistake:"):
        return _mistaken(site, dataset, *colour.split(":")[1:3])
    table, name = dataset.attributes, colour.partition(":")[2]
    if table is None or name not in table.column_names:
        raise NotThere(f"The images of {dataset.name} have no attribute '{name[:60]}'.")
    return _by_attribute(table[name].combine_chunks())


def suspects_job(item: Item, dataset: Dataset, network: str) -> dict[str, Any]:
    """Return what the plot worker is asked for to judge labels by one network."""
    path = feature_files().get((dataset.fingerprint, network))
    if path is None:
        raise NotThere(f"The cache holds no features of {dataset.name} through {network[:60]}.")
    return {"kind": "suspects", "path": str(path), "fingerprint": dataset.fingerprint}


def _numbered(names: list[str], values: Any, order: Ints) -> tuple[list[str], Ints]:
    """Number the values of ``order`` in its order, and all others after them."""
    group = np.full(len(values), len(order))
    for number, value in enumerate(order):
        group[np.asarray(values) == value] = number
    return [*names, "others"], group


def _by_attribute(column: Any) -> tuple[list[str], Ints]:
    if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
        values = pc.fill_null(pc.cast(column, pa.float64()), float("nan")).to_numpy(zero_copy_only=False)
        known_values = values[np.isfinite(values)]
        edges = (
            np.unique(np.quantile(known_values, np.linspace(0, 1, 8))) if len(known_values) else np.zeros(1)
        )
        group = np.clip(np.searchsorted(edges, values, "right") - 1, 0, max(0, len(edges) - 2))
        names = [f"{low:.4g} to {high:.4g}" for low, high in pairwise(edges)] or ["all"]
        return [*names, "not known"], np.where(np.isfinite(values), group, len(names))
    texts = pc.fill_null(pc.cast(column, pa.string()), "not known")
    counted = sorted(pc.value_counts(texts).to_pylist(), key=lambda entry: -entry["counts"])[:_GROUPS]
    words = [entry["values"] for entry in counted]
    return _numbered(
        [word[:60] for word in words], np.array(texts.to_pylist(), object), np.array(words, object)
    )


def _mistaken(site: Site, dataset: Dataset, run: str, bed: str) -> tuple[list[str], Ints]:
    """Group images by how often the best series of a run was wrong about them as queries."""
    from longshot.explorer.caches import rows_of
    from longshot.explorer.run_views import choose_bed, choose_series

    owner = site.item("run", run)
    index = choose_bed(site.index(owner), {"bed": bed})
    series = choose_series(index, "")
    flat, testbed_item = index.answers(series), site.testbed_item(index.hash)
    group = np.full(len(dataset), 3)
    names = [f"wrong by {index.series[series].label}", "at times wrong", "always right", "never a query"]
    if flat is None or testbed_item is None:
        return names, group
    testbed = site.testbed(testbed_item).testbed
    queries = testbed.column("query")
    keys = testbed.table.column("query").combine_chunks().values.dictionary.to_pylist()
    right = np.bincount(queries.values, np.asarray(flat) == testbed.column("query_label").values, len(keys))
    times = np.bincount(queries.values, minlength=len(keys))
    shares = right / np.maximum(times, 1)
    rows = rows_of(dataset, keys)
    held = (rows >= 0) & (times > 0)
    group[rows[held]] = np.where(shares[held] < 0.5, 0, np.where(shares[held] < 1, 1, 2))
    return names, group


def circled(site: Site, item: Item, dataset: Dataset, query: Mapping[str, Any]) -> Bools | None:
    """Mark the images inside what was circled on a map; None where an address names no circle.

    ``map`` is the network and the layout, ``circle`` the corners x.y in thousandths of the map, joined by hyphens.
    """
    text = str(query.get("circle", ""))
    network, _, layout = str(query.get("map", "")).rpartition(",")
    if not text or not network:
        return None
    try:
        corners = np.array(
            [[int(part) for part in pair.split(".")] for pair in text.split("-")[:_CORNERS]], float
        )
        ready = site.plot_worker.ready(map_job(dataset, network, layout))
    except ValueError as error:
        raise NotThere("What was circled cannot be read from the address.") from error
    if ready is None or corners.shape[1:] != (2,):
        raise NotThere("The map of this circle is not made (any more); open the map again.")
    places = _placed(ready)[0] / 65.535
    inside = np.zeros(len(places), np.bool_)
    for (ax, ay), (bx, by) in zip(corners, np.roll(corners, 1, axis=0), strict=True):
        crosses = (ay > places[:, 1]) != (by > places[:, 1])
        with np.errstate(divide="ignore", invalid="ignore"):
            inside ^= crosses & (places[:, 0] < (bx - ax) * (places[:, 1] - ay) / (by - ay) + ax)
    return inside


def tasks_using(site: Site, item: Item, dataset: Dataset, rows: Ints) -> list[tuple[str, str]]:
    """List testbeds with tasks that use some of these images: in words, and the address of those tasks."""
    keys = set(dataset.keys.take(pa.array(rows)).to_pylist())
    listed = []
    beds = [each for each in site.library.items() if each.kind == "testbed" and not each.problem]
    for bed in [bed for bed in beds if dataset.fingerprint in bed.facts["datasets"].values()][:8]:
        try:
            testbed = site.testbed(bed).testbed
        except (NotThere, UserError):
            continue
        used = np.zeros(len(testbed), np.bool_)
        for name in ("support", "query"):
            column = testbed.column(name)
            words = testbed.table.column(name).combine_chunks().values.dictionary.to_pylist()
            held = np.array([word in keys for word in words])
            np.logical_or.at(used, column.owners, held[column.values])
        numbers = np.flatnonzero(used)
        if len(numbers):
            rule = f"task in ({', '.join(map(str, numbers[:_LINKED]))})"
            first = f"the first {_LINKED} of " if len(numbers) > _LINKED else ""
            words = f"{first}{count(len(numbers), 'task')} of {bed.name}"
            listed.append((words, address(f"{bed.url}/tasks", [("where", rule)])))
    return listed
