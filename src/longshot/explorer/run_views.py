"""A run: its table of means, its tasks, the sections of its report, and a plot whose points are tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from longshot.base import count
from longshot.explorer.library import Item
from longshot.explorer.listing import (
    MOST_ROWS,
    ListPage,
    ListState,
    address,
    is_share,
    make_page,
    page_number,
    task_link,
)
from longshot.explorer.result_views import IndexLinks, indexed_results, tasks_url
from longshot.explorer.run_index import BedIndex, RunIndex
from longshot.explorer.site import NotThere, Page, Site, crumbs_of, made, tabs_of
from longshot.explorer.task_rows import CHOSEN_BY, PICTURED, class_choices, pictured_rows, task_table
from longshot.reports import Section, results_sheet

_HEADINGS = {
    "overlap": "Overlap",
    "results": "Tests",
    "paired": "Paired",
    "cost": "Cost",
    "distribution": "Distribution",
    "by_shape": "Way and shot",
    "difficulty": "Difficulty",
    "drop": "Drop",
    "ranks": "Ranks",
    "calibrated": "Calibration",
    "enough": "Enough tasks?",
    "training": "Training",
    "provenance": "Provenance",
}


def run_job(run: Item, index: RunIndex) -> dict[str, Any]:
    """Return what the plot worker is asked for."""
    return {"kind": "run", "path": str(run.path), "run": run.id, "stamp": index.stamp}


def run_frame(site: Site, run: Item, index: RunIndex, here: str, sections: list[Section]) -> Page:
    """Make the page of a run around some sections."""
    ready = site.plot_worker.ready(run_job(run, index))
    names = (
        list(dict.fromkeys(each["name"] for each in ready if not each["problem"]))
        if ready
        else ["results", "provenance"]  # these every run has
    )
    views = {"Overview": "", "Tasks": "tasks"} | ({"Plots": "plot"} if index.rows else {})
    if any(bed.answered() and site.testbed_item(bed.hash) for bed in index.beds()):
        views |= {"Classes": "classes", "Confusions": "confusion"}
    tabs = tabs_of(run.url, here, views)
    if index.rows and any(len(bed.series) > 1 and site.testbed_item(bed.hash) for bed in index.beds()):
        tabs += [("Compare", address("/compare", [("run", run.id)]), False)]
    tabs += tabs_of(f"{run.url}/report", here, {_HEADINGS.get(name, name): name for name in names})
    notices = list(dict.fromkeys(index.notes))[:3]
    if len(index.notes) > 3:
        notices.append(f"{len(index.notes) - 3} more files of this run are damaged.")
    facts = run.facts
    return Page(
        run.name,
        sections,
        counts=[
            count(len(facts["testbeds"]), "testbed"),
            count(len(facts["backbones"]), "backbone"),
            count(len(facts["methods"]), "method"),
            count(index.rows, "task result"),
        ],
        crumbs=crumbs_of(run),
        tabs=tabs,
        notices=notices,
        live=f"/live?item={run.id}" if run.state != "finished" else "",  # what stopped may go on
    )


def run_overview(site: Site, run: Item) -> Page:
    """Show the state of a run and its table of results; each mean leads to its tasks."""
    index = site.index(run)
    beds = index.beds()
    data, entries = indexed_results(site, [run])
    items = [site.testbed_item(bed.hash) for bed in beds]
    context = {
        "run": run,
        "beds": [
            {
                "name": bed.name,
                "tasks": bed.table.num_rows,
                "url": item.url if item else None,
                "list": tasks_url(run, bed, ""),
                "board": f"{item.url}/board" if item else None,
                "problem": bed.problem,
            }
            for bed, item in zip(beds, items, strict=True)
        ],
        "means": results_sheet(data, entries) if data.series else None,
        "links": IndexLinks(site, [run]),
    }
    return run_frame(site, run, index, "", [Section("overview", "Means", context, "run_overview")])


def choose_bed(index: RunIndex, query: Any) -> BedIndex:
    """Choose the testbed that the address names, by the beginning of its hash or its name; else the first."""
    wanted_bed = str(query.get("bed", ""))
    for content_hash in index.hashes:
        if wanted_bed and (content_hash.startswith(wanted_bed) or index.bed(content_hash).name == wanted_bed):
            return index.bed(content_hash)
    if wanted_bed or not index.hashes:
        raise NotThere(f"This run has no testbed '{wanted_bed[:60]}'.")
    return index.bed(index.hashes[0])


def choose_series(bed: BedIndex, text: str) -> int:
    """Find the position of a series by its column or its label; the highest mean where none is named."""
    for position, series in enumerate(bed.series):
        if text in (series.column, series.label):
            return position
    if text:
        raise NotThere(f"There is no series '{text[:80]}' on this testbed.")
    if not bed.series:
        raise NotThere("This testbed has no results yet.")
    return max(range(len(bed.series)), key=bed.mean)


def default_columns(bed: BedIndex) -> list[str]:
    """List the columns shown by default: the task, what it is, and the accuracies of the first series."""
    plain = ["task", "accuracy", "spread"] if len(bed.series) > 1 else ["task", "accuracy"]
    own = [series.column for series in bed.series] if len(bed.series) > 1 else []
    return [*plain, *bed.varied[:3], *own]


def list_state(path: str, query: Any, bed: BedIndex) -> ListState:
    """Read the state of the list; a series that an address names becomes its sort order."""
    state = ListState.read(path, query, fixed=("bed", *CHOSEN_BY))
    text = str(query.get("series", ""))
    if text and not state.sort:
        return replace(state, sort=bed.series[choose_series(bed, text)].column)
    return state


def run_tasks(site: Site, run: Item, query: Any) -> Page:
    """Show every task of a testbed with its accuracies: sorted, filtered, paged."""
    index = site.index(run)
    bed = choose_bed(index, query)
    state = list_state(f"{run.url}/tasks", query, bed)
    item = site.testbed_item(bed.hash)
    table = task_table(site, item, bed.table, query, bed)
    pictured = item is not None and not bed.problem and state.view != "table" and not state.columns
    defaults = default_columns(bed)
    if pictured:  # accuracies of series are ticks, and what is most telling stands beside them
        defaults = ["task", "accuracy", "disagreement", "cause", *bed.varied[:2]]
    listed = make_page(
        table, state, default_sort="accuracy", defaults=defaults, most=PICTURED if pictured else MOST_ROWS
    )
    chosen = tuple(pair for pair in state.fixed if pair[0] in CHOSEN_BY)
    carried = [("run", run.id), *state.parameters(page=1, fixed=chosen, columns=())]
    link = task_link(f"{item.url}/task" if item else None, carried)
    example = f"way >= 5 and {bed.series[0].column} < 0.4" if bed.series else "way >= 5"
    context = list_context(listed, link, example, item, file=f"{run.name}-{bed.name}")
    context |= {"beds": bed_links(state.path, index, bed), "series": bed.series}
    context |= pictured_context(site, item, listed, carried, bed, pictured)
    page = run_frame(
        site, run, index, "tasks", [Section("tasks", f"Tasks of {bed.name}", context, "task_list")]
    )
    if bed.problem:
        page.notices.append(bed.problem)
    return page


def bed_links(path: str, index: RunIndex, shown: BedIndex) -> list[tuple[str, str, bool]]:
    """List the testbeds of a run as choices of a page: name, address, whether it is the one shown."""
    return [(bed.name, address(path, [("bed", bed.hash[:10])]), bed is shown) for bed in index.beds()]


def list_context(
    listed: ListPage, link: Any, example: str, item: Item | None = None, noun: str = "tasks", file: str = ""
) -> dict[str, Any]:
    """Collect what the template of a list takes: links of cells, an example of a filter, files.

    ``item`` is the testbed that a part of is a file too, ``file`` how files are called if not as the page.
    """
    kinds = [("CSV", "csv"), ("Parquet", "parquet")] + (
        [("testbed of these tasks", "testbed")] if item else []
    )
    state = listed.state
    return {
        "list": listed,
        "noun": noun,
        "link": link,
        "beds": [],
        "share": is_share,
        "example": example,
        "testbed": item,
        "file": file,
        "downloads": [
            (name, address(state.path, [*state.parameters(page=1), ("as", kind)])) for name, kind in kinds
        ],
        "series": [],
        "pictures": None,
        "views": [],
        "classes": [],
    }


def pictured_context(
    site: Site,
    item: Item | None,
    listed: ListPage,
    carried: Sequence[tuple[str, str]],
    bed: BedIndex | None,
    pictured: bool,
) -> dict[str, Any]:
    """Collect what a list of tasks takes beside: its pictures, its other views, and classes to choose by."""
    state = listed.state
    views = (("", "rows"), ("grid", "grid"), ("table", "numbers"))
    chosen = dict(state.fixed)
    return {
        "pictures": pictured_rows(site, item, listed, carried, bed) if pictured and listed.rows else None,
        "views": [
            (name, state.url(view=view, columns=(), page=1), view == state.view) for view, name in views
        ],
        "classes": class_choices(site, item),
        "chosen": [chosen.get(name, "") for name in CHOSEN_BY],
        "legend": [] if bed is None else list(enumerate(bed.series[:6])),
    }


def run_section(site: Site, run: Item, name: str, query: Any) -> Page:
    """Show one section of the run's report; ``part`` counts from 1 where its plots need several pages."""
    index = site.index(run)
    if name not in _HEADINGS:
        raise NotThere(f"The report of a run has no section '{name[:40]}'.")
    frame = partial(run_frame, site, run, index, name)
    waiting = "The plots of this run are still being drawn."
    drawn_plots = site.worked(run_job(run, index), _HEADINGS[name], waiting, frame)
    parts = [each for each in drawn_plots if each["name"] == name]
    if not parts:
        raise NotThere(f"The report of this run has no section '{name[:40]}'.")
    number = min(page_number(query, "part"), len(parts))
    shown = made(name, parts[number - 1]["heading"], "", parts[number - 1])
    if len(parts) > 1:
        shown.context["pages"] = [
            (f"part {each}", address(f"{run.url}/report/{name}", [("part", str(each))]), each == number)
            for each in range(1, len(parts) + 1)
        ]
    return frame([shown])
