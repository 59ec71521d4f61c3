"""Comparing what runs hold: which series belong together, on which tasks, and who is better."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc

from longshot.core.arrays import Floats, Ints
from longshot.core.errors import UserError
from longshot.evaluation.paired_tests import SIGNIFICANCE, SeriesPair, compare_pairs
from longshot.evaluation.results import METRICS, Results, cell_rows, match_methods, match_testbeds
from longshot.statistics import Comparison, tasks_needed

LOWER_IS_BETTER = ("loss",)


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
    result: Comparison
    p_holm: float  # sign-flip p, corrected for all comparisons made together
    higher_is_better: bool

    @property
    def gain(self) -> float:
        """How much better B is, in the metric's unit; negative when it is worse."""
        difference = self.result.difference.mean
        return difference if self.higher_is_better else -difference

    @property
    def verdict(self) -> str:
        """``better`` or ``worse`` (B than A) where the corrected p is below 0.05, else ``tied``."""
        if self.p_holm >= SIGNIFICANCE:
            return "tied"
        return "better" if self.gain > 0 else "worse"

    def worse_by(self, bound: float) -> bool:
        """Whether B is worse by more than ``bound`` (the metric's unit) and chance does not explain it."""
        return self.verdict == "worse" and -self.gain > bound

    def tasks_to_decide(self) -> int | None:
        """How many tasks an interval as wide as the difference takes; None where one task or no spread tells nothing.

        From the interval's half width h over n tasks: s = h √n / t_{0.975, n−1}.
        """
        from longshot.statistics.intervals import t_quantile

        half = self.result.difference.half
        if not half:
            return None
        return tasks_needed(half * self.result.n**0.5 / t_quantile(self.result.n - 1, 0.95), abs(self.gain))


@dataclass(frozen=True)
class RunComparison:
    """What ``compare`` tells: every pair of series, what had no partner, and whether the gate holds."""

    a: str  # the runs' names
    b: str | None  # None for the series of one run among themselves
    metric: str
    pairs: tuple[Compared, ...]
    unmatched: tuple[str, ...] = ()  # series without a partner, in words
    fail_if_worse: float | None = None  # points of a percentage, nats for the loss

    @property
    def scale(self) -> float:
        """What a difference is multiplied by to be shown: 100 for shares, 1 for nats."""
        return 1.0 if self.metric in LOWER_IS_BETTER else 100.0

    @property
    def unit(self) -> str:
        """``points`` or ``nats``."""
        return "nats" if self.metric in LOWER_IS_BETTER else "points"

    @property
    def failures(self) -> list[Compared]:
        """The pairs in which B is worse by more than is allowed, and chance does not explain it."""
        if self.fail_if_worse is None:
            return []
        return [pair for pair in self.pairs if pair.worse_by(self.fail_if_worse / self.scale)]

    @property
    def undecided(self) -> list[Compared]:
        """The pairs in which B is worse by more than is allowed, but chance may explain it."""
        if self.fail_if_worse is None:
            return []
        failures = self.failures
        return [
            pair
            for pair in self.pairs
            if -pair.gain * self.scale > self.fail_if_worse and pair not in failures
        ]

    def record(self) -> dict[str, Any]:
        """All of it as plain values, for JSON."""
        failures = self.failures
        return {
            "metric": self.metric,
            "a": self.a,
            "b": self.b or self.a,
            "comparisons": [_record(pair, pair in failures) for pair in self.pairs],
            "unmatched": list(self.unmatched),
            "fail_if_worse": self.fail_if_worse,
            "failed": bool(failures),
        }


@dataclass(frozen=True)
class Side:
    """The values of one run on one testbed: task numbers [T] and a metric [T] for each series."""

    name: str
    values: dict[RunSeries, tuple[Ints, Floats]]


_Job = tuple[
    str, RunSeries, RunSeries, SeriesPair
]  # a testbed's hash, two series, their values on the same tasks


