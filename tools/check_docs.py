"""Looks at the prose of the documentation: python tools/check_docs.py [PAGE…]

Prints for each page its words, its mean words per sentence and lines that are too long; then spelling, and how many
blocks are run. Ends with 1 where something is wrong.
"""

from __future__ import annotations

import math
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tools.doc_blocks import ROOT, page_name, pages, summary

WIDEST = 140
WIDEST_ROW = 240  # of a table, which a browser wraps within its cells
MEAN_WORDS = 20.0
WORD_LIST = ROOT / "docs" / "_extensions" / "words.txt"
_FENCED = re.compile(r"^(`{3,}|:{3,}).*?^\1\s*$", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_FORMULA = re.compile(r"^\$\$.*?^\$\$", re.MULTILINE | re.DOTALL)
_SKIPPED = re.compile(r"^(#|\||!\[|\(.*\)=$|---$)")
_ITEM = re.compile(r"^\s*(?:[-*+]|\d+\.) +|^: +")
_END = re.compile(r"(?<=[.!?])[)\"”*_]*\s+(?=[\"“(*_`A-Z0-9$])|(?<=[.!?])$")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_CODE = re.compile(r"`[^`]+`|\$[^$\n]+\$")
_ABBREVIATED = re.compile(r"\b(e\.g|i\.e|et al|cf|vs|Fig|Sec|approx)\.")


@dataclass(frozen=True)
class Prose:
    """What a page's sentences come to."""

    sentences: int
    words: int

    @property
    def mean(self) -> float:
        """Words per sentence."""
        return self.words / self.sentences if self.sentences else 0.0


def paragraphs(text: str) -> list[str]:
    """Paragraphs and list items in one line each; without blocks, tables, headings and pictures."""
    plain = _FORMULA.sub("", _COMMENT.sub("", _FENCED.sub("\n", text)))
    parts: list[list[str]] = [[]]
    for line in plain.split("\n"):
        if not line.strip() or _SKIPPED.match(line.strip()):
            parts.append([])
        elif _ITEM.match(line):
            parts.append([_ITEM.sub("", line)])
        else:
            parts[-1].append(line.strip())
    return [" ".join(lines) for lines in parts if lines]


def prose(text: str) -> Prose:
    """Count sentences and words: code and formulas are one word, of links the text counts."""
    sentences = words = 0
    for paragraph in paragraphs(text):
        flat = _ABBREVIATED.sub(r"\1", _CODE.sub("X", _LINK.sub(r"\1", paragraph)))
        for sentence in _END.split(flat):
            count = len(re.findall(r"\w[\w'’.,%-]*", sentence))
            if count:
                sentences, words = sentences + 1, words + count
    return Prose(sentences, words)


def wide_lines(text: str) -> list[tuple[int, int]]:
    """(number, length) of lines of prose and rows of tables that are too long; blocks show what is printed."""
    blank = _FENCED.sub(lambda match: "\n" * match[0].count("\n"), text)
    lines = enumerate(blank.split("\n"), 1)
    return [(number, len(line)) for number, line in lines if len(line) > _widest(line)]


def _widest(line: str) -> float:
    """How long a line may be: a row of results, most of whose cells are numbers or headings of them, as it must."""
    if not line.startswith("|"):
        return WIDEST
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    return math.inf if len(cells) > 6 or all(set(cell) <= set(":- ") for cell in cells) else WIDEST_ROW


def opening(text: str) -> str:
    """The first paragraph below the title."""
    return next(iter(paragraphs(text)), "")


def sentences() -> list[str]:
    """Mean words per sentence of every page; those above the limit are named."""
    means = {page_name(path): prose(path.read_text("utf-8")).mean for path in pages()}
    above = [f"{name} {mean:.1f}" for name, mean in means.items() if mean > MEAN_WORDS]
    listed = ", ".join(f"{name} {mean:.0f}" for name, mean in means.items() if mean)
    return [
        f"words per sentence, means of {len(means)} pages: {listed}",
        f"pages above {MEAN_WORDS:.0f}: {', '.join(above) or 'none'}",
    ]


def misspelt(paths: list[Path]) -> list[str]:
    """What codespell finds."""
    command = [sys.executable, "-m", "codespell_lib", "--ignore-words", str(WORD_LIST), *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode in (0, 65), done.stderr
    return [line.removeprefix(f"{ROOT}/") for line in done.stdout.splitlines() if "==>" in line]


def main(arguments: list[str]) -> int:
    """The pages named, or all."""
    chosen = [Path(argument).resolve() for argument in arguments] or pages()
    wrong = 0
    for path in chosen:
        text = path.read_text("utf-8")
        measured, wide = prose(text), wide_lines(text)
        long_winded = measured.mean > MEAN_WORDS
        print(
            f"{page_name(path):42s} {len(text.split()):6d} words, {measured.mean:5.1f} per sentence"
            + (f"  above {MEAN_WORDS:.0f}" if long_winded else "")
            + (f"  lines over {WIDEST}: {', '.join(str(number) for number, _ in wide[:12])}" if wide else "")
        )
        wrong += long_winded + bool(wide)
    for line in (spelling := misspelt(chosen)):
        print(line)
    print("\n".join(summary()))
    return int(bool(wrong or spelling))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
