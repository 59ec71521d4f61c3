"""What the supports of a testbed cost, by which causes, and what to do about it: the account, and remedies.

All suspected causes are taken away jointly (``interventions``). Those whose points are above 0 (p of the t test,
corrected by Holm over the causes of all datasets, at most 0.05) remain. Images are drawn again for these alone, and
what they bring makes up the account. Where together they bring more than the loss, by chance, all are scaled to it.

A remedy adds up to three images to one class, drawn like the queries in the causes that remain. One half of the draws
chooses the classes for which it pays most. The other half, with other images and other queries, says what it brings.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from longshot.base import Floats, Ints, TaskRows, UserError, count, pick_device
from longshot.diagnosis.attribute_gaps import Gaps, Groups
from longshot.diagnosis.interventions import (
    ADDED,
    DRAWS,
    Evaluate,
    Redrawn,
    grown,
    reach_of,
    redraw,
    shapley,
    worths,
)
from longshot.diagnosis.suspicions import LEANING, MATCHES, MEANINGS, Suspicion, members_of, suspicions_of
from longshot.models import suspects_of
from longshot.reports import class_names
from longshot.statistics import Interval, bootstrap, holm, mean_interval, percent, plus_minus, t_p_value

if TYPE_CHECKING:
    from longshot import Testbed
    from longshot.data import Dataset
    from longshot.models import Features


UNEXPLAINED = "these very images: others that share their causes do not cost it"
LEVEL = 0.05  # chance of claiming any cause that does not hold
_EXAMPLES = 2  # of a cause, with pictures
_REMEDIES = 5  # classes at most
# Of the loss explained, and of the way that supports go in a cause: below both an account says what is missing.
_LITTLE, _NEAR = 0.5, 0.8
_FEWEST = 5  # tasks that a remedy is measured on


@dataclass(frozen=True)
class Exchange:
    """Supports of one class of one task, and images in their place or beside them: keys, in order."""

    task: int
    class_name: str
    removed: tuple[str, ...]
    added: tuple[str, ...]
    towards: str = ""  # the class that the support leans to


@dataclass(frozen=True)
class Intervention:
    """One suspected cause of a dataset's tasks, taken away together with the others.

    Attributes
    ----------
    dataset, kind : str
        Where, and which cause.
    suspected, of : int
        Tasks in which it is suspected, and tasks of the dataset.
    points : Interval
        What it costs: its Shapley value, a mean over tasks.
    p, adjusted : float, optional
        Of ``points``, and after Holm's correction; None where there are fewer than two tasks.
    holds : bool
        Whether it is claimed.
    by_task : mapping
        Task number → points.
    examples : tuple of Exchange
        What was exchanged, in the first draw.
    """

    dataset: str
    kind: str
    suspected: int
    of: int
    points: Interval
    p: float | None = None
    adjusted: float | None = None
    holds: bool = False
    by_task: Mapping[int, float] = field(default_factory=dict)
    examples: tuple[Exchange, ...] = ()

    @property
    def meaning(self) -> str:
        """Describe the kind in words."""
        return MEANINGS.get(self.kind, self.kind)

    @property
    def sentence(self) -> str:
        """Say ``because of blur: 9.4 ± 2.1 points, suspected in 31 of 60 tasks``, or that it does not hold."""
        where = f"suspected in {self.suspected:,} of {count(self.of, 'task')}"
        if self.holds:
            return f"because of {self.meaning}: {say_points(self.points)} points, {where}"
        return f"not shown: {self.meaning}, {say_points(self.points)} points, which may be chance; {where}"


def say_points(interval: Interval | None, *, signed: bool = False) -> str:
    """Return an interval in points of accuracy; a dash where there is none."""
    return "–" if interval is None else plus_minus(interval.mean, interval.half, "points", signed=signed)


@dataclass(frozen=True)
class Share:
    """A kind's part of the loss: the tasks in which it is suspected, and its points as a mean over all tasks."""

    kind: str
    meaning: str
    tasks: int
    points: Interval


