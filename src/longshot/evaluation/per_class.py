"""Results class by class: how often the queries of a class are right, and what changed between two runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from longshot.base import Floats, Ints, UserError, count
from longshot.evaluation.results import Results, cell_rows
from longshot.evaluation.testbed_statistics import ClassAnswers, class_answers, count_confusions
from longshot.evaluation.verdicts import SIGNIFICANCE
from longshot.evaluation.views import Records
from longshot.statistics import (
    Confusion,
    Interval,
    holm,
    mean_interval,
    most_confused,
    percent,
    sign_flip_test,
    wilson,
)
from longshot.tasks import Testbed


@dataclass(frozen=True)
class ClassScore:
    """How one method fared on the queries of one class, over the tasks that have it."""

    dataset: str
    class_id: str
    tasks: int
    queries: int
    accuracy: Interval  # for other tasks of these classes
    taken_for: str  # id of the class that most of its queries were given to by mistake; empty where none was
    taken_share: float  # how many of its queries, where that class could be chosen, were given to it

    @property
    def name(self) -> str:
        """Return the last part of the class's id."""
        return self.class_id.rpartition("/")[2]


@dataclass(frozen=True)
class ClassChange:
    """What became of one class from series A to series B, over the same tasks."""

    dataset: str
    class_id: str
    tasks: int
    before: float
    after: float
    difference: Interval  # B − A, for other tasks of these classes
    p: float  # sign-flip test over tasks, two-sided
    p_holm: float  # corrected for all classes that were compared together

    @property
    def name(self) -> str:
        """Return the last part of the class's id."""
        return self.class_id.rpartition("/")[2]

    def worse_by(self, bound: float) -> bool:
        """Tell whether the class lost more than chance explains, and a loss of ``bound`` is not ruled out.

        The corrected p is below 0.05 and the interval of B − A reaches down to −``bound``. A loss of just ``bound`` is
        so found as surely as the tasks allow; a loss that is certainly smaller passes.
        """
        low = self.difference.mean if self.difference.low is None else self.difference.low
        return self.p_holm < SIGNIFICANCE and self.difference.mean < 0 and low <= -bound

    def may_be_worse_by(self, bound: float) -> bool:
        """Tell whether the class lost more than ``bound`` in these tasks, but chance may explain it."""
        return self.p_holm >= SIGNIFICANCE and self.difference.mean < -bound


def score_classes(testbed: Testbed, tasks: ArrayLike, predictions: Any) -> list[ClassScore]:
    """Return the accuracy of every class with its interval, the worst first.

    Accuracy is the share of a class's queries that were right, over all its tasks. Its error is that of the mean of
    n tasks with unequal numbers of queries q_t: se² = n / (n − 1) · Σ_t (Σ_i (x_ti − p))² / (Σ_t q_t)². The interval
    is Wilson's of p (1 − p) / se² queries, so that it never leaves 0 to 1; where all queries are right, or all wrong,
    every task counts as one query.

    Parameters
    ----------
    testbed : Testbed
        Where the tasks are.
    tasks : ints [R]
        Task numbers, each once.
    predictions : Arrow list<int16> [R], or R sequences
        For each task, the position predicted for each of its queries.
    """
    answers = class_answers(testbed, tasks, predictions)
    counted = count_confusions(testbed, tasks, predictions)
    sums = _by_class_and_task(answers, np.equal(answers.true, answers.predicted).astype(np.float64))
    scores = []
    for number in np.unique(answers.true):
        here = sums.class_number == number
        interval = _share_interval(sums.total[here], sums.queries[here])
        rival, share = _taken_for(counted, int(number))
        dataset, class_id = answers.names[number]
        scores.append(
            ClassScore(
                dataset, class_id, int(here.sum()), int(sums.queries[here].sum()), interval, rival, share
            )
        )
    return sorted(scores, key=lambda score: (score.accuracy.mean, score.dataset, score.class_id))


def compare_classes(testbed: Testbed, tasks: ArrayLike, before: Any, after: Any) -> list[ClassChange]:
    """Compare two series class by class on the same tasks, the largest loss first.

    Parameters
    ----------
    testbed : Testbed
        Where the tasks are.
    tasks : ints [R]
        Task numbers, each once.
    before, after : Arrow list<int16> [R], or R sequences
        The predictions of either series.

    Returns
    -------
    list of ClassChange
        ``p_holm`` is corrected for these classes; :func:`correct_together` does so for several such lists.
    """
    answers_a, answers_b = (class_answers(testbed, tasks, predictions) for predictions in (before, after))
    right_a, right_b = (
        np.equal(answers.true, answers.predicted).astype(np.float64) for answers in (answers_a, answers_b)
    )
    sums_a, sums_b = _by_class_and_task(answers_a, right_a), _by_class_and_task(answers_a, right_b)
    changes = []
    for number in np.unique(answers_a.true):
        here = sums_a.class_number == number
        share_a, share_b = (sums.total[here] / sums.queries[here] for sums in (sums_a, sums_b))
        p, _ = sign_flip_test(share_b - share_a)
        dataset, class_id = answers_a.names[number]
        means = float(share_a.mean()), float(share_b.mean())
        changes.append(
            ClassChange(dataset, class_id, int(here.sum()), *means, mean_interval(share_b - share_a), p, p)
        )
    return correct_together([changes])[0]


def correct_together(lists: Sequence[Sequence[ClassChange]]) -> list[list[ClassChange]]:
    """Correct p over all classes of all lists by Holm's method; each list begins with its largest loss."""
    corrected = iter(holm([change.p for changes in lists for change in changes]))
    return [
        sorted(
            (replace(change, p_holm=float(next(corrected))) for change in changes),
            key=lambda change: (change.difference.mean, change.dataset, change.class_id),
        )
        for changes in lists
    ]


