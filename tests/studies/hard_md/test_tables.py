"""Tables and figures of Hard-Meta-Dataset++ on planted accuracies whose answers are known by arithmetic."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import hypot
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from longshot.diagnosis import Composition
from longshot.statistics import Correlation, Interval
from longshot.studies import Lab, Plan, TableFile, get_study, layered
from longshot.studies.hard_md import hard_md_tables as hard_tables
from longshot.studies.hard_md.hard_md_ablations import ablation_tables
from longshot.studies.hard_md.hard_md_recipe import hard_figures, steps_points, stress_bars, widest_gaps
from longshot.studies.hard_md.hard_md_scores import HardScores, Mean, Why, hard_scores, ranks_of
from longshot.studies.hard_md.hard_md_testbeds import HardSettings, HardTestbed, main

T1 = float(stats.t.ppf(0.975, 1))  # two tasks a, b have the interval ± T1 · |a − b| / 2
JUDGE, OTHER = "pixels", "sketch"


def settings(**changes: Any) -> HardSettings:
    plain = {
        "networks": {},
        "judge": JUDGE,
        "backbones": [JUDGE, OTHER],
        "methods": ["protonet"],
        "adapted": [],
        "shapes": ["fixed"],
        "published": False,
        "tasks": 2,
        "way": 3,
        "shot": 4,
    }
    made = layered(get_study("hard-md-small"), None, {**plain, **changes}).settings
    assert isinstance(made, HardSettings)
    return made


@dataclass
class Planted:
    """Accuracies per task by testbed, backbone and method, in the lab of a study that was never run."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    testbeds: dict[HardTestbed, Any] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)  # of drawing, by testbed

    def add(
        self,
        bed: HardTestbed,
        *accuracy: float,
        backbone: str = JUDGE,
        method: str = "protonet",
        **columns: list[float],
    ) -> Planted:
        table = pa.table(columns) if columns else None
        self.testbeds.setdefault(bed, SimpleNamespace(content_hash=bed.name, table=table))
        facts = {"testbed": bed.name, "backbone": backbone, "method": method}
        self.rows += [{**facts, "task": task, "accuracy": value} for task, value in enumerate(accuracy)]
        return self

    def lab(self, **changes: Any) -> Any:
        shuffled = [self.rows[i] for i in np.random.default_rng(0).permutation(len(self.rows))]
        table = pa.Table.from_pylist(shuffled)
        attributes = pa.table({"objects": [1, 2]})
        data: Any = {
            source: SimpleNamespace(taxonomy="a tree", attributes=attributes, splits={}, name=source)
            for source in dict.fromkeys(bed.source for bed in self.testbeds)
        }
        kinds = {row["method"]: {"setting": "inductive"} for row in self.rows}
        return Lab(
            job=SimpleNamespace(settings=settings(**changes), data=data),  # type: ignore[arg-type]
            plan=Plan(),
            folder=SimpleNamespace(facts={"extraction_seconds": self.seconds}),  # type: ignore[arg-type]
            datasets=data,
            absent=[],
            notes=[],
            testbeds={bed.name: testbed for bed, testbed in self.testbeds.items()},
            _results=SimpleNamespace(table=lambda: table, run={"methods": kinds}),  # type: ignore[arg-type]
        )

    def scores(self, *further: str, why: Why | None = None, **changes: Any) -> HardScores:
        backbones = changes.pop("backbones", [JUDGE, OTHER, *further])
        scores = hard_scores(self.lab(backbones=backbones, why=why is not None, **changes))
        if why is not None:
            scores.why = why
        return scores


def half(*values: float) -> float:
    return T1 * abs(values[0] - values[1]) / 2


def numbers(table: TableFile | None, **facts: str) -> list[tuple[float, float]]:
    """(mean, half) of the records that have these facts."""
    assert table is not None
    rows = [record for record in table.records if all(record[key] == value for key, value in facts.items())]
    return [(record["mean"], record["half"]) for record in rows]


