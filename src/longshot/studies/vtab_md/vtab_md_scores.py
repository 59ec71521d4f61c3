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

from longshot.base import Floats, Ints, Ragged, count
from longshot.evaluation import ClassIntervals
from longshot.statistics import Interval, mean_interval, percent, wilson
from longshot.studies.engine.claims import of_sources
from longshot.studies.engine.lab import Scores
from longshot.studies.engine.study_tables import TableRow, mark_columns
from longshot.studies.vtab_md.vtab_md_networks import ApproachRow
from longshot.studies.vtab_md.vtab_md_plan import VtabLab, choice_name, episodes_name, plan_of, shuffled_name
from longshot.studies.vtab_md.vtab_md_sources import GROUPS, MD, VTAB, StudySource

if TYPE_CHECKING:
    from longshot.studies.engine.lab import Scores
    from longshot.tasks import Testbed


PARTS = ("md", "all", *GROUPS)
CONSTANT = "best constant"  # the answer that is right most often, whatever is asked
PRIOR = "prior"  # guessing by the shares of the support
_UNEVEN = (
    1.5  # queries of the most frequent class over those of the rarest, beyond which a task is unbalanced
)


def shuffled_row(row: str) -> str:
    """Return what a row is called that learned from shuffled labels."""
    return f"{row}, shuffled labels"


@dataclass(frozen=True)
class AggregatePart:
    """What an aggregate is a mean of: sources by name, and whether they are the whole benchmark and nothing else."""

    key: str
    sources: tuple[str, ...]
    official: int  # how many of them belong to the benchmark
    total: int  # how many the benchmark has

    @property
    def complete(self) -> bool:
        """Tell whether the mean may have the benchmark's name."""
        return self.official == self.total == len(self.sources)

    @property
    def title(self) -> str:
        """Return the benchmark's name, or how far from it the sources are."""
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
        """Return a shorter title, where there is little room."""
        if self.complete:
            return self.title
        kind = {"md": "episodes", "all": "big episodes"}.get(self.key, self.key)
        return f"{kind}, {count(len(self.sources), 'source' if self.key == 'md' else 'task')}"


@dataclass(frozen=True, eq=False)
class VtabScores:
    """``values[row, source]``: accuracy per episode [T], or 1 and 0 per query image of a big episode [Q].

    On an unbalanced big episode the ones are weighted (see :func:`class_weights`), so that their mean is the balanced
    accuracy. Floors stand among the values: :data:`CONSTANT` on every source; :data:`PRIOR`, and every row with
    shuffled labels, on the unbalanced ones.
    """

    rows: Sequence[ApproachRow]
    sources: Sequence[StudySource]  # of episodes and of big episodes, in the order of the paper
    values: Mapping[tuple[str, str], Floats]
    settings: Mapping[tuple[str, str], str] = field(default_factory=dict)  # of its methods: (row, md or big)
    # half the interval of (row, source of episodes) that holds for other classes too
    over_classes: Mapping[tuple[str, str], float | None] = field(default_factory=dict)
    weights: Mapping[str, Floats] = field(
        default_factory=dict
    )  # of the query images of unbalanced sources [Q]

    def interval(self, row: str, source: str) -> Interval | None:
        """Return the mean with its 95 % interval: Student t over episodes, Wilson over big episodes' images.

        Student t over weighted test images where a big episode is unbalanced.
        """
        values = self.values.get((row, source))
        if values is None:
            return None
        if self._role(source) == "md" or source in self.weights:
            return mean_interval(values)
        hits, count = float(values.sum()), len(values)
        low, high = wilson(hits, count)
        return Interval(hits / count, float(low), float(high), count)

    def _role(self, source: str) -> str:
        return next(member.role for member in self.sources if member.name == source)

    def parts(self) -> list[AggregatePart]:
        """List the aggregates that have at least one source here."""
        parts = []
        for key in PARTS:
            members = [s for s in self.sources if s.role == key or (key == "all" and s.role in GROUPS)]
            total = len(MD) if key == "md" else sum(key in ("all", task.group) for task in VTAB.values())
            names = tuple(source.name for source in members)
            if names:
                parts.append(AggregatePart(key, names, sum(source.official for source in members), total))
        return parts

    def aggregate(self, row: str, part: AggregatePart) -> Interval | None:
        """Average over sources, each counting once: half² = Σ half_i² / k². None where the row lacks one."""
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
        """Subtract ``minus`` from ``row`` on each episode or test image that both have; None without, [n]."""
        first, second = (self.values.get((approach, source)) for approach in (row, minus))
        if first is None or second is None:
            return None
        shared = min(len(first), len(second))  # fewer episodes are the first of more
        difference: Floats = first[:shared] - second[:shared]
        return difference

    def difference(self, row: str, minus: str, source: str) -> Interval | None:
        """Return the mean of :meth:`paired` with its 95 % interval."""
        values = self.paired(row, minus, source)
        return None if values is None else mean_interval(values)

    def accuracy(self, row: str, source: str) -> float | None:
        """Return the plain accuracy of a row on an unbalanced big episode; None elsewhere."""
        values, weights = self.values.get((row, source)), self.weights.get(source)
        return None if values is None or weights is None else float((values / weights).mean())

    def learned(self, row: str, source: str) -> bool:
        """Tell whether a row is above the best constant answer: the paired 95 % interval lies above 0."""
        difference = self.difference(row, CONSTANT, source)
        return difference is None or (difference.low is not None and difference.low > 0)

    def marks(self, source: str) -> dict[str, str]:
        """Map each row at the first place of a source to "best" or "tied", by the rule of all studies.

        Rows are ranked among those of their kind: inductive or transductive there, and trained on the same data. A row
        that did not learn a big episode has no place there.
        """
        return self._marks[source]

    @cached_property
    def _marks(self) -> dict[str, dict[str, str]]:
        """Map source → row → mark; rows with fewer episodes are compared on those that all have."""
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
                self.values.get((name, source.name))
                if kind == here and (kind == "md" or self.learned(name, source.name))
                else None
                for name, kind, _ in lines
            ]
            shared = min((len(values) for values in listed if values is not None), default=0)
            columns.append([None if values is None else values[:shared] for values in listed])
        by_source = mark_columns(columns, [line for _, _, line in lines])
        return {
            source.name: {name: mark for (name, _, _), mark in zip(lines, marks, strict=True) if mark}
            for source, marks in zip(self.sources, by_source, strict=True)
        }


