"""Tables and figure data of the studies of tasks by meaning, on planted accuracies."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from longshot.base import UserError
from longshot.statistics import Rolling
from longshot.studies import Measured, NotMeasured, get_study, layered, unpaired
from longshot.studies.engine.claims import judge
from longshot.studies.semantic.better_claims import order_of_methods
from longshot.studies.semantic.better_testbed import BetterTestbed
from longshot.studies.semantic.many_way import ManyWay
from longshot.studies.semantic.semantic_common import (
    MethodScores,
    appearances,
    class_ids_of,
    coloured,
    draw_balance,
    draw_histograms,
    draw_parts,
    draw_rolling,
    draw_ways,
    leader,
    quartile_of,
    rolling_curve,
    transduction,
)

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


class Planted:
    """As much of a lab as recipes look at: planted testbeds and scores."""

    def __init__(
        self, study: str, changes: dict[str, Any], listed: dict[str, list[MethodScores]], draws: Any
    ) -> None:
        methods = [entry.method for entry in next(iter(listed.values()))]
        self.settings = layered(
            get_study(study), None, {**changes, "methods": methods, "variant": None}
        ).settings
        self.listed, self.scores, self.plan = listed, self, SimpleNamespace(draws=draws)
        first = next(iter(listed.values()))[0].coarsity
        tasks = {name: planted([["a", "b"]] * len(own[0].accuracy)) for name, own in listed.items()}
        self.testbeds = tasks if first is not None else {}

    def _entry(self, testbed: str, method: str) -> MethodScores:
        return next(entry for entry in self.listed[testbed] if entry.method == method)

    def values(self, testbed: str, backbone: str, method: str, metric: str = "accuracy") -> np.ndarray:
        return np.asarray(getattr(self._entry(testbed, method), metric))

    def column(self, testbed: str, name: str) -> np.ndarray:
        return np.asarray(self.listed[testbed][0].coarsity)

    def setting(self, method: str) -> str:
        return next(entry.setting for own in self.listed.values() for entry in own if entry.method == method)

    def by_setting(self, methods: list[str]) -> list[str]:
        return sorted(methods, key=self.setting)

    def difference(self, label: str, first: Any, second: Any, printed: Any = None, **which: str) -> Measured:
        return unpaired(
            label, *(self.values(s.testbed.name, "", which["method"]) for s in (first, second)), printed
        )


def test_better_testbed_tables_and_claims_hold_the_planted_numbers(entries: list[MethodScores]) -> None:
    uniform = [scores("protonet", [0.9, 0.7] * 4), scores("tim", [0.8] * 8, "transductive")]
    by_testbed = {"semantic-5-shot": entries, "uniform-5-shot": uniform}
    lab: Any = Planted("better-testbed-small", {"shots": [5], "way": 2}, by_testbed, [])
    results, testbeds = BetterTestbed().tables(lab)
    means = {
        (record["testbed"], record["part"], record["method"]): record["mean"] for record in results.records
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
    assert [cell.text for cell in testbeds.sheets[0].blocks[0][0]][:4] == [
        "semantic-5-shot",
        "1.0",
        "2.8",
        "4.5",
    ]
    judged = {claim.claim.id: claim for claim in judge(BetterTestbed().claims(lab.settings), lab)}
    values = {(key, n.measured.label): n.measured for key, claim in judged.items() for n in claim.numbers}
    assert values["harder", "protonet, 5-shot"].value == pytest.approx(0.3)  # 0.8 − 0.5
    assert values["harder", "protonet, 5-shot"].printed == pytest.approx(0.8279 - 0.7077)
    assert values["finer", "protonet, 5-shot"].value == pytest.approx(0.6)  # 0.8 − 0.2
    assert values["finer", "protonet, 5-shot"].printed == pytest.approx(0.8041 - 0.5972)
    assert judged["correlated"].verdict == "not testable here"  # all accuracies of tim are the same
    assert judged["one-shot"].reason == "it needs 1 shot and another number of shots, and the study has [5]"
    assert judged["order"].reason == "an order needs at least 3 of the paper's methods, and the study has 2"
    gain = values["transductive", "5-shot: tim − protonet"]
    assert gain.value == pytest.approx(0.6 - np.mean([0.5, 0.3, 0.9, 0.7]))  # on every other task
    assert gain.printed is None  # the authors ran TIM with other settings than these


def test_many_way_drops_and_times_chance() -> None:
    by_testbed = {
        "2-way-1-shot": [scores("protonet", [0.9, 0.7])],
        "10-way-1-shot": [scores("protonet", [0.2, 0.4])],
    }
    draws = [SimpleNamespace(words={"way": way, "shot": 1}) for way in (2, 10)]
    lab: Any = Planted("many-way-small", {"ways": [2, 10], "shots": [1]}, by_testbed, draws)
    (results,) = ManyWay().tables(lab)
    assert [(record["way"], record["metric"], round(record["mean"], 9)) for record in results.records] == [
        (2, "accuracy", 0.8),
        (10, "accuracy", 0.3),
        (10, "top5", 0.8),
    ]
    assert "10-way 1-shot: top-1 is 3.0 to 3.0 times chance" in results.lines[0]  # 0.3 of 1 in 10
    judged = {claim.claim.id: claim for claim in judge(ManyWay().claims(lab.settings), lab)}
    assert judged["drop"].numbers[0].measured.value == pytest.approx(0.5)
    assert judged["best-1-shot"].reason.startswith("the paper speaks of 100-way 1-shot tasks")
    assert list(ManyWay().figures(lab)) == ["ways-1-shot"]


def test_the_order_of_methods_is_measured_between_quartiles() -> None:
    ordered = [scores(name, [level] * 8) for name, level in (("a", 0.2), ("b", 0.4), ("c", 0.6))]
    assert order_of_methods(ordered, "τ").value == 1
    turned = [0.9, 0.9, 0.9, 0.9, 0.1, 0.1, 0.1, 0.1]  # above on the finer half, below on the coarser
    mixed = [*ordered[1:], scores("d", turned)]
    # on the halves the pairs with d turn round: 2 of 3 signs differ in 4 of the 6 pairs of quartiles
    assert order_of_methods(mixed, "τ").value == pytest.approx((2 * 1 + 4 * (1 - 2) / 3) / 6)


def test_classes_are_counted_over_both_testbeds() -> None:
    beds = [planted([["a", "b"], ["a", "c"]]), planted([["d", "a"]])]
    assert class_ids_of(beds) == ["a", "b", "c", "d"]
    assert appearances(beds[0], ["a", "b", "c", "d"]).tolist() == [2, 1, 1, 0]


def test_leaders_and_transduction(entries: list[MethodScores]) -> None:
    best = leader([*entries, scores("ridge", [0.55] * 8)], "inductive")
    assert best is not None and best.method == "ridge"
    with pytest.raises(NotMeasured, match="a transductive and an inductive method"):
        transduction(entries[:1], "x")


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


def test_pictures_show_the_numbers(entries: list[MethodScores], canvas: Any) -> None:
    [axes] = canvas(partial(draw_histograms, {"uniform": np.array([1.0, 1.0, 5.0]), "semantic": COARSITY}))
    heights = [sum(bar.get_height() for bar in bars) for bars in axes.containers]
    assert heights == pytest.approx([100.0, 100.0])
    assert axes.patches[0].get_x() == pytest.approx(1.0)
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels == ["uniform (mean 2.3)", "semantic (mean 4.5)"]
    [axes] = canvas(partial(draw_balance, {"uniform": np.array([0.5, 0.25, 0.25, 0.0])}, 2))
    line, even = axes.lines
    assert line.get_xdata().tolist() == [1, 2, 3, 4] and line.get_ydata().tolist() == [50.0, 25.0, 25.0, 0.0]
    assert even.get_ydata() == [50.0, 50.0] and even.get_label() == "all equal (50 %)"
    names = ["1st", "2nd", "3rd", "4th", "uniform"]
    values = [[quartile_of(entry, quartile) for entry in entries] for quartile in range(4)]
    values.append([np.full(8, 0.9), np.full(8, 0.7)])
    [axes] = canvas(partial(draw_parts, entries, names, values, "title"))
    by_label = {line.get_label(): line for line in axes.lines}
    assert by_label["protonet"].get_ydata() == pytest.approx([20.0, 40.0, 60.0, 80.0])
    assert sorted(line.get_ydata()[0] for line in axes.lines if len(line.get_xdata()) == 1) == [70.0, 90.0]
    by_way = {10: [scores("protonet", [0.2, 0.4])], 2: [scores("protonet", [0.9, 0.7])]}
    [axes] = canvas(partial(draw_ways, by_way, "title"))
    assert axes.containers[0][0].get_xdata() == pytest.approx([2, 10])
    assert axes.containers[0][0].get_ydata() == pytest.approx([80.0, 30.0])
    chance = next(line for line in axes.lines if line.get_label() == "chance")
    assert chance.get_xdata() * chance.get_ydata() == pytest.approx(np.full(50, 100.0))


def test_a_rolling_mean_is_no_wider_than_a_quarter_of_the_tasks(
    entries: list[MethodScores], canvas: Any
) -> None:
    for window, width in ((5, 2), (2, 2)):
        [axes] = canvas(partial(draw_rolling, entries, window, "1-shot"))
        assert axes.get_title(loc="left").startswith(f"1-shot: mean of {width} neighbouring tasks")
    long = MethodScores("tim", "inductive", np.linspace(0, 1, 40), np.ones(40), np.linspace(1, 9, 40))
    [axes] = canvas(partial(draw_rolling, [long], 50, "1-shot"))
    assert axes.get_title(loc="left").startswith("1-shot: mean of 10 neighbouring tasks")


def test_equal_pairs_of_testbeds_share_their_pictures(entries: list[MethodScores]) -> None:
    by_testbed = {f"{kind}-{shot}-shot": entries for kind in ("semantic", "uniform") for shot in (1, 5)}
    lab: Any = Planted("better-testbed-small", {"shots": [1, 5], "way": 2}, by_testbed, [])
    each = {f"{kind}-{shot}-shot" for kind in ("accuracy", "quartiles") for shot in (1, 5)}
    assert set(BetterTestbed().figures(lab)) == {"coarsity", "balance", *each}
    lab.testbeds["uniform-5-shot"] = planted([["a", "c"]] * 8)
    further = {"coarsity-5-shot", "balance-5-shot"}
    assert set(BetterTestbed().figures(lab)) == {"coarsity", "balance", *each, *further}


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("better-testbed", "way=1"),
        ("better-testbed", "window=1"),
        ("better-testbed", "tasks=7"),
        ("many-way", "tasks=1"),
    ],
)
def test_the_least_settings_are_accepted_and_less_is_not(name: str, change: str) -> None:
    key, _, value = change.partition("=")
    with pytest.raises(UserError, match=key):
        layered(get_study(name), None, [change])
    assert getattr(layered(get_study(name), None, {key: int(value) + 1}).settings, key) == int(value) + 1
