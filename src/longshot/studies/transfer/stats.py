"""What the study of transfer difficulty measured, and the statistics its tables are made of."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from longshot.core.arrays import Floats
from longshot.statistics import Interval, Slope, mean_interval, slope

ADAPTING = ("maml", "finetune")  # change the embedding on the task
FIXED = ("anil", "protonet", "multiclass")  # share one embedding between tasks
_Z95 = 1.959963984540054


@dataclass(frozen=True)
class SplitPlace:
    """One split of the study: ``target`` is the divergence asked for, None for splits made without one."""

    name: str
    target: float | None
    measured: float  # divergence of the means of the train and test classes
    gap: float  # ‖mean of the train classes − mean of the test classes‖
    twin: str = ""  # the earlier split with the same classes in every part, if any


@dataclass(frozen=True, eq=False)
class TransferScores:
    """Accuracies [repeats, T] (shares) by (split, method, shots); all methods of a split had the same tasks."""

    splits: Sequence[SplitPlace]
    methods: Sequence[str]
    shots: Sequence[int]
    accuracy: Mapping[tuple[str, str, int], Floats]
    cut: frozenset[tuple[str, str, int]] = frozenset()  # cells whose training hit its ceiling in time

    def comparable(self, *methods: str, shot: int) -> list[SplitPlace]:
        """The splits of the sweep on which all these methods had their whole budget."""
        return [s for s in self.sweep if not any((s.name, method, shot) in self.cut for method in methods)]

    def tasks(self, split: str, method: str, shot: int) -> Floats:
        """Accuracy per task [T], the mean over repeated trainings."""
        means: Floats = self.accuracy[split, method, shot].mean(axis=0)
        return means

    @property
    def sweep(self) -> list[SplitPlace]:
        """The splits that have a target, by target."""
        targeted = (split for split in self.splits if split.target is not None)
        return sorted(targeted, key=lambda split: split.target or 0.0)

    @property
    def hardest(self) -> SplitPlace:
        """The split of the largest target."""
        return self.sweep[-1]


@dataclass(frozen=True)
class Steepness:
    """A slope of accuracy against divergence, in shares per unit, with two intervals.

    ``fit`` has the t interval over splits and trainings (n − 2 degrees of freedom): it holds for other splits of these
    divergences. ``low`` and ``high`` hold for more tasks of the same splits and networks only.
    """

    fit: Slope
    low: float
    high: float


def steepness(
    scores: TransferScores, method: str, shot: int, *, against: str = "", measured: bool = False
) -> Steepness:
    """Regress mean accuracy on divergence over the sweep, one point per split and training.

    x is the target R, or with ``measured`` the divergence of the class means. With ``against`` y is the difference to
    that method on the same splits and tasks, whose slope says which of the two falls faster. Splits on which a training
    hit its ceiling in time are left out; with fewer than two left there is no slope (NaN).

    The slope is Σ w_i ȳ_i with w_i = (x_i − x̄) / S_xx, so its error over tasks is √Σ w_i² s_i² / T_i.
    """
    y, errors = [], []
    splits = scores.comparable(method, *([against] if against else []), shot=shot)
    if len(splits) < 2:
        nothing = math.nan
        return Steepness(
            Slope(nothing, nothing, nothing, nothing, nothing, nothing, len(splits)), nothing, nothing
        )
    for split in splits:
        values = scores.accuracy[split.name, method, shot]
        if against:
            values = values - scores.accuracy[split.name, against, shot]
        y.append(values.mean(axis=1))
        per_task = values.mean(axis=0)
        errors.append(per_task.var(ddof=1) / len(per_task) if len(per_task) > 1 else math.nan)
    x = np.array([split.measured if measured else split.target or 0.0 for split in splits])
    fit = slope(np.repeat(x, len(y[0])), np.concatenate(y))
    weights = (x - x.mean()) / float(((x - x.mean()) ** 2).sum())
    reach = _Z95 * math.sqrt(float((weights**2 * np.array(errors)).sum()))
    return Steepness(fit, fit.slope - reach, fit.slope + reach)


def advantage(scores: TransferScores, split: SplitPlace, method: str, other: str, shot: int) -> Interval:
    """Accuracy of ``method`` minus that of ``other`` on the same tasks of a split, with its t interval over tasks."""
    return mean_interval(scores.tasks(split.name, method, shot) - scores.tasks(split.name, other, shot))


def leader(scores: TransferScores, split: SplitPlace, names: Sequence[str], shot: int) -> str | None:
    """The method of highest mean among ``names``, None when the study has none of them."""
    candidates = [name for name in names if name in scores.methods]
    return max(candidates, key=lambda name: float(scores.tasks(split.name, name, shot).mean()), default=None)


def targets_differ(splits: Sequence[SplitPlace]) -> bool:
    """Whether the measured divergences of the sweep differ at all, so that a line can be laid through them."""
    values = [split.measured for split in splits if split.target is not None]
    return len(values) > 1 and float(np.ptp(values)) > 1e-9 * max(1.0, max(values))
