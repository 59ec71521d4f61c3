"""Studies by name or file: what a preset says, how settings are laid over it, and running the recipe with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from importlib.resources.abc import Traversable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Field

from longshot.base import Record, UserError, nearest_name, read_record, with_engine, with_executor
from longshot.studies.engine.comparisons import StudySettings
from longshot.studies.engine.recipe import Datasets, get_recipe, given_datasets, recipe_modules
from longshot.studies.engine.study_folder import StudyEstimate, StudyJob, StudyOutcome

_DEEPEST = 20  # files that extend one another


@dataclass(frozen=True)
class Study:
    """A recipe with its settings.

    ``text`` is the file it was read from, ``named`` the settings that the file itself names; ``recipe`` is the name
    of a recipe, or the path of a Python file that defines one.
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

    recipe: str = ""
    extends: str = ""
    name: str = ""
    version: int | None = None
    title: str = ""
    paper: str = ""
    checked: str = ""
    settings: dict[str, Any] = Field(default_factory=dict)


def study_names() -> list[str]:
    """List the names of the presets, sorted."""
    return sorted(_preset_files())


def _preset_files() -> dict[str, Traversable]:
    """Map every preset to its file, in ``presets/`` beside its recipe's module; a plugin's takes no other's name."""
    presets: dict[str, Traversable] = {}
    for package in dict.fromkeys(map(_package_of, recipe_modules().values())):
        folder = files(package).joinpath("presets") if package else None
        for file in folder.iterdir() if folder is not None and folder.is_dir() else ():
            if file.name.endswith(".yaml"):
                presets.setdefault(file.name.removesuffix(".yaml"), file)
    return presets


def _package_of(module: str) -> str:
    """Name the package that a recipe's module lies in, without loading it; "" where there is none."""
    try:
        spec = find_spec(module)
    except ImportError:  # of a plugin; whoever uses its recipe is told
        return ""
    return "" if spec is None or spec.parent is None else spec.parent


def get_study(name: str) -> Study:
    """Return a preset by name; UserError with the nearest name when there is none."""
    presets = _preset_files()
    if name not in presets:
        raise UserError(
            f"There is no study '{name}'; {nearest_name(name, sorted(presets), 'the studies are')}"
        )
    return parse(presets[name].read_text(encoding="utf-8"), f"The study '{name}'", preset=True)


def read_study(path: str | Path) -> Study:
    """Read a study file of the user's own.

    YAML: ``extends`` names a preset or another file (or ``recipe`` the recipe, whose preset of the same name it then
    extends), ``settings`` are those that differ. Python: a file that defines ``RECIPE``.
    """
    file = Path(path)
    if file.suffix == ".py":
        return _from_python(file)
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise UserError(f"The study file {path} cannot be read: {why}; give a YAML file.") from error
    return parse(text, f"The study file {path}", folder=file.resolve().parent)


def list_studies() -> list[StudyListing]:
    """List all presets as their files describe them, by name; unchecked, so no method's code is loaded."""
    return [_listing(name) for name in study_names()]


def _listing(name: str) -> StudyListing:
    """Describe a preset, with what it takes from the one it extends."""
    file = read_record(
        _StudyFile, _load_yaml(_preset_files()[name].read_text("utf-8"), name), f"The study '{name}'"
    )
    base = _listing(file.extends) if file.extends else StudyListing("", file.recipe, 1, "", "", {})
    settings = {**base.settings, **file.settings}
    title, paper = _line(file.title) or base.title, _line(file.paper) or base.paper
    return StudyListing(name, base.recipe, file.version or base.version, title, paper, settings)


def _line(text: str) -> str:
    return " ".join(text.split())


def _from_python(path: Path) -> Study:
    """Read a study from a Python file: the recipe's settings, each with a default."""
    recipe = get_recipe(str(path))
    settings = read_record(recipe.settings, {"seed": 0}, f"The study file {path}")
    text = path.read_text(encoding="utf-8")
    title = recipe.title or path.stem
    return Study(path.stem, str(path.resolve()), 1, title, recipe.paper, "", settings, text, ())


def parse(
    text: str, subject: str, *, preset: bool = False, folder: Path | None = None, inside: int = 0
) -> Study:
    """Parse a study from YAML and check every key and setting; ``subject`` begins the sentence of an error.

    Files that it extends are read from ``folder``, at most 20 one inside the other.
    """
    file = read_record(_StudyFile, _load_yaml(text, subject), subject)
    if not file.recipe and not file.extends:
        raise UserError(
            f"{subject} lacks 'extends' and 'recipe'; add extends: with a study, as in many-way-small."
        )
    base: Study | None = None
    if file.extends:
        base = _extended(file.extends, subject, folder, inside)
    elif not preset:
        recipes = recipe_modules()
        if file.recipe not in recipes:
            raise UserError(
                f"{subject} has the recipe {file.recipe!r}; the recipes are {', '.join(recipes)}."
            )
        base = get_study(file.recipe)
    recipe = base.recipe if base is not None else file.recipe
    if file.recipe and file.recipe != recipe:
        raise UserError(
            f"{subject} has the recipe '{file.recipe}', but what it extends is of '{recipe}'; leave recipe out."
        )
    values = {**({} if base is None else base.settings.plain()), **file.settings}
    settings = read_record(get_recipe(recipe).settings, values, subject)
    texts = {key: _line(getattr(file, key)) for key in ("name", "title", "paper", "checked")}
    texts["name"] = texts["name"] or recipe
    for key in ("title", "paper", "checked"):
        texts[key] = texts[key] or ("" if base is None else getattr(base, key))
    version = file.version or (1 if base is None else base.version)
    named = tuple(file.settings)
    return Study(recipe=recipe, version=version, settings=settings, text=text, named=named, **texts)


