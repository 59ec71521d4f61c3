"""The classes of a testbed: how often each is asked, and where it stands in the taxonomy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from longshot.base import UserError
from longshot.evaluation import numbered_classes
from longshot.explorer.held import Held
from longshot.explorer.library import Item
from longshot.explorer.listing import ListState, address, make_page
from longshot.explorer.pages.dataset import tree_context
from longshot.explorer.pages.run import download_links, list_context
from longshot.explorer.pages.testbed import frame
from longshot.explorer.site import Page, Site
from longshot.reports import Section, class_names
from longshot.tasks import Testbed

_held = Held()
_BRANCHES = 90  # beside the list
COLUMNS = ("class", "name", "tasks", "support", "queries")


def classes_table(testbed: Testbed) -> pa.Table:
    """One row per class: its id, what it is called, the tasks it is in, its support images and its queries there."""
    return _held.get(testbed.content_hash, lambda: _count(testbed))


def _count(testbed: Testbed) -> pa.Table:
    numbers, names = numbered_classes(testbed)
    counts: dict[str, Any] = {"tasks": np.bincount(numbers.values, minlength=len(names))}
    for name, column in (("support", "support_label"), ("queries", "query_label")):
        labels = testbed.column(column)
        # The class of an image: its label counts from where the classes of its task begin.
        own = numbers.values[np.repeat(numbers.offsets[:-1], labels.lengths) + labels.values]
        counts[name] = np.bincount(own, minlength=len(names))
    shown = [""] * len(names)
    for dataset in testbed.datasets:
        places = [number for number, (owner, _) in enumerate(names) if owner == dataset]
        labelled = class_names([names[number][1] for number in places], testbed.labels.get(dataset, {}))
        for number, text in zip(places, labelled, strict=True):
            shown[number] = text
    return pa.table(
        {
            "class": [class_id for _, class_id in names],
            "name": shown,
            "dataset": [dataset for dataset, _ in names],
            **counts,
        }
    )


def classes(site: Site, item: Item, query: Any) -> Page:
    """The class balance as a list, and the taxonomy of the classes beside it."""
    testbed = site.testbed(item).testbed
    table = classes_table(testbed)
    state = ListState.read(f"{item.url}/classes", query)
    several = len(testbed.datasets) > 1
    defaults = [name for name in (*COLUMNS, *(("dataset",) if several else ())) if name != "class"]
    listed = make_page(table, state, default_sort="-tasks", noun="class", defaults=["class", *defaults])

    def link(name: str, row: Mapping[str, Any]) -> str:
        leads = name in ("class", "tasks") and "class" in row
        return address(f"{item.url}/tasks", [("class", row["class"])]) if leads else ""

    context = list_context(listed, link, "tasks > 10", download_links(state, False), "classes")
    trees = [
        _tree(site, item, table, name, fingerprint)
        for name, fingerprint in list(testbed.datasets.items())[:3]
    ]
    context["trees"] = [tree for tree in trees if tree is not None]
    return frame(site, item, "classes", [Section("classes", "Classes", context, "bed_classes")])


def _tree(site: Site, item: Item, table: pa.Table, name: str, fingerprint: str) -> dict[str, Any] | None:
    """The taxonomy above the classes in use, with the number of times they are asked; None where there is none."""
    from longshot.data import display_tree

    try:
        dataset = site.dataset(name, fingerprint)
    except (UserError, OSError):
        return None
    if dataset.taxonomy is None:
        return None
    own = table.filter(pa.compute.equal(table["dataset"], name))
    ids = own["class"].to_pylist()
    root = display_tree(dataset.taxonomy, ids, own["tasks"].to_numpy())
    leaves = set(ids)

    def url(node: str) -> str:
        return address(f"{item.url}/tasks", [("class", node)]) if node in leaves else ""

    return tree_context(root, url, "times in a task", _BRANCHES)
