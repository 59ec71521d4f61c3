"""One formatter of an estimate, and tables of a terminal's width."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import longshot
from longshot.reports import (
    Column,
    Sheet,
    SheetCell,
    arrow,
    environment,
    make_sheet,
    markdown,
    table_bytes,
    terminal,
    to_latex,
)

SOURCE = Path(longshot.__file__).parent
BY_HAND = re.compile(
    r"\{100(?:\.0)? \* [^{}]*:[+,]*\.\df\}|\{[^{}]*:[+]?\.\d%\}"
)  # a share made a text without the writer
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


def test_shares_are_written_by_the_same_place() -> None:
    assert not [path for path in SOURCE.rglob("*.py") if BY_HAND.search(path.read_text("utf-8"))]


@pytest.mark.parametrize("unit", ["percent", "points", "plain"])
def test_people_read_a_minus_sign_and_programs_the_number(unit: Any) -> None:
    """Signed or not, a negative number has a minus sign (U+2212) for people; files have the number itself."""
    sheet = make_sheet([Column("name", str), Column("x", lambda _: -0.25, unit, 2, key="x")], ["a"])
    scale = 1 if unit == "plain" else 100
    written = f"−{0.25 * scale:.2f}"
    html = environment().from_string("{{ table(sheet) }}").render(sheet=sheet)
    html = re.sub(r' data-value="[^"]*"', "", html)  # what scripts sort by
    for text in (terminal(sheet), markdown(sheet), html):
        assert written in text and written.replace("−", "-") not in text
    assert f"$-${0.25 * scale:.2f}" in to_latex([sheet])
    table = arrow(sheet)
    assert table["x"].to_pylist() == [-0.25]
    assert b"-0.25" in table_bytes(table, "csv") and b"-0.25" in table_bytes(table, "json")


def test_groups_and_blocks_stand_in_the_page() -> None:
    """Heads of groups span their columns, and every block is a body of its own."""
    heads = [("", "name"), ("drop", "easy"), ("drop", "hard")]
    rows = [[SheetCell(name), SheetCell("1.0"), SheetCell("2.0", "best")] for name in ("a", "b")]
    sheet = Sheet("", heads, [rows[:1], rows[1:]], labels=1, style="sheet")
    html = environment().from_string("{{ table(sheet) }}").render(sheet=sheet)
    assert '<th scope="colgroup" colspan="2" class="over">drop</th>' in html
    assert html.count("<tbody>") == 2 and html.count('<th scope="row">') == 2


def test_a_terminal_has_eighty_columns() -> None:
    """What is equal in all rows stands above; columns beyond the width follow below with their rows' names."""
    heads = [("", "testbed"), ("", "method"), *(("", f"metric {n}") for n in range(9))]
    rows = [[SheetCell("easy"), SheetCell(name), *[SheetCell("12.34 ± 5.67")] * 9] for name in ("a", "b")]
    lines = terminal(Sheet("", heads, [rows])).splitlines()
    assert lines[0] == "testbed easy" and max(map(len, lines)) <= 80
    assert sum(line.count("12.34 ± 5.67") for line in lines) == 18
