"""``train`` and ``tune`` with learning curves beside every trained network."""

from __future__ import annotations

from functools import wraps
from typing import Any

from longshot.reports import folder_curves
from longshot.training import TrainedNetwork, TuningResult
from longshot.training import train as run_training
from longshot.training import tune as run_tuning


@wraps(run_training)
def train(*arguments: Any, **settings: Any) -> TrainedNetwork:
    return run_training(*arguments, **{"curves": folder_curves, **settings})


@wraps(run_tuning)
def tune(*arguments: Any, **settings: Any) -> TuningResult:
    return run_tuning(*arguments, **{"curves": folder_curves, **settings})
