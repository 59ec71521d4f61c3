"""Accuracies of the study Hard-Meta-Dataset++ by testbed, backbone and method; differences are paired by task.

From them: why difficult supports are difficult.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import sqrt

import numpy as np

from longshot.base import Floats, Ints
from longshot.diagnosis import Composition, Explanation, explain_testbed
from longshot.reports import SheetCell
from longshot.statistics import mean_interval, plus_minus, widths_differ
from longshot.studies.engine.study_tables import Fact
from longshot.studies.hard_md.hard_md_plan import HardLab, here, planned_beds
from longshot.studies.hard_md.hard_md_testbeds import KINDS, HardSettings, HardTestbed, main

JUDGE = "†"  # marks the network that chose the supports


@dataclass(frozen=True)
class Mean:
    """A mean with half its 95 % interval over tasks, as shares; and that over classes where they are known."""

    mean: float
    half: float
    over_classes: float | None = None

    @classmethod
    def of(cls, values: Floats) -> Mean:
        """Average over tasks [T]; the interval of a single task is 0."""
        interval = mean_interval(values)
        return cls(interval.mean, interval.half or 0.0)

    def text(self, signed: bool = False) -> str:
        """Format as ``41.2 ± 1.3`` in per cent, signed for differences; over classes too if that differs."""
        wider = self.over_classes if widths_differ(self.half, self.over_classes) else None
        return plus_minus(self.mean, self.half, signed=signed, over_classes=wider)


def cell(mean: Mean | None, signed: bool = False, mark: str = "") -> SheetCell:
    """Format a mean in per cent; a dash where there is no number."""
    return SheetCell("–" if mean is None else mean.text(signed), mark)


def mean_of(sources: Sequence[str]) -> str:
    """Return the head of a mean over sources, which says over which.

    >>> mean_of(["birds"]), mean_of(["birds", "fungi"])
    ('birds alone', 'mean of birds, fungi')
    """
    return f"{sources[0]} alone" if len(sources) == 1 else f"mean of {', '.join(sources)}"


def overall(means: Sequence[Mean | None]) -> Mean | None:
    """Average over sources, each counting the same; independent sources, so half² = Σ half² / S².

    None unless every source has its number: a mean over other sources would not be comparable.
    """
    present = [mean for mean in means if mean is not None]
    if len(present) < len(means) or not present:
        return None
    half = sqrt(sum(mean.half**2 for mean in present)) / len(present)
    return Mean(sum(mean.mean for mean in present) / len(present), half)


def record(
    table: str, source: str, shape: str, kind: str, backbone: str, method: str, mean: Mean | None
) -> Fact:
    """Return one number as a CSV row; shares in full precision."""
    facts = {"table": table, "source": source, "shape": shape, "kind": kind, "backbone": backbone}
    values = (None, None) if mean is None else (mean.mean, mean.half)
    return {**facts, "method": method, "mean": values[0], "half": values[1]}


def ranks_of(values: Floats) -> Ints:
    """Rank values, 1 for the highest; the first of equals is ahead."""
    order = np.argsort(-values, kind="stable")
    ranks = np.empty(len(values), np.int64)
    ranks[order] = np.arange(1, len(values) + 1)
    return ranks


def hard_scores(lab: HardLab) -> HardScores:
    """Return the numbers of a lab, looked up once."""
    return lab.once("hard scores", lambda: HardScores(lab))


@dataclass(eq=False)
class HardScores:
    """The study's testbeds as cells of its tables, over the scores of the lab."""

    lab: HardLab

    @cached_property
    def settings(self) -> HardSettings:
        """Return the settings as they are on the sources at hand."""
        return here(self.lab.settings, self.lab.data)

    @cached_property
    def planned(self) -> dict[str, HardTestbed]:
        """Map names to testbeds, drawn or not."""
        return planned_beds(self.settings, self.lab.data)

    @property
    def beds(self) -> list[HardTestbed]:
        """List the testbeds that were drawn."""
        return [bed for name, bed in self.planned.items() if name in self.lab.testbeds]

    @property
    def backbones(self) -> Sequence[str]:
        """List the tested backbones by name, in the order asked for."""
        return self.settings.backbones

    @property
    def judge(self) -> str:
        """Return the backbone that chose the supports."""
        return self.settings.judge

    @cached_property
    def why(self) -> Why:
        """Explain what the supports are made of."""
        return self.lab.once("why", lambda: explain_supports(self), of_scores=False)

    def title(self, backbone: str) -> str:
        """Return a backbone's name, the judge's with its mark."""
        return f"{backbone} {JUDGE}" if backbone in self.judging else backbone

    @cached_property
    def judging(self) -> frozenset[str]:
        """Return the backbone that chose the supports, and those that started from it."""
        beds = [bed.name for bed in self.beds if bed.purpose == "main"]
        chose = [name for name in self.backbones if any(self.lab.scores.chose(bed, name) for bed in beds)]
        return frozenset([self.judge, *chose])

    def sources(self, shape: str) -> list[str]:
        """List the sources that have tasks of this shape."""
        return list(
            dict.fromkeys(bed.source for bed in self.beds if bed.purpose == "main" and bed.shape == shape)
        )

    def accuracy(self, bed: HardTestbed, backbone: str, method: str = "protonet") -> Floats | None:
        """Return accuracy per task [T]; None where it was not evaluated."""
        scores = self.lab.scores
        return scores.values(bed.name, backbone, method) if scores.has(bed.name, backbone, method) else None

    def mean(self, bed: HardTestbed, backbone: str, method: str = "protonet") -> Mean | None:
        """Average accuracy over tasks; None where it was not evaluated."""
        values = self.accuracy(bed, backbone, method)
        return None if values is None else Mean.of(values)

    def difference(
        self, first: tuple[HardTestbed, str], second: tuple[HardTestbed, str], method: str = "protonet"
    ) -> Mean | None:
        """Subtract the second (testbed, backbone) from the first, paired by task; None if one is missing."""
        minuend, subtrahend = (self.accuracy(*which, method) for which in (first, second))
        return None if minuend is None or subtrahend is None else Mean.of(minuend - subtrahend)

    def drop(self, bed: HardTestbed, backbone: str, method: str = "protonet") -> Mean | None:
        """Measure uniform minus difficult supports of the same source, shape and purpose: equal queries."""
        pair = [(bed.of_kind(kind), backbone) for kind in ("uniform", "difficult")]
        drop = self.difference(pair[0], pair[1], method)
        if drop is None:
            return None
        return Mean(drop.mean, drop.half, self._over_classes([bed for bed, _ in pair], backbone, method))

    def _over_classes(self, beds: Sequence[HardTestbed], backbone: str, method: str) -> float | None:
        """Return half the interval of a difference that holds for other classes too."""
        from longshot.evaluation import ClassIntervals

        rows = [self.lab.scores.rows(bed.name, backbone, method) for bed in beds]
        if any("prediction" not in each.column_names for each in rows):
            return None
        queries = ClassIntervals(self.lab.testbeds[beds[0].name], rows[0]["task"].to_numpy())
        first, second = (queries.right(each["prediction"]) for each in rows)
        return queries.interval(first - second).half

    def shared(self, beds: Iterable[HardTestbed], rows: Iterable[tuple[str, str]]) -> list[str]:
        """List sources where every row (backbone, method) has every testbed; ignore cells that none has."""
        rows = list(rows)
        shared: list[str] | None = None
        for bed in beds:
            for pair in rows:
                own = [
                    source
                    for source in self.sources(bed.shape)
                    if self.accuracy(bed.of_source(source), *pair) is not None
                ]
                if own:
                    shared = own if shared is None else [source for source in shared if source in own]
        return shared or []

    def stress_rows(self) -> list[tuple[str, str]]:
        """List (backbone, method) of the stress test."""
        return [(backbone, method) for backbone in self.backbones for method in self.settings.methods]

    def ways(self, bed: HardTestbed) -> Floats:
        """Count the ways of each task [T]."""
        return self.lab.scores.column(bed.name, "way")


