"""Boards of suites: ranks, accuracy against difficulty, agreement of rankings and costs, of those that ship too."""

from __future__ import annotations

from typing import Any

from longshot.base import UserError, count
from longshot.explorer.home_views import bed_section, everybody
from longshot.explorer.library import Item
from longshot.explorer.site import NotThere, Page, Site, crumbs_of, made
from longshot.publish import (
    BenchCard,
    Leaderboard,
    read_board,
    shipped_groups,
    shipped_suites,
    suite_facts,
)
from longshot.reports import Column, Section, SheetCell, make_sheet

_SHIPPED = [("Explorer", "/"), ("Boards", "/boards")]


def shipped_boards(site: Site) -> Page:
    """List the suites that come with Longshot, and groups of them."""
    every = [suite_facts(name) for name in (*shipped_groups(), *shipped_suites())]
    rows = [row for row in every if row.entries]
    columns = [
        Column("Suite", lambda row: SheetCell(row.name, link=f"/boards/{row.name}")),
        Column("Testbeds", lambda row: len(row.hashes), "count"),
        Column("Entries", lambda row: row.entries, "count"),
        Column("About", lambda row: row.about),
    ]
    context = {"sheet": make_sheet(columns, rows, aria="Suites that come with Longshot", labels=1)}
    return Page(
        "Boards", [Section("boards", "Suites and their boards", context, "sheet")], crumbs=_SHIPPED[:1]
    )


def shipped_board_page(site: Site, name: str) -> Page:
    """Show the board that comes with a suite, or those of a group together."""
    if name not in (*shipped_groups(), *shipped_suites()):
        raise NotThere(f"No suite '{name[:40]}' comes with Longshot.")
    facts = suite_facts(name)

    def frame(sections: list[Section]) -> Page:
        return Page(
            name,
            sections,
            counts=[count(len(facts.hashes), "testbed"), count(facts.entries, "entry", "entries")],
            crumbs=_SHIPPED,
            tabs=[(each, f"/boards/{each}", each == name) for each in _neighbours(name)],
            notices=[facts.about],
        )

    job = {"kind": "board", "suite": name, "path": "", "stamp": facts.stamp}
    return frame(_drawn(site, job, frame))


def _neighbours(name: str) -> list[str]:
    """List the first group that has a suite, or is called so, with its suites."""
    groups = [(group, *suite_facts(group).suites) for group in shipped_groups()]
    return list(next((names for names in groups if name in names), (name,)))


def suite_board(site: Site, item: Item) -> Page:
    """Show the leaderboard file of a suite: everybody's entries."""
    try:
        board = read_board(item.path / "leaderboard.json")
    except (UserError, OSError) as error:
        raise NotThere(f"The leaderboard {item.name} cannot be shown: {error}") from error

    def frame(sections: list[Section]) -> Page:
        counts = [f"suite {board.suite} {board.version}", count(len(board.entries), "entry", "entries")]
        return Page(item.name, sections, counts=counts, crumbs=crumbs_of(item))

    beds = dict(board.testbeds)
    sections = _own_sections(site, item, board, frame) if board.entries else []
    return frame([*sections, everybody(site, beds), bed_section(site, beds)])


def _own_sections(site: Site, item: Item, board: Leaderboard, frame: Any) -> list[Section]:
    """Show the table of a board; with its curves where the suite is here that says how its testbeds were drawn."""
    source = _suite_of(site, board)
    if source:
        job = {
            "kind": "board",
            "suite": source,
            "path": str(item.path / "leaderboard.json"),
            "stamp": item.changed,
        }
        return _drawn(site, job, frame)
    card = BenchCard(
        suite=board.suite, version=board.version, about="", kinds={}, entries=(), board=board, beds=()
    )
    return [Section("board", "Leaderboard", {"sheet": card.board_sheet}, "sheet")]


def _suite_of(site: Site, board: Leaderboard) -> str:
    """Find the suite of a board, among those that ship and those that are shown; empty where it is not here."""
    hashes = set(board.testbeds.values())
    if board.suite in shipped_suites() and suite_facts(board.suite).hashes == hashes:
        return board.suite
    for item in site.library.items():
        beds = item.facts.get("testbeds") if item.kind == "suite" and not item.problem else None
        if beds and {str(bed["content_hash"]) for bed in beds} == hashes:
            return str(item.path)
    return ""


def _drawn(site: Site, job: dict[str, Any], frame: Any) -> list[Section]:
    """Return what the worker drew of a board."""
    parts = site.worked(job, "Leaderboard", "The plots of this board are still being drawn.", frame)
    return [made(each["name"], each["heading"], each["problem"], each) for each in parts]
