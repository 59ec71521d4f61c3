"""Accuracies of the study VTAB+MD: by row and source with intervals, aggregates that say what they are a mean of.

Of several candidates a row takes the best on the validation images for big episodes, one for all tasks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from longshot.base import Floats, Ragged, count
from longshot.evaluation import ClassIntervals
from longshot.statistics import Interval, mean_interval, wilson
from longshot.studies.engine.lab import Scores
from longshot.studies.engine.study_tables import TableRow, first_places
from longshot.studies.vtab_md.vtab_md_networks import ApproachRow
from longshot.studies.vtab_md.vtab_md_plan import VtabLab, choice_name, episodes_name, plan_of
from longshot.studies.vtab_md.vtab_md_sources import GROUPS, MD, VTAB, StudySource

if TYPE_CHECKING:
    from longshot.studies.engine.lab import Scores
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


RULE = "Of candidates that tie, the one listed first is taken."


@dataclass(frozen=True)
class Choice:
    """What the candidates of one row came to on the validation images of ``tasks`` big episodes."""

    row: str
    accuracy: Mapping[str, float]  # candidate → mean over tasks
    images: int  # validation images, of all tasks together
    tasks: int
    chance: float  # of guessing: mean over tasks of 1 / classes
    reach: float  # half the 95 % interval of an accuracy by guessing

    @property
    def tied(self) -> list[str]:
        """The candidates with the highest accuracy."""
        best = max(self.accuracy.values())
        return [
            call for call, accuracy in self.accuracy.items() if math.isclose(accuracy, best, abs_tol=1e-12)
        ]

    @property
    def chosen(self) -> str:
        """The first of those with the best mean."""
        return self.tied[0]

    @property
    def notes(self) -> list[str]:
        """A tie, and a choice among candidates of which none is above chance."""
        best = 100 * max(self.accuracy.values())
        sentences = []
        if len(self.tied) > 1:
            sentences.append(
                f"{self.row}: {len(self.tied)} of {len(self.accuracy)} candidates tie at {best:.2f} % on "
                f"{self.images:,} validation images; the one listed first is taken, {self.chosen}."
            )
        if best <= 100 * (self.chance + self.reach):
            sentences.append(
                f"Warning, {self.row}: no candidate is told from guessing on {self.images:,} validation images (best "
                f"{best:.2f} %, guessing {100 * self.chance:.2f} ± {100 * self.reach:.2f} %), so the choice of "
                f"{self.chosen} says nothing about them."
            )
        return sentences


def choose(row: str, accuracy: Mapping[str, Mapping[str, float]], sizes: Sequence[tuple[int, int]]) -> Choice:
    """Take the candidate with the best mean over tasks, the first of those that tie.

    Parameters
    ----------
    row : str
        The row's name.
    accuracy : mapping
        Candidate → task → share of its validation images.
    sizes : sequence of (int, int)
        Validation images and classes of every task.

    Returns
    -------
    Choice
        The candidate with its reasons. By guessing, task i has a mean of 1/c_i; the mean of k tasks has the error
        √(Σ (1/c_i)(1 − 1/c_i)/n_i) / k.

    Examples
    --------
    >>> choice = choose("BiT", {"a": {"pets": 0.5, "dtd": 0.1}, "b": {"pets": 0.2, "dtd": 0.4}}, [(20, 5), (20, 10)])
    >>> choice.chosen, choice.tied, round(choice.chance, 2)
    ('a', ['a', 'b'], 0.15)
    """
    means = {call: sum(by_task.values()) / len(by_task) for call, by_task in accuracy.items()}
    shares = [1 / classes for _, classes in sizes]
    spread = sum(share * (1 - share) / images for share, (images, _) in zip(shares, sizes, strict=True))
    return Choice(
        row=row,
        accuracy=means,
        images=sum(images for images, _ in sizes),
        tasks=len(sizes),
        chance=sum(shares) / len(shares),
        reach=1.959963984540054 * math.sqrt(spread) / len(sizes),
    )


def choices_of(lab: VtabLab) -> dict[str, Choice]:
    """Row → the choice among its candidates, made once; rows with a single candidate have none."""
    return lab.once("choices", lambda: _choices(lab))


def _choices(lab: VtabLab) -> dict[str, Choice]:
    plan = plan_of(lab)
    beds = [choice_name(source) for source in plan.big]
    choices = {}
    for row in plan.rows:
        if len(row.vtab) < 2 or not beds:
            continue
        results = lab.evaluate(beds, row.backbone, row.vtab, into="choices")
        scores, backbone = Scores(results, lab.testbeds), lab.backbone(row.backbone)
        accuracy = {
            call: {bed: float(image_values(scores, bed, backbone, call).mean()) for bed in beds}
            for call in row.vtab
        }
        sizes = [
            (len(lab.testbeds[bed].column("query_label").values), len(lab.testbeds[bed][0].classes))
            for bed in beds
        ]
        choices[row.name] = choose(row.name, accuracy, sizes)
    return choices


def big_method(lab: VtabLab, row: str) -> str | None:
    """What a row runs on big episodes: its only method, or the candidate that was chosen."""
    [approach] = [each for each in plan_of(lab).rows if each.name == row]
    if not approach.vtab or not plan_of(lab).big:
        return None
    choice = choices_of(lab).get(row)
    return approach.vtab[0] if choice is None else choice.chosen


def vtab_scores(lab: VtabLab) -> VtabScores:
    """The numbers of all rows, read once."""
    return lab.once("scores", lambda: _scores(lab))


def _scores(lab: VtabLab) -> VtabScores:
    plan = plan_of(lab)
    values, settings, over_classes = {}, {}, {}
    for row in plan.rows:
        backbone = lab.backbone(row.backbone)
        if row.md is not None and plan.episodic:
            settings[row.name, "md"] = lab.scores.setting(row.md)
            for source in plan.episodic:
                testbed = episodes_name(lab.settings, source.name, row.tasks)
                values[row.name, source.name] = lab.scores.values(testbed, backbone, row.md)
                rows = lab.scores.rows(testbed, backbone, row.md)
                crossed = ClassIntervals(lab.testbeds[testbed], rows["task"].to_numpy())
                over_classes[row.name, source.name] = crossed.interval(crossed.right(rows["prediction"])).half
        method = big_method(lab, row.name)
        if method is not None:
            settings[row.name, "big"] = lab.scores.setting(method)
            for name in plan.big:
                values[row.name, name] = image_values(lab.scores, name, backbone, method)
    return VtabScores(plan.rows, plan.sources, values, settings, over_classes)