def floor_notes(scores: VtabScores) -> list[str]:
    """Return a sentence for every big episode on which rows are not above the best constant answer."""
    sentences = []
    for source in scores.sources:
        low = [
            row.name
            for row in scores.rows
            if source.role != "md"
            and (row.name, source.name) in scores.values
            and not scores.learned(row.name, source.name)
        ]
        if low:
            floor = float(scores.values[CONSTANT, source.name].mean())
            sentences.append(
                f"Not above the best constant answer on {source.title} ({percent(floor, 2)} %): {', '.join(low)}; what "
                "is said of these rows there is said of methods that did not learn the task."
            )
    return sentences


def class_weights(labels: Ints) -> Floats:
    """Return a weight for every query image [Q], by which the mean of right answers is the balanced accuracy.

    w = Q / (C n_c) with n_c queries of the image's class and C classes that are asked for; 1 for all where no class has
    more than 1.5 times as many queries as another. Every constant answer then has the share 1 / C.

    >>> class_weights(np.array([0, 0, 0, 1])).tolist()
    [0.6666666666666666, 0.6666666666666666, 0.6666666666666666, 2.0]
    """
    _, position, counts = np.unique(labels, return_inverse=True, return_counts=True)
    if counts.max() <= _UNEVEN * counts.min():
        return np.ones(len(labels))
    weights: Floats = len(labels) / (len(counts) * counts[position])
    return weights


def query_labels(testbed: Testbed) -> Ints:
    """Return the labels of all query images of a big episode [Q], block by block."""
    labels: Ints = testbed.column("query_label").values.astype(np.int64)
    return labels


def floors_of(testbed: Testbed) -> dict[str, Floats]:
    """Return the values [Q] of the answers that need no image: the best constant, and the shares of the support."""
    labels, shots = query_labels(testbed), testbed.column("shots").row(0)
    weights = class_weights(labels)
    best = np.bincount(labels).argmax()
    return {CONSTANT: weights * (labels == best), PRIOR: weights * (shots / shots.sum())[labels]}


def image_values(scores: Scores, testbed: str, backbone: str, method: str) -> Floats:
    """Return the weight of every right answer and 0 for every wrong one of a big episode [Q]; NaN if not clean."""
    rows, bed = scores.rows(testbed, backbone, method), scores.testbeds[testbed]
    labels = query_labels(bed)
    right = rows["prediction"].combine_chunks().flatten().to_numpy() == labels
    if not scores.clean(testbed, backbone, rows["task"].to_numpy()).all():
        return np.full(len(labels), np.nan)
    values: Floats = class_weights(labels) * right
    return values


def supportless(testbed: Testbed) -> int:
    """Count the classes of a big episode without a support image."""
    shots: Ragged = testbed.column("shots")
    return int((shots.row(0) == 0).sum())


RULE = "Of candidates that tie, the one listed first is taken."


@dataclass(frozen=True)
class Choice:
    """What the candidates of one row came to on the validation images of ``tasks`` big episodes."""

    row: str
    accuracy: Mapping[str, float]  # candidate → mean over tasks, balanced where a task is not
    images: int  # validation images, of all tasks together
    tasks: int
    floor: float  # the best constant answer, mean over tasks
    learned: bool  # whether the candidate that is taken is above it

    @property
    def tied(self) -> list[str]:
        """List the candidates with the highest accuracy."""
        best = max(self.accuracy.values())
        return [
            call for call, accuracy in self.accuracy.items() if math.isclose(accuracy, best, abs_tol=1e-12)
        ]

    @property
    def chosen(self) -> str:
        """Return the first of those with the best mean."""
        return self.tied[0]

    @property
    def notes(self) -> list[str]:
        """Note a tie, and a choice among candidates none of which is above the best constant answer."""
        best = 100 * max(self.accuracy.values())
        sentences = []
        if len(self.tied) > 1:
            sentences.append(
                f"{self.row}: {len(self.tied)} of {len(self.accuracy)} candidates tie at {best:.2f} % on "
                f"{self.images:,} validation images; the one listed first is taken, {self.chosen}."
            )
        if not self.learned:
            sentences.append(
                f"Warning, {self.row}: no candidate is above the best constant answer on {self.images:,} validation "
                f"images (best {best:.2f} %, constant {percent(self.floor, 2)} %), so the choice of {self.chosen} says "
                "nothing about them."
            )
        return sentences


