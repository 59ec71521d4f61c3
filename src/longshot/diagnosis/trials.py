"""Suspected causes of one dataset's tasks, put to the trial: features, suspicions, interventions, uniform supports.

The account is what the supports of a testbed cost against uniform ones, and how much of it is explained by what.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from longshot.base import Floats, Ints, TaskRows, UserError, count, pick_device
from longshot.diagnosis.attribute_gaps import Gaps
from longshot.diagnosis.interventions import (
    DRAWS,
    Intervention,
    judge_interventions,
    replace_suspects,
    say_points,
)
from longshot.diagnosis.suspicions import (
    EMBEDDED,
    Suspicion,
    suspect_attributes,
    suspect_embeddings,
    suspect_labels,
)
from longshot.diagnosis.swaps import EmbedTwins, Swaps, altered_arm, uniform_supports
from longshot.models import suspects_of
from longshot.reports import class_names
from longshot.statistics import Interval, bootstrap, mean_interval

if TYPE_CHECKING:
    from longshot import Testbed
    from longshot.data import Dataset
    from longshot.models import Features


UNEXPLAINED = "none of what is measured"


@dataclass(frozen=True)
class Share:
    """A kind's part: the tasks counted under it, and the points it brings back, as a mean over all tasks."""

    kind: str
    meaning: str
    tasks: int
    points: Interval


@dataclass(frozen=True)
class Account:
    """Of one dataset's tasks: accuracy, that with uniform supports, and what of the difference is explained.

    ``cost`` is uniform minus accuracy. Every task is counted once, under the first of the kinds that hold which is
    suspected in it: attributes and labels before shifts in embedding space, and those that bring back most first.
    ``shares`` end with what none of the kinds explains. ``share`` is the explained part of the cost. Where the interval
    of the cost is not above 0, nothing is divided: ``share`` is None, ``shares`` is empty.
    """

    dataset: str
    accuracy: Interval
    uniform: Interval
    cost: Interval
    explained: int
    of: int
    share: Interval | None
    shares: tuple[Share, ...]

    @property
    def sentence(self) -> str:
        """Say the account in one sentence."""
        if self.share is None:
            return (
                f"{self.dataset}: its supports are not shown to be harder than uniform ones, against which they cost "
                f"{say_points(self.cost)} points, so that there is no difficulty to divide among causes."
            )
        part = f" ({100 * self.share.mean:.0f} %)"
        if self.share.low is not None and self.share.high is not None:
            bounds = f"{100 * self.share.low:.0f} to {100 * self.share.high:.0f}"
            part = f" ({100 * self.share.mean:.0f} %, 95 % interval {bounds} %)"
        explained = sum(share.points.mean for share in self.shares[:-1])
        return (
            f"{self.dataset}: {self.explained:,} of {count(self.of, 'task')} have a cause that holds; of the "
            f"{say_points(self.cost)} points that these supports cost against uniform ones {100 * explained:.1f} are "
            f"explained{part}, and {say_points(self.shares[-1].points)} by {UNEXPLAINED}."
        )


def make_account(
    dataset: str, tasks: Ints, accuracy: Floats, uniform: Floats, interventions: Sequence[Intervention]
) -> Account:
    """Divide what the supports cost among the kinds that hold.

    Parameters
    ----------
    dataset : str
        Its name.
    tasks : ints [T]
        Task numbers.
    accuracy, uniform : arrays [T]
        Accuracy of each task as it is, and with uniform supports.
    interventions : sequence of Intervention
        Judged, in order.

    Returns
    -------
    Account
        The interval of ``share`` is a bootstrap over tasks of Σ explained / Σ cost.
    """
    cost = uniform - accuracy
    owner = np.full(len(tasks), -1)
    points = np.zeros(len(tasks))
    holding = [each for each in interventions if each.holds and each.dataset == dataset]
    holding.sort(key=lambda each: each.kind in EMBEDDED)  # what a person can see comes first
    for number, each in enumerate(holding):
        recovered = np.array([each.by_task.get(int(task), np.nan) for task in tasks])
        counted = (owner < 0) & np.isfinite(recovered)
        owner[counted], points[counted] = number, recovered[counted]
    shares = [
        Share(
            each.kind,
            each.meaning,
            int((owner == number).sum()),
            mean_interval(np.where(owner == number, points, 0.0)),
        )
        for number, each in enumerate(holding)
        if (owner == number).any()
    ]
    shares.append(Share("", UNEXPLAINED, int((owner < 0).sum()), mean_interval(cost - points)))
    interval = mean_interval(cost)
    share = None
    if interval.low is not None and interval.low > 0:
        share = bootstrap(
            len(tasks), lambda rows: points[rows].sum(1) / cost[rows].sum(1), method="percentile"
        )
    else:
        shares = []
    return Account(
        dataset=dataset,
        accuracy=mean_interval(accuracy),
        uniform=mean_interval(uniform),
        cost=interval,
        explained=int((owner >= 0).sum()),
        of=len(tasks),
        share=share,
        shares=tuple(shares),
    )


