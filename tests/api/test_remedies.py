"""What the library's sentences tell people to do exists, in Python and on the command line."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from inspect import signature
from pathlib import Path
from typing import NamedTuple

import click
import pytest

import longshot
from longshot.cli.main import COMMANDS, cli
from longshot.core.errors import render

SOURCE = Path(longshot.__file__).parent
# Faces speak in their own words; what runs in the sandbox is another program.
_FACES = ("cli", "competition/inside", "competition/baselines", "competition/bundle/programs")
_FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
_COMMAND = re.compile(rf"'longshot (?:{'|'.join(COMMANDS)})")
# Function of Python → command, where they are not of the same name.
_COMMANDS = {
    "open_dataset": "datasets show",
    "list_datasets": "datasets",
    "find_overlap": "datasets overlap",
    "list_backbones": "backbones",
    "open_taxonomy": "taxonomy show",
    "make_split": "split",
    "compare_splits": "splits compare",
    "measure_attributes": "attributes",
    "list_methods": "methods",
    "check_method": "methods check",
    "run_study": "study run",
}


class Sentence(NamedTuple):
    """A text of the library and where it stands."""

    where: str
    text: str


class Recorder:
    """A face that writes down what a template mentions."""

    def __init__(self) -> None:
        self.parameters: list[str] = []
        self.calls: list[str] = []

    def parameter(self, name: str, value: str | None) -> str:
        self.parameters.append(name)
        return name

    def call(self, name: str, arguments: list[str], settings: dict[str, str]) -> str:
        self.calls.append(name)
        self.parameters.extend(settings)
        return name


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
        if not name.startswith(_FACES):
            yield name, ast.parse(path.read_text("utf-8"))


@pytest.fixture(scope="module")
def templates() -> list[Sentence]:
    """Every text inside the making of an error."""
    return [
        Sentence(f"{name}:{line}", text)
        for name, tree in library()
        for error in errors(tree)
        for argument in (*error.args, *(keyword.value for keyword in error.keywords))
        for line, text in texts(argument)
    ]


@pytest.fixture(scope="module")
def python_parameters() -> set[str]:
    return {
        parameter for name in (*longshot._VERBS, *longshot._NOUNS) for parameter in _parameters(name)
    }


def _parameters(name: str) -> list[str]:
    try:
        return list(signature(getattr(longshot, name)).parameters)
    except ValueError:  # an exception class
        return []


@pytest.fixture(scope="module")
def commands() -> dict[str, click.Command]:
    """``splits compare`` → its command, for every command and sub-command."""
    context = click.Context(cli)
    found: dict[str, click.Command] = {}

    def add(name: str, command: click.Command) -> None:
        found[name] = command
        for inner, sub in command.commands.items() if isinstance(command, click.Group) else ():
            add(f"{name} {inner}", sub)

    for name in COMMANDS:
        command = cli.get_command(context, name)
        assert command is not None
        add(name, command)
    return found


def test_every_parameter_that_is_mentioned_exists(
    templates: list[Sentence], python_parameters: set[str], commands: dict[str, click.Command]
) -> None:
    options = {option.name for command in commands.values() for option in command.params}
    unknown = []
    for sentence in templates:
        recorder = Recorder()
        render(sentence.text, recorder)
        for name in recorder.parameters:
            if name not in python_parameters:
                unknown.append(f"{sentence.where}: {{{name}}} is no parameter in Python")
            if name not in options:
                unknown.append(f"{sentence.where}: {{{name}}} is no option of a command")
    assert unknown == []


def test_every_call_that_is_mentioned_exists(
    templates: list[Sentence], commands: dict[str, click.Command]
) -> None:
    unknown = []
    for sentence in templates:
        recorder = Recorder()
        render(sentence.text, recorder)
        for name in recorder.calls:
            if name not in longshot.__all__ and not hasattr(longshot.competition, name.rpartition(".")[2]):
                unknown.append(f"{sentence.where}: longshot.{name} is no function")
            if _COMMANDS.get(name, name.replace(".", " ")) not in commands:
                unknown.append(f"{sentence.where}: there is no command for {name}")
    assert unknown == []


def test_the_library_does_not_speak_of_flags_and_commands() -> None:
    """Outside the command line a sentence names parameters and functions; each face words them its own way."""
    spoken = []
    for name, tree in library():
        for error in errors(tree):
            for line, text in texts(error):
                mentioned = _FLAG.findall(text) + _COMMAND.findall(text)
                if mentioned:
                    spoken.append(f"{name}:{line}: {mentioned}")
    assert spoken == []