def choose(row: str, values: Mapping[str, Sequence[Floats]], floors: Sequence[Floats]) -> Choice:
    """Take the candidate with the best mean over tasks, the first of those that tie.

    Parameters
    ----------
    row : str
        The row's name.
    values : mapping
        Candidate → the values of its answers to the validation images of every task, [n_i] each.
    floors : sequence of array
        The values of the best constant answer to the same images.

    Returns
    -------
    Choice
        The candidate with its reasons. It learned where the 95 % interval of its difference to the best constant,
        paired by image, the mean over tasks, lies above 0.

    Examples
    --------
    >>> answers = {"a": [np.array([1.0, 0.0]), np.array([0.0])], "b": [np.array([0.0, 0.0]), np.array([1.0])]}
    >>> choice = choose("BiT", answers, [np.array([1.0, 0.0]), np.array([0.0])])
    >>> choice.chosen, choice.accuracy, choice.learned
    ('b', {'a': 0.25, 'b': 0.5}, False)
    """
    means = {call: float(np.mean([own.mean() for own in each])) for call, each in values.items()}
    best = max(means, key=lambda call: means[call])
    above = of_sources("", [own - floor for own, floor in zip(values[best], floors, strict=True)])
    return Choice(
        row=row,
        accuracy=means,
        images=sum(map(len, floors)),
        tasks=len(floors),
        floor=float(np.mean([floor.mean() for floor in floors])),
        learned=above.low is not None and above.low > 0,
    )


def choices_of(lab: VtabLab) -> dict[str, Choice]:
    """Map each row to the choice among its candidates, made once; rows with a single candidate have none."""
    return lab.once("choices", lambda: _choices(lab), of_scores=False)


def _choices(lab: VtabLab) -> dict[str, Choice]:
    plan = plan_of(lab)
    beds = [choice_name(source) for source in plan.big]
    choices = {}
    for row in plan.rows:
        if len(row.vtab) < 2 or not beds:
            continue
        results = lab.evaluate(beds, row.backbone, row.vtab, into="choices")
        scores, backbone = Scores(results, lab.testbeds), lab.backbone(row.backbone)
        values = {call: [image_values(scores, bed, backbone, call) for bed in beds] for call in row.vtab}
        floors = [floors_of(lab.testbeds[bed])[CONSTANT] for bed in beds]
        choices[row.name] = choose(row.name, values, floors)
    return choices


def big_method(lab: VtabLab, row: str) -> str | None:
    """Return what a row runs on big episodes: its only method, or the candidate that was chosen."""
    [approach] = [each for each in plan_of(lab).rows if each.name == row]
    if not approach.vtab or not plan_of(lab).big:
        return None
    choice = choices_of(lab).get(row)
    return approach.vtab[0] if choice is None else choice.chosen


def vtab_scores(lab: VtabLab) -> VtabScores:
    """Return the numbers of all rows, read once."""
    return lab.once("scores", lambda: _scores(lab))


def unbalanced(lab: VtabLab) -> list[str]:
    """Return the big episodes that ask for some classes far more often than for others."""
    return [name for name in plan_of(lab).big if np.ptp(class_weights(query_labels(lab.testbeds[name]))) > 0]


def _scores(lab: VtabLab) -> VtabScores:
    plan, uneven = plan_of(lab), unbalanced(lab)
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
                floor = _episode_floor(lab.testbeds[testbed])
                if len(floor) > len(values.get((CONSTANT, source.name), ())):
                    values[CONSTANT, source.name] = floor
        method = big_method(lab, row.name)
        if method is not None:
            settings[row.name, "big"] = lab.scores.setting(method)
            for name in plan.big:
                values[row.name, name] = image_values(lab.scores, name, backbone, method)
            for name in uneven:
                learned_from = image_values(lab.scores, shuffled_name(name), backbone, method)
                values[shuffled_row(row.name), name] = learned_from
    for name in plan.big:
        floors = floors_of(lab.testbeds[name])
        values |= {(floor, name): own for floor, own in floors.items() if floor == CONSTANT or name in uneven}
    weights = {name: class_weights(query_labels(lab.testbeds[name])) for name in uneven}
    return VtabScores(plan.rows, plan.sources, values, settings, over_classes, weights)


def _episode_floor(testbed: Testbed) -> Floats:
    """Return the share of the most frequent class among the queries of every episode [T]."""
    labels = testbed.column("query_label")
    return np.array(
        [np.bincount(labels.row(task)).max() / labels.lengths[task] for task in range(len(testbed))]
    )
