"""Intervals for other classes: which class a query belongs to, whatever tasks are asked for and in which order."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from longshot.evaluation import ClassIntervals
from longshot.statistics import crossed_interval
from longshot.tasks import Testbed

CLASSES = (["cat", "dog"], ["fox", "cat", "dog"], ["dog", "hen"])
LABELS = ([0, 1, 1], [2, 0, 1, 1], [1, 0])


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


@pytest.mark.parametrize("tasks", [[0, 1, 2], [2, 0], [1, 2]])
def test_queries_are_crossed_by_task_and_class(testbed: Testbed, tasks: list[int]) -> None:
    queries = ClassIntervals(testbed, tasks)
    predictions = [[0] * len(LABELS[task]) for task in tasks]
    right = queries.right(predictions)
    assert right.tolist() == [float(label == 0) for task in tasks for label in LABELS[task]]
    owners = [task for task in tasks for _ in LABELS[task]]
    names = [CLASSES[task][label] for task in tasks for label in LABELS[task]]
    expected = crossed_interval(right, owners, names)
    interval = queries.interval(right)
    assert interval.n == expected.n == len(set(names))
    assert interval.mean == pytest.approx(np.mean([right[np.array(owners) == task].mean() for task in tasks]))
    assert (interval.low, interval.high) == pytest.approx((expected.low, expected.high))


def test_predictions_of_other_lengths_are_refused(testbed: Testbed) -> None:
    with pytest.raises(ValueError, match="one prediction per query"):
        ClassIntervals(testbed, [0, 1]).right([[0, 0, 0], [0, 0, 0]])
