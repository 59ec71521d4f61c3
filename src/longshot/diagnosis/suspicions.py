"""Suspected causes: in which classes of which tasks, which images of the class have the cause and which are without it.

A suspicion is weaker than a finding. It need not survive the correction over the testbed, for it claims nothing: taking
the cause away and evaluating again (``interventions``) says whether it holds.

Every kind is one number per image and a direction. In the support the number lies further in that direction than it
should. The midpoint between the support's mean and what it is compared with divides the class: images beyond it have
the cause, the others are without it.

A backbone suspects, too: are queries nearer to another class's support, and to which one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from longshot.base import Bools, Floats, Ints, TaskRows, pick_device
from longshot.diagnosis.alterations import kind_of
from longshot.diagnosis.attribute_gaps import Gaps, Groups
from longshot.diagnosis.findings import class_scope, name_causes, task_scope

if TYPE_CHECKING:
    from longshot.models import Features, Suspects


SUSPECTED = 0.05  # p of a class or a task, not corrected over the testbed
MODE, LEANING, LABEL = "mode", "leaning", "label"
EMBEDDED = (MODE, LEANING)
# What the kinds in embedding space mean, for tables and sentences.
MEANINGS = {
    MODE: "supports in one mode of their class",
    LEANING: "supports that lean to another class of the task",
    LABEL: "doubtful labels among the supports",
}
_RANDOM_SUPPORTS = 199  # p of a distance is 0.005 at least


@dataclass(frozen=True, eq=False)
class Suspicion:
    """One kind of cause in K classes of tasks.

    Attributes
    ----------
    kind : str
        Of cause (``kinds.kind_of``), or ``mode``, ``leaning``, ``label``.
    groups : ints [K]
        Positions in ``Groups``, ascending.
    having, lacking : sequences [K] of bools
        Over the images of the group's class: which have the cause, which are without it. An image whose value is not
        known is neither.
    towards : ints [K], optional
        The class that the support leans to, as a number of the dataset.
    columns, signs : ints [K], optional
        Column of ``Gaps`` and the sign of its gap, for attributes.
    forms : ints [K], optional
        Form of the alteration that the support looks like (``alterations.FORMS``); −1 where it is none.
    """

    kind: str
    groups: Ints
    having: Sequence[Bools]
    lacking: Sequence[Bools]
    towards: Ints | None = None
    columns: Ints | None = None
    signs: Ints | None = None
    forms: Ints | None = None

    def __len__(self) -> int:
        return len(self.groups)

    @property
    def altered(self) -> bool:
        """Tell whether the support looks altered in any group."""
        return self.forms is not None and bool((self.forms >= 0).any())

    def only_altered(self) -> Suspicion:
        """Keep only the groups in which the support looks altered."""
        assert self.forms is not None and self.columns is not None and self.signs is not None
        chosen = np.flatnonzero(self.forms >= 0).tolist()
        return Suspicion(
            self.kind,
            self.groups[chosen],
            [self.having[i] for i in chosen],
            [self.lacking[i] for i in chosen],
            columns=self.columns[chosen],
            signs=self.signs[chosen],
            forms=self.forms[chosen],
        )


def suspect_attributes(gaps: Gaps, offsets: Ints, *, level: float = SUSPECTED) -> list[Suspicion]:
    """Find the causes by which supports lie apart from their queries, by the p of ``Gaps`` before correction.

    Parameters
    ----------
    gaps : Gaps
        Of all tasks of a dataset.
    offsets : ints [C + 1]
        Where the rows of each class begin and end.
    level : float
        Largest p of a task, times the columns of the kind. Where no attribute is below it in the task as a whole,
        largest p of a class, times its task's ways as well.

    Returns
    -------
    list of Suspicion
        One per kind of cause that is suspected anywhere, symptoms left out (``naming``), in the classes whose gap has
        the task's direction.
    """
    kinds = [kind_of(column.attribute) for column in gaps.columns]
    share = np.array([kinds.count(kind) for kind in kinds])
    raised: dict[str, dict[int, tuple[int, int, int]]] = {}  # kind → group → column, sign, form
    for task in range(gaps.task_p.shape[1]):
        groups = np.flatnonzero(gaps.groups.task == task)
        over_task = _best_columns(gaps, gaps.task_p[:, task], gaps.task_p[:, task] * share <= level)
        named = [(each, groups) for each in name_causes(gaps, task_scope(gaps, task), over_task)]
        if not over_task:
            for group in groups.tolist():
                p = gaps.p[:, group]
                columns = _best_columns(gaps, p, p * share * len(groups) <= level)
                causes = name_causes(gaps, class_scope(gaps, group), columns)
                named += [(each, np.array([group])) for each in causes]
        for cause, where in named:
            effects = gaps.effect[cause.column, where]
            overall = float(np.nanmean(effects)) if np.isfinite(effects).any() else 0.0
            sign = (-1 if cause.reverse else 1) if cause.form is not None else int(np.sign(overall))
            form = cause.form if cause.form is not None and not cause.reverse else -1
            for group in where[np.nan_to_num(effects) * sign > 0].tolist():
                raised.setdefault(kinds[cause.column], {}).setdefault(group, (cause.column, sign, form))
    return [_by_columns(gaps, offsets, kind, by_group) for kind, by_group in sorted(raised.items())]


def _best_columns(gaps: Gaps, p: Floats, real: Bools) -> list[int]:
    """Pick the column with the smallest p of every attribute that has a ``real`` one."""
    best: dict[str, int] = {}
    for column in np.flatnonzero(real).tolist():
        attribute = gaps.columns[column].attribute
        if attribute not in best or p[column] < p[best[attribute]]:
            best[attribute] = column
    return list(best.values())


def _by_columns(
    gaps: Gaps, offsets: Ints, kind: str, by_group: Mapping[int, tuple[int, int, int]]
) -> Suspicion:
    """Divide the images of each group's class at the midpoint between support and queries."""
    groups = np.array(sorted(by_group), np.int64)
    columns, signs, forms = (np.array(each) for each in zip(*(by_group[int(g)] for g in groups), strict=True))
    having, lacking = [], []
    for group, column, sign in zip(groups.tolist(), columns.tolist(), signs.tolist(), strict=True):
        middle = (gaps.support[column, group] + gaps.query[column, group]) / 2
        label = int(gaps.groups.label[group])
        beyond, within = _divide(
            gaps.columns[column].numbers[offsets[label] : offsets[label + 1]], sign, middle
        )
        having.append(beyond)
        lacking.append(within)
    return Suspicion(kind, groups, having, lacking, columns=columns, signs=signs, forms=forms)


