"""What a recipe is: a question, settings, a plan of networks, testbeds and evaluations, and what is read off them.

Recipes come from the papers' packages, from plugins, and from Python files of one's own that define ``RECIPE``; such a
file is a program and runs with the rights of whoever starts the study, as any script does.
"""

from __future__ import annotations

import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, NamedTuple, TypeAlias

import numpy as np

from longshot.base import UserError, plugged
from longshot.data import Dataset, DatasetLike, as_dataset
from longshot.studies.engine.claims import Claim, judge
from longshot.studies.engine.comparisons import Comparison, Draw
from longshot.studies.engine.lab import Lab, Plan, say_left_out
from longshot.studies.engine.study_folder import (
    Data,
    Settings,
    StudyEstimate,
    StudyFolder,
    StudyJob,
    StudyOutcome,
)
from longshot.studies.engine.study_page import Drawings, Findings, finish
from longshot.studies.engine.study_tables import TableFile
from longshot.studies.engine.study_training import training_step
from longshot.tasks import Testbed

# datasets of a study: one, several (a text may be NAME=PATH), or by name
Datasets: TypeAlias = DatasetLike | Sequence[DatasetLike] | Mapping[str, DatasetLike]
_DRAWN = "halves of the classes at random"
NAME = re.compile(r"(?:(?P<role>[a-z]+):)?(?P<name>[A-Za-z0-9][A-Za-z0-9_.-]*)")


class GivenDataset(NamedTuple):
    """A dataset as it was given; ``name`` is None where none was."""

    name: str | None
    data: DatasetLike

    @property
    def label(self) -> str:
        """Return what to call it in a sentence."""
        return self.data.name if isinstance(self.data, Dataset) else str(self.data)

    def open(self) -> Dataset:
        """Open the dataset."""
        return as_dataset(self.data)


def given_datasets(datasets: Datasets) -> list[GivenDataset]:
    """List the datasets of a call; ``NAME=PATH`` texts are read by recipes that name their datasets."""
    if isinstance(datasets, Mapping):
        return [GivenDataset(name, data) for name, data in datasets.items()]
    listed = [datasets] if isinstance(datasets, str | Path | Dataset) else datasets
    return [GivenDataset(None, data) for data in listed]


def read_given(datasets: Sequence[GivenDataset]) -> tuple[dict[str, GivenDataset], list[GivenDataset]]:
    """Return the datasets that have a name (``NAME=PATH``) by name, and the plain ones."""
    named: dict[str, GivenDataset] = {}
    plain: list[GivenDataset] = []
    for dataset in datasets:
        name, data = dataset
        if name is None and isinstance(data, str):
            key, equals, spec = data.partition("=")
            if equals and NAME.fullmatch(key):
                name, data = key, spec
        if name is None:
            plain.append(dataset)
        elif name in named:
            raise UserError(f"The source '{name}' is given twice; leave one out.")
        else:
            named[name] = GivenDataset(name, data)
    return named, plain


def with_class_split(data: Dataset, seed: int) -> Dataset:
    """Return a dataset with train and test classes: its own, or halves drawn from a seed where it has none.

    What a study trains on is never what it tests on. ``splits_from`` of the dataset says that the study drew them.
    """
    if data.splits or len(data.class_ids) < 2:
        return data
    order = np.random.default_rng(seed).permutation(len(data.class_ids))
    halves = np.array_split(order, 2)
    parts = {
        part: tuple(data.class_ids[number] for number in sorted(half.tolist()))
        for part, half in zip(("train", "test"), halves, strict=True)
    }
    return replace(data, splits=parts, splits_from=f"{_DRAWN}, seed {seed}")


def say_class_split(data: Dataset) -> list[str]:
    """Return a sentence on the split that a study drew; none where the dataset has its own."""
    if not (data.splits_from or "").startswith(_DRAWN):
        return []
    sizes = " and ".join(f"{len(members)} {part}" for part, members in data.splits.items())
    return [
        f"{data.name} has no splits, so the study drew one ({data.splits_from}): {sizes} classes. Networks are trained "
        "on the train classes and tested on the test classes."
    ]


def check_names(names: Sequence[str]) -> None:
    """Raise UserError when two sources share a name."""
    repeated = [name for name in names if names.count(name) > 1]
    if repeated:
        raise UserError(
            f"Two sources are called '{repeated[0]}'; write NAME=PATH to call one of them otherwise."
        )


