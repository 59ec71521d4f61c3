"""What there is: the first page, newest first, and leaderboards of testbeds and suites."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from longshot.base import UserError, count
from longshot.explorer.dataset_views import page_of, pager_of
from longshot.explorer.library import PLURALS, Item
from longshot.explorer.listing import address
from longshot.explorer.result_views import IndexLinks, indexed_results
from longshot.explorer.site import NotThere, Page, Site, crumbs_of
from longshot.explorer.testbed_views import testbed_frame
from longshot.reports import Column, Estimates, ReportData, Section, results_sheet

_ROWS = 60  # of a page
_SINGULARS = {"board": "leaderboard"}


@dataclass(frozen=True)
class Card:
    """An item as the list shows it."""

    item: Item
    facts: str
    age: float


def home(site: Site, query: Any) -> Page:
    """Show all, newest first; ``q`` searches names, ``kind`` and ``state`` choose, ``page`` is from 1."""
    items = site.library.items()
    words = str(query.get("q", ""))[:200].strip()
    kind = str(query.get("kind", ""))
    kind = kind if kind in PLURALS else ""
    state = str(query.get("state", ""))[:20]
    counted = {name: sum(item.kind == name for item in items) for name in PLURALS}
    shown = [item for item in items if _matches(item, words.lower(), kind, state)]
    number, start = page_of(query, len(shown), _ROWS)
    listed = shown[start : start + _ROWS]
    now = time.time()

    def link(**changes: Any) -> str:
        facts = {"q": words, "kind": kind, "state": state, "page": "", **changes}
        return address("/", [(key, str(value)) for key, value in facts.items() if value])

    context = {
        "words": words,
        "kind": kind,
        "state": state,
        "kinds": [
            (name, nouns, counted[name], link(kind=name)) for name, nouns in PLURALS.items() if counted[name]
        ],
        "everything": link(kind=""),
        "cards": [card(item, now) for item in listed],
        **pager_of(link, number, start, len(listed), len(shown), "items"),
        "folders": [str(root.name or root) for root in site.library.roots],
    }
    running = [item for item in items if item.state in ("running", "stalled", "stopped")]
    sections = []
    if running and not words and not kind and number == 1 and not state:
        cards = [card(item, now) for item in running[:12]]
        sections.append(Section("running", "Now", {"cards": cards}, "home_running"))
    sections.append(Section("everything", "What there is", context, "home_items"))
    counts = [
        count(counted[name], _SINGULARS.get(name, name), nouns)
        for name, nouns in PLURALS.items()
        if counted[name]
    ]
    # What starts while the page is open appears on it too.
    return Page("Explorer", sections, counts=counts, live="/live")


def _matches(item: Item, words: str, kind: str, state: str) -> bool:
    if (kind and item.kind != kind) or (state and item.state != state):
        return False
    text = (
        f"{item.name} {item.folder} {item.kind} {' '.join(map(str, item.facts.get('methods', ())))}".lower()
    )
    return all(word in text for word in words.split())


def card(item: Item, now: float) -> Card:
    """Describe an item by a line of facts."""
    return Card(item, " · ".join(_facts(item)), max(0.0, now - item.changed) if item.changed else -1.0)


def _facts(item: Item) -> list[str]:
    facts = item.facts
    if item.problem:
        return [item.problem]
    if item.kind == "run":
        beds = [str(bed["name"]) for bed in facts["testbeds"].values()]
        parts = [count(len(beds), "testbed"), count(len(facts["backbones"]), "backbone")]
        parts += [count(len(facts["methods"]), "method")]
        return [*parts, ", ".join(beds[:3]) + ("…" if len(beds) > 3 else "")]
    if item.kind == "testbed":
        return [count(int(facts["tasks"]), "task"), ", ".join(facts["datasets"]), str(facts["sampler"])[:120]]
    if item.kind == "training":
        settings = facts.get("settings", {})
        return [str(settings[key])[:80] for key in ("algorithm", "network", "dataset") if settings.get(key)]
    if item.kind == "study":
        return [str(facts.get("recipe") or ""), str((facts.get("dataset") or {}).get("name", ""))]
    if item.kind in ("release", "suite"):
        return [f"version {facts.get('version')}", count(len(facts.get("testbeds") or ()), "testbed")]
    if item.kind == "board":
        return [f"suite {facts.get('suite')}", count(int(facts.get("entries") or 0), "entry", "entries")]
    if item.kind == "dataset" and facts.get("images") is not None:
        return [count(int(facts["classes"]), "class", "classes"), count(int(facts["images"]), "image")]
    return []


def testbed_board(site: Site, item: Item) -> Page:
    """Show all series measured on a testbed: means with intervals, first places, cost; judges not ranked."""
    runs = _runs_on(site, [item.facts["hash"]])
    data, entries = indexed_results(site, runs, [item.facts["hash"]])
    links = IndexLinks(site, runs)

    def names(series: int) -> str:
        holders = [run.name for run, _, _ in links.holders(data.beds[0], data.series[series])]
        return ", ".join(dict.fromkeys(holders[:3])) + (
            f" and {len(holders) - 3} more" if len(holders) > 3 else ""
        )

    more = (
        Column("Tasks", lambda s: entries[0, s].n, "count"),
        Column("Time per task", lambda s: entries[0, s].metrics["seconds"], "seconds", better="lower"),
        Column("Runs", names),
    )
    context = {
        "means": results_sheet(data, entries, more, board_order(data, entries)) if data.series else None,
        "links": links,
        "compare": address("/compare", [("testbed", item.id)]),
    }
    return testbed_frame(site, item, "board", [Section("board", "Leaderboard", context, "board")])


def _runs_on(site: Site, hashes: Sequence[str]) -> list[Item]:
    """Return the runs on any of these testbeds that can be read, newest first."""
    readable = {}
    for content_hash in hashes:
        for run in site.library.runs_of(content_hash):
            try:
                site.index(run)
            except NotThere:
                continue
            readable[run.id] = run
    return list(readable.values())


def board_order(data: ReportData, entries: Estimates) -> list[int]:
    """Return the series from the top: inductive ones first, judges last, the highest average first."""

    def place(series: int) -> tuple[bool, bool, int, float]:
        own = [entry for (_, s), entry in entries.items() if s == series]
        judged = any(entry.mark == "judge" for entry in own)
        average = sum(entry.mean for entry in own) / len(own)
        return data.series[series].transductive, judged, -len(own), -average

    return sorted(range(len(data.series)), key=place)


def suite_board(site: Site, item: Item) -> Page:
    """Show the leaderboard file of a suite: everybody's entries."""
    from longshot.publish import BenchCard, read_board

    try:
        board = read_board(item.path / "leaderboard.json")
    except (UserError, OSError) as error:
        raise NotThere(f"The leaderboard {item.name} cannot be shown: {error}") from error
    card = BenchCard(
        suite=board.suite, version=board.version, about="", kinds={}, entries=(), board=board, beds=()
    )
    sections = [everybody(site, dict(board.testbeds)), bed_section(site, dict(board.testbeds))]
    if board.entries:
        sections.insert(0, Section("board", "Leaderboard", {"sheet": card.board_sheet()}, "sheet"))
    counts = [f"suite {board.suite} {board.version}", count(len(board.entries), "entry", "entries")]
    return Page(item.name, sections, counts=counts, crumbs=crumbs_of(item))


