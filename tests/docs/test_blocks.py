"""Every command and program of the documentation is run as it stands, and what it prints compared."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tools.doc_blocks import Block, blocks, page_name, pages

from forked import ForkServer
from page_runs import PageRun

PAGES = {page_name(path): blocks(path.read_text("utf-8")) for path in pages()}


def chosen(name: str, long: bool) -> list[str]:
    """Pages with something to run that has, or has not, the mark ``long``."""
    runnable = {
        page: [block for block in listed if block.runs and "not-run" not in block.marks]
        for page, listed in PAGES.items()
    }
    return [
        page for page, listed in runnable.items() if any((name in block.marks) == long for block in listed)
    ]


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """What pages set in the environment is theirs alone."""
    for name, text in {
        "COLUMNS": "140",
        "LC_ALL": "C.UTF-8",
        "LONGSHOT_TEST_TOYBOX": "",
        "LONGSHOT_CACHE": "",
        "HF_HOME": str(tmp_path / "hf"),
        "HF_HUB_OFFLINE": "1",
    }.items():
        monkeypatch.setenv(name, text)
    yield


def follow(
    listed: list[Block], long: bool, forks: ForkServer, folder: Path, cache: Path, photos: Path
) -> int:
    run = PageRun(forks, folder, cache, photos, long)
    try:
        return run.follow(listed)
    finally:
        run.close()


@pytest.mark.parametrize("page", chosen("long", long=False))
def test_a_page_works_as_it_is_written(
    page: str, forks: ForkServer, tmp_path: Path, cache: Path, photos: Path, environment: None
) -> None:
    assert follow(PAGES[page], False, forks, tmp_path, cache, photos) > 0


@pytest.mark.long
@pytest.mark.parametrize("page", chosen("long", long=True))
def test_a_page_with_long_blocks_works_as_it_is_written(
    page: str, forks: ForkServer, tmp_path: Path, cache: Path, photos: Path, environment: None
) -> None:
    assert follow(PAGES[page], True, forks, tmp_path, cache, photos) > 0


def test_marks_are_before_blocks_that_run() -> None:
    """A mark elsewhere says nothing, and a reason is a reason."""
    for page, listed in PAGES.items():
        for block in listed:
            where = f"{page}, line {block.line}"
            assert not block.marks or block.kind in ("console", "python") or block.name, where
            for mark in ("not-run", "long"):
                assert len(block.marks.get(mark, "a reason").split()) >= 2, (
                    f"{where}: {mark} without a reason"
                )


def test_no_command_stands_outside_a_block() -> None:
    """An indented block would be shown and never run."""
    indented = re.compile(r"(?:^|\n)\n    (?:\$ |longshot |pip |python )[^\n]*")
    for path in pages():
        text = re.sub(r"^```.*?^```", "", path.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
        assert indented.findall(text) == [], page_name(path)
