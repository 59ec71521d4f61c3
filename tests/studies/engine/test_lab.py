"""What a lab knows of its testbeds, and what it makes once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from longshot.studies import Draw, Lab, Plan


def lab(**networks: str) -> Lab[Any, Any]:
    nothing: Any = None
    records: Any = {name: SimpleNamespace(path=path) for name, path in networks.items()}
    return Lab(nothing, Plan(), nothing, {}, [], [], networks=records)


def test_a_judge_trained_otherwise_is_another_testbed() -> None:
    draw = Draw("hard", "toys", {"tasks": 2, "instances": "difficult", "judge": "small"})
    inputs = [lab(small=path)._inputs(draw) for path in ("/a/trainings/small-1", "/b/trainings/small-1")]
    assert inputs[0] == inputs[1]  # the folder was moved
    assert lab(small="/a/trainings/small-2")._inputs(draw) != inputs[0]
    assert lab()._inputs(draw) == draw.settings


def test_what_is_shared_is_made_once() -> None:
    own, made = lab(), list[int]()
    assert [own.once("x", lambda: made.append(1) or len(made)) for _ in range(2)] == [1, 1]
    assert own.once("y", lambda: 5) == 5


def test_networks_of_the_study_are_called_without_the_path_of_its_folder() -> None:
    asked_for: list[Any] = []
    own = lab(small="/a/trainings/small-1")
    own.job = SimpleNamespace(evaluate=lambda beds, backbone, *_: asked_for.append(backbone))  # type: ignore[assignment]
    for backbone in ("small", "pixels", "small + pixels"):
        own.evaluate([], backbone, [])
    assert asked_for == [
        {"trainings/small-1": "/a/trainings/small-1"},
        "pixels",
        {"trainings/small-1 + pixels": "/a/trainings/small-1 + pixels"},
    ]
