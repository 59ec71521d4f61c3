"""Accuracies of the study VTAB+MD: by row and source with intervals, aggregates that say what they are a mean of."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from longshot.base import Floats, Ragged, count
from longshot.statistics import Interval, mean_interval, wilson
from longshot.studies.engine.tables import TableRow, first_places
from longshot.studies.vtab_md.data import GROUPS, MD, VTAB, StudySource
from longshot.studies.vtab_md.networks import ApproachRow

if TYPE_CHECKING:
    from longshot.studies.engine.scores import Scores
    from longshot.tasks import Testbed

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
    settings: Mapping[tuple[str, str], str] = field(default_factory=dict)  # of its methods: (row, md or big)
    # half the interval of (row, source of episodes) that holds for other classes too
    over_classes: Mapping[tuple[str, str], float | None] = field(default_factory=dict)

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

    def paired(self, row: str, minus: str, source: str) -> Floats | None:
        """``row`` minus ``minus`` on every episode or test image that both have, [n]; None where one has none."""
        first, second = (self.values.get((approach, source)) for approach in (row, minus))
        if first is None or second is None:
            return None
        shared = min(len(first), len(second))  # fewer episodes are the first of more
        difference: Floats = first[:shared] - second[:shared]
        return difference

    def difference(self, row: str, minus: str, source: str) -> Interval | None:
        """The mean of :meth:`paired` with its 95 % interval."""
        values = self.paired(row, minus, source)
        return None if values is None else mean_interval(values)

    def marks(self, source: str) -> dict[str, str]:
        """Row → "best" or "tied" at the first place of a source, by the rule of all studies.

        Rows are ranked among those of their kind: inductive or transductive there, and trained on the same data.
        """
        return self._marks[source]

    @cached_property
    def _marks(self) -> dict[str, dict[str, str]]:
        """Source → row → mark; rows with fewer episodes are compared on those that all have."""
        # A row may be inductive on episodes and transductive on big ones: it stands in the table once for each.
        lines = [
            (row.name, kind, TableRow((row.name,), f"{self.settings.get((row.name, kind), '')}, {row.group}"))
            for row in self.rows
            for kind in ("md", "big")
        ]
        columns = []
        for source in self.sources:
            here = "md" if source.role == "md" else "big"
            listed = [
                self.values.get((name, source.name)) if kind == here else None for name, kind, _ in lines
            ]
            shared = min((len(values) for values in listed if values is not None), default=0)
            columns.append([None if values is None else values[:shared] for values in listed])
        by_source = first_places(columns, [line for _, _, line in lines])
        return {
            source.name: {name: mark for (name, _, _), mark in zip(lines, marks, strict=True) if mark}
            for source, marks in zip(self.sources, by_source, strict=True)
        }


def guessing_notes(scores: VtabScores) -> list[str]:
    """A sentence for every big episode on which rows are not told from guessing: their comparisons say little."""
    sentences = []
    for source in scores.sources:
        chance = 1 / len(source.data.class_ids)
        low = [
            row.name
            for row in scores.rows
            if source.role != "md"
            and (interval := scores.interval(row.name, source.name)) is not None
            and interval.low is not None
            and interval.low <= chance
        ]
        if low:
            sentences.append(
                f"Not told from guessing on {source.title} ({100 * chance:.2f} %): {', '.join(low)}; what is said of "
                "these rows there is said of methods that did not learn the task."
            )
    return sentences


def image_values(scores: Scores, testbed: str, backbone: str, method: str) -> Floats:
    """1 or 0 for every query image of a big episode [Q], block by block: their mean weighs blocks by their images."""
    predictions = scores.rows(testbed, backbone, method)["prediction"].combine_chunks()
    labels = scores.testbeds[testbed].column("query_label").values
    hits: Floats = (predictions.flatten().to_numpy() == labels).astype(np.float64)
    return hits


def supportless(testbed: Testbed) -> int:
    """Classes of a big episode without a support image."""
    shots: Ragged = testbed.column("shots")
    return int((shots.row(0) == 0).sum())
