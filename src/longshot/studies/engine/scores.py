"""What a study's run measured, by testbed, network and method: the one place that selects its rows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from longshot.base import Floats
from longshot.studies.engine.claims import Measured, paired, unpaired
from longshot.studies.engine.training import TRAININGS

if TYPE_CHECKING:
    from longshot.evaluation import Results
    from longshot.studies.engine.comparisons import Side
    from longshot.tasks import Testbed


class Scores:
    """Looks numbers up in the rows of a run.

    Parameters
    ----------
    results : Results
        The run.
    testbeds : mapping
        Testbeds by name.
    networks : mapping
        Networks that the study trained: name → path. Other backbones go by their own names.
    """

    def __init__(
        self, results: Results, testbeds: Mapping[str, Testbed], networks: Mapping[str, str] | None = None
    ) -> None:
        self.results, self.testbeds, self.networks = results, testbeds, networks or {}
        self._rows: dict[tuple[str, str, str], pa.Table] = {}

    @cached_property
    def _table(self) -> pa.Table:
        return self.results.table()

    def rows(self, testbed: str, backbone: str, method: str) -> pa.Table:
        """The result rows of one testbed, backbone and method by task; none where they were not evaluated."""
        from longshot.evaluation import backbone_name

        key = (testbed, backbone, method)
        if key not in self._rows:
            named = recorded_name(self.results.run, backbone_name(self.networks.get(backbone, backbone)))
            self._rows[key] = select_rows(self._table, self.testbeds[testbed], named, method)
        return self._rows[key]

    def has(self, testbed: str, backbone: str, method: str) -> bool:
        """Whether there are rows."""
        return testbed in self.testbeds and self.rows(testbed, backbone, method).num_rows > 0

    def values(self, testbed: str, backbone: str, method: str, metric: str = "accuracy") -> Floats:
        """A column of the rows by task, [T]; shares where it is an accuracy."""
        return numbers(self.rows(testbed, backbone, method), metric)

    def column(self, testbed: str, name: str) -> Floats:
        """A column of a testbed itself, [T]: ``coarsity`` and the like."""
        return numbers(self.testbeds[testbed].table, name)

    def setting(self, method: str) -> str:
        """``inductive`` or ``transductive``."""
        return str(self.results.run["methods"][method]["setting"])

    def by_setting(self, methods: Iterable[str]) -> list[str]:
        """The methods, inductive ones first, else in their order."""
        return sorted(methods, key=self.setting)

    def of(self, side: Side, *, method: str = "", backbone: str = "", metric: str = "accuracy") -> Floats:
        """The values of one side of a comparison, [T]; ``method`` and ``backbone`` where the side leaves them open."""
        if side.testbed is None:
            raise ValueError(f"the side '{side.label}' names no testbed")
        return self.values(side.testbed.name, side.backbone or backbone, side.method or method, metric)

    def difference(
        self, label: str, first: Side, second: Side, printed: Any = None, **which: str
    ) -> Measured:
        """``first`` minus ``second``: paired by task where both have the same queries, by Welch's formula otherwise."""
        compare = paired if self.same_tasks(first, second) else unpaired
        return compare(label, self.of(first, **which), self.of(second, **which), printed)

    def same_tasks(self, first: Side, second: Side) -> bool:
        """Whether task i of both sides asks the same queries of the same classes."""
        assert first.testbed is not None and second.testbed is not None
        if first.testbed.name == second.testbed.name:
            return True
        tables = [
            self.testbeds[side.testbed.name].table for side in (first, second) if side.testbed is not None
        ]
        if tables[0].num_rows != tables[1].num_rows:
            return False
        columns = [[table[name].to_pylist() for name in ("classes", "query")] for table in tables]
        return bool(columns[0] == columns[1])


def select_rows(table: pa.Table, testbed: Testbed, backbone: str, method: str) -> pa.Table:
    """The rows of one testbed, backbone and method by task, wherever the study's folder lay when they were computed.

    A folder that was moved has its networks under two names, and may have the same rows twice; one of each is taken.
    """
    network = _inside_study(backbone)
    same = [name for name in table["backbone"].unique().to_pylist() if _inside_study(name) == network]
    mask = pc.and_(pc.equal(table["testbed"], testbed.content_hash), pc.equal(table["method"], method))
    rows = table.filter(pc.and_(mask, pc.is_in(table["backbone"], pa.array(same, pa.string()))))
    _, first = np.unique(rows["task"].to_numpy(), return_index=True)
    return rows.take(first)


def numbers(rows: pa.Table, column: str = "accuracy") -> Floats:
    """A column of result rows as float64 [T]."""
    values: Floats = rows[column].to_numpy().astype(np.float64)
    return values


def recorded_name(run: Mapping[str, Any], network: str) -> str:
    """What a run calls the network in a folder: networks of equal weights are one, called by the first of them.

    A training may keep the very weights that it started from, and two such trainings end in one network.
    ``A + B`` names several side by side.
    """
    from longshot.evaluation import backbone_parts

    recorded = run.get("backbones", {})
    if any(_inside_study(name) == _inside_study(network) for name in recorded):
        return network
    sidecars = [Path(part) / "network.json" for part in backbone_parts(network)]
    if not all(sidecar.is_file() for sidecar in sidecars):
        return network
    weights = [json.loads(sidecar.read_text(encoding="utf-8"))["weights_hash"] for sidecar in sidecars]
    for name, by_dataset in recorded.items():
        for facts in by_dataset.values():
            if [each.get("weights_hash") for each in facts["networks"]] == weights:
                return str(name)
    return network


def _inside_study(backbone: str) -> str:
    """A backbone without the path of the study whose network it is."""
    from longshot.evaluation import backbone_parts  # here, so that studies are listed without torch

    return " + ".join(_inside(part) for part in backbone_parts(backbone))


def _inside(backbone: str) -> str:
    parts = Path(backbone).parts
    if TRAININGS not in parts[:-1]:
        return backbone
    return "/".join(parts[len(parts) - 1 - parts[::-1].index(TRAININGS) :])
