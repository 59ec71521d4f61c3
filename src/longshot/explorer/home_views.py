"""What there is: the first page, newest first, and leaderboards of testbeds and suites."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from longshot.base import UserError, count
from longshot.explorer.compare_views import Candidate, candidates
from longshot.explorer.dataset_views import page_of, pager_of
from longshot.explorer.library import PLURALS, Item
from longshot.explorer.listing import address
from longshot.explorer.run_views import tasks_url
from longshot.explorer.site import NotThere, Page, Site, crumbs_of
from longshot.explorer.testbed_views import testbed_frame
from longshot.reports import Section, column_marks
from longshot.statistics import mean_interval

_ROWS = 60  # of a page
_SINGULARS = {"board": "leaderboard"}


@dataclass(frozen=True)
class Card:
    """An item as the list shows it."""

    item: Item
    facts: str
    age: float


def home(site: Site, query: Any) -> Page:
    """Everything, newest first; ``q`` searches names, ``kind`` and ``state`` choose, ``page`` counts from 1."""
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
    """An item with a line of facts."""
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


_MOST = 100  # series
_TESTED, _TASKS = 12, 5_000  # series and tasks up to which first places are tested


def testbed_board(site: Site, item: Item) -> Page:
    """All series measured on a testbed: means with intervals, first places, cost; judges marked and not ranked."""
    cached = site.testbed(item)
    every = candidates(site, item.facts["hash"], _MOST)
    lines: dict[tuple[Any, ...], dict[str, Any]] = {}
    for each in every:
        line = _line(site, each, item.facts["hash"])
        if line is not None:
            # The same measurement in two runs is one line.
            key = (each.series.method, each.series.backbone, line["values"].tobytes())
            lines.setdefault(key, line)["runs"].append(each.run)
    rows = sorted(
        lines.values(), key=lambda line: (line["series"].transductive, line["judge"], -line["mean"])
    )
    context = {
        "rows": rows,
        "note": _mark(rows),
        "judges": any(row["judge"] for row in rows),
        "leaks": list(dict.fromkeys(row["leak"][1] for row in rows if row["leak"][1])),
        "chance": float(np.mean(1 / cached.testbed.table["way"].to_numpy())),
        "compare": address("/compare", [("testbed", item.id)]),
    }
    return testbed_frame(site, item, "board", [Section("board", "Leaderboard", context, "board")])


def _line(site: Site, each: Candidate, content_hash: str) -> dict[str, Any] | None:
    values = each.bed.accuracies(each.position)
    finite = values[np.isfinite(values)]
    if not len(finite):
        return None
    interval = mean_interval(finite)
    seconds = each.bed.table[f"seconds:{each.series.column}"].to_numpy()
    return {
        "series": each.series,
        "runs": [],
        "mean": interval.mean,
        "half": interval.half,
        "n": len(finite),
        "of": len(values),
        "milliseconds": 1000 * float(np.nanmean(seconds)) if np.isfinite(seconds).any() else float("nan"),
        "judge": (content_hash, each.series.backbone) in site.index(each.run).judges,
        "leak": site.index(each.run).leaks.get((content_hash, each.series.backbone), ("", "")),
        "url": tasks_url(each.run, each.bed, each.series.column),
        "values": values,
        "mark": "",
    }


def _mark(rows: list[dict[str, Any]]) -> str:
    """Mark the first places of each setting; what the marks stand for."""
    ranked = [row for row in rows if not row["judge"] and row["n"] == row["of"]]
    size = min((len(row["values"]) for row in ranked), default=0)
    if len(ranked) < 2 or len(ranked) > _TESTED or size > _TASKS or size < 2:
        if size > _TASKS:
            return (
                f"First places are tested up to {_TASKS:,} tasks; compare two series for their paired test."
            )
        return f"First places are tested for 2 to {_TESTED} series with all tasks." if ranked else ""
    table = np.stack([row["values"][:size] for row in ranked], axis=1)
    marks = column_marks(table, [row["series"].setting for row in ranked])
    for row, mark in zip(ranked, marks, strict=True):
        row["mark"] = mark
    return (
        "“Best” beats every other series of its setting on the same tasks (sign-flip tests, 5 %, corrected); “tie” "
        "rows are not told apart from the highest."
    )


def suite_board(site: Site, item: Item) -> Page:
    """The leaderboard file of a suite: everybody's entries."""
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
    """A suite: its testbeds, each with its own leaderboard over all runs that are shown."""
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
    """Every series of every run on the testbeds of a suite, by content: a line per series, a column per testbed.

    The average is over the testbeds that a series did not judge, of those that were measured on all of them.
    """
    lines: dict[tuple[str, str, str], dict[str, dict[str, Any]]] = {}
    for name, content_hash in beds.items():
        for each in candidates(site, content_hash, _MOST):
            line = _line(site, each, content_hash)
            if line is not None:
                key = (each.series.setting, each.series.method, each.series.backbone)
                lines.setdefault(key, {}).setdefault(name, line)  # of several runs the newest
    rows = []
    for (setting, method, backbone), cells in lines.items():
        ranked = [cell["mean"] for cell in cells.values() if not cell["judge"]]
        whole_suite = len(cells) == len(beds) and ranked
        rows.append(
            {
                "method": method,
                "backbone": backbone,
                "setting": setting,
                "average": float(np.mean(ranked)) if whole_suite else None,
                "judged": sum(cell["judge"] for cell in cells.values()),
                "cells": [cells.get(name) for name in beds],
            }
        )
    rows.sort(
        key=lambda row: (
            row["setting"] == "transductive",
            row["judged"] > 0,
            -(row["average"] if row["average"] is not None else -1.0),
        )
    )
    cells_shown = [cell for row in rows for cell in row["cells"] if cell]
    notes = list(dict.fromkeys(cell["leak"][1] for cell in cells_shown if cell["leak"][1]))
    judges = any(row["judged"] for row in rows)
    context = {"rows": rows, "names": list(beds), "judges": judges, "leaks": notes}
    return Section("everybody", "All runs on these testbeds", context, "everybody")


def bed_section(site: Site, beds: dict[str, str]) -> Section:
    """The testbeds of a suite or a release, each with its page and its leaderboard."""
    rows = []
    for name, content_hash in beds.items():
        item = site.testbed_item(content_hash)
        runs = site.library.runs_of(content_hash)
        rows.append((name, content_hash, item.url if item else None, len(runs)))
    return Section("testbeds", "Testbeds", {"rows": rows}, "bed_list")
