"""Pairs of series tested together, and what follows: who is better, what chance may explain, whether the gate holds."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from longshot.base import Floats, progress
from longshot.evaluation.metrics import METRICS
from longshot.statistics import (
    Interval,
    PairedComparison,
    Verdict,
    compare_many,
    holm,
    smallest_p,
    t_quantile,
    tasks_to_decide,
    widths_differ,
)

if TYPE_CHECKING:
    from longshot.evaluation.per_class import ClassChange
    from longshot.evaluation.views import Records

SIGNIFICANCE = 0.05
_SHOWN = 3  # pairs that repr names
# Pairs tested at a time: bounds memory; signs are drawn anew from the seed, so it changes no p.
_TOGETHER = 64


@dataclass(frozen=True, eq=False)
class SeriesPair:
    """Two series on the same T tasks, which ``tasks`` stands for: pairs with equal ``tasks`` are tested together."""

    tasks: Hashable
    before: Floats  # [T]
    after: Floats  # [T]


def enough_resamples(pairs: int) -> int:
    """Return how many random signs a test needs where ``pairs`` are tested together.

    A sampled p cannot fall below 1 / (1 + resamples): enough of them that correction leaves room below 0.05.

    >>> enough_resamples(1), enough_resamples(120)
    (9999, 12000)
    """
    return max(9999, 100 * pairs)


def deciding_tasks(tasks: Sequence[int]) -> int:
    """Return how many tasks the pairs with the fewest need, so that each can reach a corrected p below 0.05.

    ``tasks`` are those of the pairs that are tested together. No p of n tasks is below 2/2ⁿ, and a corrected p never
    falls when a p rises, so that none is below the correction of these bounds.

    >>> deciding_tasks([5]), deciding_tasks([6, 6]), deciding_tasks([6, 600]), deciding_tasks([600])
    (6, 7, 1, 1)
    """
    needed = 1
    while (holm([smallest_p(max(each, needed)) for each in tasks]) >= SIGNIFICANCE).any():
        needed += 1
    return needed


def compare_pairs(
    pairs: Sequence[SeriesPair], *, higher_is_better: bool = True, seed: int = 0
) -> list[tuple[PairedComparison, float]]:
    """Test every pair, and correct by Holm's method over all of them.

    Parameters
    ----------
    pairs : sequence of SeriesPair
        Values of the two series, task by task.
    higher_is_better : bool
        Whether the metric's higher values win.
    seed : int
        Of the random signs, where not all can be tried.

    Returns
    -------
    list of (PairedComparison, float)
        ``after`` against ``before``, and the corrected p; in the order of ``pairs``.
    """
    resamples = enough_resamples(len(pairs))
    groups: dict[Hashable, list[int]] = {}
    for position, pair in enumerate(pairs):
        groups.setdefault(pair.tasks, []).append(position)
    results: dict[int, PairedComparison] = {}
    with progress("compare", total=len(pairs), unit="pairs") as bar:
        for group in groups.values():
            for start in range(0, len(group), _TOGETHER):
                block = group[start : start + _TOGETHER]
                before = np.stack([pairs[i].before for i in block], axis=1)
                after = np.stack([pairs[i].after for i in block], axis=1)
                tested = compare_many(
                    before, after, higher_is_better=higher_is_better, resamples=resamples, seed=seed
                )
                results.update(zip(block, tested, strict=True))
                bar.advance(len(block))
    ordered = [results[i] for i in range(len(pairs))]
    corrected = holm([comparison.p for comparison in ordered]) if ordered else ()
    return [(comparison, float(p)) for comparison, p in zip(ordered, corrected, strict=True)]


Policy: TypeAlias = Literal["pass", "fail"]


@dataclass(frozen=True)
class RunSeries:
    """What was measured on one testbed of one run."""

    backbone: str
    method: str
    seed: int

    def __str__(self) -> str:
        return f"{self.method} on {self.backbone}" + (f", seed {self.seed}" if self.seed else "")


@dataclass(frozen=True)
class Compared:
    """Series B against series A on one testbed."""

    testbed: str  # name
    testbed_hash: str
    a: RunSeries
    b: RunSeries
    result: PairedComparison
    p_holm: float  # sign-flip p, corrected for all comparisons made together
    higher_is_better: bool
    together: int = 1  # how many comparisons were made together
    over_classes: Interval | None = None  # of the difference, for other classes too; accuracy alone has one
    # accuracy class by class, the largest loss first, where it was asked for
    classes: tuple[ClassChange, ...] = ()

    @property
    def gain(self) -> float:
        """Return how much better B is, in the metric's unit; negative when it is worse."""
        difference = self.result.difference.mean
        return difference if self.higher_is_better else -difference

    @property
    def notable_over_classes(self) -> Interval | None:
        """Return ``over_classes`` where its width differs by more than a fifth from that over tasks."""
        wider = self.over_classes
        return wider if wider is not None and widths_differ(self.result.difference.half, wider.half) else None

    @property
    def verdict(self) -> str:
        """Return ``better`` or ``worse`` (B than A) where the corrected p is below 0.05, else ``tied``."""
        if self.p_holm >= SIGNIFICANCE:
            return "tied"
        return "better" if self.gain > 0 else "worse"

    def worse_by(self, bound: float) -> bool:
        """Tell whether B is worse by more than ``bound`` (the metric's unit), beyond what chance explains."""
        return self.verdict == "worse" and -self.gain > bound

    def tasks_to_decide(self) -> int | None:
        """Estimate how many tasks the sign-flip test needs to decide with a chance of 80 %.

        None where there is no difference or a single task. The spread is that of the interval, whose half width over
        n tasks is h: s = h √n / t_{0.975, n−1}. Where n tasks did not decide it takes more than n.
        """
        interval = self.result.difference
        if interval.half is None or not interval.mean:
            return None
        std = interval.half * interval.n**0.5 / t_quantile(interval.n - 1, 0.95)
        needed = tasks_to_decide(interval.mean, std, comparisons=self.together, level=SIGNIFICANCE)
        return max(needed, interval.n + 1) if self.verdict == "tied" else needed


