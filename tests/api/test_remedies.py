"""What the library's sentences tell people to do exists, in Python and on the command line."""

from __future__ import annotations

import pkgutil
import re
from inspect import signature
from typing import NamedTuple

import click
import pytest

import longshot
from longshot.cli import command_words, every_command
from longshot.tasks import SampleSettings
from remedies import SOURCE, errors, library, mentions, texts
from wings import wing_cases

_OBJECTS = {
    "score",
    "limits",
    "measures",
}  # parameters that take objects, which a command line has no flag for
_FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
_WITH_VERBS = {"competition"} & {*longshot.__all__}  # its functions are commands
_CALL = re.compile(r'"(\{.*?\})"\|call')  # in a page's template
_COMMANDS = "|".join(words for words, _ in every_command() if " " not in words)
_COMMAND = re.compile(rf"'longshot (?:{_COMMANDS})")


class Sentence(NamedTuple):
    """A text of the library and where it stands."""

    where: str
    text: str


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
        *(f"{room}.{name}" for room in _WITH_VERBS for name in getattr(longshot, room).__all__),
    )
    return {parameter for name in names for parameter in _parameters(name)}


def _parameters(name: str) -> list[str]:
    value = pkgutil.resolve_name(f"longshot.{name}")
    try:
        parameters = signature(value).parameters
    except (TypeError, ValueError):  # a table, an exception class
        return []
    if name == "competition.ConnectedCompetition":  # whose methods are what is done with a competition
        methods = [method for key, method in vars(value).items() if not key.startswith("_")]
        return [parameter for method in methods for parameter in signature(method).parameters]
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
    settings = {room: names for cases in wing_cases("SETTINGS") for room, names in cases().items()}
    unknown = []
    for sentence in templates:
        own = settings.get(sentence.where.partition("/")[0], set())
        for mention in mentions(sentence.text):
            for name in {mention.name} if mention.arguments is None else {*mention.settings}:
                if name in own:
                    continue
                if name not in python_parameters:
                    unknown.append(f"{sentence.where}: {{{name}}} is no parameter in Python")
                if name not in options and name not in _OBJECTS:
                    unknown.append(f"{sentence.where}: {{{name}}} is no option of a command")
    assert not unknown, "\n".join(unknown)


def test_every_call_that_is_mentioned_exists(
    templates: list[Sentence], commands: dict[str, click.Command]
) -> None:
    calls = [
        (sentence.where, mention.name)
        for sentence in templates
        for mention in mentions(sentence.text)
        if mention.arguments is not None and mention.name not in longshot._ABSENT
    ]
    unknown = [f"{where}: longshot.{name} is no function" for where, name in calls if not find_function(name)]
    unknown += [
        f"{where}: there is no command for {name}"
        for where, name in calls
        if command_words(name) not in commands
    ]
    assert calls and not unknown, "\n".join(unknown)


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
    command = re.compile(rf"longshot (?:{_COMMANDS})\b")
    pages = {path.name: path.read_text("utf-8") for path in SOURCE.rglob("*.j2")}
    spoken = {name: _FLAG.findall(text) + command.findall(text) for name, text in pages.items()}
    assert len(pages) > 20 and not any(spoken.values()), spoken
