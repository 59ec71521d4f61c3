"""The README: short, its links lead somewhere; its commands are run with those of the other pages (tests/docs)."""

from __future__ import annotations

import re

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
    links = re.findall(r"\]\(((?!http)[^)#]+)", README.read_text("utf-8"))
    assert links
    assert [link for link in links if not (README.parent / link).exists()] == []