def suite(site: Site, item: Item) -> Page:
    """Show a suite: its testbeds, each with its own leaderboard over all runs that are shown."""
    beds = {str(bed["name"]): str(bed["content_hash"]) for bed in item.facts.get("testbeds") or ()}
    methods = ", ".join(map(str, item.facts.get("methods") or ()))
    facts = [("about", str(item.facts.get("about") or "")), ("methods", methods), ("folder", item.folder)]
    sections = [
        everybody(site, beds),
        bed_section(site, beds),
        Section("facts", "Facts", {"facts": facts}, "facts"),
    ]
    counts = [f"version {item.facts.get('version')}", count(len(beds), "testbed")]
    return Page(item.name, sections, counts=counts, crumbs=crumbs_of(item))


def everybody(site: Site, beds: dict[str, str]) -> Section:
    """Show every series of every run on the testbeds of a suite, by content: a line per series, a column per testbed.

    The average is over the testbeds that a series did not judge, of those that were measured on all of them.
    """
    runs = _runs_on(site, list(beds.values()))
    data, entries = indexed_results(site, runs, list(beds.values()))

    def average(series: int) -> float | None:
        own = [entry for (_, s), entry in entries.items() if s == series]
        ranked = [entry.mean for entry in own if entry.mark != "judge"]
        return float(np.mean(ranked)) if ranked and len(own) == len(beds) else None

    column = Column("Average %", average, "percent", better="higher")
    means = results_sheet(data, entries, [column], board_order(data, entries)) if data.series else None
    return Section(
        "everybody",
        "All runs on these testbeds",
        {"means": means, "links": IndexLinks(site, runs)},
        "everybody",
    )


def bed_section(site: Site, beds: dict[str, str]) -> Section:
    """List the testbeds of a suite or a release, each with its page and its leaderboard."""
    rows = []
    for name, content_hash in beds.items():
        item = site.testbed_item(content_hash)
        runs = site.library.runs_of(content_hash)
        rows.append((name, content_hash, item.url if item else None, len(runs)))
    return Section("testbeds", "Testbeds", {"rows": rows}, "bed_list")
