"""Check that docstrings open with a verb: ``python tools/docstrings.py`` says how many do; exit 1 below 80 %.

Functions, methods and properties count; a docstring of a class or a module may open with a noun, since it says what the
thing is. The verbs stand in ``verbs.txt``; add one that is missing. ``--list ROOM`` prints those of a room that do
not, as ``file:line name: first line``, and ``--show`` counts per room.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "longshot"
WANTED = 0.80
VERBS = frozenset(Path(__file__).with_name("verbs.txt").read_text("utf-8").split())


def first_lines(path: Path) -> Iterator[tuple[int, str, str]]:
    """Yield (line, name, first line of the docstring) of each function in a file that has one."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (text := ast.get_docstring(node)):
            yield node.lineno, node.name, text.partition("\n")[0]


def opens_with_verb(line: str) -> bool:
    """Tell whether the first word is a verb in its plain form.

    >>> opens_with_verb("Return the mean."), opens_with_verb("The mean."), opens_with_verb("Returns the mean.")
    (True, False, False)
    """
    word = re.match(r"[A-Za-z]+", line)
    return word is not None and word.group().lower() in VERBS


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--list", metavar="ROOM", help="print what does not open with a verb")
    parser.add_argument("--show", action="store_true", help="count per room")
    arguments = parser.parse_args()
    counts: Counter[str] = Counter()
    verbs: Counter[str] = Counter()
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).parts
        room = parts[0] if len(parts) > 1 else PACKAGE.name
        for number, name, line in first_lines(path):
            counts[room] += 1
            verbs[room] += opens_with_verb(line)
            if arguments.list == room and not opens_with_verb(line):
                print(f"{path.relative_to(PACKAGE.parents[1])}:{number} {name}: {line}")
    share = verbs.total() / counts.total()
    for room in sorted(counts) if arguments.show else ():
        print(f"{room}: {verbs[room]:,} of {counts[room]:,} docstrings open with a verb")
    if arguments.list is None:
        print(f"docstrings: {share:.1%} open with a verb; at least {WANTED:.0%} are needed")
    return int(arguments.list is None and share < WANTED)


if __name__ == "__main__":
    sys.exit(main())