def texts(table: TableFile | None) -> list[list[str]]:
    assert table is not None
    return [[cell.text for cell in row] for row in table.sheets[0].blocks[0]]


def ablation(name: str, planted: Planted, *further: str, **changes: Any) -> TableFile:
    [table] = ablation_tables(planted.scores(*further, ablations=[name], **changes))
    return table


@pytest.fixture
def stress() -> Planted:
    """Two sources, two backbones; sketch was not evaluated on the second source's easy supports."""
    planted = Planted()
    values = {
        ("a", "uniform"): ((0.8, 0.6), (0.9, 0.9)),
        ("a", "difficult"): ((0.4, 0.4), (0.3, 0.1)),
        ("a", "easy"): ((1.0, 0.8), (1.0, 1.0)),
        ("b", "uniform"): ((0.6, 0.6), (0.7, 0.5)),
        ("b", "difficult"): ((0.5, 0.3), (0.2, 0.4)),
        ("b", "easy"): ((0.7, 0.9), ()),
    }
    for (source, kind), (judge, other) in values.items():
        planted.add(main("fixed", kind, source), *judge)
        planted.add(main("fixed", kind, source), *other, backbone=OTHER)
    return planted


def test_the_stress_test_pairs_tasks_and_averages_sources(stress: Planted) -> None:
    table = hard_tables.stress_table(stress.scores())
    own = {"backbone": JUDGE, "shape": "fixed", "method": "protonet"}
    assert numbers(table, **own, source="a", kind="uniform") == [pytest.approx((0.7, half(0.8, 0.6)))]
    assert numbers(table, **own, source="a", kind="drop") == [pytest.approx((0.3, half(0.4, 0.2)))]
    assert numbers(table, **own, source="b", kind="drop") == [pytest.approx((0.2, half(0.1, 0.3)))]
    assert numbers(table, backbone="sketch", source="b", kind="easy") == [(None, None)]
    judge, other = texts(table)
    drop_half = 50 * hypot(
        half(0.4, 0.2), half(0.1, 0.3)
    )  # half of the mean of two sources' drops, in points
    assert judge[:2] == [f"{JUDGE} †", "protonet"] and other[0] == "sketch"
    assert judge[-3:] == [
        f"65.0 ± {50 * half(0.8, 0.6):.1f}",
        f"40.0 ± {50 * half(0.5, 0.3):.1f}",
        f"+25.0 ± {drop_half:.1f}",
    ]
    assert other[8] == "–"  # easy supports of b
    # sketch drops by (0.6 + 0.8) / 2 = 0.7 on a and (0.5 + 0.1) / 2 = 0.3 on b
    wide = 50 * hypot(half(0.6, 0.8), half(0.5, 0.1))
    assert table.lines == [
        f"3-way 4-shot, mean of a, b: the drop from uniform to difficult supports is 50.0 ± {wide:.1f} points "
        "(protonet on sketch), the judge and what started from it left aside."
    ]


def test_means_are_over_the_sources_that_all_rows_share(stress: Planted) -> None:
    """A third source on which sketch was not evaluated is in no mean, for no row."""
    for kind in ("uniform", "difficult", "easy"):
        stress.add(main("fixed", kind, "c"), 0.1, 0.1)
    table = hard_tables.stress_table(stress.scores())
    groups = {group for group, _ in table.sheets[0].heads}
    assert groups == {"", "a", "b", "c", "mean of a, b"}
    assert texts(table)[0][-3].startswith("65.0 ±")
    assert numbers(table, source="c", kind="uniform", backbone=JUDGE) == [pytest.approx((0.1, 0.0))]


def test_first_places_are_marked_by_the_one_rule_and_never_the_judges() -> None:
    rng = np.random.default_rng(0)
    planted = Planted()
    levels = {JUDGE: 0.9, OTHER: 0.8, "third": 0.5}
    for kind in ("uniform", "difficult", "easy"):
        for backbone, level in levels.items():
            planted.add(main("fixed", kind, "a"), *(level + 0.02 * rng.random(40)), backbone=backbone)
    [judge, other, third] = hard_tables.stress_table(planted.scores("third")).sheets[0].blocks[0]
    assert [[cell.mark for cell in row[2:]] for row in (judge, other, third)] == [
        [""] * 4,
        ["best", "best", "best", ""],  # a drop has no first place
        [""] * 4,
    ]


