"""The card of a release: the little Markdown that Longshot writes, as blocks that a template escapes."""

from __future__ import annotations

import re
from typing import Any

_ROW = re.compile(r"^\|(.*)\|\s*$")
_RULE = re.compile(r"^\|[\s:|-]+\|\s*$")


def blocks_of(text: str) -> list[dict[str, Any]]:
    """Headings, tables, lists, code and paragraphs, in order; what is none of these stays as it is written.

    >>> [block["kind"] for block in blocks_of("# A\\n\\ntext\\nmore\\n\\n| a |\\n| --- |\\n| 1 |\\n\\n- x")]
    ['heading', 'text', 'table', 'list']
    """
    blocks: list[dict[str, Any]] = []
    code: list[str] | None = None
    for line in text.splitlines():
        if line.startswith("```"):
            if code is None:
                code = []
            else:
                blocks.append({"kind": "code", "text": "\n".join(code)})
                code = None
        elif code is not None:
            code.append(line)
        else:
            _add(blocks, line)
    if code:
        blocks.append({"kind": "code", "text": "\n".join(code)})
    return [block for block in blocks if block["kind"] != "gap"]


def _add(blocks: list[dict[str, Any]], line: str) -> None:
    """One line, into the block before it where it goes on."""
    last: dict[str, Any] = blocks[-1] if blocks else {"kind": "gap"}
    if not line.strip():
        blocks.append({"kind": "gap"})
    elif line.startswith("#"):
        marks = len(line) - len(line.lstrip("#"))
        blocks.append({"kind": "heading", "level": min(marks, 3), "text": line.lstrip("# ")})
    elif _RULE.match(line) and last["kind"] == "table":
        pass
    elif row := _ROW.match(line):
        cells = [_plain(cell) for cell in row[1].split("|")]
        if last["kind"] == "table":
            last["rows"].append(cells)
        else:
            blocks.append({"kind": "table", "heads": cells, "rows": []})
    elif line.startswith(("- ", "* ")):
        if last["kind"] != "list":
            blocks.append({"kind": "list", "lines": []})
        blocks[-1]["lines"].append(_plain(line[2:]))
    elif last["kind"] == "text":
        last["text"] += f" {_plain(line)}"
    else:
        blocks.append({"kind": "text", "text": _plain(line)})


def _plain(text: str) -> str:
    """Text without the marks for code and bold."""
    return text.strip().replace("**", "").replace("`", "")
