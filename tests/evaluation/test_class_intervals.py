"""Intervals for other classes: which classes a task has, whatever tasks are asked for and in which order."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from longshot.evaluation import ClassIntervals
from longshot.statistics import class_interval
from longshot.tasks import Testbed

CLASSES = (
    ["cat", "dog"],
    ["fox", "cat", "dog"],
    ["dog", "hen"],
    ["hen", "fox"],
    ["cat", "hen"],
)
LABELS = ([0, 1, 1], [2, 0, 1, 1], [1, 0], [0, 0, 1], [1])


@pytest.fixture(scope="module")
def testbed() -> Testbed:
    rows = [
        {
            "task": task,
            "dataset": "pets",
            "classes": classes,
            "support": [f"{name}/s" for name in classes],
            "query": [f"{classes[label]}/q{number}" for number, label in enumerate(labels)],
            "support_label": list(range(len(classes))),
            "query_label": labels,
            "way": len(classes),
            "shots": [1] * len(classes),
        }
        for task, (classes, labels) in enumerate(zip(CLASSES, LABELS, strict=True))
    ]
    return Testbed.create(pa.Table.from_pylist(rows), datasets={"pets": "f" * 64}, sampler={}, seed=0)


@pytest.mark.parametrize("tasks", [[0, 1, 2, 3, 4], [4, 2, 0, 3], [1, 2, 3, 4]])
def test_tasks_are_grouped_by_all_their_classes(testbed: Testbed, tasks: list[int]) -> None:
    queries = ClassIntervals(testbed, tasks)
    predictions = [[0] * len(LABELS[task]) for task in tasks]
    right = queries.right(predictions)
    assert right.tolist() == [float(label == 0) for task in tasks for label in LABELS[task]]
    accuracy = [np.mean([label == 0 for label in LABELS[task]]) for task in tasks]
    expected = class_interval(accuracy, [CLASSES[task] for task in tasks])
    interval = queries.interval(right)
    assert interval.n == expected.n == 4
    assert interval.mean == pytest.approx(np.mean(accuracy))
    assert (interval.low, interval.high) == pytest.approx((expected.low, expected.high))


def test_predictions_of_other_lengths_are_refused(testbed: Testbed) -> None:
    with pytest.raises(ValueError, match="one prediction per query"):
        ClassIntervals(testbed, [0, 1]).right([[0, 0, 0], [0, 0, 0]])