@dataclass(frozen=True)
class Account:
    """Of one dataset's tasks: accuracy, that with supports like the queries, and what the difference is made of.

    Attributes
    ----------
    dataset : str
        Its name.
    of : int
        Tasks.
    fresh : bool
        Whether all but ``own`` is measured on fresh queries.
    own, accuracy : Interval
        Accuracy on the tasks' own queries, and on those of the account.
    reference : Interval
        With supports like the queries.
    loss : Interval
        ``reference`` minus ``accuracy``.
    share : Interval, optional
        The part of the loss that causes explain. None where the interval of the loss is not above 0: then nothing is
        divided, and ``shares`` is empty.
    shares : tuple of Share
        They add up to the loss; the last one is what nothing explains.
    reach : float, optional
        How far other images go in the suspected causes, as a part of what the supports go (``reach_of``).
    """

    dataset: str
    of: int
    fresh: bool
    own: Interval
    accuracy: Interval
    reference: Interval
    loss: Interval
    share: Interval | None
    shares: tuple[Share, ...]
    reach: float | None = None

    @property
    def sentence(self) -> str:
        """Say the account in one sentence."""
        on = (
            "on fresh queries"
            if self.fresh
            else "on the tasks' own queries, for classes are too small for fresh ones"
        )
        if self.share is None:
            return (
                f"{self.dataset}: supports like the queries are not shown to be easier ({say_points(self.loss)} points "
                f"{on}), so that there is no loss to divide among causes."
            )
        bounds = ""
        if self.share.low is not None and self.share.high is not None:
            bounds = f", 95 % interval {percent(self.share.low, 0)} to {percent(self.share.high, 0)} %"
        return (
            f"{self.dataset}: {say_points(self.loss)} points of accuracy are lost against supports like the queries "
            f"({say_points(self.accuracy)} instead of {say_points(self.reference)}, {on}). Causes explain "
            f"{percent(self.share.mean, 0)} % of it{bounds}.{self._missing}"
        )

    @property
    def _missing(self) -> str:
        """Say what is missing where little is explained, and no other images are as far out as the supports."""
        if self.reach is None or self.reach >= _NEAR or self.share is None or self.share.mean >= _LITTLE:
            return ""
        return (
            f" Other images of these classes go {percent(max(self.reach, 0), 0)} % as far in the suspected causes as "
            "the supports, so that the rest may be the same causes: larger classes would tell."
        )


@dataclass(frozen=True)
class Remedy:
    """What adding a few images to a class brings, measured on queries and images that did not choose the class.

    Attributes
    ----------
    dataset, class_name : str
        Where; an empty name is every class at once.
    added : int
        Images added per class.
    causes : tuple of str
        In what they are like the queries, unlike the supports: domain, nearness to other classes.
    tasks : int
        That have the class: n of the intervals.
    gain : Interval
        Change of accuracy of these tasks.
    control : Interval
        The change when as many images like the supports are added.
    example : Exchange, optional
        The supports of one task, and what was added.
    """

    dataset: str
    class_name: str
    added: int
    causes: tuple[str, ...]
    tasks: int
    gain: Interval
    control: Interval
    example: Exchange | None = None

    @property
    def sentence(self) -> str:
        """Say ``add 3 photos like these to class 'dog': +6.1 ± 1.4 points``."""
        where = f"class '{self.class_name}'" if self.class_name else "every class"
        return (
            f"add {count(self.added, 'photo')} like these to {where}: {say_points(self.gain, signed=True)} points "
            f"over {count(self.tasks, 'task')} ({say_points(self.control, signed=True)} if they are like the supports)"
        )


@dataclass(frozen=True, eq=False)
class Trial:
    """The tasks of one dataset with all that is needed to draw and evaluate them again; ``first`` is not judged yet."""

    dataset: str
    bound: TaskRows
    groups: Groups
    offsets: Ints
    suspicions: Sequence[Suspicion]
    evaluate: Evaluate
    keys: Callable[[Ints], tuple[str, ...]]
    names: Sequence[str]  # of the dataset's classes
    first: Sequence[Intervention]
    reach: float | None = None


def check_intervention(intervene: bool, backbone: object) -> None:
    """Raise UserError where causes are to be taken away without a backbone to evaluate with."""
    if intervene and backbone is None:
        raise UserError(
            "{intervene} evaluates tasks again, and no backbone is chosen",
            "choose one, as in {backbone:pixels}",
        )


def try_causes(
    testbed: Testbed,
    dataset: Dataset,
    bound: TaskRows,
    gaps: Gaps,
    features: Features,
    *,
    method: str = "protonet",
    device: str = "auto",
    draws: int = DRAWS,
) -> Trial:
    """Take all suspected causes away from the tasks of one dataset, jointly."""
    from longshot.models import feature_method, spread_accuracies

    chosen, where = feature_method(method), pick_device(device)
    suspicions = suspicions_of(gaps, features, suspects_of(features))
    trial = Trial(
        dataset.name,
        bound,
        gaps.groups,
        features.offsets,
        suspicions,
        lambda tasks: spread_accuracies(tasks, chosen, features.array, where),
        lambda rows: tuple(str(dataset.keys[int(row)].as_py()) for row in rows),
        class_names(list(dataset.class_ids), testbed.labels.get(dataset.name)),
        (),
    )
    redrawn = redraw(suspicions, bound, gaps.groups, features.offsets, draws=draws)
    points = shapley(worths(redrawn, trial.evaluate)[0]) if suspicions else np.empty((0, len(bound)))
    return replace(
        trial,
        first=[_measured(trial, each, row) for each, row in zip(suspicions, points, strict=True)],
        reach=reach_of(redrawn, suspicions, gaps.groups, features.offsets),
    )


