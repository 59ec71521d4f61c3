"""The import graph of Longshot's rooms, as it is: one line per room with the rooms that it knows.

Lazy imports inside functions, imports for type checkers and modules named in strings count like any other.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

_MODULE = re.compile(r"^longshot(\.[a-z_0-9]+)+\.?(:\w+)?$")
SUBROOMS = ("datasets.overlap",)  # packages inside a room that count as a room of their own
_PLAIN = {"__version__", "annotations"}  # of `longshot` itself, without a room behind


def room_graph(package: Path) -> dict[str, dict[str, list[str]]]:
    """Room → room that it knows → where, as ``file:line``."""
    graph: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for path in sorted(package.rglob("*.py")):
        module = ".".join(("longshot", *path.relative_to(package).with_suffix("").parts))
        own = room_of(module.removesuffix(".__init__"), package)
        graph[own]  # a room that knows nothing is a room too
        for line, name in _modules(ast.parse(path.read_text(encoding="utf-8")), package):
            target = room_of(name, package)
            if target != own:
                graph[own][target].append(f"{path.relative_to(package)}:{line}")
    return {room: dict(edges) for room, edges in sorted(graph.items())}


def room_of(module: str, package: Path) -> str:
    """The room of a dotted module: ``longshot`` itself offers the API, ``python -m longshot`` the command line."""
    parts = module.split(".")[1:]
    for room in SUBROOMS:
        if ".".join(parts).startswith(room):
            return room
    if parts and (package / parts[0]).is_dir():
        return parts[0]
    return "cli" if parts == ["__main__"] else "api"


def _modules(tree: ast.AST, package: Path) -> Iterator[tuple[int, str]]:
    """(line, dotted module) of everything of Longshot that a file names."""
    docstrings = set(_docstrings(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith("longshot."):
                    yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "longshot":
            for alias in node.names:
                if node.module == "longshot" and alias.name in _PLAIN:
                    continue
                inner = f"{node.module}.{alias.name}"
                path = package.joinpath(*inner.split(".")[1:])
                yield (
                    node.lineno,
                    inner if path.is_dir() or path.with_suffix(".py").is_file() else node.module,
                )
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.value.id == "longshot" and node.attr not in _PLAIN:
                yield node.lineno, f"longshot.{node.attr}"
        elif isinstance(node, ast.Constant) and id(node) not in docstrings:
            text = node.value if isinstance(node.value, str) else ""
            if _MODULE.match(text):
                yield node.lineno, text.partition(":")[0].rstrip(".")


def _docstrings(tree: ast.AST) -> Iterator[int]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                yield id(first.value)


def find_cycle(graph: dict[str, dict[str, list[str]]]) -> list[str]:
    """Rooms that know each other in a ring, first and last the same; empty where there is no ring."""
    finished: set[str] = set()

    def visit(room: str, path: list[str]) -> list[str]:
        if room in path:
            return [*path[path.index(room) :], room]
        if room in finished:
            return []
        for target in graph.get(room, {}):
            ring = visit(target, [*path, room])
            if ring:
                return ring
        finished.add(room)
        return []

    return next(filter(None, (visit(room, []) for room in graph)), [])


def main() -> int:
    graph = room_graph(Path(__file__).resolve().parents[1] / "src" / "longshot")
    for room, edges in graph.items():
        print(f"{room}: {', '.join(sorted(edges)) or 'nothing'}")
        if "-v" in sys.argv:
            for target, lines in sorted(edges.items()):
                print(f"    {target}: {', '.join(lines)}")
    ring = find_cycle(graph)
    if ring:
        print(f"a ring: {' → '.join(ring)}")
    return int(bool(ring))


if __name__ == "__main__":
    sys.exit(main())
