"""Predictions against easyfsl 1.5.0 on the same features and tasks with the same settings."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks._easyfsl import PEERS, load
from benchmarks.methods import compare, made_up

pytestmark = pytest.mark.skipif(
    load() is None, reason="needs easyfsl: pip install --no-deps easyfsl==1.5.0 (and tqdm)"
)
TASKS = {"TIM": 15, "PT-MAP": 40, "Transductive fine-tuning": 40}  # those that take easyfsl long


@pytest.mark.parametrize("shot", [1, 5])
@pytest.mark.parametrize("name", PEERS)
def test_predictions_equal_those_of_easyfsl(name: str, shot: int) -> None:
    features = made_up(40, 40)
    tasks = TASKS.get(name, 100)
    same, ours, other = compare(features.reshape(-1, 640), np.arange(41) * 40, name, shot, tasks)
    assert same >= 0.995
    assert abs(ours - other) <= 0.001 + (0.002 if tasks < 100 else 0)  # one query of 2,000 is 0.05 points