# recipe → the module that holds its RECIPE, imported when a study of it is used
RECIPES = {
    "better-testbed": "longshot.studies.semantic.better_testbed",
    "many-way": "longshot.studies.semantic.many_way",
    "transfer-difficulty": "longshot.studies.transfer.transfer_difficulty",
    "divergence-correlation": "longshot.studies.transfer.divergence_correlation",
    "vtab-md": "longshot.studies.vtab_md.vtab_md_recipe",
    "cross-domain": "longshot.studies.cross_domain.cross_domain_recipe",
    "hard-md": "longshot.studies.hard_md.hard_md_recipe",
}


class Recipe(ABC, Generic[Settings, Data]):
    """A paper's protocol, or one's own. The engine has the rest: folder, resuming, estimates, verdicts, the page.

    A recipe says what it asks (``question``), declares its ``settings``, plans, and reads tables, figures and claims
    off the :class:`Lab` in which the plan was carried out. ``binding`` names the settings that decide testbeds and may
    not change in one folder; None: all but methods and backbone.
    """

    settings: type[Settings]
    title: str = ""  # of a recipe in a file of one's own; presets have theirs
    paper: str = ""
    question: str = ""
    binding: Sequence[str] | None = None

    @abstractmethod
    def open_data(self, settings: Settings, datasets: Sequence[GivenDataset], name: str) -> Data:
        """Open what the study called ``name`` runs on; UserError where the datasets do not fit it."""

    @abstractmethod
    def sources(self, data: Data) -> Mapping[str, Dataset]:
        """Return the datasets by the names that draws use, in the order of the page."""

    @abstractmethod
    def plan(self, settings: Settings, data: Data) -> Plan:
        """List what to train, draw and evaluate, without computing; UserError where that is impossible."""

    @abstractmethod
    def tables(self, lab: Lab[Settings, Data]) -> Sequence[TableFile]:
        """Make all tables of the study."""

    def figures(self, lab: Lab[Settings, Data]) -> Drawings:
        """Map each figure's name to what draws it to a path without suffix; the first stands beside the verdicts."""
        return {}

    def comparisons(self, settings: Settings) -> Sequence[Comparison]:
        """List the comparisons, made before anything runs, so that an unfair one stops the study."""
        return ()

    def claims(self, settings: Settings) -> Sequence[Claim[Lab[Settings, Data]]]:
        """List the claims of the paper that the study tests."""
        return ()

    def work(self, lab: Lab[Settings, Data]) -> None:
        """Carry the plan out: networks, then testbeds, then evaluations."""
        lab.train_all()
        for draw in lab.plan.draws:
            lab.draw(draw)
        for evaluation in lab.plan.evaluations:
            lab.evaluate(evaluation.testbeds, evaluation.backbone, evaluation.methods)

    def run(self, job: StudyJob[Settings, Data]) -> StudyOutcome:
        """Run everything that is missing in the study's folder."""
        comparisons = list(self.comparisons(job.settings))
        plan = self.plan(job.settings, job.data)
        lab = self._lab(job, plan)
        lab.folder.save(notes=[*plan.absent, *plan.notes])
        self.work(lab)
        clean, with_judges = lab.cleaned(), lab.cleaned(judges=True)
        claims = judge(self.claims(job.settings), clean, with_judges)
        lab.notes += say_left_out(clean.scores)
        findings = Findings(
            tables=list(self.tables(lab)),
            figures=self.figures(lab),
            claims=claims,
            comparisons=comparisons,
            absent=lab.absent,
            notes=lab.notes,
            question=self.question,
            trainings=lab.networks,
        )
        return finish(job, lab.folder, lab.results, findings, list(lab.datasets.values()))

    def estimate(self, job: StudyJob[Settings, Data]) -> StudyEstimate:
        """Estimate what ``run`` would take: trainings by a few steps, evaluation with existing backbones."""
        list(self.comparisons(job.settings))
        plan = self.plan(job.settings, job.data)
        lab = self._lab(job, plan)
        lab.plan = plan = self.foreseen(lab)
        steps = self._trainings_left(lab)
        if steps:
            lab.notes.append("Times are those of the trainings; drawing and evaluation come on top.")
            return StudyEstimate(steps, [*lab.absent, *lab.notes])
        testbeds = {
            draw.name: testbed for draw in plan.draws if (testbed := self.trial(lab, draw)) is not None
        }
        for evaluation in plan.evaluations:
            named = {name: testbeds[name] for name in evaluation.testbeds if name in testbeds}
            if named:
                steps += job.estimate(
                    named, lab.backbone(evaluation.backbone), evaluation.methods, lab.datasets
                )
        return StudyEstimate(steps, [*lab.absent, *lab.notes])

    def foreseen(self, lab: Lab[Settings, Data]) -> Plan:
        """Return the plan to estimate: the lab's, unless a part of it follows from what another computes."""
        return lab.plan

    def trial(self, lab: Lab[Settings, Data], draw: Draw) -> Testbed | None:
        """Return a testbed for the estimate: that of the folder, or one of its shape; None leaves it out."""
        if lab.drawn(draw):
            return lab.draw(draw)
        return lab.folder.sampled(partial(draw.of_same_shape, lab.datasets[draw.source]))

    def _trainings_left(self, lab: Lab[Settings, Data]) -> list[dict[str, Any]]:
        """List the trainings that are not finished, with their times; the lab takes up the finished ones.

        Of trainings that differ in classes, seed and steps alone one is measured.
        """
        steps = []
        costs: dict[str, Any] = {}
        for name, training in lab.plan.networks.items():
            trained = {label: record.path for label, record in lab.networks.items()}
            ready = training.started_from(trained)
            if ready.finished(lab.folder):
                lab.train(name, training)
                continue
            while (start := lab.plan.networks.get(str(ready.options.get("start")))) is not None:
                ready = ready.begun_anew(start)
            if ready.kind not in costs:
                costs[ready.kind] = ready.cost(lab.job.device)
            cost = costs[ready.kind]
            seconds = cost["seconds"] * ready.options.get("steps", cost["steps"]) / max(1, cost["steps"])
            steps.append(training_step(name, len(training.data), seconds, cost["bytes"]))
        return steps

    def identity(self, data: Data) -> Mapping[str, str]:
        """Return ``name`` and ``fingerprint`` that bind a folder; constant where sources may be added."""
        datasets = self.sources(data)
        prints = ", ".join(dataset.fingerprint for dataset in datasets.values())
        return {"name": ", ".join(datasets), "fingerprint": prints}

    def _lab(self, job: StudyJob[Settings, Data], plan: Plan) -> Lab[Settings, Data]:
        folder = StudyFolder(job.out, job.study, self.identity(job.data), self.binding)
        return Lab(job, plan, folder, self.sources(job.data), list(plan.absent), list(plan.notes))


