"""A testbed: how it was drawn, its histograms, every task in a list, and how often each class is asked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from longshot.base import UserError, count
from longshot.evaluation import numbered_classes
from longshot.explorer.caches import LruCache
from longshot.explorer.dataset_views import tree_context
from longshot.explorer.library import Item
from longshot.explorer.listing import DEFAULT_COLUMNS, MOST_ROWS, ListState, address, make_page, task_link
from longshot.explorer.run_views import list_context, pictured_context
from longshot.explorer.site import Page, Site, crumbs_of, made, tabs_of
from longshot.explorer.task_rows import CHOSEN_BY, PICTURED, task_table
from longshot.reports import Section, class_names
from longshot.tasks import Testbed

_RUNS, _PEEKS = 20, 5  # runs that are named, tasks in pictures


def testbed_frame(site: Site, item: Item, here: str, sections: list[Section]) -> Page:
    """Make the page of a testbed around some sections."""
    names = {"Overview": "", "Tasks": "tasks", "Classes": "classes", "Histograms": "plots"}
    tabs = tabs_of(item.url, here, names | {"Leaderboard": "board"})
    facts = item.facts
    counts = [count(int(facts["tasks"]), "task"), ", ".join(facts["datasets"]), f"hash {facts['hash'][:12]}"]
    return Page(item.name, sections, counts=counts, crumbs=crumbs_of(item), tabs=tabs)


def testbed_overview(site: Site, item: Item) -> Page:
    """Show how it was drawn, the runs on it, and other testbeds that ask the same queries."""
    cached = site.testbed(item)
    testbed = cached.testbed
    from longshot.tasks import describe, sampler_settings, say_identity

    runs = site.library.runs_of(item.facts["hash"])
    balance = describe.balances(testbed)
    context = {
        "item": item,
        "settings": sampler_settings(testbed.meta["sampler"]),
        "seed": testbed.meta.get("seed"),
        "creator": testbed.meta.get("creator"),
        "identity": say_identity(testbed.meta["content"]),
        "datasets": dataset_links(site, testbed.datasets),
        "runs": runs[:_RUNS],
        "more_runs": max(0, len(runs) - _RUNS),
        "balance": [
            {
                "dataset": each.dataset,
                "classes": len(each.counts),
                "ends": [(each.named(name), number) for name, number in _ends(each.counts)],
                "url": f"{item.url}/classes",
            }
            for each in balance
        ],
        "siblings": [(each, brief_sampler(each)) for each in siblings(site, item)],
    }
    peeks = {"url": item.url, "peeks": range(min(_PEEKS, len(testbed)))}
    sections = [
        Section("peeks", "Its first tasks", peeks),
        Section("origin", "How it was drawn", context, "testbed_overview"),
    ]
    return testbed_frame(site, item, "", sections)


def brief_sampler(item: Item) -> str:
    """Say how a testbed was drawn, without the settings, which its page has."""
    return ", ".join(re.findall(r"\b(?:shape|classes|instances) [\w-]+", str(item.facts["sampler"])))


def _ends(counts: dict[str, int]) -> list[tuple[str, int]]:
    """List the classes that occur most and least often."""
    names = list(counts)
    return [(name, counts[name]) for name in dict.fromkeys([*names[:3], *names[-3:]])]


def dataset_links(site: Site, datasets: dict[str, str]) -> list[tuple[str, str, str | None]]:
    """List (name, fingerprint, page) of the datasets of a testbed."""
    known_sets = [each for each in site.library.items() if each.kind == "dataset" and not each.problem]
    links = []
    for name, fingerprint in datasets.items():
        same = [each for each in known_sets if each.facts.get("fingerprint") == fingerprint]
        same.sort(key=lambda each: each.name != name)
        same += [each for each in known_sets if name == each.name == "toybox"]
        links.append((name, fingerprint, same[0].url if same else None))
    return links


def siblings(site: Site, item: Item) -> list[Item]:
    """List other testbeds of as many tasks over the same datasets: candidates for the same queries."""
    facts = item.facts
    return [
        each
        for each in site.library.items()
        if each.kind == "testbed"
        and not each.problem
        and each.digits != item.digits
        and each.facts["tasks"] == facts["tasks"]
        and each.facts["datasets"] == facts["datasets"]
    ][:8]


def _varies(column: pa.ChunkedArray) -> bool:
    """Tell whether the tasks of a page differ in a column."""
    return len(column.slice(0, 1000).unique()) > 1


def testbed_tasks(site: Site, item: Item, query: Any) -> Page:
    """Show every task, or those with one class: sorted, filtered, paged."""
    table = task_table(site, item, site.testbed(item).tasks, query)
    state = ListState.read(f"{item.url}/tasks", query, fixed=CHOSEN_BY)
    pictured = state.view != "table" and not state.columns
    varied = [name for name in table.column_names if name in ("task", "cause") or _varies(table[name])]
    defaults = varied if pictured else table.column_names
    most = PICTURED if pictured else MOST_ROWS
    listed = make_page(table, state, default_sort="task", defaults=defaults[:DEFAULT_COLUMNS], most=most)
    carried = state.parameters(page=1, columns=())
    link = task_link(f"{item.url}/task", carried)
    example = "way >= 5 and coarsity < 10" if "coarsity" in table.column_names else "way >= 5"
    context = list_context(listed, link, example, item)
    context |= pictured_context(site, item, listed, carried, None, pictured)
    return testbed_frame(site, item, "tasks", [Section("tasks", "Tasks", context, "task_list")])


def testbed_plots(site: Site, item: Item) -> Page:
    """Show the histograms of the testbed's own page."""
    job = {"kind": "testbed", "path": str(item.path), "hash": item.facts["hash"]}
    frame = partial(testbed_frame, site, item, "plots")
    drawn_plots = site.worked(job, "Being drawn", "The plots are still being drawn.", frame)
    own = [each for each in drawn_plots if each["name"] != "origin"]  # which the first page has
    sections = [made(each["name"], each["heading"], each["problem"], each) for each in own]
    return frame(sections)


