"""Study files: what a preset says, and how settings are laid over it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Field

from longshot.core.errors import UserError
from longshot.core.settings import Record, nearest, read_record
from longshot.studies.engine.recipe import RECIPES, get_recipe
from longshot.studies.engine.settings import StudySettings


@dataclass(frozen=True)
class Study:
    """A recipe with its settings.

    ``text`` is the YAML it was read from, ``named`` the settings that it names: all of them in a preset.
    """

    name: str
    recipe: str
    version: int
    title: str
    paper: str
    checked: str
    settings: StudySettings
    text: str
    named: tuple[str, ...]


class StudyListing(NamedTuple):
    """What a list of studies tells of a preset; ``settings`` as they stand in its file."""

    name: str
    recipe: str
    version: int
    title: str
    paper: str
    settings: dict[str, Any]


class _StudyFile(Record):
    """The keys of a study file."""

    recipe: str
    name: str = ""
    version: int = 1
    title: str = ""
    paper: str = ""
    checked: str = ""
    settings: dict[str, Any] = Field(default_factory=dict)


def study_names() -> list[str]:
    """Names of the presets, sorted."""
    return sorted(_preset_files())


def _preset_files() -> dict[str, Traversable]:
    """Preset name → its file, in the package of its paper."""
    packages = dict.fromkeys(module.rpartition(".")[0] for module in RECIPES.values())
    listed = (file for package in packages for file in files(package).iterdir())
    return {file.name.removesuffix(".yaml"): file for file in listed if file.name.endswith(".yaml")}


def get_study(name: str) -> Study:
    """A preset by name; UserError with the nearest name when there is none."""
    presets = _preset_files()
    if name not in presets:
        raise UserError(f"There is no study '{name}'; {nearest(name, sorted(presets), 'the studies are')}")
    return _parse(presets[name].read_text(encoding="utf-8"), f"The study '{name}'", preset=True)


def read_study(path: str | Path) -> Study:
    """A study file of the user's own: a recipe and those settings that differ from the preset called like it."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise UserError(f"The study file {path} cannot be read: {why}; give a YAML file.") from error
    return parse(text, f"The study file {path}")


def parse(text: str, subject: str) -> Study:
    """A study from YAML, every key and setting checked; ``subject`` begins the sentence of an error."""
    return _parse(text, subject, preset=False)


def list_studies() -> list[StudyListing]:
    """Every preset as its file says, by name; nothing is checked, so that no method's code has to be loaded."""
    return [
        StudyListing(name, file.recipe, file.version, _line(file.title), _line(file.paper), file.settings)
        for name, preset in sorted(_preset_files().items())
        for file in [_read_file(preset.read_text(encoding="utf-8"), f"The study '{name}'")]
    ]


def _line(text: str) -> str:
    return " ".join(text.split())


def _read_file(text: str, subject: str) -> _StudyFile:
    import yaml

    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" in line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or "it cannot be parsed"
        raise UserError(f"{subject} is not valid YAML{where}: {problem}.") from error
    return read_record(_StudyFile, data, subject)


def _parse(text: str, subject: str, *, preset: bool) -> Study:
    file = _read_file(text, subject)
    if file.recipe not in RECIPES:
        raise UserError(f"{subject} has the recipe {file.recipe!r}; the recipes are {', '.join(RECIPES)}.")
    base = {} if preset else get_study(file.recipe).settings.plain()
    settings = read_record(get_recipe(file.recipe).settings, {**base, **file.settings}, subject)
    texts = {key: _line(getattr(file, key)) for key in ("name", "title", "paper", "checked")}
    texts["name"] = texts["name"] or file.recipe
    named = tuple(file.settings)
    return Study(recipe=file.recipe, version=file.version, settings=settings, text=text, named=named, **texts)


def layered(
    study: Study, config: str | Path | None = None, changes: Mapping[str, Any] | Sequence[str] = ()
) -> Study:
    """The study with the settings of a file laid over it, then ``changes`` by name or as ``key=value`` texts."""
    settings = study.settings.plain()
    if config is not None:
        own = read_study(config)
        if own.recipe != study.recipe:
            raise UserError(
                f"The study file {config} is of the recipe '{own.recipe}', but '{study.name}' is of "
                f"'{study.recipe}'; name a study of the same recipe."
            )
        plain = own.settings.plain()
        settings.update({key: plain[key] for key in own.named})
    settings.update(changes if isinstance(changes, Mapping) else read_changes(changes))
    return replace(study, settings=read_record(type(study.settings), settings, f"The study '{study.name}'"))


def read_changes(texts: Sequence[str]) -> dict[str, Any]:
    """Settings from ``key=value`` texts, whose values are YAML.

    >>> read_changes(["tasks=600", "shots=[1, 5]"])
    {'tasks': 600, 'shots': [1, 5]}
    """
    import yaml

    changes = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals:
            raise UserError(f"'{text}' is not of the form key=value, as in {{tasks:600}}.")
        try:
            changes[key.strip()] = yaml.safe_load(value)
        except yaml.YAMLError as error:
            raise UserError(
                f"The value in '{text}' cannot be read; write lists as '[1, 5]' and quote what holds a comma."
            ) from error
    return changes
