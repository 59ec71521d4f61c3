"""Summaries, histograms and verification."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from longshot.tasks import FixedShape, Testbed, describe, sample


@pytest.fixture
def dataset(make_dataset) -> Any:
    return make_dataset([12] * 4)


@pytest.fixture
def bed(dataset) -> Testbed:
    return sample(dataset, tasks=30, shape=FixedShape(3, 2, 4))


def test_the_summary_counts_what_is_there(bed: Testbed) -> None:
    facts = describe.summary(bed)
    assert facts["tasks"] == 30 and facts["classes"] == 4
    assert facts["way"] == {"min": 3, "mean": 3.0, "max": 3}
    assert facts["query_per_task"]["max"] == 12
    assert facts["distinct_images"] == len({key for t in bed for key in (*t.support, *t.query)})


def test_class_appearances_count_tasks(bed: Testbed) -> None:
    counted = describe.class_appearances(bed)
    expected = {c: sum(c in task.classes for task in bed) for _, c in counted}
    assert counted == {("small", c): count for c, count in expected.items()}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (np.array([1, 1, 3]), [("1", 2), ("2", 0), ("3", 1)]),
        (np.array([2.5, 2.5]), [("2.5", 2)]),
        (np.array([], dtype=int), []),
    ],
    ids=["whole", "constant", "none"],
)
def test_bars_of_few_values(values: np.ndarray, expected: list[tuple[str, int]]) -> None:
    assert describe.bars(values) == expected


@pytest.mark.parametrize("values", [np.arange(0, 1000), np.linspace(0, 1, 500)], ids=["whole", "real"])
def test_bars_of_many_values_count_each_once(values: np.ndarray) -> None:
    shown = describe.bars(values)
    assert sum(count for _, count in shown) == len(values) and len(shown) <= 20


def test_drawn_bars_grow_with_counts_and_show_the_smallest() -> None:
    lines = describe.draw_histogram("title", [("1", 1000), ("2", 500), ("3", 1), ("4", 0)]).splitlines()
    assert lines[0] == "title"
    assert lines[1].count("█") == 40 and lines[2].count("█") == 20
    assert "▏" in lines[3] and lines[4].strip() == "4  0"


def test_measured_columns_are_shown(dataset) -> None:
    bed = sample(dataset, tasks=9, shape=FixedShape(2, 1, 1), measures=[lambda *_: {"loss": np.arange(9.0)}])
    assert describe.summary(bed)["measured"] == {"loss": {"min": 0.0, "mean": 4.0, "max": 8.0}}
    assert "loss" in describe.histograms(bed)


def test_the_class_balance_beside_uniform_drawing(bed: Testbed) -> None:
    (balance,) = describe.balances(bed)
    counts = list(balance.counts.values())
    assert counts == sorted(counts, reverse=True) and sum(counts) == 30 * 3
    assert balance.expected == pytest.approx(30 * 3 / 4)
    assert balance.spread == pytest.approx(np.sqrt(30 * (3 / 4) * (1 / 4)))
    low, high = balance.usual
    assert balance.outside == sum(not low <= count <= high for count in counts)


def test_uniform_drawing_stays_in_the_usual_range(make_dataset) -> None:
    (balance,) = describe.balances(sample(make_dataset([12] * 200), tasks=400, shape=FixedShape(5, 1, 1)))
    assert 0.01 < balance.outside / len(balance.counts) < 0.10


def test_changes_pair_the_columns_and_leave_out_unknown_tasks(dataset) -> None:
    columns = {
        "loss_before": np.array([1.0, 2, 3, np.nan]),
        "loss_after": np.array([2.0, 1, 3, 9]),
        "alone_before": np.arange(4.0),
    }
    bed = sample(dataset, tasks=4, shape=FixedShape(2, 1, 1), measures=[lambda *_: columns])
    (change,) = describe.changes(bed)
    assert (change.name, change.raised, change.lowered, len(change.after)) == ("loss", 1, 1, 3)
    lines = describe.draw_change(change).splitlines()
    assert lines[0] == "loss 2.000 before, 2.000 after selection: higher in 1, lower in 1 of 3 tasks"
    assert sum(int(line.split()[-1]) for line in lines[1:]) == 6


def test_a_sound_testbed_has_no_findings(bed: Testbed, dataset) -> None:
    assert describe.verify(bed, {"small": dataset}) == []


def test_missing_classes_and_images_are_told(bed: Testbed, make_dataset) -> None:
    findings = describe.verify(bed, {"small": make_dataset([12, 12, 12])})
    assert len(findings) == 4
    assert "fingerprint" in findings[0]
    assert "1 classes of" in findings[1] and "'class003'" in findings[1]
    assert "support images of" in findings[2] and "class003/00" in findings[2]
    assert "query images of" in findings[3]


def changed(bed: Testbed, column: str, rows: list[Any]) -> Testbed:
    table = bed.table.set_column(bed.table.column_names.index(column), column, pa.array(rows))
    return Testbed.create(table, datasets=bed.datasets, sampler={}, seed=0)


def test_an_image_of_another_class_is_told(bed: Testbed, dataset) -> None:
    rows = bed.table.column("query").to_pylist()
    rows[7][0], rows[7][-1] = rows[7][-1], rows[7][0]
    findings = describe.verify(changed(bed, "query", rows), {"small": dataset})
    assert findings == ["small: 2 query images have another class than the testbed says, first in task 7."]


def test_an_image_in_support_and_query_is_told(bed: Testbed, dataset) -> None:
    rows = bed.table.column("query").to_pylist()
    rows[7][0] = bed[7].support[0]
    findings = describe.verify(changed(bed, "query", rows), {"small": dataset})
    assert findings == ["small: 1 images occur twice in their task, first in task 7."]
