"""Rooms have one order, are entered by their doors, and the core does without the wings."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from tools.doors import uses

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "longshot"
PAGE = ROOT / "docs" / "architecture.md"
TYPES = {"BackboneLike"}  # names that type checkers alone can open
ROOMS = sorted(path.parent.name for path in PACKAGE.glob("*/__init__.pyi"))


def test_no_room_knows_one_that_stands_after_it() -> None:
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports")], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout


def test_every_room_stands_in_the_order() -> None:
    order = re.findall(r'^  "longshot\.(\w+)",$', (ROOT / "pyproject.toml").read_text("utf-8"), re.MULTILINE)
    assert (
        sorted(order)
        == ROOMS
        == sorted(path.name for path in PACKAGE.iterdir() if path.is_dir() and path.name != "__pycache__")
    )


def test_no_room_is_entered_around_its_door() -> None:
    taken = (*uses(ROOT, "src"), *uses(ROOT, "tests"))
    assert [f"{use.file}:{use.line}" for use in taken if not use.allowed] == []


def test_edges_between_rooms_stay_few() -> None:
    edges = {(use.own, use.room) for use in uses(ROOT, "src") if "longshot" not in (use.own, use.room)}
    assert len(edges) <= 87  # every room more knows several others


@pytest.mark.parametrize("room", ROOMS)
def test_a_door_opens_what_it_names(room: str) -> None:
    door = import_module(f"longshot.{room}")
    assert {name for name in door.__all__ if getattr(door, name, None) is None} <= TYPES


def test_a_name_stands_in_one_door() -> None:
    """Whoever reads a name in a traceback or an import knows which room it is from."""
    doors: dict[str, list[str]] = {}
    for room in ROOMS:
        declared = (PACKAGE / room / "__init__.pyi").read_text("utf-8")
        for name in re.findall(r"^from \S+ import \w+ as (\w+)", declared, re.MULTILINE):
            doors.setdefault(name, []).append(room)
    repeated = {name: rooms for name, rooms in doors.items() if len(rooms) > 1}
    assert repeated == {"inspect": ["api", "tasks"]}  # the verb, and what it is made of


def test_what_counts_as_going_around_a_door(tmp_path: Path) -> None:
    """Lazy and type-only imports do; those of the own room, of the version and of verbs above the core do not.

    A module that the stub does not declare is none of the room's exports."""
    for name in ("a", "b", "cli"):
        (tmp_path / "src" / "longshot" / name).mkdir(parents=True)
    (tmp_path / "src" / "longshot" / "b" / "__init__.pyi").write_text("from .deep import z as z\n")
    lines = {
        "a/lazy.py": "from typing import TYPE_CHECKING\n"
        "from longshot import __version__\n"
        "from longshot.a.other import y\n"
        "if TYPE_CHECKING:\n    from longshot.b.inner import x\n"
        "def f():\n    import longshot.b.deep\n    from longshot.b import z\n"
        "    from longshot.b import inner\n",
        "b/verb.py": "from longshot import sample\n",
        "cli/verb.py": "from longshot import sample\n",
    }
    for name, text in lines.items():
        (tmp_path / "src" / "longshot" / name).write_text(text)
    around = [(use.file, use.line, use.room) for use in uses(tmp_path, "src") if not use.by_door]
    assert around == [
        ("src/longshot/a/lazy.py", 5, "b"),
        ("src/longshot/a/lazy.py", 7, "b"),
        ("src/longshot/a/lazy.py", 9, "b"),
        ("src/longshot/b/verb.py", 1, "longshot"),
    ]


def test_a_test_goes_around_the_door_of_its_own_room_alone(tmp_path: Path) -> None:
    """Public names are for every test; a file beside the rooms has no room of its own."""
    for name in ("src/longshot/a", "src/longshot/b", "tests/a"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "src" / "longshot" / "b" / "__init__.py").write_text("PLUGIN = 1\n")
    text = "from longshot import sample\nfrom longshot.a.inner import x\nfrom longshot.b import PLUGIN\n"
    (tmp_path / "tests" / "a" / "test_x.py").write_text(text + "from longshot.b.inner import y\n")
    (tmp_path / "tests" / "helper.py").write_text(text)
    around = [(use.file, use.line) for use in uses(tmp_path, "tests") if not use.allowed]
    assert around == [("tests/a/test_x.py", 4), ("tests/helper.py", 2)]


def test_every_file_that_the_page_names_is_there() -> None:
    names = set(re.findall(r"`((?:[a-z_0-9]+/)+(?:[a-z_0-9]+\.py)?)`", PAGE.read_text("utf-8")))
    assert len(names) > 40
    roots = (PACKAGE, ROOT / "src", ROOT)
    assert [name for name in sorted(names) if not any((root / name).exists() for root in roots)] == []
