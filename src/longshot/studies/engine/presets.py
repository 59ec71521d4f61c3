"""Study files: what a preset says, how settings are laid over it and checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from importlib import import_module
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Protocol

from longshot.core.errors import UserError
from longshot.studies.engine.fields import Fields

# recipe → module with FIELDS, plan, tables and figures; imported when a study of it is used
RECIPES = {
    "better-testbed": "longshot.studies.semantic.better_testbed",
    "many-way": "longshot.studies.semantic.many_way",
    "transfer-difficulty": "longshot.studies.transfer.difficulty",
    "divergence-correlation": "longshot.studies.transfer.correlation",
    "vtab-md": "longshot.studies.vtab_md.recipe",
    "cross-domain": "longshot.studies.cross_domain.recipe",
    "hard-md": "longshot.studies.hard_md.recipe",
}
_TEXTS = ("name", "title", "paper", "checked")
_KEYS = (*_TEXTS, "recipe", "version", "settings")


@dataclass(frozen=True)
class Study:
    """A recipe with its settings; ``text`` is the YAML it was read from."""

    name: str
    recipe: str
    version: int
    title: str
    paper: str
    checked: str
    settings: dict[str, Any]
    text: str


class _Recipe(Protocol):
    FIELDS: Fields


def fields_of(recipe: str) -> Fields:
    """The settings that a recipe takes."""
    module: _Recipe = import_module(RECIPES[recipe])
    return module.FIELDS


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
    names = study_names()
    if name not in names:
        near = get_close_matches(name, names, n=1, cutoff=0.5)
        hint = f"did you mean '{near[0]}'?" if near else f"the studies are {', '.join(names)}."
        raise UserError(f"There is no study '{name}'; {hint} See 'longshot study ls'.")
    text = _preset_files()[name].read_text(encoding="utf-8")
    study = parse(text, f"The study '{name}'")
    missing = [key for key in fields_of(study.recipe) if key not in study.settings]
    if missing:
        raise UserError(f"The study '{name}' lacks the setting '{missing[0]}'; a preset names all of them.")
    return study


def read_study(path: str | Path) -> Study:
    """A study file of the user's own: a recipe and those settings that differ from a preset."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise UserError(f"The study file {path} cannot be read: {why}; give a YAML file.") from error
    return parse(text, f"The study file {path}")


def parse(text: str, what: str) -> Study:
    """A study from YAML, every key and setting checked; ``what`` begins the sentence of an error."""
    import yaml

    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" in line {mark.line + 1}" if mark else ""
        raise UserError(
            f"{what} is not valid YAML{where}: {getattr(error, 'problem', None) or 'it cannot be parsed'}."
        ) from error
    if not isinstance(data, dict) or not all(isinstance(key, str) for key in data):
        raise UserError(f"{what} is not a YAML mapping; it needs at least the keys recipe and settings.")
    unknown = [key for key in data if key not in _KEYS]
    if unknown:
        raise UserError(f"{what} has the unknown key '{unknown[0]}'; the keys are {', '.join(_KEYS)}.")
    recipe = data.get("recipe")
    if recipe not in RECIPES:
        raise UserError(f"{what} has the recipe {recipe!r}; the recipes are {', '.join(RECIPES)}.")
    given = data.get("settings", {})
    if not isinstance(given, dict):
        raise UserError(f"{what} has settings that are not a mapping; write one 'name: value' per line.")
    version = data.get("version", 1)
    if not isinstance(version, int) or isinstance(version, bool):
        raise UserError(f"{what} has the version {version!r}; a version is a whole number.")
    for key in _TEXTS:
        if not isinstance(data.get(key, ""), str):
            raise UserError(f"{what} has a '{key}' that is not text; put it in quotes.")
    settings = check(given, fields_of(recipe), what)
    texts = {key: " ".join(data.get(key, "").split()) for key in _TEXTS}
    return Study(
        **{**texts, "name": texts["name"] or recipe},
        recipe=recipe,
        version=version,
        settings=settings,
        text=text,
    )


def check(given: Mapping[str, Any], fields: Fields, what: str) -> dict[str, Any]:
    """The settings in their final types; UserError for an unknown name or a value that does not fit."""
    settings = {}
    for key, value in given.items():
        if key not in fields:
            near = get_close_matches(str(key), fields, n=1, cutoff=0.6)
            hint = f"did you mean '{near[0]}'?" if near else f"the settings are {', '.join(fields)}."
            raise UserError(f"{what} has no setting '{key}'; {hint}")
        settings[key] = fields[key].read(value, f"{what} has the setting {key}")
    return settings


def layered(study: Study, config: str | Path | None = None, changes: Sequence[str] = ()) -> Study:
    """The study with the settings of a file laid over it, then ``key=value`` texts (values are YAML)."""
    import yaml

    settings = dict(study.settings)
    if config is not None:
        own = read_study(config)
        if own.recipe != study.recipe:
            raise UserError(
                f"The study file {config} is of the recipe '{own.recipe}', but '{study.name}' is of "
                f"'{study.recipe}'; name a study of the same recipe."
            )
        settings.update(own.settings)
    for change in changes:
        key, equals, text = change.partition("=")
        if not equals:
            raise UserError(f"'{change}' is not of the form key=value, as in --set tasks=600.")
        try:
            value = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise UserError(
                f"The value in '{change}' cannot be read; write lists as '[1, 5]' and quote what holds a comma."
            ) from error
        settings.update(check({key.strip(): value}, fields_of(study.recipe), f"The study '{study.name}'"))
    return replace(study, settings=settings)
