"""Comparing what runs hold: which series belong together, on which tasks, and who is better."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow.compute as pc

from longshot.core.calls import parse_call
from longshot.core.errors import UserError
from longshot.core.progress import progress
from longshot.evaluation.results import METRICS, Results
from longshot.statistics import Comparison, compare_many, holm
from longshot.statistics.intervals import Floats

SIGNIFICANCE = 0.05
LOWER_IS_BETTER = ("loss",)
_TOGETHER = (
    64  # pairs tested with the same random signs; they are drawn anew from the seed, so it changes no p
)


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


@dataclass(frozen=True)
class Side:
    """The values of one run on one testbed: task numbers [T] and a metric [T] for each series."""

    path: str
    values: dict[RunSeries, tuple[Any, Floats]]


@dataclass(frozen=True, eq=False)
class _Job:
    """Two series on the same tasks of one testbed; values [T] in task order."""

    testbed_hash: str
    a: RunSeries
    b: RunSeries
    before: Floats
    after: Floats


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
    hashes = _same_testbeds(a, b, testbed)
    jobs: list[_Job] = []
    alone: list[str] = []
    for content_hash in hashes:
        left = _side(a, content_hash, metric, methods)
        right = _side(b, content_hash, metric, against or methods)
        pairs = _match(left, right)
        for one, other in pairs:
            jobs.append(_Job(content_hash, one, other, *_same_tasks(left, one, right, other)))
        matched = ({one for one, _ in pairs}, {other for _, other in pairs})
        for side, known in zip((left, right), matched, strict=True):
            alone += [f"{series} ({side.path})" for series in side.values if series not in known]
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
        for one, other in combinations(side.values, 2):
            jobs.append(_Job(content_hash, one, other, *_same_tasks(side, one, side, other)))
    if not jobs:
        raise UserError(
            f"A comparison within {run.path} needs at least 2 series on a testbed and found {most}; evaluate another "
            f"method or backbone into it, or give a second run."
        )
    return _compare(run, jobs, metric, seed)


def _compare(run: Results, jobs: list[_Job], metric: str, seed: int) -> list[Compared]:
    """Test all pairs, those with the same tasks together, and correct over all of them."""
    better = metric not in LOWER_IS_BETTER
    # A sampled p cannot fall below 1 / (1 + resamples): enough of them that correction leaves room below 0.05.
    resamples = max(9999, 100 * len(jobs))
    results: dict[int, Comparison] = {}
    kinds = [(job.testbed_hash, len(job.before)) for job in jobs]
    with progress("compare", total=len(jobs), unit="pairs") as bar:
        for kind in dict.fromkeys(kinds):
            alike = [i for i, one in enumerate(kinds) if one == kind]
            for start in range(0, len(alike), _TOGETHER):
                group = alike[start : start + _TOGETHER]
                before = np.stack([jobs[i].before for i in group], axis=1)
                after = np.stack([jobs[i].after for i in group], axis=1)
                found = compare_many(before, after, higher_is_better=better, resamples=resamples, seed=seed)
                results.update(zip(group, found, strict=True))
                bar.advance(len(group))
    corrected = holm([results[i].p for i in range(len(jobs))])
    return [
        Compared(
            testbed=run.run["testbeds"][job.testbed_hash]["name"],
            testbed_hash=job.testbed_hash,
            a=job.a,
            b=job.b,
            result=results[i],
            p_holm=float(corrected[i]),
            higher_is_better=better,
        )
        for i, job in enumerate(jobs)
    ]


def _chosen(run: Results, testbed: str | None) -> list[str]:
    """Content hashes of a run's testbeds, or of the one whose name or hash (or its beginning) is ``testbed``."""
    known = {h: facts["name"] for h, facts in run.run["testbeds"].items()}
    if testbed is None:
        return list(known)
    found = [h for h, name in known.items() if name == testbed or h.startswith(testbed)]
    if not found:
        raise UserError(
            f"{run.path} has no testbed '{testbed}'; it has {', '.join(f'{n} ({h[:12]}…)' for h, n in known.items())}."
        )
    return found


