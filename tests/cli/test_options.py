"""Options that are made from a verb: types, defaults and help come from its signature and docstring."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import click
import pytest
from click.testing import CliRunner

import longshot
from longshot.base import UserError, VerbOption, verb_options, verb_parameters
from longshot.cli import command_words, every_command

COMMANDS = dict(every_command())


def option(verb: str, name: str, **changes: Any) -> click.Option:
    """The option of one parameter."""

    @click.command()
    @verb_options(verb, {name: changes}, only=name)
    def command(**_: Any) -> None: ...

    (made,) = command.params
    assert isinstance(made, VerbOption)
    return made


def parsed(verb: str, name: str, *arguments: str) -> Any:
    """What a command receives for a parameter."""

    @click.command()
    @verb_options(verb, only=name)
    def command(**values: Any) -> Any:
        return values[name]

    return command.main(list(arguments), standalone_mode=False)


@pytest.mark.parametrize("verb", [verb for verb in longshot._VERBS if command_words(verb) in COMMANDS])
def test_an_option_that_is_a_parameter_comes_from_it(verb: str) -> None:
    """Declared once: no command repeats by hand what a verb's signature and docstring say."""
    by_hand = [
        param.name
        for param in COMMANDS[command_words(verb)].params
        if isinstance(param, click.Option)
        and not isinstance(param, VerbOption)
        and param.name in verb_parameters(verb)
    ]
    # ``embed -o`` is a copy that Features.save writes; it is no parameter of embed
    assert by_hand == []


def test_the_number_of_options_by_hand() -> None:
    """What is no parameter of a verb stays by hand; the number may fall."""
    options = [p for command in COMMANDS.values() for p in command.params if isinstance(p, click.Option)]
    by_hand = [each for each in options if not isinstance(each, VerbOption)]
    assert len(options) - len(by_hand) >= 349
    assert len(by_hand) <= 148


def test_every_option_of_a_verb_has_help() -> None:
    options = [p for command in COMMANDS.values() for p in command.params if isinstance(p, VerbOption)]
    assert [f"{each.verb} {each.name}" for each in options if not each.help] == []
    assert [f"{each.verb} {each.name}" for each in options if "``" in (each.help or "")] == []


def test_numbers_have_their_bounds() -> None:
    tasks = option("sample", "tasks")
    assert (tasks.opts, tasks.default) == (["-t", "--tasks"], 600)
    assert isinstance(tasks.type, click.IntRange) and tasks.type.min == 1
    assert tasks.help == "Tasks to draw from each dataset."
    level = option("explain", "level").type
    assert isinstance(level, click.FloatRange) and (level.min, level.min_open, level.max) == (0, True, 1)
    similarity = option("find_overlap", "similarity").type
    assert isinstance(similarity, click.FloatRange) and (similarity.min, similarity.max) == (-1, 1)


def test_choices_come_from_braces_and_from_a_literal() -> None:
    in_braces, literal = option("embed", "dtype").type, option("sample", "keep").type
    assert isinstance(in_braces, click.Choice) and list(in_braces.choices) == ["float16", "float32"]
    assert isinstance(literal, click.Choice) and list(literal.choices) == ["hardest", "easiest"]


def test_lists_may_be_repeated_under_one_name() -> None:
    backbones = option("evaluate", "backbones")
    assert (backbones.opts, backbones.multiple, backbones.required) == (["-b", "--backbone"], True, True)
    assert parsed("evaluate", "methods", "-m", "ridge", "--method", "tim") == ("ridge", "tim")


def test_switches() -> None:
    assert (
        parsed("evaluate", "save_scores") is False
        and parsed("evaluate", "save_scores", "--save-scores") is True
    )
    assert (
        parsed("make_split", "hardness") is True
        and parsed("make_split", "hardness", "--no-hardness") is False
    )
    assert (
        parsed("embed", "retry_failed") is None and parsed("embed", "retry_failed", "--retry-failed") is True
    )


def test_numbers_with_commas() -> None:
    assert parsed("make_split", "sweep", "--sweep", "0.2,0.4") == (0.2, 0.4)
    with pytest.raises(UserError, match="--sweep 'a,b' is not a list of numbers with commas between"):
        parsed("make_split", "sweep", "--sweep", "a,b")


def test_a_default_that_the_signature_cannot_say_is_shown() -> None:
    assert option("evaluate", "workers").help == "Threads; they change no result.  [default: one per core]"


def test_entries_refer_to_each_other() -> None:
    """``device`` of ``evaluate`` is described in ``embed``, ``datasets`` of ``bench`` in ``evaluate``."""
    assert option("evaluate", "device").help == option("embed", "device").help
    assert option("bench", "datasets").metavar == "NAME=PATH"


def test_parameters_are_mentioned_as_flags() -> None:
    assert (option("compare", "against").help or "").startswith(
        "The method in B, where it is another than that of --method;"
    )

    @click.command()
    @verb_options("sample", {"published": {"flags": ["--import"]}}, only="class_order published")
    def command(**_: Any) -> None: ...

    assert (command.params[0].help or "").startswith("With --import: ")  # type: ignore[attr-defined]


def test_pairs_become_a_mapping() -> None:
    """What stands behind the first = is the value, whatever it holds."""
    arguments = ("--dataset", "a=./x", "--dataset", "b=c=d")
    assert parsed("evaluate", "datasets", *arguments) == {"a": "./x", "b": "c=d"}
    assert parsed("tune", "fix", "--fix", " lr = 1 ") == {"lr": "1"}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["a"], "--dataset 'a' must have the form NAME=PATH, such as --dataset birds=./birds."),
        (["=x"], "--dataset '=x' must have the form NAME=PATH"),
        (["a="], "--dataset 'a=' must have the form NAME=PATH"),
        (["a=x", "a=y"], "--dataset names 'a' twice; give it once."),
    ],
)
def test_pairs_that_are_none(values: list[str], message: str) -> None:
    arguments = [part for value in values for part in ("--dataset", value)]
    with pytest.raises(UserError) as caught:
        parsed("evaluate", "datasets", *arguments)
    assert str(caught.value).startswith(message)


def test_help_imports_nothing_heavy() -> None:
    """Signatures and docstrings are read from the source: help of every command needs neither torch nor pandas."""
    code = (
        "import sys; from longshot.cli import every_command; [*every_command()];"
        "heavy = {'torch', 'pandas', 'scipy', 'matplotlib', 'longshot.tasks.sampling', 'longshot.evaluation.runner'};"
        "assert not heavy & {*sys.modules}, heavy & {*sys.modules}"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_wrong_value_is_told_with_its_bounds() -> None:
    @click.command()
    @verb_options("sample", only="tasks")
    def command(**_: Any) -> None: ...

    result = CliRunner().invoke(command, ["-t", "0"])
    assert result.exit_code == 2 and "0 is not in the range x>=1" in result.output