def test_ranks_change_where_the_means_do(stress: Planted) -> None:
    table = hard_tables.ranks_table(stress.scores())
    assert table is not None
    ranks = {record["backbone"]: (record["uniform"], record["difficult"]) for record in table.records}
    assert ranks == {"sketch": (1, 1)}  # whoever chose the supports is not ranked
    assert table.lines == []  # one backbone has no correlation
    assert ranks_of(np.array([0.2, 0.9, 0.9, 0.1])).tolist() == [3, 1, 2, 4]


def test_figures_hold_the_numbers_of_the_stress_test(stress: Planted) -> None:
    judge = f"{JUDGE} †"
    bars = stress_bars(stress.scores(), "fixed", "protonet", ["a", "b"])
    assert bars[judge, "uniform"] == Mean(pytest.approx(0.65), pytest.approx(half(0.8, 0.6) / 2))
    assert bars["sketch", "easy"] is None  # not a mean of fewer sources
    one_source = stress_bars(stress.scores(), "fixed", "protonet", ["a"])
    assert one_source["sketch", "easy"] == Mean(pytest.approx(1.0), pytest.approx(0.0))


def test_supports_chosen_by_another_backbone(stress: Planted) -> None:
    for source, values in (("a", (0.5, 0.5)), ("b", (0.3, 0.1))):
        bed = HardTestbed(source, "extraction", "fixed", "difficult", OTHER)
        stress.add(bed, *values).add(bed, 0.2, 0.2, backbone=OTHER)
    table = ablation("extraction", stress)
    rows = texts(table)
    assert [row[0] for row in rows] == ["uniform (nothing chosen)", JUDGE, "sketch"]
    assert rows[1][1:] == [
        f"40.0 ± {50 * half(0.5, 0.3):.1f}",
        f"25.0 ± {50 * hypot(half(0.3, 0.1), half(0.2, 0.4)):.1f}",
    ]
    assert rows[2][1:] == [f"35.0 ± {50 * half(0.3, 0.1):.1f}", "20.0 ± 0.0"]
    assert numbers(table, kind="sketch", source="b", backbone=JUDGE) == [pytest.approx((0.2, half(0.3, 0.1)))]


def test_objectives_stand_beside_that_of_the_study(stress: Planted) -> None:
    for objective, accuracy in (("prototype", 0.9), ("ridge", 0.1)):
        for source in "ab":
            stress.add(HardTestbed(source, "objectives", "fixed", "difficult", objective), accuracy, accuracy)
    rows = {row[0]: row[1] for row in texts(ablation("objectives", stress, objective="error"))}
    assert rows["prototype"] == "90.0 ± 0.0" and rows["ridge"] == "10.0 ± 0.0"
    assert rows["error"].startswith("40.0 ±") and rows["task2vec"] == "–"


def test_quartiles_of_coarsity_are_those_of_the_uniform_testbed(stress: Planted) -> None:
    coarsity = [4.0, 3.0, 2.0, 1.0, 8.0, 7.0, 6.0, 5.0]  # quartiles: tasks 2 and 3, 0 and 1, 6 and 7, 4 and 5
    accuracy = [0.4, 0.6, 0.1, 0.3, 1.0, 0.8, 0.7, 0.7]
    for kind, shift in (("uniform", 0.0), ("difficult", -0.1)):
        values = [value + shift for value in accuracy]
        stress.add(HardTestbed("a", "semantic", "fixed", kind), *values, coarsity=coarsity)
    table = ablation("semantic", stress)
    for kind, shift in (("uniform", 0.0), ("difficult", -0.1)):
        means = [numbers(table, kind=f"{kind}, quartile {n}")[0] for n in (1, 2, 3, 4)]
        expected = [(0.2, half(0.1, 0.3)), (0.5, half(0.4, 0.6)), (0.7, 0.0), (0.9, half(1.0, 0.8))]
        assert means == [pytest.approx((mean + shift, width)) for mean, width in expected]
    shown = [f"{100 * mean:.1f} ± {100 * width:.1f}" for mean, width in expected]
    assert texts(table)[0][:-1] == ["a", f"{JUDGE} †", "uniform", *shown]