def score_series(results: Results) -> Records:
    """Return a record for every series of a run and every class, the worst class of a series first."""
    records = Records()
    for cell, rows in _series(results):
        names = (
            results.run["testbeds"][cell["testbed"]]["name"],
            cell["backbone"],
            cell["method"],
            cell["seed"],
        )
        testbed = results.testbed(cell["testbed"])
        for score in score_classes(testbed, rows["task"].to_numpy(), rows["prediction"]):
            ends = (score.accuracy.low, score.accuracy.high)
            records.append(
                {
                    **dict(zip(("testbed", "backbone", "method", "seed"), names, strict=True)),
                    "dataset": score.dataset,
                    "class": score.class_id,
                    "tasks": score.tasks,
                    "queries": score.queries,
                    "accuracy": score.accuracy.mean,
                    "accuracy_ci95": None if ends[0] is None else list(ends),
                    "taken_for": score.taken_for,
                    "taken_share": score.taken_share,
                }
            )
    return records


@dataclass(frozen=True, eq=False)
class ClassConfusion:
    """Which classes one series takes for which.

    Attributes
    ----------
    counted : Confusion
        Counts, and the chances of each pair: queries of a class in tasks that had the other class.
    """

    series: str
    counted: Confusion

    def pairs(self, limit: int = 10) -> Records:
        """Return the pairs of classes that are confused most; ``rate`` is over tasks that had both."""
        return Records({**vars(pair), "rate": pair.rate} for pair in most_confused(self.counted, limit))

    def to_pandas(self) -> Any:
        """Return the counts as a ``pandas.DataFrame``: a row per true class, a column per class predicted.

        A row sums to the queries of its class.
        """
        ids = [class_id for _, class_id in self.counted.classes]
        if len(set(ids)) < len(ids):
            ids = [f"{dataset}: {class_id}" for dataset, class_id in self.counted.classes]
        counts = self.counted.counts.toarray().tolist()
        frame = Records(dict(zip(ids, row, strict=True)) for row in counts).to_pandas()
        return frame.set_axis(ids, axis="index").rename_axis(index="true", columns="predicted")

    def __repr__(self) -> str:
        """Name the worst pairs in at most four lines."""
        lines = [f"<ClassConfusion of {self.series}: {count(len(self.counted.classes), 'class', 'classes')}>"]
        for pair in self.pairs(3):
            queries = count(pair["chances"], "query", "queries")
            lines.append(f"{pair['first']} and {pair['second']}: {percent(pair['rate'])} % of {queries}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return self.pairs()._repr_html_()


def confuse_series(results: Results) -> ClassConfusion:
    """Count the confusions of the one series in ``results``; UserError where there are others."""
    series = list(_series(results))
    if len(series) != 1:
        raise UserError(
            f"A confusion matrix is of one series on one testbed, and {results.name} has {len(series)}",
            "choose one with select(testbed=…, backbone=…, method=…)",
        )
    cell, rows = series[0]
    testbed = results.testbed(cell["testbed"])
    counted = count_confusions(testbed, rows["task"].to_numpy(), rows["prediction"])
    return ClassConfusion(f"{cell['method']} on {cell['backbone']}", counted)


def _series(results: Results) -> Iterator[tuple[dict[str, Any], Any]]:
    """Yield the cells of a run that have results, with their rows."""
    table = results.table()
    for cell in results.run["cells"]:
        rows = cell_rows(table, cell)
        if rows.num_rows:
            yield cell, rows


@dataclass(frozen=True, eq=False)
class _TaskSums:
    """Sums over the queries of a class in a task, one entry per class and task."""

    class_number: Ints  # [E]
    total: Floats  # [E]
    queries: Floats  # [E]


def _by_class_and_task(answers: ClassAnswers, values: Floats) -> _TaskSums:
    """Sum ``values`` [Q] over the queries of each class in each task."""
    rows = int(answers.owners.max(initial=0)) + 1
    entries, position = np.unique(answers.true * rows + answers.owners, return_inverse=True)
    position = position.reshape(-1)
    total: Floats = np.bincount(position, weights=values, minlength=len(entries)).astype(np.float64)
    queries = np.bincount(position, minlength=len(entries)).astype(np.float64)
    return _TaskSums(entries // rows, total, queries)


def _share_interval(right: Floats, queries: Floats) -> Interval:
    """Return the share right with the interval that :func:`score_classes` describes; None for a single task."""
    total, tasks = float(queries.sum()), len(queries)
    share = float(right.sum()) / total
    if tasks < 2:
        return Interval(share, None, None, tasks, "an interval needs at least 2 tasks with the class")
    variance = tasks / (tasks - 1) * float(((right - share * queries) ** 2).sum()) / total**2
    effective = float(tasks) if variance <= 1e-15 else min(max(share * (1 - share) / variance, 1.0), total)
    low, high = wilson([share * effective], [effective])
    return Interval(share, float(low[0]), float(high[0]), tasks)


def _taken_for(counted: Confusion, number: int) -> tuple[str, float]:
    """Return the class that most queries of class ``number`` were given to by mistake, and the share that was."""
    counts = counted.counts
    of_class = (counts.rows == number) & (counts.columns != number)
    if not of_class.any():
        return "", 0.0
    best = int(np.flatnonzero(of_class)[np.argmax(counts.count[of_class])])
    rival = int(counts.columns[best])
    return counted.classes[rival][1], counted.rate(number, rival)