def _load_yaml(text: str, subject: str) -> Any:
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" in line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or "it cannot be parsed"
        raise UserError(f"{subject} is not valid YAML{where}: {problem}.") from error


def _extended(name: str, subject: str, folder: Path | None, inside: int) -> Study:
    """Return the study that another extends: a preset, or a file beside it."""
    if not name.endswith((".yaml", ".yml", ".py")):
        return get_study(name)
    if inside >= _DEEPEST:
        raise UserError(
            f"{subject} extends files that extend each other without end; let one extend a preset."
        )
    path = Path(name) if folder is None else folder / name
    if path.suffix == ".py":
        return _from_python(path)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(
            f"{subject} extends {path}, which cannot be read; name a preset or a file beside it."
        ) from error
    return parse(text, f"The study file {path}", folder=path.parent, inside=inside + 1)


def layered(
    study: Study, config: str | Path | None = None, changes: Mapping[str, Any] | Sequence[str] = ()
) -> Study:
    """Return the study with the settings of a file, then ``changes`` by name or as ``key=value`` texts."""
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
    """Read settings from ``key=value`` texts, whose values are YAML.

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


@with_engine
@with_executor
def run_study(
    study: str | Path | Study,
    datasets: Datasets = (),
    *,
    out: str | Path,
    backbone: str | None = None,
    settings: Mapping[str, Any] | None = None,
    config: str | Path | None = None,
    workers: int | None = None,
    device: str = "auto",
    engine: str | None = None,
    on: str | None = None,
    gpus_per_worker: float | None = None,
    retry_failed: bool | None = None,
) -> StudyOutcome:
    """Run a paper's protocol on datasets of your own; the same call again does only what is missing.

    The folder gets report.html (the study), run.html (all its results), tables/ (.md, .tex, .csv), figures/ (.png,
    .svg), testbeds/, run/ (results) and study.json. A call with other methods or another backbone extends the run and
    writes tables and figures for those.

    Parameters
    ----------
    study : str, Path or Study
        A preset by name, a study file of your own, or a study from ``get_study`` and ``layered``.
    datasets : dataset, sequence or mapping
        What it runs on. A study over several datasets takes them by name, as a mapping or as texts
        ``NAME=PATH``.
    backbone : str, optional
        Backbone whose features to use; the same as --set backbone=…
    settings : KEY=VALUE, mapping, optional
        Change a setting; repeat for several.
    config : path, optional
        Study file whose settings replace the preset's. ``settings`` and ``backbone`` go on top.
    out : path
        Folder of the study. One in which another study has finished something is refused.
    workers : optional
        As in ``evaluate``.
    device, engine, on, gpus_per_worker, retry_failed : optional
        As in ``embed``.

    Returns
    -------
    StudyOutcome
        ``path``, ``tables``, ``figures``, ``notes`` on what could not be had, and what was done step by step.

    Examples
    --------
    >>> settings = {"tasks": 12, "way": 4, "shots": [1], "query": 3, "window": 5, "methods": ["protonet", "ridge"]}
    >>> outcome = run_study("better-testbed-small", "toybox", out="studies/better", settings=settings)
    >>> (outcome.path / "report.html").is_file()
    True
    """
    resolved = resolve_study(study, backbone=backbone, settings=settings, config=config)
    return run_opened(resolved, open_data(resolved, datasets), out, device=device, workers=workers)


def estimate_study(
    study: str | Path | Study,
    datasets: Datasets = (),
    *,
    out: str | Path,
    workers: int | None = None,
    device: str = "auto",
    **changes: Any,
) -> StudyEstimate:
    """Estimate what ``run_study`` with the same arguments would take in time and disk; write nothing.

    Testbeds that are not in the folder are drawn in memory, which is quick beside the rest.

    Returns
    -------
    StudyEstimate
        ``steps``: what is left of each, with ``seconds`` and ``bytes``; ``notes``.
    """
    resolved = resolve_study(study, **changes)
    data = open_data(resolved, datasets)
    job = StudyJob(resolved, resolved.settings, data, Path(out), device, workers)
    return get_recipe(resolved.recipe).estimate(job)


def resolve_study(
    study: str | Path | Study,
    *,
    backbone: str | None = None,
    settings: Mapping[str, Any] | None = None,
    config: str | Path | None = None,
) -> Study:
    """Return the study with its final settings: preset, then ``config``, ``settings`` and ``backbone``."""
    changes = {**(settings or {}), **({} if backbone is None else {"backbone": backbone})}
    if isinstance(study, Study):
        base = study
    elif isinstance(study, Path) or study.endswith((".yaml", ".yml", ".py")):
        base = read_study(study)
    else:
        base = get_study(study)
    return layered(base, config, changes)


def open_data(study: Study, datasets: Datasets) -> Any:
    """Open what a study runs on: one dataset, or what its recipe makes of several."""
    return get_recipe(study.recipe).open_data(study.settings, given_datasets(datasets), study.name)


def run_opened(
    study: Study, data: Any, out: str | Path, *, device: str = "auto", workers: int | None = None
) -> StudyOutcome:
    """Run a study with its final settings on data that its recipe has opened."""
    return get_recipe(study.recipe).run(StudyJob(study, study.settings, data, Path(out), device, workers))
