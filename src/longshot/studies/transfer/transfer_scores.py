"""What the studies of transfer measured: slopes over splits, divergences of single tasks, certificates of splits.

Divergences are taken in two readings of the paper.
Upstream classes are a Gaussian over their class embeddings, a task is a Gaussian over those of its classes (the
mean of the support images of each, on the unit sphere). The paper's text also speaks of distributions over all upstream
classes and those of the task, so the same numbers are taken between those categoricals.

A certificate is what networks that took no part in choosing a split reach once they are trained on it: a prediction
for one more network of the same training. Networks scatter more than the tasks of a testbed do, so that the interval
of their mean would promise too much.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from longshot.base import Floats, count, progress
from longshot.reports import Sheet, heads, row
from longshot.statistics import Slope, plus_minus, slope, t_quantile
from longshot.studies.engine.claims import clean_mean
from longshot.studies.engine.study_tables import TableFile
from longshot.studies.transfer.settings import TransferSettings
from longshot.tasks import Split, between, fit_gaussian, gaussian_divergence

if TYPE_CHECKING:
    from longshot.models import Features
    from longshot.tasks import Testbed

ADAPTING = ("maml", "finetune")  # change the embedding on the task
FIXED = ("anil", "protonet", "multiclass")  # share one embedding between tasks
# with and without adapting the embedding: no choice is made after seeing the numbers
PAIRS = (("finetune", "multiclass"), ("maml", "anil"))
_Z95 = 1.959963984540054
_DECADES = 100.0  # largest over smallest divergence from which on axes and slopes are logarithmic


@dataclass(frozen=True)
class SplitPlace:
    """One split of the study: ``target`` is the divergence asked for, None for splits made without one."""

    name: str
    target: float | None
    measured: float  # divergence of the means of the train and test classes
    gap: float  # ‖mean of the train classes − mean of the test classes‖
    twin: str = ""  # the earlier split with the same classes in every part, if any
    draw: int = 0  # splits of one draw share their random numbers over all divergences

    @property
    def column(self) -> str:
        """Return the column that it belongs to in tables: all draws of a divergence share one."""
        return self.name if self.target is None else f"R = {self.target:g}"


@dataclass(frozen=True, eq=False)
class TransferScores:
    """Accuracies [repeats, T] (shares) by (split, method, shots); all methods of a split had the same tasks."""

    splits: Sequence[SplitPlace]
    methods: Sequence[str]
    shots: Sequence[int]
    accuracy: Mapping[tuple[str, str, int], Floats]
    cut: frozenset[tuple[str, str, int]] = frozenset()  # cells whose training hit its ceiling in time
    # accuracies [repeats, T] of the multiclass network at the most shots, by (split, part)
    parts: Mapping[tuple[str, str], Floats] = field(default_factory=dict)

    @cached_property
    def sweep(self) -> list[SplitPlace]:
        """List the splits that have a target, by target and draw."""
        targeted = (split for split in self.splits if split.target is not None)
        return sorted(targeted, key=lambda split: (split.target or 0.0, split.draw))

    @property
    def columns(self) -> list[str]:
        """List the divergences, then the other splits."""
        return list(dict.fromkeys(split.column for split in self.splits))

    @property
    def easiest(self) -> str:
        """Return the column of the smallest divergence."""
        return self.sweep[0].column

    @property
    def hardest(self) -> str:
        """Return the column of the largest divergence."""
        return self.sweep[-1].column

    def of(self, column: str) -> list[SplitPlace]:
        """List the splits behind a column."""
        return [split for split in self.splits if split.column == column]

    def tasks(self, column: str, method: str, shot: int) -> Floats:
        """Return accuracy per task, the mean over repeated trainings; tasks of all draws concatenated."""
        return np.concatenate([self.accuracy[split.name, method, shot].mean(0) for split in self.of(column)])

    def was_cut(self, column: str, shot: int, *methods: str) -> bool:
        """Tell whether a training behind one of these cells hit its ceiling in time."""
        return any((split.name, method, shot) in self.cut for split in self.of(column) for method in methods)

    @property
    def logarithmic(self) -> bool:
        """Tell whether divergences span decades: slopes are then per tenfold of R and axes logarithmic."""
        targets = [split.target or 0.0 for split in self.sweep]
        return bool(targets) and min(targets) > 0 and max(targets) >= _DECADES * min(targets)


@dataclass(frozen=True)
class Steepness:
    """A slope of accuracy against divergence, in shares per unit (or tenfold), with two intervals.

    ``fit`` has the t interval over splits: it holds for other splits of these divergences. ``low`` and ``high`` hold
    for more tasks of the same splits and networks only. ``single`` are the slopes of each draw alone.
    """

    fit: Slope
    low: float = math.nan
    high: float = math.nan
    single: tuple[float, ...] = ()


def steepness(
    scores: TransferScores, method: str, shot: int, *, against: str = "", measured: bool = False
) -> Steepness:
    """Fit mean accuracy against divergence over the sweep by regression, one point per split.

    x is the target R (its decimal logarithm where R spans decades), or with ``measured`` the divergence of the class
    means. With ``against`` y is the difference to that method on the same splits and tasks, whose slope says which of
    the two falls faster. Splits on which a training hit its ceiling in time are left out; where no draw has two points
    left there is no slope (NaN).

    Splits of one draw share random numbers and so a part of their classes: each draw g has a level of its own, y_i =
    a_g + b x_i + e_i. b = Σ w_i ȳ_i with w_i = (x_i − x̄_g) / S_xx; its error over tasks is √Σ w_i² s_i² / T_i.
    """
    splits = [
        split
        for split in scores.sweep
        if not {(split.name, name, shot) for name in (method, against)} & scores.cut
    ]
    values = [_accuracies(scores, split.name, method, against, shot) for split in splits]
    values = [own[~np.isnan(own)] for own in values]  # claims see clean tasks only
    splits = [split for split, own in zip(splits, values, strict=True) if len(own)]
    values = [own for own in values if len(own)]
    x = np.array([split.measured if measured else split.target or 0.0 for split in splits])
    x = np.log10(x) if scores.logarithmic and not measured else x
    y = np.array([own.mean() for own in values])
    draws = np.array([split.draw for split in splits])
    alone = [_line(x[draws == draw], y[draws == draw]) for draw in np.unique(draws)]
    single = tuple(line.slope for line in alone if line is not None)
    if not single:
        nothing = math.nan
        return Steepness(Slope(nothing, nothing, nothing, nothing, nothing, nothing, len(splits)))
    fit = slope(x, y, groups=draws)
    centred = x - np.array([x[draws == draw].mean() for draw in draws])
    errors = np.array([own.var(ddof=1) / len(own) if len(own) > 1 else math.nan for own in values])
    reach = _Z95 * math.sqrt(float(((centred / (centred @ centred)) ** 2 * errors).sum()))
    return Steepness(fit, fit.slope - reach, fit.slope + reach, single)


def _accuracies(scores: TransferScores, split: str, method: str, against: str, shot: int) -> Floats:
    """Return accuracy [T] of a method on a split, or its difference to another's; mean over trainings."""
    own = scores.accuracy[split, method, shot]
    values: Floats = (own - scores.accuracy[split, against, shot] if against else own).mean(0)
    return values