def _same_testbeds(a: Results, b: Results, testbed: str | None) -> list[str]:
    """The hashes both runs have; UserError when either has another one too."""
    left, right = _chosen(a, testbed), _chosen(b, testbed)
    if set(left) == set(right):
        return left
    parts = []
    for run, other, hashes in ((a, right, left), (b, left, right)):
        extra = [f"'{run.run['testbeds'][h]['name']}' {h[:12]}…" for h in hashes if h not in other]
        if extra:
            parts.append(f"{run.path} has {', '.join(extra)}")
    shared = [h for h in left if h in right]
    remedy = (
        f"compare on what they share with --testbed {a.run['testbeds'][shared[0]]['name']}"
        if shared
        else "evaluate both on the same testbed file"
    )
    raise UserError(
        f"The runs are on different testbeds, so their tasks cannot be paired: {'; '.join(parts)}; {remedy}."
    )


def _side(run: Results, content_hash: str, metric: str, methods: Sequence[str]) -> Side:
    """Values of one testbed by series, in the order asked for; UserError when nothing is left."""
    if metric not in METRICS:
        raise UserError(f"There is no metric '{metric}'; choose one of {', '.join(METRICS)}.")
    table = run.table()
    table = table.filter(pc.equal(table["testbed"], content_hash))
    cells = [cell for cell in run.run["cells"] if cell["testbed"] == content_hash]
    known = list(dict.fromkeys(cell["method"] for cell in cells))
    wanted = _wanted(known, methods)
    values: dict[RunSeries, tuple[Any, Floats]] = {}
    for cell in cells:
        if cell["method"] not in wanted:
            continue
        mask = pc.and_(
            pc.equal(table["backbone"], cell["backbone"]), pc.equal(table["method"], cell["method"])
        )
        rows = table.filter(pc.and_(mask, pc.equal(table["seed"], cell["seed"])))
        if rows.num_rows:
            series = RunSeries(cell["backbone"], cell["method"], int(cell["seed"]))
            values[series] = (rows["task"].to_numpy(), rows[metric].to_numpy().astype(np.float64))
    if not values:
        asked = f" of {', '.join(methods)}" if methods else ""
        raise UserError(
            f"{run.path} holds 0 result rows{asked} on the testbed {content_hash[:12]}… and 1 is needed; its methods "
            f"are {', '.join(known) or 'none yet'}."
        )
    return Side(str(run.path), values)


def _wanted(calls: Sequence[str], methods: Sequence[str]) -> list[str]:
    """The calls that were asked for: those equal to one in ``methods``, else those with its name."""
    if not methods:
        return list(calls)
    found = []
    for text in methods:
        equal = [call for call in calls if _parsed(call) == _parsed(text)]
        found += equal or [call for call in calls if _parsed(call)[0] == text]
    return found


def _parsed(call: str) -> tuple[str, Any]:
    """Name and settings, so that spaces and quotes do not matter; a call of another form stands for itself."""
    try:
        return parse_call(call)
    except UserError:
        return call, None


def _match(left: Side, right: Side) -> list[tuple[RunSeries, RunSeries]]:
    """Pairs of series, one of either side; UserError when nothing fits."""
    keys: tuple[Callable[[RunSeries], Hashable], ...] = (
        lambda s: (s.backbone, s.method, s.seed),
        lambda s: (s.method, s.seed),
        lambda s: (s.backbone, s.seed),
        lambda s: (s.backbone, s.method),
        lambda s: None,
    )
    for key in keys:
        sides = [{key(series): series for series in side.values} for side in (left, right)]
        if any(len(found) < len(side.values) for found, side in zip(sides, (left, right), strict=True)):
            continue  # the key does not tell the series of one side apart
        pairs = [(one, sides[1][value]) for value, one in sides[0].items() if value in sides[1]]
        if pairs:
            return pairs
    listed = [f"{side.path}: {', '.join(map(str, side.values))}" for side in (left, right)]
    raise UserError(
        f"The runs have no series in common ({'; '.join(listed)}); choose one of A with --method and one of B with "
        f"--against, or evaluate the same methods."
    )


def _same_tasks(left: Side, one: RunSeries, right: Side, other: RunSeries) -> tuple[Floats, Floats]:
    """Both series' values in task order; UserError when one lacks tasks that the other has."""
    (tasks, before), (theirs, after) = left.values[one], right.values[other]
    if not np.array_equal(tasks, theirs):
        raise UserError(
            f"{one} in {left.path} has {len(tasks)} tasks and {other} in {right.path} has {len(theirs)}, and both need "
            f"the same; an evaluation was interrupted, run the same 'longshot evaluate' again."
        )
    return before, after
