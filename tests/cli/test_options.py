"""Options of the form NAME=VALUE."""

from __future__ import annotations

import click
import pytest

from longshot.base import UserError, datasets_option, pairs_option


@click.command()
@datasets_option()
@pairs_option("--fix", "fix", "NAME=VALUE", "Hold a parameter.")
def command(datasets: dict[str, str], fix: dict[str, str]) -> dict[str, dict[str, str]]:
    return {"datasets": datasets, "fix": fix}


def parsed(*arguments: str) -> dict[str, dict[str, str]]:
    """What the command receives."""
    received: dict[str, dict[str, str]] = command.main(list(arguments), standalone_mode=False)
    return received


def test_pairs_become_a_mapping() -> None:
    """What stands behind the first = is the value, whatever it holds."""
    arguments = ("--dataset", "a=./x", "--dataset", "b=c=d", "--fix", " lr = 1 ")
    assert parsed(*arguments) == {"datasets": {"a": "./x", "b": "c=d"}, "fix": {"lr": "1"}}


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
        parsed(*arguments)
    assert str(caught.value).startswith(message)
