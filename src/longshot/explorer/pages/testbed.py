"""A testbed: how it was drawn, its histograms, and every task in a list."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from longshot.base import count
from longshot.evaluation import numbered_classes
from longshot.explorer.held import Held
from longshot.explorer.library import Item
from longshot.explorer.listing import DEFAULT_COLUMNS, ListState, make_page, task_link
from longshot.explorer.pages.run import download_links, list_context
from longshot.explorer.shelf import ShelvedTestbed
from longshot.explorer.site import Page, Site, made, tabs_of
from longshot.reports import Section

_RUNS = 20  # that are named


def frame(site: Site, item: Item, here: str, sections: list[Section]) -> Page:
    """The page of a testbed around some sections."""
    names = {"Overview": "", "Tasks": "tasks", "Classes": "classes", "Histograms": "plots"}
    tabs = tabs_of(item.url, here, names | {"Leaderboard": "board"})
    facts = item.facts
    counts = [count(int(facts["tasks"]), "task"), ", ".join(facts["datasets"]), f"hash {facts['hash'][:12]}"]
    crumbs = [("Explorer", "/"), ("testbeds", "/?kind=testbed")]
    return Page(item.name, sections, counts=counts, crumbs=crumbs, tabs=tabs)


def overview(site: Site, item: Item) -> Page:
    """How it was drawn, the runs on it, other testbeds that ask the same queries."""
    shelved = site.testbed(item)
    testbed = shelved.testbed
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
        "siblings": siblings(site, item),
    }
    return frame(site, item, "", [Section("origin", "How it was drawn", context, "testbed_overview")])


def _ends(counts: dict[str, int]) -> list[tuple[str, int]]:
    """The classes that occur most and least often."""
    names = list(counts)
    return [(name, counts[name]) for name in dict.fromkeys([*names[:3], *names[-3:]])]


def dataset_links(site: Site, datasets: dict[str, str]) -> list[tuple[str, str, str | None]]:
    """(name, fingerprint, page) of the datasets of a testbed."""
    known_sets = [each for each in site.library.items() if each.kind == "dataset" and not each.problem]
    links = []
    for name, fingerprint in datasets.items():
        same = [each for each in known_sets if each.facts.get("fingerprint") == fingerprint]
        same.sort(key=lambda each: each.name != name)
        page = (
            same[0].url
            if same
            else next((each.url for each in known_sets if name == each.name == "toybox"), None)
        )
        links.append((name, fingerprint, page))
    return links


def siblings(site: Site, item: Item) -> list[Item]:
    """Other testbeds of as many tasks over the same datasets: candidates for the same queries."""
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


_with_class = Held(8)


def tasks_with(shelved: ShelvedTestbed, class_id: str) -> pa.Table:
    """The table of a testbed's tasks; with a class only of those that ask for it."""
    if not class_id:
        return shelved.tasks
    return _with_class.get(
        (shelved.testbed.content_hash, class_id), lambda: _filter_by_class(shelved, class_id)
    )


def _filter_by_class(shelved: ShelvedTestbed, class_id: str) -> pa.Table:
    numbers, names = numbered_classes(shelved.testbed)
    own = [number for number, (_, name) in enumerate(names) if name == class_id]
    holds = np.isin(numbers.values, own)
    sums = np.concatenate([[0], np.cumsum(holds)])
    return shelved.tasks.filter(pa.array(sums[numbers.offsets[1:]] > sums[numbers.offsets[:-1]]))


def tasks(site: Site, item: Item, query: Any) -> Page:
    """Every task, or those with one class: sorted, filtered, paged."""
    shelved = site.testbed(item)
    class_id = str(query.get("class", ""))[:500]
    table = tasks_with(shelved, class_id)
    state = ListState.read(f"{item.url}/tasks", query, fixed=("class",))
    listed = make_page(table, state, default_sort="task", defaults=table.column_names[:DEFAULT_COLUMNS])
    link = task_link(f"{item.url}/task", state.parameters(page=1, columns=()))
    example = "way >= 5 and coarsity < 10" if "coarsity" in table.column_names else "way >= 5"
    context = list_context(listed, link, example, download_links(state, True))
    if class_id:
        context["beds"] = [(f"with {class_id}", state.url(), True), ("all tasks", f"{item.url}/tasks", False)]
    return frame(site, item, "tasks", [Section("tasks", "Tasks", context, "task_list")])


def plots(site: Site, item: Item) -> Page:
    """The histograms of the testbed's own page."""
    job = {"kind": "testbed", "path": str(item.path), "hash": item.facts["hash"]}
    drawn_plots = site.studio.sections(job)
    if drawn_plots is None:
        problem = "The plots are still being drawn. This page is loaded again when it is done."
        return frame(site, item, "plots", [made("waiting", "Being drawn", problem)])
    sections = [made(each["name"], each["heading"], each["problem"], each["html"]) for each in drawn_plots]
    return frame(site, item, "plots", sections)