WAYS_TO_INTERVENE = ("none", "replace", "pixels")


@dataclass(frozen=True, eq=False)
class Trial:
    """One dataset's tasks: their interventions, not judged yet, and accuracy as they are and with uniform supports."""

    dataset: str
    interventions: Sequence[Intervention]
    tasks: Ints  # [T] numbers
    accuracy: Floats  # [T]
    uniform: Floats  # [T]


def check_intervention(intervene: str, backbone: object) -> None:
    """Raise UserError for an unknown way to intervene, or for one without a backbone to evaluate with."""
    if intervene not in WAYS_TO_INTERVENE:
        raise UserError(f"{{intervene}} is '{intervene}', but it must be {', '.join(WAYS_TO_INTERVENE)}.")
    if intervene != "none" and backbone is None:
        raise UserError(
            f"{{intervene:{intervene}}} evaluates tasks again, and no backbone is chosen",
            "choose one, as in {backbone:pixels}",
        )
    if intervene == "pixels" and (not isinstance(backbone, str) or backbone.startswith("npy:")):
        raise UserError(
            "{intervene:pixels} embeds altered images, and the backbone is not the name of a network",
            "choose one, as in {backbone:pixels}, or {intervene:replace}",
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
    embed_pairs: EmbedTwins | None = None,
) -> Trial:
    """Take every suspected cause away from the tasks of one dataset, and evaluate them with uniform supports too.

    With ``embed_pairs`` the control of an alteration are the same images altered on their pixels.
    """
    from longshot.evaluation import spread_accuracies
    from longshot.models import feature_method

    chosen = feature_method(method)
    where = pick_device(device)

    def evaluate(tasks: TaskRows) -> Floats:
        return spread_accuracies(tasks, chosen, features.array, where)

    groups, offsets = gaps.groups, features.offsets

    def evaluate_altered(suspicion: Suspicion, swaps: Swaps) -> Floats:
        assert embed_pairs is not None
        rows = len(features.keys)
        tasks, twins = altered_arm(suspicion, swaps, bound, groups, rows, embed_pairs)
        joined = np.concatenate([features.array, twins.astype(features.array.dtype)])
        return spread_accuracies(tasks, chosen, joined, where)

    interventions = replace_suspects(
        suspicions_of(gaps, features),
        bound,
        groups,
        offsets,
        evaluate,
        evaluate_altered=None if embed_pairs is None else evaluate_altered,
        dataset=dataset.name,
        keys=lambda rows: [str(dataset.keys[int(row)].as_py()) for row in rows],
        class_names=class_names(list(dataset.class_ids), testbed.labels.get(dataset.name)),
        draws=draws,
    )
    uniform = evaluate(uniform_supports(bound, groups, offsets, draws=draws)).reshape(draws, -1).mean(0)
    return Trial(dataset.name, interventions, bound.tasks, evaluate(bound), uniform)


def suspicions_of(gaps: Gaps, features: Features) -> list[Suspicion]:
    """Collect everything that is suspected: attributes, shifts in embedding space, doubtful labels."""
    return [
        *suspect_attributes(gaps, features.offsets),
        *suspect_embeddings(features, gaps.groups),
        *suspect_labels(suspects_of(features), gaps.groups),
    ]


def conclude(trials: Sequence[Trial]) -> tuple[list[Intervention], list[Account]]:
    """Judge the interventions of all datasets together, and account for what the supports cost in each."""
    judged = judge_interventions([each for trial in trials for each in trial.interventions])
    accounts = [
        make_account(trial.dataset, trial.tasks, trial.accuracy, trial.uniform, judged) for trial in trials
    ]
    return judged, accounts