STEPS = {
    "uniform 1 steps": 0.4,
    "uniform 5 steps": 0.5,
    "random 1 steps": 0.6,
    "random 5 steps": 0.25,
    "uniform 0 rounds": 0.4,
    "uniform 1 rounds": 0.35,
}


def test_steps_are_told_from_each_start(stress: Planted) -> None:
    for label, accuracy in STEPS.items():
        for source in "ab":
            stress.add(HardTestbed(source, "steps", "fixed", "difficult", label), accuracy, accuracy)
    changes = {"steps": [1, 5], "rounds": [1]}
    table = ablation("steps", stress, **changes)
    rows = {(row[0], row[1]): row[2:] for row in texts(table)}
    assert rows == {
        ("uniform", "1 step"): ["40.0 ± 0.0"] * 3,
        ("uniform", "5 steps"): ["50.0 ± 0.0"] * 3,
        ("random", "1 step"): ["60.0 ± 0.0"] * 3,
        ("random", "5 steps"): ["25.0 ± 0.0"] * 3,
        ("uniform", "0 rounds behind 1 step"): ["40.0 ± 0.0"] * 3,
        ("uniform", "1 round behind 1 step"): ["35.0 ± 0.0"] * 3,
    }
    assert "'error'" in table.sheets[0].note  # the objective is named
    points = [
        [(count, round(mean.mean, 9)) for count, mean in steps_points(stress.scores(**changes), "a", kind)]
        for kind in ("uniform", "random", "rounds")
    ]
    assert points == [[(1, 0.4), (5, 0.5)], [(1, 0.6), (5, 0.25)], [(0, 0.4), (1, 0.35)]]


def test_greedy_search_costs_milliseconds_per_task(stress: Planted) -> None:
    for source in "ab":
        stress.add(HardTestbed(source, "greedy", "fixed", "difficult", "FastDiffSel error"), 0.4, 0.4)
        stress.add(HardTestbed(source, "greedy", "fixed", "difficult", "greedy error"), 0.3, 0.3)
    stress.seconds = {
        "a-difficult-fixed-greedy-FastDiffSel-error": 0.004,
        "a-difficult-fixed-greedy-greedy-error": 0.5,
    }
    table = ablation("greedy", stress, greedy_objectives=["error"])
    assert table.lines == ["a, objective 'error': greedy search took 125 times as long as FastDiffSel."]
    spent = {(record["source"], record["kind"]): record["milliseconds"] for record in table.records}
    assert spent == {
        ("a", "FastDiffSel, error"): pytest.approx(2.0),  # 4 ms for two tasks
        ("a", "greedy search, error"): pytest.approx(250.0),
        ("b", "FastDiffSel, error"): None,
        ("b", "greedy search, error"): None,
    }
    assert texts(table)[:2] == [
        ["a", "error", "FastDiffSel", "40.0 ± 0.0", "2.00"],
        ["a", "error", "greedy search", "30.0 ± 0.0", "250.00"],
    ]
    assert texts(table)[3][-1] == "–"


def test_filtered_tasks_have_their_ways() -> None:
    planted = Planted()
    planted.add(main("fixed", "difficult", "a"), 0.4, 0.6, way=[3.0, 3.0])
    planted.add(HardTestbed("a", "filtered", "fixed", "difficult"), 0.1, 0.2, way=[5.0, 9.0])
    table = ablation("filtered", planted)
    ways = {record["kind"]: (record["ways"], record["ways_half"]) for record in table.records}
    assert ways == {"chosen supports": (3.0, 0.0), "filtered": pytest.approx((7.0, half(5, 9)))}
    assert texts(table)[1] == [
        "a",
        "filtered",
        f"15.0 ± {100 * half(0.1, 0.2):.1f}",
        f"7.0 ± {half(5, 9):.1f}",
    ]


