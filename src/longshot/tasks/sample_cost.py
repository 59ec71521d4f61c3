"""What drawing a testbed would cost."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from longshot.data import DatasetLike
from longshot.tasks.base import Instances
from longshot.tasks.sample import sample
from longshot.tasks.words import JUDGED, choice_of

_TRIAL = 256  # tasks drawn for an estimate


@dataclass(frozen=True)
class SampleEstimate:
    """What a testbed would cost at most; where features judge, without embedding and selection."""

    tasks: int
    seconds: float
    bytes: int
    without_features: bool


def estimate_sample(
    dataset: DatasetLike | Sequence[DatasetLike],
    *,
    tasks: int = 600,
    instances: Instances | str = "uniform",
    **settings: Any,
) -> SampleEstimate:
    """Draw a few tasks, without looking at features, and multiply; takes what ``sample`` takes."""
    looks = instances in JUDGED or getattr(instances, "features_hash", None) is not None
    if looks:
        settings.pop("exclude_suspects", None)
        settings = {name: value for name, value in settings.items() if choice_of(name) != "instances"}
        instances = "uniform"
    count = min(tasks, _TRIAL)
    start = time.monotonic()
    trial = sample(dataset, tasks=count, instances=instances, **{**settings, "allow_repeats": True})
    listed = settings.get("published") is not None  # a list is read as a whole
    factor = 1.0 if listed else tasks / count
    return SampleEstimate(
        tasks=len(trial) if listed else tasks * len(trial.datasets),
        seconds=(time.monotonic() - start) * factor,
        bytes=int(trial.table.nbytes * factor),
        without_features=looks,
    )
