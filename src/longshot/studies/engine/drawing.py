"""Testbeds of tasks of one shape, as most studies draw them."""

from __future__ import annotations

from typing import Any, Protocol

from longshot.datasets.dataset import Dataset
from longshot.testbeds.sample import sample
from longshot.testbeds.shapes import FixedShape
from longshot.testbeds.testbed import Testbed


class TaskSettings(Protocol):
    """Settings that tasks of one shape need."""

    tasks: int
    query: int
    seed: int


def draw_fixed(
    settings: TaskSettings, dataset: Dataset, way: int, shot: int, split: str | None, **options: Any
) -> Testbed:
    """Tasks of ``way`` classes and ``shot`` support images each; ``options`` are those of ``longshot.sample``."""
    shape = FixedShape(way, shot, settings.query)
    return sample(dataset, tasks=settings.tasks, shape=shape, seed=settings.seed, split=split, **options)