def test_more_tasks_may_change_the_order(stress: Planted) -> None:
    for source in "ab":
        bed = HardTestbed(source, "tasks", "fixed", "difficult", "80")
        stress.add(bed, 0.1, 0.1).add(bed, 0.3, 0.3, backbone=OTHER)
    table = ablation("tasks", stress)
    assert [row[2] for row in texts(table)] == ["10.0 ± 0.0", "30.0 ± 0.0"]
    assert [row[1].split(" ")[0] for row in texts(table)] == ["40.0", "25.0"]
    assert table.lines == []  # one backbone beside the judge has no order


@pytest.mark.parametrize(
    ("more", "verdict"),
    [
        ((0.1, 0.4, 0.3, 0.1), "is the same"),
        ((0.9, 0.4, 0.1, 0.3), "is not the same"),  # one keeps its rank
        ((0.4, 0.3, None, None), None),  # one backbone has no order
    ],
)
def test_the_order_is_that_of_all_backbones_beside_the_judge(
    more: tuple[float | None, ...], verdict: str | None
) -> None:
    planted = Planted()
    names = (JUDGE, OTHER, "third", "fourth")
    for backbone, level, many in zip(names, (0.9, 0.6, 0.5, 0.2), more, strict=True):
        planted.add(main("fixed", "difficult", "a"), level, level, backbone=backbone)
        if many is not None:
            bed = HardTestbed("a", "tasks", "fixed", "difficult", "80")
            planted.add(bed, many, many, backbone=backbone)
    lines = ablation("tasks", planted, "third", "fourth").lines
    sentence = "The order of the 3 backbones that took no part in choosing {} with more tasks."
    assert lines == ([] if verdict is None else [sentence.format(verdict)])


def test_ranks_of_four_backbones_have_a_correlation() -> None:
    planted = Planted()
    levels = {
        JUDGE: (0.9, 0.1),
        OTHER: (0.9, 0.5),
        "third": (0.8, 0.4),
        "fourth": (0.7, 0.2),
        "fifth": (0.6, 0.3),
    }
    for backbone, (uniform, difficult) in levels.items():
        planted.add(main("fixed", "uniform", "a"), uniform, uniform, backbone=backbone)
        planted.add(main("fixed", "difficult", "a"), difficult, difficult, backbone=backbone)
    table = hard_tables.ranks_table(planted.scores("third", "fourth", "fifth"))
    assert table is not None
    assert [row[-2:] for row in texts(table)] == [["1", "1"], ["2", "2"], ["3", "4"], ["4", "3"]]
    assert table.lines[0].startswith("fixed, protonet: Spearman of the 4 backbones' means +0.80 [")
    three = hard_tables.ranks_table(planted.scores("third", "fourth"))
    assert three is not None and three.lines == []  # three beside the judge have none


def test_a_variable_shape_is_described_by_its_limits(stress: Planted) -> None:
    for kind in ("uniform", "difficult"):
        stress.add(main("variable", kind, "a"), 0.5, 0.5)
    table = hard_tables.stress_table(stress.scores(shapes=["variable"], max_way=6, max_support=40))
    assert table.sheets[0].title == "Stress test, variable way and shot (up to 6 ways, 40 support images)"
    assert table.sheets[0].heads[2:] == [("a", column) for column in ("uniform", "difficult", "easy", "drop")]


def composition(attribute: str, value: str | None, support: float, query: float) -> Composition:
    gap, apart = (
        Interval(support - query, support - query - 0.1, support - query + 0.1, 2),
        abs(support - query),
    )
    share = (Interval(number, None, None, 1) for number in (support, query))
    return Composition(attribute, value, *share, gap, Interval(apart, None, None, 2), 0.75)