@dataclass(frozen=True)
class RunComparison:
    """What ``compare`` tells: every pair of series, what had no partner, and whether the gate holds."""

    a: str  # the runs' names
    b: str | None  # None for the series of one run among themselves
    metric: str
    pairs: tuple[Compared, ...]
    unmatched: tuple[str, ...] = ()  # series without a partner, in words
    fail_if_worse: float | None = None  # points of a percentage, nats for the loss
    missing: tuple[str, ...] = ()  # those of them that run A has and run B lacks
    allow_missing: bool = False
    undecided_policy: Policy = "fail"
    names_only: tuple[str, ...] = ()  # what the runs vouch for by names of images only, in words
    judges: tuple[str, ...] = ()  # networks that chose a testbed's images, in words
    leaks: tuple[str, ...] = ()  # networks that saw something of a testbed in training, in words
    # (content hash of a testbed, backbone) → what marks its numbers
    leak_marks: Mapping[tuple[str, str], str] = field(default_factory=dict)
    fail_if_class_worse: float | None = None  # points of a class's accuracy

    @property
    def scale(self) -> float:
        """Return the factor by which a difference is shown: 100 for shares, 1 for nats."""
        return METRICS[self.metric].scale

    @property
    def unit(self) -> str:
        """Return the unit of differences, ``points`` or ``nats``."""
        return METRICS[self.metric].unit

    @property
    def failures(self) -> list[Compared]:
        """List the pairs in which B is worse by more than is allowed, and chance does not explain it."""
        if self.fail_if_worse is None:
            return []
        return [pair for pair in self.pairs if pair.worse_by(self.fail_if_worse / self.scale)]

    @property
    def undecided(self) -> list[Compared]:
        """List the pairs in which B is worse by more than is allowed, but chance may explain it."""
        if self.fail_if_worse is None:
            return []
        bound = self.fail_if_worse / self.scale
        return [pair for pair in self.pairs if pair.verdict == "tied" and -pair.gain > bound]

    @property
    def class_failures(self) -> list[tuple[Compared, ClassChange]]:
        """List the classes that lost more than chance explains, where as much as is not allowed is not ruled out."""
        bound = self.fail_if_class_worse
        if bound is None:
            return []
        return [(pair, each) for pair in self.pairs for each in pair.classes if each.worse_by(bound / 100)]

    @property
    def class_undecided(self) -> list[tuple[Compared, ClassChange]]:
        """List the classes that lost more than is allowed in these tasks, but chance may explain it.

        Without those whose tasks are too few for the test to tell anything.
        """
        bound = self.fail_if_class_worse
        if bound is None:
            return []
        fewest = self.fewest_tasks_of_classes
        return [
            (pair, each)
            for pair in self.pairs
            for each in pair.classes
            if each.tasks >= fewest and each.may_be_worse_by(bound / 100)
        ]

    @property
    def outcome(self) -> Verdict | None:
        """Tell whether the gates hold; None without one.

        ``failed`` where a series or a class is worse or a series missing, else ``undecided`` where chance may explain a
        loss beyond the bound, unless such a loss is to pass.
        """
        if self.fail_if_worse is None and self.fail_if_class_worse is None:
            return None
        if self.failures or self.class_failures or (self.missing and not self.allow_missing):
            return "failed"
        open_losses = self.undecided or self.class_undecided
        return "undecided" if open_losses and self.undecided_policy == "fail" else "passed"

    @property
    def fewest_tasks(self) -> int:
        """Return how many tasks a pair needs so that the test could decide it; 1 where all have enough."""
        return deciding_tasks([pair.result.n for pair in self.pairs])

    @property
    def fewest_tasks_of_classes(self) -> int:
        """Return how many tasks a class needs so that the test could decide it; 1 where all have enough."""
        return deciding_tasks([change.tasks for pair in self.pairs for change in pair.classes])

    def to_pandas(self) -> Any:
        """Return the comparisons as a ``pandas.DataFrame``, a row per pair of series."""
        return self._rows().to_pandas()

    def per_class(self) -> Records:
        """Return a record per pair of series and class, the largest loss of a pair first; empty without classes."""
        from longshot.evaluation.views import Records

        return Records(
            {"testbed": pair.testbed, "A": str(pair.a), "B": str(pair.b), **_class_record(change)}
            for pair in self.pairs
            for change in pair.classes
        )

    def _rows(self) -> Records:
        from longshot.evaluation.views import Records

        return Records(
            {
                "testbed": pair.testbed,
                "A": str(pair.a),
                "B": str(pair.b),
                "tasks": pair.result.n,
                "mean A": pair.result.mean_a,
                "mean B": pair.result.mean_b,
                "B − A": pair.result.difference.mean,
                "p corr.": pair.p_holm,
                "B is": pair.verdict,
            }
            for pair in self.pairs
        )

    def __repr__(self) -> str:
        """Describe the comparison in at most five lines."""
        outcome = f", {self.outcome}" if self.outcome else ""
        lines = [f"<RunComparison of {self.b or self.a} with {self.a}: {self.metric}{outcome}>"]
        for pair in self.pairs[:_SHOWN]:
            change = f"{pair.result.difference.mean * self.scale:+.2f} {self.unit}, p {pair.p_holm:.4f}"
            lines.append(f"{pair.testbed}: {pair.b} against {pair.a}: {change}: {pair.verdict}")
        if len(self.pairs) > _SHOWN:
            lines.append(f"… and {len(self.pairs) - _SHOWN:,} more; see to_pandas()")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return self._rows()._repr_html_()

    def record(self) -> dict[str, Any]:
        """Return all of it as plain values, for JSON."""
        failures, undecided = self.failures, self.undecided
        return {
            "metric": self.metric,
            "a": self.a,
            "b": self.b or self.a,
            "comparisons": [_record(pair, pair in failures, pair in undecided) for pair in self.pairs],
            "unmatched": list(self.unmatched),
            "missing": list(self.missing),
            "names_only": list(self.names_only),
            "judges": list(self.judges),
            "leaks": list(self.leaks),
            "fail_if_worse": self.fail_if_worse,
            "fail_if_class_worse": self.fail_if_class_worse,
            "class_failures": [_class_record(change) for _, change in self.class_failures],
            "class_undecided": [_class_record(change) for _, change in self.class_undecided],
            "allow_missing": self.allow_missing,
            "undecided_policy": self.undecided_policy,
            "outcome": self.outcome,
            "failed": self.outcome == "failed",
        }


