"""Tables and figure data of the studies of transfer on planted accuracies."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from longshot.core.errors import UserError
from longshot.splits.divergences import between
from longshot.studies import get_study
from longshot.studies.transfer.correlation import DivergenceCorrelation
from longshot.studies.transfer.correlation_table import correlations_table, most_negative
from longshot.studies.transfer.figures import method_series
from longshot.studies.transfer.settings import CorrelationSettings
from longshot.studies.transfer.stats import SplitPlace, TransferScores, targets_differ
from longshot.studies.transfer.tables import (
    accuracies_table,
    adaptation_table,
    hardest_table,
    slopes_table,
    splits_table,
)
from longshot.studies.transfer.task_divergence import MEASURES, MODELS, divergences, task_embeddings

SPREAD = np.array([0.02, -0.02, 0.01, -0.01])


@pytest.fixture
def scores() -> TransferScores:
    """maml 0.8 − 0.2 R, anil 0.8 − 0.4 R on two trainings that lie 0.02 apart; one shot."""
    splits = [
        SplitPlace("random", None, 0.01, 0.1),
        SplitPlace("R = 0", 0.0, 0.1, 0.2),
        SplitPlace("R = 1", 1.0, 0.3, 0.4),
    ]
    accuracy = {}
    for split in splits:
        for method, fall in (("maml", 0.2), ("anil", 0.4)):
            level = 0.8 - fall * (split.target or 0.0)
            accuracy[split.name, method, 1] = np.stack([level + 0.01 + SPREAD, level - 0.01 + SPREAD])
    return TransferScores(splits, ("maml", "anil"), (1,), accuracy)


def test_accuracies_are_means_over_tasks_and_trainings(scores: TransferScores) -> None:
    table = accuracies_table(scores, 5)
    measured = [record for record in table.records if record["source"] == "measured"]
    means = {(record["split"], record["method"]): record["mean"] for record in measured}
    assert means == {
        ("random", "maml"): pytest.approx(0.8),
        ("R = 0", "maml"): pytest.approx(0.8),
        ("R = 1", "maml"): pytest.approx(0.6),
        ("random", "anil"): pytest.approx(0.8),
        ("R = 0", "anil"): pytest.approx(0.8),
        ("R = 1", "anil"): pytest.approx(0.4),
    }
    assert {(record["tasks"], record["trainings"]) for record in measured} == {(4, 2)}
    half = 100 * stats.t.ppf(0.975, 3) * stats.sem(SPREAD)
    rows = [[(cell.text, cell.mark) for cell in row] for row in table.sheets[0].blocks[0]]
    assert rows[2] == [("R = 1", ""), (f"60.00 ± {half:.2f}", "best"), (f"40.00 ± {half:.2f}", "best")]
    assert "maml +20.0" in table.lines[0] and "anil +40.0" in table.lines[0]


def test_slopes_are_the_planted_ones(scores: TransferScores) -> None:
    records = [record for record in slopes_table(scores).records if record["source"] == "measured"]
    slopes = {(record["method"], record["x"], record["minus"]): record["slope"] for record in records}
    assert slopes == {
        ("maml", "R", ""): pytest.approx(-0.2),
        ("maml", "measured", ""): pytest.approx(-1.0),  # 0.2 over 0.2 of measured divergence
        ("anil", "R", ""): pytest.approx(-0.4),
        ("anil", "R", "maml"): pytest.approx(-0.2),
        ("anil", "measured", ""): pytest.approx(-2.0),
    }
    assert {record["points"] for record in records} == {4}  # two splits, two trainings


def test_the_hardest_split_and_what_adapting_gains(scores: TransferScores) -> None:
    hardest = [record for record in hardest_table(scores, 5).records if record["source"] == "measured"]
    assert [(record["split"], record["method"], record["embedding"]) for record in hardest] == [
        ("R = 1", "maml", "adapts"),
        ("R = 1", "anil", "fixed"),
    ]
    assert [record["mean"] for record in hardest] == pytest.approx([0.6, 0.4])
    gains = {
        (record["split"], record["kind"]): record["difference"] for record in adaptation_table(scores).records
    }
    assert gains["R = 1", "pair"] == gains["R = 1", "best"] == pytest.approx(0.2)
    assert gains["R = 0", "pair"] == pytest.approx(0.0)


def test_splits_are_described_by_their_divergences(scores: TransferScores) -> None:
    rows = [[cell.text for cell in row] for row in splits_table(scores).sheets[0].blocks[0]]
    assert rows[0] == ["random", "–", "0.0100", "0.100", "–"]
    assert rows[2] == ["R = 1", "1", "0.3000", "0.400", "–"]


def test_the_figure_holds_means_bounds_and_the_line(scores: TransferScores) -> None:
    series = method_series(scores, "maml", 1)
    half = stats.t.ppf(0.975, 3) * stats.sem(SPREAD)
    assert series.x.tolist() == [0.0, 1.0]
    assert series.mean == pytest.approx([0.8, 0.6])
    assert series.low == pytest.approx([0.8 - half, 0.6 - half])
    assert series.high == pytest.approx([0.8 + half, 0.6 + half])
    assert series.line == pytest.approx((0.8, -0.2))


def test_correlations_of_planted_divergences() -> None:
    accuracy = np.array([0.9, 0.7, 0.5, 0.3] * 10)
    rising, falling = [1.0, 2.0, 3.0, 4.0] * 10, [4.0, 3.0, 2.0, 1.0] * 10
    weak = [1.0, 3.0, 2.0, 4.0] * 10  # r = −0.8
    constant = [1.0] * 40
    by_measure = dict(zip(MEASURES, (falling, weak, rising, constant), strict=True))
    table = correlations_table(
        "pixels", {"bed": dict.fromkeys(MODELS, by_measure)}, {"bed": {"protonet": accuracy}}
    )
    measured = [record for record in table.records if record["source"] == "measured"]
    assert [record["r"] for record in measured[:3]] == pytest.approx([1.0, -0.8, -1.0])
    assert measured[3]["r"] is None  # a constant divergence has no correlation
    assert [cell.mark for row in table.sheets[0].blocks[0] for cell in row[1:]] == ["", "", "best", ""]
    assert "from most to least negative Kullback-Leibler, Wasserstein-2, Euclidean" in table.lines[0]


def test_divergences_that_tasks_do_not_tell_apart_share_the_place() -> None:
    rng = np.random.default_rng(0)
    accuracy = rng.uniform(0.3, 0.9, 60)
    first, second = -accuracy + rng.normal(0, 0.1, 60), -accuracy + rng.normal(0, 0.1, 60)
    by_measure = dict(zip(MEASURES, (first, second, accuracy, rng.normal(size=60)), strict=True))
    listed = {key: values.tolist() for key, values in by_measure.items()}
    marks = most_negative({"bed": (listed, accuracy)})["bed"]
    assert marks == {"euclidean": "tied", "wasserstein": "tied"}


def test_the_sweep_is_in_the_order_of_its_targets(scores: TransferScores) -> None:
    turned = TransferScores(scores.splits[::-1], scores.methods, scores.shots, scores.accuracy)
    assert [split.name for split in turned.sweep] == ["R = 0", "R = 1"]
    assert turned.hardest.name == "R = 1"


def test_a_line_needs_divergences_that_differ(scores: TransferScores) -> None:
    assert targets_differ(scores.splits)
    assert not targets_differ(scores.splits[:2])  # one target, and the random split has none
    same = [
        SplitPlace("a", 0.0, 0.5, 0.1),
        SplitPlace("b", 1.0, 0.5 + 1e-12, 0.1),
        SplitPlace("c", None, 0.9, 0.1),
    ]
    assert not targets_differ(same)


def test_downstream_tasks_come_from_the_test_classes_or_from_other_datasets() -> None:
    settings = get_study("divergence-correlation-small").settings
    assert isinstance(settings, CorrelationSettings)
    dataset = SimpleNamespace(
        name="herbs",
        splits={"train": ("a", "b"), "test": ("c",)},
        split_classes=lambda split: {"train": np.array([0, 1]), None: np.arange(3)}[split],
    )
    datasets: list[Any] = [SimpleNamespace(open=lambda: dataset)]
    data = DivergenceCorrelation().open_data(settings, datasets, "mine")
    assert data.classes.tolist() == [0, 1] and list(data.tasks) == ["herbs-test"]
    assert data.tasks["herbs-test"][1] == "test" and len(data.notes) == 1
    for part in ("train", "test"):
        dataset.splits = {part: ("a",)}
        with pytest.raises(UserError, match="has no train and test classes"):
            DivergenceCorrelation().open_data(settings, datasets, "mine")


def test_categorical_divergences_are_those_of_the_class_means() -> None:
    rng = np.random.default_rng(0)
    upstream, tasks = rng.normal(size=(6, 4)), rng.normal(size=(2, 3, 4))
    measured = divergences(upstream, tasks, 0.01)
    for number, task in enumerate(tasks):
        points = np.concatenate([upstream, task])
        for measure in MEASURES:
            expected = between(measure, points, upstream.mean(0), task.mean(0))
            assert measured["categorical"][measure][number] == pytest.approx(expected)


def test_a_task_is_the_unit_means_of_its_classes_whatever_the_order_of_its_support() -> None:
    bound = SimpleNamespace(
        ways=np.array([2]),
        support=SimpleNamespace(values=np.array([0, 3, 1, 2])),
        support_label=SimpleNamespace(values=np.array([0, 1, 0, 1])),
    )
    bound_tasks = type("Bound", (), {**vars(bound), "__len__": lambda self: 1})()
    testbed = SimpleNamespace(datasets={"herbs": "f"}, bind=lambda *_: bound_tasks)
    array = np.array([[3.0, 0.0], [0.0, 4.0], [1.0, 0.0], [-1.0, 0.0]])  # the second class has the mean 0
    features = SimpleNamespace(keys=None, fingerprint="f", array=array, dim=2)
    embeddings = task_embeddings(testbed, features)  # type: ignore[arg-type]
    assert embeddings.tolist() == [[pytest.approx([0.6, 0.8]), [0.0, 0.0]]]