def suspect_embeddings(features: Features, groups: Groups, *, level: float = SUSPECTED) -> list[Suspicion]:
    """Find supports that sit in one mode of their class, and supports that lean to another class.

    Let μ be the mean of the class's n images and p that of its k supports. Were the supports drawn at random,

    - *mode*: ‖p − μ‖ is compared with that of 199 random supports of k images, p = (1 + how many are as far) / 200;
    - *leaning*: (p − μ)·u has expectation 0 and variance S² (1/k − 1/n), u being the unit vector from μ to the mean of
      another class of the task and S² the variance of x·u over the class; p is the normal tail, times the number of
      other classes.

    Parameters
    ----------
    features : Features
        The dataset through a backbone.
    groups : Groups
        The classes of all tasks.
    level : float
        Largest p that raises a suspicion.

    Returns
    -------
    list of Suspicion
        ``mode`` and ``leaning``, where there is any.
    """
    offsets = features.offsets
    means = _class_means(features, np.unique(groups.label))
    members = members_of(groups.support_group, len(groups))
    shots = np.array([len(each) for each in members])
    order = np.lexsort((shots, groups.label))
    raised: dict[str, dict[int, tuple[Bools, Bools, int]]] = {MODE: {}, LEANING: {}}
    previous, images, random = (-1, -1), np.empty((0, 0), np.float32), np.empty(0)
    for group in order.tolist():
        label, shot = int(groups.label[group]), int(shots[group])
        if label < 0 or not 0 < shot < offsets[label + 1] - offsets[label]:
            continue  # a class without support, or with all of its images in it
        if previous != (label, shot):
            images = features.array[features.rows(label)].astype(np.float32) - means[label]
            random = _random_distances(images, shot)
            previous = (label, shot)
        away = images[groups.support[members[group]] - offsets[label]].mean(0)
        distance = float(np.linalg.norm(away))
        if (1 + (random >= distance).sum()) / (1 + len(random)) <= level and distance > 0:
            raised[MODE][group] = (*_divide(images @ (away / distance), 1, distance / 2), -1)
        rivals = groups.label[(groups.task == groups.task[group]) & (groups.label != label)]
        leaning = _leaning(images, away, shot, rivals, np.stack([means[r] - means[label] for r in rivals]))
        if leaning is not None and leaning[0] <= level:
            raised[LEANING][group] = leaning[1:]
    return [_gathered(kind, by_group) for kind, by_group in raised.items() if by_group]


