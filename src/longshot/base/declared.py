"""Classes that declare themselves: a file in the right folder with a class that says ``name = "…"`` is enough.

Methods, samplers, formats and metrics are found so, by reading the source of their folder. Nothing is imported before
it is asked for by name.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).resolve().parents[1]
_CLASS = re.compile(r"^class (\w+)(?:\(([^)]*)\))?:\n((?:(?:[ \t].*)?\n)*)", re.MULTILINE)
_DOCSTRING = re.compile(r'^    r?""".*?"""\n', re.MULTILINE | re.DOTALL)
_FACT = re.compile(
    r"^    (\w+)(?:: ClassVar\[.*?\])? = (r?[\"'].*?[\"']|\d+|\{[^}]*\}|\([^)]*\))(?:  #.*)?$", re.MULTILINE
)
_FIELD = re.compile(r"^    (\w+): (?!ClassVar)(?!.*(?:_HIDDEN|init=False))", re.MULTILINE)


@dataclass(frozen=True)
class Declared:
    """A class with a ``name``, as its source has it.

    Parameters
    ----------
    target : str
        Where it is: ``"module:Class"``.
    bases : frozenset of str
        The names of all classes that it is derived from, in the same folder and directly outside.
    facts : dict
        Its class attributes that are plain values, those of its bases included.
    fields : tuple of str
        Its annotated attributes that are settings, those of its bases first.
    own : frozenset of str
        The facts that it says itself.
    """

    target: str
    bases: frozenset[str]
    facts: dict[str, Any]
    fields: tuple[str, ...]
    own: frozenset[str]


@cache
def declared_classes(package: str, *files: str) -> tuple[Declared, ...]:
    """Return the classes of a package's own files that say ``name = "…"`` themselves, by file and place.

    >>> [each.facts["name"] for each in declared_classes("longshot.tasks", "shapes")]
    ['fixed', 'any', 'like', 'all']
    """
    folder = PACKAGE.joinpath(*package.split(".")[1:])
    paths = [folder / f"{name}.py" for name in files] or sorted(folder.glob("*.py"))
    sources = {path.stem: path.read_text("utf-8") for path in paths}
    seen: dict[str, Declared] = {}
    waiting = [
        (stem, match) for stem, text in sources.items() if " = " in text for match in _CLASS.finditer(text)
    ]
    own = {match[1] for _, match in waiting}
    while waiting:
        later = []
        for stem, match in waiting:
            parents = [base.strip().rpartition(".")[2] for base in (match[2] or "").split(",")]
            if any(parent in own and parent not in seen for parent in parents):
                later.append((stem, match))
            else:
                seen[match[1]] = _read(f"{package}.{stem}:{match[1]}", match[3], parents, seen)
        if len(later) == len(waiting):
            break
        waiting = later
    ordered = [
        seen[match[1]] for text in sources.values() for match in _CLASS.finditer(text) if match[1] in seen
    ]
    return tuple(each for each in ordered if "name" in each.own)


def _read(target: str, source: str, parents: list[str], seen: dict[str, Declared]) -> Declared:
    body = _DOCSTRING.sub("", source.partition("\n    def ")[0], count=1)
    facts = {name: ast.literal_eval(value) for name, value in _FACT.findall(body)}
    above = [seen[parent] for parent in parents if parent in seen]
    inherited: dict[str, Any] = {}
    for parent in reversed(above):
        inherited |= parent.facts
    fields = dict.fromkeys(name for parent in above for name in parent.fields)
    fields |= dict.fromkeys(_FIELD.findall(body))
    return Declared(
        target,
        frozenset(parents).union(*(parent.bases for parent in above)),
        inherited | facts,
        tuple(fields),
        frozenset(facts),
    )
