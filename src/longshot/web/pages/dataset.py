"""A dataset: its classes in pictures, its taxonomy, its attributes, and the images of a class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from longshot.core.wording import count
from longshot.datasets.hierarchy import class_labels
from longshot.reports.frame import Section
from longshot.testbeds.describe import bars
from longshot.testbeds.rules import rows_mask
from longshot.web.gallery import SHOWN, image_gallery
from longshot.web.library import Item
from longshot.web.listing import address, show
from longshot.web.site import Page, Site

if TYPE_CHECKING:
    from longshot.datasets.dataset import Dataset
    from longshot.taxonomy.tree import Branch

_CLASSES, _IMAGES = SHOWN, SHOWN
_BRANCHES = 250  # of the tree
_WORDS = 16  # of an attribute that are counted


def frame(item: Item, dataset: Dataset, here: str, sections: list[Section]) -> Page:
    """The page of a dataset around some sections."""
    tabs = [("Classes", item.url, here == "classes"), ("Images", f"{item.url}/images", here == "images")]
    if dataset.taxonomy is not None:
        tabs.append(("Taxonomy", f"{item.url}/taxonomy", here == "taxonomy"))
    if dataset.attributes is not None:
        tabs.append(("Attributes", f"{item.url}/attributes", here == "attributes"))
    tabs += [
        ("Facts", f"{item.url}/facts", here == "facts"),
        ("Suspected labels", f"{item.url}/suspects", here == "suspects"),
    ]
    counts = [count(len(dataset.class_ids), "class", "classes"), count(len(dataset), "image")]
    counts += [f"{len(classes):,} {split} classes" for split, classes in dataset.splits.items()]
    return Page(
        item.name,
        sections,
        counts=counts,
        crumbs=[("Explorer", "/"), ("datasets", "/?kind=dataset")],
        tabs=tabs,
    )


def open_item(site: Site, item: Item) -> Dataset:
    """The dataset of an item."""
    return site.opened(str(item.facts["source"]), item.name)


def classes(site: Site, item: Item, query: Any) -> Page:
    """Every class with its first picture, its number of images and its split; ``q`` searches, ``sort`` orders."""
    dataset = open_item(site, item)
    labels = class_labels(dataset)
    split_of = {name: split for split, members in dataset.splits.items() for name in members}
    words = str(query.get("q", ""))[:200].strip().lower()
    split = str(query.get("split", ""))
    chosen = [
        number
        for number, name in enumerate(dataset.class_ids)
        if words in f"{name} {labels.get(name, '')}".lower() and (not split or split_of.get(name) == split)
    ]
    if query.get("sort") == "images":
        chosen.sort(key=lambda number: -int(dataset.sizes[number]))
    page, start = _page(query, len(chosen), _CLASSES)
    shown = chosen[start : start + _CLASSES]
    gallery = image_gallery(item, dataset, [int(dataset.offsets[number]) for number in shown])
    for tile, number in zip(gallery["tiles"], shown, strict=True):
        name = dataset.class_ids[number]
        label = labels.get(name)
        tile |= {
            "name": f"{label} ({dataset.class_names[number]})" if label else dataset.class_names[number],
            "url": address(f"{item.url}/images", [("class", name)]),
            "key": name,
            "caption": f"{int(dataset.sizes[number]):,}"
            + (f" · {split_of[name]}" if name in split_of else ""),
        }

    def link(**changes: Any) -> str:
        facts = {"q": words, "split": split, "sort": str(query.get("sort", "")), "page": "", **changes}
        return address(item.url, [(key, str(value)) for key, value in facts.items() if value])

    context = {
        **gallery,
        "words": words,
        "path": item.url,
        "hidden": [("split", split)] if split else [],
        "choices": [("all splits", link(split=""), not split)]
        + [(name, link(split=name), split == name) for name in dataset.splits]
        if dataset.splits
        else [],
        "orders": [
            ("by name", link(sort=""), query.get("sort") != "images"),
            ("most images first", link(sort="images"), query.get("sort") == "images"),
        ],
        "where": None,
        "example": "",
        **_pager(link, page, start, len(shown), len(chosen), "classes"),
    }
    return frame(item, dataset, "classes", [Section("classes", "Classes", context, "image_grid")])


def images(site: Site, item: Item, query: Any) -> Page:
    """The images of a class or of all, chosen by a rule over their attributes."""
    dataset = open_item(site, item)
    name = str(query.get("class", ""))
    rows = np.arange(len(dataset))
    if name:
        own = dataset.rows(dataset.class_index(name))
        rows = rows[own]
    where = str(query.get("where", "")).strip()[:2000]
    notices = []
    if where and dataset.attributes is not None:
        from longshot.core.errors import UserError

        try:
            mask = rows_mask(where, dataset.attributes, "image", _example(dataset))
            rows = rows[mask[rows]]
        except (UserError, pa.ArrowException) as error:
            notices.append(f"{error} All images are shown.")
    page, start = _page(query, len(rows), _IMAGES)
    shown = rows[start : start + _IMAGES].tolist()
    gallery = image_gallery(item, dataset, shown)
    labels = class_labels(dataset)
    for tile in gallery["tiles"]:
        number = int(dataset.labels[tile["row"]])
        class_id = dataset.class_ids[number]
        tile |= {
            "name": labels.get(class_id) or dataset.class_names[number],
            "caption": tile["key"].rsplit("/", 1)[-1][:40],
        }

    def link(**changes: Any) -> str:
        facts = {"class": name, "where": where, "page": "", **changes}
        return address(f"{item.url}/images", [(key, str(value)) for key, value in facts.items() if value])

    context = {
        **gallery,
        "words": None,
        "path": f"{item.url}/images",
        "hidden": [("class", name)] if name else [],
        "choices": [(name, link(), True), ("all classes", link(**{"class": ""}), False)] if name else [],
        "orders": [],
        "where": where if dataset.attributes is not None else None,
        "example": _example(dataset),
        **_pager(link, page, start, len(shown), len(rows), "images"),
    }
    heading = f"Images of {labels.get(name) or name.rsplit('/', 1)[-1]}" if name else "Images"
    made = frame(item, dataset, "images", [Section("images", heading, context, "image_grid")])
    made.notices += notices
    return made


def image(site: Site, item: Item, row: int, query: Any) -> Page:
    """One image with all that is known of it."""
    from longshot.web.site import NotThere

    dataset = open_item(site, item)
    if not 0 <= row < len(dataset):
        raise NotThere(f"{item.name} has images 0 to {len(dataset) - 1:,}, and there is no number {row}.")
    number = int(dataset.labels[row])
    class_id = dataset.class_ids[number]
    facts = [("class", class_id), ("key", str(dataset.keys[row].as_py()))]
    label = class_labels(dataset).get(class_id)
    if label:
        facts.insert(1, ("called", label))
    if dataset.attributes is not None:
        facts += [
            (
                name,
                show(dataset.attributes[name][row].as_py())
                if not isinstance(dataset.attributes[name][row].as_py(), list | dict)
                else str(dataset.attributes[name][row].as_py())[:200],
            )
            for name in dataset.attributes.column_names
        ]
    context = {
        "large": f"{item.url}/image-{row}.jpg",
        "facts": facts,
        "name": label or dataset.class_names[number],
        "class_url": address(f"{item.url}/images", [("class", class_id)]),
    }
    page = frame(item, dataset, "image", [Section("image", "Image", context, "dataset_image")])
    keys = {"Escape": str(context["class_url"])}
    keys |= {"ArrowLeft": f"{item.url}/image/{row - 1}"} if row else {}
    keys |= {"ArrowRight": f"{item.url}/image/{row + 1}"} if row + 1 < len(dataset) else {}
    page.keys = keys
    return page


def taxonomy(site: Site, item: Item) -> Page:
    """The tree above the classes."""
    from longshot.taxonomy.tree import display_tree
    from longshot.web.site import NotThere

    dataset = open_item(site, item)
    if dataset.taxonomy is None:
        raise NotThere(f"{item.name} has no taxonomy.")
    root = display_tree(dataset.taxonomy, dataset.class_ids, dataset.sizes)
    leaves = set(dataset.class_ids)
    budget = [_BRANCHES]
    context = {"root": _branch(root, item, leaves, budget, 0), "cut": budget[0] <= 0, "limit": _BRANCHES}
    return frame(item, dataset, "taxonomy", [Section("taxonomy", "Taxonomy", context, "taxonomy")])


def _branch(branch: Branch, item: Item, leaves: set[str], budget: list[int], depth: int) -> dict[str, Any]:
    budget[0] -= 1
    children = []
    for child in branch.children:
        if budget[0] <= 0:
            break
        children.append(_branch(child, item, leaves, budget, depth + 1))
    return {
        "name": " › ".join(branch.labels),
        "classes": branch.classes,
        "images": branch.images,
        "url": address(f"{item.url}/images", [("class", branch.node)]) if branch.node in leaves else "",
        "children": children,
        "more": len(branch.children) - len(children),
        "open": depth < 2,
    }


def attributes(site: Site, item: Item) -> Page:
    """Each attribute as a histogram; a bar leads to its images."""
    dataset = open_item(site, item)
    panels = []
    table = dataset.attributes if dataset.attributes is not None else pa.table({})
    for name in table.column_names[:24]:
        column = table[name].combine_chunks()
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        panels.append(_panel(name, column, item))
    context = {
        "panels": panels,
        "more": max(0, table.num_columns - 24),
        "example": _example(dataset),
        "path": f"{item.url}/images",
    }
    return frame(item, dataset, "attributes", [Section("attributes", "Attributes", context, "attributes")])


def _panel(name: str, column: Any, item: Item) -> dict[str, Any]:
    """The counts of one attribute; every bar with the rule that it stands for."""
    quoted = name if name.replace("_", "").replace("-", "").isalnum() else f'"{name}"'
    rows: list[tuple[str, int, str]] = []
    numeric = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
    if numeric:
        values = pc.drop_null(column).cast(pa.float64()).to_numpy()
        values = values[np.isfinite(values)]
        whole_numbers = pa.types.is_integer(column.type)
        for label, number in bars(values.astype(np.int64) if whole_numbers else values, 12):
            ends = [end.strip() for end in label.replace("–", "…").split("…")]
            rule = (
                f"{quoted} >= {ends[0]} and {quoted} <= {ends[-1]}"
                if len(ends) == 2
                else f"{quoted} == {ends[0]}"
            )
            rows.append((label, number, address(f"{item.url}/images", [("where", rule)])))
    elif (
        pa.types.is_string(column.type)
        or pa.types.is_boolean(column.type)
        or pa.types.is_large_string(column.type)
    ):
        counted = pc.value_counts(pc.drop_null(column)).to_pylist()
        counted.sort(key=lambda entry: -entry["counts"])
        for entry in counted[:_WORDS]:
            rule = (
                f'{quoted} == "{entry["values"]}"'
                if not isinstance(entry["values"], bool)
                else f"{quoted} == {str(entry['values']).lower()}"
            )
            rows.append(
                (
                    str(entry["values"])[:60],
                    int(entry["counts"]),
                    address(f"{item.url}/images", [("where", rule)]),
                )
            )
    most = max((number for _, number, _ in rows), default=1)
    return {
        "name": name,
        "rows": [(label, number, url, 100 * number / most) for label, number, url in rows],
        "missing": int(column.null_count),
    }


def facts(site: Site, item: Item) -> Page:
    """Where it lies, what was left out, its splits."""
    dataset = open_item(site, item)
    left_out = [*(f"unreadable: {key}" for key in dataset.skipped), *dataset.left_out]
    sizes = dataset.sizes
    listed = [
        ("source", dataset.source),
        ("fingerprint", dataset.fingerprint),
        ("identity", dataset.identity),
        (
            "images per class",
            f"{int(sizes.min()):,} to {int(sizes.max()):,}, median {float(np.median(sizes)):,.0f}",
        ),
        (
            "splits",
            ", ".join(f"{len(members):,} {split}" for split, members in dataset.splits.items()) or "none",
        ),
        ("taxonomy", f"{len(dataset.taxonomy.nodes):,} nodes" if dataset.taxonomy is not None else "none"),
    ]
    sections = [
        Section("facts", "Facts", {"facts": listed}, "facts"),
        Section(
            "left_out",
            "Unreadable and ignored files",
            {"lines": left_out[:400], "more": max(0, len(left_out) - 400), "empty": "Nothing was left out."},
            "lines",
        ),
    ]
    return frame(item, dataset, "facts", sections)


def suspects(site: Site, item: Item) -> Page:
    """Images whose label looks wrong by the features in the cache."""
    dataset = open_item(site, item)
    job = {"kind": "suspects", "path": str(item.facts["source"]), "fingerprint": dataset.fingerprint}
    made = site.studio.sections(job)
    if made is None:
        lines: dict[str, Any] = {
            "html": "",
            "problem": "The images are still being looked at. This page is loaded again when it is done.",
        }
        return frame(item, dataset, "suspects", [Section("suspects", "Suspected labels", lines, "made")])
    problem = made[0]["problem"]
    if problem:
        section = Section("suspects", "Suspected labels", {"html": "", "problem": problem}, "made")
        return frame(item, dataset, "suspects", [section])
    listed = made[0]["rows"]
    rows = [int(row["row"]) for row in listed[:SHOWN]]
    gallery = image_gallery(item, dataset, rows)
    for tile, row in zip(gallery["tiles"], listed, strict=False):
        tile |= {"name": str(row["class"]), "caption": str(row["why"])}
    context = {
        **gallery,
        "first": 1 if rows else 0,
        "last": len(rows),
        "total": len(listed),
        "noun": "suspected images",
        "previous": None,
        "next": None,
        "empty": "No image is suspected.",
        "note": made[0]["heading"],
    }
    return frame(item, dataset, "suspects", [Section("suspects", "Suspected labels", context, "gallery")])


def _example(dataset: Dataset) -> str:
    if dataset.attributes is None or not dataset.attributes.num_columns:
        return ""
    numeric = [
        field.name
        for field in dataset.attributes.schema
        if pa.types.is_integer(field.type) or pa.types.is_floating(field.type)
    ]
    return f"{numeric[0]} > 0" if numeric else f"{dataset.attributes.column_names[0]} == …"


def _page(query: Any, total: int, size: int) -> tuple[int, int]:
    text = str(query.get("page", "1"))
    page = max(1, int(text)) if text.isdecimal() and len(text) < 8 else 1
    page = min(page, max(1, -(-total // size)))
    return page, (page - 1) * size


def _pager(link: Any, page: int, start: int, shown: int, total: int, noun: str) -> dict[str, Any]:
    return {
        "first": start + 1 if shown else 0,
        "last": start + shown,
        "total": total,
        "noun": noun,
        "previous": link(page=page - 1) if page > 1 else None,
        "next": link(page=page + 1) if start + shown < total else None,
        "empty": "There are none.",
    }
