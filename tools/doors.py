"""Check that rooms are entered by their doors: ``python tools/doors.py`` names what goes around one, and exits with 1.

A room is a folder directly under ``src/longshot``. What others may use of it is in its ``__init__``, which its stub
``__init__.pyi`` declares; ``from longshot.tasks import sample`` enters by the door, ``from longshot.tasks.words import
…`` goes around it. Imports inside functions and for type checkers count like any other. Below the public verbs nobody
asks ``longshot`` itself for more than its version. ``--show`` prints how many imports go through doors, of ``src`` and
of ``tests``, and how many edges there are between rooms.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
WITH_VERBS = {"longshot", "api", "cli", "diagnosis", "publish", "studies", "explorer", "arena"}


class Use(NamedTuple):
    """One name that a file takes from a room."""

    file: str
    line: int
    own: str  # the room of the file
    room: str
    by_door: bool


def uses(root: Path, folder: str) -> Iterator[Use]:
    """Yield every name that files below ``folder`` take from rooms that are not their own."""
    base = root / folder
    package = root / "src" / "longshot"
    rooms = {path.name for path in package.iterdir() if path.is_dir()}
    for path in sorted(base.rglob("*.py")):
        parts = path.relative_to(package if path.is_relative_to(package) else base).parts
        own = parts[0] if len(parts) > 1 else "longshot"
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            for module, name in _imported(node):
                words = module.split(".")
                if words[0] != "longshot":
                    continue
                file = path.relative_to(root).as_posix()
                if len(words) == 1 and name in rooms:
                    yield Use(file, node.lineno, own, str(name), by_door=True)
                elif len(words) == 1:
                    yield Use(file, node.lineno, own, "longshot", own in WITH_VERBS or name == "__version__")
                elif len(words) > 1 and (words[1] != own or folder != "src"):
                    yield Use(file, node.lineno, own, words[1], len(words) == 2 and name is not None)


def _imported(node: ast.AST) -> Iterator[tuple[str, str | None]]:
    if isinstance(node, ast.ImportFrom) and node.module and not node.level:
        for alias in node.names:
            yield node.module, alias.name
    elif isinstance(node, ast.Import):
        for alias in node.names:
            yield alias.name, None if "." in alias.name else "__version__"


def main() -> int:
    """Print what goes around a door, or the shares."""
    inside = list(uses(ROOT, "src"))
    if "--show" in sys.argv:
        for folder, taken in (("src", inside), ("tests", list(uses(ROOT, "tests")))):
            through = sum(use.by_door for use in taken)
            print(f"{folder}: {through:,} of {len(taken):,} through doors ({through / len(taken):.1%})")
        edges = {(use.own, use.room) for use in inside if "longshot" not in (use.own, use.room)}
        print(f"{len(edges)} edges between rooms")
        return 0
    around = [use for use in inside if not use.by_door]
    for use in around:
        print(
            f"{use.file}:{use.line} goes around the door of {use.room}; export the name in its __init__.pyi"
        )
    return int(bool(around))


if __name__ == "__main__":
    sys.exit(main())
