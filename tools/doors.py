"""Check that rooms are entered by their doors: ``python tools/doors.py`` names what goes around one, and exits with 1.

A room is a folder directly under ``src/longshot``. What others may use of it is in its ``__init__``, which its stub
``__init__.pyi`` declares; ``from longshot.tasks import sample`` enters by the door, ``from longshot.tasks.words import
…`` goes around it, and so does a module that the stub does not declare. Imports inside functions and for type checkers
count like any other. Below the public verbs nobody asks ``longshot`` itself for more than its version.

Tests in ``tests/ROOM`` may import inner modules of their own room, which they test. They enter every other room by its
door, or take public names of ``longshot``; files directly in ``tests`` belong to no room. ``--show`` prints how many
imports go through doors, of ``src`` and of ``tests``, and how many edges there are between rooms.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
WITH_VERBS = {"longshot", "api", "cli", "diagnosis", "publish", "deploy", "studies", "explorer", "arena"}


class Use(NamedTuple):
    """One name that a file takes from a room."""

    file: str
    line: int
    own: str  # the room of the file
    room: str
    by_door: bool

    @property
    def allowed(self) -> bool:
        """Whether it goes through a door, or is a test's of its own room."""
        return self.by_door or self.own == self.room


def uses(root: Path, folder: str) -> Iterator[Use]:
    """Yield every name that files below ``folder`` take from rooms: of ``src`` from others, of tests from any."""
    base = root / folder
    package = root / "src" / "longshot"
    rooms = {path.name: _exported(path) for path in package.iterdir() if path.is_dir()}
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
                    with_verbs = folder != "src" or own in WITH_VERBS
                    yield Use(file, node.lineno, own, "longshot", with_verbs or name == "__version__")
                elif len(words) > 1 and (words[1] != own or folder != "src"):
                    by_door = len(words) == 2 and name in rooms.get(words[1], ())
                    yield Use(file, node.lineno, own, words[1], by_door)


def _exported(room: Path) -> set[str]:
    """The names that the stub of a room declares, and those that its ``__init__`` sets."""
    names = set()
    for file in (room / "__init__.pyi", room / "__init__.py"):
        for node in ast.parse(file.read_text("utf-8")).body if file.exists() else ():
            if isinstance(node, ast.ImportFrom) and file.suffix == ".pyi":
                names |= {alias.asname or alias.name for alias in node.names}
            elif isinstance(node, ast.Assign):
                names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return names


def _imported(node: ast.AST) -> Iterator[tuple[str, str | None]]:
    if isinstance(node, ast.ImportFrom) and node.module and not node.level:
        for alias in node.names:
            yield node.module, alias.name
    elif isinstance(node, ast.Import):
        for alias in node.names:
            yield alias.name, None if "." in alias.name else "__version__"


def main() -> int:
    """Print what goes around a door, or the shares."""
    inside, tests = list(uses(ROOT, "src")), list(uses(ROOT, "tests"))
    if "--show" in sys.argv:
        own = [use for use in tests if use.own == use.room]
        for title, taken in (("src", inside), ("tests", [use for use in tests if use.own != use.room])):
            through = sum(use.by_door for use in taken)
            print(f"{title}: {through:,} of {len(taken):,} through doors ({through / len(taken):.1%})")
        inner = sum(not use.by_door for use in own)
        share = sum(use.by_door for use in tests) / len(tests)
        print(f"tests, from their own room: {inner:,} of {len(own):,} from inner modules")
        print(f"tests, all: {share:.1%} through doors")
        edges = {(use.own, use.room) for use in inside if "longshot" not in (use.own, use.room)}
        print(f"{len(edges)} edges between rooms")
        return 0
    around = [use for use in (*inside, *tests) if not use.allowed]
    for use in around:
        print(
            f"{use.file}:{use.line} goes around the door of {use.room}; export the name in its __init__.pyi"
        )
    return int(bool(around))


if __name__ == "__main__":
    sys.exit(main())