def recipe_modules() -> dict[str, str]:
    """Map every recipe to the module that holds it: those of Longshot, then those of plugins under other names."""
    return RECIPES | {name: module for name, module in plugged("studies").items() if name not in RECIPES}


def get_recipe(name: str) -> Recipe[Any, Any]:
    """Return a recipe by name, or from a Python file of one's own; UserError lists the known ones."""
    if name.endswith(".py"):
        return load_recipe(Path(name).resolve())
    modules = recipe_modules()
    if name not in modules:
        raise UserError(f"There is no recipe {name!r}; the recipes are {', '.join(modules)}.")
    try:
        module = import_module(modules[name])
    except ImportError as error:
        raise UserError(
            f"The recipe {name!r} cannot be used: {modules[name]} cannot be imported: {error}."
        ) from error
    return _recipe_in(module, f"The module {modules[name]}")


class OneDataset(Generic[Settings]):
    """Opens the one dataset of a study, and the folder that is bound to it."""

    def open_data(self, settings: Settings, datasets: Sequence[GivenDataset], name: str) -> Dataset:
        """Open the dataset; UserError where none or several were given."""
        if len(datasets) != 1:
            raise UserError(f"The study '{name}' takes one dataset and {len(datasets)} were given.")
        return datasets[0].open()

    def sources(self, data: Dataset) -> Mapping[str, Dataset]:
        """Return the one dataset by its name."""
        return {data.name: data}


@cache
def load_recipe(path: Path) -> Recipe[Any, Any]:
    """Load the recipe that a Python file defines; UserError where it has none. ``path`` is absolute."""

    if not path.is_file():
        raise UserError(
            f"The study file {path} does not exist; give a Python or YAML file, or a study by name."
        )
    name = f"longshot_study_{path.stem}"
    spec = spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module  # pydantic looks annotations up there
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise UserError(f"The study file {path} cannot be run: {type(error).__name__}: {error}.") from error
    return _recipe_in(module, f"The study file {path}")


def _recipe_in(module: ModuleType, subject: str) -> Recipe[Any, Any]:
    """Return what a module defines as ``RECIPE``; UserError, begun with ``subject``, where that is no recipe."""
    recipe = getattr(module, "RECIPE", None)
    if not isinstance(recipe, Recipe):
        raise UserError(
            f"{subject} defines no RECIPE; add RECIPE = MyRecipe(), where MyRecipe derives from "
            "longshot.studies.Recipe."
        )
    return recipe
