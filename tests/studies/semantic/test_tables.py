"""Tables and figure data of the studies of tasks by meaning, on planted accuracies."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from longshot.statistics import Rolling
from longshot.studies import get_study, layered
from longshot.studies.semantic.better_testbed import (
    BetterTestbed,
    BetterTestbedSettings,
    appearances,
    class_ids_of,
    quartile_of,
)
from longshot.studies.semantic.figures import coloured, rolling_curve
from longshot.studies.semantic.many_way import ManyWay, ManyWaySettings
from longshot.studies.semantic.scores import MethodScores, leader, transduction

COARSITY = np.array([4.0, 3.0, 2.0, 1.0, 8.0, 7.0, 6.0, 5.0])


def scores(method: str, accuracy: list[float], setting: str = "inductive") -> MethodScores:
    values = np.array(accuracy)
    return MethodScores(method, setting, values, np.minimum(1.0, values + 0.5), COARSITY[: len(values)])


def planted(classes: list[list[str]], way: int = 2, shot: int = 1) -> Any:
    """As much of a testbed as tables and figures look at; coarsity is that of the planted scores."""
    table = pa.table({"classes": classes, "coarsity": COARSITY[: len(classes)]})
    first = SimpleNamespace(way=way, shots=[shot])
    rows = {"table": table, "__len__": lambda self: len(classes), "__getitem__": lambda self, index: first}
    return type("PlantedTestbed", (), rows)()


@pytest.fixture
def entries() -> list[MethodScores]:
    """Accuracy 0.2, 0.4, 0.6 and 0.8 on the quartiles of the first, all 0.5 for the second."""
    return [
        scores("protonet", [0.3, 0.5, 0.1, 0.3, 0.7, 0.9, 0.5, 0.7]),
        scores("tim", [0.6] * 8, "transductive"),
    ]


def test_a_quartile_is_the_tasks_of_its_coarsities(entries: list[MethodScores]) -> None:
    quartiles = [sorted(quartile_of(entries[0], quartile).tolist()) for quartile in range(4)]
    assert quartiles == [[0.1, 0.3], [0.3, 0.5], [0.5, 0.7], [0.7, 0.9]]
    assert quartile_of(entries[0], None).mean() == pytest.approx(0.5)


def test_better_testbed_tables_hold_the_planted_numbers(entries: list[MethodScores]) -> None:
    settings = layered(get_study("better-testbed-small"), None, {"shots": [5], "way": 2}).settings
    assert isinstance(settings, BetterTestbedSettings)
    uniform = [scores("protonet", [0.9, 0.7] * 4), scores("tim", [0.8] * 8, "transductive")]
    by_testbed = {"semantic-5-shot": entries, "uniform-5-shot": uniform}
    beds = {
        "semantic-5-shot": planted([["a", "b"]] * 6 + [["a", "c"]] * 2),
        "uniform-5-shot": planted([["a", "b"], ["b", "c"], ["c", "d"], ["d", "a"]] * 2),
    }
    results, claims = BetterTestbed().tables(settings, beds, by_testbed)
    means = {
        (record["testbed"], record["part"], record["method"]): record["mean"]
        for record in results.records
        if record["source"] == "measured"
    }
    assert [means["semantic-5-shot", f"quartile {n}", "protonet"] for n in (1, 2, 3, 4)] == pytest.approx(
        [0.2, 0.4, 0.6, 0.8]
    )
    assert means["semantic-5-shot", "whole", "protonet"] == pytest.approx(0.5)
    assert means["uniform-5-shot", "whole", "protonet"] == pytest.approx(0.8)
    half = stats.t.ppf(0.975, 7) * stats.sem(entries[0].accuracy)
    shown = [cell.text for cell in results.sheets[0].blocks[0][0]]
    assert shown[:3] == ["protonet", "inductive", f"50.00 ± {100 * half:.2f}"]
    assert shown[3:7] == ["20.00", "40.00", "60.00", "80.00"]
    values = {(record["method"], record["what"]): record["value"] for record in claims.records}
    assert values["protonet", "drop"] == pytest.approx(0.3)  # 0.8 − 0.5
    assert values["protonet", "rise"] == pytest.approx(0.6)  # 0.8 − 0.2
    assert values["tim", "spearman"] is None  # all its accuracies are the same
    assert values["semantic", "tim - protonet"] == pytest.approx(0.1)
    assert (
        "coarsity from 1.0 to 8.0, quartiles 2.8, 4.5, 6.2, mean 4.5; 4 classes in 0 to 8 tasks each"
        in claims.lines[-2]
    )
    assert "4 classes in 4 to 4 tasks each" in claims.lines[-1]


def test_many_way_drops_and_times_chance() -> None:
    settings = layered(get_study("many-way-small"), None, {"ways": [2, 10], "shots": [1]}).settings
    assert isinstance(settings, ManyWaySettings)
    beds = {"2-way-1-shot": planted([["a", "b"]] * 2), "10-way-1-shot": planted([["a"]] * 2, way=10)}
    by_testbed = {
        "2-way-1-shot": [scores("protonet", [0.9, 0.7])],
        "10-way-1-shot": [scores("protonet", [0.2, 0.4])],
    }
    results, claims = ManyWay().tables(settings, beds, by_testbed)
    measured = [record for record in results.records if record["source"] == "measured"]
    assert [(record["way"], record["metric"], round(record["mean"], 9)) for record in measured] == [
        (2, "accuracy", 0.8),
        (10, "accuracy", 0.3),
        (10, "top5", 0.8),
    ]
    assert claims.records[0]["value"] == pytest.approx(0.5)
    assert [cell.text for cell in claims.sheets[0].blocks[0][0]][-1] == "3.0 ×"  # 0.3 of 1 in 10
    assert list(ManyWay().figures(settings, beds, by_testbed)) == ["ways-1-shot"]


def test_classes_are_counted_over_both_testbeds() -> None:
    beds = [planted([["a", "b"], ["a", "c"]]), planted([["d", "a"]])]
    assert class_ids_of(beds) == ["a", "b", "c", "d"]
    assert appearances(beds[0], ["a", "b", "c", "d"]).tolist() == [2, 1, 1, 0]


def test_leaders_and_transduction(entries: list[MethodScores]) -> None:
    best = leader([*entries, scores("ridge", [0.55] * 8)], "inductive")
    assert best is not None and best.method == "ridge"
    assert transduction(entries[:1]) is None
    gain = transduction(entries)
    assert gain is not None and gain[1]["value"] == pytest.approx(0.1)


def test_windows_at_the_same_coarsity_are_one_point() -> None:
    columns = ([1.0, 1.0, 2.0], [0.2, 0.4, 0.5], [0.1, 0.3, 0.5], [0.3, 0.5, 0.5])
    means = Rolling(*(np.array(values) for values in columns), window=2)
    x, mean, low, high = rolling_curve(means)
    assert x.tolist() == [1.0, 2.0]
    assert [values.tolist() for values in (mean, low, high)] == [
        pytest.approx(expected) for expected in ([30.0, 50.0], [20.0, 50.0], [40.0, 50.0])
    ]


def test_the_best_of_each_setting_protonet_and_the_lowest_are_coloured() -> None:
    accuracy = {"best": 0.9, "second": 0.8, "third": 0.7, "protonet": 0.6, "lowest": 0.1}
    listed = [scores(name, [value] * 2) for name, value in accuracy.items()]
    listed.append(scores("tim", [0.95, 0.95], "transductive"))
    colours = {entry.method: colour for entry, colour in coloured(listed)}
    assert {name for name, colour in colours.items() if colour} == {"best", "protonet", "lowest", "tim"}
    assert len({colour for colour in colours.values() if colour}) == 4
