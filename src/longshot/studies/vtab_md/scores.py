"""Accuracies of the study VTAB+MD: by row and source with intervals, aggregates that say what they are a mean of."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from longshot.core.arrays import Floats
from longshot.core.ragged import Ragged
from longshot.core.wording import count
from longshot.statistics import Interval, mean_interval, wilson
from longshot.studies.engine.rows import numbers, select_rows
from longshot.studies.engine.tables import TableRow, first_places
from longshot.studies.vtab_md.data import GROUPS, MD, VTAB, StudySource
from longshot.studies.vtab_md.plan import ApproachRow

if TYPE_CHECKING:
    from longshot.testbeds.testbed import Testbed

PARTS = ("md", "all", *GROUPS)


@dataclass(frozen=True)
class AggregatePart:
    """What an aggregate is a mean of: sources by name, and whether they are the whole benchmark and nothing else."""

    key: str
    sources: tuple[str, ...]
    official: int  # how many of them belong to the benchmark
    total: int  # how many the benchmark has

    @property
    def complete(self) -> bool:
        """Whether the mean may bear the benchmark's name."""
        return self.official == self.total == len(self.sources)

    @property
    def title(self) -> str:
        """The benchmark's name, or how far from it the sources are."""
        benchmark, noun = ("MD-v2", "source") if self.key == "md" else ("VTAB-v2", "task")
        kind = "" if self.key in ("md", "all") else f"{self.key} "
        if self.complete:
            return benchmark if self.key == "md" else f"VTAB ({self.key})"
        own = len(self.sources) - self.official
        besides = f" and {own} of your own" if own and self.official else ""
        if not self.official:
            return f"mean of {count(own, f'{kind}{noun}')}, none of {benchmark}"
        return f"mean of {self.official} of {self.total} {kind}{noun}s of {benchmark}{besides}"

    @property
    def short(self) -> str:
        """As the title, where there is little room."""
        if self.complete:
            return self.title
        kind = {"md": "episodes", "all": "big episodes"}.get(self.key, self.key)
        return f"{kind}, {count(len(self.sources), 'source' if self.key == 'md' else 'task')}"


@dataclass(frozen=True, eq=False)
class VtabScores:
    """``values[row, source]``: accuracy per episode [T], or 1 and 0 per query image of a big episode [Q]."""

    rows: Sequence[ApproachRow]
    sources: Sequence[StudySource]  # of episodes and of big episodes, in the order of the paper
    values: Mapping[tuple[str, str], Floats]

    def interval(self, row: str, source: str) -> Interval | None:
        """Mean with its 95 % interval: Student t over episodes, Wilson over the test images of a big episode."""
        values = self.values.get((row, source))
        if values is None:
            return None
        if self._role(source) == "md":
            return mean_interval(values)
        hits, count = float(values.sum()), len(values)
        low, high = wilson(hits, count)
        return Interval(hits / count, float(low), float(high), count)

    def _role(self, source: str) -> str:
        return next(member.role for member in self.sources if member.name == source)

    def parts(self) -> list[AggregatePart]:
        """The aggregates that have at least one source here."""
        parts = []
        for key in PARTS:
            members = [s for s in self.sources if s.role == key or (key == "all" and s.role in GROUPS)]
            total = len(MD) if key == "md" else sum(key in ("all", task.group) for task in VTAB.values())
            names = tuple(source.name for source in members)
            if names:
                parts.append(AggregatePart(key, names, sum(source.official for source in members), total))
        return parts

    def aggregate(self, row: str, part: AggregatePart) -> Interval | None:
        """Mean over sources, each counting once: half² = Σ half_i² / k². None where the row lacks one of them."""
        intervals = [self.interval(row, source) for source in part.sources]
        present = [interval for interval in intervals if interval is not None]
        if len(present) < len(intervals):
            return None
        mean = sum(interval.mean for interval in present) / len(present)
        halves = [interval.half for interval in present]
        if any(half is None for half in halves):
            return Interval(mean, None, None, len(present), "a source has one episode only")
        reach = math.sqrt(sum(half * half for half in halves if half is not None)) / len(present)
        return Interval(mean, mean - reach, mean + reach, len(present))

    def difference(self, row: str, minus: str, source: str) -> Interval | None:
        """Accuracy of ``row`` minus that of ``minus`` on the episodes or test images that both have."""
        pair = [self.values.get((approach, source)) for approach in (row, minus)]
        if pair[0] is None or pair[1] is None:
            return None
        shared = min(len(pair[0]), len(pair[1]))  # fewer episodes are the first of more
        return mean_interval(pair[0][:shared] - pair[1][:shared])

    def marks(self, source: str) -> dict[str, str]:
        """Row → "best" or "tied" at the first place of a source, by the rule of all studies."""
        return self._marks[source]

    @cached_property
    def _marks(self) -> dict[str, dict[str, str]]:
        """Source → row → mark; rows with fewer episodes are compared on those that all have."""
        columns = []
        for source in self.sources:
            listed = [self.values.get((row.name, source.name)) for row in self.rows]
            shared = min((len(values) for values in listed if values is not None), default=0)
            columns.append([None if values is None else values[:shared] for values in listed])
        by_source = first_places(columns, [TableRow((row.name,)) for row in self.rows])
        return {
            source.name: {row.name: mark for row, mark in zip(self.rows, marks, strict=True) if mark}
            for source, marks in zip(self.sources, by_source, strict=True)
        }


def episode_values(table: pa.Table, testbed: Testbed, backbone: str, method: str) -> Floats:
    """Accuracy per episode [T]."""
    return numbers(select_rows(table, testbed, backbone, method))


def image_values(table: pa.Table, testbed: Testbed, backbone: str, method: str) -> Floats:
    """1 or 0 for every query image [Q], block by block: their mean weighs blocks by their images."""
    predictions = select_rows(table, testbed, backbone, method)["prediction"].combine_chunks()
    hits: Floats = (predictions.flatten().to_numpy() == testbed.column("query_label").values).astype(
        np.float64
    )
    return hits


def mean_accuracy(table: pa.Table, testbed: Testbed, backbone: str, method: str) -> float:
    """Accuracy over all query images of a big episode."""
    return float(image_values(table, testbed, backbone, method).mean())


def supportless(testbed: Testbed) -> int:
    """Classes of a big episode without a support image."""
    shots: Ragged = testbed.column("shots")
    return int((shots.row(0) == 0).sum())