def _line(x: Floats, y: Floats) -> Slope | None:
    """Fit the line through one draw; None where its x do not differ."""
    if len(x) < 2 or float(np.ptp(x)) <= 1e-9 * max(1.0, float(np.abs(x).max())):
        return None
    return slope(x, y)


Divergences: TypeAlias = dict[str, dict[str, list[float]]]  # model → measure → one number per task
MODELS = {"gaussian": "between Gaussians", "categorical": "between categoricals over all classes"}
# in the order of the paper's table
MEASURES = {
    "euclidean": "Euclidean",
    "wasserstein": "Wasserstein-2",
    "kl": "Kullback-Leibler",
    "kl-symmetric": "symmetrised KL",
}


def task_embeddings(testbed: Testbed, features: Features) -> Floats:
    """Embed the classes of tasks of one shape: unit mean of the support images of each, [T, way, d]."""
    bound = testbed.bind(next(iter(testbed.datasets)), features.keys, features.fingerprint)
    count, way = len(bound), int(bound.ways[0])
    rows = bound.support.values.reshape(count, -1)
    order = np.argsort(bound.support_label.values.reshape(count, -1), axis=1, kind="stable")
    by_class = np.take_along_axis(rows, order, axis=1)
    means = np.stack(
        [
            np.asarray(features.array[task], np.float64).reshape(way, -1, features.dim).mean(1)
            for task in by_class
        ]
    )
    norms = np.linalg.norm(means, axis=2, keepdims=True)
    embeddings: Floats = means / np.where(norms > 0, norms, 1.0)
    return embeddings


def divergences(upstream: Floats, tasks: Floats, damping: float) -> Divergences:
    """Compute every divergence of upstream classes [C, d] and tasks [T, way, d], one number per task.

    A task and the upstream classes span at most C + way dimensions; outside both Gaussians are the damping alone and no
    divergence changes, so all is computed on that span where it is the smaller.
    """
    measured: Divergences = {model: {measure: [] for measure in MEASURES} for model in MODELS}
    size, way = len(upstream), tasks.shape[1]
    narrow = size + way < upstream.shape[1]
    basis = np.linalg.qr(upstream.T)[0] if narrow else None
    projected = upstream if basis is None else np.pad(upstream @ basis, ((0, 0), (0, way)))
    with progress("divergences", total=len(tasks), unit="tasks") as bar:
        for task in tasks:
            points = np.concatenate([projected, task if basis is None else _on_span(task, basis)])
            above, own = points[:size], points[size:]
            gaussians = fit_gaussian(above, damping), fit_gaussian(own, damping)
            for measure in MEASURES:
                measured["gaussian"][measure].append(gaussian_divergence(measure, *gaussians))
                measured["categorical"][measure].append(between(measure, points, above.mean(0), own.mean(0)))
            bar.advance()
    return measured