def why(tasks: list[bool], causes: dict[str, int]) -> Why:
    """Compositions of the source a; whether each difficult task has a cause, and in how many each cause is found."""
    kinds = {
        "uniform": [composition("pose", "side", 0.3, 0.25), composition("size", None, 0.5, 0.4)],
        "difficult": [composition("pose", "side", 0.75, 0.25)],
        "easy": [],
    }
    explained: Any = SimpleNamespace(
        tasks=[SimpleNamespace(findings=["a cause"] if with_cause else []) for with_cause in tasks],
        causes=[SimpleNamespace(attribute=name, tasks=count) for name, count in causes.items()],
        loss_and_accuracy=Correlation(0.5, 0.25, 0.75, 0.01, 9, "spearman"),
    )
    return Why({"a": kinds}, {"a": explained}, [])


def test_why_holds_the_compositions_and_counts_causes() -> None:
    causes = {"pose": 2, "size": 1, "light": 1, "blur": 1, "night": 0}
    table = hard_tables.why_table(why([True, False, True], causes))
    assert table is not None
    facts = {(record["kind"], record["attribute"]): record for record in table.records}
    assert list(facts) == [("uniform", "pose"), ("uniform", "size"), ("difficult", "pose")]
    difficult = facts["difficult", "pose"]
    assert [difficult[key] for key in ("source", "value", "support", "query", "gap", "coverage")] == [
        *("a", "side", 0.75, 0.25, 0.5, 0.75)
    ]
    assert difficult["gap_half"] == pytest.approx(0.1)
    assert facts["uniform", "size"]["value"] == ""
    assert [row[0] for row in texts(table)] == ["pose = side", "size"]  # the widest gap first
    assert table.lines == [
        "a: 2 of 3 difficult tasks have a cause among the attributes, most often pose (2), size (1), light (1).",
        "a: Spearman of accuracy and inverse query loss +0.50 [+0.25, +0.75].",
    ]
    without = hard_tables.why_table(why([False], {"pose": 0}))
    assert without is not None
    assert without.lines[0] == "a: 0 of 1 difficult tasks have a cause among the attributes."
    assert not hard_tables.why_table(Why({}, {}, [])).records


def test_only_fourteen_attributes_are_shown() -> None:
    explained = why([True], {})
    rows = [composition(f"attribute {number:02d}", None, number / 20, 0.0) for number in range(16)]
    table = hard_tables.why_table(Why({"a": {"uniform": rows}}, explained.explained, []))
    shown = texts(table)
    assert len(shown) == 14 and shown[0][0] == "attribute 15" and shown[-1][0] == "attribute 02"
    assert table is not None and len(table.records) == 16  # the file has them all


def test_tables_are_those_that_were_asked_for(stress: Planted) -> None:
    def stems(explained: Why | None = None, **changes: Any) -> list[str]:
        scores = stress.scores(why=explained, ablations=["greedy", "curated"], **changes)
        return [table.stem for table in hard_tables.hard_tables(scores)]

    assert stems() == ["stress", "ranks", "greedy"]  # no curated testbeds
    networks = {name: {"algorithm": "protonet", "steps": steps} for name, steps in ((JUDGE, 1), (OTHER, 2))}
    assert stems(why([True], {}), networks=networks) == ["stress", "ranks", "greedy", "trained", "why"]
    assert "trained" not in stems(networks={JUDGE: {"algorithm": "protonet"}})
    networks[OTHER]["size"] = 32
    assert "trained" not in stems(networks=networks)  # two things differ


def bars(axes: Any) -> dict[str, tuple[list[float], list[float]]]:
    """Label → middles and heights of its bars."""
    return {
        container.get_label(): (
            [round(bar.get_x() + bar.get_width() / 2, 6) for bar in container],
            [round(bar.get_height(), 6) for bar in container],
        )
        for container in axes.containers
        if hasattr(container, "patches")
    }


