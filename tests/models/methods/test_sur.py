"""SUR over several backbones."""

from __future__ import annotations

import numpy as np
import torch

from longshot.base import Ragged, TaskRows
from longshot.models import Gatherer, World, get_method
from longshot.models.methods.method_checks import run_method


def accuracy(method: str, arrays: list[np.ndarray], count: int = 20) -> float:
    """Over 5-way 5-shot tasks of the world's classes, the arrays side by side."""
    world, rng = World.make(), np.random.default_rng(0)
    tasks = [world.task(rng, [5] * 5, [6] * 5) for _ in range(count)]
    bound = TaskRows(
        tasks=np.arange(count),
        ways=np.full(count, 5),
        support=Ragged.from_lists([task.support for task in tasks]),
        support_label=Ragged.from_lists([task.support_label for task in tasks], "int16"),
        query=Ragged.from_lists([task.query for task in tasks]),
        query_label=Ragged.from_lists([task.query_label for task in tasks], "int16"),
    )
    batch, truth = Gatherer(arrays, torch.device("cpu")).batch(bound, np.arange(count))
    with torch.no_grad():
        return float((get_method(method).scores(batch).argmax(2) == truth).double().mean())


def test_a_backbone_of_noise_is_weighed_down() -> None:
    good = World.make().features
    noise = np.random.default_rng(1).standard_normal((len(good), 64)).astype(np.float32)
    assert accuracy("sur", [good, noise]) > accuracy("sur(steps=0)", [good, noise]) + 0.01


def test_one_backbone_is_the_cosine_to_the_mean_of_unit_vectors() -> None:
    world, rng = World.make(), np.random.default_rng(2)
    tasks = [world.task(rng, [5] * 5, [6] * 5) for _ in range(5)]
    expected = run_method(get_method("simpleshot(center='none', distance='cosine')"), world, tasks)
    for first, second in zip(run_method(get_method("sur"), world, tasks), expected, strict=True):
        np.testing.assert_allclose(first, second, atol=1e-4)
