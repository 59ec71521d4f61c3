"""The blocks of the documentation's pages: which are run, with what marks; CONTRIBUTING.md has the convention."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
GENERATED = ("reference/cli", "reference/api")
MARKS = ("not-run", "long", "small", "tolerance", "compare", "needs", "exit")
_FENCE = re.compile(r"^(?P<fence>`{3,}|:{3,})(?P<language>[^\s`]*) ?(?P<name>[^`]*)$")
_MARK = re.compile(r"^<!-- (?P<name>[a-z-]+): (?P<text>.*?) -->$")
_NAMED = re.compile(r"^# (\S+\.\w+)$")
_PROMPT = re.compile(r"^\$ ", re.MULTILINE)


@dataclass
class Block:
    """What stands between fences, or in a comment of its own (``setup``, ``needs``).

    ``name`` is the file it is written to, ``output`` what a Python block prints, ``marks`` the comments before it.
    """

    kind: str
    text: str
    line: int
    name: str = ""
    output: str | None = None
    marks: dict[str, str] = field(default_factory=dict)

    @property
    def runs(self) -> bool:
        """Whether it is a command or a program, marked or not."""
        return not self.name and self.kind in ("console", "python")

    def commands(self) -> Iterator[tuple[str, str]]:
        """(command, output shown below it) of a console block."""
        for part in _PROMPT.split(self.text)[1:]:
            lines = part.split("\n")
            last = next(number for number, line in enumerate(lines) if not line.rstrip().endswith("\\"))
            command = " ".join(line.rstrip().removesuffix("\\").strip() for line in lines[: last + 1])
            yield command, "\n".join(lines[last + 1 :]).strip("\n")


def pages() -> list[Path]:
    """All pages that people write: the site's, without those made from the code, and the README."""
    written = [
        path
        for path in sorted((ROOT / "docs").rglob("*.md"))
        if not path.relative_to(ROOT / "docs").as_posix().startswith(GENERATED)
    ]
    return [ROOT / "README.md", *written]


def page_name(path: Path) -> str:
    """As in the address of the site: ``howto/bench``."""
    return path.relative_to(ROOT).with_suffix("").as_posix().removeprefix("docs/")


def blocks(text: str) -> list[Block]:
    """Every block of a page, in order."""
    listed: list[Block] = []
    marks: dict[str, str] = {}
    lines = iter(enumerate(text.split("\n"), 1))
    for number, line in lines:
        if line == "<!-- setup":
            listed.append(Block("setup", _until(lines, "-->"), number))
        elif mark := _MARK.match(line):
            if mark["name"] == "needs":
                listed.append(Block("needs", mark["text"], number))
            elif mark["name"] in MARKS:
                marks[mark["name"]] = mark["text"]
            else:
                raise ValueError(
                    f"line {number}: a comment '{mark['name']}:' means nothing; there are {', '.join(MARKS)}."
                )
        elif fence := _FENCE.match(line):
            body = _until(lines, fence["fence"])
            language, name = fence["language"], fence["name"].strip()
            if language == "output" and listed and listed[-1].kind == "python":
                listed[-1].output = body
            else:
                first = _NAMED.match(body.partition("\n")[0])
                listed.append(Block(language, body, number, name or (first[1] if first else ""), marks=marks))
            marks = {}
        elif line.strip():
            marks = {}  # a mark stands directly before its block
    return listed


def _until(lines: Iterator[tuple[int, str]], end: str) -> str:
    body = []
    for _, line in lines:
        if line.strip() == end:
            return "\n".join(body)
        body.append(line)
    raise ValueError(f"A block is never closed with {end}.")


def summary() -> list[str]:
    """How many blocks are run, and why the others are not."""
    runnable = [block for page in pages() for block in blocks(page.read_text("utf-8")) if block.runs]
    reasons = Counter(block.marks["not-run"] for block in runnable if "not-run" in block.marks)
    long = sum("long" in block.marks and "not-run" not in block.marks for block in runnable)
    run = len(runnable) - long - reasons.total()
    lines = [
        f"blocks of the documentation: {run} run, {long} run by make test-long, {reasons.total()} not run"
    ]
    return lines + [f"  {count:4d} not run: {reason}" for reason, count in reasons.most_common()]
