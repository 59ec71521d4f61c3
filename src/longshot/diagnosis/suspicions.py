"""Suspected causes: each is a value per image, in which supports lie apart from what they should be like.

A suspicion is weaker than a finding. It need not survive the correction over the testbed, for it claims nothing: taking
the cause away and evaluating again (``interventions``) says whether it holds. What counts is how often a kind is
suspected: more often than chance, over all tasks.

- Attributes, looks and alterations that are named as causes in tasks (``findings``), symptoms left out.
- *leaning*: the support lies towards another class of its task. Let μ be the mean of the class's n images, p that of
  its k supports and u the unit vector from μ to the mean of another class. Were the supports drawn at random, (p − μ)·u
  would have expectation 0 and variance S² (1/k − 1/n), S² being the variance of x·u over the class.
- *side*: the support lies on one side of its class: at a right angle to u, ‖p − μ‖ is larger than that of 95 % of 199
  random supports. Images are ordered along p − μ.
  For both, images are compared with those of the same value of what is suspected before: what an annotation or a look
  explains is no leaning.
- *label*: the label is in doubt (``suspects_of``).

A backbone suspects, too: are queries nearer to another class's support, and to which one.

A look is what images of one class differ in: pose, style, scene, size of the object. Features of unit length, minus the
mean of their class, are projected on the 16 directions in which they vary most and divided into at most eight clusters
by k-means, so that classes share it. It is named by the attributes in which it differs from the other images.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from string import ascii_uppercase
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.vq import kmeans2
from scipy.special import ndtr
from scipy.stats import binom

from longshot.base import Bools, Floats, Ints, TaskRows, pick_device
from longshot.data import Dataset
from longshot.diagnosis.alterations import MEASURES, kind_of
from longshot.diagnosis.attribute_gaps import LOOK, AttributeColumn, Gaps, Groups
from longshot.diagnosis.findings import class_scope, name_causes, task_scope
from longshot.models import Features
from longshot.statistics import percent

if TYPE_CHECKING:
    from longshot.models import Suspects

SUSPECTED = 0.05  # p of a class or a task, not corrected over the testbed
LEANING, SIDE, LABEL = "leaning", "side", "label"
# What the kinds in embedding space mean, for tables and sentences.
MEANINGS = {
    LOOK: "another look of the images",
    LEANING: "supports that lean to another class of the task",
    SIDE: "supports from one side of their class",
    LABEL: "doubtful labels among the supports",
}
# In what images that take a cause away are like the queries; an attribute is said by its name.
MATCHES = {
    LEANING: "nearness to other classes",
    SIDE: "the side of the class they come from",
    LABEL: "labels without doubt",
}
_CHANCE = 0.001  # p of as many suspicions by chance
_SUSPECTED_SHARE = 0.1  # of tasks, or of classes for what is suspected class by class
_RANDOM = 199  # random supports


@dataclass(frozen=True, eq=False)
class Suspicion:
    """One kind of cause in the G classes of all tasks.

    Attributes
    ----------
    kind : str
        Of cause (``alterations.kind_of``), ``look``, ``leaning``, ``side`` or ``label``.
    values : sequence [G] of arrays
        Of the images of the group's class: ranks from 0 to 1, or codes of values; NaN where nothing is known.
    nominal : bool
        Whether the values are codes.
    suspected : bools [G]
        Where it is suspected.
    towards : ints [G], optional
        The class that the support leans to, as a number of the dataset.
    """

    kind: str
    values: Sequence[Floats]
    nominal: bool
    suspected: Bools
    towards: Ints | None = None


def suspicions_of(gaps: Gaps, features: Features, suspects: Suspects, most: int = 2) -> list[Suspicion]:
    """Collect what is suspected more often than chance: at most ``most`` attributes, looks, leaning, side, labels."""
    offsets = features.offsets
    named = _named(gaps)
    tasks = gaps.task_p.shape[1]
    counts = {kind: len(np.unique(gaps.groups.task[groups])) for kind, (groups, _) in named.items()}
    frequent = [
        kind
        for kind in sorted(named, key=lambda kind: -counts[kind])
        if counts[kind] >= _SUSPECTED_SHARE * tasks
        and binom.sf(counts[kind] - 1, tasks, SUSPECTED) <= _CHANCE
    ]
    chosen = [kind for kind in frequent if kind != LOOK][:most] + [kind for kind in frequent if kind == LOOK]
    suspicions = [_by_attribute(gaps, offsets, kind, *named[kind]) for kind in chosen]
    embedded = suspect_embeddings(features, gaps.groups, suspicions)
    return [*suspicions, *embedded, *suspect_labels(suspects, gaps.groups)]


def _named(gaps: Gaps) -> dict[str, tuple[Ints, str]]:
    """Map each kind of cause named in tasks to the groups where it is, and the attribute that names it most often."""
    kinds = [kind_of(column.attribute) for column in gaps.columns]
    share = np.array([kinds.count(kind) for kind in kinds])
    raised: dict[str, list[int]] = {}
    names: dict[str, Counter[str]] = {}
    for task in range(gaps.task_p.shape[1]):
        groups = np.flatnonzero(gaps.groups.task == task)
        over_task = _best_columns(gaps, gaps.task_p[:, task], gaps.task_p[:, task] * share <= SUSPECTED)
        causes = [(each, groups.tolist()) for each in name_causes(gaps, task_scope(gaps, task), over_task)]
        if not over_task:
            for group in groups.tolist():
                p = gaps.p[:, group]
                columns = _best_columns(gaps, p, p * share * len(groups) <= SUSPECTED)
                causes += [(each, [group]) for each in name_causes(gaps, class_scope(gaps, group), columns)]
        for cause, where in causes:
            raised.setdefault(kinds[cause.column], []).extend(where)
            names.setdefault(kinds[cause.column], Counter())[gaps.columns[cause.column].attribute] += 1
    return {kind: (np.unique(groups), names[kind].most_common(1)[0][0]) for kind, groups in raised.items()}


def _best_columns(gaps: Gaps, p: Floats, real: Bools) -> list[int]:
    """Pick the column with the smallest p of every attribute that has a ``real`` one."""
    best: dict[str, int] = {}
    for column in np.flatnonzero(real).tolist():
        attribute = gaps.columns[column].attribute
        if attribute not in best or p[column] < p[best[attribute]]:
            best[attribute] = column
    return list(best.values())


def _by_attribute(gaps: Gaps, offsets: Ints, kind: str, raised: Ints, attribute: str) -> Suspicion:
    """Give every image the rank of its number within its class, or the code of its value."""
    columns = [gaps.columns[c] for c in gaps.attributes()[attribute]]
    nominal = columns[0].value is not None
    numbers = sum(code * column.numbers for code, column in enumerate(columns, 1)) if nominal else None
    values = []
    for label in gaps.groups.label.tolist():
        part = slice(offsets[label], offsets[label + 1])
        values.append(ranked(columns[0].numbers[part]) if numbers is None else np.asarray(numbers)[part])
    return Suspicion(kind, values, nominal, np.isin(np.arange(len(gaps.groups)), raised))


def ranked(numbers: Floats) -> Floats:
    """Rank numbers from 0 to 1; NaN stays.

    >>> ranked(np.array([3.0, np.nan, 1.0])).tolist()
    [1.0, nan, 0.5]
    """
    finite = np.flatnonzero(np.isfinite(numbers))
    ranks = np.full(len(numbers), np.nan)
    ranks[finite[np.argsort(numbers[finite], kind="stable")]] = np.arange(1, len(finite) + 1) / len(finite)
    return ranks


def suspect_embeddings(
    features: Features, groups: Groups, before: Sequence[Suspicion] = (), *, level: float = SUSPECTED
) -> list[Suspicion]:
    """Find supports that lean to another class, or lie on one side of their own, beyond what ``before`` explains."""
    offsets = features.offsets
    members = members_of(groups.support_group, len(groups))
    units = {
        label: unit_rows(features, np.arange(offsets[label], offsets[label + 1]))
        for label in np.unique(groups.label).tolist()
        if label >= 0
    }
    means = {label: each.mean(0) for label, each in units.items()}
    values: tuple[list[Floats], list[Floats]] = ([], [])
    raised, towards = np.zeros((2, len(groups)), np.bool_), np.full(len(groups), -1)
    for group, label in enumerate(groups.label.tolist()):
        rivals = groups.label[(groups.task == groups.task[group]) & (groups.label != label)]
        rows = groups.support[members[group]] - offsets[label]
        vectors = np.array([means[rival] - means[label] for rival in rivals.tolist()])
        size = int(offsets[label + 1] - offsets[label])
        if not 0 < len(rows) < size or not len(rivals) or not vectors.any(1).all():
            for kind in values:
                kind.append(np.full(size, np.nan))
            continue
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        images = (units[label] - means[label]).astype(np.float64)
        for suspicion in before:
            if suspicion.suspected[group]:
                images = _within(images, suspicion.values[group], suspicion.nominal)
        along = images @ vectors.T
        spread = along.std(0, ddof=1) * np.sqrt(1 / len(rows) - 1 / size)
        p = np.ones(len(rivals))
        np.divide(-along[rows].mean(0), spread, out=p, where=spread > _FLAT)
        p = np.where(spread > _FLAT, ndtr(p), 1.0) * len(rivals)
        best = int(p.argmin())
        towards[group] = rivals[best]
        images -= np.outer(along[:, best], vectors[best])
        away = images @ images[rows].mean(0)
        distance = float(np.linalg.norm(images[rows].mean(0)))
        p_side = (1 + (_random_distances(images, len(rows)) >= distance).sum()) / (1 + _RANDOM)
        raised[:, group] = p[best] <= level, p_side <= level and distance > _FLAT
        values[0].append(ranked(along[:, best]))
        values[1].append(ranked(away))
    return [
        Suspicion(kind, by_group, False, where, towards if kind == LEANING else None)
        for kind, by_group, where in zip((LEANING, SIDE), values, raised, strict=True)
        if where.sum() >= _SUSPECTED_SHARE * len(groups)
        and binom.sf(where.sum() - 1, len(groups), level) <= _CHANCE
    ]


_FLAT = 1e-9  # spread below which there is none


def _random_distances(images: Floats, shot: int) -> Floats:
    """Measure how far means of random supports of ``shot`` of the centred images [n, d] lie from the centre."""
    chosen = np.random.default_rng(shot).random((_RANDOM, len(images))).argsort(1)[:, :shot]
    weights = np.zeros((_RANDOM, len(images)))
    np.put_along_axis(weights, chosen, 1 / shot, 1)
    distances: Floats = np.sqrt(np.maximum(((weights @ (images @ images.T)) * weights).sum(1), 0))
    return distances


def _within(numbers: Floats, values: Floats, nominal: bool) -> Floats:
    """Subtract from numbers [n, d] their mean over images of the same value, or over a fifth of the ranks."""
    codes = np.nan_to_num(values if nominal else np.ceil(5 * values), nan=-1)
    _, code, size = np.unique(codes, return_inverse=True, return_counts=True)
    sums = np.zeros((len(size), numbers.shape[1]))
    np.add.at(sums, code, numbers)
    apart: Floats = numbers - (sums / size[:, None])[code]
    return apart


def suspect_labels(suspects: Suspects, groups: Groups) -> list[Suspicion]:
    """Find supports whose label is in doubt (``suspects_of``), where they are more than there are among all images."""
    offsets = suspects.features.offsets
    doubtful = np.zeros(len(suspects.features.keys))
    doubtful[suspects.mislabelled] = 1
    raised = np.bincount(groups.support_group, doubtful[groups.support], len(groups)) > 0
    often = binom.sf(doubtful[groups.support].sum() - 1, len(groups.support), doubtful.mean()) <= _CHANCE
    values = [doubtful[offsets[label] : offsets[label + 1]] for label in groups.label.tolist()]
    return [Suspicion(LABEL, values, True, raised)] if often else []


def members_of(group: Ints, size: int) -> list[Ints]:
    """List the positions of the members of each of ``size`` groups in ``group`` (the group of each image)."""
    order = np.argsort(group, kind="stable")
    return np.split(order, np.searchsorted(group[order], np.arange(1, size)))


@dataclass(frozen=True)
class Attraction:
    """In one task: ``nearer`` of ``queries`` of a class lie nearest to a support image of the class ``to``."""

    of: int
    to: int
    nearer: int
    queries: int


def nearest_classes(bound: TaskRows, features: Features, device: str = "auto") -> list[Ints]:
    """Find for each task the class (its position) of the support image nearest to each query, by cosine."""
    from longshot.evaluation import FeatureSource, score_tasks
    from longshot.models import get_method

    method = get_method("nearest-neighbour(distance='cosine')")
    nearest: list[Ints] = [np.empty(0, np.int64)] * len(bound)
    lengths = bound.query.lengths
    for chosen, scores, _, _ in score_tasks(
        method, FeatureSource(features.backbone, (features,)), bound, pick_device(device)
    ):
        best = scores.argmax(2).cpu().numpy()
        for row, task in enumerate(chosen):
            nearest[task] = best[row, : lengths[task]]
    return nearest


def attractions(nearest: Ints, labels: NDArray[np.int16], way: int) -> list[Attraction]:
    """Rank pairs of classes by how many queries of the one lie nearest to the other (at least one)."""
    counts = np.zeros((way, way), np.int64)
    np.add.at(counts, (labels.astype(np.int64), nearest), 1)
    total = counts.sum(1)
    np.fill_diagonal(counts, 0)
    pairs = [Attraction(int(a), int(b), int(counts[a, b]), int(total[a])) for a, b in np.argwhere(counts)]
    return sorted(pairs, key=lambda pair: (-pair.nearer / pair.queries, pair.of, pair.to))


_DIRECTIONS = 16
_MOST, _EACH = 8, 30  # clusters at most; images per cluster at least
_STARTS = 6  # of k-means
_ROWS = 20_000  # from which directions and centres come
_TYPICAL = 12
# A value's share in a look, how much more that is than elsewhere, and standard deviations of a number: to name it by.
_IN_LOOK, _AHEAD, _FAR = 0.6, 0.3, 0.8


@dataclass(frozen=True)
class Look:
    """One look: how it is called, in how many images it is, and the keys of the most typical ones."""

    value: str
    images: int
    typical: tuple[str, ...]


def unit_rows(features: Features, rows: Ints) -> NDArray[np.float32]:
    """Return features of some rows, scaled to unit length, [n, d]."""
    values = features.array[rows].astype(np.float32)
    scaled: NDArray[np.float32] = values / np.maximum(np.linalg.norm(values, axis=1, keepdims=True), 1e-12)
    return scaled


def find_looks(
    dataset: Dataset, features: Features, rows: Ints, columns: Sequence[AttributeColumn]
) -> tuple[list[AttributeColumn], list[Look]]:
    """Divide images into looks.

    Parameters
    ----------
    dataset : Dataset
        N images.
    features : Features
        Theirs, by a backbone.
    rows : ints [n]
        The images to divide: all of the classes in use, ascending.
    columns : sequence of AttributeColumn
        What may name a look.

    Returns
    -------
    columns : list of AttributeColumn
        One per look; NaN for images that were not divided. Empty where there are too few images.
    looks : list of Look
        In the same order.
    """
    number = min(_MOST, len(rows) // _EACH)
    if number < 2:
        return [], []
    places = _places(unit_rows(features, rows), dataset.labels[rows])
    some = places[:: max(1, len(rows) // _ROWS)]
    starts = [kmeans2(some, number, minit="++", rng=np.random.default_rng(seed)) for seed in range(_STARTS)]
    centres, _ = min(starts, key=lambda start: float(((some - start[0][start[1]]) ** 2).sum()))
    apart = ((places[:, None] - centres) ** 2).sum(2)
    owner = apart.argmin(1)
    order = [
        c for c in np.argsort(-np.bincount(owner, minlength=number), kind="stable") if (owner == c).any()
    ]
    made, looks = [], []
    for letter, cluster in zip(ascii_uppercase, order, strict=False):
        inside = owner == cluster
        numbers = np.full(len(dataset), np.nan)
        numbers[rows] = inside
        words = _words(columns, rows, dataset.labels[rows], inside)
        value = f"{letter} ({words})" if words else letter
        nearest = rows[np.flatnonzero(inside)[apart[inside, cluster].argsort()[:_TYPICAL]]]
        made.append(AttributeColumn(LOOK, value, numbers))
        looks.append(Look(value, int(inside.sum()), tuple(dataset.keys[int(row)].as_py() for row in nearest)))
    return made, looks


def _places(values: NDArray[np.float32], labels: NDArray[np.int32]) -> Floats:
    """Subtract the means of classes from features [n, d], and project on the main directions; [n, 16]."""
    _, group, size = np.unique(labels, return_inverse=True, return_counts=True)
    means = np.zeros((len(size), values.shape[1]), np.float32)
    np.add.at(means, group, values)
    within = values - (means / size[:, None])[group]
    some = within[:: max(1, len(within) // _ROWS)]
    _, directions = np.linalg.eigh(some.T @ some)
    places: Floats = (within @ directions[:, ::-1][:, :_DIRECTIONS]).astype(np.float64)
    return places


def _words(
    columns: Sequence[AttributeColumn], rows: Ints, labels: NDArray[np.int32], inside: NDArray[np.bool_]
) -> str:
    """Name a look by the annotated value that most of its images share, else by the measures furthest off."""
    shared: list[tuple[float, str]] = []
    further: list[tuple[float, str]] = []
    for column in columns:
        numbers = column.numbers[rows]
        finite = np.isfinite(numbers)
        if not (finite & inside).any() or not (finite & ~inside).any():
            continue
        if column.value is not None:
            share, elsewhere = (float(numbers[finite & side].mean()) for side in (inside, ~inside))
            if share >= _IN_LOOK and share - elsewhere >= _AHEAD and column.attribute not in MEASURES:
                shared.append((elsewhere - share, f"{column.name}, {percent(share, 0)} %"))
        elif column.attribute in MEASURES:
            count = np.maximum(np.bincount(labels[finite]), 1)
            own = numbers[finite] - (np.bincount(labels[finite], numbers[finite]) / count)[labels[finite]]
            off = float(own[inside[finite]].mean() / max(own.std(), 1e-12))
            _, less, more = MEASURES[column.attribute]
            words = " ".join((more if off > 0 else less).split()[1:-1])  # "is paler than" → "paler"
            if abs(off) >= _FAR:
                further.append((-abs(off), words))
    chosen = sorted(shared)[:1] or sorted(further)[:2]
    return ", ".join(words for _, words in chosen)
