"""The account: what the supports of a testbed cost against uniform ones, and how much of it is explained by what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from longshot.base import Floats, Ints, count
from longshot.diagnosis.interventions import Intervention, say_points
from longshot.diagnosis.suspicions import EMBEDDED
from longshot.statistics import Interval, bootstrap, mean_interval

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
        """The account in one sentence."""
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
