"""The README: short, its links lead somewhere; its commands are run with those of the other pages (tests/docs)."""

from __future__ import annotations

import re
from typing import Any

import pytest
from tools.doc_blocks import ROOT, blocks

README = ROOT / "README.md"


def test_its_commands_are_in_blocks_that_are_run() -> None:
    listed = [
        block for block in blocks(README.read_text("utf-8")) if block.runs and "not-run" not in block.marks
    ]
    commands = [command.split() for block in listed for command, _ in block.commands()]
    verbs = [words[1] for words in commands if words[0] == "longshot"]
    assert {"embed", "sample", "evaluate", "report"} <= set(verbs), verbs
    assert any(block.kind == "python" for block in listed)


def test_the_python_is_short() -> None:
    (code,) = [block.text for block in blocks(README.read_text("utf-8")) if block.kind == "python"]
    assert len([line for line in code.splitlines() if line.strip()]) <= 10


def test_every_linked_page_exists() -> None:
    text = README.read_text("utf-8")
    links = re.findall(r"\]\(((?!http)[^)#]+)", text) + re.findall(r'src="([^"]+)"', text)
    assert {"docs/explorer-task.png", "docs/report-top.png"} < set(links)
    assert [link for link in links if not (README.parent / link).exists()] == []


def test_it_begins_with_pictures_and_fits_three_screens(browser: Any) -> None:
    """As a public host shows it: a column of 980 pixels in letters of 16, on screens of 1,080."""
    markdown = pytest.importorskip("markdown_it", reason="needs markdown-it-py, which rich brings")
    body = markdown.MarkdownIt("commonmark", {"html": True}).enable("table").render(README.read_text("utf-8"))
    style = "body{font:16px/1.5 sans-serif;width:980px} td,th{padding:6px 13px} pre,code{font-size:85%}"
    base = f'<base href="{README.parent.as_uri()}/">'
    assert body.index("<img") < body.index("<h2>") < body.index("Beside its peers")
    page = browser.new_page(viewport={"width": 1100, "height": 1080})
    page.goto(README.parent.as_uri())  # so that pictures of the folder may be loaded
    page.set_content(f"<head>{base}<style>{style}</style></head><body>{body}</body>")
    pictures = page.evaluate("Array.from(document.images, image => image.naturalWidth)")
    height = page.evaluate("document.body.scrollHeight")
    page.close()
    assert len(pictures) == 2 and min(pictures) > 1000
    assert height <= 3 * 1080
