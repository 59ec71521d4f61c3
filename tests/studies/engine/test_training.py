"""What a training came to: its budget in steps, its ceiling in time, and where it starts from."""

from __future__ import annotations

from typing import Any

import pytest

from longshot.studies import StudyTraining
from longshot.studies.engine import study_training as module


def trained(monkeypatch: pytest.MonkeyPatch, done: int, seconds: float, **options: Any) -> Any:
    outcome = {"steps": done, "best_step": done, "seconds": seconds, "validation_accuracy": None}
    monkeypatch.setattr(StudyTraining, "run", lambda self, folder, device: "trainings/x")
    monkeypatch.setattr(module, "training_outcome", lambda path: outcome)
    nothing: Any = None
    return StudyTraining("x", nothing, "multiclass", options, identity=1).record(nothing, "cpu")


def test_a_training_that_ran_out_of_time_hit_its_ceiling(monkeypatch: pytest.MonkeyPatch) -> None:
    record = trained(monkeypatch, 120, 60.0, steps=400, minutes=1.0)
    assert record.ceiling and record.in_words == "120 of 400 steps in 1.0 minutes"
    assert trained(monkeypatch, 120, 60.0, epochs=3.0, minutes=1.0).ceiling


def test_a_training_with_its_budget_done_did_not(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not trained(monkeypatch, 400, 59.0, steps=400, minutes=1.0).ceiling
    assert not trained(monkeypatch, 400, 61.0, steps=400, minutes=1.0).ceiling  # the last step ended late
    assert not trained(monkeypatch, 400, 900.0, steps=400).ceiling


def test_a_start_among_the_studys_networks_is_where_that_one_lies() -> None:
    nothing: Any = None
    training = StudyTraining("y", nothing, "protonet", {"start": "base"}, identity=[1])
    assert training.started_from({}) is training
    moved = training.started_from({"base": "/study/trainings/base-1234"})
    assert moved.options["start"] == "/study/trainings/base-1234"
    again = training.started_from({"base": "/elsewhere/trainings/base-1234"})
    assert moved.folder == again.folder != training.folder


def test_the_cost_of_a_training_whose_start_is_not_trained_is_that_of_its_network() -> None:
    nothing: Any = None
    base = StudyTraining("a", nothing, "protonet", {"network": "cnn4(width=4)", "size": 16, "steps": 9}, 1)
    again = StudyTraining("b", nothing, "protonet", {"start": "a", "steps": 2}, 2).begun_anew(base)
    assert again.options == {"network": "cnn4(width=4)", "size": 16, "steps": 2}


def test_trainings_of_one_kind_cost_the_same_per_step() -> None:
    nothing: Any = None

    def training(algorithm: str = "protonet", **options: Any) -> StudyTraining:
        return StudyTraining("a", nothing, algorithm, {"network": "cnn4"} | options, 1)

    assert training(steps=2, seed=1).kind == training(steps=90, seed=2).kind
    kinds = {training().kind, training("maml").kind, training(size=32).kind, training(network="vit").kind}
    assert len(kinds) == 4
