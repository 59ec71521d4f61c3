"""Series side by side, task by task and query by query."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from longshot.base import count
from longshot.explorer.caches import LruCache
from longshot.explorer.dataset_views import pager_of
from longshot.explorer.library import Item
from longshot.explorer.listing import ListState, address, make_page, order, page_number, task_link
from longshot.explorer.query_answers import KINDS, SideBySide, side_by_side
from longshot.explorer.run_index import BedIndex
from longshot.explorer.run_index_build import SeriesColumn
from longshot.explorer.run_views import (
    choose_bed,
    list_context,
)
from longshot.explorer.site import NotThere, Page, Site, made
from longshot.explorer.sprites import SHOWN, query_gallery
from longshot.reports import Section, class_names
from longshot.statistics import compare_paired, mean_interval, t_p_value

_SAMPLED = 5_000  # tasks up to which signs are flipped; beyond it the t test says the same
_LISTED = 50  # tasks of a page
WORDS = {"both": "both right", "only_a": "only A right", "only_b": "only B right", "neither": "both wrong"}
_compared = LruCache()


@dataclass(frozen=True)
class Candidate:
    """A series that can be compared: of any run on the testbed."""

    run: Item
    bed: BedIndex
    position: int

    @property
    def series(self) -> SeriesColumn:
        """Return its backbone and method."""
        return self.bed.series[self.position]

    @property
    def id(self) -> str:
        """Return its name in addresses: the run's digits and the column."""
        return f"{self.run.digits}:{self.series.column}"


def candidates(site: Site, content_hash: str, most: int = 40) -> list[Candidate]:
    """List every series measured on a testbed, newest runs first."""
    listed = []
    for run in site.library.runs_of(content_hash):
        try:
            bed = site.index(run).bed(content_hash)
        except (NotThere, KeyError):
            continue
        listed += [Candidate(run, bed, position) for position in range(len(bed.series))]
        if len(listed) >= most:
            break
    return listed[:most]


def compare_series(site: Site, query: Any) -> Page:
    """Compare two series task by task: those that the address names, or the two best of the run or the testbed."""
    item = _testbed_of(site, query)
    every = candidates(site, item.facts["hash"])
    by_id = {each.id: each for each in every}
    chosen = [by_id[name] for name in query.getlist("series") if name in by_id]
    run = str(query.get("run", "")).rsplit("-", 1)[-1]
    if len(chosen) != 2:
        own = [each for each in every if not run or each.run.digits == run]
        chosen = sorted(own, key=lambda each: each.bed.mean(each.position))[-2:]
    owner = site.library.find("run", run) if run else None
    crumbs = [("Explorer", "/"), (owner.name, owner.url) if owner else (item.name, item.url)]
    title = f"Compare on {item.name}"
    if len(chosen) < 2:
        sentence = f"{item.name} has {count(len(every), 'series', 'series')}, and two are needed to compare."
        return Page(title, [made("choose", "Compare", sentence)], crumbs=crumbs)
    choices = {"every": every, "chosen": chosen, "testbed": item.id, "beds": _other_beds(site, query, item)}
    sections = _pair(site, item, chosen[0], chosen[1], query)
    if len(every) > 2 or len(choices["beds"]) > 1:
        sections.append(Section("choose", "Compare others", choices, "compare_choose"))
    page = Page(title, sections, counts=[count(int(item.facts["tasks"]), "task")], crumbs=crumbs)
    seen = (site.index(each.run).leaks.get((item.facts["hash"], each.series.backbone)) for each in chosen)
    page.notices += dict.fromkeys(f"{leak[1]}." for leak in seen if leak)
    return page


def _testbed_of(site: Site, query: Any) -> Item:
    """Return the testbed that an address names, or the first of a run's."""
    if query.get("testbed"):
        return site.item("testbed", str(query["testbed"]))
    if query.get("run"):
        run = site.item("run", str(query["run"]))
        bed = choose_bed(site.index(run), query)
        item = site.testbed_item(bed.hash)
        if item is not None:
            return item
        raise NotThere(
            f"The testbed {bed.name} is not among what is shown, so its queries cannot be compared."
        )
    raise NotThere("Open a run or a testbed and choose what to compare from there.")


def _other_beds(site: Site, query: Any, item: Item) -> list[tuple[str, str, bool]]:
    run = site.library.find("run", str(query.get("run", "")))
    if run is None or run.problem:
        return []
    return [
        (
            str(bed["name"]),
            address("/compare", [("run", run.id), ("bed", key[:10])]),
            key == item.facts["hash"],
        )
        for key, bed in run.facts["testbeds"].items()
    ]