def compare(
    a: Results | str | Path,
    b: Results | str | Path | None = None,
    *,
    methods: str | Sequence[str] = (),
    against: str | Sequence[str] = (),
    metric: str = "accuracy",
    testbed: str | None = None,
    fail_if_worse: float | None = None,
    seed: int = 0,
) -> RunComparison:
    """Compare run B with run A task by task; with one run, all its series with one another.

    Parameters
    ----------
    a, b : Results or path
        The runs. Without ``b``, and without ``against``, all pairs of series of ``a`` are compared.
    methods : str or list of str
        Only these methods, by name or by their whole call.
    against : str or list of str
        The methods in B, where they are others than ``methods``; with one run, the methods to compare with.
    metric : str
        ``"accuracy"``, ``"balanced_accuracy"``, ``"normalized_accuracy"``, ``"top5"`` or ``"loss"``.
    testbed : str, optional
        Only this testbed, by name or by its hash.
    fail_if_worse : float, optional
        What B may be worse by at most, in percentage points (nats for the loss), beyond what chance explains.
    seed : int
        Of the random signs of the test, where not all can be tried.

    Returns
    -------
    RunComparison
        ``pairs`` with the difference, its interval and p; ``failures`` of the gate.

    Examples
    --------
    >>> compared = compare("runs/first", methods="protonet", against="nearest-neighbour", testbed="easy")
    >>> [(str(pair.a), str(pair.b), pair.result.n) for pair in compared.pairs]
    [('protonet on pixels', 'nearest-neighbour on pixels', 20)]
    """
    run_a = a if isinstance(a, Results) else Results(a)
    run_b = run_a if b is None and against else b if b is None or isinstance(b, Results) else Results(b)
    if run_b is None and fail_if_worse is not None:
        raise UserError(
            "The gate {fail_if_worse} compares 2 runs and 1 was given",
            "add a second, or {methods} and {against}",
        )
    chosen = [methods] if isinstance(methods, str) else list(methods)
    unmatched: list[str] = []
    if run_b is None:
        pairs = compare_within(run_a, metric=metric, methods=chosen, testbed=testbed, seed=seed)
    else:
        pairs, unmatched = compare_runs(
            run_a,
            run_b,
            metric=metric,
            methods=chosen,
            against=[against] if isinstance(against, str) else list(against),
            testbed=testbed,
            seed=seed,
        )
    name = None if run_b is None else run_b.name
    return RunComparison(run_a.name, name, metric, tuple(pairs), tuple(unmatched), fail_if_worse)


def compare_runs(
    a: Results,
    b: Results,
    *,
    metric: str = "accuracy",
    methods: Sequence[str] = (),
    against: Sequence[str] = (),
    testbed: str | None = None,
    seed: int = 0,
) -> tuple[list[Compared], list[str]]:
    """B against A on the tasks of the same testbeds, series by series; also what had no partner, in words.

    Series match when backbone, method and seed are equal. If none are, and one of these is the only one of its
    kind on either side (two runs of the same methods through one backbone each), it does not count; so two runs
    of one series each are always comparable. ``methods`` chooses among the series of both, ``against`` among those
    of B instead. UserError when the runs have other testbeds, naming the hashes.
    """
    jobs: list[_Job] = []
    alone: list[str] = []
    for content_hash in _same_testbeds(a, b, testbed):
        side_a = _side(a, content_hash, metric, methods)
        side_b = _side(b, content_hash, metric, against or methods)
        pairs = _match(side_a, side_b)
        jobs += [_job(content_hash, side_a, series_a, side_b, series_b) for series_a, series_b in pairs]
        for side, matched in zip((side_a, side_b), map(set, zip(*pairs, strict=True)), strict=True):
            alone += [f"{series} ({side.name})" for series in side.values if series not in matched]
    return _compare(a, jobs, metric, seed), list(dict.fromkeys(alone))


def compare_within(
    run: Results,
    *,
    metric: str = "accuracy",
    methods: Sequence[str] = (),
    testbed: str | None = None,
    seed: int = 0,
) -> list[Compared]:
    """All pairs of series of one run, testbed by testbed, p corrected for their number."""
    jobs = []
    most = 0
    for content_hash in _chosen(run, testbed):
        side = _side(run, content_hash, metric, methods)
        most = max(most, len(side.values))
        jobs += [_job(content_hash, side, a, side, b) for a, b in combinations(side.values, 2)]
    if not jobs:
        raise UserError(
            f"A comparison within {run.name} needs at least 2 series on a testbed and found {most}",
            "evaluate another method or backbone into it, or give a second run",
        )
    return _compare(run, jobs, metric, seed)


def _compare(run: Results, jobs: list[_Job], metric: str, seed: int) -> list[Compared]:
    """Test all pairs, those with the same tasks together, and correct over all of them."""
    better = metric not in LOWER_IS_BETTER
    tested = compare_pairs([pair for *_, pair in jobs], higher_is_better=better, seed=seed)
    return [
        Compared(run.run["testbeds"][content_hash]["name"], content_hash, a, b, result, p, better)
        for (content_hash, a, b, _), (result, p) in zip(jobs, tested, strict=True)
    ]


def _chosen(run: Results, testbed: str | None) -> list[str]:
    """Content hashes of a run's testbeds, or of the one whose name or hash (or its beginning) is ``testbed``."""
    names = {content_hash: facts["name"] for content_hash, facts in run.run["testbeds"].items()}
    if testbed is None:
        return list(names)
    matched = match_testbeds(names, testbed)
    if not matched:
        listed = ", ".join(f"{name} ({content_hash[:12]}…)" for content_hash, name in names.items())
        raise UserError(f"{run.name} has no testbed '{testbed}'; it has {listed}.")
    return matched


