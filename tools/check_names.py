"""Names that say nothing: every local name, parameter or loop variable on the list is printed; exit 1 if there is any.

A reader must understand a local name without its context: ``interval``, ``rows``, ``class_ids``, never ``found``.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

BANNED = {
    "found",
    "one",
    "mine",
    "told",
    "said",
    "place",
    "known",
    "whole",
    "given",
    "kept",
    "asked",
    "others",
    "rest",
    "thing",
    "things",
    "lost",
    "wanted",
    "few",
    "both",
    "these",
    "those",
    "what",
    "left",
    "drawn",
}


def empty_names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """(line, name) of every banned name that is bound in ``tree``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            name = node.id
        elif isinstance(node, ast.arg):
            name = node.arg
        elif isinstance(node, ast.ExceptHandler) and node.name:
            name = node.name
        else:
            continue
        if name in BANNED:
            yield node.lineno, name


def main(folders: list[str]) -> int:
    count = 0
    for folder in folders:
        for path in sorted(Path(folder).rglob("*.py")):
            for line, name in empty_names(ast.parse(path.read_text(encoding="utf-8"))):
                print(f"{path}:{line}: the name '{name}' says nothing; name what it holds")
                count += 1
    print(f"{count} empty names in {', '.join(folders)}")
    return int(count > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or ["src"]))
