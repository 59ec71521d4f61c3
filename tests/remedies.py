"""Sentences of the library, what they mention between braces, and mistakes whose remedies are followed."""

from __future__ import annotations

import ast
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import longshot
from longshot.base import render

SOURCE = Path(longshot.__file__).parent
Action = Callable[..., Any]
TRAINING = {"network": "cnn4", "size": 16, "steps": 1, "way": 2, "shot": 1, "query": 2}
QUICK = {"tasks": 3, "way": 2, "shot": 1, "query": 2}
PLAIN: dict[str, Any] = {"backbones": "pixels", "methods": "protonet"}
# Faces speak in their own words; what runs in the sandbox is another program.
_FACES = ("cli/", "arena/inside", "arena/baselines", "arena/bundle_programs", "arena/compete_")


@dataclass(frozen=True)
class Mention:
    """A parameter or a call between the braces of a sentence."""

    name: str
    value: str | None = None
    arguments: list[str] | None = None  # None: it is a parameter
    settings: dict[str, str] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """``sample()`` of a call, ``allow_repeats`` of a parameter."""
        return self.name if self.arguments is None else f"{self.name}()"


class Recorder:
    """A face that writes down what a sentence mentions."""

    def __init__(self) -> None:
        self.mentions: list[Mention] = []

    def parameter(self, name: str, value: str | None) -> str:
        self.mentions.append(Mention(name, value))
        return name

    def call(self, name: str, arguments: list[str], settings: dict[str, str]) -> str:
        self.mentions.append(Mention(name, None, arguments, settings))
        return name


def mentions(template: str) -> list[Mention]:
    """What stands between the braces of a sentence, in its order."""
    recorder = Recorder()
    render(template, recorder)
    return recorder.mentions


def texts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """(line, text) of every string; what an f-string fills in stands as …, which is no name of anything."""
    inside: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            inside.update(id(part) for part in ast.walk(node))
            parts = [part.value if isinstance(part, ast.Constant) else "…" for part in node.values]
            yield node.lineno, "".join(str(part) for part in parts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            yield node.lineno, node.value


def errors(tree: ast.AST) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "").endswith("Error"):
            yield node


def library() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        if not name.startswith(_FACES) and not name.endswith("_command.py"):
            yield name, ast.parse(path.read_text("utf-8"))


@dataclass(frozen=True)
class Mistake:
    """A call that fails, and what its sentence says to do.

    ``fill`` says what the placeholders of the sentence are (``DATASET`` is nothing that exists); ``more`` keeps the
    call that is followed small; ``use`` makes use of what that call gave, where calling again is not enough.
    """

    follows: str  # "sample()" or "allow_repeats"
    verb: Action | str
    arguments: tuple[Any, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    fill: Mapping[str, Any] = field(default_factory=dict)
    more: Mapping[str, Any] = field(default_factory=dict)
    use: Callable[[Action, Any], Any] | None = None
    prepare: Callable[[], Any] | None = None
    long: bool = False  # it searches, trains or measures pixels
    then: str = ""  # where the value is an example: the sentence that may follow, about something else

    def run(self, **changed: Any) -> Any:
        verb = pkgutil.resolve_name(f"longshot:{self.verb}") if isinstance(self.verb, str) else self.verb
        return verb(*self.arguments, **{**self.settings, **changed})
