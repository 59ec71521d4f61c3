"""Wraps the prose of pages: python tools/wrap_docs.py PAGE…

Paragraphs and list items with a line of more than 140 characters are wrapped at 136. Blocks, tables, headings, formulas
and comments stay as they are.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

WIDEST, WRAPPED = 140, 136
_OPENS = re.compile(r"\s*(?P<fence>`{3,}|:{3,}|\$\$|<!-- setup)")
_ALONE = re.compile(r"#|\||!\[|<!--|\s*$")
_BEGINS = re.compile(r"\s*([-*+] |\d+\. |#|\||```|:::|<!--|!\[|\$\$)")
_BULLET = re.compile(r"\s*(?:[-*+] |\d+\. |: )?")


def wrapped(text: str) -> str:
    """The page with its long paragraphs wrapped."""
    return "\n".join(_wrapped_lines(text.split("\n")))


def _wrapped_lines(lines: list[str]) -> Iterator[str]:
    number, end = 0, ""
    while number < len(lines):
        line = lines[number]
        number += 1
        if end:
            yield line
            if line.strip() == end or (end == "$$" and line.rstrip().endswith(end)):
                end = ""
        elif opening := _OPENS.match(line):
            yield line
            fence = opening["fence"]
            closed = fence == "$$" and line.count("$$") > 1
            end = "" if closed else "-->" if fence.startswith("<") else fence
        elif _ALONE.match(line):
            yield line
        else:
            paragraph = [line]
            while number < len(lines) and lines[number].strip() and not _BEGINS.match(lines[number]):
                paragraph.append(lines[number])
                number += 1
            yield from _paragraph(paragraph)


def _paragraph(lines: list[str]) -> list[str]:
    if max(map(len, lines)) <= WIDEST:
        return lines
    bullet = _BULLET.match(lines[0])
    first = bullet[0] if bullet else ""
    text = " ".join([lines[0][len(first) :].strip(), *(line.strip() for line in lines[1:])])
    return textwrap.wrap(
        text,
        WRAPPED,
        initial_indent=first,
        subsequent_indent=" " * len(first),
        break_long_words=False,
        break_on_hyphens=False,
    )


if __name__ == "__main__":
    for path in map(Path, sys.argv[1:]):
        path.write_text(wrapped(path.read_text("utf-8")), encoding="utf-8")
