"""The page of what the suites teach: every figure and every number of it comes from the boards that ship."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.suite_lessons import draw_all

DOCS = Path(__file__).resolve().parents[3] / "docs"


def test_figures_and_numbers_are_those_of_the_boards(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    draw_all(tmp_path)
    printed = capsys.readouterr().out
    page = (DOCS / "studies" / "hard-photos.md").read_text("utf-8")
    pictures = re.findall(r"\.\./(lessons-\w+\.svg)", page)
    assert len(pictures) == 5 == len(list(tmp_path.glob("*.svg")))
    for name in pictures:
        assert (tmp_path / name).read_bytes() == (DOCS / name).read_bytes()
    numbers = re.findall(r"[−-]?\d+\.\d+ ± \d+\.\d+|\+\d\.\d\d \[[^\]]+\]", page)
    assert len(numbers) > 30
    assert [each for each in numbers if each.lstrip("−-") not in printed] == []
