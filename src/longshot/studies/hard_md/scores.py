"""Accuracies of the study Hard-Meta-Dataset++ by testbed, backbone and method; differences are paired by task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import sqrt
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from longshot.core.arrays import Floats, Ints
from longshot.evaluation.inputs import backbone_name
from longshot.reports.sheets import SheetCell
from longshot.statistics import mean_interval
from longshot.studies.engine.rows import numbers, select_rows
from longshot.studies.engine.tables import Fact
from longshot.studies.engine.training import slug

if TYPE_CHECKING:
    from longshot.studies.hard_md.testbeds import HardTestbed
    from longshot.testbeds.testbed import Testbed


@dataclass(frozen=True)
class Mean:
    """A mean with half its 95 % interval, as shares."""

    mean: float
    half: float

    @classmethod
    def of(cls, values: Floats) -> Mean:
        """Over tasks [T]; the interval of a single task is 0."""
        interval = mean_interval(values)
        return cls(interval.mean, interval.half or 0.0)

    def text(self, signed: bool = False) -> str:
        """``41.2 ± 1.3`` in per cent, with its sign for differences."""
        return f"{100 * self.mean:{'+' if signed else ''}.1f} ± {100 * self.half:.1f}"


def cell(mean: Mean | None, signed: bool = False) -> SheetCell:
    """A mean in per cent; a dash where there is no number."""
    return SheetCell("–" if mean is None else mean.text(signed))


def mean_of(sources: Sequence[str]) -> str:
    """The head of a mean over sources, which says over which.

    >>> mean_of(["birds"]), mean_of(["birds", "fungi"])
    ('birds alone', 'mean of birds, fungi')
    """
    return f"{sources[0]} alone" if len(sources) == 1 else f"mean of {', '.join(sources)}"


def record(
    table: str, source: str, shape: str, kind: str, backbone: str, method: str, mean: Mean | None
) -> Fact:
    """One number as a CSV row; shares in full precision."""
    facts = {"table": table, "source": source, "shape": shape, "kind": kind, "backbone": backbone}
    values = (None, None) if mean is None else (mean.mean, mean.half)
    return {**facts, "method": method, "mean": values[0], "half": values[1]}


def ranks_of(values: Floats) -> Ints:
    """Rank 1 for the highest; the first of equals is ahead."""
    order = np.argsort(-values, kind="stable")
    ranks = np.empty(len(values), np.int64)
    ranks[order] = np.arange(1, len(values) + 1)
    return ranks


@dataclass(eq=False)
class HardScores:
    """Looks numbers up in the rows of the study's run.

    ``paths`` are the tested backbones, ``judge`` the one that chose supports, ``titles`` names for people by path.
    """

    table: pa.Table  # rows of the run
    testbeds: Mapping[HardTestbed, Testbed]
    paths: Sequence[str]
    judge_path: str
    titles_by_path: Mapping[str, str]

    def __post_init__(self) -> None:
        self._accuracy: dict[tuple[str, str, str], Floats | None] = {}

    @cached_property
    def titles(self) -> dict[str, str]:
        """Backbone as the results call it → its name for people, in the order asked for."""
        names = {path: backbone_name(path) for path in self.paths}
        return {name: self.titles_by_path.get(path, name) for path, name in names.items()}

    @cached_property
    def slugs(self) -> dict[str, str]:
        """Backbone as the results call it → how testbeds that it chose are called."""
        return {backbone_name(path): slug(path) for path in self.paths}

    @property
    def backbones(self) -> list[str]:
        """Names in the results, in the order asked for."""
        return list(self.titles)

    @property
    def judge(self) -> str:
        """The backbone that chose the supports."""
        return backbone_name(self.judge_path)

    def sources(self, shape: str) -> list[str]:
        """Sources that have tasks of this shape."""
        main = [bed for bed in self.testbeds if bed.purpose == "main" and bed.shape == shape]
        return list(dict.fromkeys(bed.source for bed in main))

    def accuracy(self, bed: HardTestbed, backbone: str, method: str = "protonet") -> Floats | None:
        """Accuracy per task [T]; None where it was not evaluated."""
        testbed = self.testbeds.get(bed)
        if testbed is None:
            return None
        key = (testbed.content_hash, backbone, method)
        if key not in self._accuracy:
            rows = select_rows(self.table, testbed, backbone, method)
            self._accuracy[key] = numbers(rows) if rows.num_rows else None
        return self._accuracy[key]

    def mean(self, bed: HardTestbed, backbone: str, method: str = "protonet") -> Mean | None:
        """Mean over tasks."""
        values = self.accuracy(bed, backbone, method)
        return None if values is None else Mean.of(values)

    def difference(
        self, first: tuple[HardTestbed, str], second: tuple[HardTestbed, str], method: str = "protonet"
    ) -> Mean | None:
        """The first (testbed, backbone) minus the second, paired by task; None where one was not evaluated."""
        minuend, subtrahend = (self.accuracy(*which, method) for which in (first, second))
        return None if minuend is None or subtrahend is None else Mean.of(minuend - subtrahend)

    def drop(self, bed: HardTestbed, backbone: str, method: str = "protonet") -> Mean | None:
        """Uniform minus difficult supports of the testbed's source, shape and purpose: the queries are the same."""
        pair = [(bed.of_kind(kind), backbone) for kind in ("uniform", "difficult")]
        return self.difference(pair[0], pair[1], method)

    def overall(self, means: Sequence[Mean | None]) -> Mean | None:
        """The mean over sources, each counting the same; independent sources, so half² = Σ half² / S².

        None unless every source has its number: a mean over other sources would not be comparable.
        """
        present = [mean for mean in means if mean is not None]
        if len(present) < len(means) or not present:
            return None
        count = len(present)
        half = sqrt(sum(mean.half**2 for mean in present)) / count
        return Mean(sum(mean.mean for mean in present) / count, half)

    def over_sources(self, bed: HardTestbed, backbone: str, method: str = "protonet") -> Mean | None:
        """The mean over all sources of a testbed like this one."""
        sources = self.sources(bed.shape)
        return self.overall([self.mean(bed.of_source(source), backbone, method) for source in sources])

    def ways(self, bed: HardTestbed) -> Floats:
        """Ways per task [T]."""
        ways: Floats = self.testbeds[bed].table.column("way").to_numpy().astype(np.float64)
        return ways
