"""Study files: presets are complete, settings are checked, mistakes are named."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from longshot.base import UserError
from longshot.studies import get_study, layered, read_study, study_names
from longshot.studies.engine.presets import parse
from longshot.studies.engine.recipe import RECIPES, get_recipe


@pytest.mark.parametrize("name", study_names())
def test_a_preset_names_all_settings_and_its_source(name: str) -> None:
    study = get_study(name)
    assert study.name == name
    fields = get_recipe(study.recipe).settings.model_fields
    assert set(study.settings.plain()) >= {field.alias or key for key, field in fields.items()}
    extends = yaml.safe_load(study.text).get("extends")
    assert extends in study_names() or set(study.named) == set(fields)
    assert all(field.description for field in fields.values())
    assert layered(study, None, study.settings.plain()) == study  # settings can be read again
    assert study.paper and study.checked and study.title
    assert study.recipe in RECIPES


def test_the_paper_preset_has_the_papers_settings() -> None:
    settings = get_study("better-testbed").settings.plain()
    expected = {"tasks": 5000, "way": 5, "shots": [1, 5], "query": 10, "alpha": 0.383, "beta": 100.0}
    assert {key: settings[key] for key in expected} == expected


def test_an_unknown_study_suggests_the_nearest() -> None:
    with pytest.raises(UserError, match="did you mean 'better-testbed'"):
        get_study("beter-testbed")


def test_settings_are_laid_over_each_other_file_then_set(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("recipe: better-testbed\nsettings:\n  tasks: 50\n  way: 4\n")
    study = layered(get_study("better-testbed"), file, ["way=3", "alpha=1e-3", "methods=[tim(lr=0.01)]"])
    values = [getattr(study.settings, key) for key in ("tasks", "way", "alpha", "methods", "query")]
    assert values == [50, 3, 0.001, ("tim(lr=0.01)",), 10]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("tasks=many", "tasks = 'many', but it must be a whole number of 8 or more"),
        ("tasks=true", "tasks = True, but it must be a whole number"),
        ("task=5", "has no setting 'task'; did you mean 'tasks'"),
        ("shots=[1, 1]", "shots = [1, 1], but its values must all be different"),
        ("shots=[]", "shots = [], but it must be of 1 or more entries"),
        ("shots=[1, few]", "shots.1 = 'few', but it must be a whole number of 1 or more"),
        ("alpha=-1", "alpha = -1, but it must be a number of 0 or more"),
        ("alpha=.nan", "must be a number of 0 or more"),
        ("alpha=.inf", "alpha = inf, but it must be a finite number"),
        ("drop_small=maybe", "must be true or false"),
        ("methods=[protonett]", "no method 'protonett'; did you mean 'protonet'"),
        ("methods=[]", "must be 'all' or a list of methods"),
        ("backbone=", "backbone = None, but it must be text"),
        ("tasks", "not of the form key=value"),
        ("shots=[1", "cannot be read; write lists as"),
    ],
)
def test_a_wrong_setting_is_named(change: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        layered(get_study("better-testbed"), None, [change])
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("recipe: [", "is not valid YAML in line 1"),
        ("- a", "must hold settings by name, but it holds a list"),
        ("", "must hold settings by name, but it holds nothing"),
        ("recipe: worse-testbed", "has the recipe 'worse-testbed'; the recipes are better-testbed, many-way"),
        ("recipe: many-way\nsetings: {}", "has no setting 'setings'; did you mean 'settings'"),
        ("recipe: many-way\nsettings: [1]", "settings = [1], but it must be settings by name"),
        ("recipe: many-way\nversion: one", "version = 'one', but it must be a whole number"),
        ("recipe: many-way\npaper: 5", "paper = 5, but it must be text"),
        ("recipe: many-way\nsettings:\n  alpha: 1", "has no setting 'alpha'"),
        ("recipe: !!python/object/apply:os.getcwd []", "is not valid YAML"),
    ],
)
def test_a_wrong_file_is_named(text: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        parse(text, "The file")
    assert message in str(caught.value)


def test_a_file_of_another_recipe_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "other.yaml"
    file.write_text("recipe: many-way\nsettings: {tasks: 50}\n")
    with pytest.raises(UserError, match="is of the recipe 'many-way', but 'better-testbed' is of"):
        layered(get_study("better-testbed"), file)


def test_a_missing_or_binary_file_is_named(tmp_path: Path) -> None:
    binary = tmp_path / "b.yaml"
    binary.write_bytes(b"\xff\xfe\x00")
    for path, why in ((tmp_path / "none.yaml", "No such file"), (binary, "not UTF-8")):
        with pytest.raises(UserError, match=why):
            read_study(path)


def test_a_file_extends_a_preset_and_a_file_extends_that(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text("extends: better-testbed-small\nsettings: {tasks: 50, way: 4}\n")
    (tmp_path / "mine.yaml").write_text("name: mine\nextends: base.yaml\nsettings: {way: 3}\n")
    study = read_study(tmp_path / "mine.yaml")
    small = get_study("better-testbed-small")
    assert (study.name, study.recipe, study.title) == ("mine", "better-testbed", small.title)
    expected = {**small.settings.plain(), "tasks": 50, "way": 3}
    assert study.settings.plain() == expected
    assert study.named == ("way",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("extends: better-testbedd", "There is no study 'better-testbedd'; did you mean 'better-testbed'"),
        ("extends: none.yaml", "none.yaml, which cannot be read"),
        ("extends: self.yaml", "extend each other without end"),
        ("extends: many-way\nrecipe: better-testbed", "but what it extends is of 'many-way'"),
        ("settings: {tasks: 5}", "lacks 'extends' and 'recipe'"),
    ],
)
def test_a_wrong_base_is_named(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "self.yaml").write_text(text)
    with pytest.raises(UserError) as caught:
        read_study(tmp_path / "self.yaml")
    assert message in str(caught.value)
