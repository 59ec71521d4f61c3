"""What there is: the first page with the scores of runs, all else, and leaderboards of testbeds and suites."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup, escape

from longshot.base import count
from longshot.explorer.dataset_views import page_of, pager_of
from longshot.explorer.library import PLURALS, Item
from longshot.explorer.listing import address
from longshot.explorer.result_views import IndexLinks, indexed_results
from longshot.explorer.run_scores import BedScore
from longshot.explorer.site import NotThere, Page, Site, ago, crumbs_of
from longshot.explorer.testbed_views import brief_sampler, testbed_frame
from longshot.reports import (
    Column,
    Estimates,
    ReportData,
    Section,
    Sheet,
    SheetCell,
    make_sheet,
    results_sheet,
)

_RUNS, _ROWS, _BEDS = 12, 30, 4  # runs and other items of a page; testbeds of a run
_SINGULARS = {"board": "leaderboard"}
_ORDERS = {"": "newest", "name": "name", "accuracy": "accuracy", "drop": "drop"}
_PATIENCE = 0.4  # seconds that the first page waits for scores
_SORTED = 400  # runs whose scores are made to put them in order


@dataclass(frozen=True)
class Line:
    """A row of the first page: a run on one of its testbeds, or any other item."""

    item: Item
    facts: str
    age: float
    score: BedScore | None = None
    url: str = ""  # of the testbed
    marks: str = ""  # "pin", "hide" or nothing
    again: bool = False  # whether the line above is of the same run


def marked_items(cookies: Mapping[str, str], name: str) -> set[str]:
    """Read from a reader's cookie which items are pinned or hidden: their digits, with dots between."""
    return set(cookies.get(f"longshot-{name}", "")[:4000].split(".")) - {""}


def home(site: Site, query: Any, cookies: Mapping[str, str]) -> Page:
    """Show scores of runs, newest first, and what else there is.

    ``q`` searches names, ``kind`` and ``state`` choose, ``sort`` orders, ``page`` is from 1, ``hidden`` shows all.
    """
    items = site.library.items()
    words = str(query.get("q", ""))[:200].strip()
    kind = str(query.get("kind", ""))
    kind = kind if kind in PLURALS else ""
    state, sort = str(query.get("state", ""))[:20], str(query.get("sort", ""))
    sort = sort if sort in _ORDERS else ""
    pins, hides = marked_items(cookies, "pin"), marked_items(cookies, "hide")
    counted = {name: sum(item.kind == name for item in items) for name in PLURALS}
    matching = [item for item in items if _matches(item, words.lower(), kind, state)]
    everything = bool(query.get("hidden"))
    shown = matching if everything else [item for item in matching if item.digits not in hides]
    now = time.time()

    def link(**changes: Any) -> str:
        facts = {"q": words, "kind": kind, "state": state, "sort": sort, "page": ""}
        facts |= {"hidden": "1" if everything else "", **changes}
        return address("/", [(key, str(value)) for key, value in facts.items() if value])

    def mark(item: Item) -> str:
        return "pin" if item.digits in pins else "hide" if item.digits in hides else ""

    context: dict[str, Any] = {
        "words": words,
        "kind": kind,
        "state": state,
        "kinds": [
            (name, nouns, counted[name], link(kind=name, page=""))
            for name, nouns in PLURALS.items()
            if counted[name]
        ],
        "everything": link(kind="", page=""),
        "orders": [(nouns, link(sort=name, page=""), name == sort) for name, nouns in _ORDERS.items()],
        "hidden": len(matching) - len(shown),
        "all": link(hidden="1", page=""),
        "folders": [str(root.name or root) for root in site.library.roots],
        "note": "",
        "waiting": False,
    }
    sections = []
    runs = [item for item in shown if item.kind == "run"]
    more_items = [item for item in shown if item.kind != "run" and (kind or item.kind != "dataset")]
    if runs or kind == "run":
        runs, context["note"] = _ordered(site, runs, sort, pins)
        number, start = page_of(query, len(runs), _RUNS)
        listed = runs[start : start + _RUNS]
        scores = site.scores.of(listed, _PATIENCE)
        lines = [
            line
            for run, own in zip(listed, scores, strict=True)
            for line in _run_lines(site, run, own, now, mark)
        ]
        pager = pager_of(link, number, start, len(listed), len(runs), "runs")
        own = {"sheet": _scores_sheet(site, lines), "waiting": None in scores, "item_kind": "run", **pager}
        sections.append(Section("scores", "Scores of runs", {**context, **own}, "home_items"))
    if more_items or not runs:
        number, start = page_of(query if kind else {}, len(more_items), _ROWS)
        listed = more_items[start : start + _ROWS]
        lines = [Line(item, " · ".join(_facts(item)), _age(item, now), marks=mark(item)) for item in listed]
        pager = pager_of(link, number, start, len(listed), len(more_items), PLURALS.get(kind, "items"))
        if not kind:
            pager["next"] = None  # each kind has pages of its own
        own = {"sheet": _items_sheet(site, lines), "item_kind": kind or "other", **pager}
        # The search stands above the first list only.
        heading = PLURALS[kind].capitalize() if kind else "What else there is" if runs else "What there is"
        sections.append(
            Section(
                "everything",
                heading,
                {**context, **own, **({"kinds": [], "hidden": 0} if runs else {})},
                "home_items",
            )
        )
    counts = [
        count(counted[name], _SINGULARS.get(name, name), nouns)
        for name, nouns in PLURALS.items()
        if counted[name]
    ]
    # What starts while the page is open appears on it too.
    tabs = [("Here", "/", True), ("Boards", "/boards", False)]
    return Page("Explorer", sections, counts=counts, tabs=tabs, live="/live")