def _same_testbeds(a: Results, b: Results, testbed: str | None) -> list[str]:
    """The hashes both runs have; UserError when either has another one too."""
    hashes_a, hashes_b = _chosen(a, testbed), _chosen(b, testbed)
    if set(hashes_a) == set(hashes_b):
        return hashes_a
    parts = []
    for run, own, other in ((a, hashes_a, hashes_b), (b, hashes_b, hashes_a)):
        extra = [f"'{run.run['testbeds'][h]['name']}' {h[:12]}…" for h in own if h not in other]
        if extra:
            parts.append(f"{run.name} has {', '.join(extra)}")
    shared = [a.run["testbeds"][h]["name"] for h in hashes_a if h in hashes_b]
    raise UserError(
        f"The runs are on different testbeds, so their tasks cannot be paired: {'; '.join(parts)}",
        f"compare on what they share with {{testbed:{shared[0]}}}"
        if shared
        else "evaluate both on the same testbed file",
    )


def _side(run: Results, content_hash: str, metric: str, methods: Sequence[str]) -> Side:
    """Values of one testbed by series, in the order asked for; UserError when nothing is left."""
    if metric not in METRICS:
        raise UserError(f"There is no metric '{metric}'; choose one of {', '.join(METRICS)}.")
    table = run.table()
    table = table.filter(pc.equal(table["testbed"], content_hash))
    cells = [cell for cell in run.run["cells"] if cell["testbed"] == content_hash]
    calls = list(dict.fromkeys(cell["method"] for cell in cells))
    chosen = match_methods(calls, methods)
    values: dict[RunSeries, tuple[Ints, Floats]] = {}
    for cell in cells:
        if cell["method"] not in chosen:
            continue
        rows = cell_rows(table, cell)
        if rows.num_rows:
            series = RunSeries(cell["backbone"], cell["method"], int(cell["seed"]))
            values[series] = (rows["task"].to_numpy(), rows[metric].to_numpy().astype(np.float64))
    if not values:
        of_methods = f" of {', '.join(methods)}" if methods else ""
        raise UserError(
            f"{run.name} holds 0 result rows{of_methods} on the testbed {content_hash[:12]}… and 1 is needed; its "
            f"methods are {', '.join(calls) or 'none yet'}."
        )
    return Side(run.name, values)


def _match(side_a: Side, side_b: Side) -> list[tuple[RunSeries, RunSeries]]:
    """Pairs of series, one of either side; UserError when nothing fits."""
    keys: tuple[Callable[[RunSeries], Hashable], ...] = (
        lambda s: (s.backbone, s.method, s.seed),
        lambda s: (s.method, s.seed),
        lambda s: (s.backbone, s.seed),
        lambda s: (s.backbone, s.method),
        lambda s: None,
    )
    for key in keys:
        by_key = [{key(series): series for series in side.values} for side in (side_a, side_b)]
        if any(len(named) < len(side.values) for named, side in zip(by_key, (side_a, side_b), strict=True)):
            continue  # the key does not tell the series of one side apart
        pairs = [(series, by_key[1][name]) for name, series in by_key[0].items() if name in by_key[1]]
        if pairs:
            return pairs
    listed = [f"{side.name}: {', '.join(map(str, side.values))}" for side in (side_a, side_b)]
    raise UserError(
        f"The runs have no series in common ({'; '.join(listed)})",
        "choose one of A with {methods} and one of B with {against}, or evaluate the same methods",
    )


def _job(content_hash: str, side_a: Side, a: RunSeries, side_b: Side, b: RunSeries) -> _Job:
    """Both series' values in task order; UserError when one lacks tasks that the other has."""
    (tasks_a, before), (tasks_b, after) = side_a.values[a], side_b.values[b]
    if not np.array_equal(tasks_a, tasks_b):
        raise UserError(
            f"{a} in {side_a.name} has {len(tasks_a)} tasks and {b} in {side_b.name} has {len(tasks_b)}, and both need "
            "the same",
            "an evaluation was interrupted, call {evaluate()} again as before",
        )
    return content_hash, a, b, SeriesPair((content_hash, len(tasks_a)), before, after)


def _record(pair: Compared, failed: bool) -> dict[str, Any]:
    """A pair as plain values."""
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
        "wins": result.wins,
        "ties": result.ties,
        "losses": result.losses,
        "p": result.p,
        "p_exact": result.exact,
        "p_t": None if result.n < 2 else result.p_t,
        "p_holm": pair.p_holm,
        "verdict": pair.verdict,
        "failed": failed,
    }