def stress_shared(scores: HardScores, shape: str) -> list[str]:
    """List the sources that all rows of the stress test of this shape share."""
    return scores.shared([main(shape, kind) for kind in ("uniform", "difficult")], scores.stress_rows())


@dataclass(frozen=True)
class Why:
    """Per source: the compositions of the three kinds of supports, and the explanation of the difficult ones."""

    compositions: Mapping[str, Mapping[str, Sequence[Composition]]]  # source → kind → columns
    explained: Mapping[str, Explanation]
    notes: Sequence[str]


def explain_supports(scores: HardScores) -> Why:
    """Explain the difficult testbed of every source (fixed shape where there is one), and compose all three."""
    lab = scores.lab
    compositions: dict[str, dict[str, Sequence[Composition]]] = {}
    explained: dict[str, Explanation] = {}
    notes: list[str] = []
    [label, *_] = lab.scores.labels(scores.judge) or [scores.judge]  # what the run calls it
    for source, data in lab.datasets.items():
        beds = {shape: {kind: main(shape, kind, source) for kind in KINDS} for shape in ("fixed", "variable")}
        complete = [
            kinds for kinds in beds.values() if all(bed.name in lab.testbeds for bed in kinds.values())
        ]
        if not complete:
            continue
        by_kind: dict[str, Explanation] = {}
        for kind, bed in complete[0].items():
            judged = kind == "difficult" and scores.accuracy(bed, scores.judge) is not None
            by_kind[kind] = explain_testbed(
                lab.testbeds[bed.name],
                {source: data},
                run=lab.results if judged else None,
                focus=f"protonet on {label}" if judged else None,
            )
        explained[source] = by_kind["difficult"]
        compositions[source] = {kind: by_kind[kind].compositions[source] for kind in by_kind}
        notes += explained[source].notes
    return Why(compositions, explained, notes)


def held_out(scores: HardScores) -> list[str]:
    """List networks not used in choosing, nor started from one that was; the judge alone if there is none."""
    return [name for name in scores.backbones if name not in scores.judging] or [scores.judge]