def _ordered(site: Site, runs: list[Item], sort: str, pins: set[str]) -> tuple[list[Item], str]:
    """Order runs, the pinned ones first; also say where scores are only known of some."""
    note = ""
    if sort == "name":
        runs = sorted(runs, key=lambda run: (run.name.lower(), run.id))
    elif sort:
        newest = runs[:_SORTED]
        scores = site.scores.of(newest, _PATIENCE)
        values = {
            run.id: max((value for value in (_value(score, sort) for score in own or ())), default=-np.inf)
            for run, own in zip(newest, scores, strict=True)
        }
        runs = sorted(runs, key=lambda run: -values.get(run.id, -np.inf))
        ready = sum(own is not None for own in scores)
        if ready < len(runs):
            note = f"In order are the {ready:,} of {len(runs):,} runs whose scores are read; reload for more."
    return sorted(runs, key=lambda run: run.digits not in pins), note


def _value(score: BedScore, sort: str) -> float:
    cell = score.accuracy if sort == "accuracy" else score.drop
    return float(cell.value) if isinstance(cell.value, float) else -np.inf


def _run_lines(site: Site, run: Item, scores: list[BedScore] | None, now: float, mark: Any) -> list[Line]:
    """Return a line per testbed of a run; one without a score where there is none."""
    age = _age(run, now)
    lines: list[Line] = []
    for score in (scores or [])[:_BEDS]:
        bed = site.testbed_item(score.hash)
        more = len(scores or ()) - _BEDS
        facts = f"and {count(more, 'more testbed')}" if more > 0 and len(lines) == _BEDS - 1 else ""
        lines.append(Line(run, facts, age, score, bed.url if bed else "", mark(run), bool(lines)))
    facts = "" if scores is None else run.problem or "no results yet"
    first_bed = site.testbed_item(next(iter(run.facts.get("testbeds", ())), ""))
    return lines or [Line(run, facts, age, None, first_bed.url if first_bed else "", mark(run))]


_NAME = Markup(
    '{strip}<a class="name" href="{url}"><bdi>{name}</bdi></a> {state}{marks}'
    '<span class="dim where"><bdi>{folder}</bdi>{age}</span>'
)
_STRIP = Markup(
    '<a class="strip" href="{0}" tabindex="-1" aria-hidden="true">'
    '<img src="{1}/strip.jpg" alt="" loading="lazy" width="192" height="48"></a>'
)
_STATE = Markup('<span class="state {0}" data-state="{1}">{0}</span> ')
_MARKS = Markup(
    '<button type="button" class="mark-item" hidden data-mark="{0}" data-item="{1}" aria-pressed="{2}"'
    ' aria-label="{0} {3}">{0}</button> '
)
_LINK = Markup('<a href="{}"><bdi>{}</bdi></a>')
_BELOW = Markup('<span class="dim part">{}</span>')
_SERIES = Markup('<span class="code">{}</span> <span class="dim code">{}</span>{}')
_SPARK = Markup(
    '<svg class="spark" viewBox="0 0 60 16" aria-hidden="true"><polyline data-spark="{0}" points="{1}"/></svg> '
    '<span class="dim" data-count="{0}">{2:,} of {3:,} {4}</span>'
)