def test_pictures_show_the_numbers(stress: Planted, canvas: Any) -> None:
    for label, accuracy in STEPS.items():
        stress.add(HardTestbed("a", "steps", "fixed", "difficult", label), accuracy, accuracy)
    for source in "ab":
        stress.add(HardTestbed(source, "greedy", "fixed", "difficult", "FastDiffSel error"), 0.4, 0.4)
        stress.add(HardTestbed(source, "greedy", "fixed", "difficult", "greedy error"), 0.3, 0.3)
    ablations = ["steps", "greedy"]
    changes = {"ablations": ablations, "steps": [1, 5], "rounds": [1], "greedy_objectives": ["error"]}
    stress.seconds = {
        "a-difficult-fixed-greedy-FastDiffSel-error": 0.004,
        "a-difficult-fixed-greedy-greedy-error": 0.5,
    }
    drawings = hard_figures(stress.scores(**changes))
    assert set(drawings) == {"stress-fixed-protonet", "source-a-fixed", "source-b-fixed", "steps", "greedy"}
    [axes] = canvas(drawings["stress-fixed-protonet"])
    assert bars(axes) == {
        "uniform": ([-0.27, 0.73], [65.0, 75.0]),
        "difficult": ([0.0, 1.0], [40.0, 25.0]),
        "easy": ([0.27], [85.0]),  # sketch has no mean over both sources
    }
    assert [text.get_text() for text in axes.get_xticklabels()] == [f"{JUDGE} †", "sketch"]
    [axes] = canvas(drawings["source-b-fixed"])
    assert bars(axes)["difficult"][1] == [40.0, 30.0]
    [axes] = canvas(drawings["greedy"])
    assert {
        container.get_label(): (container[0].get_xdata()[0], container[0].get_ydata()[0])
        for container in axes.containers
    } == {
        "a, FastDiffSel, error": pytest.approx((2.0, 40.0)),
        "a, greedy, error": pytest.approx((250.0, 30.0)),
    }
    [axes] = canvas(drawings["steps"])
    lines = {line.get_label(): line[0] for line in axes.containers}
    assert lines["a, steps, random start"].get_xdata().tolist() == [1, 5]
    assert lines["a, steps, random start"].get_ydata() == pytest.approx([60.0, 25.0])
    assert lines["a, steps, uniform start"].get_ydata() == pytest.approx([40.0, 50.0])
    assert lines["a, rounds behind 1 step"].get_xdata().tolist() == [0, 1]


def test_pictures_of_ways_and_gaps_show_the_numbers(canvas: Any) -> None:
    planted = Planted()
    planted.add(main("fixed", "difficult", "a"), 0.4, 0.6, way=[3.0, 3.0])
    planted.add(main("fixed", "difficult", "b"), 0.4, 0.6, way=[3.0, 3.0])
    planted.add(HardTestbed("a", "filtered", "fixed", "difficult"), 0.1, 0.2, way=[5.0, 9.0])
    drawings = hard_figures(planted.scores(ablations=["filtered"], why=why([True], {})))
    [axes] = canvas(drawings["ways"])
    assert bars(axes) == {"chosen supports": ([-0.18], [3.0]), "filtered": ([0.18], [7.0])}
    kinds = {
        "uniform": [composition("pose", "side", 0.3, 0.25), composition("night", "yes", 0.0, 0.25)],
        "difficult": [composition("pose", "side", 0.75, 0.25), composition("night", "yes", 0.25, 0.25)],
        "easy": [composition("pose", "side", 0.25, 0.25), composition("night", "yes", 0.5, 0.25)],
    }
    explained = why([True], {})
    drawings = hard_figures(planted.scores(ablations=[], why=Why({"a": kinds}, explained.explained, [])))
    [axes] = canvas(drawings["gaps-a"])
    assert [text.get_text() for text in axes.get_yticklabels()] == ["pose = side", "night"]
    widths = {
        container.get_label(): [round(bar.get_width(), 6) for bar in container]
        for container in axes.containers
        if hasattr(container, "patches")
    }
    assert widths == {"uniform": [5.0, -25.0], "difficult": [50.0, 0.0], "easy": [0.0, 25.0]}
    numbers_only = {"uniform": [composition("size", None, 0.5, 0.4)]}
    without = hard_figures(
        planted.scores(ablations=[], why=Why({"a": numbers_only}, explained.explained, []))
    )
    assert "gaps-a" not in without  # a gap is of shares