def _on_span(task: Floats, basis: Floats) -> Floats:
    """Express class embeddings [way, d] in the span of basis [d, C] and their own: [way, C + way]."""
    inside = task @ basis
    own = np.linalg.qr((task - inside @ basis.T).T)[1].T
    return np.concatenate([inside, own], axis=1)


UNCERTIFIED = "uncertified: one network each; two or more (repeats) tell how far another may lie"


@dataclass(frozen=True)
class Certificate:
    """Accuracy (a share) that another network is predicted to have, ± ``half``; None from one network each."""

    split: str
    mean: float
    half: float | None
    networks: int

    @property
    def text(self) -> str:
        """Write the prediction: ``fc100 48.8 ± 2.1``."""
        return f"{self.split} {plus_minus(self.mean, self.half)}"


def certify(scores: TransferScores, method: str, shot: int) -> list[Certificate]:
    """Predict what one more network would reach on each split, with its 95 % interval.

    Networks of a split scatter alike on all splits: s² = Σ_i Σ_j (m_ij − m_i)² / Σ_i (k_i − 1) with Σ_i (k_i − 1)
    degrees of freedom, m_ij the accuracy of network j of split i. Another network lies within m_i ± √(t² s² (1 + 1 /
    k_i) + z² e_i²), e_i the standard error of m_i over tasks.
    """
    cells = {split.name: scores.accuracy[split.name, method, shot] for split in scores.splits}
    scatter = [own.mean(1) - own.mean() for own in cells.values()]
    freedom = sum(len(own) - 1 for own in scatter)
    reach = 0.0
    if freedom:
        reach = t_quantile(freedom, 0.95) ** 2 * float(sum(own @ own for own in scatter)) / freedom
    certificates = []
    for name, own in cells.items():
        tasks = own.mean(0)
        error = _Z95**2 * float(tasks.var(ddof=1)) / len(tasks)
        half = float(np.sqrt(reach * (1 + 1 / len(own)) + error)) if freedom else None
        certificates.append(Certificate(name, clean_mean(own), half, len(own)))
    return certificates


def certificates_table(scores: TransferScores, settings: TransferSettings) -> TableFile:
    """Make the table of what another network would reach on every split, and a sentence for each method."""
    shot, records, lines = scores.shots[-1], [], []
    cells = {method: certify(scores, method, shot) for method in scores.methods}
    for method, certificates in cells.items():
        listed = ", ".join(certificate.text for certificate in certificates)
        lines.append(f"{listed}: {_described(settings, method, certificates[0])}.")
        facts = {"way": settings.way, "shot": shot, "method": method}
        records += [{**facts, **vars(certificate)} for certificate in certificates]
    block = [
        row(method, *(plus_minus(each.mean, each.half) for each in certificates))
        for method, certificates in cells.items()
    ]
    names = heads("method", *(split.name for split in scores.splits))
    note = (
        "Accuracy in % that another network of the same training is predicted to have, ± half the 95 % interval of "
        "that prediction: over networks and tasks of these classes, and wider than the interval of a mean."
    )
    title = f"How hard the splits are, {settings.way}-way {shot}-shot"
    return TableFile("certificates", [Sheet(title, names, [block], note, labels=1)], records, lines)


def certified(
    splits: Mapping[str, Split], scores: TransferScores, settings: TransferSettings
) -> dict[str, Split]:
    """Return the splits with what their networks reached, by method, in ``made["certified"]``."""
    made: dict[str, dict[str, str]] = {name: {} for name in splits}
    for method in scores.methods:
        for each in certify(scores, method, scores.shots[-1]):
            made[each.split][method] = (
                f"{plus_minus(each.mean, each.half)} % ({_described(settings, method, each)})"
            )
    return {
        name: replace(split, made={**split.made, "certified": made[name]}) for name, split in splits.items()
    }


def _described(settings: TransferSettings, method: str, certificate: Certificate) -> str:
    """Describe the networks behind a certificate: ``protonet, 5-way 5-shot, cnn4 at 32 pixels, 3 seeds``."""
    tasks = f"{method}, {settings.way}-way {settings.shots[-1]}-shot"
    seeds = UNCERTIFIED if certificate.half is None else count(certificate.networks, "seed")
    return f"{tasks}, {settings.network} at {settings.size} pixels, {settings.steps:,} steps, {seeds}"
