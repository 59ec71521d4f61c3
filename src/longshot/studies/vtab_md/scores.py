"""Accuracies of the study VTAB+MD: by row and source with intervals, aggregates that say what they are a mean of."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from longshot.core.ragged import Ragged
from longshot.core.wording import count
from longshot.evaluation.inputs import backbone_parts
from longshot.statistics import Interval, mean_interval, wilson
from longshot.studies.vtab_md.data import GROUPS, MD, VTAB, StudySource
from longshot.studies.vtab_md.plan import TRAININGS, ApproachRow

if TYPE_CHECKING:
    from longshot.testbeds.testbed import Testbed

Floats = NDArray[np.float64]
PARTS = ("md", "all", *GROUPS)


@dataclass(frozen=True)
class AggregatePart:
    """What an aggregate is a mean of: sources by name, and whether they are the whole benchmark and nothing else."""

    key: str
    sources: tuple[str, ...]
    official: int  # how many of them belong to the benchmark
    whole: int  # how many the benchmark has

    @property
    def complete(self) -> bool:
        """Whether the mean may bear the benchmark's name."""
        return self.official == self.whole == len(self.sources)

    @property
    def title(self) -> str:
        """The benchmark's name, or how far from it the sources are."""
        benchmark, thing = ("MD-v2", "source") if self.key == "md" else ("VTAB-v2", "task")
        kind = "" if self.key in ("md", "all") else f"{self.key} "
        if self.complete:
            return benchmark if self.key == "md" else f"VTAB ({self.key})"
        own = len(self.sources) - self.official
        besides = f" and {own} of your own" if own and self.official else ""
        if not self.official:
            return f"mean of {count(own, f'{kind}{thing}')}, none of {benchmark}"
        return f"mean of {self.official} of {self.whole} {kind}{thing}s of {benchmark}{besides}"

    @property
    def short(self) -> str:
        """As the title, where there is little room."""
        if self.complete:
            return self.title
        what = {"md": "episodes", "all": "big episodes"}.get(self.key, self.key)
        return f"{what}, {count(len(self.sources), 'source' if self.key == 'md' else 'task')}"


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
        return next(one.role for one in self.sources if one.name == source)

    def parts(self) -> list[AggregatePart]:
        """The aggregates that have at least one source here."""
        found = []
        for key in PARTS:
            mine = [s for s in self.sources if s.role == key or (key == "all" and s.role in GROUPS)]
            whole = len(MD) if key == "md" else sum(key in ("all", task.group) for task in VTAB.values())
            names = tuple(source.name for source in mine)
            if names:
                found.append(AggregatePart(key, names, sum(source.official for source in mine), whole))
        return found

    def aggregate(self, row: str, part: AggregatePart) -> Interval | None:
        """Mean over sources, each counting once: half² = Σ half_i² / k². None where the row lacks one of them."""
        found = [self.interval(row, source) for source in part.sources]
        known = [one for one in found if one is not None]
        if len(known) < len(found):
            return None
        mean = sum(one.mean for one in known) / len(known)
        halves = [one.half for one in known]
        if any(half is None for half in halves):
            return Interval(mean, None, None, len(known), "a source has one episode only")
        reach = math.sqrt(sum(half * half for half in halves if half is not None)) / len(known)
        return Interval(mean, mean - reach, mean + reach, len(known))

    def difference(self, one: str, other: str, source: str) -> Interval | None:
        """Accuracy of row ``one`` minus ``other`` on the episodes or test images that both have."""
        pair = [self.values.get((row, source)) for row in (one, other)]
        if pair[0] is None or pair[1] is None:
            return None
        both = min(len(pair[0]), len(pair[1]))  # fewer episodes are the first of more
        return mean_interval(pair[0][:both] - pair[1][:both])

    def marks(self, source: str) -> dict[str, str]:
        """Row → "best" for the highest mean, "tied" where the paired difference to it includes 0."""
        means = {row.name: found.mean for row in self.rows if (found := self.interval(row.name, source))}
        if len(means) < 2:
            return {}
        top = max(means, key=lambda name: means[name])
        shared = [name for name in means if name != top and not self._apart(top, name, source)]
        mark = "tied" if shared else "best"
        return dict.fromkeys([top, *shared], mark)

    def _apart(self, top: str, other: str, source: str) -> bool:
        found = self.difference(top, other, source)
        return found is not None and found.excludes(0.0)


def episode_values(table: pa.Table, bed: Testbed, backbone: str, method: str) -> Floats:
    """Accuracy per episode [T]."""
    found: Floats = _rows(table, bed, backbone, method)["accuracy"].to_numpy().astype(np.float64)
    return found


def image_values(table: pa.Table, bed: Testbed, backbone: str, method: str) -> Floats:
    """1 or 0 for every query image [Q], block by block: their mean weighs blocks by their images."""
    predictions = _rows(table, bed, backbone, method)["prediction"].combine_chunks()
    labels = bed.column("query_label").values
    found: Floats = (predictions.flatten().to_numpy() == labels).astype(np.float64)
    return found


def mean_accuracy(table: pa.Table, bed: Testbed, backbone: str, method: str) -> float:
    """Accuracy over all query images of a big episode."""
    return float(image_values(table, bed, backbone, method).mean())


def _rows(table: pa.Table, bed: Testbed, backbone: str, method: str) -> pa.Table:
    """The rows of one testbed, backbone and method by task, wherever the study lay when they were computed."""
    names = [one for one in table["backbone"].unique().to_pylist() if _place(one) == _place(backbone)]
    mine = pc.and_(
        pc.equal(table["testbed"], bed.content_hash),
        pc.and_(pc.is_in(table["backbone"], pa.array(names, pa.string())), pc.equal(table["method"], method)),
    )
    rows = table.filter(mine)
    # A study under another path has its networks under two names and may have the same rows twice.
    _, first = np.unique(rows["task"].to_numpy(), return_index=True)
    return rows.take(first)


def _place(backbone: str) -> str:
    """A backbone without the path of the study whose network it is."""
    parts = [Path(part).parts[-2:] for part in backbone_parts(backbone)]
    return " + ".join(
        "/".join(ends) if ends[:1] == (TRAININGS,) else part
        for ends, part in zip(parts, backbone_parts(backbone), strict=True)
    )


def supportless(bed: Testbed) -> int:
    """Classes of a big episode without a support image."""
    shots: Ragged = bed.column("shots")
    return int((shots.row(0) == 0).sum())