def test_curated_shifts_are_paired_by_task(stress: Planted) -> None:
    for kind, values in (("matched", (0.9, 0.5)), ("shifted", (0.4, 0.2))):
        stress.add(HardTestbed("a", "curated", "fixed", kind, "coco-objects"), *values)
    table = ablation("curated", stress)  # sketch was not evaluated on them
    assert [(record["kind"], record["backbone"]) for record in table.records] == [
        (f"{kind}, coco-objects", JUDGE) for kind in ("matched", "shifted", "drop")
    ]
    assert numbers(table, kind="drop, coco-objects") == [pytest.approx((0.4, half(0.5, 0.3)))]
    [row] = texts(table)
    assert row[:3] == ["a", "coco-objects", JUDGE]
    assert row[3:5] == [f"70.0 ± {100 * half(0.9, 0.5):.1f}", f"30.0 ± {100 * half(0.4, 0.2):.1f}"]
    assert row[5] == f"+40.0 ± {100 * half(0.5, 0.3):.1f}"


def test_adapted_networks_stand_beside_protonet_on_the_same_tasks(stress: Planted) -> None:
    for kind, tuned, plain in (("uniform", (0.9, 0.7), (0.6, 0.6)), ("difficult", (0.6, 0.2), (0.5, 0.5))):
        bed = HardTestbed("a", "adapted", "fixed", kind)
        stress.add(bed, *tuned, method="finetune-all").add(bed, *plain)
    table = hard_tables.adapted_table(stress.scores(adapted=["finetune-all"]))
    assert numbers(table, method="finetune-all", kind="drop") == [pytest.approx((0.4, half(0.3, 0.5)))]
    assert numbers(table, method="protonet", kind="drop") == [pytest.approx((0.1, 0.0))]
    assert [row[2] for row in texts(table)] == ["finetune-all", "protonet"]
    assert texts(table)[1][3:] == ["60.0 ± 0.0", "50.0 ± 0.0", "+10.0 ± 0.0"]


def test_networks_that_differ_in_one_setting_are_compared_second_minus_first(stress: Planted) -> None:
    networks = {JUDGE: {"algorithm": "protonet"}, OTHER: {"algorithm": "matching"}}
    table = hard_tables.trained_table(stress.scores(networks=networks))
    label = f"sketch − {JUDGE} †"
    assert numbers(table, source="a", kind="uniform") == [pytest.approx((0.2, half(0.1, 0.3)))]
    assert numbers(table, source="b", kind="difficult") == [pytest.approx((-0.1, half(-0.3, 0.1)))]
    uniform, difficult = texts(table)
    gain = f"+10.0 ± {50 * hypot(half(0.1, 0.3), half(0.1, -0.1)):.1f}"
    assert uniform == ["fixed", "uniform", label, "algorithm", "mean of a, b", gain]
    assert difficult[-1].startswith("−15.0 ±")  # −0.2 on a, −0.1 on b


def test_the_widest_gaps_come_first_whichever_kind_has_them() -> None:
    def composition(attribute: str, value: str | None, gap: float) -> Any:
        return SimpleNamespace(attribute=attribute, value=value, gap=Interval(gap, None, None, 2))

    kinds = {
        "uniform": [composition("pose", "side", 0.05), composition("night", "yes", 0.3)],
        "difficult": [composition("pose", "side", -0.4), composition("night", "yes", 0.1)],
        "easy": [composition("size", None, 0.9), composition("blur", "yes", -0.2)],
    }
    assert widest_gaps(kinds) == [("pose", "side"), ("night", "yes"), ("blur", "yes")]
    assert widest_gaps(kinds, most=1) == [("pose", "side")]
