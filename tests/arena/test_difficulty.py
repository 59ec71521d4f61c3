"""Intrinsic and modelling difficulty over all entries of a phase, by hand."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from longshot.arena import Competition, submission_runs
from longshot.arena.competition_data import CompetitionData
from longshot.arena.inside.blind_tasks import METRICS, TaskScore
from longshot.arena.result_pages import (
    TASK_SCORES,
    TaskRecord,
    phase_difficulty,
    read_records,
    write_record,
)


def record(draw: str, **scores: list[float]) -> TaskRecord:
    """A run with these scores of every dataset."""
    datasets = tuple(name for name, values in scores.items() for _ in values)
    values = tuple(value for dataset in scores.values() for value in dataset)
    return TaskRecord(draw=draw, dataset=datasets, normalized_accuracy=values)


def half(values: list[float]) -> float:
    """Of Student's interval."""
    return float(stats.t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / len(values) ** 0.5)


def test_by_hand_over_three_entries_and_two_seeds() -> None:
    """Birds: means 0.5, 0.7, 0.2; signs: 0.4, 0.3, 0.35. The same tasks for all, so differences are paired."""
    entries = {
        "a": [record("1", birds=[0.4, 0.6], signs=[0.4]), record("2", birds=[0.5, 0.5], signs=[0.4])],
        "b": [record("1", birds=[0.6, 0.8], signs=[0.3]), record("2", birds=[0.6, 0.8], signs=[0.3])],
        "c": [record("1", birds=[0.0, 0.4], signs=[0.3]), record("2", birds=[0.1, 0.3], signs=[0.4])],
    }
    difficulty = phase_difficulty(entries)
    assert difficulty is not None
    assert (difficulty.entries, difficulty.paired, difficulty.left_out) == (("a", "b", "c"), True, 0)
    birds, signs = difficulty.datasets
    assert (birds.dataset, birds.best, birds.worst) == ("birds", 1, 2)
    assert (birds.intrinsic.mean, birds.modelling.mean) == pytest.approx((0.3, 0.5))
    assert birds.intrinsic.half == pytest.approx(half([0.4, 0.2, 0.4, 0.2]))
    assert birds.modelling.half == pytest.approx(half([0.6, 0.4, 0.5, 0.5]))
    assert (signs.best, signs.worst) == (0, 1)
    assert (signs.intrinsic.mean, signs.modelling.mean) == pytest.approx((0.6, 0.1))


def test_tasks_of_their_own_are_not_paired() -> None:
    difficulty = phase_difficulty(
        {"a": [record("1", birds=[0.4, 0.6, 0.5])], "b": [record("2", birds=[0.9, 0.7])]}
    )
    assert difficulty is not None
    assert not difficulty.paired
    (birds,) = difficulty.datasets
    low, high = stats.ttest_ind([0.9, 0.7], [0.4, 0.6, 0.5], equal_var=False).confidence_interval()
    assert (birds.modelling.mean, birds.modelling.low, birds.modelling.high) == pytest.approx(
        (0.3, low, high)
    )


def test_entries_without_a_record_are_counted() -> None:
    difficulty = phase_difficulty({"a": [record("1", birds=[0.4, 0.6])], "b": None})
    assert difficulty is not None
    assert (difficulty.entries, difficulty.left_out) == (("a",), 1)
    assert phase_difficulty({"b": None}) is None


def test_datasets_that_only_some_have_are_left_out() -> None:
    entries = {
        "a": [record("1", birds=[0.4], signs=[0.5])],
        "b": [record("2", signs=[0.5], fish=[0.1])],
    }
    difficulty = phase_difficulty(entries)
    assert difficulty is not None
    assert [each.dataset for each in difficulty.datasets] == ["signs"]
    assert phase_difficulty({"a": [record("1", birds=[0.4])], "b": [record("2", fish=[0.1])]}) is None


def test_a_run_keeps_its_scores_by_task(
    competition: Competition, submission, tmp_path: Path, needs_sandbox: None
) -> None:
    outcome = submission_runs.run(
        CompetitionData(competition), competition.phase("feedback"), submission(), tmp_path / "run", seed=1
    )
    assert outcome.scores is not None, outcome.reason
    records = read_records([tmp_path / "run"])
    assert records is not None
    scores = json.loads((tmp_path / "run" / "scores.json").read_text())
    assert len(records[0].dataset) == scores["overall"]["tasks"] == 3
    assert set(records[0].dataset) == {"two"}
    mean = np.mean(records[0].normalized_accuracy)
    assert mean == pytest.approx(scores["overall"]["normalized_accuracy"])


def test_equal_draws_are_those_of_equal_tasks(competition: Competition, tmp_path: Path) -> None:
    data, phase = CompetitionData(competition), competition.phase("feedback")
    folders = []
    for number, seed in enumerate((1, 1, 2)):
        tasks = data.test_tasks(phase, seed)
        scored = [TaskScore(task.dataset, task.ways, task.shots, 0.1, {METRICS[0]: 0.5}) for task in tasks]
        folders.append(tmp_path / str(number))
        write_record(folders[-1], tasks, scored)
    records = read_records(folders)
    assert records is not None
    assert records[0].draw == records[1].draw != records[2].draw
    (folders[2] / TASK_SCORES).unlink()
    assert read_records(folders) is None
