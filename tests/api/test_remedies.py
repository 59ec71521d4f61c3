"""What the library's sentences tell people to do exists, in Python and on the command line."""

from __future__ import annotations

import ast
import pkgutil
import re
from collections.abc import Iterator
from inspect import signature
from pathlib import Path
from typing import NamedTuple

import click
import pytest

import longshot
from longshot.base.errors import render
from longshot.cli.main import command_words, every_command
from longshot.cli.main import commands as command_table
from longshot.studies import get_study, study_names
from longshot.tasks.words import SampleSettings

SOURCE = Path(longshot.__file__).parent
# Faces speak in their own words; what runs in the sandbox is another program.
_FACES = ("cli/", "arena/inside", "arena/baselines", "arena/bundle_programs", "arena/compete_")
_OBJECTS = {
    "score",
    "limits",
    "measures",
}  # parameters that take objects, which a command line has no flag for
_FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
_CALL = re.compile(r'"(\{.*?\})"\|call')  # in a page's template
_COMMAND = re.compile(rf"'longshot (?:{'|'.join(command_table())})")


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
        if not name.startswith(_FACES) and not name.endswith("_command.py"):
            yield name, ast.parse(path.read_text("utf-8"))


@pytest.fixture(scope="module")
def templates() -> list[Sentence]:
    """Every text inside the making of an error, and every call that a page mentions."""
    sentences = [
        Sentence(f"{name}:{line}", text)
        for name, tree in library()
        for error in errors(tree)
        for argument in (*error.args, *(keyword.value for keyword in error.keywords))
        for line, text in texts(argument)
    ]
    pages = {path.name: path.read_text("utf-8") for path in SOURCE.rglob("*.j2")}
    return sentences + [Sentence(name, call) for name, text in pages.items() for call in _CALL.findall(text)]


@pytest.fixture(scope="module")
def python_parameters() -> set[str]:
    names = (
        *longshot._VERBS,
        *longshot._NOUNS,
        *(f"competition.{name}" for name in longshot.competition.__all__),
    )
    return {parameter for name in names for parameter in _parameters(name)}


def _parameters(name: str) -> list[str]:
    try:
        parameters = signature(pkgutil.resolve_name(f"longshot.{name}")).parameters
    except (TypeError, ValueError):  # a table, an exception class
        return []
    return [*parameters, *(SampleSettings.__annotations__ if "settings" in parameters else ())]


@pytest.fixture(scope="module")
def commands() -> dict[str, click.Command]:
    """``splits compare`` → its command, for every command and sub-command."""
    return dict(every_command())


def find_function(name: str) -> bool:
    """Whether ``longshot.name`` is a function, whichever modules have been imported so far."""
    try:
        return callable(pkgutil.resolve_name(f"longshot.{name}"))
    except (AttributeError, ImportError):
        return False


def test_every_parameter_that_is_mentioned_exists(
    templates: list[Sentence], python_parameters: set[str], commands: dict[str, click.Command]
) -> None:
    options = {option.name for command in commands.values() for option in command.params}
    settings = {name for study in study_names() for name in type(get_study(study).settings).model_fields}
    unknown = []
    for sentence in templates:
        recorder = Recorder()
        render(sentence.text, recorder)
        for name in recorder.parameters:
            if sentence.where.startswith("studies/") and name in settings:
                continue
            if name not in python_parameters:
                unknown.append(f"{sentence.where}: {{{name}}} is no parameter in Python")
            if name not in options and name not in _OBJECTS:
                unknown.append(f"{sentence.where}: {{{name}}} is no option of a command")
    assert not unknown, "\n".join(unknown)


def test_every_call_that_is_mentioned_exists(
    templates: list[Sentence], commands: dict[str, click.Command]
) -> None:
    unknown = []
    for sentence in templates:
        recorder = Recorder()
        render(sentence.text, recorder)
        for name in recorder.calls:
            if not find_function(name):
                unknown.append(f"{sentence.where}: longshot.{name} is no function")
            if command_words(name) not in commands:
                unknown.append(f"{sentence.where}: there is no command for {name}")
    assert not unknown, "\n".join(unknown)


def test_the_library_does_not_speak_of_flags_and_commands() -> None:
    """Outside the command line a sentence names parameters and functions; each face words them its own way."""
    spoken = []
    for name, tree in library():
        for error in errors(tree):
            for line, text in texts(error):
                mentioned = _FLAG.findall(text) + _COMMAND.findall(text)
                if mentioned:
                    spoken.append(f"{name}:{line}: {mentioned}")
    assert not spoken, "\n".join(spoken)


def test_no_template_of_a_page_speaks_of_flags_and_commands() -> None:
    """A page is made from Python, by a command or by a study: its calls go through the filter ``call``."""
    command = re.compile(rf"longshot (?:{'|'.join(command_table())})\b")
    pages = {path.name: path.read_text("utf-8") for path in SOURCE.rglob("*.j2")}
    spoken = {name: _FLAG.findall(text) + command.findall(text) for name, text in pages.items()}
    assert len(pages) > 20 and not any(spoken.values()), spoken
