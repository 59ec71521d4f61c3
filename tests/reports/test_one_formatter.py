"""One formatter of an estimate, and tables of a terminal's width."""

from __future__ import annotations

import re
from pathlib import Path

import longshot
from longshot.reports import Sheet, SheetCell, terminal

SOURCE = Path(longshot.__file__).parent
PLUS_MINUS = re.compile(r"""[fF]["'][^"'\n]*± \{""")


def test_one_place_writes_a_mean_with_its_half() -> None:
    writers = [
        path.relative_to(SOURCE).as_posix()
        for path in sorted(SOURCE.rglob("*.py"))
        if PLUS_MINUS.search(path.read_text("utf-8"))
    ]
    assert writers == ["statistics/estimate_text.py"]
    pages = [path.name for path in sorted(SOURCE.rglob("*.j2")) if "± {{" in path.read_text("utf-8")]
    assert pages == ["macros.html.j2"]


def test_a_terminal_has_eighty_columns() -> None:
    """What is equal in all rows stands above; columns beyond the width follow below with their rows' names."""
    heads = [("", "testbed"), ("", "method"), *(("", f"metric {n}") for n in range(9))]
    rows = [[SheetCell("easy"), SheetCell(name), *[SheetCell("12.34 ± 5.67")] * 9] for name in ("a", "b")]
    lines = terminal(Sheet("", heads, [rows])).splitlines()
    assert lines[0] == "testbed easy" and max(map(len, lines)) <= 80
    assert sum(line.count("12.34 ± 5.67") for line in lines) == 18