_counted_classes = LruCache()
_BRANCHES = 90  # beside the list


def classes_table(testbed: Testbed) -> pa.Table:
    """Build a table with a row per class: id, name, its tasks, its support images and queries there."""
    return _counted_classes.get(testbed.content_hash, lambda: _count(testbed))


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


def testbed_classes(site: Site, item: Item, query: Any) -> Page:
    """Show the class balance as a list, and the taxonomy of the classes beside it."""
    testbed = site.testbed(item).testbed
    table = classes_table(testbed)
    state = ListState.read(f"{item.url}/classes", query)
    left_out = {"dataset"} if len(testbed.datasets) == 1 else set()
    left_out |= set() if any(testbed.labels.values()) else {"name"}  # it is the end of the class
    defaults = [name for name in table.column_names if name not in left_out]
    listed = make_page(table, state, default_sort="-tasks", noun="class", defaults=defaults)

    def link(name: str, row: Mapping[str, Any]) -> str:
        leads = name in ("class", "tasks") and "class" in row
        return address(f"{item.url}/tasks", [("class", row["class"])]) if leads else ""

    context = list_context(listed, link, "tasks > 10", noun="classes")
    trees = [
        _tree(site, item, table, name, fingerprint)
        for name, fingerprint in list(testbed.datasets.items())[:3]
    ]
    context["trees"] = [tree for tree in trees if tree is not None]
    return testbed_frame(site, item, "classes", [Section("classes", "Classes", context, "bed_classes")])


def _tree(site: Site, item: Item, table: pa.Table, name: str, fingerprint: str) -> dict[str, Any] | None:
    """Build the taxonomy above the classes in use, with how often they are asked; None if there is none."""
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
