"""The rooms know of each other exactly what docs/architecture.md says, and no room knows itself through others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tools.rooms import find_cycle, room_graph

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "architecture.md"
_ROW = re.compile(r"^\| `([a-z.]+)` \| .* \| ([^|]+) \|$", re.MULTILINE)


@pytest.fixture(scope="module")
def graph() -> dict[str, dict[str, list[str]]]:
    return room_graph(ROOT / "src" / "longshot")


@pytest.fixture(scope="module")
def table() -> dict[str, set[str]]:
    """Room → what it may know, by the table of the page."""
    section = PAGE.read_text("utf-8").split("\n## Rooms\n")[1].split("\n## ")[0]
    rooms: dict[str, set[str]] = {}
    for room, allowed in _ROW.findall(section):
        named = set(re.findall(r"`([a-z.]+)`", allowed))
        rooms[room] = set(rooms) - named if allowed.startswith("all above but ") else named
    return rooms


def test_every_room_is_in_the_table(
    graph: dict[str, dict[str, list[str]]], table: dict[str, set[str]]
) -> None:
    assert set(table) == set(graph)


def test_no_room_knows_more_than_the_table_says(
    graph: dict[str, dict[str, list[str]]], table: dict[str, set[str]]
) -> None:
    excess = {
        f"{room} → {target}": lines
        for room, edges in graph.items()
        for target, lines in edges.items()
        if target not in table[room]
    }
    assert excess == {}


def test_what_the_table_says_is_so(
    graph: dict[str, dict[str, list[str]]], table: dict[str, set[str]]
) -> None:
    absent = [
        f"{room} → {target}"
        for room, allowed in table.items()
        for target in sorted(allowed - set(graph[room]))
    ]
    assert absent == []


def test_no_room_knows_itself_through_others(graph: dict[str, dict[str, list[str]]]) -> None:
    assert find_cycle(graph) == []


def test_what_counts_as_knowing_a_room(tmp_path: Path) -> None:
    """Lazy, type-only and string imports are edges; docstrings and the version are none."""
    for name in ("a", "b", "c", "d", "datasets/overlap", "datasets"):
        (tmp_path / name).mkdir(parents=True, exist_ok=True)
        (tmp_path / name / "__init__.py").write_text("")
    (tmp_path / "a" / "lazy.py").write_text(
        '"""As longshot.d does."""\n'
        "from typing import TYPE_CHECKING\n"
        "from longshot import __version__\n"
        "if TYPE_CHECKING:\n    from longshot.b import x\n"
        "def f():\n    from longshot.c.inner import y\n"
        "    return 'longshot.audit.find:pairs'\n"
    )
    (tmp_path / "c" / "back.py").write_text("import longshot.a.lazy\n")
    graph = room_graph(tmp_path)
    assert {room: sorted(edges) for room, edges in graph.items()} == {
        "a": ["b", "c", "datasets.overlap"],
        "b": [],
        "c": ["a"],
        "d": [],
        "datasets": [],
        "datasets.overlap": [],
    }
    assert graph["a"]["c"] == ["a/lazy.py:7"]
    assert find_cycle(graph) == ["a", "c", "a"]


def test_every_file_that_the_page_names_is_there() -> None:
    names = set(re.findall(r"`((?:[a-z_]+/)+(?:[a-z_]+\.py)?)`", PAGE.read_text("utf-8")))
    assert len(names) > 40
    roots = (ROOT / "src" / "longshot", ROOT / "src", ROOT)
    assert [name for name in sorted(names) if not any((root / name).exists() for root in roots)] == []