def _measured(trial: Trial, suspicion: Suspicion, points: Floats) -> Intervention:
    return Intervention(
        trial.dataset,
        suspicion.kind,
        len(np.unique(trial.groups.task[suspicion.suspected])),
        len(points),
        mean_interval(points),
        p_of_mean(points),
        by_task=dict(zip(trial.bound.tasks.tolist(), points.tolist(), strict=True)),
    )


def judge_interventions(interventions: Sequence[Intervention]) -> list[Intervention]:
    """Correct for the number of causes and say which hold; those that cost most come first."""
    tested = [each for each in interventions if each.p is not None]
    adjusted = dict(zip(map(id, tested), holm([each.p or 0.0 for each in tested]).tolist(), strict=True))
    judged = []
    for each in interventions:
        p = adjusted.get(id(each))
        judged.append(replace(each, adjusted=p, holds=p is not None and p <= LEVEL and each.points.mean > 0))
    return sorted(judged, key=lambda each: (not each.holds, -each.points.mean, each.kind))


def p_of_mean(values: Floats) -> float | None:
    """Compute the two-sided p of the t test that the mean of n values is 0; None for fewer than two."""
    if len(values) < 2:
        return None
    mean, error = float(values.mean()), float(values.std(ddof=1)) / math.sqrt(len(values))
    if error == 0:
        return 0.0 if mean else 1.0
    return t_p_value(mean / error, len(values) - 1)


def conclude(
    trials: Sequence[Trial], *, draws: int = DRAWS
) -> tuple[list[Intervention], list[Account], list[Remedy]]:
    """Judge the causes of all datasets together; account for each dataset's loss by those that hold; find remedies."""
    judged = judge_interventions([each for trial in trials for each in trial.first])
    interventions, accounts, remedies = [], [], []
    for trial in trials:
        own = [each for each in judged if each.dataset == trial.dataset]
        holding = [each.kind for each in own if each.holds]
        remaining = [each for each in trial.suspicions if each.kind in holding]
        redrawn = redraw(remaining, trial.bound, trial.groups, trial.offsets, draws=draws, seed=1)
        worth, accuracy = worths(redrawn, trial.evaluate)
        points = shapley(worth)
        final = {
            suspicion.kind: replace(
                _measured(trial, suspicion, row),
                holds=True,
                examples=_examples(trial, redrawn, suspicion, bit),
            )
            for bit, (suspicion, row) in enumerate(zip(remaining, points, strict=True))
        }
        held = [replace(final.get(each.kind, each), p=each.p, adjusted=each.adjusted) for each in own]
        held.sort(key=lambda each: (not each.holds, -each.points.mean, each.kind))
        interventions += held
        account = make_account(
            held,
            accuracy,
            worth[-1],
            own=trial.evaluate(trial.bound),
            fresh=redrawn.fresh,
            name=trial.dataset,
            reach=trial.reach,
        )
        accounts.append(account)
        if remaining and account.share is not None:
            remedies += find_remedies(trial, remaining, redrawn)
    return interventions, accounts, remedies


def make_account(
    interventions: Sequence[Intervention],
    accuracy: Floats,
    reference: Floats,
    *,
    own: Floats,
    fresh: bool,
    name: str,
    reach: float | None = None,
) -> Account:
    """Divide the loss of T tasks among the causes that hold.

    Parameters
    ----------
    interventions : sequence of Intervention
        ``by_task`` of those that hold has a number for each task, in order.
    accuracy, reference : arrays [T]
        Accuracy of each task with its own supports, and with supports like the queries.
    own : array [T]
        Accuracy on the tasks' own queries.
    fresh : bool
        Whether ``accuracy`` and ``reference`` are on others.
    name : str
        The dataset's.
    reach : float, optional
        Of ``Account``.

    Returns
    -------
    Account
        The interval of ``share`` is a bootstrap over tasks of Σ explained / Σ loss, at most 1.
    """
    loss = reference - accuracy
    holding = [each for each in interventions if each.holds]
    points = np.array([list(each.by_task.values()) for each in holding]).reshape(len(holding), len(loss))
    explained = points.sum(0)
    share, shares = None, []
    interval = mean_interval(loss)
    if interval.low is not None and interval.low > 0:
        points *= min(1.0, float(loss.sum()) / max(float(explained.sum()), 1e-12))
        shares = [
            Share(each.kind, each.meaning, each.suspected, mean_interval(row))
            for each, row in zip(holding, points, strict=True)
        ]
        shares.append(Share("", UNEXPLAINED, len(loss), mean_interval(loss - points.sum(0))))
        share = bootstrap(
            len(loss),
            lambda rows: np.minimum(explained[rows].sum(1) / np.maximum(loss[rows].sum(1), 1e-12), 1.0),
        )
    return Account(
        name,
        len(loss),
        fresh,
        mean_interval(own),
        mean_interval(accuracy),
        mean_interval(reference),
        interval,
        share,
        tuple(shares),
        reach,
    )