def _name_cell(line: Line, pictures: Markup) -> SheetCell:
    item = line.item
    if line.again:
        return SheetCell(item.name, html=pictures + _LINK.format(item.url, item.name))
    marks = Markup("").join(
        _MARKS.format(name, item.digits, str(line.marks == name).lower(), item.name)
        for name in ("pin", "hide")
    )
    html = _NAME.format(
        strip=pictures,
        url=item.url,
        name=item.name,
        state=_STATE.format(item.state, item.id) if item.state else "",
        marks=marks,
        folder=item.folder,
        age=f" · {ago(line.age)}" if line.age >= 0 else "",
    )
    return SheetCell(item.name, html=html)


def _scores_sheet(site: Site, lines: list[Line]) -> Sheet | None:
    """Return the table of scores: a line per run and testbed."""

    def name(line: Line) -> SheetCell:
        return _name_cell(line, _STRIP.format(f"{line.url}/task/0", line.url) if line.url else Markup(""))

    def best(line: Line) -> SheetCell:
        if line.score is None:
            return SheetCell(line.facts)
        tag = Markup(' <span class="tag trans">transductive</span>')
        setting = tag if line.score.setting == "transductive" else ""
        html = _SERIES.format(line.score.method, line.score.backbone, setting)
        return SheetCell(f"{line.score.method} · {line.score.backbone}", html=html)

    def bed(line: Line) -> SheetCell:
        if line.score is None:
            return SheetCell("")
        words = f"{count(line.score.tasks, 'task')}{', ' if line.facts else ''}{line.facts}"
        name = _LINK.format(line.url, line.score.name) if line.url else escape(line.score.name)
        return SheetCell(line.score.name, html=name + _BELOW.format(words))

    columns = [
        Column("Run", name),
        Column(
            "Mean accuracy %", lambda line: line.score.accuracy if line.score else SheetCell("–"), "percent"
        ),
        Column("Drop", lambda line: line.score.drop if line.score else SheetCell("–"), "points"),
        Column("Best method", best),
        Column("Testbed", bed),
    ]
    columns += _progress(site, lines)
    return make_sheet(columns, lines, style="home runs", aria="Scores of runs") if lines else None


def _progress(site: Site, lines: list[Line]) -> list[Column]:
    """Return a column that shows how far work is; none where nothing works."""

    def work(line: Line) -> SheetCell:
        sign = line.item.sign
        if sign is None or not sign.total or line.again:
            return SheetCell("")
        points = site.scores.spark(line.item)
        html = _SPARK.format(line.item.id, points, sign.done, sign.total, sign.unit)
        silent = (
            f"no sign of life for {ago(sign.age).removesuffix(' ago')}"
            if line.item.state == "stalled"
            else ""
        )
        note = silent or (sign.note if line.item.state == "stopped" else "")
        return SheetCell(f"{sign.done} of {sign.total}", html=html + _BELOW.format(note))

    return [Column("Progress", work)] if any(line.item.sign is not None for line in lines) else []


_FORGET = Markup(
    '<form class="forget" action="{}/forget" method="post"><input type="hidden" name="csrf" value="{}">'
    '<button aria-label="forget {}">forget</button></form>'
)


def _items_sheet(site: Site, lines: list[Line]) -> Sheet | None:
    """Return the table of other items: a line each, datasets and testbeds with pictures."""

    def name(line: Line) -> SheetCell:
        seen = line.item.kind in ("dataset", "testbed") and not line.item.problem
        return _name_cell(line, _STRIP.format(line.item.url, line.item.url) if seen else Markup(""))

    def forget(line: Line) -> SheetCell:
        html = _FORGET.format(line.item.url, site.csrf, line.item.name)
        return SheetCell("", html=html if _forgettable(line) else "")

    columns = [
        Column("Name", name),
        Column("Kind", lambda line: SheetCell(line.item.kind, look="tag")),
        Column("About", lambda line: SheetCell(line.facts)),
    ]
    columns += _progress(site, lines)
    if site.csrf and any(map(_forgettable, lines)):
        columns.append(Column("Forget", forget))
    return make_sheet(columns, lines, style="home", aria="Items") if lines else None


def _forgettable(line: Line) -> bool:
    return line.item.kind == "dataset" and line.item.name != "toybox"


def _age(item: Item, now: float) -> float:
    return max(0.0, now - item.changed) if item.changed else -1.0


def _matches(item: Item, words: str, kind: str, state: str) -> bool:
    if (kind and item.kind != kind) or (state and item.state != state):
        return False
    text = (
        f"{item.name} {item.folder} {item.kind} {' '.join(map(str, item.facts.get('methods', ())))}".lower()
    )
    return all(word in text for word in words.split())


def _facts(item: Item) -> list[str]:
    facts = item.facts
    if item.problem:
        return [item.problem]
    if item.kind == "testbed":
        return [count(int(facts["tasks"]), "task"), ", ".join(facts["datasets"]), brief_sampler(item)]
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
