"""Intervals of accuracies that hold for other classes too, from a run's predictions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from longshot.base import Floats
from longshot.evaluation.testbed_statistics import as_ragged, numbered_classes
from longshot.statistics import Crossing
from longshot.tasks import ragged

if TYPE_CHECKING:
    from longshot.statistics import Interval
    from longshot.tasks import Testbed


class ClassIntervals:
    """The queries of some tasks of a testbed, for intervals over tasks and classes.

    Parameters
    ----------
    testbed : Testbed
        Where the tasks are.
    tasks : ints [R]
        Task numbers, each once.
    """

    def __init__(self, testbed: Testbed, tasks: ArrayLike) -> None:
        numbers = np.asarray(tasks, np.int64).reshape(-1)
        self.labels = ragged(testbed.table, "query_label").take(numbers)
        classes = numbered_classes(testbed)[0].take(numbers)
        start = np.repeat(classes.offsets[:-1], self.labels.lengths)
        self.crossing = Crossing(self.labels.owners, classes.values[start + self.labels.values])

    def right(self, predictions: Any) -> Floats:
        """[Q] 1 for every query that was right.

        Parameters
        ----------
        predictions : Arrow list<int16> [R], or R sequences
            For each task, the position predicted for each of its queries; ValueError when they do not fit.
        """
        rows = as_ragged(predictions)
        if not np.array_equal(rows.lengths, self.labels.lengths):
            raise ValueError("every task needs one prediction per query")
        right: Floats = np.equal(rows.values, self.labels.values).astype(np.float64)
        return right

    def interval(self, values: Floats) -> Interval:
        """The mean over tasks of ``values`` [Q], such as ``right`` or the difference of two; ``n`` counts classes."""
        return self.crossing.interval(values)
