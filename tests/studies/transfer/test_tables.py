"""Tables and figure data of the studies of transfer on planted accuracies."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from longshot.base import UserError
from longshot.studies import get_study
from longshot.studies.transfer.divergence_correlation import (
    DivergenceCorrelation,
    correlations_table,
    most_negative,
)
from longshot.studies.transfer.settings import METHODS, CorrelationSettings
from longshot.studies.transfer.transfer_scores import (
    MEASURES,
    MODELS,
    SplitPlace,
    TransferScores,
    divergences,
    task_embeddings,
)
from longshot.studies.transfer.transfer_tables import (
    accuracies_table,
    adaptation_table,
    method_series,
    part_series,
    printed_drop,
    printed_span,
    slopes_table,
    splits_table,
    transfer_tables,
)
from longshot.tasks import between

SPREAD = np.array([0.02, -0.02, 0.01, -0.01])


def planted(methods: Sequence[str] = ("maml", "anil"), draws: int = 1) -> TransferScores:
    """maml 0.8 − 0.2 R, anil 0.8 − 0.4 R … on two trainings that lie 0.02 apart; draws lie 0.1 apart; one shot."""
    splits = [SplitPlace("random", None, 0.01, 0.1)]
    for target in (0.0, 1.0):
        splits += [
            SplitPlace(f"R = {target:g} #{draw}", target, 0.1 + 0.2 * target, 0.2 + 0.2 * target, draw=draw)
            for draw in range(draws)
        ]
    accuracy = {}
    for split in splits:
        for number, method in enumerate(methods):
            level = 0.8 - 0.2 * (number + 1) * (split.target or 0.0) - 0.1 * split.draw
            accuracy[split.name, method, 1] = np.stack([level + 0.01 + SPREAD, level - 0.01 + SPREAD])
    return TransferScores(splits, methods, (1,), accuracy)


def test_accuracies_are_means_over_tasks_and_trainings() -> None:
    table = accuracies_table(planted(), 5, 1)
    means = {(record["split"], record["method"]): record["mean"] for record in table.records}
    assert means == {
        ("random", "maml"): pytest.approx(0.8),
        ("R = 0", "maml"): pytest.approx(0.8),
        ("R = 1", "maml"): pytest.approx(0.6),
        ("random", "anil"): pytest.approx(0.8),
        ("R = 0", "anil"): pytest.approx(0.8),
        ("R = 1", "anil"): pytest.approx(0.4),
    }
    half = 100 * stats.t.ppf(0.975, 3) * stats.sem(SPREAD)
    rows = [[cell.text for cell in row] for row in table.sheets[0].blocks[0]]
    assert rows[0] == ["maml", "adapts", *(f"{mean:.1f} ± {half:.1f}" for mean in (80, 80, 60))]
    assert rows[1][:2] == ["anil", "fixed"]


def test_first_places_follow_the_one_rule() -> None:
    """Twelve tasks tell methods apart that lie 0.2 apart; where all share the place nothing is marked."""
    scores = planted()
    many = {key: np.tile(values, (1, 3)) for key, values in scores.accuracy.items()}
    block = accuracies_table(replace(scores, accuracy=many), 5, 1).sheets[0].blocks[0]
    assert [[cell.mark for cell in row[2:]] for row in block] == [
        ["", "", "best"],
        ["", "", ""],
    ]


def test_draws_of_a_divergence_stand_together() -> None:
    table = accuracies_table(planted(draws=2), 5, 1)
    means = {(record["split"], record["method"]): record for record in table.records}
    assert means["R = 1", "maml"]["mean"] == pytest.approx(0.55) and means["R = 1", "maml"]["tasks"] == 8
    assert "Tasks of 2 splits of each R." in table.sheets[0].note


def test_slopes_are_the_planted_ones() -> None:
    for draws in (1, 2):
        records = slopes_table(planted(draws=draws)).records
        slopes = {(record["method"], record["x"], record["minus"]): record["slope"] for record in records}
        assert slopes == {
            ("maml", "R", ""): pytest.approx(-0.2),
            ("maml", "measured", ""): pytest.approx(-1.0),  # 0.2 over 0.2 of measured divergence
            ("anil", "R", ""): pytest.approx(-0.4),
            ("anil", "R", "maml"): pytest.approx(-0.2),
            ("anil", "measured", ""): pytest.approx(-2.0),
        }
        assert {record["splits"] for record in records} == {2 * draws}
    assert [cell.text for cell in slopes_table(planted(draws=2)).sheets[0].blocks[0][1]][
        4
    ] == "−40.00 to −40.00"


def test_printed_numbers_stand_beside_and_are_marked() -> None:
    sheet = slopes_table(planted()).sheets[-1]
    printed = {cells[0].text: [cell.text for cell in cells[1:]] for cells in sheet.blocks[0]}
    assert sheet.title.startswith("Published") and sheet.note.endswith("Not measured here.")
    assert printed["maml"][0] == "−11.53" and printed["multiclass"][-1] == "−3.23"
    assert printed_span(5, "anil", "maml", 100) == (-0.0315, -0.0051)
    assert printed_span(1, "maml", "multiclass", 100) == (0.0039, 0.041)  # not printed for tiered-ImageNet
    assert printed_drop("maml", 1, "R = 0.04", "R = 0.96") == pytest.approx(0.1249)
    assert printed_drop("multiclass", 5, "FC100", "R = 0.96") == pytest.approx(-0.018)
    assert printed_drop("finetune", 5, "R = 0.04", "R = 0.96") is None
    assert printed_drop("maml", 5, "SEMANTIC", "R = 0.96") is None


def test_what_adapting_gains() -> None:
    gains = {record["split"]: record["difference"] for record in adaptation_table(planted()).records}
    assert gains == {"random": pytest.approx(0), "R = 0": pytest.approx(0), "R = 1": pytest.approx(0.2)}
    rows = adaptation_table(planted(METHODS)).records
    assert {(row["one"], row["other"]) for row in rows} == {("finetune", "multiclass"), ("maml", "anil")}
    assert "nothing is said about adapting" in adaptation_table(planted(("protonet", "anil"))).lines[0]


def test_splits_are_described_by_their_divergences() -> None:
    scores = planted()
    places = [*scores.splits[:2], replace(scores.splits[2], twin="random")]
    rows = [
        [cell.text for cell in row]
        for row in splits_table(replace(scores, splits=places)).sheets[0].blocks[0]
    ]
    assert rows[0] == ["random", "–", "0.0100", "0.100", "–"]
    assert rows[2] == ["R = 1 #0", "1", "0.3000", "0.400", "random"]


def test_one_divergence_has_no_slope_and_two_have_one_without_interval() -> None:
    scores = planted()
    single = replace(scores, splits=scores.splits[:2])
    assert slopes_table(single).lines == ["A slope needs at least 2 divergences; the study has 1."]
    cells = [cell.text for cell in slopes_table(scores).sheets[0].blocks[0][0]]
    assert cells[2] == "−20.00" and cells[3].startswith("[")  # the interval over tasks is there


def test_cut_cells_are_marked() -> None:
    scores = replace(planted(), cut=frozenset({("R = 1 #0", "anil", 1)}))
    sheet = accuracies_table(scores, 5, 1).sheets[0]
    marked = [
        (row[0].text, position)
        for row in sheet.blocks[0]
        for position, cell in enumerate(row)
        if "‡" in cell.text
    ]
    assert marked == [("anil", 4)] and "‡" in sheet.note
    assert [cell.text for cell in slopes_table(scores).sheets[0].blocks[0][1]][2] == "–"
    cut = [record["split"] for record in adaptation_table(scores).records if record["hit_ceiling"]]
    assert cut == ["R = 1"]


@pytest.mark.parametrize("methods", [("multiclass",), ("maml", "anil"), METHODS])
@pytest.mark.parametrize("draws", [1, 2])
def test_all_tables_are_written_for_any_choice_of_methods(methods: tuple[str, ...], draws: int) -> None:
    for table in transfer_tables(planted(methods, draws), 5):
        texts = table.texts()
        assert set(texts) == {f"{table.stem}.md", f"{table.stem}.tex", f"{table.stem}.csv"}
        for row in csv.DictReader(io.StringIO(texts[f"{table.stem}.csv"])):
            assert "nan" not in row.values()


def test_the_figure_holds_means_bounds_and_the_line() -> None:
    series = method_series(planted(), "maml", 1)
    half = stats.t.ppf(0.975, 3) * stats.sem(SPREAD)
    assert series.x.tolist() == [0.0, 1.0]
    assert series.mean == pytest.approx([0.8, 0.6])
    assert series.low == pytest.approx([0.8 - half, 0.6 - half])
    assert series.high == pytest.approx([0.8 + half, 0.6 + half])
    assert series.line == pytest.approx((0.8, -0.2))


def test_draws_of_a_divergence_are_one_point_of_the_parts() -> None:
    scores = planted(("multiclass",), draws=2)
    parts = {(split.name, "train"): scores.accuracy[split.name, "multiclass", 1] for split in scores.sweep}
    series = part_series(replace(scores, parts=parts), "train")
    assert series.x.tolist() == [0.0, 1.0]
    assert series.mean == pytest.approx([0.75, 0.55])


def test_correlations_of_planted_divergences() -> None:
    accuracy = np.array([0.9, 0.7, 0.5, 0.3] * 10)
    rising, falling = [1.0, 2.0, 3.0, 4.0] * 10, [4.0, 3.0, 2.0, 1.0] * 10
    weak = [1.0, 3.0, 2.0, 4.0] * 10  # r = −0.8
    constant = [1.0] * 40
    by_measure = dict(zip(MEASURES, (falling, weak, rising, constant), strict=True))
    table = correlations_table(
        "pixels", {"bed": dict.fromkeys(MODELS, by_measure)}, {"bed": {"protonet": accuracy}}
    )
    numbers = table.records
    assert [record["r"] for record in numbers[:3]] == pytest.approx([1.0, -0.8, -1.0])
    assert numbers[3]["r"] is None  # a constant divergence has no correlation
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


def test_downstream_tasks_come_from_the_test_classes_or_from_other_datasets() -> None:
    settings = get_study("divergence-correlation-small").settings
    assert isinstance(settings, CorrelationSettings)
    dataset = SimpleNamespace(
        name="herbs",
        splits={"train": ("a", "b"), "test": ("c",)},
        splits_from=None,
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
    by_model = divergences(upstream, tasks, 0.01)
    for number, task in enumerate(tasks):
        points = np.concatenate([upstream, task])
        for measure in MEASURES:
            expected = between(measure, points, upstream.mean(0), task.mean(0))
            assert by_model["categorical"][measure][number] == pytest.approx(expected)


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