def suspect_labels(suspects: Suspects, groups: Groups) -> list[Suspicion]:
    """Find supports whose label is in doubt (``suspects_of``); all other images are without the cause."""
    doubtful = np.zeros(len(suspects.features.keys), np.bool_)
    doubtful[suspects.mislabelled] = True
    raised = np.unique(groups.support_group[doubtful[groups.support]])
    rows = [suspects.features.rows(int(groups.label[group])) for group in raised]
    clean = ~suspects.mask
    suspicion = Suspicion(LABEL, raised, [doubtful[each] for each in rows], [clean[each] for each in rows])
    return [suspicion] if len(raised) else []


def _divide(values: NDArray[Any], sign: int, middle: float) -> tuple[Bools, Bools]:
    """Mark values beyond the middle, and those that are not; an unknown value is neither."""
    with np.errstate(invalid="ignore"):
        return sign * values > sign * middle, sign * values <= sign * middle


def _leaning(
    images: NDArray[np.float32], away: NDArray[np.float32], shot: int, rivals: Ints, vectors: NDArray[Any]
) -> tuple[float, Bools, Bools, int] | None:
    """Find the class a support leans to most: its corrected p, images that lean and do not, and the class."""
    lengths = np.linalg.norm(vectors, axis=1)
    if not len(rivals) or not (lengths > 0).all():
        return None
    units = (vectors / lengths[:, None]).astype(np.float32)
    along = images @ units.T  # [n, rivals]
    spread = along.std(0, ddof=1) * np.sqrt(1 / shot - 1 / len(images))
    with np.errstate(divide="ignore", invalid="ignore"):
        p = ndtr(-(units @ away) / spread) * len(rivals)
    best = int(np.nanargmin(np.where(spread > 0, p, 2.0)))
    beyond, within = _divide(along[:, best], 1, float(units[best] @ away) / 2)
    return float(p[best]), beyond, within, int(rivals[best])


def _random_distances(images: NDArray[np.float32], shot: int) -> Floats:
    """Measure how far means of random supports of ``shot`` of the centred images lie from the centre."""
    generator = np.random.default_rng(shot)
    chosen = generator.random((_RANDOM_SUPPORTS, len(images))).argsort(1)[:, :shot]
    weights = np.zeros((_RANDOM_SUPPORTS, len(images)), np.float32)
    np.put_along_axis(weights, chosen, 1 / shot, 1)
    distances: Floats = np.linalg.norm(weights @ images, axis=1).astype(np.float64)
    return distances


def _class_means(features: Features, labels: Ints) -> dict[int, NDArray[np.float32]]:
    return {
        int(label): features.array[features.rows(int(label))].astype(np.float32).mean(0)
        for label in labels
        if label >= 0
    }


def members_of(group: Ints, size: int) -> list[Ints]:
    """List the positions of the members of each of ``size`` groups in ``group`` (the group of each image)."""
    order = np.argsort(group, kind="stable")
    return np.split(order, np.searchsorted(group[order], np.arange(1, size)))


def _gathered(kind: str, by_group: dict[int, tuple[Bools, Bools, int]]) -> Suspicion:
    groups = np.array(sorted(by_group), np.int64)
    having, lacking, towards = zip(*(by_group[int(group)] for group in groups), strict=True)
    return Suspicion(
        kind, groups, having, lacking, towards=np.array(towards, np.int64) if kind == LEANING else None
    )


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
