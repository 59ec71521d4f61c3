"""Rows of the study of domains as arrays, units and trainings, on planted rows."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from longshot.studies import get_study, layered
from longshot.studies.cross_domain import scores as domain_scores
from longshot.studies.cross_domain import tables
from longshot.studies.cross_domain.figures import figures
from longshot.studies.cross_domain.scores import (
    CROSS,
    OTHER,
    OWN,
    WITHIN,
    DomainScores,
    SettingTasks,
    read_tasks,
)
from longshot.studies.cross_domain.settings import CrossDomainSettings
from longshot.studies.cross_domain.training import DomainTraining


def rows(testbed: str, backbone: str, *scores: float, way: int, shot: float) -> list[dict[str, Any]]:
    facts = {
        "testbed": testbed,
        "backbone": backbone,
        "method": "call",
        "dataset": testbed,
        "setting": "inductive",
    }
    return [
        {
            **facts,
            "task": task,
            "way": way,
            "mean_shot": shot,
            "normalized_accuracy": score,
            "accuracy": score / 2,
        }
        for task, score in enumerate(scores)
    ]


def piece(setting: str, trained: str, testbed: str, backbone: str) -> DomainScores:
    return DomainScores(setting, trained, "matching", "call", testbed, backbone)


def test_tasks_of_a_setting_are_read_domain_after_domain() -> None:
    listed = [
        *rows("a", "net a", 0.1, 0.2, way=2, shot=4.6),
        *rows("b", "net b", 0.3, way=7, shot=1.2),
        *rows("a", "shared", 0.5, 0.6, way=2, shot=4.6),
        *rows("b", "shared", 0.7, way=7, shot=1.2),
        *rows("c", "shared", 0.9, way=9, shot=9.0),
    ]
    results: Any = SimpleNamespace(table=lambda: pa.Table.from_pylist(listed))
    pieces = [
        *(piece(WITHIN, OWN, name, f"net {name}") for name in "ab"),
        *(piece(WITHIN, OTHER, name, "shared") for name in "ab"),
        piece(CROSS, OTHER, "c", "shared"),
    ]
    testbeds: Any = {name: SimpleNamespace(content_hash=name) for name in "abc"}
    tasks = read_tasks(results, WITHIN, pieces, testbeds)
    assert tasks.domain.tolist() == ["a", "a", "b"] and len(tasks) == 3
    assert tasks.way.tolist() == [2, 2, 7] and tasks.shot.tolist() == [5, 5, 1]
    assert tasks.normalised[OWN, "matching"].tolist() == [0.1, 0.2, 0.3]
    assert tasks.scores(OTHER, ["matching"]).tolist() == [[0.5], [0.6], [0.7]]
    assert tasks.accuracy[OWN, "matching"] == pytest.approx([0.05, 0.1, 0.15])
    assert read_tasks(results, CROSS, pieces, testbeds).domain.tolist() == ["c"]


def test_a_unit_of_a_joined_run_has_the_rows_of_its_domain() -> None:
    run = {
        "backbones": {"net a": {"f": {"networks": [{"weights_hash": "w2"}, {"weights_hash": "w1"}]}}},
        "methods": {"call": {"identity": "i"}},
    }
    results: Any = SimpleNamespace(run=run)

    def unit(*scores: float, start: int, backbone: str = "net a") -> Any:
        table = pa.Table.from_pylist(rows("a", backbone, *scores, way=2, shot=5))
        own = piece(WITHIN, OWN, "a", backbone)
        return domain_scores._unit(results, own, table, "joined", start, "own domain", 3)

    first, second = unit(0.1, start=4), unit(0.1, 0.2, start=5)
    assert (first.start, first.stop) == (4, 5) and (second.start, second.stop) == (5, 7)
    assert (first.testbed, first.testbed_name, first.dataset) == ("joined", WITHIN, "a")
    assert (first.backbone, first.method, first.identity) == ("own domain", "call", "i")
    assert (first.setting, first.seed) == ("inductive", 3)
    run["backbones"]["net b"] = {"f": {"networks": [{"weights_hash": "w3"}]}}
    assert unit(0.1, start=4, backbone="net b").features != first.features  # other weights, another unit


def test_what_is_not_trained_is_joined_once() -> None:
    def repeated(method: str, setting: str, trained: str) -> bool:
        return domain_scores._repeated(DomainScores(setting, trained, method, "call", "bed", "net"))

    assert repeated("train-from-scratch", WITHIN, OTHER)
    assert not repeated("train-from-scratch", WITHIN, OWN)
    assert not repeated("train-from-scratch", CROSS, OTHER)
    assert not repeated("matching", WITHIN, OTHER)


@pytest.fixture
def settings() -> CrossDomainSettings:
    made = layered(get_study("cross-domain"), None, {"methods": ["matching", "prototypical"]}).settings
    assert isinstance(made, CrossDomainSettings)
    return made


def test_trainings_are_told_from_their_records(
    settings: CrossDomainSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    best = {"step": 1500, "accuracy": 0.625, "low": 0.5, "high": 0.75}
    monkeypatch.setattr(tables, "best_validation", lambda path: best)
    monkeypatch.setattr(tables, "seconds_of", lambda path: 1234.56)
    networks = {DomainTraining(0, "a", "matching"): Path("x"), DomainTraining(2, None, "fomaml"): Path("y")}
    table = tables.trainings_table(settings, networks)
    own, shared = ([cell.text for cell in row] for row in table.sheets[0].blocks[0])
    assert own == ["1", "a", "matching", "4,290", "4,290", "6", "1,500", "62.5", "1,234.6"]
    assert shared == ["3", OTHER, "fomaml", "30,000", "15,000", "6", "1,500", "62.5", "1,234.6"]
    assert table.records[0]["low"] == 0.5 and table.records[1]["run"] == 3


def test_pictures_show_the_numbers(settings: CrossDomainSettings, canvas: Any) -> None:
    import numpy as np

    methods = ("matching", "prototypical")
    wave = np.tile([0.1, -0.1], 10)
    levels = {"matching": np.repeat([0.2, 0.0], 10), "prototypical": np.repeat([0.6, 0.2], 10)}
    values = {(trained, name): level + wave for trained in (OWN, OTHER) for name, level in levels.items()}
    way, shot = np.repeat([2, 20], 10), np.full(20, 5)
    planted = SettingTasks(np.repeat(["all-a", "all-b"], 10), way, shot, values, values)
    drawings = figures(settings, "all", {WITHIN: planted, CROSS: planted})
    within, cross = canvas(drawings["methods"])
    for axes in (within, cross):
        heights = [bar.get_height() for bar in axes.patches]
        assert heights == pytest.approx([10.0, 40.0])
    assert within.get_title(loc="left").endswith("2–20-way 5-shot, 20 tasks")
    assert [text.get_text() for text in within.get_xticklabels()] == list(methods)
    ways, shots = canvas(drawings["ways-and-shots"])
    lines = {container.get_label(): container[0] for container in ways.containers}
    assert lines["matching"].get_ydata() == pytest.approx([20.0, 0.0])
    assert lines["prototypical"].get_ydata() == pytest.approx([60.0, 20.0])
    middle = (lines["matching"].get_xdata() + lines["prototypical"].get_xdata()) / 2
    assert middle == pytest.approx([2.0, 20.0])  # drawn beside one another, around the ways
    assert [text.get_text() for text in shots.get_xticklabels()] == ["5"]
    within, _ = canvas(drawings["difficulty"])
    stacked = {
        bars.get_label(): [(bar.get_y(), bar.get_height()) for bar in bars] for bars in within.containers
    }
    assert np.array(stacked["worst baseline"]) == pytest.approx(np.array([(0, 20), (0, 0)]))
    assert np.array(stacked["modelling difficulty"]) == pytest.approx(np.array([(20, 40), (0, 20)]))
    assert np.array(stacked["intrinsic difficulty"]) == pytest.approx(np.array([(60, 40), (20, 80)]))
    assert [text.get_text() for text in within.get_xticklabels()] == ["a", "b"]
