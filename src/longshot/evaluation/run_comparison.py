"""Comparing what runs hold: which series belong together, on which tasks, and who is better."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from longshot.base import Floats, Ints, UserError, count, note
from longshot.evaluation.metrics import METRICS
from longshot.evaluation.results import Results, cell_rows, match_methods, match_testbeds
from longshot.evaluation.verdicts import (
    Compared,
    Policy,
    RunComparison,
    RunSeries,
    SeriesPair,
    compare_pairs,
)
from longshot.evaluation.views import leaks_in, names_only, say_judges, say_leaks

if TYPE_CHECKING:
    from longshot.evaluation.per_class import ClassChange
    from longshot.statistics import Interval


class SeriesValues(NamedTuple):
    """A series on T tasks of a testbed: their numbers, the metric and the predictions of each."""

    tasks: Ints
    metric: Floats
    predictions: pa.Array


@dataclass(frozen=True)
class Side:
    """The values of one run on one testbed, for each series."""

    name: str
    values: dict[RunSeries, SeriesValues]
    empty: tuple[RunSeries, ...] = ()  # asked for, and without a row


class _Job(NamedTuple):
    """Two series on the same tasks of a testbed."""

    content_hash: str
    a: RunSeries
    b: RunSeries
    before: SeriesValues
    after: SeriesValues

    @property
    def pair(self) -> SeriesPair:
        return SeriesPair((self.content_hash, len(self.before.tasks)), self.before.metric, self.after.metric)


def compare(
    a: Results | str | Path,
    b: Results | str | Path | None = None,
    *,
    methods: str | Sequence[str] = (),
    against: str | Sequence[str] = (),
    metric: str = "accuracy",
    testbed: str | None = None,
    fail_if_worse: float | None = None,
    per_class: bool = False,
    fail_if_class_worse: float | None = None,
    allow_missing: bool = False,
    undecided: Policy = "fail",
    seed: int = 0,
) -> RunComparison:
    """Compare run B with run A task by task; with one run, all its series with one another.

    Parameters
    ----------
    a, b : Results or path
        The runs. Without ``b``, and without ``against``, all pairs of series of ``a`` are compared.
    methods : NAME, list of str
        Only this method, by name or by its whole call; repeat for several.
    against : NAME, list of str
        The method in B, where it is another than that of ``methods``; with one run, the method to compare with.
    metric : str
        What is compared. A name of ``longshot.evaluation.METRICS``.
    testbed : NAME, str, optional
        Only this testbed, by name or by its hash.
    fail_if_worse : POINTS, float, at least 0, optional
        Gate: fail if B is worse than A by more than POINTS (percentage points; nats for the loss) and chance
        does not explain it (corrected p < 0.05), or if B lacks a series of A.
    per_class : bool
        Also compare the accuracy of every class.
    fail_if_class_worse : POINTS, float, at least 0, optional
        Gate: fail if the accuracy of a class fell and chance does not explain it (p below 0.05, corrected for all
        classes), where a loss of POINTS percentage points is not ruled out.
    allow_missing : bool
        Accept that B lacks series or testbeds of A.
    undecided : {"pass", "fail"}
        What becomes of a loss of more than POINTS that chance may explain.
    seed : int, at least 0
        Random seed. It draws the signs of the test, where not all can be tried.

    Returns
    -------
    RunComparison
        ``pairs`` with the difference, its interval and p; ``outcome`` of the gate: ``"passed"``, ``"failed"`` or
        ``"undecided"``.

    Examples
    --------
    >>> compared = compare("runs/first", methods="protonet", against="nearest-neighbour", testbed="easy")
    >>> [(str(pair.a), str(pair.b), pair.result.n) for pair in compared.pairs]
    [('protonet on pixels', 'nearest-neighbour on pixels', 20)]
    """
    run_a = a if isinstance(a, Results) else Results(a)
    run_b = run_a if b is None and against else b if b is None or isinstance(b, Results) else Results(b)
    _check_gates(
        run_b, {"fail_if_worse": fail_if_worse, "fail_if_class_worse": fail_if_class_worse}, undecided
    )
    by_class = per_class or fail_if_class_worse is not None
    chosen = [methods] if isinstance(methods, str) else list(methods)
    if run_b is None:
        pairs = compare_within(
            run_a, metric=metric, methods=chosen, testbed=testbed, seed=seed, per_class=by_class
        )
        return RunComparison(run_a.name, None, metric, tuple(pairs), **_footnotes([run_a]))
    matched = compare_runs(
        run_a,
        run_b,
        metric=metric,
        methods=chosen,
        against=[against] if isinstance(against, str) else list(against),
        testbed=testbed,
        allow_missing=allow_missing,
        seed=seed,
        per_class=by_class,
    )
    compared = RunComparison(
        run_a.name,
        run_b.name,
        metric,
        tuple(matched.pairs),
        (*matched.missing, *matched.added),
        fail_if_worse,
        tuple(matched.missing),
        allow_missing,
        undecided,
        **_footnotes([run_a, run_b]),
        fail_if_class_worse=fail_if_class_worse,
    )
    if fail_if_worse is not None:
        _check_decidable(compared)
    if fail_if_class_worse is not None and (fewest := compared.fewest_tasks_of_classes) > 1:
        most = max((change.tasks for pair in compared.pairs for change in pair.classes), default=0)
        if most < fewest:
            raise UserError(
                "The gate {fail_if_class_worse} cannot decide: no class is in more than "
                f"{count(most, 'task')}, and the test of all classes can reach p < 0.05 from {fewest} on",
                "evaluate both runs on more tasks",
            )
    return compared


def _footnotes(runs: Sequence[Results]) -> dict[str, Any]:
    """Collect the notes beside a comparison: images known by name alone, judges, what training saw."""
    sayings = {"names_only": names_only, "judges": say_judges, "leaks": say_leaks}
    notes = {
        key: tuple(dict.fromkeys(n for run in runs for n in say(run.run))) for key, say in sayings.items()
    }
    marks = {key: leak.mark for run in runs for key, leak in leaks_in(run.run).items()}
    return {**notes, "leak_marks": marks}


def _check_gates(run_b: Results | None, bounds: Mapping[str, float | None], undecided: str) -> None:
    """Raise UserError for a gate that could not mean anything."""
    if undecided not in get_args(Policy):
        raise UserError(f"{{undecided}} is '{undecided}', but it must be {' or '.join(get_args(Policy))}.")
    for name, bound in bounds.items():
        if bound is not None and not (math.isfinite(bound) and bound >= 0):
            raise UserError(f"The gate {{{name}}} is {bound:g}, but it must be a finite number of 0 or more.")
        if bound is not None and run_b is None:
            raise UserError(
                f"The gate {{{name}}} compares 2 runs and 1 was given",
                "add a second, or {methods} and {against}",
            )


def _check_decidable(compared: RunComparison) -> None:
    """Raise UserError when a pair has fewer tasks than the test could ever decide it with."""
    fewest = compared.fewest_tasks
    least = min(compared.pairs, key=lambda pair: pair.result.n)
    if least.result.n >= fewest:
        return
    several = len(compared.pairs) > 1
    raise UserError(
        f"The gate {{fail_if_worse}} cannot decide: '{least.testbed}' has {count(least.result.n, 'task')}, and the "
        f"sign-flip test of {count(len(compared.pairs), 'comparison')} can reach p < 0.05 from {fewest} tasks on",
        f"evaluate both runs on {fewest} tasks or more, as from {{sample(DATASET, tasks={fewest})}}"
        + (", or compare fewer series with {methods} or {testbed}" if several else ""),
    )


@dataclass(frozen=True)
class MatchedRuns:
    """B against A: the pairs, and in words the series that only one of them has."""

    pairs: list[Compared]
    missing: list[str]  # A has them, B lacks them, or A itself has no rows of them
    added: list[str]  # B has them, A lacks them


def compare_runs(
    a: Results,
    b: Results,
    *,
    metric: str = "accuracy",
    methods: Sequence[str] = (),
    against: Sequence[str] = (),
    testbed: str | None = None,
    allow_missing: bool = False,
    seed: int = 0,
    per_class: bool = False,
) -> MatchedRuns:
    """Compare B with A on the tasks of the same testbeds, series by series; name what has no partner.

    Series match when backbone, method and seed are equal. If none are, and one of these is the only one of its
    kind on either side (two runs of the same methods through one backbone each), it does not count; so two runs
    of one series each are always comparable. ``methods`` chooses among the series of both, ``against`` among those
    of B instead. UserError when the runs have other testbeds, naming the hashes; with ``allow_missing`` B may lack some
    of A's.
    """
    jobs: list[_Job] = []
    missing: list[str] = []
    added: list[str] = []
    shared, gone = _same_testbeds(a, b, testbed, allow_missing)
    for content_hash in shared:
        side_a = read_side(a, content_hash, metric, methods)
        side_b = read_side(b, content_hash, metric, against or methods)
        pairs = _match(side_a, side_b)
        jobs += [_job(content_hash, side_a, series_a, side_b, series_b) for series_a, series_b in pairs]
        matched_a, matched_b = map(set, zip(*pairs, strict=True))
        missing += _alone(side_a, matched_a)
        added += _alone(side_b, matched_b)
    missing += [f"testbed '{a.run['testbeds'][content_hash]['name']}' ({a.name})" for content_hash in gone]
    distinct = list(dict.fromkeys(missing)), list(dict.fromkeys(added))
    return MatchedRuns(_compare(a, jobs, metric, seed, per_class), *distinct)


def _alone(side: Side, matched: set[RunSeries]) -> list[str]:
    """Name the series of one side that were not compared."""
    alone = [f"{series} ({side.name})" for series in side.values if series not in matched]
    return alone + [f"{series} ({side.name}, 0 result rows)" for series in side.empty]


def compare_within(
    run: Results,
    *,
    metric: str = "accuracy",
    methods: Sequence[str] = (),
    testbed: str | None = None,
    seed: int = 0,
    per_class: bool = False,
) -> list[Compared]:
    """Compare all pairs of series of one run, testbed by testbed, p corrected for their number."""
    jobs = []
    most = 0
    for content_hash in chosen_testbeds(run, testbed):
        side = read_side(run, content_hash, metric, methods)
        most = max(most, len(side.values))
        jobs += [_job(content_hash, side, a, side, b) for a, b in combinations(side.values, 2)]
    if not jobs:
        raise UserError(
            f"A comparison within {run.name} needs at least 2 series on a testbed and found {most}",
            "evaluate another method or backbone into it, or give a second run",
        )
    return _compare(run, jobs, metric, seed, per_class)


def _compare(run: Results, jobs: list[_Job], metric: str, seed: int, per_class: bool) -> list[Compared]:
    """Test all pairs, those with the same tasks together, and correct over all of them."""
    better = not METRICS[metric].lower_is_better
    tested = compare_pairs([job.pair for job in jobs], higher_is_better=better, seed=seed)
    over_classes = _over_classes(run, jobs) if metric == "accuracy" else [None] * len(jobs)
    classes = _classes(run, jobs) if per_class else [[] for _ in jobs]
    facts = run.run["testbeds"]
    return [
        Compared(
            testbed=facts[job.content_hash]["name"],
            testbed_hash=job.content_hash,
            a=job.a,
            b=job.b,
            result=result,
            p_holm=p,
            higher_is_better=better,
            together=len(jobs),
            over_classes=interval,
            classes=tuple(changes),
        )
        for job, (result, p), interval, changes in zip(jobs, tested, over_classes, classes, strict=True)
    ]


def _classes(run: Results, jobs: list[_Job]) -> list[list[ClassChange]]:
    """Compare the accuracy of every class in every job, corrected over all of them."""
    from longshot.evaluation.per_class import compare_classes, correct_together

    return correct_together(
        [
            compare_classes(
                run.testbed(job.content_hash), job.before.tasks, job.before.predictions, job.after.predictions
            )
            for job in jobs
        ]
    )


def _over_classes(run: Results, jobs: list[_Job]) -> list[Interval | None]:
    """Compute the interval of each difference over other classes; None, with a note, without the testbed."""
    from longshot.evaluation.testbed_statistics import ClassIntervals

    queries: dict[str, ClassIntervals | None] = {}
    intervals: list[Interval | None] = []
    for job in jobs:
        if job.content_hash not in queries:
            try:
                queries[job.content_hash] = ClassIntervals(run.testbed(job.content_hash), job.before.tasks)
            except UserError as error:  # the comparison itself needs no testbed
                note(f"differences are without their interval over classes: {error.template}")
                queries[job.content_hash] = None
        own = queries[job.content_hash]
        if own is None:
            intervals.append(None)
            continue
        before, after = (own.right(side.predictions) for side in (job.before, job.after))
        intervals.append(own.interval(after - before))
    return intervals


def _same_testbeds(
    a: Results, b: Results, testbed: str | None, allow_missing: bool
) -> tuple[list[str], list[str]]:
    """Return the hashes both runs have, and those B lacks; UserError when either has one it may not have."""
    hashes_a = chosen_testbeds(a, testbed)
    hashes_b = chosen_testbeds(b, testbed)
    shared = [content_hash for content_hash in hashes_a if content_hash in hashes_b]
    gone = [content_hash for content_hash in hashes_a if content_hash not in hashes_b]
    if len(shared) == len(hashes_b) and (not gone or (allow_missing and shared)):
        return shared, gone
    parts = []
    for run, own, other in ((a, hashes_a, hashes_b), (b, hashes_b, hashes_a)):
        extra = [f"'{run.run['testbeds'][h]['name']}' {h[:12]}…" for h in own if h not in other]
        if extra:
            parts.append(f"{run.name} has {', '.join(extra)}")
    raise UserError(
        f"The runs are on different testbeds, so their tasks cannot be paired: {'; '.join(parts)}",
        f"compare on what they share with {{testbed:{a.run['testbeds'][shared[0]]['name']}}}"
        if shared
        else "evaluate both on the same testbed file",
    )


def _match(side_a: Side, side_b: Side) -> list[tuple[RunSeries, RunSeries]]:
    """Pair the series of both sides; UserError when nothing fits."""
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
    """Return both series' values in task order; UserError when one lacks tasks that the other has."""
    before, after = side_a.values[a], side_b.values[b]
    if not np.array_equal(before.tasks, after.tasks):
        raise UserError(
            f"{a} in {side_a.name} has {len(before.tasks)} tasks and {b} in {side_b.name} has {len(after.tasks)}, and "
            "both need the same",
            "an evaluation was interrupted, call {evaluate()} again as before",
        )
    return _Job(content_hash, a, b, before, after)


