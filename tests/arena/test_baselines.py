"""All baselines, as submissions in the sandbox, on a small competition of toybox and with small settings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from longshot.arena import BASELINES, load, submission_runs, write_baseline
from longshot.arena.competition_data import CompetitionData
from longshot.arena.inside.league import shipped_weights
from longshot.arena.settings import META
from longshot.base import UserError

VALID = {"valid_tasks": 2, "valid_every": 2}
SMALL: dict[str, dict[str, Any]] = {
    "random": {},
    "train-from-scratch": {"network": "cnn4(width=4)", "steps": 3},
    "fine-tuning": {"network": "cnn4(width=4)", "train_steps": 3, "task_steps": 5, **VALID},
    "matching": {"network": "cnn4(width=4)", "train_tasks": 2, **VALID},
    "prototypical": {"network": "cnn4(width=4)", "train_tasks": 2, **VALID},
    "fomaml": {"network": "cnn4(width=4)", "train_tasks": 2, "task_steps": 2, **VALID},
    "metadelta": {
        "network": "cnn4(width=4)",
        "weights": "none",
        "size": 24,
        "accumulate": 1,
        "train_steps": 2,
        **VALID,
    },
}
TRAINED = ("fine-tuning", "matching", "prototypical", "fomaml", "metadelta")
TRAINED_ALIKE = (
    "train-from-scratch",
    "matching",
    "fomaml",
    "metadelta",
    "fine-tuning",
)  # much of what they do, others do too: long tests


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> CompetitionData:
    """Train on two families of toybox and test on a third, images of 32 × 32."""
    folder = tmp_path_factory.mktemp("toybox")
    (folder / "competition.yaml").write_text("""
title: small toybox
datasets: {fish: toybox#fish, flowers: toybox#flowers, tools: toybox#tools}
image_size: 32
shape: {min_way: 2, max_way: 5, min_shot: 1, max_shot: 5, query: 5}
limits: {seconds: 600}
phases:
  feedback: {train: [fish, flowers], test: [tools], tasks: 3}
""")
    return CompetitionData(load(folder))


def test_every_baseline_has_small_settings():
    assert set(SMALL) == set(BASELINES)


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.long) if name in TRAINED_ALIKE else name for name in SMALL],
)
def test_a_baseline_runs_to_a_score(data, tmp_path, needs_sandbox, name):
    code = write_baseline(name, tmp_path / "code", SMALL[name])
    phase = data.competition.phase("feedback")
    outcome = submission_runs.run(data, phase, code, tmp_path / "run", seed=1, league=META)
    assert outcome.reason is None, outcome.reason
    assert outcome.scores["overall"]["tasks"] == 3
    answers = (tmp_path / "run" / "answers.jsonl").read_text().splitlines()
    tasks = data.test_tasks(phase, 1)
    assert [len(json.loads(line)["predicted"]) for line in answers] == [len(task.query) for task in tasks]
    log = [
        json.loads(line) for line in (tmp_path / "run" / "log.txt").read_text().splitlines() if "{" in line
    ]
    judged = [line["validation"] for line in log if "validation" in line]
    chosen = [line["chosen"] for line in log if "chosen" in line]
    if name in TRAINED:  # one of the two training datasets is held out
        held_out = {tuple(line["datasets"]) for line in log if "datasets" in line}
        assert held_out in ({("fish",)}, {("flowers",)})
        assert judged == {"metadelta": [0, 2], "fine-tuning": [2, 3]}.get(name, [2])
        assert len(chosen) == 1
        assert chosen[0] in judged
    else:
        assert (judged, chosen) == ([], [])


@pytest.mark.parametrize("name", SMALL)
def test_a_baseline_may_enter_the_meta_learning_league(tmp_path: Path, name: str):
    code = write_baseline(name, tmp_path / "code", {"weights": "none"} if name == "metadelta" else {})
    assert shipped_weights(code) == []


def test_a_setting_that_is_not_there_is_named(tmp_path):
    with pytest.raises(
        UserError, match="'prototypical' has no setting 'steps'; it has: network, weights, train_tasks, lr"
    ):
        write_baseline("prototypical", tmp_path / "code", {"steps": 3})
    assert not (tmp_path / "code").exists()


def test_maml_predicts_with_the_statistics_it_adapted_to(competition, tmp_path, needs_sandbox):
    """Classes that differ in brightness are told apart by adapting alone; with other statistics one class gets all."""
    settings = {"network": "cnn4(width=8)", "train_tasks": 0, "task_steps": 20, "task_lr": 0.1}
    code = write_baseline("fomaml", tmp_path / "code", settings)
    (competition.folder / "secret").write_text("0" * 64)  # the same tasks every time
    (competition.folder / "secret").chmod(0o600)
    phase = competition.phase("feedback")
    outcome = submission_runs.run(CompetitionData(competition), phase, code, tmp_path / "run", seed=1)
    assert outcome.reason is None, outcome.reason
    assert outcome.scores["overall"]["normalized_accuracy"] > 0.5
