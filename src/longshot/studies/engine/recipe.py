"""What a recipe is: how a study opens its data, runs, and tells beforehand what it will cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

from longshot.core.errors import UserError
from longshot.datasets.dataset import Dataset
from longshot.studies.engine.data import GivenDataset
from longshot.studies.engine.folder import StudyFolder
from longshot.studies.engine.settings import StudySettings

if TYPE_CHECKING:
    from longshot.evaluation.results import Results
    from longshot.studies.engine.presets import Study
    from longshot.studies.engine.tables import TableFile
    from longshot.testbeds.testbed import Testbed

# recipe → its class, imported when a study of it is used
RECIPES = {
    "better-testbed": "longshot.studies.semantic.better_testbed:BetterTestbed",
    "many-way": "longshot.studies.semantic.many_way:ManyWay",
    "transfer-difficulty": "longshot.studies.transfer.difficulty:TransferDifficulty",
    "divergence-correlation": "longshot.studies.transfer.correlation:DivergenceCorrelation",
    "vtab-md": "longshot.studies.vtab_md.recipe:VtabMd",
    "cross-domain": "longshot.studies.cross_domain.recipe:CrossDomain",
    "hard-md": "longshot.studies.hard_md.recipe:HardMd",
}
Settings = TypeVar("Settings", bound=StudySettings)
Data = TypeVar("Data")
Testbeds = Mapping[str, "Testbed"]
DatasetsByName = Mapping[str, Dataset]
Calls = str | Sequence[str]  # methods


@dataclass(frozen=True)
class StudyOutcome:
    """What a study left in its folder."""

    path: Path
    notes: Sequence[str]
    did: Sequence[dict[str, str]]
    tables: Sequence[TableFile]
    figures: Sequence[str]


class StudyEstimate(NamedTuple):
    """What is left to do (step, testbed, method, left, seconds, bytes of each), and what there is to know about it."""

    steps: list[dict[str, Any]]
    notes: Sequence[str]


@dataclass(frozen=True, eq=False)
class StudyJob(Generic[Settings, Data]):
    """A study to run: its settings, the data it runs on, the folder it goes to, and what computes."""

    study: Study
    settings: Settings
    data: Data
    out: Path
    device: str = "auto"
    workers: int | None = None

    def evaluate(
        self, testbeds: Testbeds, backbone: str, methods: Calls, datasets: DatasetsByName, into: str = "run"
    ) -> Results:
        """Methods on testbeds through a backbone, into a folder of the study."""
        from longshot.evaluation.runner import evaluate

        options = self._options(testbeds, datasets, into)
        return evaluate(testbeds, backbones=backbone, methods=methods, **options)

    def estimate(
        self, testbeds: Testbeds, backbone: str, methods: Calls, datasets: DatasetsByName
    ) -> list[dict[str, Any]]:
        """What ``evaluate`` would take in time and disk; nothing is written."""
        from longshot.evaluation.estimates import estimate

        options = self._options(testbeds, datasets, "run")
        return estimate(testbeds, backbones=backbone, methods=methods, **options)

    def _options(self, testbeds: Testbeds, datasets: DatasetsByName, into: str) -> dict[str, Any]:
        """Where to and with what; of the datasets those that are used."""
        used = {name for testbed in testbeds.values() for name in testbed.datasets}
        machine = {"device": self.device, "workers": self.workers, "seed": self.settings.seed}
        own = {name: data for name, data in datasets.items() if name in used}
        return {"out": self.out / into, "datasets": own, **machine}


class Recipe(Protocol[Settings, Data]):
    """A paper's protocol: ``settings`` is the model of its settings."""

    @property
    def settings(self) -> type[Settings]:
        """The settings that every study of the recipe has."""
        ...

    def open_data(self, settings: Settings, datasets: Sequence[GivenDataset], name: str) -> Data:
        """What the study called ``name`` runs on; UserError where the datasets do not fit it."""
        ...

    def run(self, job: StudyJob[Settings, Data]) -> StudyOutcome:
        """Everything that is missing in the study's folder."""
        ...

    def estimate(self, job: StudyJob[Settings, Data]) -> StudyEstimate:
        """What ``run`` would take; nothing is written."""
        ...


def get_recipe(name: str) -> Recipe[Any, Any]:
    """The recipe by name; UserError with those there are."""
    if name not in RECIPES:
        raise UserError(f"There is no recipe {name!r}; the recipes are {', '.join(RECIPES)}.")
    module, _, class_name = RECIPES[name].partition(":")
    recipe: Recipe[Any, Any] = getattr(import_module(module), class_name)()
    return recipe


class OneDataset(Generic[Settings]):
    """Opens the one dataset of a study, and the folder that is bound to it."""

    def open_data(self, settings: Settings, datasets: Sequence[GivenDataset], name: str) -> Dataset:
        """The dataset; UserError where none or several were given."""
        if len(datasets) != 1:
            raise UserError(f"The study '{name}' takes one dataset and {len(datasets)} were given.")
        return datasets[0].open()

    def folder(self, job: StudyJob[Settings, Dataset]) -> StudyFolder:
        """The study's folder; UserError when it holds another study or another dataset's."""
        return StudyFolder(job.out, job.study, {"name": job.data.name, "fingerprint": job.data.fingerprint})
