"""The command line and Python have the same parameters with the same defaults."""

from __future__ import annotations

from inspect import Parameter, signature
from pathlib import Path
from typing import Any

import click
import pytest

import longshot
from longshot.cli import command_words, every_command
from longshot.tasks import SampleSettings

# What belongs to a command line alone: how things are printed, a dry run, a list, an exit code.
_SHELL = {
    "help_all",
    "as_json",
    "dry_run",
    "show",
    "help",
    "markdown",
    "with_classes",
    "list_classes",
    "depth",
    "picture",
}
_WITHOUT_COMMAND = {
    "open_split": "a split is opened where it is named",
    "estimate": "the option --dry-run of its commands",
}
# Command → options that Python has elsewhere, and where.
_ELSEWHERE: dict[str, dict[str, str]] = {
    "embed": {
        "skip_bad": "open_dataset(skip_bad=True)",
        "out": "Features.save",
        "force": "Features.save",
        "backbones": "one call each",
    },
    "sample": {"datasets": "dataset, one or a list", "out": "Testbed.save"},
    "datasets overlap": {"fail_if_any": "Overlap.copies"},
    "evaluate": {"features": "backbones=Features.load(FILE)"},
    "datasets show": {
        "dataset": "spec",
        "quick": "show_dataset",
        "html": "show_dataset",
        "force": "show_dataset",
    },
    "compare": {"junit": "RunComparison as JUnit, for build servers", "force": "of its files"},
    "taxonomy show": {"force": "what draws the picture"},
}


@pytest.fixture(scope="module")
def commands() -> dict[str, click.Command]:
    return dict(every_command())


def parameters(name: str) -> dict[str, Any]:
    """Parameter → default; a required one has ``Parameter.empty``."""
    listed = signature(getattr(longshot, name)).parameters
    defaults = {parameter: each.default for parameter, each in listed.items()}
    if name == "sample":
        defaults |= dict.fromkeys(SampleSettings.__annotations__)
    return defaults


def plain(default: object) -> object:
    """A default without the difference between nothing, an empty list and a switch that is off."""
    if str(default).endswith("UNSET"):  # how later versions of click write that there is none
        return None
    if default in (None, False, Parameter.empty, "", "report.html") or default == () or default == {}:
        return None
    return str(default) if isinstance(default, Path) else default


@pytest.mark.parametrize("name", longshot._VERBS)
def test_every_option_is_a_parameter_with_the_same_default(
    name: str, commands: dict[str, click.Command]
) -> None:
    if name in _WITHOUT_COMMAND:
        pytest.skip(_WITHOUT_COMMAND[name])
    words = command_words(name)
    command, function = commands[words], parameters(name)
    differing = []
    for option in command.params:
        option_name = str(option.name)
        if option_name in _SHELL or option_name in _ELSEWHERE.get(words, {}):
            continue
        if option_name not in function:
            differing.append(f"{words}: {option_name} is no parameter of longshot.{name}")
            continue
        repeated = option.nargs == -1 or getattr(option, "multiple", False)
        default, expected = None if repeated else option.default, function[option_name]
        if plain(default) != plain(expected):
            differing.append(f"{words}: {option_name} is {default!r} there and {expected!r} in Python")
    assert not differing, "\n".join(differing)