def find_remedies(trial: Trial, causes: Sequence[Suspicion], redrawn: Redrawn) -> list[Remedy]:
    """Find the classes to which images like the queries are best added; and what adding to every class brings."""
    groups, draws, full = trial.groups, redrawn.supports.shape[1], len(redrawn.supports) - 1
    suspected = np.logical_or.reduce([each.suspected for each in causes])
    shots = np.bincount(groups.support_group, minlength=len(groups))
    chosen = np.flatnonzero(suspected & (shots > 0))
    gains = np.zeros((2, draws, len(chosen)))  # like the queries, like the supports
    every = np.zeros((2, draws, len(trial.bound)))
    for draw in range(draws):
        before = trial.evaluate(redrawn.tasks(redrawn.bound.support.values, draw))
        for number, arm in enumerate((full, 0)):
            grown_class = trial.evaluate(grown(redrawn, draw, arm, groups, chosen))
            gains[number, draw] = grown_class - before[groups.task[chosen]]
            every[number, draw] = trial.evaluate(grown(redrawn, draw, arm, groups)) - before
    added = int(min(ADDED, shots[shots > 0].min()))
    kinds = tuple(MATCHES.get(each.kind, each.kind) for each in causes)
    gain, control = (mean_interval(row.mean(0)) for row in every)
    best = int(chosen[gains[0].mean(0).argmax()])
    example = _exchange(trial, best, redrawn.supports[full, 0], ADDED, causes)
    general = Remedy(trial.dataset, "", added, kinds, len(trial.bound), gain, control, example)
    labels = groups.label[chosen]
    half = draws // 2
    candidates = []
    for label in np.unique(labels).tolist():
        where = np.flatnonzero(labels == label)
        if len(where) >= _FEWEST:
            candidates.append((float(gains[0, :half][:, where].mean()), label, where))
    remedies = []
    for _, label, where in sorted(candidates, key=lambda each: (-each[0], each[1]))[:_REMEDIES]:
        gain, control = (mean_interval(gains[number, half:][:, where].mean(0)) for number in (0, 1))
        if gain.low is None or gain.low <= 0:
            continue
        best = int(chosen[where[gains[0, :, where].mean(1).argmax()]])
        of = tuple(MATCHES.get(e.kind, e.kind) for e in causes if e.suspected[chosen[where]].any())
        example = _exchange(trial, best, redrawn.supports[full, 0], ADDED, causes)
        remedies.append(
            Remedy(trial.dataset, trial.names[label], added, of, len(where), gain, control, example)
        )
    return [general, *sorted(remedies, key=lambda each: -each.gain.mean)]


def _examples(trial: Trial, redrawn: Redrawn, suspicion: Suspicion, bit: int) -> tuple[Exchange, ...]:
    """Show the first groups of different tasks in which a cause is suspected, and what came in its place."""
    groups = np.flatnonzero(suspicion.suspected)
    _, first = np.unique(trial.groups.task[groups], return_index=True)
    arm = redrawn.supports[1 << bit, 0]
    return tuple(_exchange(trial, int(group), arm, None, [suspicion]) for group in groups[first[:_EXAMPLES]])


def _exchange(
    trial: Trial, group: int, arm: Ints, most: int | None, suspicions: Sequence[Suspicion]
) -> Exchange:
    members = members_of(trial.groups.support_group, len(trial.groups))[group]
    towards = next((each.towards for each in suspicions if each.kind == LEANING), None)
    leans = towards is not None and towards[group] >= 0
    return Exchange(
        int(trial.bound.tasks[trial.groups.task[group]]),
        trial.names[int(trial.groups.label[group])],
        trial.keys(trial.groups.support[members]),
        trial.keys(arm[members][:most]),
        trial.names[int(towards[group])] if towards is not None and leans else "",
    )