def _difference(a: Candidate, b: Candidate) -> dict[str, Any]:
    """Summarise B minus A on the tasks that both have: mean, interval, wins, ties, losses, p."""
    first, second = a.bed.accuracies(a.position), b.bed.accuracies(b.position)
    size = min(len(first), len(second))
    shared = np.isfinite(first[:size]) & np.isfinite(second[:size])
    before, after = first[:size][shared], second[:size][shared]
    gaps = np.round(after - before, 12)
    p, how = float("nan"), ""
    if 2 <= len(gaps) <= _SAMPLED:
        p, how = compare_paired(before, after).p, "sign-flip test"
    elif len(gaps) > _SAMPLED:
        error = float(np.std(gaps, ddof=1)) / np.sqrt(len(gaps))
        p = t_p_value(float(np.mean(gaps)) / error, len(gaps) - 1) if error > 0 else 1.0
        how = "paired t test"
    interval = mean_interval(gaps) if len(gaps) > 1 else None
    sides = {"mean": gaps, "wins": gaps > 0, "ties": gaps == 0, "losses": gaps < 0}
    return {
        "n": len(gaps),
        "low": interval and interval.low,
        "high": interval and interval.high,
        **{name: float(np.mean(values)) if len(gaps) else float("nan") for name, values in sides.items()},
        "p": p,
        "how": how,
    }


def _pair(site: Site, item: Item, a: Candidate, b: Candidate, query: Any) -> list[Section]:
    """Show the paired test, the four kinds of queries in pictures, and the tasks, worst difference first."""
    cached = site.testbed(item)
    key = (site.index(a.run).stamp, site.index(b.run).stamp, item.facts["hash"], a.id, b.id)
    compared: SideBySide | None = None
    first, second = a.bed.answers(a.position), b.bed.answers(b.position)
    if first is not None and second is not None and len(first) == len(second):
        both_answers = (first, second)
        compared = _compared.get(key, lambda: side_by_side(cached.testbed, *both_answers))
    fixed = [("testbed", item.id), ("series", a.id), ("series", b.id)]
    totals = {} if compared is None else compared.totals()
    kind = next((name for name in KINDS if totals.get(name)), KINDS[0])  # of which there are some
    kind = str(query["kind"]) if query.get("kind") in KINDS else kind
    page = page_number(query, "shown")
    state = replace(ListState.read("/compare", query), fixed=tuple(fixed))

    def chosen_queries(kind: str, page: int) -> tuple[tuple[str, str], ...]:
        return (*fixed, ("kind", kind), *((("shown", str(page)),) if page > 1 else ()))

    def link(page: int, kind: str = kind) -> str:
        """Link to this page with another kind of queries or other pictures; the list below stays as it is."""
        return replace(state, fixed=chosen_queries(kind, page)).url()

    context: dict[str, Any] = {
        "a": a,
        "b": b,
        "test": _difference(a, b),
        "swap": address("/compare", [fixed[0], fixed[2], fixed[1]]),
        "quad": [],
    }
    sections = [Section("pair", "A against B", context, "compare_pair")]
    if compared is None:
        context["problem"] = "The answers of one of them are not on record, so there are no queries to show."
        return sections
    context["problem"] = ""
    context["quad"] = [
        (WORDS[name], totals[name], link(1, name), name == kind)
        for name in ("both", "only_a", "only_b", "neither")
    ]
    ranked = order(compared.counts, np.arange(compared.counts.num_rows), f"-{kind}")
    tasks = compared.tasks[ranked]
    start = (page - 1) * SHOWN
    pairs = _slice_of(compared, kind, tasks, start, SHOWN)
    gallery = query_gallery(item, cached, pairs)
    for tile in gallery["tiles"]:
        task = cached.testbed[tile["task"]]
        names = class_names(task.classes, task.labels)
        at = int(compared.offsets[task.index]) + tile["position"]
        answers = {} if first is None or second is None else {"A": int(first[at]), "B": int(second[at])}
        wrong = (
            f"{side}: {names[n]}" for side, n in answers.items() if n != task.query_label[tile["position"]]
        )
        tile["caption"] = ", ".join(wrong)
    shown = {**gallery, **pager_of(link, page, start, len(pairs), totals[kind], "queries")}
    sections.append(Section("queries", f"Queries: {WORDS[kind]}", shown, "gallery"))
    state = replace(state, fixed=chosen_queries(kind, page))
    listed = make_page(
        compared.counts,
        state,
        default_sort="-disagreements",
        defaults=compared.counts.column_names,
        most=_LISTED,
    )
    leads = task_link(f"{item.url}/task", [])
    rows = list_context(listed, leads, "only_a > 3", file="compared")
    return [*sections, Section("tasks", "Tasks, most disagreements first", rows, "task_list")]


def _slice_of(compared: SideBySide, kind: str, tasks: Any, start: int, size: int) -> list[tuple[int, int]]:
    """Select some queries of a kind: those of the tasks with most of them first."""
    counts = compared.counts[kind].to_numpy()[np.searchsorted(compared.tasks, tasks)]
    ends = np.cumsum(counts)
    first = int(np.searchsorted(ends, start, side="right"))
    last = int(np.searchsorted(ends, start + size, side="left")) + 1
    pairs = compared.queries(kind, tasks[first:last])
    skipped = start - (int(ends[first - 1]) if first else 0)
    return pairs[skipped : skipped + size]
