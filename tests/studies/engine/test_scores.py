"""Rows of a run by testbed, network and method, also after the study's folder was moved."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from longshot.studies.engine.lab import Scores, numbers, recorded_name, select_rows

HERE, THERE = "/here/study/trainings/maml-1/best", "/there/study/trainings/maml-1/best"
OTHER = "/here/study/trainings/maml-2/best"


def rows(*entries: tuple[str, str, str, int, float]) -> pa.Table:
    names = ("testbed", "backbone", "method", "task", "accuracy")
    return pa.Table.from_pylist([dict(zip(names, entry, strict=True)) for entry in entries])


def select(table: pa.Table, backbone: str = HERE, method: str = "protonet") -> list[float]:
    testbed: Any = SimpleNamespace(content_hash="bed")
    return numbers(select_rows(table, testbed, backbone, method)).tolist()


def test_rows_of_other_testbeds_networks_and_methods_are_left_out_and_tasks_are_in_order() -> None:
    table = rows(
        ("bed", HERE, "protonet", 2, 0.2),
        ("bed", HERE, "protonet", 0, 0.0),
        ("bed", HERE, "ridge", 0, 0.7),
        ("other", HERE, "protonet", 0, 0.8),
        ("bed", OTHER, "protonet", 0, 0.9),
        ("bed", HERE, "protonet", 1, 0.1),
    )
    assert select(table) == [0.0, 0.1, 0.2]
    assert select(table, method="ridge") == [0.7]
    assert select(table, OTHER) == [0.9]
    assert select(table, "pixels") == []


def test_a_moved_study_has_each_task_once_under_either_name() -> None:
    table = rows(
        ("bed", HERE, "protonet", 0, 0.1),
        ("bed", THERE, "protonet", 0, 0.1),
        ("bed", THERE, "protonet", 1, 0.2),
        ("bed", "pixels + " + THERE, "protonet", 0, 0.6),
    )
    assert select(table, HERE) == select(table, THERE) == [0.1, 0.2]
    assert select(table, "pixels + " + HERE) == [0.6]


def test_networks_of_equal_name_outside_a_study_are_not_one() -> None:
    table = rows(("bed", "/a/maml-1", "protonet", 0, 0.1), ("bed", "/b/maml-1", "protonet", 0, 0.2))
    assert select(table, "/a/maml-1") == [0.1] and select(table, "/b/maml-1") == [0.2]
    nested = "/x/trainings/old/trainings/maml-1/best"  # the study is the innermost
    assert select(rows(("bed", nested, "protonet", 0, 0.3)), HERE) == [0.3]


def test_networks_of_equal_weights_are_one_in_a_run(tmp_path: Path) -> None:
    """The run calls them by the first; one that it has under its own name keeps it."""
    run = {"backbones": {"/s/trainings/first": {"print": {"networks": [{"weights_hash": "w"}]}}}}
    for name, weights in (("again", "w"), ("other", "v")):
        (tmp_path / "trainings" / name).mkdir(parents=True)
        (tmp_path / "trainings" / name / "network.json").write_text(json.dumps({"weights_hash": weights}))
    folder = tmp_path / "trainings"
    assert recorded_name(run, f"{folder}/again") == "/s/trainings/first"
    assert recorded_name(run, f"{folder}/other") == f"{folder}/other"
    assert recorded_name(run, f"{folder}/first") == f"{folder}/first"  # the same place in a moved study
    assert recorded_name(run, "pixels") == "pixels"
    results: Any = SimpleNamespace(
        run=run, table=lambda: rows(("bed", "/s/trainings/first", "protonet", 0, 0.4))
    )
    bed: Any = SimpleNamespace(content_hash="bed")
    scores = Scores(results, {"easy": bed}, {"again": f"{folder}/again"})
    for network in ("again", f"{folder}/again"):  # by its name in the study, and by its path
        assert scores.values("easy", network, "protonet").tolist() == [0.4]
    pair = {"networks": [{"weights_hash": "w"}, {"weights_hash": "v"}]}
    several = {"backbones": {"/s/trainings/first + /s/trainings/second": {"print": pair}}}
    assert recorded_name(several, f"{folder}/again + {folder}/other") in several["backbones"]
