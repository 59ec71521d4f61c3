"""What a study's run measured, by testbed, network and method: the one place that selects its rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from longshot.core.arrays import Floats
from longshot.studies.engine.claims import Measured, paired, unpaired
from longshot.studies.engine.rows import numbers, recorded_name, select_rows

if TYPE_CHECKING:
    from longshot.evaluation.results import Results
    from longshot.studies.engine.comparisons import Side
    from longshot.testbeds.testbed import Testbed


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
        from longshot.evaluation.inputs import backbone_name

        key = (testbed, backbone, method)
        if key not in self._rows:
            named = backbone_name(self.networks.get(backbone, backbone))
            if backbone in self.networks:
                named = recorded_name(self.results.run, named)
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
