"""Statistics that need a testbed's tasks: confusions, confidences, and intervals that hold for other classes too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from longshot.base import Bools, Floats, Ints, Ragged
from longshot.statistics import Confusion, TaskClasses, confidences, confusion
from longshot.tasks import Testbed, dictionary, ragged

if TYPE_CHECKING:
    from longshot.statistics import Interval


@dataclass(frozen=True)
class Mistake:
    """A query that was given to another class."""

    task: int
    key: str
    true: str
    predicted: str


class ClassAnswers(NamedTuple):
    """The queries of some tasks, one after the other; class numbers are positions in ``names``."""

    true: Ints  # [Q]
    predicted: Ints  # [Q]
    owners: Ints  # [Q] the row of each query's task
    classes: Ragged  # class numbers of each row's task
    names: tuple[tuple[str, str], ...]  # (dataset, class id), sorted


def count_confusions(testbed: Testbed, tasks: ArrayLike, predictions: Any) -> Confusion:
    """Count predictions class by class; see :func:`longshot.statistics.confusion`.

    Parameters
    ----------
    testbed : Testbed
        Where the tasks are.
    tasks : ints [R]
        Task numbers; rows of several methods may come one after the other.
    predictions : Arrow list<int16> [R], or R sequences
        For each task, the position predicted for each of its queries.
    """
    answers = class_answers(testbed, tasks, predictions)
    classes = answers.classes
    return confusion(
        answers.true, answers.predicted, answers.owners, classes.values, classes.owners, answers.names
    )


def find_mistakes(
    testbed: Testbed,
    tasks: ArrayLike,
    predictions: Any,
    dataset: str,
    true: str,
    predicted: str,
    limit: int = 8,
) -> list[Mistake]:
    """Find up to ``limit`` queries of class ``true`` given to ``predicted``, in task order: pictures to see."""
    numbers = np.asarray(tasks, np.int64).reshape(-1)
    answers = class_answers(testbed, tasks, predictions)
    number_of = {name: number for number, name in enumerate(answers.names)}
    hit = answers.true == number_of.get((dataset, true), -1)
    hit &= answers.predicted == number_of.get((dataset, predicted), -1)
    keys = ragged(testbed.table, "query").take(numbers)
    words = dictionary(testbed.table, "query")
    return [
        Mistake(int(numbers[keys.owners[query]]), words[int(keys.values[query])].as_py(), true, predicted)
        for query in np.flatnonzero(hit)[:limit]
    ]


def measure_confidences(testbed: Testbed, tasks: ArrayLike, scores: Any) -> tuple[Floats, Bools]:
    """Compute confidence and correctness of every query from saved scores, as ``statistics.confidences``.

    Parameters
    ----------
    testbed : Testbed
        Where the tasks are.
    tasks : ints [R]
        Task numbers.
    scores : Arrow list<float> [R]
        For each task, the scores of its queries one after the other, one per class.
    """
    numbers = np.asarray(tasks, np.int64).reshape(-1)
    rows = as_ragged(scores)
    labels = ragged(testbed.table, "query_label").take(numbers)
    ways = testbed.table.column("way").to_numpy().astype(np.int64)[numbers]
    if len(rows) != len(numbers) or not np.array_equal(rows.lengths, labels.lengths * ways):
        raise ValueError("every query needs one score per class of its task")
    return confidences(rows.values, np.repeat(ways, labels.lengths), labels.values)


def shared_queries(a: Testbed, b: Testbed) -> Bools:
    """Tell which tasks 0 … min(len) − 1 ask the same: dataset, classes and query images (in any order).

    Testbeds drawn with one seed that differ in how the support is chosen share the queries of all tasks; if every
    entry is true and the lengths agree, their results can be compared task by task.
    """
    pair = (a, b)
    same_data = {name for name in {*a.datasets, *b.datasets} if a.datasets.get(name) == b.datasets.get(name)}
    names = [bed.table.column("dataset").to_pylist()[: min(len(a), len(b))] for bed in pair]
    same = np.array(
        [name_a == name_b and name_a in same_data for name_a, name_b in zip(*names, strict=True)], bool
    )
    for column in ("classes", "query"):
        rows = [ragged(bed.table, column) for bed in pair]
        # Both sides in one numbering of the strings, then compared as sorted numbers.
        words = [dictionary(bed.table, column).to_pylist() for bed in pair]
        number_of = {word: number for number, word in enumerate(dict.fromkeys([*words[0], *words[1]]))}
        codes = [np.array([number_of[word] for word in side], np.int64) for side in words]
        for task in np.flatnonzero(same):
            sets = [np.sort(code[row.row(int(task))]) for code, row in zip(codes, rows, strict=True)]
            same[task] = np.array_equal(sets[0], sets[1])
    return same


def class_answers(testbed: Testbed, tasks: ArrayLike, predictions: Any) -> ClassAnswers:
    """Return the true and the predicted class of every query of some tasks."""
    rows = as_ragged(predictions)
    labels, classes, names = _queries(testbed, tasks)
    _check_lengths(rows, labels)
    start = np.repeat(classes.offsets[:-1], labels.lengths)
    true, predicted = (classes.values[start + positions.values] for positions in (labels, rows))
    return ClassAnswers(true, predicted, labels.owners, classes, names)


def _queries(testbed: Testbed, tasks: ArrayLike) -> tuple[Ragged, Ragged, tuple[tuple[str, str], ...]]:
    """Return the query labels and the class numbers of some tasks, a row each, and what the numbers count."""
    numbers = np.asarray(tasks, np.int64).reshape(-1)
    classes, names = numbered_classes(testbed)
    return ragged(testbed.table, "query_label").take(numbers), classes.take(numbers), names


def _check_lengths(predictions: Ragged, labels: Ragged) -> None:
    if not np.array_equal(predictions.lengths, labels.lengths):
        raise ValueError("every task needs one prediction per query")


def numbered_classes(testbed: Testbed) -> tuple[Ragged, tuple[tuple[str, str], ...]]:
    """Number the classes of every task; return numbers and the sorted (dataset, class id) they stand for."""
    classes = ragged(testbed.table, "classes")
    words = dictionary(testbed.table, "classes").to_pylist()
    datasets, source = np.unique(
        np.array(testbed.table.column("dataset").to_pylist(), str), return_inverse=True
    )
    # The same id in two datasets is two classes.
    codes = source.reshape(-1)[classes.owners] * len(words) + classes.values
    used, position = np.unique(codes, return_inverse=True)
    named = [(str(datasets[code // len(words)]), words[code % len(words)]) for code in used.tolist()]
    order = sorted(range(len(named)), key=named.__getitem__)
    rank = np.empty(len(named), np.int64)
    rank[order] = np.arange(len(named))
    return classes.with_values(rank[position.reshape(-1)]), tuple(named[i] for i in order)


def as_ragged(lists: Any) -> Ragged:
    """Convert an Arrow list array (or chunked, or Python sequences) to flat numbers."""
    if isinstance(lists, pa.ChunkedArray):
        lists = lists.combine_chunks()
    if isinstance(lists, pa.Array):
        lengths = lists.value_lengths().to_numpy(zero_copy_only=False)
        return Ragged.from_lengths(lists.flatten().to_numpy(zero_copy_only=False), lengths)
    return Ragged.from_lists(lists)


class ClassIntervals:
    """The queries of some tasks of a testbed, for intervals that hold for other classes like these.

    Parameters
    ----------
    testbed : Testbed
        Where the tasks are.
    tasks : ints [R]
        Task numbers, each once.
    """

    def __init__(self, testbed: Testbed, tasks: ArrayLike) -> None:
        self.labels, classes, names = _queries(testbed, tasks)
        source = np.array([dataset for dataset, _ in names])[classes.values[classes.offsets[:-1]]]
        self.task_classes = TaskClasses(classes.owners, classes.values, source)

    def right(self, predictions: Any) -> Floats:
        """Return 1 for every query that was right, else 0; [Q].

        Parameters
        ----------
        predictions : Arrow list<int16> [R], or R sequences
            For each task, the position predicted for each of its queries; ValueError when they do not fit.
        """
        rows = as_ragged(predictions)
        _check_lengths(rows, self.labels)
        right: Floats = np.equal(rows.values, self.labels.values).astype(np.float64)
        return right

    def interval(self, values: Floats) -> Interval:
        """Return the mean over tasks of ``values`` [Q], as ``right`` or the difference of two; ``n`` counts classes."""
        means = np.bincount(self.labels.owners, weights=values) / self.labels.lengths
        return self.task_classes.interval(means)
