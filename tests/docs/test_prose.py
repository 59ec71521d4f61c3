"""The prose of the pages: for whom it is, how long its lines and sentences are, how it is spelt."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tools.check_docs import MEAN_WORDS, misspelt, opening, prose, wide_lines
from tools.doc_blocks import ROOT, page_name, pages

SITE = [page for page in pages() if page.parent != ROOT and page.stem != "changelog"]
# Pages whose sentences may be longer, and why.
EXCUSED: dict[str, str] = {}


@pytest.mark.parametrize("page", SITE, ids=page_name)
def test_a_page_opens_with_who_needs_it(page: Path) -> None:
    first = opening(page.read_text("utf-8"))
    assert re.match(r"For (?!example)\w+", first), (
        f"{page_name(page)} does not begin with 'For whoever …': {first[:80]}"
    )


@pytest.mark.parametrize("page", SITE, ids=page_name)
def test_lines_are_short(page: Path) -> None:
    wide = wide_lines(page.read_text("utf-8"))
    assert not wide, f"{page_name(page)}: lines {[number for number, _ in wide]} are too long"


@pytest.mark.parametrize("page", SITE, ids=page_name)
def test_sentences_are_short(page: Path) -> None:
    mean = prose(page.read_text("utf-8")).mean
    if page_name(page) not in EXCUSED:
        assert mean <= MEAN_WORDS, f"{page_name(page)}: {mean:.1f} words per sentence"


def test_excuses_are_needed() -> None:
    named = {page_name(page): page for page in SITE}
    assert set(EXCUSED) <= set(named)
    assert [name for name in EXCUSED if prose(named[name].read_text("utf-8")).mean <= MEAN_WORDS] == []


def test_spelling() -> None:
    assert misspelt([*pages(), ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md"]) == []
