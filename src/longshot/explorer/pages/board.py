"""Leaderboards: every series on one testbed, by content; and boards of suites."""

from __future__ import annotations

from typing import Any

import numpy as np

from longshot.base import UserError, count
from longshot.explorer.library import Item
from longshot.explorer.listing import address
from longshot.explorer.pages.compare import Candidate, candidates
from longshot.explorer.pages.run import tasks_url
from longshot.explorer.pages.testbed import frame
from longshot.explorer.site import NotThere, Page, Site
from longshot.reports import Section, column_marks
from longshot.statistics import mean_interval

_MOST = 100  # series
_TESTED, _TASKS = 12, 5_000  # series and tasks up to which first places are tested


def testbed_board(site: Site, item: Item) -> Page:
    """All series measured on a testbed: means with intervals, first places, cost; judges marked and not ranked."""
    shelved = site.testbed(item)
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
    note = _mark(rows)
    context = {
        "rows": rows,
        "note": note,
        "judges": any(row["judge"] for row in rows),
        "chance": float(np.mean(1 / shelved.testbed.table["way"].to_numpy())),
        "compare": address("/compare", [("testbed", item.id)]),
    }
    return frame(site, item, "board", [Section("board", "Leaderboard", context, "board")])


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
    crumbs = [("Explorer", "/"), ("leaderboards", "/?kind=board")]
    return Page(item.name, sections, counts=counts, crumbs=crumbs)


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
    return Page(item.name, sections, counts=counts, crumbs=[("Explorer", "/"), ("suites", "/?kind=suite")])


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
    context = {"rows": rows, "names": list(beds), "judges": any(row["judged"] for row in rows)}
    return Section("everybody", "All runs on these testbeds", context, "everybody")


def bed_section(site: Site, beds: dict[str, str]) -> Section:
    """The testbeds of a suite or a release, each with its page and its leaderboard."""
    rows = []
    for name, content_hash in beds.items():
        item = site.testbed_item(content_hash)
        runs = site.library.runs_of(content_hash)
        rows.append((name, content_hash, item.url if item else None, len(runs)))
    return Section("testbeds", "Testbeds", {"rows": rows}, "bed_list")