def _class_record(change: ClassChange) -> dict[str, Any]:
    """Return what became of a class as plain values."""
    low, high = change.difference.low, change.difference.high
    return {
        "dataset": change.dataset,
        "class": change.class_id,
        "tasks": change.tasks,
        "before": change.before,
        "after": change.after,
        "difference": change.difference.mean,
        "difference_ci95": None if low is None else [low, high],
        "p": change.p,
        "p_holm": change.p_holm,
    }


def _record(pair: Compared, failed: bool, undecided: bool) -> dict[str, Any]:
    """Return a pair as plain values."""
    result = pair.result
    return {
        "testbed": pair.testbed,
        "testbed_hash": pair.testbed_hash,
        **{
            side: {"backbone": series.backbone, "method": series.method, "seed": series.seed, "mean": mean}
            for side, series, mean in (("a", pair.a, result.mean_a), ("b", pair.b, result.mean_b))
        },
        "tasks": result.n,
        "difference": result.difference.mean,
        "difference_ci95": None
        if result.difference.low is None
        else [result.difference.low, result.difference.high],
        "difference_ci95_over_classes": None
        if pair.over_classes is None or pair.over_classes.low is None
        else [pair.over_classes.low, pair.over_classes.high],
        "wins": result.wins,
        "ties": result.ties,
        "losses": result.losses,
        "p": result.p,
        "p_exact": result.exact,
        "p_t": None if result.n < 2 else result.p_t,
        "p_holm": pair.p_holm,
        "verdict": pair.verdict,
        "failed": failed,
        "undecided": undecided,
        "tasks_to_decide": pair.tasks_to_decide() if pair.verdict == "tied" else None,
        "classes": [_class_record(change) for change in pair.classes],
    }
