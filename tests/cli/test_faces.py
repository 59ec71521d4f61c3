"""The same template in the words of each face."""

from __future__ import annotations

import click
import pytest

from longshot.base import PythonFace, UserError, render, speak_as
from longshot.cli.evaluate_commands import evaluate_command as evaluate
from longshot.cli.main import ShellFace, StudyFace, every_command


@pytest.mark.parametrize(
    ("template", "python", "shell"),
    [
        ("{way}", "way", "--way"),
        ("{tasks:600}", "tasks=600", "--tasks 600"),
        ("{drop_small:True}", "drop_small=True", "--drop-small"),
        ("{backbones:pixels}", 'backbones="pixels"', "--backbone pixels"),
        ("{out:easy.parquet}", 'out="easy.parquet"', "-o easy.parquet"),
        ("{testbeds}", "testbeds", "TESTBED…"),
        ("{list_backbones()}", "longshot.list_backbones()", "'longshot backbones'"),
        (
            "{sample(toybox, way=5, out=easy.parquet)}",
            'longshot.sample("toybox", way=5, out="easy.parquet")',
            "'longshot sample toybox --way 5 -o easy.parquet'",
        ),
    ],
)
def test_one_template_in_two_faces(template: str, python: str, shell: str) -> None:
    assert render(template, PythonFace()) == python
    assert render(template, ShellFace(evaluate)) == shell


def test_of_two_names_of_an_option_the_one_like_the_parameter_is_said() -> None:
    sample = dict(every_command())["sample"]
    assert render("{judge:pixels}", ShellFace(sample)) == "--judge pixels"


def test_a_study_names_its_settings_and_its_own_options() -> None:
    run = click.Command("run", params=[click.Option(["-o", "out"])])
    assert render("{way:5} {repeats:True} {out:x}", StudyFace(run)) == "--set way=5 --set repeats=true -o x"
    assert render("{allow_download:True}", StudyFace(run)).startswith("LONGSHOT_ALLOW_DOWNLOAD=1 ")


def test_an_error_speaks_as_the_face_that_runs() -> None:
    error = UserError("There are 3 classes and 5 are needed", "lower {way}")
    before = speak_as(ShellFace())
    try:
        assert str(error) == "There are 3 classes and 5 are needed; lower --way."
    finally:
        speak_as(before)
    assert str(error) == "There are 3 classes and 5 are needed; lower way."


def test_every_command_is_found() -> None:
    commands = dict(every_command())
    assert {"sample", "datasets overlap", "splits compare"} <= set(commands)
    assert all(isinstance(command, click.Command) for command in commands.values())