def chosen_testbeds(run: Results, testbed: str | None) -> list[str]:
    """Return the hashes of a run's testbeds, or of the one with the name or (beginning of) hash ``testbed``.

    In the order asked for, which the cells keep; a file holds the testbeds sorted by hash.
    """
    facts = run.run["testbeds"]
    names = {cell["testbed"]: facts[cell["testbed"]]["name"] for cell in run.run["cells"]}
    names |= {content_hash: each["name"] for content_hash, each in facts.items()}
    if testbed is None:
        return list(names)
    matched = match_testbeds(names, testbed)
    if not matched:
        listed = ", ".join(f"{name} ({content_hash[:12]}…)" for content_hash, name in names.items())
        raise UserError(f"{run.name} has no testbed '{testbed}'; it has {listed}.")
    return matched


def read_side(run: Results, content_hash: str, metric: str, methods: Sequence[str]) -> Side:
    """Read the values of one testbed by series, in the order asked for; UserError when nothing is left."""
    if metric not in METRICS:
        raise UserError(f"There is no metric '{metric}'; choose one of {', '.join(METRICS)}.")
    table = run.table()
    table = table.filter(pc.equal(table["testbed"], content_hash))
    cells = [cell for cell in run.run["cells"] if cell["testbed"] == content_hash]
    calls = list(dict.fromkeys(cell["method"] for cell in cells))
    chosen = match_methods(calls, methods)
    values: dict[RunSeries, SeriesValues] = {}
    empty: list[RunSeries] = []
    for cell in cells:
        if cell["method"] not in chosen:
            continue
        rows = cell_rows(table, cell)
        series = RunSeries(cell["backbone"], cell["method"], int(cell["seed"]))
        if rows.num_rows:
            numbers = _metric(run, series, rows, metric)
            values[series] = SeriesValues(rows["task"].to_numpy(), numbers, rows["prediction"])
        else:
            empty.append(series)
    if not values:
        of_methods = f" of {', '.join(methods)}" if methods else ""
        raise UserError(
            f"{run.name} holds 0 result rows{of_methods} on the testbed {content_hash[:12]}… and 1 is needed; its "
            f"methods are {', '.join(calls) or 'none yet'}."
        )
    return Side(run.name, values, tuple(empty))


def _metric(run: Results, series: RunSeries, rows: pa.Table, metric: str) -> Floats:
    """Return a metric of all tasks, [T]; UserError where a task has none."""
    values: Floats = rows[metric].to_numpy().astype(np.float64)
    absent = int((~np.isfinite(values)).sum())
    if absent:
        raise UserError(
            f"{series} in {run.name} has no {metric} on {absent:,} of {len(values):,} tasks",
            "choose another {metric}",
        )
    return values
