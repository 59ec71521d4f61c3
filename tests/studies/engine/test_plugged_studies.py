"""Studies of other packages: found by name, listed, run; what is wrong with them is a sentence."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from longshot.base import Plugin, UserError
from longshot.studies import get_study, list_studies, run_study
from longshot.studies.engine.recipe import RECIPES, get_recipe
from longshot.studies.study_command import command

DOCS = Path(__file__).parents[3] / "docs/howto/new-study.md"
PRESET = """
name: {name}
recipe: guess
title: A guess
paper: Nobody, 2026
checked: by nobody
settings: {{seed: 0, tasks: 4}}
"""


@pytest.fixture
def plug(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """``plug(guess="their_package.study")``: a plugin with these studies; the package has a recipe and a preset."""
    presets = tmp_path / "their_package" / "presets"
    presets.mkdir(parents=True)
    (presets.parent / "__init__.py").write_text("")
    (example,) = re.findall(r"```python\n(.*?)```", DOCS.read_text("utf-8"), re.S)
    (presets.parent / "study.py").write_text(example, encoding="utf-8")
    (presets.parent / "empty.py").write_text("")
    for name in ("guess", "many-way"):
        (presets / f"{name}.yaml").write_text(PRESET.format(name=name))
    monkeypatch.syspath_prepend(tmp_path)

    def install(**studies: str) -> None:
        theirs = {"theirs": Plugin("Guessing.", studies=studies)}
        monkeypatch.setattr("longshot.base.plugins._entry_points", lambda: (theirs, {}))

    yield install
    for module in [name for name in sys.modules if name.partition(".")[0] == "their_package"]:
        del sys.modules[module]


def test_a_study_of_another_package_is_listed_and_run(
    plug: Callable[..., None], photos: Path, tmp_path: Path
) -> None:
    before = {study.name for study in list_studies()}
    plug(guess="their_package.study")
    assert {study.name for study in list_studies()} == before | {"guess"}
    assert "their_package.study" not in sys.modules  # a list loads no recipe
    printed = CliRunner().invoke(command, ["ls", "--json"]).stdout
    assert [study["title"] for study in json.loads(printed) if study["name"] == "guess"] == ["A guess"]
    outcome = run_study("guess", photos, out=tmp_path / "out", settings={"tasks": 3})
    assert [table.stem for table in outcome.tables] == ["claims", "shots"]
    assert "How much does accuracy rise with the shots?" in (tmp_path / "out/report.html").read_text("utf-8")


def test_a_plugin_takes_no_name_of_ours(plug: Callable[..., None]) -> None:
    plug(**{"guess": "their_package.study", "many-way": "their_package.study"})
    assert get_study("many-way").title != "A guess"
    assert get_recipe("many-way").__class__.__module__ == RECIPES["many-way"]


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (
            "no_such_package.study",
            "'guess' cannot be used: no_such_package.study cannot be imported: No module",
        ),
        (
            "their_package.nothing",
            "'guess' cannot be used: their_package.nothing cannot be imported: No module",
        ),
        ("their_package.empty", "The module their_package.empty defines no RECIPE; add RECIPE = MyRecipe()"),
    ],
)
def test_a_recipe_that_cannot_be_had_is_a_sentence(
    plug: Callable[..., None], module: str, message: str
) -> None:
    plug(guess=module)
    assert "better-testbed" in {study.name for study in list_studies()}
    with pytest.raises(UserError, match=message.replace("(", r"\(").replace(")", r"\)")):
        get_recipe("guess")
