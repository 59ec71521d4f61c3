"""The tool that holds rooms to their size, on a made-up house."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools import budgets

THREE_LINES = '"""About.\n\nMore.\n"""\n\n# why\nx = (\n    1\n)\n'


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """Two rooms of 6 and 3 lines, and a module beside them."""
    package = tmp_path / "longshot"
    for name in ("base/plots.py", "base/deep/base.py", "reports/plots.py", "__main__.py"):
        path = package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(THREE_LINES)
    (package / "base" / "__init__.py").write_text('"""The core."""\n')
    (package / "reports" / "base.py").write_text("")
    return package


def test_lines_and_files_are_counted_per_room(house: Path) -> None:
    lines, files = budgets.sizes(house)
    assert lines == {"base": 6, "reports": 3, "longshot": 3}
    assert files == {"base": 3, "reports": 2, "longshot": 1}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('x = """\na\n"""\n', 3),  # a text that is no docstring is code
        ('class A:\n    """Be."""\n\n    """Again."""\n', 2),  # only the first is a docstring
        ("x = 1; y = 2\n", 1),
        ('async def f() -> None:\n    """Do\n    it."""\n    # now\n    await g()\n', 2),
        ("", 0),
    ],
)
def test_a_line_of_code_has_a_token(text: str, expected: int) -> None:
    assert budgets.code_lines(text) == expected


def test_within_its_budget_a_house_is_quiet(house: Path) -> None:
    assert budgets.excess(house, {}) == []
    assert budgets.excess(house, {"base": 6, "reports": 3, "longshot": 4, "files": 6}) == []


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ({"base": 5}, "base has 6 lines of code, 1 more than its budget of 5; make it smaller, or raise"),
        ({"files": 4}, "longshot has 6 files, 2 more than 4; make it smaller, or raise"),
        ({"attic": 1}, "attic has a budget and no files; take it out"),
        (
            {"unique-names": True},
            "plots.py stands in longshot/base, longshot/reports; give all but the first",
        ),
    ],
)
def test_what_exceeds_is_a_sentence(house: Path, table: dict[str, int | bool], expected: str) -> None:
    enough: dict[str, int | bool] = {"base": 6, "reports": 3, "longshot": 3}
    (sentence,) = budgets.excess(house, enough | table)
    assert sentence.startswith(expected)


def test_a_new_room_needs_a_budget(house: Path) -> None:
    (sentence,) = budgets.excess(house, {"base": 6, "longshot": 3})
    assert sentence == "reports has 3 lines of code and no budget; give it one in pyproject.toml"
