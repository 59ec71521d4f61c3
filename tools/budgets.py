"""Hold every room to its size: ``python tools/budgets.py`` says what exceeds, a sentence each; exit 1 if anything does.

A line of code is one with a token on it: no docstring, comment or blank. A room is a folder directly under
``src/longshot``; modules beside them count as the room ``longshot``. The table ``[tool.longshot.budgets]`` of
pyproject.toml has, per room, the lines that it may have, and two entries of another kind: ``files``, how many files
all rooms may have together, and ``unique-names = true``, which allows no second file of the same name.
``--show`` prints lines and files per room, in the form of that table.
"""

from __future__ import annotations

import argparse
import ast
import io
import sys
import tokenize
import tomllib
from collections import Counter, defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COMMON = {"__init__.py", "base.py", "settings.py"}  # names that every room may have
_SILENT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
_REMEDY = "make it smaller, or raise the budget in pyproject.toml and say why in the commit message"


def code_lines(text: str) -> int:
    """Count the lines of the program ``text`` that hold code.

    >>> code_lines('"About."\\n\\nx = 1  # why\\n# a comment\\ny = (\\n    2\\n)\\n')
    4
    """
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        documented = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        if documented and ast.get_docstring(node, clean=False) is not None:
            docstrings.update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _SILENT:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - docstrings)


def sizes(package: Path) -> tuple[Counter[str], Counter[str]]:
    """Count lines of code and files per room of ``package``."""
    lines: Counter[str] = Counter()
    files: Counter[str] = Counter()
    for path in package.rglob("*.py"):
        parts = path.relative_to(package).parts
        room = parts[0] if len(parts) > 1 else package.name
        lines[room] += code_lines(path.read_text("utf-8"))
        files[room] += 1
    return lines, files


def repeated_names(package: Path) -> dict[str, list[str]]:
    """Map each file name that occurs twice to the folders that have it; `COMMON` names may."""
    folders: dict[str, list[str]] = defaultdict(list)
    for path in sorted(package.rglob("*.py")):
        folders[path.name].append(path.parent.relative_to(package.parent).as_posix())
    return {name: at for name, at in sorted(folders.items()) if len(at) > 1 and name not in COMMON}


def excess(package: Path, budgets: dict[str, int | bool]) -> list[str]:
    """Say in a sentence each what of ``package`` exceeds ``budgets``; rooms are judged once any has a budget."""
    rooms = dict(budgets)
    most_files, unique_names = rooms.pop("files", None), rooms.pop("unique-names", False)
    lines, files = sizes(package)
    sentences = []
    for room in sorted({*lines, *rooms} if rooms else ()):
        if room not in rooms:
            sentences.append(
                f"{room} has {lines[room]:,} lines of code and no budget; give it one in pyproject.toml"
            )
        elif room not in lines:
            sentences.append(f"{room} has a budget and no files; take it out of pyproject.toml")
        elif lines[room] > rooms[room]:
            over = lines[room] - rooms[room]
            sentences.append(
                f"{room} has {lines[room]:,} lines of code, {over:,} more than its budget of {rooms[room]:,}; {_REMEDY}"
            )
    if most_files is not None and (count := files.total()) > most_files:
        sentences.append(
            f"{package.name} has {count:,} files, {count - most_files:,} more than {most_files:,}; {_REMEDY}"
        )
    if unique_names:
        for name, folders in repeated_names(package).items():
            sentences.append(
                f"{name} stands in {', '.join(folders)}; give all but the first a name of its own"
            )
    return sentences


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--show", action="store_true", help="print lines and files per room")
    arguments = parser.parse_args()
    package = ROOT / "src" / "longshot"
    if arguments.show:
        lines, files = sizes(package)
        for room in sorted(lines):
            print(f"{room} = {lines[room]}  # {files[room]} files")
        print(f"files = {files.total()}  # {lines.total()} lines of code")
        return 0
    table = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]
    sentences = excess(package, table.get("longshot", {}).get("budgets", {}))
    for sentence in sentences:
        print(f"budgets: {sentence}")
    return int(bool(sentences))


if __name__ == "__main__":
    sys.exit(main())
