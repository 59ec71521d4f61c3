"""A dataset: its classes in pictures, its taxonomy, histograms of its attributes, and the images of a class."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from starlette.responses import Response

from longshot.base import Ints, UserError, count
from longshot.explorer.downloads import attachment
from longshot.explorer.library import Item
from longshot.explorer.listing import address, cell_text, page_number
from longshot.explorer.site import NotThere, Page, Site, crumbs_of, tabs_of
from longshot.explorer.sprites import SHOWN, class_titles, image_gallery
from longshot.explorer.svg_plots import Bar, bar_plot
from longshot.reports import Section, table_bytes
from longshot.tasks import bars, rows_mask

if TYPE_CHECKING:
    from longshot.data import Branch, Dataset


_CLASSES, _IMAGES = SHOWN, SHOWN
BRANCHES = 250  # of the tree
LOOKING = "The images are still being looked at."


def dataset_frame(item: Item, dataset: Dataset, here: str, sections: list[Section]) -> Page:
    """Make the page of a dataset around some sections."""
    names = {"Classes": "", "Images": "images", "Map": "map"}
    names |= {} if dataset.taxonomy is None else {"Taxonomy": "taxonomy"}
    names |= {} if dataset.attributes is None else {"Attributes": "attributes"}
    tabs = tabs_of(
        item.url, here, names | {"Facts": "facts", "Suspected labels": "suspects", "Review": "review"}
    )
    counts = [count(len(dataset.class_ids), "class", "classes"), count(len(dataset), "image")]
    counts += [f"{len(classes):,} {split} classes" for split, classes in dataset.splits.items()]
    return Page(item.name, sections, counts=counts, crumbs=crumbs_of(item), tabs=tabs)


def open_item(site: Site, item: Item) -> Dataset:
    """Open the dataset of an item."""
    return site.opened(str(item.facts["source"]), item.name)


def dataset_classes(site: Site, item: Item, query: Any) -> Page:
    """Show every class with its first picture, size and split; ``q`` searches, ``sort`` orders."""
    dataset = open_item(site, item)
    titles = class_titles(dataset)
    split_of = {name: split for split, members in dataset.splits.items() for name in members}
    words = str(query.get("q", ""))[:200].strip()
    split = str(query.get("split", ""))
    sort = "images" if query.get("sort") == "images" else ""
    chosen = [
        number
        for number, name in enumerate(dataset.class_ids)
        if words.lower() in f"{name} {titles[name]}".lower() and (not split or split_of.get(name) == split)
    ]
    if sort:
        chosen.sort(key=lambda number: -int(dataset.sizes[number]))
    page, start = page_of(query, len(chosen), _CLASSES)
    shown = chosen[start : start + _CLASSES]
    gallery = image_gallery(item, dataset, [int(dataset.offsets[number]) for number in shown])
    for tile, number in zip(gallery["tiles"], shown, strict=True):
        name = dataset.class_ids[number]
        tile |= {
            "url": address(f"{item.url}/images", [("class", name)]),
            "key": name,
            "caption": f"{int(dataset.sizes[number]):,}"
            + (f" · {split_of[name]}" if name in split_of else ""),
        }

    def link(**changes: Any) -> str:
        facts = {"q": words, "split": split, "sort": sort, "page": "", **changes}
        return address(item.url, [(key, str(value)) for key, value in facts.items() if value])

    context = {
        **gallery,
        "words": words,
        "path": item.url,
        "hidden": [pair for pair in (("split", split), ("sort", sort)) if pair[1]],
        "choices": [("all splits", link(split=""), not split)]
        + [(name, link(split=name), split == name) for name in dataset.splits]
        if dataset.splits
        else [],
        "orders": [
            ("by name", link(sort=""), not sort),
            ("most images first", link(sort="images"), bool(sort)),
        ],
        "where": None,
        "example": "",
        **pager_of(link, page, start, len(shown), len(chosen), "classes"),
    }
    return dataset_frame(item, dataset, "", [Section("classes", "Classes", context, "image_grid")])


def dataset_images(site: Site, item: Item, query: Any) -> Page | Response:
    """Show the images of a class or of all, chosen by a rule over their attributes."""
    dataset = open_item(site, item)
    from longshot.explorer.map_views import circled, tasks_using

    rows, name, where, notices = _chosen(dataset, query)
    inside = circled(site, item, dataset, query)
    circle = [(key, str(query[key])) for key in ("map", "circle")] if inside is not None else []
    rows = rows if inside is None else rows[inside[rows]]
    if inside is not None and query.get("as") == "csv":
        return attachment(_listed(dataset, rows), f"{item.name}-circled", "csv")
    carried = [pair for pair in (("class", name), ("where", where)) if pair[1]]
    page, start = page_of(query, len(rows), _IMAGES)
    shown = rows[start : start + _IMAGES].tolist()
    gallery = image_gallery(item, dataset, shown)
    for tile in gallery["tiles"]:
        tile |= {
            "caption": tile["key"].rsplit("/", 1)[-1][:40],
            "url": address(tile["url"], carried),
        }

    def link(**changes: Any) -> str:
        facts = {"class": name, "where": where, "page": "", **changes}
        return address(
            f"{item.url}/images", [*circle, *((key, str(value)) for key, value in facts.items() if value)]
        )

    context = {
        **gallery,
        "words": None,
        "uses": tasks_using(site, item, dataset, rows) if circle else None,
        "csv": address(f"{item.url}/images", [*circle, ("as", "csv")]) if circle else "",
        "path": f"{item.url}/images",
        "hidden": [*circle, *([("class", name)] if name else [])],
        "choices": [(name, link(), True), ("all classes", link(**{"class": ""}), False)] if name else [],
        "orders": [],
        "where": where if dataset.attributes is not None else None,
        "example": example_rule(dataset),
        **pager_of(link, page, start, len(shown), len(rows), "images"),
    }
    heading = f"Images of {class_titles(dataset)[name]}" if name else "Images"
    heading = "Images circled on the map" if circle else heading
    shown_page = dataset_frame(item, dataset, "images", [Section("images", heading, context, "image_grid")])
    shown_page.notices += notices
    return shown_page


def _listed(dataset: Dataset, rows: Ints) -> bytes:
    """List images by key and class, as CSV."""
    names = [dataset.class_ids[int(label)] for label in dataset.labels[rows]]
    return table_bytes(pa.table({"key": dataset.keys.take(pa.array(rows)), "class": names}), "csv")


def _chosen(dataset: Dataset, query: Any) -> tuple[Ints, str, str, list[str]]:
    """Select rows by the class and rule of an address; also return both, and what is wrong with the rule."""
    name, where = str(query.get("class", "")), str(query.get("where", "")).strip()[:2000]
    rows = np.arange(len(dataset))
    if name:
        rows = rows[dataset.rows(dataset.class_index(name))]
    if where and dataset.attributes is not None:
        try:
            mask = rows_mask(where, dataset.attributes, "image", example_rule(dataset))
            rows = rows[mask[rows]]
        except (UserError, pa.ArrowException) as error:
            return rows, name, where, [f"{error} All images are shown."]
    return rows, name, where, []


def dataset_image(site: Site, item: Item, row: int, query: Any) -> Page:
    """Show one image with all that is known of it."""
    dataset = open_item(site, item)
    if not 0 <= row < len(dataset):
        raise NotThere(f"{item.name} has images 0 to {len(dataset) - 1:,}, and there is no number {row}.")
    number = int(dataset.labels[row])
    class_id = dataset.class_ids[number]
    facts = [("class", class_id), ("key", str(dataset.keys[row].as_py()))]
    title = class_titles(dataset)[class_id]
    if not class_id.endswith(title):
        facts.insert(1, ("called", title))
    if dataset.attributes is not None:
        values = dataset.attributes.slice(row, 1).to_pylist()[0]
        facts += [
            (name, str(value)[:200] if isinstance(value, list | dict) else cell_text(value))
            for name, value in values.items()
        ]
    context = {
        "large": f"{item.url}/image-{row}.jpg",
        "facts": facts,
        "name": title,
        "class_url": address(f"{item.url}/images", [("class", class_id)]),
    }
    page = dataset_frame(item, dataset, "image", [Section("image", "Image", context, "dataset_image")])
    rows, name, where, _ = _chosen(dataset, query)
    carried = [pair for pair in (("class", name), ("where", where)) if pair[1]]
    at = int(np.searchsorted(rows, row))
    before, after = (rows[at - 1] if at else None), (rows[at + 1] if at + 1 < len(rows) else None)
    back = address(f"{item.url}/images", carried) if carried else str(context["class_url"])
    inside = at < len(rows) and rows[at] == row
    sides = (("prev", "ArrowLeft", before), ("next", "ArrowRight", after)) if inside else ()
    leads = [
        (rel, key, address(f"{item.url}/image/{to}", carried)) for rel, key, to in sides if to is not None
    ]
    page.keys = {"Escape": back} | {key: url for _, key, url in leads}
    page.steps = [*((rel, url) for rel, _, url in leads), ("up", back)]
    return page


def dataset_taxonomy(site: Site, item: Item) -> Page:
    """Show the tree above the classes."""
    from longshot.data import display_tree

    dataset = open_item(site, item)
    if dataset.taxonomy is None:
        raise NotThere(f"{item.name} has no taxonomy.")
    root = display_tree(dataset.taxonomy, dataset.class_ids, dataset.sizes)
    leaves = set(dataset.class_ids)

    def url(node: str) -> str:
        return address(f"{item.url}/images", [("class", node)]) if node in leaves else ""

    context = {"trees": [tree_context(root, url, "images")]}
    return dataset_frame(item, dataset, "taxonomy", [Section("taxonomy", "Taxonomy", context, "taxonomy")])


def tree_context(root: Branch, url: Callable[[str], str], noun: str, most: int = BRANCHES) -> dict[str, Any]:
    """Prepare a tree for its template: at most ``most`` nodes, open near the root.

    ``url`` is the address of a leaf's node, ``noun`` what is counted.
    """
    budget = [most]

    def grow(branch: Branch, depth: int) -> dict[str, Any]:
        budget[0] -= 1
        children = []
        for child in branch.children:
            if budget[0] <= 0:
                break
            children.append(grow(child, depth + 1))
        return {
            "name": " › ".join(branch.labels),
            "classes": branch.classes,
            "images": branch.images,
            "url": url(branch.node),
            "children": children,
            "more": len(branch.children) - len(children),
            "open": depth < 2,
        }

    return {**grow(root, 0), "cut": budget[0] <= 0, "noun": noun, "limit": most}


def dataset_facts(site: Site, item: Item) -> Page:
    """Show everything that ``show_dataset`` says, and the odd images and copies in pictures."""
    dataset = open_item(site, item)
    job = {"kind": "sheet", "path": str(item.facts["source"]), "fingerprint": dataset.fingerprint}
    seen = site.worked(job, "Facts", LOOKING, partial(dataset_frame, item, dataset, "facts"))
    rows, groups = seen[0]["rows"]
    left_out = [*(f"unreadable: {key}" for key in dataset.skipped), *dataset.left_out]
    sections = [Section("facts", "Facts", {"facts": [tuple(row) for row in rows]}, "facts")]
    for number, (heading, shown) in enumerate(groups):
        gallery = image_gallery(item, dataset, shown)
        for tile in gallery["tiles"]:
            tile["caption"] = tile["key"]
        pager = pager_of(lambda **_: "", 1, 0, len(shown), len(shown), "images")
        sections.append(Section(f"odd{number}", heading, {**gallery, **pager}, "gallery"))
    lines = {"lines": left_out[:400], "more": max(0, len(left_out) - 400), "empty": "Nothing was left out."}
    sections.append(Section("left_out", "Unreadable and ignored files", lines, "lines"))
    return dataset_frame(item, dataset, "facts", sections)


def example_rule(dataset: Dataset) -> str:
    """Suggest a rule that has a meaning for the attributes of a dataset."""
    if dataset.attributes is None or not dataset.attributes.num_columns:
        return ""
    numeric = [
        field.name
        for field in dataset.attributes.schema
        if pa.types.is_integer(field.type) or pa.types.is_floating(field.type)
    ]
    return f"{numeric[0]} > 0" if numeric else f"{dataset.attributes.column_names[0]} == …"


def page_of(query: Any, total: int, size: int) -> tuple[int, int]:
    """Return the page that an address names, at most the last, and the number of entries before it."""
    page = min(page_number(query), max(1, -(-total // size)))
    return page, (page - 1) * size


def pager_of(link: Any, page: int, start: int, shown: int, total: int, noun: str) -> dict[str, Any]:
    """Describe the line with the pages; ``link(page=…)`` is the address of one."""
    return {
        "first": start + 1 if shown else 0,
        "last": start + shown,
        "total": total,
        "noun": noun,
        "previous": link(page=page - 1) if page > 1 else None,
        "next": link(page=page + 1) if start + shown < total else None,
        "empty": "There are none.",
    }


_WORDS = 16  # of an attribute that are counted
_PANELS = 15  # of a page


def dataset_attributes(site: Site, item: Item, query: Any) -> Page:
    """Show each attribute as a histogram; a bar leads to its images."""
    dataset = open_item(site, item)
    table = dataset.attributes if dataset.attributes is not None else pa.table({})
    page, start = page_of(query, table.num_columns, _PANELS)
    names = table.column_names[start : start + _PANELS]

    def link(**changes: Any) -> str:
        return address(f"{item.url}/attributes", [(key, str(value)) for key, value in changes.items()])

    context = {
        "panels": [_panel(name, table[name].combine_chunks(), item) for name in names],
        "example": example_rule(dataset),
        "path": f"{item.url}/images",
        **pager_of(link, page, start, len(names), table.num_columns, "attributes"),
    }
    return dataset_frame(
        item, dataset, "attributes", [Section("attributes", "Attributes", context, "attributes")]
    )


def _panel(name: str, column: Any, item: Item) -> dict[str, Any]:
    """Describe the histogram of one attribute; every bar has the rule that it stands for."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    quoted = name if name.replace("_", "").replace("-", "").isalnum() else f'"{name}"'
    kind = column.type
    pairs: list[tuple[str, int, str]] = []  # label, count, rule
    values_in_all = 0
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        pairs = _ranges(column, quoted)
    elif pa.types.is_string(kind) or pa.types.is_boolean(kind) or pa.types.is_large_string(kind):
        counted = pc.value_counts(pc.drop_null(column)).to_pylist()
        counted.sort(key=lambda entry: -entry["counts"])
        values_in_all = len(counted)
        for entry in counted[:_WORDS]:
            value = entry["values"]
            written = str(value).lower() if isinstance(value, bool) else f'"{value}"'
            pairs.append((str(value)[:60], int(entry["counts"]), f"{quoted} == {written}"))
    rows = [
        Bar(label, number, address(f"{item.url}/images", [("where", rule)])) for label, number, rule in pairs
    ]
    return {
        "name": name,
        "svg": bar_plot(rows, name) if rows else "",
        "more": max(0, values_in_all - _WORDS),
        "missing": int(column.null_count),
    }


def _ranges(column: Any, quoted: str) -> list[tuple[str, int, str]]:
    """Divide numbers into a few ranges, each with its rule."""
    values = pc.drop_null(column).cast(pa.float64()).to_numpy()
    values = values[np.isfinite(values)]
    if pa.types.is_integer(column.type):
        values = values.astype(np.int64)
    pairs = []
    for label, number in bars(values, 12):
        ends = [end.strip() for end in label.replace("–", "…").split("…")]
        rule = f"{quoted} == {ends[0]}"
        if len(ends) == 2:
            rule = f"{quoted} >= {ends[0]} and {quoted} <= {ends[-1]}"
        pairs.append((label, number, rule))
    return pairs
