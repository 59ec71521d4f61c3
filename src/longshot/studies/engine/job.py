"""A study to run: its settings, the data, the folder, what computes; and what comes of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeAlias, TypeVar

from longshot.data import Dataset
from longshot.studies.engine.settings import StudySettings

if TYPE_CHECKING:
    from longshot.evaluation import Results
    from longshot.studies.engine.claims import JudgedClaim
    from longshot.studies.engine.presets import Study
    from longshot.studies.engine.tables import TableFile
    from longshot.tasks import Testbed

Settings = TypeVar("Settings", bound=StudySettings)
Data = TypeVar("Data")
Testbeds: TypeAlias = Mapping[str, "Testbed"]
DatasetsByName: TypeAlias = Mapping[str, Dataset]
Calls: TypeAlias = str | Sequence[str]  # methods


@dataclass(frozen=True)
class StudyOutcome:
    """What a study left in its folder."""

    path: Path
    notes: Sequence[str]
    did: Sequence[dict[str, str]]
    tables: Sequence[TableFile]
    figures: Sequence[str]
    claims: Sequence[JudgedClaim] = ()


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
        from longshot.evaluation import evaluate

        options = self._options(testbeds, datasets, into)
        return evaluate(testbeds, backbones=backbone, methods=methods, **options)

    def estimate(
        self, testbeds: Testbeds, backbone: str, methods: Calls, datasets: DatasetsByName
    ) -> list[dict[str, Any]]:
        """What ``evaluate`` would take in time and disk; nothing is written."""
        from longshot.evaluation import estimate_evaluation

        options = self._options(testbeds, datasets, "run")
        return estimate_evaluation(testbeds, backbones=backbone, methods=methods, **options)

    def _options(self, testbeds: Testbeds, datasets: DatasetsByName, into: str) -> dict[str, Any]:
        """Where to and with what; of the datasets those that are used."""
        used = {name for testbed in testbeds.values() for name in testbed.datasets}
        machine = {"device": self.device, "workers": self.workers, "seed": self.settings.seed}
        own = {name: data for name, data in datasets.items() if name in used}
        return {"out": self.out / into, "datasets": own, **machine}
