"""The first page: what there is, newest first, and what is running now."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from longshot.base import count
from longshot.explorer.library import KINDS, Item
from longshot.explorer.listing import address
from longshot.explorer.pages.dataset import page_of, pager_of
from longshot.explorer.site import Page, Site
from longshot.reports import Section

_ROWS = 60  # of a page
_PLURALS = {
    "run": "runs",
    "training": "trainings",
    "study": "studies",
    "testbed": "testbeds",
    "suite": "suites",
    "board": "leaderboards",
    "release": "releases",
    "dataset": "datasets",
}


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
    kind = kind if kind in KINDS else ""
    state = str(query.get("state", ""))[:20]
    counted = {name: sum(item.kind == name for item in items) for name in KINDS}
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
        "kinds": [(name, _PLURALS[name], counted[name], link(kind=name)) for name in KINDS if counted[name]],
        "everything": link(kind=""),
        "cards": [card(item, now) for item in listed],
        **pager_of(link, number, start, len(listed), len(shown), "items"),
        "folders": [str(root.name or root) for root in site.library.roots],
    }
    running = [item for item in items if item.state in ("running", "stalled", "stopped")]
    sections = []
    if running and not words and not kind and number == 1 and not state:
        section = Section(
            "running", "Now", {"cards": [card(item, now) for item in running[:12]]}, "home_running"
        )
        sections.append(section)
    sections.append(Section("everything", "What there is", context, "home_items"))
    counts = [
        count(counted[name], _SINGULARS.get(name, name), _PLURALS[name]) for name in KINDS if counted[name]
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
