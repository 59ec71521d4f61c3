"""What the study of domains measured: normalised accuracies of every cell, all domains and runs together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from longshot.base import Floats, Ints
from longshot.studies.cross_domain.cells import (
    CONDITIONS,
    CROSS,
    FIXED,
    WITHIN,
    Condition,
    cells,
    testbed_name,
)
from longshot.studies.cross_domain.plan import DomainData
from longshot.studies.cross_domain.settings import CrossDomainSettings
from longshot.studies.engine.lab import Lab

METRIC = "normalized_accuracy"  # (b − 1/N) / (1 − 1/N), b the mean recall over the N classes of a task

DomainLab = Lab[CrossDomainSettings, DomainData]
Key: TypeAlias = tuple[Condition, str, str]  # condition, start, baseline


@dataclass(frozen=True, eq=False)
class KindTasks:
    """The T tasks of a kind of testbeds, over all domains and runs."""

    domain: NDArray[np.str_]  # [T]
    way: Ints
    shot: Ints  # the mean over the classes of a task, rounded

    def __len__(self) -> int:
        return len(self.way)


@dataclass(frozen=True, eq=False)
class DomainScores:
    """Tasks by kind, and the normalised accuracies [T] of every cell that is not left out."""

    tasks: Mapping[str, KindTasks]
    values: Mapping[Key, Floats]
    setting: Mapping[str, str]  # baseline → inductive or transductive

    def get(self, condition: Condition, start: str, method: str) -> Floats | None:
        """The scores of a cell; None where it is left out or was not run."""
        return self.values.get((condition, start, method))

    def methods(self, condition: Condition, start: str) -> list[str]:
        """The baselines that have scores, in the paper's order."""
        return [method for method in self.setting if (condition, start, method) in self.values]

    def matrix(self, condition: Condition, start: str) -> Floats:
        """Scores of those baselines side by side, [T, M]."""
        listed = [self.values[condition, start, method] for method in self.methods(condition, start)]
        return np.stack(listed, axis=1) if listed else np.empty((len(self.tasks[condition.kind]), 0))

    @property
    def domains(self) -> list[str]:
        """Names of the tested domains."""
        return list(dict.fromkeys(self.tasks[WITHIN].domain.tolist()))


def domain_scores(lab: DomainLab) -> DomainScores:
    """The numbers of the run, read once."""
    return lab.once("domain scores", lambda: _read(lab))


def _read(lab: DomainLab) -> DomainScores:
    settings, data = lab.settings, lab.data
    values: dict[Key, Floats] = {}
    setting: dict[str, str] = {}
    for method in settings.methods:
        for start in settings.starts:
            for condition in CONDITIONS:
                listed = cells(settings, data, condition, start, method)
                setting[method] = lab.scores.setting(listed[0].call)
                if not at_ceiling(lab, [cell.network for cell in listed]):
                    parts = [lab.scores.values(c.testbed, c.network, c.call, METRIC) for c in listed]
                    values[condition, start, method] = np.concatenate(parts)
    return DomainScores({kind: _tasks(lab, kind) for kind in (WITHIN, FIXED, CROSS)}, values, setting)


def at_ceiling(lab: DomainLab, networks: Sequence[str]) -> list[str]:
    """Those of the networks whose training ended at its ceiling in time."""
    return [name for name in networks if lab.networks[name].ceiling]


def _tasks(lab: DomainLab, kind: str) -> KindTasks:
    domains: list[str] = []
    ways: list[int] = []
    shots: list[float] = []
    for run in lab.data.runs:
        for domain in run.test:
            table = lab.testbeds[testbed_name(run, kind, domain.name)].table
            domains += [domain.name] * table.num_rows
            ways += table["way"].to_pylist()
            shots += [float(np.mean(counts)) for counts in table["shots"].to_pylist()]
    return KindTasks(np.array(domains), np.array(ways, np.int64), np.round(shots).astype(np.int64))
